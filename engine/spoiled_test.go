package engine

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/sampler"
)

// TestSpoiledStrikes (D6): results that are no numbers clear all cells and are a strike, three
// within a minute lose the card; results that are all alike end the one text that gave them,
// however often it is sent.
func TestSpoiledStrikes(t *testing.T) {
	for _, c := range []struct {
		name string
		v    uint16
		wait time.Duration
		lost bool
	}{{"NaN, thrice", 0x7fc0, 0, true}, {"infinite, thrice", 0xff80, 0, true}, {"NaN now and then", 0x7fc0, time.Minute, false},
		{"alike", 0, 0, false}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				lost := make(chan error, 1)
				b := onFake(t, f, OpenOptions{CardOptions: CardOptions{Lost: func(err error) { lost <- err }}})
				want, _, err := run(b, greedy([]int32{1, 2, 3}, 6))
				if err != nil {
					t.Fatal(err)
				}
				for i := range 3 {
					f.cleared = nil
					at := f.passes + 2 // the first is the prompt's
					f.damage = func(n int, p *axcl.Pass) {
						if n == at {
							spoil(p, c.v)
						}
					}
					job := greedy([]int32{1, 2, 3}, 6)
					job.Sampling.Temperature = 0.1 // every token's logits are looked at
					_, _, err := run(b, job)
					if !errors.Is(err, sampler.ErrBadLogits) {
						t.Errorf("%d: %v", i, err)
					}
					if c.lost && i == 2 {
						if err := <-lost; !errors.Is(err, axcl.ErrLost) {
							t.Error(err)
						}
						return
					}
					got, last, err := run(b, greedy([]int32{1, 2, 3}, 6))
					if err != nil || !slices.Equal(got, want) {
						t.Errorf("after %d: %v %v, want %v", i, got, err, want)
					}
					cleared := 0
					for _, n := range f.cleared {
						cleared += n
					}
					if clean := cleared == f.shape.Cells; clean == (c.v == 0) || last.Usage.Cached != 0 {
						t.Errorf("%d cells of %d were cleared, %d found in the cache", cleared, f.shape.Cells, last.Usage.Cached)
					}
					<-time.After(c.wait)
				}
				clean(t, b)
			})
		})
	}
}

// spoil makes everything a pass gives one value.
func spoil(p *axcl.Pass, v uint16) {
	for _, out := range [][]uint16{p.Logits, p.HiddenOut} {
		for i := range out {
			out[i] = v
		}
	}
	for i := range p.Argmax {
		p.Argmax[i] = 0
	}
}

// TestSpoiledOthers (D6): when a row gives no numbers, the sequences beside it go on from what they
// have said, on cleared cells.
func TestSpoiledOthers(t *testing.T) {
	//proves:D6
	f := newFake()
	b := onFake(t, f, OpenOptions{CardOptions: still})
	one := greedy([]int32{7, 8, 9}, 30) // looked at every 16 tokens
	two := greedy([]int32{4, 5}, 30)
	two.Mask = anything{} // looked at always, and as likely
	wantOne, _, err1 := run(b, one)
	wantTwo, _, err2 := run(b, two)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	one.Key, two.Key = "fresh", "fresh"
	one.Speculate, two.Speculate = new(bool), new(bool)
	from, rows := f.passes+12, 0
	f.damage = func(n int, p *axcl.Pass) {
		if n >= from && rows == 0 && len(p.Want) == 2 && p.Logits != nil {
			rows = p.Rows()
			p.Logits[0] = 0x7fc0
		}
	}
	var wg sync.WaitGroup
	release := hold(b)
	var gotOne, gotTwo []int32
	wg.Go(func() { gotOne, _, err1 = run(b, one) })
	wg.Go(func() { gotTwo, _, err2 = run(b, two) })
	for b.Stats().Queued < 2 {
		runtime.Gosched()
	}
	release()
	wg.Wait()
	for _, g := range []struct {
		got, want []int32
		err       error
	}{{gotOne, wantOne, err1}, {gotTwo, wantTwo, err2}} {
		if g.err != nil && !errors.Is(g.err, sampler.ErrBadLogits) || g.err == nil && !slices.Equal(g.got, g.want) ||
			!slices.Equal(g.got, g.want[:len(g.got)]) {
			t.Errorf("%v %v, alone %v", g.got, g.err, g.want)
		}
	}
	if (err1 == nil) == (err2 == nil) || rows == 0 {
		t.Errorf("one of two was to meet the fault (a pass of %d rows): %v, %v", rows, err1, err2)
	}
	clean(t, b)
}

// anything is a format that allows everything.
type anything struct{}

func (anything) Allowed(int32) bool { return true }

func (anything) Fill(dst []uint64) { fill(dst) }

func (anything) Accept(id int32) error { return nil }

func (anything) Done() bool { return false }

func fill(dst []uint64) {
	for i := range dst {
		dst[i] = ^uint64(0)
	}
}

// TestZeroIsLookedAt (D6): a greedy token that is number 0, which is the largest of zeros and of
// NaN too, is not taken before its logits were looked at: the row is run again.
func TestZeroIsLookedAt(t *testing.T) {
	f := newFake()
	b := onFake(t, f, OpenOptions{})
	job := greedy([]int32{1, 2, 3}, 12)
	job.Speculate = new(bool)
	want, _, err := run(b, job)
	if err != nil {
		t.Fatal(err)
	}
	job.Key = "fresh"
	hit := 0
	f.damage = func(n int, p *axcl.Pass) {
		if hit == 0 && p.Logits == nil && p.Argmax != nil {
			hit = n
			p.Argmax[0] = 0
		}
	}
	got, _, err := run(b, job)
	if err != nil || hit == 0 || !slices.Equal(got, want) {
		t.Errorf("%v %v (pass %d), want %v", got, err, hit, want)
	}
	clean(t, b)
}

// TestFailedCellsCleared (D4): what a failed pass may have left in its cells is cleared before the
// next pass; where that fails too, the card is lost with the third failure.
func TestFailedCellsCleared(t *testing.T) {
	fail := &axcl.Error{Op: "axclrtEngineExecute", Layer: 3, Code: 0x8030070c}
	f := newFake()
	b := onFake(t, f, OpenOptions{CardOptions: still})
	at := f.passes + 1
	f.run = func(n int) error {
		if n == at {
			return fail
		}
		if n == at+1 && !slices.Equal(f.cleared, []int{3}) {
			t.Errorf("cleared %v before the next pass, want three cells", f.cleared)
		}
		return nil
	}
	if _, _, err := run(b, greedy([]int32{1, 2, 3}, 4)); err != nil {
		t.Error(err)
	}
	at = f.passes + 1
	f.clear = func() error { return fail }
	job := greedy([]int32{1, 2, 3}, 4)
	job.Key = "fresh"
	if _, _, err := run(b, job); !errors.Is(err, axcl.ErrLost) || len(f.cleared) < 2 {
		t.Errorf("%v after %d clears, want ErrLost", err, len(f.cleared))
	}
}
