package engine

import (
	"context"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/engine/cache"
)

// TestLonePrice: a row that goes alone is priced by the group it runs on. Where a package has
// several decode groups, a row far out is dear, and a wide pass that would not pay near the
// beginning pays there.
func TestLonePrice(t *testing.T) {
	groups := append([]axmodel.SoftGroup{{Rows: 1, Cells: 24, Cache: 24}}, tinyGroups...)
	b := newTiny(t, groups).open(t, OpenOptions{Proven: &Proven{Chunk: true, Mixed: true, Scatter: true}})
	if err := b.card.Do(context.Background(), func(axcl.Device) error {
		m := b.m
		for g, group := range m.shape.Groups {
			switch {
			case group.Rows > 1:
				m.costs.group[g] = 3
			case group.Cells == 24:
				m.costs.group[g] = 1
			default:
				m.costs.group[g] = 2
			}
		}
		m.costs.head = 0.01
		for _, tt := range []struct{ reach, want int }{{0, 1}, {24, 1}, {25, 2}, {tinyCells, 2}, {tinyCells + 1, 2}} {
			if got := m.lone(tt.reach); got != float64(tt.want) {
				t.Errorf("a lone row that sees %d cells costs %v, want %d", tt.reach, got, tt.want)
			}
		}
		// Two sequences with a row each: 2 near the beginning and 4 far out, against 3 together.
		for _, tt := range []struct {
			reach int
			rows  int
		}{{10, 1}, {40, 2}} {
			m.running = nil
			for range 2 {
				s := &seq{job: Job{Limit: 9, NumCtx: tinyCells}, ids: []int32{1, 2},
					Seq: cache.NewSeq("", m.shape.Cells, m.shape.Local)}
				s.spec.off = true
				s.Path = []int32{int32(tt.reach - 1)}
				s.See[(tt.reach-1)/64] |= 1 << ((tt.reach - 1) % 64)
				m.running = append(m.running, s)
			}
			rows := 0
			for _, h := range m.planner.plan() {
				rows += h.rows()
			}
			if rows != tt.rows {
				t.Errorf("two rows that see %d cells: a pass of %d, want %d", tt.reach, rows, tt.rows)
			}
			m.running = nil
		}
		// New rows take the cells that the smaller group still sees, before a run of neighbours
		// beyond them.
		if m.cells.Rung(24) == m.cells.Rung(25) {
			t.Error("cells that only the larger decode group sees count as good as the others")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestScatteredPrice: a pass whose rows lie in several runs of cells is dear for its copies, not
// for its group.
func TestScatteredPrice(t *testing.T) {
	//proves:G25
	c := costs{group: []float64{0.1}, head: 0.01, run: 0.02}
	cells := []uint32{1, 2, 3, 8, 9, 20}
	if got := c.copies(cells); got != 0.04 {
		t.Errorf("three runs cost %v beyond the first", got)
	}
	for range 100 {
		c.observe(0, 1, cells, 150*time.Millisecond)
	}
	if c.group[0] < 0.0999 || c.group[0] > 0.1001 || c.run < 0.0199 {
		t.Errorf("a pass as dear as its copies say changed the costs: %+v", c)
	}
	for range 100 {
		c.observe(0, 1, cells, 230*time.Millisecond)
	}
	if c.run < 0.025 {
		t.Errorf("copies that take longer still cost %v", c.run)
	}
}
