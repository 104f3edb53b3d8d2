package prove

import (
	"context"
	"fmt"

	"github.com/axle-llm/axle/axcl"
)

// Abilities runs the probes of what batching relies on, except Narrow: see [Model.Wide]. If the
// cache has too few cells for them, nothing is proven. Errors: those of passes, ctx's, ErrWrong if
// a text cannot begin anew.
func (m *Model) Abilities(ctx context.Context) (Proven, error) {
	switch {
	case m.Shape.Cells < 24, m.Slots == 1:
		return Proven{}, nil
	case m.Slots > 0:
		return m.withStates(ctx)
	}
	return m.withRows(ctx)
}

func (m *Model) id(i int) int32 { return int32((i*37 + 3) % m.Vocab) }

// The two short texts of these probes: their numbers of rows, first tokens and first positions. The
// second text's positions are far from the first's.
const (
	rowsA, fromA, posA = 4, 0, 0
	rowsB, fromB, posB = 3, 10, 9
	elsewhere          = 20 // a cell of no text
)

// withRows is Abilities for a model whose layers keep rows.
func (m *Model) withRows(ctx context.Context) (found Proven, err error) {
	seen := results{}
	if _, err := m.try(ctx, seen, m.alone()); err != nil {
		return found, err
	}
	if found.Scatter, err = m.try(ctx, seen, m.scattered()); err != nil || m.wide(0) == 0 {
		return found, err
	}
	if found.Chunk, err = m.try(ctx, seen, m.chunked()); err != nil || !found.Chunk || !found.Scatter {
		return found, err // rows of several texts have cells of others between their own
	}
	if found.Mixed, err = m.try(ctx, seen, m.mixed()); err != nil || !found.Mixed || m.reach() < elsewhere {
		return found, err
	}
	found.Mixed, err = m.try(ctx, seen, m.mixedInCells())
	return found, err
}

// row returns row i of a text that begins with token from at position pos. The text's cells begin
// at base, and the row sees those before it.
func (m *Model) row(from, pos, base, i int) Row {
	return Row{ID: m.id(from + i), Pos: uint32(pos + i), Cell: uint32(base + i), Cells: cells(base, i)}
}

// alone makes the right results: each text alone, in cells 0, 1, 2 …, one row in each pass. It also
// makes the wrong ones: the first text's last row without its past, and at another position.
func (m *Model) alone() (p probe) {
	for i := range rowsA {
		p.calls = append(p.calls, as(nth("A", i), m.row(fromA, posA, 0, i)))
	}
	last := m.id(rowsA - 1)
	p.calls = append(p.calls, as("A blind", Row{ID: last, Pos: rowsA - 1, Cell: elsewhere}),
		as("A shifted", Row{ID: last, Pos: 0, Cell: elsewhere, Cells: cells(0, rowsA-1)}))
	// The second text comes after it in the same cells, so that a card that still finds the first
	// text's rows there sees too much.
	for i := range rowsB {
		p.calls = append(p.calls, as(nth("B", i), m.row(fromB, posB, 0, i)))
	}
	return p
}

// scattered is the first text in cells that are out of order.
func (m *Model) scattered() (p probe) {
	odd := []uint32{17, 6, 12, 3}
	for i, c := range odd {
		p.calls = append(p.calls, as(nth("scattered", i), Row{ID: m.id(i), Pos: uint32(i), Cell: c, Cells: odd[:i]}))
	}
	p.claims = []claim{{right: nth("A", rowsA-1), got: nth("scattered", rowsA-1), wrong: []string{"A blind", "A shifted"}}}
	return p
}

// chunked is the first text in one short call. A later row must also be right with what that call
// kept.
func (m *Model) chunked() (p probe) {
	n := m.short(rowsA)
	chunk := make([]Row, n)
	for i := range chunk {
		chunk[i] = Row{ID: m.id(i), Pos: uint32(i), Cell: uint32(i)}
		p.claims = append(p.claims, claim{right: nth("A", i), got: nth("chunk", i), wrong: []string{nth("A", (i+1)%rowsA), "A blind"}})
	}
	p.calls = append(p.calls, as("chunk", together(chunk)...))
	next := min(n, rowsA-1)
	later := Row{ID: m.id(next), Pos: uint32(next), Cell: elsewhere, Cells: cells(0, next)}
	wrong := []string{"A blind", "A shifted"}
	if next < rowsA-1 {
		wrong = []string{"next blind", "next shifted"}
		blind, shifted := later, later
		blind.Cells, shifted.Pos = nil, 0
		p.calls = append(p.calls, as(wrong[0], blind), as(wrong[1], shifted))
	}
	p.calls = append(p.calls, as("after a chunk", later))
	p.claims = append(p.claims, claim{right: nth("A", next), got: "after a chunk", wrong: wrong})
	return p
}

// mixed is both texts in one call, in either order. Each row is compared with its result at the
// first row's position, and with the other text in view.
func (m *Model) mixed() (p probe) {
	a, b := rowsA, rowsB
	if w := m.wide(0); w < a+b {
		a, b = (w+1)/2, w/2
	}
	for _, swap := range []bool{false, true} {
		texts := []struct {
			name         string
			n, from, pos int
		}{{"A", a, fromA, posA}, {"B", b, fromB, posB}}
		name := "A with B"
		if swap {
			texts[0], texts[1], name = texts[1], texts[0], "B with A"
		}
		var rows []Row
		for _, t := range texts {
			start := len(rows)
			for i := range t.n {
				r := Row{ID: m.id(t.from + i), Pos: uint32(t.pos + i), Cell: uint32(len(rows))}
				for e := range i {
					r.Rows = append(r.Rows, start+e)
				}
				p.claims = append(p.claims, claim{right: nth(t.name, i), got: nth(name, len(rows))})
				rows = append(rows, r)
			}
		}
		// The wrong results cost a pass each, so only the last row of the second text has them.
		r := len(rows) - 1
		last, all := rows[r], cells(0, r)
		up, misplaced := name+", mixed up", name+", misplaced"
		p.claims[len(p.claims)-1].wrong = []string{up, misplaced}
		p.calls = append(p.calls, as(name, rows...), as(up, Row{ID: last.ID, Pos: last.Pos, Cell: elsewhere, Cells: all}),
			as(misplaced, Row{ID: last.ID, Pos: rows[0].Pos + uint32(r), Cell: elsewhere, Cells: all[len(all)-len(last.Rows):]}))
	}
	return p
}

// mixedInCells is mixed with cells in view: the last rows of both texts, which lie apart.
func (m *Model) mixedInCells() (p probe) {
	for i := range rowsB {
		p.calls = append(p.calls, call{rows: []Row{m.row(fromB, posB, 8, i)}})
	}
	for i := range rowsA {
		p.calls = append(p.calls, call{rows: []Row{m.row(fromA, posA, 0, i)}})
	}
	a := Row{ID: m.id(rowsA - 1), Pos: rowsA - 1, Cell: 18, Cells: cells(0, rowsA-1)}
	b := Row{ID: m.id(fromB + rowsB - 1), Pos: posB + rowsB - 1, Cell: 19, Cells: cells(8, rowsB-1)}
	p.calls = append(p.calls, as("last A blind", Row{ID: a.ID, Pos: a.Pos, Cell: elsewhere}),
		as("last A shifted", Row{ID: a.ID, Pos: 0, Cell: elsewhere, Cells: a.Cells}),
		as("last B blind", Row{ID: b.ID, Pos: b.Pos, Cell: elsewhere}),
		as("last A, B", a, b), as("last B, A", b, a))
	for _, got := range [][2]string{{nth("last A, B", 0), nth("last A, B", 1)}, {nth("last B, A", 1), nth("last B, A", 0)}} {
		p.claims = append(p.claims,
			claim{right: nth("A", rowsA-1), got: got[0], wrong: []string{"last A blind", "last A shifted"}},
			claim{right: nth("B", rowsB-1), got: got[1], wrong: []string{"last B blind"}})
	}
	return p
}

// rowsS is the number of rows of the text for models that keep states.
const rowsS = 6

// withStates is Abilities for a model whose layers keep states.
func (m *Model) withStates(ctx context.Context) (found Proven, err error) {
	seen := results{}
	if _, err := m.try(ctx, seen, m.statesAlone()); err != nil {
		return found, err
	}
	if anew, err := m.try(ctx, seen, m.anew()); err != nil || !anew {
		if err == nil {
			err = fmt.Errorf("%w: a text that begins anew goes on from the state of another", ErrWrong)
		}
		return found, err
	}
	if found.Kept, err = m.try(ctx, seen, m.kept()); err != nil {
		return found, err
	}
	if found.Scatter, err = m.try(ctx, seen, m.statesScattered()); err != nil || m.wide(0) == 0 {
		return found, err
	}
	// If a chunk is wrong, the layers that keep a state take its rows one by one. This is slower,
	// and right.
	for _, stepped := range []bool{false, true} {
		by := *m
		by.Stepped = stepped
		if found.Chunk, err = by.try(ctx, seen, by.statesChunked()); err != nil || found.Chunk {
			found.Stepped = stepped
			return found, err
		}
	}
	return found, nil
}

// part returns rows [first, end) of the text, in cells from base on, which see the rows before
// them. They are continued from state from, and leave state to.
func (m *Model) part(from, to uint32, base, first, end int) (rows []Row) {
	for i := first; i < end; i++ {
		rows = append(rows, Row{ID: m.id(i), Pos: uint32(i), Cell: uint32(base + i), Cells: cells(base, first)})
	}
	rows[0].From, rows[0].To = from, to
	return together(rows)
}

// begun returns the slot that row i of a text is continued from: none for row 0, else slot.
func begun(i int, slot uint32) uint32 { return uint32(min(i, 1)) * slot }

// other is another text, with its state in slot 2.
func (m *Model) other(base int) (calls []call) {
	for i := range rowsS {
		calls = append(calls, call{rows: []Row{{ID: m.id(20 + i), Pos: uint32(i), Cell: uint32(base + i), Cells: cells(base, i),
			From: begun(i, 2), To: 2}}})
	}
	return calls
}

// statesAlone makes the right results: the text alone, one row in each pass, with its state in slot
// 1. Then comes another text, in slot 2 and other cells. It also makes the wrong ones: a row
// without a past, and one with the other text's state.
func (m *Model) statesAlone() (p probe) {
	for i := range rowsS + 1 {
		p.calls = append(p.calls, as(nth("right", i), m.part(begun(i, 1), 1, 0, i, i+1)...))
	}
	p.calls = append(p.calls, m.other(8)...)
	p.calls = append(p.calls, as("blind", Row{ID: m.id(rowsS), Pos: rowsS, Cell: elsewhere, To: 1}),
		as("strange", m.part(2, 1, 0, rowsS, rowsS+1)...))
	return p
}

// anew is the text from its beginning, in a slot that held another text's state.
func (m *Model) anew() (p probe) {
	for i := range rowsS {
		p.calls = append(p.calls, as(nth("anew", i), m.part(begun(i, 1), 1, 0, i, i+1)...))
		p.claims = append(p.claims, claim{right: nth("right", i), got: nth("anew", i), wrong: []string{"strange"}})
	}
	return p
}

// kept tests that the text's state is unchanged after passes that continued from it: twice, and
// with the other slot written in between.
func (m *Model) kept() (p probe) {
	for i := range 2 {
		p.calls = append(p.calls, as(nth("kept", i), m.part(1, 2, 0, rowsS, rowsS+1)...))
		p.claims = append(p.claims, claim{right: nth("right", rowsS), got: nth("kept", i), wrong: []string{"blind", "strange"}})
	}
	return p
}

// statesScattered is the text in cells that are out of order, while another text lies in its old
// cells.
func (m *Model) statesScattered() (p probe) {
	p.calls = m.other(0)
	odd := []uint32{17, 6, 12, 3, 15, 9, 2}
	for i, c := range odd {
		p.calls = append(p.calls, as("scattered", Row{ID: m.id(i), Pos: uint32(i), Cell: c, Cells: odd[:i], From: begun(i, 2), To: 2}))
	}
	p.claims = []claim{{right: nth("right", rowsS), got: "scattered", wrong: []string{"blind", "strange"}}}
	return p
}

// statesChunked is the whole text in calls that are not full, and then its rest in each group that
// continues from a state. A later row must also be right with what they kept.
func (m *Model) statesChunked() (p probe) {
	all := func(base, from, most int) {
		for slot := begun(from, 1); from < rowsS; slot = 2 {
			n := min(most, rowsS-from)
			if m.Shape.GroupFor(n, base+from) < 0 {
				n = 1
			}
			name := fmt.Sprint("chunk in call ", len(p.calls))
			rows := m.part(slot, 2, base, from, from+n)
			p.calls = append(p.calls, call{rows: rows, name: func(r int) string { return nth(name, r) }})
			for i := range rows {
				p.claims = append(p.claims, claim{right: nth("right", from+i), got: nth(name, i),
					wrong: []string{nth("right", (from+i+1)%rowsS), "blind"}})
			}
			from += n
		}
		after := fmt.Sprint("after chunks in call ", len(p.calls))
		p.calls = append(p.calls, as(after, Row{ID: m.id(rowsS), Pos: rowsS, Cell: uint32(base + rowsS), Cells: cells(base, rowsS), From: 2,
			To: 2}))
		p.claims = append(p.claims, claim{right: nth("right", rowsS), got: after, wrong: []string{"blind", "strange"}})
	}
	all(0, 0, m.short(rowsS))
	for _, g := range m.Shape.Groups {
		if base := m.below(g); g.Rows > 1 && g.Cells > base+2 && base+rowsS < m.Shape.Cells {
			for i := range 2 {
				p.calls = append(p.calls, call{rows: m.part(begun(i, 1), 1, base, i, i+1)})
			}
			all(base, 2, min(g.Rows, rowsS))
		}
	}
	return p
}

// below returns how many cells the next smaller group with as many rows sees; 0 if there is none.
func (m *Model) below(g axcl.Group) (cells int) {
	for _, o := range m.Shape.Groups {
		if o.Rows == g.Rows && o.Cells < g.Cells {
			cells = max(cells, o.Cells)
		}
	}
	return cells
}
