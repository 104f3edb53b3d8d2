package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
)

// This file answers one prompt more than once. The first answer evaluates the prompt; the others
// begin with its first token, find the prompt's rows in the cache, and share passes with it.

// choicesAtOnce is the most answers of one request that run at once: half of the sequences that a
// model runs by default.
const choicesAtOnce = 16

// Choices answers a request several times: as [Model.Chat] if it has messages, else as
// [Model.Generate]. The prompt is read and evaluated once. Events of all answers come as they are
// made, in any order. The sequence ends without an error after each answer's Done, whose Context is
// nil. At most 16 answers run at once, fewer if there are no places ([Several].Beside) or the queue
// is full. The others follow in turn. The request fails with ErrBusy only if none of its answers
// runs.
//
// With a seed, each answer has its own, derived from the request's seed and the answer's index. The
// first answer is the one that Chat returns. What comes before the answers (notes, a cut, Begun)
// comes once. An event's usage counts all answers: the first one's prompt, and the tokens of all.
// Errors: as Chat, and ErrRequest for an N out of range. An error ends all answers, and so does
// leaving the loop. A panic of the backend is passed on to the caller.
func (m *Model) Choices(ctx context.Context, r Request, s Several) iter.Seq2[Choice, error] {
	return func(yield func(Choice, error) bool) {
		if s.N < 1 || s.N > MostChoices {
			yield(Choice{}, fmt.Errorf("%w: %d answers, there must be 1 to %d", ErrRequest, s.N,
				MostChoices))
			return
		}
		isChat := len(r.Messages) > 0
		a, err := m.ask(ctx, &r, isChat)
		if err != nil {
			yield(Choice{}, err)
			return
		}
		if !a.tell(func(e Event, err error) bool { return yield(Choice{Event: e}, err) }) {
			return
		}
		inner, cancel := context.WithCancel(ctx)
		c := &choosing{m: m, r: &r, a: a, s: s, isChat: isChat, yield: yield, cancel: cancel,
			steps: make(chan step), at: make([]*continuation, s.N), left: s.N}
		for i := range s.N {
			c.waiting = append(c.waiting, i)
		}
		defer c.end()
		for c.left > 0 || c.running > 0 { // finished answers are waited for too
			c.begin(inner)
			select {
			case st := <-c.steps:
				if !c.take(st) {
					return
				}
			case <-inner.Done():
				c.end()
				if err := ctx.Err(); err != nil {
					yield(Choice{}, err)
				}
				return
			}
		}
	}
}

// choosing is the state of several answers to one prompt. For each running answer, a goroutine
// takes its tokens from the backend. Everything else runs on the caller's goroutine.
type choosing struct {
	m      *Model
	r      *Request
	a      *asked
	s      Several
	isChat bool
	yield  func(Choice, error) bool

	cancel   func()
	takers   sync.WaitGroup
	panicked atomic.Pointer[any]
	steps    chan step

	at      []*continuation // by index; nil: not running
	waiting []int           // not begun yet, in order
	running int
	left    int      // answers that have not ended
	places  []func() // from [Several].Beside, for all running answers but one
	begun   bool     // the prompt is in the cache
	crowded bool     // the queue is full: no answer begins until a running one has ended
	usage   Usage    // of all
}

// continuation is a running answer.
type continuation struct {
	out    *assembler
	resume chan bool // whether the backend goes on after a token
	last   Usage
	alone  bool // no other answer ran when it began
	said   bool
	done   bool // it has ended
	again  bool // the queue was full: it begins again
}

// step is what the backend returned for an answer.
type step struct {
	i    int
	tok  Token
	err  error
	over bool // nothing more follows
}

// seedOf returns the seed of answer i.
func seedOf(seed int64, i int) int64 {
	if seed < 0 || i == 0 {
		return seed
	}
	z := uint64(seed) + uint64(i)*0x9e3779b97f4a7c15 // splitmix64
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return int64((z ^ z>>31) >> 1)
}

// begin begins as many answers as may run, and frees places that are not needed.
func (c *choosing) begin(ctx context.Context) {
	most := choicesAtOnce
	if c.r.Repeatable {
		most = 1 // each has the card to itself
	}
	for len(c.waiting) > 0 && c.running < most && !c.crowded && (c.begun || c.running == 0) {
		if c.running > len(c.places) && c.s.Beside != nil {
			end, ok := c.s.Beside()
			if !ok {
				break
			}
			c.places = append(c.places, end)
		}
		i := c.waiting[0]
		c.waiting = c.waiting[1:]
		c.running++
		w := &continuation{resume: make(chan bool, 1), alone: c.running == 1}
		w.out = c.m.assembler(c.r, c.isChat, c.a.job.IDs, c.a.think, func(e Event, err error) bool {
			return c.yield(Choice{Index: i, Event: e}, err)
		})
		c.at[i] = w
		job := c.a.begin()
		job.Sampling.Seed = seedOf(job.Sampling.Seed, i)
		c.takers.Go(func() { c.complete(ctx, i, job, w.resume) })
	}
	c.free(max(c.running-1, 0))
}

// free frees places until n are left.
func (c *choosing) free(n int) {
	for len(c.places) > n {
		c.places[len(c.places)-1]()
		c.places = c.places[:len(c.places)-1]
	}
}

// complete passes an answer's tokens to the caller's goroutine, one at a time.
func (c *choosing) complete(ctx context.Context, i int, job Job, goOn <-chan bool) {
	defer func() {
		if p := recover(); p != nil {
			c.panicked.Store(&p)
			c.cancel()
		}
		select {
		case c.steps <- step{i: i, over: true}:
		case <-ctx.Done():
		}
	}()
	for tok, err := range c.m.b.Complete(ctx, job) {
		select {
		case c.steps <- step{i: i, tok: tok, err: err}:
		case <-ctx.Done():
			return
		}
		select {
		case ok := <-goOn:
			if !ok {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// end cancels all answers and waits for them.
func (c *choosing) end() {
	c.cancel()
	c.takers.Wait()
	c.free(0)
	if p := c.panicked.Load(); p != nil {
		panic(*p)
	}
}

// take handles a step. False: the request has ended.
func (c *choosing) take(st step) bool {
	w := c.at[st.i]
	switch {
	case st.over:
		c.running--
		c.crowded = w.again && c.running > 0
		c.at[st.i] = nil
		if w.again {
			c.waiting = append([]int{st.i}, c.waiting...)
		}
		return w.again || w.done
	case errors.Is(st.err, ErrBusy) && !w.said && !w.alone:
		w.again = true
		w.resume <- false
		return true
	case st.err != nil:
		c.yield(Choice{Index: st.i}, st.err)
		return false
	}
	w.said, c.begun = true, true
	c.count(st.i, w, st.tok.Usage)
	if !w.out.token(st.tok, c.usage) {
		return false
	}
	if w.done = st.tok.Final != "" || w.out.ended != ""; w.done {
		if !w.out.close() {
			return false
		}
		res := c.a.result(c.m, c.r, c.isChat, w.out, st.tok)
		res.Context = nil
		if !c.yield(Choice{Index: st.i, Event: Event{Done: res, Usage: c.usage}}, nil) {
			return false
		}
		c.left--
	}
	w.resume <- !w.done
	return true
}

// count adds an answer's usage to the usage of all.
func (c *choosing) count(i int, w *continuation, u Usage) {
	sum := &c.usage
	if i == 0 {
		output, drafted, accepted := sum.Output, sum.Drafted, sum.Accepted
		*sum = u
		sum.Output, sum.Drafted, sum.Accepted = output, drafted, accepted
	}
	sum.Output += u.Output - w.last.Output
	sum.Drafted += u.Drafted - w.last.Drafted
	sum.Accepted += u.Accepted - w.last.Accepted
	w.last = u
}
