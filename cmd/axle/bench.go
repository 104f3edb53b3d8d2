//go:build !scripted

package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/axle-llm/axle/axcl/simcard/profiles"
	"github.com/axle-llm/axle/engine/bench/report"
	"github.com/axle-llm/axle/internal/benchmark"
	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/internal/plan"
)

func init() { register(newBenchCmd) }

// benchFlags is the command line of bench.
type benchFlags struct {
	prompt, output, clients string
	repeats, period         int
	parallel                int
	speculate, device       string
	profile, loop           string
	against, model          string
	draft                   string
	talks, turns            int
	cacheRAM, cacheDisk     string
	layers                  bool
	asJSON, asCSV, compare  bool
	html, trace             string

	options benchmark.Options // what check made of them
}

func newBenchCmd() *cobra.Command {
	var f benchFlags
	c := &cobra.Command{
		Use:   "bench MODEL…",
		Short: "Measure how fast a model is, and where the time goes",
		Long: `Measure how fast a model is, and where the time goes: first token, prefill and decode rates, tokens' latencies, the next turn's
first token, for each combination of prompt length, output length, clients and speculation; the stages of a token, and the card's limit.
MODEL is a name in the store, a package's folder, or one of the shapes
` + plan.Names + `, which have a real model's sizes and no weights and need the
simulated card (--device axcl with AXLE_AXCL_LIB) or patience.

With --compare, two files that --json wrote are compared. With --against ollama or openai, the last argument is the URL of another server,
which gets the same load in turn with the model here. With --loop naive or vendor, a token in one pass is measured beside the loop over
layers that other programs run. With --layers each layer is waited for by itself: slower, and it says what each layer and the head take.

With --conversations N, N conversations that do not fit on the card together take turns, with the card alone and with this machine's
memory besides, as serve's --cache-ram; with --cache-disk also after the model is loaded anew. It says how soon each turn's first token
comes, and where prompts' rows came from: the card, memory, the disk, or nowhere, so that they were evaluated.`,
		Example: `axle bench Qwen3-1.7B -p 128,512 -n 64 -c 1,8 --html bench.html
axle bench qwen3-0.6b --device axcl --loop vendor
axle bench Qwen3-1.7B --json > after.json
axle bench --compare before.json after.json
axle bench Qwen3-1.7B --against ollama http://127.0.0.1:11434
axle bench Qwen3-1.7B --conversations 6 -p 900 --turns 10 --cache-ram 2GB`,
		RunE: func(c *cobra.Command, args []string) error {
			f.options.Asked = c.Flags().Changed("n-prompt") || c.Flags().Changed("n-gen")
			if err := f.checkTalks(c.Flags().Changed); err != nil {
				return err
			}
			args, err := f.check(args)
			if err != nil {
				return err
			}
			if f.compare {
				return report.Compare(c.OutOrStdout(), args[0], args[1])
			}
			progress := io.Discard // a line that rewrites itself is for a terminal only
			if w, ok := plain.Raw(c.ErrOrStderr()).(*os.File); ok && term.IsTerminal(int(w.Fd())) {
				progress = w
			}
			if err := f.checkFolders(); err != nil {
				return err
			}
			r, err := benchmark.Run(c.Context(), f.options, args, progress)
			if errors.As(err, new(*benchmark.AskError)) {
				return usageError("%w", err)
			}
			if err != nil {
				return err
			}
			return f.write(c.OutOrStdout(), r)
		},
	}
	fl := c.Flags()
	fl.StringVarP(&f.prompt, "n-prompt", "p", "32,512", "prompt lengths in `tokens`, with commas")
	fl.StringVarP(&f.output, "n-gen", "n", "64", "output lengths in `tokens`")
	fl.IntVarP(&f.repeats, "repetitions", "r", 5, "how often each case is measured")
	fl.StringVarP(&f.clients, "clients", "c", "1,4,8", "`numbers` of clients at once")
	fl.IntVar(&f.parallel, "parallel", 0, "most `sequences` the engine runs at once, as serve's; 0: all clients")
	fl.StringVar(&f.speculate, "speculate", "both", "speculation: off, on or both (on for one client only)")
	fl.StringVar(&f.device, "device", "auto", "device: auto, axcl, axcl:N, axengine or soft")
	fl.StringVar(&f.profile, "profile", "", "take the card's bandwidth from a `profile`: pi5, cm3588, onboard or a file")
	fl.IntVar(&f.period, "period", 0, "a shape without weights repeats its text after so many `tokens`, for speculation; 0: never")
	fl.StringVar(&f.loop, "loop", "", "measure a `loop` over layers beside one pass: naive or vendor")
	fl.BoolVar(&f.layers, "layers", false, "run layer by layer, each waited for, and say what each takes: passes are slower so")
	fl.StringVar(&f.draft, "draft", "", "a smaller package's `FOLDER` with the same vocabulary, to guess with as serve's --draft does")
	fl.IntVar(&f.talks, "conversations", 0, "measure so many `conversations` that take turns, each beginning with -p tokens (900)")
	fl.IntVar(&f.turns, "turns", 0, "of each conversation after its first, with 32 new tokens and -n (32) of answer; 0: ten, or what fits")
	fl.StringVar(&f.cacheRAM, "cache-ram", "", "memory of this machine for conversations' rows, as serve's; 0: measure the card alone\n"+
		"(default as serve's)")
	fl.StringVar(&f.cacheDisk, "cache-disk", "",
		"measure conversations after the model is loaded anew too, with rows on disk up to this size (2GB), in the store's folder")
	fl.StringVar(&f.against, "against", "", "measure another server in turn: `ollama or openai`, its URL the last argument")
	fl.StringVar(&f.model, "against-model", "", "the model's `name` there, where it is another")
	fl.BoolVar(&f.compare, "compare", false, "compare two files of --json")
	fl.BoolVar(&f.asJSON, "json", false, "print JSON")
	fl.BoolVar(&f.asCSV, "csv", false, "print CSV, a line a case")
	fl.StringVar(&f.html, "html", "", "write a page with plots to `FILE`")
	fl.StringVar(&f.trace, "trace", "", "write every pass to `FILE`, for Perfetto or chrome://tracing")
	return c
}

// checkTalks reads what belongs to conversations, with their own defaults; changed says which flags were given.
func (f *benchFlags) checkTalks(changed func(string) bool) (err error) {
	if !changed("conversations") {
		for _, name := range []string{"turns", "cache-ram", "cache-disk"} {
			if changed(name) {
				return usageError("--%s is for --conversations, which says how many there are", name)
			}
		}
		return nil
	}
	for _, name := range []string{"clients", "repetitions", "parallel", "speculate", "profile", "period", "loop", "layers", "draft",
		"against", "compare", "trace"} {
		if changed(name) {
			return usageError("--conversations and --%s cannot be had together: conversations take turns, and nothing is guessed", name)
		}
	}
	if f.talks < 1 || f.talks > benchmark.MaxTalks {
		return usageError("--conversations must be between 1 and %d, got %d", benchmark.MaxTalks, f.talks)
	}
	if f.turns < 0 || f.turns > benchmark.MaxTurns {
		return usageError("--turns must be between 0 and %d, got %d", benchmark.MaxTurns, f.turns)
	}
	if !changed("n-prompt") {
		f.prompt = "900"
	}
	if !changed("n-gen") {
		f.output = "32"
	}
	if strings.Contains(f.output, ",") {
		return usageError("--conversations takes one length of answers, got -n %s", f.output)
	}
	o := &f.options.Talks
	o.Conversations, o.Turns = f.talks, f.turns
	if o.Memory, err = ramSize(f.cacheRAM, os.Getenv, os.DirFS("/")); err != nil {
		return err
	}
	if f.cacheDisk != "" {
		if o.Disk, err = parseSize(f.cacheDisk); err != nil {
			return usageError("--cache-disk: %w", err)
		}
		if st, err := os.Stat(storeOptions().Dir); err == nil && st.IsDir() {
			o.Dir = storeOptions().Dir
		}
	}
	return nil
}

// maxBenchList is how many numbers a flag may list.
const maxBenchList = 32

// check reads flags and arguments into options, and gives the models.
func (f *benchFlags) check(args []string) (models []string, err error) {
	o := &f.options
	o.Version, o.Device, o.Repeats, o.Parallel, o.Period = version, f.device, f.repeats, f.parallel, f.period
	o.Loop, o.Layers, o.Draft, o.Trace, o.OpenPackage = f.loop, f.layers, f.draft, f.trace != "", openPackage
	if f.compare {
		if len(args) != 2 {
			return nil, usageError("--compare takes two files that 'axle bench --json' wrote, got %d", len(args))
		}
		return args, nil
	}
	if f.against != "" {
		if f.against != "ollama" && f.against != "openai" {
			return nil, usageError("--against is ollama or openai, got %q", f.against)
		}
		if len(args) == 0 {
			return nil, usageError("--against %s needs the server's URL as the last argument", f.against)
		}
		last := args[len(args)-1]
		args = args[:len(args)-1]
		u, err := url.Parse(last)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, usageError("--against %s needs the server's URL as the last argument, such as http://127.0.0.1:11434, got %q",
				f.against, last)
		}
		o.Against = benchmark.Server{Kind: f.against, URL: u.String(), Model: f.model}
	}
	if len(args) == 0 {
		return nil, usageError("which model? 'axle list' shows what there is; " + plan.Names + " are shapes without weights")
	}
	if o.Prompts, err = benchList("-p", f.prompt, benchmark.MaxTokens); err != nil {
		return nil, err
	}
	if o.Outputs, err = benchList("-n", f.output, benchmark.MaxTokens); err != nil {
		return nil, err
	}
	if o.Clients, err = benchList("-c", f.clients, benchmark.MaxClients); err != nil {
		return nil, err
	}
	if f.repeats < 1 || f.repeats > benchmark.MaxRepeats {
		return nil, usageError("-r must be between 1 and %d, got %d", benchmark.MaxRepeats, f.repeats)
	}
	if f.period < 0 || f.period > benchmark.MaxTokens {
		return nil, usageError("--period must be between 0 and %d, got %d", benchmark.MaxTokens, f.period)
	}
	if f.parallel < 0 || f.parallel > benchmark.MaxClients {
		return nil, usageError("--parallel must be between 0 and %d, got %d", benchmark.MaxClients, f.parallel)
	}
	switch f.speculate {
	case "off":
		o.Guesses = []bool{false}
	case "on":
		o.Guesses = []bool{true}
	case "both":
		o.Guesses = []bool{false, true}
	default:
		return nil, usageError("--speculate is off, on or both, got %q", f.speculate)
	}
	if f.loop != "" && f.loop != "naive" && f.loop != "vendor" {
		return nil, usageError("--loop is naive or vendor, got %q", f.loop)
	}
	if f.loop != "" && f.against != "" {
		return nil, usageError("--loop and --against cannot be had together")
	}
	if f.layers && (f.loop != "" || f.against != "") {
		return nil, usageError("--layers cannot be had together with --loop or --against")
	}
	if f.draft != "" && f.loop != "" {
		return nil, usageError("--draft and --loop cannot be had together")
	}
	if f.asJSON && f.asCSV {
		return nil, usageError("--json and --csv cannot be had together")
	}
	if f.profile != "" {
		if o.Profile, err = profiles.Load(f.profile); err != nil {
			return nil, usageError("%w", err)
		}
	}
	return args, nil
}

// benchList reads "128,512".
func benchList(flag, text string, limit int) (out []int, err error) {
	words := strings.Split(text, ",")
	if len(words) > maxBenchList {
		return nil, usageError("%s has %d numbers, at most %d are taken", flag, len(words), maxBenchList)
	}
	seen := map[int]bool{}
	for _, w := range words {
		n, err := strconv.Atoi(strings.TrimSpace(w))
		if err != nil || n < 1 || n > limit {
			return nil, usageError("%s takes numbers between 1 and %d, with commas, got %q", flag, limit, w)
		}
		if !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	return out, nil
}

// checkFolders: what is to be written has a folder to lie in, before anything is measured.
func (f *benchFlags) checkFolders() error {
	for _, file := range []string{f.html, f.trace} {
		if dir := filepath.Dir(file); file != "" {
			if st, err := os.Stat(dir); err != nil || !st.IsDir() {
				return usageError("%s: there is no folder %s", file, dir)
			}
		}
	}
	return nil
}

// write writes what was asked for.
func (f *benchFlags) write(out io.Writer, r *benchmark.Result) error {
	if f.html != "" {
		if err := writeTo(f.html, r.HTML); err != nil {
			return err
		}
	}
	if f.trace != "" {
		if err := writeTo(f.trace, r.Trace); err != nil {
			return err
		}
	}
	switch {
	case f.asJSON:
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(r.Report)
	case f.asCSV:
		return r.CSV(out)
	}
	return r.Text(out)
}

func writeTo(name string, f func(io.Writer) error) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(f(file), file.Close())
}
