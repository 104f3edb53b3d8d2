package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// TestChoices: several answers to a prompt are those that as many requests with their seeds get,
// and the prompt goes through the card once, whatever the card can do; answers share passes.
func TestChoices(t *testing.T) {
	//proves:G12 answers to one prompt are those of as many requests
	const n, prompt = 5, 40
	off := false
	for _, c := range []struct {
		name string
		f    *fake
		lie  func(*fake)
		more int // rows that each answer but the first evaluates of the prompt
		row  bool
	}{
		{name: "rows", f: newFake(), more: 1},
		{name: "states", f: withStates(16), more: beforeEnd, row: true},
		{name: "no chunks", f: newFake(), lie: func(f *fake) { f.shorts = true }, more: 1, row: true},
		{name: "cells in order", f: newFake(), lie: func(f *fake) { f.ordered = true }, more: prompt, row: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.lie != nil {
				c.lie(c.f)
			}
			b := onFake(t, c.f, OpenOptions{CardOptions: still})
			m := New(lettered{Backend: b}, Options{})
			r := Request{Prompt: strings.Repeat("four", prompt/4), Limit: 8, Sampling: sampler.Defaults(), Speculate: &off,
				Stop: []string{"nothing has this"}}
			r.Sampling.Seed, r.Sampling.Temperature, r.Sampling.Logprobs = 7, 1.5, true
			var told Usage
			begun := 0
			before := b.Stats()
			got, ends, err := choices(tapped(m.Choices(context.Background(), r, Several{N: n}), func(c Choice) {
				if begun += c.Begun; c.Usage.Prompt > 0 {
					told = c.Usage
				}
			}), n)
			if err != nil {
				t.Fatal(err)
			}
			rows, passes := b.Stats().Rows-before.Rows, b.Stats().Passes["batch"]-before.Passes["batch"]
			output, different := 0, map[string]bool{}
			for i, text := range got {
				one := r
				one.Sampling.Seed = seedOf(7, i)
				want, end, err := collect(m.Generate(context.Background(), one))
				if err != nil || text != want || ends[i] == nil || ends[i].Reason != end.Reason ||
					ends[i].Usage.Output != end.Usage.Output || ends[i].Logprob != end.Logprob || ends[i].Logprob >= 0 {
					t.Errorf("answer %d: %q %+v, alone %q %+v %v", i, text, ends[i], want, end, err)
				}
				output += ends[i].Usage.Output
				different[text] = true
			}
			if len(different) < 3 {
				t.Errorf("the answers are alike: %q", got)
			}
			if begun != prompt || told.Prompt != prompt || told.Cached != 0 || told.Output != output {
				t.Errorf("begun with %d, told of %+v, want %d and %d", begun, told, prompt, output)
			}
			if most := uint64(prompt + (n-1)*c.more + output); rows > most {
				t.Errorf("%d rows went through the card, want %d at most", rows, most)
			}
			if (passes == 0) != c.row {
				t.Errorf("%d passes had rows of several answers", passes)
			}
			clean(t, b)
		})
	}
}

// TestChoicesStop: stop strings, formats and calls are each answer's own, and its backend ends with
// it.
func TestChoicesStop(t *testing.T) {
	m := New(lettered{&parrot{}, func(job Job) iter.Seq2[Token, error] {
		return (&parrot{say: "hello STOP world"}).Complete(context.Background(), job)
	}}, Options{})
	got, ends, err := choices(m.Choices(context.Background(), Request{Prompt: "p", Stop: []string{"STOP"}}, Several{N: 3}), 3)
	for i := range got {
		if err != nil || got[i] != "hello " || ends[i] == nil || ends[i].Stop != "STOP" || ends[i].Context != nil {
			t.Errorf("answer %d: %q %+v %v", i, got[i], ends[i], err)
		}
	}
}

// TestChoicesPleased: answers that a stop string ends are done, and not broken off, the last of
// them too.
func TestChoicesPleased(t *testing.T) {
	b := onFake(t, newFake(), OpenOptions{CardOptions: still})
	m := New(lettered{Backend: b}, Options{})
	r := Request{Prompt: "a prompt of some words", Limit: 12, Sampling: sampler.Defaults()}
	r.Sampling.Temperature = 0
	said, _, err := collect(m.Generate(context.Background(), r))
	if err != nil || len(said) < 8 {
		t.Fatalf("%q %v", said, err)
	}
	n := 400
	if lane.Race || testing.Short() {
		n = 20
	}
	for range n {
		before := b.Stats()
		r.Stop = []string{said[4:6]}
		got, ends, err := choices(m.Choices(context.Background(), r, Several{N: 3}), 3)
		if err != nil || got[2] != said[:4] || ends[2] == nil || ends[2].Stop == "" {
			t.Fatalf("%q %+v %v", got, ends, err)
		}
		clean(t, b)
		if st := b.Stats(); st.Cancelled != before.Cancelled || st.Done != before.Done+3 {
			t.Fatalf("%d are done, %d were broken off", st.Done-before.Done, st.Cancelled-before.Cancelled)
		}
	}
}

// TestChoicesInTurn: no more answers run at once than may, and all come; at their end nothing is
// held.
func TestChoicesInTurn(t *testing.T) {
	//proves:T16
	const n = 40
	var running, most, held atomic.Int32
	backend := func(Job) iter.Seq2[Token, error] {
		return func(yield func(Token, error) bool) {
			defer running.Add(-1)
			for now := running.Add(1); ; {
				if high := most.Load(); now <= high || most.CompareAndSwap(high, now) {
					break
				}
			}
			_ = yield(Token{ID: 1, Text: "a"}, nil) && yield(Token{ID: 2, Text: "b"}, nil) && yield(Token{Final: ReasonStop}, nil)
		}
	}
	beside := func() (func(), bool) {
		if held.Load() == 2 {
			return nil, false
		}
		held.Add(1)
		return func() { held.Add(-1) }, true
	}
	for _, c := range []struct {
		name   string
		beside func() (func(), bool)
		r      Request
		most   int32
	}{
		{name: "all that may", most: choicesAtOnce},
		{name: "three places", beside: beside, most: 3},
		{name: "repeatable", r: Request{Repeatable: true}, most: 1},
	} {
		most.Store(0)
		m := New(lettered{&parrot{}, backend}, Options{})
		c.r.Prompt = "p"
		got, ends, err := choices(m.Choices(context.Background(), c.r, Several{N: n, Beside: c.beside}), n)
		for i := range n {
			if got[i] != "ab" || ends[i] == nil || err != nil {
				t.Fatalf("%s: answer %d: %q %+v %v", c.name, i, got[i], ends[i], err)
			}
		}
		if most.Load() > c.most || held.Load() != 0 || running.Load() != 0 {
			t.Errorf("%s: %d ran at once, want %d at most; %d places are held, %d run", c.name, most.Load(), c.most, held.Load(),
				running.Load())
		}
	}
}

// TestChoicesCrowded: answers for which the queue has no room wait until one that runs has ended,
// and then come; a place that no answer needs any more is given back while others run. Where
// nothing of the request runs, a full queue is its error.
func TestChoicesCrowded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 5
		var calls, held int
		var mu sync.Mutex
		full := true
		now := func(f func()) { mu.Lock(); defer mu.Unlock(); f() }
		m := New(lettered{&parrot{}, func(Job) iter.Seq2[Token, error] {
			return func(yield func(Token, error) bool) {
				call, refused := 0, false
				now(func() { calls++; call, refused = calls, full && calls > 1 })
				if refused {
					if call > 1000 {
						panic("it is asked again and again")
					}
					yield(Token{}, ErrBusy)
					return
				}
				if !yield(Token{ID: 1, Text: "a"}, nil) {
					return
				}
				if call == 1 {
					synctest.Wait() // until everybody waits for this answer
					now(func() {
						if full = false; calls != n || held != 0 {
							t.Errorf("beside the first answer: %d calls, %d places are held", calls, held)
						}
					})
				}
				yield(Token{Final: ReasonStop}, nil)
			}
		}}, Options{})
		beside := func() (func(), bool) {
			now(func() { held++ })
			return func() { now(func() { held-- }) }, true
		}
		got, ends, err := choices(m.Choices(t.Context(), Request{Prompt: "p"}, Several{N: n, Beside: beside}), n)
		for i := range n {
			if err != nil || got[i] != "a" || ends[i] == nil {
				t.Errorf("answer %d: %q %+v %v", i, got[i], ends[i], err)
			}
		}
		full = true
		if _, _, err := choices(m.Choices(t.Context(), Request{Prompt: "p"}, Several{N: 2}), 2); !errors.Is(err, ErrBusy) {
			t.Errorf("%v, want ErrBusy", err)
		}
	})
}

// TestChoicesEnd: an error of one answer ends all, and so do who leaves, and the context; a panic
// comes out where it is caught. Nothing is left.
func TestChoicesEnd(t *testing.T) {
	b := onFake(t, newFake(), OpenOptions{CardOptions: still})
	ctx, cancel := context.WithCancel(context.Background())
	odd := errors.New("odd")
	var started atomic.Int32
	fails := func(with func(yield func(Token, error) bool)) func(Job) iter.Seq2[Token, error] {
		return func(Job) iter.Seq2[Token, error] {
			if started.Add(1) != 3 {
				return nil
			}
			return with
		}
	}
	for _, c := range []struct {
		name   string
		ctx    context.Context
		n      int
		r      Request
		before func(Job) iter.Seq2[Token, error]
		each   func(k int) bool
		want   error
	}{
		{name: "none", n: 0, want: ErrRequest},
		{name: "too many", n: MostChoices + 1, want: ErrRequest},
		{name: "no prompt", n: 2, r: Request{Raw: true}, want: ErrRequest},
		{name: "an error", n: 4, before: fails(func(yield func(Token, error) bool) { yield(Token{}, odd) }), want: odd},
		{name: "a panic", n: 4, before: fails(func(func(Token, error) bool) { panic(odd) }), want: odd},
		{name: "who leaves", n: 4, each: func(k int) bool { return k < 9 }},
		{name: "the context", n: 4, ctx: ctx, each: func(k int) bool {
			if k == 9 {
				cancel()
			}
			return true
		}, want: context.Canceled},
	} {
		started.Store(0)
		m := New(lettered{b, c.before}, Options{})
		if c.r.Prompt == "" && !c.r.Raw {
			c.r = Request{Prompt: "a prompt of some words", Limit: 30}
		}
		if c.ctx == nil {
			c.ctx = context.Background()
		}
		err := func() (err error) {
			defer func() {
				if p := recover(); p != nil {
					err, _ = p.(error)
				}
			}()
			k := 0
			for _, err := range m.Choices(c.ctx, c.r, Several{N: c.n}) {
				if err != nil {
					return err
				}
				if k++; c.each != nil && !c.each(k) {
					return nil
				}
			}
			return errors.New("it ended well")
		}()
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		clean(t, b)
	}
}

// TestSeedOf: answers have seeds of their own, the first has the request's, and no seed stays none.
func TestSeedOf(t *testing.T) {
	seen := map[int64]string{}
	for _, seed := range []int64{0, 1, 7, 1<<63 - 1} {
		for i := range MostChoices {
			s := seedOf(seed, i)
			at := fmt.Sprint(seed, " ", i)
			if s < 0 || i == 0 && s != seed || seen[s] != "" {
				t.Errorf("seed %s is %d, which %q has", at, s, seen[s])
			}
			seen[s] = at
		}
	}
	if seedOf(-1, 3) != -1 {
		t.Error("no seed became one")
	}
}

// lettered is a backend of ids below 64 as one of texts: a letter each.
type lettered struct {
	Backend
	before func(Job) iter.Seq2[Token, error] // instead of the backend, where it gives something
}

func (s lettered) Encode(_ context.Context, pieces []chat.Piece, _ bool) (dst []int32, err error) {
	for _, b := range []byte(join(pieces)) {
		dst = append(dst, int32(b)%fakeVocab)
	}
	return dst, nil
}

func (s lettered) Text(ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteByte(byte('0' + id))
	}
	return b.String()
}

func (s lettered) Complete(ctx context.Context, job Job) iter.Seq2[Token, error] {
	if s.before != nil {
		if seq := s.before(job); seq != nil {
			return seq
		}
	}
	return func(yield func(Token, error) bool) {
		for t, err := range s.Backend.Complete(ctx, job) {
			if t.Final == "" && err == nil {
				t.Text = s.Text([]int32{t.ID})
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

// choices are the texts of several answers and their ends.
func choices(seq iter.Seq2[Choice, error], n int) (texts []string, ends []*Result, err error) {
	texts, ends = make([]string, n), make([]*Result, n)
	for c, err := range seq {
		if err != nil {
			return texts, ends, err
		}
		texts[c.Index] += c.Text
		if c.Done != nil {
			ends[c.Index] = c.Done
		}
	}
	return texts, ends, nil
}

// tapped are events that saw has been shown.
func tapped[E any](seq iter.Seq2[E, error], saw func(E)) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		for e, err := range seq {
			if saw(e); !yield(e, err) {
				return
			}
		}
	}
}

// sawCut keeps the cut that events tell of.
func sawCut(to *Cut) func(Event) {
	return func(e Event) {
		if e.Cut != nil {
			*to = *e.Cut
		}
	}
}
