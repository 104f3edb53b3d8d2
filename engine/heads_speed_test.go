//go:build cgo && !fake && linux

package engine

import (
	"fmt"
	"os"
	"testing"

	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/internal/lane"
)

// TestHeadRates: how many times faster several clients are where the host may compute the head, on
// a Raspberry Pi 5 by the virtual clock. One client is as fast as without. AXLE_TEST_RATES=1 asks
// for all rows of the table, not every third.
func TestHeadRates(t *testing.T) {
	//proves:G16
	lane.Slow(t)
	lane.NoRace(t)
	off := false
	for i, c := range []struct {
		name                   string
		shape                  axmodel.Shape
		clients, output        int
		least, predicted, slow float64 // slow: with a host that reads 9 GB/s
		together               float64 // tokens/s with the card's head if no answer pauses; 0: none does
	}{
		{"0.6B", axmodel.Qwen3Small(), 1, 64, 0.99, 1, 1, 0},
		{"0.6B", axmodel.Qwen3Small(), 2, 64, 1.15, 1.20, 1.20, 0},
		{"0.6B", axmodel.Qwen3Small(), 3, 64, 1.05, 1.10, 1.08, 0},
		{"0.6B", axmodel.Qwen3Small(), 4, 64, 1.12, 1.17, 1.14, 0},
		{"0.6B", axmodel.Qwen3Small(), 8, 64, 1.35, 1.41, 1.37, 0},
		{"0.6B", axmodel.Qwen3Small(), 16, 32, 1.7, 1.79, 1.77, 0},
		{"0.6B", axmodel.Qwen3Small(), 16, 64, 1.9, 2.00, 1.95, 30.4},
		{"3.5", axmodel.Qwen35SmallInt4(), 1, 256, 0.99, 1, 1, 0},
		{"3.5", axmodel.Qwen35SmallInt4(), 2, 256, 1.47, 1.55, 1.29, 0},
		{"3.5", axmodel.Qwen35SmallInt4(), 4, 256, 1.47, 1.55, 1.55, 0},
		{"1.7B", axmodel.Qwen3Medium(), 1, 32, 0.99, 1, 1, 0},
		{"1.7B", axmodel.Qwen3Medium(), 8, 32, 1.3, 1.35, 1.32, 0},
		{"1.7B", axmodel.Qwen3Medium(), 16, 32, 1.65, 1.74, 1.71, 0},
		{"4B", axmodel.Qwen3Large(), 2, 64, 1.05, 1.09, 1.09, 0},
		{"4B", axmodel.Qwen3Large(), 8, 64, 1.07, 1.10, 1.09, 0},
		{"4B", axmodel.Qwen3Large(), 16, 32, 1.17, 1.20, 1.20, 0},
	} {
		if i%3 != 0 && os.Getenv("AXLE_TEST_RATES") == "" {
			continue
		}
		card := 0.0 // the same with either host
		for _, host := range []struct {
			profile   string
			predicted float64
		}{{"pi5", c.predicted}, {"pi5,host-memory 9GB/s,host-products 120G/s", c.slow}} {
			t.Run(fmt.Sprintf("%s %d clients %s", c.name, c.clients, host.profile), func(t *testing.T) {
				rate := func(head HeadPlace) (rate float64) {
					t.Run(string(head), func(t *testing.T) {
						b, clock := simOf(t, host.profile, c.shape, OpenOptions{Head: head})
						load := work{Clients: c.clients, Prompt: 32, Output: c.output, Speculate: &off, First: 1000}
						f := measured(t, b, clock, load)
						if rate = f.Rate; c.shape.Linear != nil { // clients take turns from their prompts on
							rate = float64(f.Tokens) / f.Took.Seconds()
						}
					})
					return rate
				}
				if card == 0 {
					card = rate(HeadCard)
					if c.together > 0 {
						t.Logf("%.1f tokens/s in shifts: %.3f times", card, card/c.together)
						card = c.together
					}
				}
				auto := rate(HeadAuto)
				t.Logf("%.1f tokens/s, with the host %.1f: %.3f times; predicted %.2f", card, auto, auto/card, host.predicted)
				if host.profile == "pi5" && auto/card < c.least {
					t.Errorf("%.3f times, want %.2f", auto/card, c.least)
				}
				if d := auto/card/host.predicted - 1; d < -0.05 || d > 0.05 {
					t.Errorf("%.3f times, %.2f were predicted", auto/card, host.predicted)
				}
			})
		}
	}
}

// TestHeadAcceptedSim is TestHeadAccepted through the vendor's ABI.
func TestHeadAcceptedSim(t *testing.T) {
	//proves:G27
	lane.Slow(t)
	lane.NoRace(t)
	eachHead(t, func(t *testing.T, dir string, tied bool) {
		open, _ := onSim(t, "hazards=strict")
		_, b := load(t, dir, open, OpenOptions{Remember: t.TempDir(), Head: HeadHost})
		if h := headOf(t, b); h.Ready != tied {
			t.Errorf("tied: %t; %+v", tied, h)
		}
		if _, _, err := run(b, greedy([]int32{3, 4, 5}, 8)); err != nil {
			t.Error(err)
		}
	})
}

// TestHeadGuesses: guesses pay more where the host computes the head: a text that repeats itself
// comes much sooner.
func TestHeadGuesses(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	shape := axmodel.Qwen3Small()
	shape.Period = 24
	rate := func(head HeadPlace) (rate float64) {
		t.Run(string(head), func(t *testing.T) {
			b, clock := simOf(t, "pi5", shape, OpenOptions{Head: head})
			rate = measured(t, b, clock, work{Clients: 1, Prompt: 32, Output: 96, First: 1000}).Rate
		})
		return rate
	}
	card, auto := rate(HeadCard), rate(HeadAuto)
	t.Logf("%.1f tokens/s, with the host %.1f: %.2f times", card, auto, auto/card)
	if auto < 1.45*card {
		t.Errorf("%.2f times, want 1.45", auto/card)
	}
}

// TestKeyGuessRates: an answer that another conversation of the key had comes much sooner, though
// nothing is cached; one that no client had comes as without guesses.
func TestKeyGuessRates(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	for _, c := range []struct {
		name      string
		shape     axmodel.Shape
		head      HeadPlace
		predicted float64
	}{
		{"0.6B", axmodel.Qwen3Small(), HeadAuto, 6.68},
		{"0.6B", axmodel.Qwen3Small(), HeadCard, 2.87},
		{"1.7B", axmodel.Qwen3Medium(), HeadAuto, 4.98},
		{"4B", axmodel.Qwen3Large(), HeadAuto, 3.49},
	} {
		t.Run(fmt.Sprintf("%s head %s", c.name, c.head), func(t *testing.T) {
			b, clock := simOf(t, "pi5", c.shape, OpenOptions{Head: c.head})
			off := false
			load := work{Clients: 1, Prompt: 32, Output: 96, First: 1000, Speculate: &off}
			measured(t, b, clock, load) // costs settle
			plain := measured(t, b, clock, load)
			load.Speculate = nil
			first, again := measured(t, b, clock, load), measured(t, b, clock, load)
			load.Key = "another"
			other := measured(t, b, clock, load)
			t.Logf("%.1f tokens/s without guesses, then %.1f, %.1f (%.2f times, %.2f predicted; %d passes), and %.1f for another key",
				plain.Rate, first.Rate, again.Rate, again.Rate/plain.Rate, c.predicted, again.Passes, other.Rate)
			// The prediction has a wide pass without copies. That of load has them, so guesses are
			// sent one token later.
			if d := again.Rate/plain.Rate/c.predicted - 1; d < -0.08 || d > 0.08 {
				t.Errorf("%.2f times, %.2f were predicted", again.Rate/plain.Rate, c.predicted)
			}
			if first.Rate < 0.98*plain.Rate || other.Rate < 0.98*plain.Rate || other.Rate > 1.02*plain.Rate {
				t.Errorf("%.1f tokens/s the first time, %.1f for another key, %.1f without guesses", first.Rate, other.Rate, plain.Rate)
			}
		})
	}
}
