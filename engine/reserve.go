package engine

import (
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/cache"
)

// This file decides when cells are reserved for the next rows of a sequence (cache/place.go), and
// what places for them cost.

// answerAhead is how many rows of an answer are reserved at a time.
const answerAhead = 128

// reserves reports whether cells may be reserved for s. They may not if cells must be used in
// order, or if there are no wide passes.
func (m *layout) reserves(s *seq) bool {
	return m.wide > 0 && m.limits.Together && m.proven.Scatter && !s.repeatable
}

// reserve makes sure that cells are reserved for the next n rows of s, and for down rows of its
// text that lie too high. It returns false if no place is better than any other cells.
func (m *layout) reserve(s *seq, n, down int) bool {
	return m.cells.Places().Reserve(&s.Seq, n, func() []int32 { return m.place(s, down) })
}

// place returns cells for the rows of s, in ascending order, or nil if no cells are better than
// others. Cells reserved for the answers of others are used only if a prompt finds no others.
func (m *layout) place(s *seq, down int) []int32 {
	p := &cache.Placing{Prompt: down + s.pending(), Down: down, Ahead: min(max(s.room()-1, 0), answerAhead), Wide: m.wide,
		WideReach: m.wideReach, Run: m.costs.run, Stretch: m.stretch,
		Answers: func(reach, top int) float64 { return m.answers(s, reach, top) },
		Prompts: func(yield func([]int32) bool) {
			for _, r := range m.running {
				if n := min(r.pending(), len(r.Reserved)); n > 1 && !yield(r.Reserved[:n]) {
					return
				}
			}
		}}
	for _, n := range s.Path {
		if down == 0 || int(n) < m.wideReach {
			p.Reach = max(p.Reach, int(n)+1)
		}
	}
	if g := m.shape.GroupFor(m.minWide, m.wideReach/2); g >= 0 {
		p.Row = m.costs.group[g] / float64(m.wide)
	}
	return m.cells.Places().Place(&s.Seq, p)
}

// answers returns how much more time answers take together, for a while, if the rows of s lie up to
// top instead of reach.
func (m *layout) answers(s *seq, reach, top int) float64 {
	const passesToCome = 64
	if len(m.running) < 2 || !m.proven.Mixed {
		return 0
	}
	pass := func(reach int) float64 {
		alone := float64(len(m.running)) * m.lone(reach)
		if g := m.shape.GroupFor(m.minWide, reach); g >= 0 {
			return min(alone, m.costs.group[g])
		}
		return alone
	}
	return max(pass(top)-pass(reach), 0) * float64(min(max(s.room(), 0), passesToCome))
}

// tidy joins free cells while the card has nothing else to do. Rows between two runs of free cells,
// at most a piece of them, are moved to another place where they fit, the fewest first. tidy moves
// one such group of rows, and reports whether there was one.
func (m *layout) tidy() (bool, error) {
	if !m.moves() {
		return false, nil
	}
	from, to, n := m.cells.Places().Between(m.shape.Piece, m.wideReach)
	if n == 0 {
		return false, nil
	}
	rows, cells := make([]int32, n), make([]int32, n)
	for i := range rows {
		rows[i], cells[i] = int32(from+i), m.cells.Grab(to+i)
	}
	return m.move(rows, cells)
}

// copies returns the time to copy a pass's new rows to their cells, beyond the time for one run.
func (c *costs) copies(rows []uint32) float64 { return c.run * float64(max(axcl.Runs(rows), 1)-1) }
