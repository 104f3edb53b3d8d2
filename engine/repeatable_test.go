package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/axle-llm/axle/axcl"
)

// TestRepeatable: on a card whose sums depend on the cells' order, or on the cells themselves, a
// repeatable request gives bit for bit what it gives as the first on a fresh card, whatever ran
// before and waits beside it; an ordinary one does not.
func TestRepeatable(t *testing.T) {
	jobs := jobsFor(21, 24, fakeVocab, 40)
	for name, how := range map[string]sums{"in the cells' order": inOrder, "in blocks of cells": inPlace} {
		t.Run(name, func(t *testing.T) {
			open := func(o OpenOptions) *cardBackend {
				f := newFake()
				f.sums = how
				return onFake(t, f, o)
			}
			var first []string
			for _, job := range jobs {
				b := open(OpenOptions{})
				first = append(first, said(t, b, job))
				_ = b.Close()
			}
			asked := func(b *cardBackend, repeatable bool) (other int) {
				var wg sync.WaitGroup
				got := make([]string, 3*len(jobs))
				for i := range got {
					wg.Go(func() {
						job := jobs[i%len(jobs)]
						// Every other request is an ordinary one in either case.
						job.Repeatable = repeatable && i%2 == 0
						got[i] = said(t, b, job)
					})
				}
				wg.Wait()
				for i, s := range got {
					if i%2 == 0 && s != first[i%len(jobs)] {
						other++
					}
				}
				clean(t, b)
				return other
			}
			o := OpenOptions{Parallel: 6, CardOptions: still}
			if n := asked(open(o), true); n != 0 {
				t.Errorf("%d repeatable answers are others than the first", n)
			}
			if n := asked(open(o), false); n == 0 {
				t.Error("ordinary answers are all the same: this card shows nothing")
			}
			o.Repeatable = true
			if n := asked(open(o), false); n != 0 {
				t.Errorf("%d answers of a repeatable model are others than the first", n)
			}
			o.Proven = &Proven{}
			if n := asked(open(o), false); n != 0 {
				t.Errorf("%d answers of a repeatable model that is used in order are others than the first", n)
			}
		})
	}
}

// said is an answer with its logprobs, which tell bits apart that the tokens do not.
func said(t testing.TB, b Backend, job Job) string {
	t.Helper()
	job.Sampling.Logprobs = true
	out := ""
	for tok, err := range b.Complete(context.Background(), job) {
		if err != nil {
			t.Error(err)
			return ""
		}
		if tok.Final == "" {
			out += fmt.Sprintf("%d:%x ", tok.ID, tok.Logprob.Logprob)
		}
	}
	return out
}

// TestRepeatableStandsAside: a repeatable answer whose reader does not read keeps no other out, and
// goes on as it would have.
func TestRepeatableStandsAside(t *testing.T) {
	//proves:G14
	for _, shift := range []int{40, 96} {
		f := newFake()
		f.sums = inPlace
		job := greedy([]int32{7, 3, 9, 1, 4, 8, 2}, boxRoom+300)
		job.Repeatable, job.Shift, job.NumCtx = true, true, shift
		var want []int32
		b := onFake(t, f, OpenOptions{Parallel: 4, CardOptions: still})
		if out, _, err := run(b, job); err != nil {
			t.Fatal(err)
		} else {
			want = out
		}
		s, err := b.m.submit(context.Background(), job, nil)
		if err != nil {
			t.Fatal(err)
		}
		for !s.box.full() {
			<-s.box.wake
		}
		for i := range 6 { // they take its cells
			if _, _, err := run(b, greedy([]int32{int32(i), 5, int32(2 * i), 6}, 70)); err != nil {
				t.Error(err)
			}
		}
		var got []int32
		for closed := false; !closed; {
			var tokens []Token
			if tokens, err, closed = s.box.take(nil); err != nil {
				t.Fatal(err)
			}
			for _, tok := range tokens {
				if tok.Final == "" {
					got = append(got, tok.ID)
				}
			}
			b.m.card.Wake()
			if !closed {
				<-s.box.wake
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("context of %d: the answer is another after others had the card", shift)
		}
		b.m.forgetCaller(s)
		clean(t, b)
	}
}

// TestRepeatableIsNotPassed: who came after a repeatable request does not begin before it has
// ended, and it does not before those that run.
func TestRepeatableIsNotPassed(t *testing.T) {
	b := onFake(t, newFake(), OpenOptions{Parallel: 4, CardOptions: still})
	release := hold(b)
	var seqs []*seq
	for i := range 7 {
		job := greedy([]int32{int32(i), 2, 3}, 12)
		job.Repeatable = i == 2
		s, err := b.m.submit(context.Background(), job, nil)
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, s)
	}
	release()
	for _, s := range seqs {
		for closed := false; !closed; {
			if _, _, closed = s.box.take(nil); !closed {
				<-s.box.wake
			}
		}
	}
	if err := b.card.Do(context.Background(), func(axcl.Device) error {
		alone := seqs[2]
		for i, s := range seqs {
			if i < 2 && s.served >= alone.served || i > 2 && s.served <= alone.served || i > 2 && s.admit < alone.admit {
				t.Errorf("request %d had its last pass %d, the repeatable one pass %d", i, s.served, alone.served)
			}
		}
		if first := alone.served - 12; seqs[1].served > first || seqs[3].served <= alone.served {
			t.Errorf("passes %d to %d were not its own: %d, %d", first, alone.served, seqs[1].served, seqs[3].served)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, s := range seqs {
		b.m.forgetCaller(s)
	}
	clean(t, b)
}

// TestAlikeElsewhere: whether the same rows give the same bits in other cells is found out when a
// package first runs on a card, and told.
func TestAlikeElsewhere(t *testing.T) {
	for how, want := range map[sums]Alike{exactly: {Ordered: true, Anywhere: true}, inOrder: {Ordered: true}, inPlace: {}} {
		for _, groups := range []int{1, 5} {
			f := newFake()
			f.sums = how
			f.shape.Groups = f.shape.Groups[:groups]
			b := onFake(t, f, OpenOptions{})
			if b.m.prover.alike != want {
				t.Errorf("sums %d, %d groups: %+v, want %+v", how, groups, b.m.prover.alike, want)
			}
			if p := b.Stats().Proven; p["alike_ordered"] != want.Ordered || p["alike_anywhere"] != want.Anywhere {
				t.Errorf("sums %d: Stats say %v", how, p)
			}
		}
	}
}
