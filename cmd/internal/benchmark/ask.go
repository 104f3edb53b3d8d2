package benchmark

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl/simcard/profiles"
	"github.com/axle-llm/axle/cmd/internal/plan"
)

// The bounds of what can be asked for.
const (
	maxTokens  = 1 << 20 // of a prompt, and of an answer
	maxClients = 256
	maxRepeats = 1000
	maxTalks   = 64
	maxTurns   = 1000
	maxList    = 32 // numbers of one flag
)

// Ask is a command line: what is to be measured, as typed, not checked yet. Its fields are the
// flags of those names, and their defaults are the command's.
type Ask struct {
	Prompts, Outputs, Clients string // -p, -n, -c: numbers with commas between
	Repeats, Parallel, Period int    // -r
	Speculate                 string // off, on or both
	Device, Profile, Draft    string
	Head                      string // where LM heads are computed: auto, card or host
	Against, AgainstModel     string // the other server's kind, and the model's name there; its URL is the last argument
	Conversations, Turns      int
	Hosts                     int
	Compare                   bool // nothing is measured: the arguments are two files
}

// Options reads the flags and the arguments behind them, which are the models' names. given tells
// whether a flag was given. What only the program knows is left to it: Version, OpenPackage, Trace,
// and where rows of conversations are kept. Every error is an [AskError].
func (a *Ask) Options(args []string, given func(flag string) bool) (o Options, names []string, err error) {
	o = Options{Device: a.Device, Asked: given("n-prompt") || given("n-gen"), Repeats: a.Repeats, Parallel: a.Parallel, Period: a.Period,
		Draft: a.Draft}
	if err := a.talks(&o, given); err != nil {
		return o, nil, err
	}
	if o.Head, err = ask.ParseHead(a.Head); err != nil {
		return o, nil, asked("--head is auto, card or host, got %q", a.Head)
	}
	if a.Compare {
		if len(args) != 2 {
			return o, nil, asked("--compare takes two files that 'axle bench --json' wrote, got %d", len(args))
		}
		return o, args, nil
	}
	if a.Against != "" {
		if given("trace") {
			return o, nil, asked("--against and --trace cannot be had together: the other server's passes are not known")
		}
		if o.Against, args, err = a.server(args); err != nil {
			return o, nil, err
		}
	}
	if len(args) == 0 {
		return o, nil, asked("which model? 'axle list' shows what there is; %s are shapes without weights", plan.Names)
	}
	for _, list := range []struct {
		flag, text string
		limit      int
		to         *[]int
	}{{"-p", a.Prompts, maxTokens, &o.Prompts}, {"-n", a.Outputs, maxTokens, &o.Outputs}, {"-c", a.Clients, maxClients, &o.Clients}} {
		if *list.to, err = numbers(list.flag, list.text, list.limit); err != nil {
			return o, nil, err
		}
	}
	for _, n := range []struct {
		flag             string
		got, least, most int
	}{{"-r", a.Repeats, 1, maxRepeats}, {"--period", a.Period, 0, maxTokens}, {"--parallel", a.Parallel, 0, maxClients}} {
		if n.got < n.least || n.got > n.most {
			return o, nil, asked("%s must be between %d and %d, got %d", n.flag, n.least, n.most, n.got)
		}
	}
	var known bool
	if o.Guesses, known = map[string][]bool{"off": {false}, "on": {true}, "both": {false, true}}[a.Speculate]; !known {
		return o, nil, asked("--speculate is off, on or both, got %q", a.Speculate)
	}
	if a.Profile != "" {
		if o.Profile, err = profiles.Load(a.Profile); err != nil {
			err = &AskError{err}
		}
	}
	return o, args, err
}

// server reads the last argument, which is the other server's URL.
func (a *Ask) server(args []string) (s Server, rest []string, err error) {
	if a.Against != "ollama" && a.Against != "openai" {
		return s, nil, asked("--against is ollama or openai, got %q", a.Against)
	}
	if len(args) == 0 {
		return s, nil, asked("--against %s needs the server's URL as the last argument", a.Against)
	}
	last := args[len(args)-1]
	u, err := url.Parse(last)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return s, nil, asked("--against %s needs the server's URL as the last argument, such as http://127.0.0.1:11434, got %q", a.Against,
			last)
	}
	return Server{Kind: a.Against, URL: u.String(), Model: a.AgainstModel}, args[:len(args)-1], nil
}

// talks reads what belongs to conversations, which have defaults of their own.
func (a *Ask) talks(o *Options, given func(flag string) bool) error {
	if !given("conversations") {
		for _, flag := range []string{"turns", "cache-ram", "cache-disk", "hosts"} {
			if given(flag) {
				return asked("--%s is for --conversations, which says how many there are", flag)
			}
		}
		return nil
	}
	for _, flag := range []string{"clients", "repetitions", "parallel", "speculate", "profile", "period", "draft", "against",
		"compare", "trace"} {
		if given(flag) {
			return asked("--conversations and --%s cannot be had together: conversations take turns, and nothing is guessed", flag)
		}
	}
	if a.Conversations < 1 || a.Conversations > maxTalks {
		return asked("--conversations must be between 1 and %d, got %d", maxTalks, a.Conversations)
	}
	if a.Turns < 0 || a.Turns > maxTurns {
		return asked("--turns must be between 0 and %d, got %d", maxTurns, a.Turns)
	}
	if given("hosts") && a.Hosts != 2 {
		return asked("--hosts is 2: the next turn of each conversation at another machine, got %d", a.Hosts)
	}
	if !given("n-prompt") {
		a.Prompts = "900"
	}
	if !given("n-gen") {
		a.Outputs = "32"
	}
	if strings.Contains(a.Outputs, ",") {
		return asked("--conversations takes one length of answers, got -n %s", a.Outputs)
	}
	o.Talks.Conversations, o.Talks.Turns, o.Talks.Hosts = a.Conversations, a.Turns, a.Hosts
	return nil
}

// numbers reads "128,512".
func numbers(flag, text string, limit int) (out []int, err error) {
	words := strings.Split(text, ",")
	if len(words) > maxList {
		return nil, asked("%s has %d numbers, at most %d are taken", flag, len(words), maxList)
	}
	seen := map[int]bool{}
	for _, w := range words {
		n, err := strconv.Atoi(strings.TrimSpace(w))
		if err != nil || n < 1 || n > limit {
			return nil, asked("%s takes numbers between 1 and %d, with commas, got %q", flag, limit, w)
		}
		if !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	return out, nil
}
