package prompt

import (
	"strings"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/body"
)

// Part is a part of an answer, or all of it.
type Part struct {
	Model          string // as the request named it
	Created        time.Time
	Text, Thinking string
	Calls          []Call
	Logprobs       []ask.Logprob

	Done    bool
	Reason  string  // why it is done
	Context []int32 // prompt and answer as ids, of a bare prompt
	Figures Figures // what it took
}

// Call is a tool call of an answer, its number among them, and an id that is never empty.
type Call struct {
	ask.ToolCall
	Index int
}

// Empty reports whether there is nothing to tell in a part but perhaps that it is the last.
func (p *Part) Empty() bool {
	return p.Text == "" && p.Thinking == "" && len(p.Calls) == 0 && len(p.Logprobs) == 0
}

// Figures are what an answer took.
type Figures struct {
	Total, Load, Prefill, Decode time.Duration
	Prompt, Cached, Output       int // tokens
	Answered                     bool
}

// Answer turns one answer's events into parts.
type Answer struct {
	Model string        // as the request named it
	Start time.Time     // when the request came
	Load  time.Duration // how long the model took to be there
	// Usage is the engine's account, once the answer is done.
	Usage ask.Usage
	calls int
}

// Part is the part of the answer that an event is.
func (a *Answer) Part(e ask.Event, now time.Time) Part {
	p := Part{Model: a.Model, Created: now.UTC(), Text: e.Text, Thinking: e.Thinking, Logprobs: e.Logprobs}
	if e.ToolCall != nil {
		c := Call{*e.ToolCall, a.calls}
		if c.ID == "" {
			c.ID = body.CallID()
		}
		p.Calls = []Call{c}
		a.calls++
	}
	if e.Done != nil {
		p.Done, p.Reason, p.Context, p.Figures = true, e.Done.Reason, e.Done.Context, a.figures(e.Done, now)
	}
	return p
}

func (a *Answer) figures(res *ask.Result, now time.Time) Figures {
	a.Usage = res.Usage
	decode := res.Usage.Decode
	if decode == 0 && res.Usage.Output > 0 {
		decode = time.Microsecond // one token takes no time of its own, but clients divide by it
	}
	return Figures{Total: now.Sub(a.Start), Load: a.Load, Prefill: res.Usage.Prefill, Decode: decode, Prompt: res.Usage.Prompt,
		Cached: res.Usage.Cached, Output: res.Usage.Output, Answered: true}
}

// Total adds parts up to a whole answer.
type Total struct {
	last           Part
	text, thinking strings.Builder
	calls          []Call
	logprobs       []ask.Logprob
}

// Add takes the next part.
func (t *Total) Add(p Part) {
	t.text.WriteString(p.Text)
	t.thinking.WriteString(p.Thinking)
	t.calls = append(t.calls, p.Calls...)
	t.logprobs = append(t.logprobs, p.Logprobs...)
	t.last = p
}

// Whole is everything added.
func (t *Total) Whole() Part {
	p := t.last
	p.Text, p.Thinking, p.Calls, p.Logprobs = t.text.String(), t.thinking.String(), t.calls, t.logprobs
	return p
}
