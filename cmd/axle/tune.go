//go:build !scripted

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/cmd/internal/tune"
	"github.com/axle-llm/axle/engine"
)

func init() { register(newTuneCmd) }

func newTuneCmd() *cobra.Command {
	var dry, undo, asJSON bool
	var root, state, model string
	c := &cobra.Command{
		Use:   "tune",
		Short: "Set a host up for the card: governor, interrupts, priority",
		Long: `Set this host up for the card: CPU governor to performance, the card's interrupt on the fastest core, the priority of a running
server raised; and check the PCIe settings, which it explains and never changes. Published measurements on a Raspberry Pi 5 saw 19 to
100 % more tokens a second.

--dry-run shows what would change. What was there before is kept in --state, and --undo puts it back. Settings last until the next boot.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			t := &tune.Host{Root: root, State: state, Out: c.OutOrStdout()}
			if asJSON {
				t.Out = c.ErrOrStderr() // what is done is told beside the JSON
			}
			if undo {
				if dry {
					return usageError("--undo and --dry-run exclude each other")
				}
				return t.Undo()
			}
			if model != "" && !dry {
				if err := free(c.Context(), "auto", "measuring"); err != nil {
					return err
				}
			}
			changes, notes, err := t.Look()
			if err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(c.OutOrStdout())
				e.SetIndent("", "  ")
				if err := e.Encode(struct {
					Changes []tune.Change `json:"changes"`
					Notes   []string      `json:"notes"`
				}{append([]tune.Change{}, changes...), append([]string{}, notes...)}); err != nil || dry {
					return err
				}
			} else {
				t.Show(changes, notes)
			}
			if dry && len(changes) > 0 && model == "" {
				fmt.Fprintln(t.Out, "Nothing was changed. Without --dry-run, --measure MODEL tells what the changes bring.")
			}
			if dry || len(changes) == 0 {
				return nil
			}
			return measured(c.Context(), t.Out, model, func() error { return t.Apply(changes) })
		},
	}
	f := c.Flags()
	f.BoolVar(&dry, "dry-run", false, "show what would change, and change nothing")
	f.BoolVar(&undo, "undo", false, "put back what was there before")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.StringVar(&state, "state", "/var/lib/axle/tune.json", "where the former settings are kept")
	f.StringVar(&model, "measure", "", "a `MODEL` whose decode rate is measured before and after")
	f.StringVar(&root, "root", "/", "look at a copy of /sys and /proc below this folder")
	_ = f.MarkHidden("root")
	return c
}

// measured runs f; with a model it measures the decode rate before and after, and tells both.
func measured(ctx context.Context, w io.Writer, model string, f func() error) error {
	if model == "" {
		return f()
	}
	before, err := decodeRate(ctx, model)
	if err != nil {
		return fmt.Errorf("measuring before: %w", err)
	}
	if err := f(); err != nil {
		return err
	}
	after, err := decodeRate(ctx, model)
	if err != nil {
		return fmt.Errorf("measuring after: %w", err)
	}
	fmt.Fprintf(w, "%s: %.1f tokens/s before, %.1f after (%+.0f %%)\n", model, before, after, 100*(after/before-1))
	return nil
}

// decodeRate is the median decode rate of a few short answers, in tokens a second.
func decodeRate(ctx context.Context, name string) (float64, error) {
	p, err := openPackage(name)
	if err != nil {
		return 0, err
	}
	m, err := engine.OpenPackage(ctx, p, engine.OpenOptions{})
	if err != nil {
		return 0, errors.Join(err, p.Close())
	}
	defer m.Close()
	var rates []float64
	for range 5 {
		r := engine.Request{Prompt: "Count to one hundred.", Raw: true, Limit: 32, Sampling: m.Sampling()}
		r.Sampling.Temperature = 0
		for e, err := range m.Generate(ctx, r) {
			if err != nil {
				return 0, err
			}
			if e.Done != nil && e.Done.Usage.Output > 1 {
				rates = append(rates, float64(e.Done.Usage.Output-1)/max(e.Done.Usage.Decode, time.Microsecond).Seconds())
			}
		}
	}
	if len(rates) == 0 {
		return 0, fmt.Errorf("%s ends its answers at once: nothing to measure", name)
	}
	slices.Sort(rates)
	return rates[len(rates)/2], nil
}
