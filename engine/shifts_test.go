package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/internal/lane"
)

// TestShifts (G16): when near cells run out, the youngest answers wait until others have ended. No
// client gets another text by it, and none waits long. It is the same on a card that is full of
// earlier conversations.
func TestShifts(t *testing.T) {
	//proves:G16 answers in shifts
	lane.NoRace(t)
	for _, c := range []struct {
		name            string
		clients, output int
		leave           int // the last five clients leave after this token
		back            int // this many are to be sent back
		gap             time.Duration
	}{
		{"two shifts", 16, 64, 0, 6, 10 * time.Second},
		{"long answers", 16, 100, 0, 8, 20 * time.Second},
		{"the end is near", 16, 35, 0, 0, time.Second},
		{"few clients", 2, 600, 0, 0, time.Second},
		{"those who wait leave", 16, 64, 20, 0, time.Second},
	} {
		for _, used := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, used %t", c.name, used), func(t *testing.T) {
				load := prompts(c.clients, 32, c.output)
				if c.leave > 0 {
					for i := range load[11:] {
						load[11+i].leave = c.leave
					}
				}
				st := onPaced(t, axmodel.Qwen3Small(), small, OpenOptions{})
				if used {
					st.crowd(t, prompts(c.clients+20, 48, 80)[c.clients:])
				}
				stays, took := st.crowd(t, load)
				gap, back := time.Duration(0), 0
				for i, s := range stays {
					want := c.output
					if load[i].leave > 0 {
						want = load[i].leave
					}
					if s.err != nil || s.tokens != want {
						t.Errorf("client %d: %d tokens, want %d; %v", i, s.tokens, want, s.err)
					}
					if gap = max(gap, s.gap); s.gap > 2*time.Second {
						if back++; i < len(stays)-c.back {
							t.Errorf("client %d waited %v for a token, although younger ones did not", i, s.gap)
						}
					}
				}
				t.Logf("%v, %d sent back, longest gap %v", took, back, gap)
				most := c.gap
				if used { // rows are scattered, and one that comes back late waits for those that came before
					most *= 2
				}
				if back != c.back || gap > most {
					t.Errorf("%d sent back, want %d; longest gap %v, at most %v", back, c.back, gap, most)
				}
			})
		}
	}
}

// TestShiftsAnywhere (G16): wherever the near cells' end falls among the passes, answers that
// outgrow them take much less time together than one after another.
func TestShiftsAnywhere(t *testing.T) {
	//proves:G16 answers in shifts
	lane.NoRace(t)
	for clients := 12; clients <= 16; clients++ {
		for prompt := 24; prompt <= 40; prompt += 2 {
			load := prompts(clients, prompt, 1100/clients-prompt+8)
			_, one := onPaced(t, axmodel.Qwen3Small(), small, OpenOptions{Parallel: 1}).crowd(t, load)
			st := onPaced(t, axmodel.Qwen3Small(), small, OpenOptions{})
			for range 3 { // the first on an empty card
				_, all := st.crowd(t, load)
				if ratio := all.Seconds() / one.Seconds(); ratio > 0.6 {
					t.Errorf("%d clients, %d in: %.2f of the time one after another", clients, prompt, ratio)
				}
				for i := range load {
					load[i].job.IDs[0] = (load[i].job.IDs[0] + 17) % fakeVocab
				}
			}
		}
	}
}
