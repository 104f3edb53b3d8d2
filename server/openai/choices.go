package openai

import (
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/prompt"
)

// This file is what requests for more than one answer have in common: n, best_of, and the usage of
// all together.

// chatChoices is how many answers a chat asks for.
func (x *extra) chatChoices() (n int, err error) {
	switch {
	case x.Echo != nil && *x.Echo:
		return 0, body.Fail(400, "echo is for /v1/completions: a chat's answer does not repeat its messages")
	case x.BestOf != nil:
		return 0, body.Fail(400, "best_of is for /v1/completions: a chat takes n")
	}
	return count("n", x.N)
}

// textChoices is how many answers a completion asks for, and how many candidates are written: the
// answers are the likeliest of them.
func (x *extra) textChoices(streams bool) (n, candidates int, err error) {
	if n, err = count("n", x.N); err != nil || x.BestOf == nil {
		return n, n, err
	}
	switch candidates, err = count("best_of", x.BestOf); {
	case err != nil:
		return 0, 0, err
	case candidates < n:
		return 0, 0, body.Fail(400, "best_of must not be less than n: the best %d of %d cannot be told", n, candidates)
	case candidates > n && streams:
		return 0, 0, body.Fail(400,
			"best_of cannot be streamed, since which answers are the best is known at their end: leave out stream, or ask for n")
	}
	return n, candidates, nil
}

// count is a number of answers; nil is one.
func count(name string, n *int) (int, error) {
	if n == nil {
		return 1, nil
	}
	if *n < 1 || *n > ask.MostChoices {
		return 0, body.Fail(400, "%s must be between 1 and %d, got %d", name, ask.MostChoices, *n)
	}
	return *n, nil
}

// tally is the account of several answers as OpenAI gives it: the prompt once, the tokens of all.
type tally struct {
	all  prompt.Figures
	left int // answers that have no end yet
}

// end adds an answer's account, and reports whether it was the last.
func (t *tally) end(i int, f prompt.Figures) bool {
	all := &t.all
	if i == 0 {
		all.Prompt, all.Cached, all.Answered = f.Prompt, f.Cached, f.Answered
	}
	all.Output += f.Output
	all.Decode = max(all.Decode, f.Decode)
	all.Total = max(all.Total, f.Total)
	t.left--
	return t.left <= 0
}

// usage is that of all answers; first is when the first token of any came. Where there are several
// they were not all written at once, and what they took together is the time from then on.
func (t *tally) usage(first time.Duration, several bool) usage {
	f := t.all
	if several && first > 0 && f.Total > first {
		f.Decode = f.Total - first
	}
	return usageOf(f, first)
}
