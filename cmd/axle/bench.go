//go:build !scripted

package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/cmd/internal/benchmark"
	"github.com/axle-llm/axle/cmd/internal/plan"
	"github.com/axle-llm/axle/engine/bench/report"
	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/internal/terminal"
)

func init() { register(newBenchCmd) }

func newBenchCmd() *cobra.Command {
	var ask benchmark.Ask
	var asJSON, asMD bool
	var trace string
	var cacheRAM, cacheDisk string
	c := &cobra.Command{
		Use:   "bench MODEL…",
		Short: "Measure how fast a model is, and where the time goes",
		Long: `Bench measures how fast a model is: the time to the first token, the rates of
prompts and answers, the time between tokens, and the time to the first token
of a chat's next turn. It measures each combination of prompt length, answer
length, number of clients, and guesses on or off. It prints the stages of a
token, and how near the card comes to the limit that its memory sets.

MODEL is a name in the store, a package's folder, or one of the shapes
` + plan.Names + `.
Shapes have a real model's sizes and no weights. If MODEL is an .axmodel file,
bench times calls of that single network, with zeros for its inputs (-r calls,
100 by default).

With --compare, the arguments are two files that --json wrote. Bench prints
them side by side and says what changed.

With --against, the last argument is the URL of another server. It gets the
same load, alternately with the model here.

With --conversations, that many conversations take turns. If they do not fit on
the card together, a turn finds its part of the KV cache in memory or on disk,
or computes it again. Bench says which, and how soon the first token comes.

With --trace, bench also writes every pass of each case's last repeat to a
file. Open it in ui.perfetto.dev or chrome://tracing to see where the time of a
pass goes.`,
		Example: `  axle bench qwen3:1.7b -p 128,512 -n 64 -c 1,8
  axle bench qwen3:1.7b --json > after.json
  axle bench --compare before.json after.json
  axle bench qwen3:1.7b --trace passes.json
  axle bench qwen3:1.7b --against ollama http://127.0.0.1:11434
  axle bench qwen3:1.7b --conversations 6 -p 900 --turns 10 --cache-ram 2GB
  axle bench encoder.axmodel`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && isNet(args[0]) {
				if trace != "" || asMD {
					return usageError("--trace and --md are for models: a single net has no passes and no cases")
				}
				calls := 100
				if c.Flags().Changed("repetitions") {
					calls = ask.Repeats
				}
				return benchNet(c, args[0], ask.Device, calls, asJSON)
			}
			o, args, err := ask.Options(args, c.Flags().Changed)
			if err != nil {
				return usageError("%w", err)
			}
			if ask.Compare {
				return report.Compare(c.OutOrStdout(), args[0], args[1])
			}
			if asJSON && asMD {
				return usageError("--json and --md cannot be had together")
			}
			if dir := filepath.Dir(trace); trace != "" {
				if st, err := os.Stat(dir); err != nil || !st.IsDir() {
					return usageError("--trace %s: there is no folder %s", trace, dir)
				}
			}
			if err := free(c.Context(), ask.Device, "measuring"); err != nil {
				return err
			}
			if err := keepRows(&o.Talks, cacheRAM, cacheDisk); err != nil {
				return err
			}
			o.Version, o.OpenPackage, o.Trace = version, openPackage, trace != ""
			progress := io.Discard // a line that rewrites itself is for a terminal only
			if terminal.Is(c.ErrOrStderr()) {
				progress = plain.Raw(c.ErrOrStderr())
			}
			r, err := benchmark.Run(c.Context(), o, args, progress)
			if errors.As(err, new(*benchmark.AskError)) {
				return usageError("%w", err)
			}
			if err != nil {
				return err
			}
			if trace != "" {
				if err := writeTo(trace, r.Trace); err != nil {
					return err
				}
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), r.Report)
			}
			if asMD {
				return r.Markdown(c.OutOrStdout())
			}
			return r.Text(c.OutOrStdout())
		},
	}
	fl := c.Flags()
	fl.StringVarP(&ask.Prompts, "n-prompt", "p", "32,512", "prompt lengths in `tokens`, with commas between")
	fl.StringVarP(&ask.Outputs, "n-gen", "n", "64", "answer lengths in `tokens`, with commas between")
	fl.IntVarP(&ask.Repeats, "repetitions", "r", 5, "how many `times` each case is measured")
	fl.StringVarP(&ask.Clients, "clients", "c", "1,4,8", "`numbers` of clients that ask at once, with commas between")
	fl.IntVar(&ask.Parallel, "parallel", 0, "how many `sequences` may run at once; 0: as many as clients")
	fl.StringVar(&ask.Speculate, "speculate", "both", "`guesses`: off, on, or both (on for one client only)")
	fl.StringVar(&ask.Device, "device", "auto", "the `card`: auto, axcl, axcl:N, axengine or soft")
	fl.StringVar(&ask.Head, "head", "auto", "the `place` where LM heads are computed: auto, card or host")
	fl.StringVar(&ask.Profile, "profile", "", "take the card's bandwidth from a `profile`: pi5, cm3588, onboard or a file")
	fl.IntVar(&ask.Period, "period", 0, "let a shape's text repeat after this many `tokens`, so that guesses are right; 0: never")
	fl.StringVar(&ask.Draft, "draft", "", "a smaller `model` with the same vocabulary that guesses tokens, as in serve --draft")
	fl.IntVar(&ask.Conversations, "conversations", 0,
		"let this `number` of conversations take turns; each begins with -p tokens, 900 without -p")
	fl.IntVar(&ask.Turns, "turns", 0,
		"`turns` of each conversation, with 32 new tokens and an answer of -n, 32 without -n; 0: ten, or as many as fit into the context")
	fl.IntVar(&ask.Hosts, "hosts", 0,
		"with --conversations, also measure a turn at another of 2 `machines` over 1 GbE, modelled on a virtual clock")
	fl.StringVar(&cacheRAM, "cache-ram", "", "`memory` of this machine for --conversations; 0: none (default: as in serve)")
	fl.StringVar(&cacheDisk, "cache-disk", "",
		"with --conversations, also measure a turn after a restart, with this `size` on disk, such as 2GB")
	fl.StringVar(&ask.Against, "against", "", "the other server's `API`: ollama or openai")
	fl.StringVar(&ask.AgainstModel, "against-model", "", "the model's `name` on the other server (default: as here)")
	fl.BoolVar(&ask.Compare, "compare", false, "compare two files that --json wrote")
	fl.BoolVar(&asJSON, "json", false, "print JSON")
	fl.BoolVar(&asMD, "md", false,
		"print one Markdown table, a line about the machine and the card, and a row for the results in docs/performance.md")
	fl.StringVar(&trace, "trace", "", "write every pass to this `file`, for Perfetto or chrome://tracing")
	return c
}

// keepRows says where rows of conversations may be kept.
func keepRows(o *benchmark.Talks, memory, disk string) (err error) {
	if o.Conversations == 0 {
		return nil
	}
	if o.Memory, err = ramSize(memory, os.Getenv, os.DirFS("/")); err != nil || disk == "" {
		return err
	}
	if o.Disk, err = parseSize(disk); err != nil {
		return usageError("--cache-disk: %w", err)
	}
	if st, err := os.Stat(storeOptions().Dir); err == nil && st.IsDir() {
		o.Dir = storeOptions().Dir
	}
	return nil
}

// writeTo makes a file of what f writes.
func writeTo(name string, f func(io.Writer) error) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(f(file), file.Close())
}
