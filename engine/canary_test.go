package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
)

// TestCanaryRow (D6): a card that is never idle and begins to compute plausibly wrong things is
// lost within the time that CheckWork says, whether its passes have room for a row more or are of
// one row each; one that is sound is not, and answers as ever.
func TestCanaryRow(t *testing.T) {
	for _, c := range []struct {
		name    string
		streams int
		wrong   bool
	}{{"wide passes", 3, true}, {"one row a pass", 1, true}, {"sound", 3, false}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				o := OpenOptions{CardOptions: CardOptions{Check: -1, CheckWork: 6 * time.Second}}
				if c.streams == 1 {
					o.Proven = &Proven{} // no pass has room for a further row
				}
				b := onFake(t, f, o)
				if err := b.card.Do(context.Background(), func(axcl.Device) error { return b.m.canary.learn() }); err != nil {
					t.Fatal(err)
				}
				f.run = func(int) error { <-time.After(50 * time.Millisecond); return nil }
				start := time.Now()
				f.damage = func(_ int, p *axcl.Pass) {
					if c.wrong && time.Since(start) > 10*time.Second { // finite, and nothing like what it was
						wrong(p)
					}
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				var wg sync.WaitGroup
				for i := range c.streams {
					job := greedy([]int32{1, 2, int32(i)}, -1)
					job.Shift, job.NumCtx, job.IgnoreStop, job.Speculate = true, 24, true, new(bool)
					wg.Go(func() {
						for _, err := range b.Complete(ctx, job) {
							if err != nil && errors.Is(err, ErrWrong) != c.wrong {
								t.Error(err)
							}
						}
					})
				}
				wg.Wait()
				if took := time.Since(start); c.wrong && (took < 10*time.Second || took > 19*time.Second) || !c.wrong &&
					took < time.Minute {
					t.Errorf("the streams ended after %v", took)
				}
				if err := b.card.Err(); errors.Is(err, ErrWrong) != c.wrong {
					t.Errorf("the card: %v", err)
				}
			})
		})
	}
}

// TestCanaryRowOnce (D6): where one pass alone gave something else for the known row, its rows go
// through the card again.
func TestCanaryRowOnce(t *testing.T) {
	//proves:D6
	f := newFake()
	var clock atomic.Int64 // every pass takes as long
	b := onFake(t, f, OpenOptions{CardOptions: CardOptions{Check: -1, CheckWork: 1,
		Clock: func() time.Duration { return time.Duration(clock.Add(1e6)) }}})
	if err := b.card.Do(context.Background(), func(axcl.Device) error { return b.m.canary.learn() }); err != nil {
		t.Fatal(err)
	}
	ids := []int32{5, 6, 7, 8, 9, 10, 11}
	want, _, err := run(b, greedy(ids, 8))
	if err != nil {
		t.Fatal(err)
	}
	hit := 0
	f.damage = func(n int, p *axcl.Pass) {
		if hit == 0 && p.Rows() == len(ids)+1 {
			hit = n
			wrong(p)
		}
	}
	job := greedy(ids, 8)
	job.Key = "fresh"
	got, _, err := run(b, job)
	if err != nil || hit == 0 || !slices.Equal(got, want) || b.card.Strikes() != 1 {
		t.Errorf("%v %v (pass %d, %d strikes), want %v", got, err, hit, b.card.Strikes(), want)
	}
	clean(t, b)
}

// TestCanaryRowEverywhere: with a known row in every pass that has room, each request says what it
// says alone.
func TestCanaryRowEverywhere(t *testing.T) {
	//proves:D6
	for _, arch := range []string{"qwen3", "gemma3"} {
		t.Run(arch, func(t *testing.T) {
			dir := compiled(t, arch)
			_, alone := load(t, dir, openSoft, OpenOptions{Parallel: 1, Proven: &Proven{}})
			jobs, want := edits(79, 60, axmodeltest.Vocab, 95, truthOn(t, alone))
			_, b := load(t, dir, openSoft, OpenOptions{CardOptions: CardOptions{CheckWork: 1}})
			sameEverywhere(t, b, jobs, want, 3)
			if err := b.card.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

// wrong turns all that a pass gives about: other numbers, and no worse ones to look at.
func wrong(p *axcl.Pass) {
	for _, out := range [][]uint16{p.Logits, p.HiddenOut} {
		for i := range out {
			out[i] ^= 0x8000
		}
	}
	for i := range p.Argmax {
		p.Argmax[i] = 1 + p.Argmax[i]%9
	}
}
