package engine

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/axle-llm/axle/axcl"
)

// This file is how wide passes are proven as such: that a full chunk of the widest group gives what its rows give alone, that the second of
// two in a row does, and that one after a decode does; and that rows which come later find what it kept. A card, or the code that drives
// it, may get the first wide pass right and leave in the next what the first had left there. Every prompt that is longer than a chunk rests
// on this, so a card that fails has no wide pass at all: its prompts go row by row, which is slower, and right.

// NoWidePasses says what follows for a model of which Stats.Proven has "wide" as false.
const NoWidePasses = "this card gets wide passes of the model wrong, so none is used: prompts go row by row, many times slower; " +
	"a newer driver or a newer build of the package may pass the check"

// fewRows is how many rows of a chunk are compared where the outcome is not remembered, and each load would pay for all of them.
const fewRows = 16

// Two shape groups round otherwise, by a hundredth or two: half of what tells two rows apart may be less than that. A chunk's worst row is
// farther off than a few rows are.
const (
	wideFar   = 0.25
	wideLeast = 0.02
)

// provable reports whether the cache has room for a full chunk and a row that sees it.
func (m *lm) provable() bool { return m.wide > 0 && m.wide < m.shape.Cells }

// fullRows are rows [from, from+n) of a text in the cells of the same numbers. They see what is before them, in cells and in the pass.
func (m *lm) fullRows(text, from, n int) []trial {
	rows := make([]trial, n)
	var cells []uint32
	for c := range from {
		cells = append(cells, uint32(c))
	}
	for i := range rows {
		at := from + i
		rows[i] = trial{id: int32((at*37 + text*(at*5+11) + 3) % m.vocab()), pos: uint32(at), cell: uint32(at), cells: cells}
		for e := range i {
			rows[i].rows = append(rows[i].rows, e)
		}
	}
	return rows
}

// tryHead is try where the last row may go on to the head, as that of a prompt's last chunk does. What such a pass keeps may reach its
// cells another way than that of a pass without a head: beside the head.
func (m *lm) tryHead(head bool, rows ...trial) ([][]uint16, error) {
	p, results, err := m.trialPass(rows...)
	if err != nil {
		return nil, err
	}
	if head && !m.shape.Whole && m.shape.Out > 0 {
		p.Want, p.Argmax = []int{len(rows) - 1}, make([]int32, 1)
	}
	return m.tried(p, *results)
}

// proveWide compares wide passes with single rows: the first compared rows of each chunk, and what a row makes of those that it kept. It
// is false where one differs, or where the cache has no room to try. It must run before any sequence does.
func (m *lm) proveWide(ctx context.Context, compared int) (sound bool, err error) {
	if m.wide == 0 {
		return true, nil
	}
	if !m.provable() || m.slots != nil && m.slots.size() < 2 {
		return false, nil
	}
	const text, other = 0, 1
	n := m.wide
	k := min(compared, n)
	// Rows before the chunk that the decode group leaves, where a wide group sees as many.
	before := 4
	if n+before >= m.shape.Cells || m.shape.GroupFor(n, before) < 0 {
		before = 0
	}
	run := func(slot uint32, rows []trial, head bool) [][]uint16 {
		if err == nil {
			err = ctx.Err()
		}
		if rows[0].to = slot; len(rows[0].cells) > 0 {
			rows[0].from = slot
		}
		var out [][]uint16
		if err == nil {
			out, err = m.tryHead(head, rows...)
		}
		if err != nil {
			out = make([][]uint16, len(rows))
		}
		return out
	}
	one := func(slot uint32, t trial) []uint16 { return run(slot, []trial{t}, false)[0] }
	row := func(i int) trial { return m.fullRows(text, i, 1)[0] }
	blind := func(i int) []uint16 { t := row(i); t.cells = nil; return one(2, t) }
	sound = true
	compare := func(least float64, right, got []uint16, wrong ...[]uint16) {
		sound = sound && err == nil && within(wideFar, least, right, got, wrong...)
	}
	var right [][]uint16
	for i := range k + before + 1 {
		right = append(right, one(1, row(i)))
	}
	if err != nil {
		return false, err
	}
	// after is a row that sees the first k rows of what a chunk kept; all of it, where a state stands for all of it.
	after := func(from int, others ...[]uint16) {
		if at := from + k; m.slots == nil || k == n {
			wrong := blind(at)
			compare(0, right[at], one(1, row(at)), append(others, wrong)...)
		}
	}
	chunk := func(from int, head bool) {
		got := run(1, m.fullRows(text, from, n), head)
		for i := range k {
			compare(wideLeast, right[from+i], got[i], right[max(from+i-1, 0)], right[from+i+1])
		}
	}
	// Another text's chunk, and what a row would be that saw it; then both texts' chunks in a row, without the head and with it.
	run(2, m.fullRows(other, 0, n), false)
	strange := one(2, row(k))
	for _, head := range []bool{false, true} {
		run(2, m.fullRows(other, 0, n), head)
		chunk(0, head)
		after(0, strange)
	}
	// After a decode, going on from rows that were decoded; from none, where that cannot be.
	if before == 0 {
		run(2, m.fullRows(other, 0, n), true)
	}
	for i := range max(before, 1) {
		one(1, row(i))
	}
	chunk(before, true)
	after(before)
	return sound, err
}

// together is what a card said to the fixed text in wide passes.
type together struct {
	Tokens []int32 // the largest logit's index of some rows; nil for an embedding model
	Rows   []byte  // what came of the chunk's first and last row, and of the row after it: bf16, of each the first values
}

// as reports whether two are the same. A card gives the same bits for the same rows in the same cells, but for near ties.
func (t *together) as(o *together) bool {
	if len(t.Tokens) != len(o.Tokens) || len(t.Rows) != len(o.Rows) || len(t.Rows)%6 != 0 || differs(t.Tokens, o.Tokens) != nil {
		return false
	}
	n := len(t.Rows) / 3
	values := func(b []byte) (v []uint16) {
		for i := 0; i < len(b); i += 2 {
			v = append(v, binary.LittleEndian.Uint16(b[i:]))
		}
		return v
	}
	for i := range 3 {
		if !within(wideLeast, 0, values(o.Rows[i*n:][:n]), values(t.Rows[i*n:][:n])) {
			return false
		}
	}
	return true
}

// sayTogether sends the fixed text as the beginning of a full chunk, after another text's, and then a row that sees the chunk. It must
// run before any sequence does.
func (m *lm) sayTogether() (*together, error) {
	slot, back, ok := m.scratch()
	if !ok {
		return nil, errNoCells
	}
	defer back()
	out := &together{}
	say := func(rows []trial, want int) ([]uint16, error) {
		if rows[0].to = slot; len(rows[0].cells) > 0 {
			rows[0].from = slot
		}
		p, results, err := m.trialPass(rows...)
		if err != nil {
			return nil, err
		}
		if !m.shape.Whole && m.speaks() {
			for r := range want {
				p.Want = append(p.Want, r)
			}
		}
		p.Argmax = make([]int32, len(p.Want))
		if err := m.card.run(m.model, p, time.Minute); err != nil {
			return nil, err
		}
		out.Tokens = append(out.Tokens, p.Argmax[:min(want, len(p.Argmax))]...)
		return *results, nil
	}
	keep := func(row []uint16) {
		for _, v := range row[:min(len(row), 4096)] {
			out.Rows = binary.LittleEndian.AppendUint16(out.Rows, v)
		}
	}
	n, w := m.wide, m.telling()
	text, after := m.fullRows(0, 0, n), m.fullRows(0, n, 1)
	for i := range text {
		text[i].id = m.sampleID(i)
	}
	after[0].id = m.sampleID(n)
	if _, err := say(m.fullRows(1, 0, n), 0); err != nil {
		return nil, err
	}
	rows, err := say(text, min(n, sampleLen))
	if err != nil {
		return nil, err
	}
	keep(rows[:w])
	keep(rows[(n-1)*w:])
	if rows, err = say(after, 1); err != nil {
		return nil, err
	}
	keep(rows)
	return out, nil
}

// narrow leaves the model no group but those that decode. It fails where those do not reach as far as the cache.
func (m *lm) narrow(name string) error {
	m.wide, m.wideReach, m.minWide = 0, 0, 0
	var groups []axcl.Group
	var costs []float64
	reach := 0
	for i, g := range m.shape.Groups {
		if g.Rows == 1 {
			groups, costs, reach = append(groups, g), append(costs, m.costs.group[i]), max(reach, g.Cells)
		}
	}
	if reach < m.shape.Cells {
		return unsound(name, m.card.Info(), checkWideName,
			"and no decode group sees all of its %d cells, so that it cannot do without them",
			m.shape.Cells)
	}
	m.shape.Groups, m.costs.group = groups, costs
	m.decode = m.shape.GroupFor(1, 0)
	m.cells.rungs = slices.DeleteFunc(m.cells.rungs, func(cells int) bool {
		return !slices.ContainsFunc(groups, func(g axcl.Group) bool { return g.Cells == cells })
	})
	return nil
}
