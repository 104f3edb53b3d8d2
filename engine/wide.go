package engine

import (
	"encoding/binary"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/prove"
)

// This file uses the proof of wide passes (prove.Model.Wide): what is remembered of it for the next
// load, and how a model works without wide passes.

// fewRows is the number of a chunk's rows that are compared if the result is not remembered,
// because then every load pays for them.
const fewRows = 16

// provable reports whether the cache has room for a full chunk and a row that sees it.
func (m *prover) provable() bool { return m.trials().Provable() }

// together is a card's result for the fixed text in wide passes.
type together struct {
	Tokens []int32 // the index of the largest logit, for some rows; nil for an embedding model
	Rows   []byte  // the outputs for the chunk's first and last row, and the row after it: the first values of each, bf16
}

// as reports whether two results are the same. A card gives the same bits for the same rows in the
// same cells, except at near ties.
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
		if !prove.Within(prove.WideLeast, 0, values(o.Rows[i*n:][:n]), values(t.Rows[i*n:][:n])) {
			return false
		}
	}
	return true
}

// sayTogether sends the fixed text as the beginning of a full chunk, after another text's chunk,
// and then a row that sees the chunk. It must run before any sequence does.
func (m *prover) sayTogether() (*together, error) {
	slot, back, ok := m.scratch()
	if !ok {
		return nil, errNoCells
	}
	defer back()
	out := &together{}
	t := m.trials()
	say := func(rows []prove.Row, want int) ([]uint16, error) {
		if rows[0].To = slot; len(rows[0].Cells) > 0 {
			rows[0].From = slot
		}
		p, results, err := t.Pass(rows...)
		if err != nil {
			return nil, err
		}
		if !m.shape.Whole && m.canary.speaks() {
			for r := range want {
				p.Want = append(p.Want, r)
			}
		}
		p.Argmax = make([]int32, len(p.Want))
		if err := t.Run(p); err != nil {
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
	n, w := m.wide, t.Telling()
	text, after := t.Text(0, 0, n), t.Text(0, n, 1)
	for i := range text {
		text[i].ID = m.canary.sampleID(i)
	}
	after[0].ID = m.canary.sampleID(n)
	if _, err := say(t.Text(1, 0, n), 0); err != nil {
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

// narrow leaves the model only its decode groups. It fails if they do not reach the whole cache.
func (m *prover) narrow(name string) error {
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
	m.groups()
	m.cells.SetRungs(reaches(groups))
	return nil
}
