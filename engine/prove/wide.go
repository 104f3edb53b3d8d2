package prove

import "context"

// This file proves wide passes: a full chunk of the widest group gives the results of its rows
// alone, and so do the second of two chunks and a chunk after a decode. Later rows must also be
// right with what a chunk kept. A card, or the code that drives it, may compute the first wide pass
// right, and leave old data of the first in the next. Every prompt longer than a chunk depends on
// this. So a card that fails gets no wide pass at all: prompts are evaluated row by row, which is
// slower, and right.

// Two shape groups round differently, by a hundredth or two. Half of the distance between two rows
// may be less than that. A chunk's worst row is farther off than a few rows are.
const (
	WideFar   = 0.25
	WideLeast = 0.02
)

// Provable reports whether the cache has room for a full chunk and a row that sees it.
func (m *Model) Provable() bool { w := m.wide(0); return w > 0 && w < m.Shape.Cells }

// Text returns rows [from, from+n) of text 0 or 1, in the cells of the same numbers. They see the
// rows before them, in cells and in the pass.
func (m *Model) Text(text, from, n int) []Row {
	rows := make([]Row, n)
	for i := range rows {
		at := from + i
		rows[i] = Row{ID: int32((at*37 + text*(at*5+11) + 3) % m.Vocab), Pos: uint32(at), Cell: uint32(at), Cells: cells(0, from)}
	}
	return together(rows)
}

// Wide compares wide passes with single rows: the first compared rows of each chunk, and a later
// row that sees what the chunk kept. It returns false if one differs, or if the cache has no room
// for the test. Errors: those of passes, ctx's.
func (m *Model) Wide(ctx context.Context, compared int) (sound bool, err error) {
	if m.wide(0) == 0 {
		return true, nil
	}
	if !m.Provable() || m.Slots == 1 {
		return false, nil
	}
	return m.try(ctx, results{}, m.wideChunks(compared))
}

// wideChunks is the table of Wide.
func (m *Model) wideChunks(compared int) probe {
	const text, other = 0, 1
	n := m.wide(0)
	k := min(compared, n)
	// Rows before the chunk, from the decode group, if a wide group sees that many.
	before := 4
	if n+before >= m.Shape.Cells || m.Shape.GroupFor(n, before) < 0 {
		before = 0
	}
	p := probe{limit: WideFar}
	run := func(name string, slot uint32, rows []Row, head bool) {
		if rows[0].To = slot; len(rows[0].Cells) > 0 {
			rows[0].From = slot
		}
		c := as(name, rows...)
		c.head = head
		p.calls = append(p.calls, c)
	}
	one := func(name string, slot uint32, i int) { run(name, slot, m.Text(text, i, 1), false) }
	for i := range k + before + 1 {
		one(nth("right", i), 1, i)
	}
	// after adds a row that sees the first k rows that a chunk kept. A row continued from a state
	// sees the whole chunk.
	after := func(name string, from int, wrong ...string) {
		if at := from + k; m.Slots == 0 || k == n {
			blind := m.Text(text, at, 1)
			blind[0].Cells = nil
			run(name+", blind", 2, blind, false)
			one(name, 1, at)
			p.claims = append(p.claims, claim{right: nth("right", at), got: name, wrong: append(wrong, name+", blind")})
		}
	}
	chunk := func(name string, from int, head bool) {
		run(name, 1, m.Text(text, from, n), head)
		for i := range k {
			p.claims = append(p.claims, claim{right: nth("right", from+i), got: nth(name, i), least: WideLeast,
				wrong: []string{nth("right", max(from+i-1, 0)), nth("right", from+i+1)}})
		}
	}
	// Another text's chunk, and the result of a row that saw it. Then both texts' chunks, one after
	// the other, without the head and with it.
	run("another", 2, m.Text(other, 0, n), false)
	one("strange", 2, k)
	for i, head := range []bool{false, true} {
		run("another", 2, m.Text(other, 0, n), head)
		chunk(nth("second", i), 0, head)
		after(nth("after the second", i), 0, "strange")
	}
	// After a decode, continued from decoded rows, or from none if that is not possible.
	if before == 0 {
		run("another", 2, m.Text(other, 0, n), true)
	}
	for i := range max(before, 1) {
		one("decoded", 1, i)
	}
	chunk("after a decode", before, true)
	after("after that", before)
	return p
}
