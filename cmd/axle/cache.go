//go:build !scripted

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/ollama/ollama/format"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/axle-llm/axle/engine/hosthead"
	"github.com/axle-llm/axle/internal/terminal"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/rows"
	"github.com/axle-llm/axle/models/store"
)

func init() { register(newCacheCmd) }

// rowsDir is where a store's folder keeps rows.
func rowsDir(store string) string { return filepath.Join(store, "rows") }

func newCacheCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "Show or clear the KV cache of conversations on disk",
		Long: `Cache lists what "axle serve --cache-disk SIZE" keeps in the store's folder
"rows", or in the folder AXLE_ROWS: evaluated beginnings of conversations. A
server reads them instead of evaluating the text again. Each API key finds its
own only. The last line counts copies of LM heads for this machine's processor
(axle serve --head).

Run it as the server's user.`,
		Example: `  axle cache
  sudo -u axle AXLE_MODELS=/var/lib/axle/models axle cache`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			dir, heads, err := cacheDir(c.Context())
			if err != nil {
				return err
			}
			all, err := rows.Look(dir)
			if err != nil {
				return cacheError(err)
			}
			out := [][]string{{"NAME", "SIZE", "BLOCKS", "STATES", "LAST USED"}}
			for _, u := range all {
				out = append(out, []string{cmp.Or(u.Model, "unknown"), models.HumanBytes(u.Bytes), strconv.Itoa(u.Blocks),
					strconv.Itoa(u.States),
					format.HumanTime(u.Used, "Never")})
			}
			if err := terminal.Rows(c.OutOrStdout(), "", out); err != nil {
				return err
			}
			copies := hosthead.Look(heads, "")
			if len(copies) == 0 {
				return nil
			}
			size := int64(0)
			for _, h := range copies {
				size += h.Bytes
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "\nLM heads for this machine's processor: %d, %s\n", len(copies), models.HumanBytes(size))
			return err
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "clear [MODEL…]",
		Short: "Remove the KV cache of conversations from disk",
		Long: `Clear removes what conversations with the named models have left on disk, of
every API key. Without a name it removes everything, and the copies of LM
heads for this machine's processor. A server may be at work: it evaluates again
what it does not find, and copies a head again when it loads the model.`,
		Example: "  axle cache clear qwen3:0.6b",
		RunE: func(c *cobra.Command, args []string) error {
			dir, heads, err := cacheDir(c.Context())
			if err != nil {
				return err
			}
			freed, err := clearRows(dir, args)
			if err == nil && len(args) == 0 {
				var copies int64
				copies, err = hosthead.Clear(heads, "")
				freed += copies
			}
			if err != nil {
				return cacheError(err)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "removed %s\n", models.HumanBytes(freed))
			return err
		},
	})
	return cmd
}

// provenDir is where a store's folder keeps what was found out about cards and models, and the LM
// heads for this machine's processor.
func provenDir(store string) string { return filepath.Join(store, "proven") }

// cacheDir is the folder of rows that a command is about, and that of the store's LM heads.
func cacheDir(ctx context.Context) (dir, heads string, err error) {
	o, err := wholeStore(ctx)
	at := cmp.Or(o.Dir, store.DefaultDir())
	return cmp.Or(os.Getenv("AXLE_ROWS"), rowsDir(at)), provenDir(at), err
}

// cacheError says what helps where the folder is another user's.
func cacheError(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; it is for the server's user only; for the service: "+
			"sudo -u axle AXLE_MODELS=/var/lib/axle/models axle cache", err)
	}
	return err
}

// clearRows removes the rows of the named models from a folder. One that has none is told by name.
func clearRows(dir string, names []string) (freed int64, err error) {
	if len(names) == 0 {
		return rows.Clear(dir, nil)
	}
	for _, name := range names {
		n, err := models.ParseName(name)
		if err != nil {
			return freed, err
		}
		found := false
		bytes, err := rows.Clear(dir, func(u rows.Usage) bool {
			m, err := models.ParseName(u.Model)
			found = found || err == nil && m.Full() == n.Full()
			return err == nil && m.Full() == n.Full()
		})
		freed += bytes
		if err == nil && !found {
			err = fmt.Errorf("%s has left nothing on disk: axle cache shows what has", name)
		}
		if err != nil {
			return freed, err
		}
	}
	return freed, nil
}

// openRows opens the tier on disk that a server was asked for, in the folder dir. A secret that
// cannot be read is an error: without it the server would find nothing of what others have. What
// else it cannot open it tells, and does without.
func (o machineOptions) openRows(dir string, far remote) (*rows.Disk, error) {
	var secret []byte
	if o.rowsSecret != "" {
		var err error
		if secret, err = rows.ReadSecret(o.rowsSecret); err != nil {
			return nil, fmt.Errorf("--rows-secret: %w", err)
		}
	}
	if o.cacheDisk == 0 {
		if o.rows != "" || secret != nil {
			o.log.Warn("--rows and --rows-secret do nothing without --cache-disk SIZE: no rows are kept")
		}
		return nil, nil
	}
	off := func(err error) {
		o.log.Warn("rows are no longer kept on disk", zap.Error(err))
		o.events.NoDisk()
	}
	full := func(err error) {
		if err != nil {
			o.log.Warn("nothing new is kept on disk for now", zap.Error(err))
		} else {
			o.log.Info("rows are kept on disk again")
		}
	}
	slow := func(err error) {
		if err != nil {
			o.log.Warn("prompts are evaluated without rows on disk", zap.Error(err))
		} else {
			o.log.Info("rows are read from disk again")
		}
	}
	d, err := rows.Open(rows.Options{Dir: dir, Size: o.cacheDisk, Off: off, Full: full, Slow: slow, Gone: o.events.Gone, Secret: secret,
		Remote: far.Blobs, Mirror: far.mirror, Trouble: func(err error) { o.log.Warn("rows from elsewhere", zap.Error(err)) }})
	if err != nil {
		off(err)
		return nil, nil
	}
	return d, nil
}
