package engine

import "github.com/axle-llm/axle/axcl"

// This file computes the layer inputs of some models (Gemma-4): what each layer takes for a row
// next to the hidden state. The host computes them from the token and its embedding, with tens of
// millions of multiplications. The rows of repeated tokens are cached.

// layerInputSource computes such rows. models.PerLayer implements it.
type layerInputSource interface {
	Row(dst []uint16, id int32, embed []uint16) error
}

// layerInputRoom is how many bytes of rows are cached.
const layerInputRoom = 32 << 20

// layerInputRows caches the newest rows, up to layerInputRoom. It belongs to the card's worker.
type layerInputRows struct {
	from layerInputSource
	rows map[int32][]uint16
	ring []int32 // keys of rows, in the order they came
	next int     // index in a full ring of the row to drop next
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
		row := g.rows[g.ring[g.next]] // its memory is reused
		delete(g.rows, g.ring[g.next])
		copy(row, dst)
		g.rows[id], g.ring[g.next] = row, id
		g.next = (g.next + 1) % most
	}
	return nil
}

// layerInputWidth returns how many values a row has as inputs of all layers together.
func (m *core) layerInputWidth() int { return m.shape.Layers * m.shape.LayerInputs }

// tokenRow fills row r of a pass, which has room for it, with the token's embedding and its layer
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

// picturedRow computes the layer inputs of a row of a picture: those of the pad token, with the row
// as its embedding.
func (m *core) picturedRow(p *axcl.Pass, r int) error {
	h, n := m.shape.Hidden, m.layerInputWidth()
	if n == 0 {
		return nil
	}
	return m.layerInputs.from.Row(p.LayerInputs[r*n:][:n], padID, p.Hidden[r*h:][:h])
}

// padID is Gemma-4's pad token.
const padID = 0
