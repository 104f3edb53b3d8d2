package engine

import (
	"context"
	"testing"

	"github.com/axle-llm/axle/axcl"
)

// TestPlaceRuns: the rows of a prompt go to neighbouring cells where a run costs something, and to
// lower ones that lie apart where it does not.
func TestPlaceRuns(t *testing.T) {
	for _, tt := range []struct {
		run   float64
		apart bool
	}{{100, false}, {0, true}} {
		b := onFake(t, newFake(), OpenOptions{CardOptions: still})
		if err := b.card.Do(context.Background(), func(axcl.Device) error {
			m := b.m
			m.cells.Forget()
			for i := 0; i < 32; i += 2 {
				m.cells.Grab(i)
			}
			m.costs.run = tt.run
			for i, g := range m.shape.Groups { // a pass that sees more cells takes longer
				m.costs.group[i] = float64(1 + g.Cells)
			}
			s := &seq{job: Job{Limit: 1, NumCtx: 96}, ids: make([]int32, 16)}
			if got := m.layout.place(s, 0); len(got) != 16 || got[15]-got[0] > 15 != tt.apart {
				t.Errorf("where a run costs %v the rows come to %v", tt.run, got)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}
