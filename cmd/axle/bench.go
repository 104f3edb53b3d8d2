//go:build !scripted

package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/axle-llm/axle/cmd/internal/benchmark"
	"github.com/axle-llm/axle/cmd/internal/plan"
	"github.com/axle-llm/axle/engine/bench/report"
	"github.com/axle-llm/axle/internal/plain"
)

func init() { register(newBenchCmd) }

func newBenchCmd() *cobra.Command {
	var ask benchmark.Ask
	var asJSON bool
	var cacheRAM, cacheDisk string
	c := &cobra.Command{
		Use:   "bench MODEL…",
		Short: "Measure how fast a model is, and where the time goes",
		Long: `Measure how fast a model is, and where the time goes: first token, prefill and decode rates, tokens' latencies, the next turn's
first token, for each combination of prompt length, output length, clients and speculation; the stages of a token, and the card's limit.
MODEL is a name in the store, a package's folder, or one of the shapes
` + plan.Names + `, which have a real model's sizes and no weights and need the
simulated card (--device axcl with AXLE_AXCL_LIB) or patience.

With --compare, two files that --json wrote are compared. With --against ollama or openai, the last argument is the URL of another server,
which gets the same load in turn with the model here.

With --conversations N, N conversations that do not fit on the card together take turns, with the card alone and with this machine's
memory too, as serve's --cache-ram; with --cache-disk also after the model is loaded anew. It says how soon each turn's first token
comes, and where prompts' rows came from: the card, memory, the disk, or nowhere, so that they were evaluated.

Where MODEL is an .axmodel file, calls of that single net are timed (100, or as many as -r says), with zeros for its inputs.`,
		Example: `axle bench Qwen3-1.7B -p 128,512 -n 64 -c 1,8
axle bench qwen3-0.6b --device axcl
axle bench Qwen3-1.7B --json > after.json
axle bench --compare before.json after.json
axle bench Qwen3-1.7B --against ollama http://127.0.0.1:11434
axle bench Qwen3-1.7B --conversations 6 -p 900 --turns 10 --cache-ram 2GB
axle bench encoder.axmodel`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && isNet(args[0]) {
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
			if err := free(c.Context(), ask.Device, "measuring"); err != nil {
				return err
			}
			if err := keepRows(&o.Talks, cacheRAM, cacheDisk); err != nil {
				return err
			}
			o.Version, o.OpenPackage = version, openPackage
			progress := io.Discard // a line that rewrites itself is for a terminal only
			if w, ok := plain.Raw(c.ErrOrStderr()).(*os.File); ok && term.IsTerminal(int(w.Fd())) {
				progress = w
			}
			r, err := benchmark.Run(c.Context(), o, args, progress)
			if errors.As(err, new(*benchmark.AskError)) {
				return usageError("%w", err)
			}
			if err != nil {
				return err
			}
			if !asJSON {
				return r.Text(c.OutOrStdout())
			}
			e := json.NewEncoder(c.OutOrStdout())
			e.SetIndent("", "  ")
			return e.Encode(r)
		},
	}
	fl := c.Flags()
	fl.StringVarP(&ask.Prompts, "n-prompt", "p", "32,512", "prompt lengths in `tokens`, with commas")
	fl.StringVarP(&ask.Outputs, "n-gen", "n", "64", "output lengths in `tokens`")
	fl.IntVarP(&ask.Repeats, "repetitions", "r", 5, "how often each case is measured")
	fl.StringVarP(&ask.Clients, "clients", "c", "1,4,8", "`numbers` of clients at once")
	fl.IntVar(&ask.Parallel, "parallel", 0, "most `sequences` the engine runs at once, as serve's; 0: all clients")
	fl.StringVar(&ask.Speculate, "speculate", "both", "speculation: off, on or both (on for one client only)")
	fl.StringVar(&ask.Device, "device", "auto", "device: auto, axcl, axcl:N, axengine or soft")
	fl.StringVar(&ask.Profile, "profile", "", "take the card's bandwidth from a `profile`: pi5, cm3588, onboard or a file")
	fl.IntVar(&ask.Period, "period", 0, "a shape without weights repeats its text after this many `tokens`, for speculation; 0: never")
	fl.StringVar(&ask.Draft, "draft", "", "a smaller `MODEL` with the same vocabulary, to guess with as serve's --draft does")
	fl.IntVar(&ask.Conversations, "conversations", 0,
		"measure this many `conversations` that take turns, each beginning with -p tokens (900)")
	fl.IntVar(&ask.Turns, "turns", 0,
		"of each conversation after its first, with 32 new tokens and -n (32) of answer; 0: ten, or what fits")
	fl.StringVar(&cacheRAM, "cache-ram", "", "memory of this machine for conversations' rows, as serve's; 0: measure the card alone\n"+
		"(default as serve's)")
	fl.StringVar(&cacheDisk, "cache-disk", "",
		"measure conversations after the model is loaded anew too, with rows on disk up to this size (2GB), in the store's folder")
	fl.StringVar(&ask.Against, "against", "", "measure another server in turn: `ollama or openai`, its URL the last argument")
	fl.StringVar(&ask.AgainstModel, "against-model", "", "the model's `name` there, where it is another")
	fl.BoolVar(&ask.Compare, "compare", false, "compare two files of --json")
	fl.BoolVar(&asJSON, "json", false, "print JSON")
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
