package engine

import "github.com/axle-llm/axle/axcl"

// This file makes the layer inputs of some models (Gemma-4): what each layer takes of a row beyond
// the hidden state. The host makes it of the token and its embedding, which takes tens of millions
// of multiplications; rows of tokens that come again are kept.

// layerInputSource makes such rows (models.PerLayer is one).
type layerInputSource interface {
	Row(dst []uint16, id int32, embed []uint16) error
}

// layerInputRoom is how many bytes of rows are kept.
const layerInputRoom = 32 << 20

// layerInputRows keeps what was made last, up to layerInputRoom. It belongs to the card's worker.
type layerInputRows struct {
	from layerInputSource
	rows map[int32][]uint16
	ring []int32 // of rows, in the order they came
	next int     // of ring, once it is full: what goes
}

func (g *layerInputRows) Row(dst []uint16, id int32, embed []uint16) error {
	//rule:G12 TestLayerInputsCached id => id&^1
	if row, ok := g.rows[id]; ok {
		copy(dst, row)
		return nil
	}
	if err := g.from.Row(dst, id, embed); err != nil {
		return err
	}
	if g.rows == nil {
		g.rows = map[int32][]uint16{}
	}
	if most := layerInputRoom / (2 * len(dst)); len(g.ring) < most {
		g.ring = append(g.ring, id)
		g.rows[id] = append([]uint16(nil), dst...)
	} else if most > 0 {
		row := g.rows[g.ring[g.next]] // its memory serves again
		delete(g.rows, g.ring[g.next])
		copy(row, dst)
		g.rows[id], g.ring[g.next] = row, id
		g.next = (g.next + 1) % most
	}
	return nil
}

// layerInputWidth is how many values a row has as inputs of all layers together.
func (m *core) layerInputWidth() int { return m.shape.Layers * m.shape.LayerInputs }

// tokenRow makes row r of a pass, which has room for it: the token's embedding, and its layer
// inputs.
func (m *core) tokenRow(p *axcl.Pass, r int, id int32) error {
	h, n := m.shape.Hidden, m.layerInputWidth()
	row := p.Hidden[r*h:][:h]
	if err := m.embed.Row(row, id); err != nil || n == 0 {
		return err
	}
	//rule:G12 TestLayerInputs$ id => id/2
	return m.layerInputs.Row(p.LayerInputs[r*n:][:n], id, row)
}

// picturedRow makes the layer inputs of a row that a picture's encoder made: the pad token's,
// by that row.
func (m *core) picturedRow(p *axcl.Pass, r int) error {
	h, n := m.shape.Hidden, m.layerInputWidth()
	if n == 0 {
		return nil
	}
	return m.layerInputs.from.Row(p.LayerInputs[r*n:][:n], padID, p.Hidden[r*h:][:h])
}

// padID is Gemma-4's pad token.
const padID = 0
