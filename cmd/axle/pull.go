package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/internal/terminal"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/hub"
	"github.com/axle-llm/axle/models/store"
)

func init() { register(newPullCmd) }

func newPullCmd() *cobra.Command {
	var endpoint string
	var connections int
	cmd := &cobra.Command{
		Use:   "pull [NAME]",
		Short: "Fetch a model from a hub",
		Long: `Fetch a model. NAME is a short name of the catalogue (qwen3:0.6b) or a Hugging Face repository of .axmodel files
(AXERA-TECH/Qwen3-0.6B, or AXERA-TECH/Qwen3-0.6B:revision). Without NAME the catalogue is listed.

Where a server runs, it fetches, into its own store and with its own settings. Where none does, or with --endpoint or
--connections, this command fetches into AXLE_MODELS itself.

An interrupted pull goes on where it stopped. HF_ENDPOINT names another hub, or several separated by commas: the hub and its
mirrors. HF_TOKEN is sent to the first of them and to no other host.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError("pull takes one name, got %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listCatalogue(cmd.OutOrStdout())
			}
			if connections < 0 || connections > 64 {
				return usageError("--connections is %d, want 1 to 64", connections)
			}
			show := newPullView(cmd.ErrOrStderr())
			err := fetch(cmd.Context(), args[0], endpoint, connections, show.update)
			show.end()
			if cmd.Context().Err() != nil {
				return &exitError{code: exitInterrupted, err: errors.New("interrupted: what has come stays, and the same command goes on from there")}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&endpoint, "endpoint", "", "hub to fetch from, instead of HF_ENDPOINT")
	cmd.Flags().IntVar(&connections, "connections", 0, "connections at once (0: 6)")
	cmd.Flags().Bool("insecure", false, "accepted for Ollama's sake; has no effect")
	return cmd
}

// fetch pulls a model through the server, or into the store itself where none runs or the settings are this command's own.
func fetch(ctx context.Context, name, endpoint string, connections int, report func(store.Progress)) error {
	if endpoint == "" && connections == 0 {
		c, err := connect(ctx, true)
		if err == nil {
			return errors.Join(c.pull(ctx, name, report), c.stop())
		}
		var none *noServerError
		if !errors.As(err, &none) || !none.local {
			return err
		}
	}
	s, err := store.Open(store.FromEnv())
	if err != nil {
		return err
	}
	defer s.Close()
	client := hub.FromEnv()
	if endpoint != "" {
		client.Endpoints = []string{strings.TrimRight(endpoint, "/")}
	}
	client.Connections = connections
	client.Agent = "axle/" + version
	return s.Pull(ctx, name, client, report)
}

func listCatalogue(w io.Writer) error {
	t := terminal.TabsFor(w)
	fmt.Fprintln(t, "NAME\tSIZE\tWEIGHTS\tDOWNLOAD\tTOKENS/S\tREPOSITORY")
	known := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	for _, e := range hub.Catalogue {
		speed := ""
		n, told := e.Size()
		size := "~" + models.HumanBytes(n)
		if !told {
			size += "?"
		}
		if e.Speed > 0 {
			speed = fmt.Sprintf("%.4g", e.Speed)
		}
		if e.NotYet != "" {
			speed = "not yet"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", e.Name, known(e.Parameters), known(e.Quant), size, known(speed), e.Repo)
	}
	fmt.Fprintln(t, "\nTokens a second are on a Raspberry Pi 5, by the vendor's runtime with one request, as others published them; - is not known; not yet: axle does not run it yet.\nA size with ? is estimated from the model's shapes; a pull asks the hub before it begins.")
	return t.Flush()
}

// pullView shows a pull: one line that is drawn anew in a terminal, else a line every few seconds.
type pullView struct {
	w      io.Writer
	tty    bool
	width  int
	done   map[string]int64
	total  map[string]int64
	start  time.Time
	base   int64 // what was there before: it did not come at the speed shown
	last   time.Time
	status string
	drawn  bool
}

func newPullView(w io.Writer) *pullView {
	v := &pullView{w: w, done: map[string]int64{}, total: map[string]int64{}}
	v.width, v.tty = screenOf(w)
	return v
}

// screenOf says how wide the terminal is that w writes to; ok is false where it is none, or one that cannot draw a line anew.
func screenOf(w io.Writer) (width int, ok bool) {
	f, is := plain.Raw(w).(*os.File)
	if !is || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return 80, false
	}
	if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 20 {
		return n, true
	}
	return 80, true
}

func (v *pullView) update(p store.Progress) {
	if p.Digest == "" {
		v.end()
		if p.Status != v.status {
			fmt.Fprintln(v.w, plain.Line(p.Status))
			v.status = p.Status
		}
		return
	}
	if _, seen := v.total[p.Digest]; !seen {
		v.base += p.Completed
	}
	v.done[p.Digest], v.total[p.Digest] = p.Completed, p.Total
	now := time.Now()
	if v.start.IsZero() {
		v.start = now
	}
	every := 5 * time.Second
	if v.tty {
		every = 100 * time.Millisecond
	}
	if now.Sub(v.last) < every {
		return
	}
	v.last = now
	v.draw(now)
}

func (v *pullView) draw(now time.Time) {
	var done, total int64
	for d, n := range v.total {
		total += n
		done += v.done[d]
	}
	if total == 0 {
		return
	}
	line := fmt.Sprintf("pulling %3d%%  %s of %s", done*100/total, models.HumanBytes(done), models.HumanBytes(total))
	if spent := now.Sub(v.start).Seconds(); spent > 0.5 && done > v.base {
		rate := float64(done-v.base) / spent
		left := time.Duration(float64(total-done) / rate * float64(time.Second)).Round(time.Second)
		line += fmt.Sprintf("  %s/s  %s left", models.HumanBytes(int64(rate)), left)
	}
	if !v.tty {
		fmt.Fprintln(v.w, line)
		return
	}
	if room := v.width - len(line) - 4; room > 10 {
		full := int(int64(room) * done / total)
		line += "  [" + strings.Repeat("#", full) + strings.Repeat(" ", room-full) + "]"
	}
	fmt.Fprintf(plain.Raw(v.w), "\r\x1b[K%.*s", v.width, line)
	v.drawn = true
}

// end draws the last state once more and leaves the line.
func (v *pullView) end() {
	if len(v.total) > 0 {
		v.draw(time.Now())
		clear(v.total)
		clear(v.done)
		v.base, v.start = 0, time.Time{}
	}
	if v.drawn {
		fmt.Fprintln(v.w)
		v.drawn = false
	}
}
