//go:build cgo && !fake && linux

package engine

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/sampler"
)

// TestUsableAfterFaults: after each fault that leaves the card usable, 100 of 100 later requests
// are right, on a card whose mask hides no NaN and whose memory is NaN at first.
func TestUsableAfterFaults(t *testing.T) {
	//proves:D6 after each fault 100 of 100 later requests are right
	lane.Slow(t)
	lane.NoRace(t)
	dir := compiled(t, "qwen3")
	open, _ := onSim(t, "hazards=default")
	_, first := load(t, dir, open, OpenOptions{Parallel: 1, Proven: &Proven{}})
	jobs, want := edits(78, 100, axmodeltest.Vocab, 95, truthOn(t, first))
	if err := errors.Join(first.Close(), first.card.Close()); err != nil {
		t.Fatal(err)
	}
	open, sim := onSim(t, "hazards=default")
	var hours atomic.Int64 // strikes count within a minute of the card's clock: each fault here has an hour of its own
	_, b := load(t, dir, open,
		OpenOptions{CardOptions: CardOptions{Check: -1, Clock: func() time.Duration { return time.Duration(hours.Load()) * time.Hour }}})
	sameEverywhere(t, b, jobs, want, 1)
	errs := 0
	// Zeros out of a layer in the middle are not told from sound ones where a row sees others: what
	// was made of them meanwhile may be wrong.
	for _, call := range []string{"ExecuteAsync", "MemcpyAsync"} {
		for _, action := range []string{"nan", "flat", "0x8030070c", "0x80300507", "0x8030070c:late", "slow:2ms"} {
			if call == "MemcpyAsync" && (action == "nan" || action == "flat") {
				continue // a copy that damages what it copies, and says nothing, is not told from a sound one
			}
			for _, at := range []int{0, 8, 21} {
				hours.Add(1)
				if err := sim.Configure(fmt.Sprintf("hazards=default\nfault=%s:%d:%s", call, at, action)); err != nil {
					t.Fatal(err)
				}
				var wg sync.WaitGroup
				var failed atomic.Int32
				for i, job := range jobs[:12] {
					job.Key = fmt.Sprint(call, action, at) // rows of its own: what is cached already meets no fault
					wg.Go(func() {
						if i%3 == 1 {
							job.Sampling.Temperature = 0.5
						}
						out, _, err := run(b, job)
						if err != nil {
							failed.Add(1)
						} else if i%3 != 1 && action != "flat" && fmt.Sprint(out) != fmt.Sprint(want[i]) {
							t.Errorf("%s:%d:%s: a wrong answer during the fault: %v, want %v", call, at, action, out, want[i])
						}
					})
				}
				wg.Wait()
				errs += int(failed.Load())
				if err := sim.Configure("hazards=default"); err != nil {
					t.Fatal(err)
				}
				if t.Run(fmt.Sprintf("%s:%d:%s", call, at, action),
					func(t *testing.T) { sameEverywhere(t, b, jobs, want, uint64(at)) }); t.Failed() {
					return
				}
			}
		}
	}
	if err := b.card.Err(); err != nil || errs == 0 {
		t.Errorf("%d requests met a fault; the card: %v", errs, err)
	}
}

// TestSpoiledForGood: a card that gives no numbers any more is lost with the first pass that shows
// it, and says why.
func TestSpoiledForGood(t *testing.T) {
	//proves:D6
	for _, action := range []string{"nan", "flat"} {
		t.Run(action, func(t *testing.T) {
			dir := compiled(t, "qwen3")
			open, sim := onSim(t, "hazards=default")
			lost := make(chan error, 1)
			_, b := load(t, dir, open, OpenOptions{CardOptions: CardOptions{Lost: func(err error) { lost <- err }}})
			if err := sim.Configure("hazards=default\nfault=ExecuteAsync:9:" + action + ":sticky"); err != nil {
				t.Fatal(err)
			}
			if _, _, err := run(b, greedy([]int32{5, 6, 7}, 40)); !errors.Is(err, sampler.ErrBadLogits) {
				t.Errorf("the answer ended with %v", err)
			}
			if err := <-lost; !errors.Is(err, axcl.ErrLost) || !errors.Is(err, sampler.ErrBadLogits) {
				t.Errorf("lost to %v", err)
			}
			<-b.card.Done()
		})
	}
}

// TestPlausiblyWrong (D6): a card whose executes begin to give other numbers, none of them
// senseless, is lost while it works.
func TestPlausiblyWrong(t *testing.T) {
	//proves:D6
	dir := compiled(t, "qwen3")
	open, sim := onSim(t, "hazards=default")
	_, b := load(t, dir, open, OpenOptions{CardOptions: CardOptions{Check: -1, CheckWork: time.Millisecond}})
	if _, _, err := run(b, greedy([]int32{5, 6, 7}, 20)); err != nil {
		t.Fatal(err)
	}
	if err := sim.Configure("hazards=default\nfault=ExecuteAsync:9:wrong:sticky"); err != nil {
		t.Fatal(err)
	}
	for i := 0; b.card.Err() == nil; i++ {
		if _, _, err := run(b, greedy([]int32{5, 6, 7, int32(i)}, 20)); err != nil && !errors.Is(err, ErrWrong) || i == 100 {
			t.Fatalf("after %d requests: %v", i, err)
		}
	}
	if err := b.card.Err(); !errors.Is(err, ErrWrong) || !errors.Is(err, axcl.ErrLost) {
		t.Errorf("lost to %v", err)
	}
	<-b.card.Done()
}
