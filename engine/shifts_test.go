package engine

import (
	"testing"
	"time"

	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/internal/lane"
)

// TestShifts (G16): when near cells run out, the youngest answers wait until others have ended. No
// client gets another text by it, and none waits long.
func TestShifts(t *testing.T) {
	//proves:G16 answers in shifts
	lane.NoRace(t)
	for _, c := range []struct {
		name            string
		clients, output int
		leave           int // the last five clients leave after so many tokens
		back            int // this many are to be sent back
		gap             time.Duration
	}{
		{"two shifts", 16, 64, 0, 6, 10 * time.Second},
		{"long answers", 16, 100, 0, 8, 20 * time.Second},
		{"the end is near", 16, 35, 0, 0, time.Second},
		{"few clients", 2, 600, 0, 0, time.Second},
		{"those who wait leave", 16, 64, 20, 0, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			load := prompts(c.clients, 32, c.output)
			if c.leave > 0 {
				for i := range load[11:] {
					load[11+i].leave = c.leave
				}
			}
			st := onPaced(t, axmodel.Qwen3Small(), small, OpenOptions{})
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
				if gap = max(gap, s.gap); s.gap > time.Second {
					if back++; i < len(stays)-c.back {
						t.Errorf("client %d waited %v for a token, although younger ones did not", i, s.gap)
					}
				}
			}
			t.Logf("%v, %d sent back, longest gap %v", took, back, gap)
			if back != c.back || gap > c.gap {
				t.Errorf("%d sent back, want %d; longest gap %v, at most %v", back, c.back, gap, c.gap)
			}
		})
	}
}
