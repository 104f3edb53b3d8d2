package engine

import (
	"context"
	"math/rand/v2"
	"slices"
)

// Alike says whether the same rows gave the same bits in other cells when the package first ran on the card. Nothing is decided by it:
// where they did not, an answer at temperature 0 may take another turn at a near tie, depending on what the card had done before. A
// repeatable request never does (Request.Repeatable).
type Alike struct {
	Ordered  bool // other cells, in the same order
	Anywhere bool // other cells, in any order
}

// layouts are the places that the same context of n rows gets: the first cells, others in the same order, and others in none. They take
// less than three times as many cells.
func layouts(n int) [3][]uint32 {
	var l [3][]uint32
	for i := range n {
		l[0] = append(l[0], uint32(i))
		l[1] = append(l[1], uint32(2*i+1))
	}
	l[2] = slices.Clone(l[1])
	rng := rand.New(rand.NewPCG(1, 2))
	rng.Shuffle(n, func(i, j int) { l[2][i], l[2][j] = l[2][j], l[2][i] })
	return l
}

// compare finds out Alike, on cells that nobody uses yet: a context laid in each way, and what rows that see it give, alone and in a wide
// pass, bit for bit. A difference in the last place of a sum shows only where a rounding to bf16 turns over, so that small models are asked
// several times.
func (m *lm) compare(ctx context.Context) error {
	n := min(m.shape.Cells/3-1, 48)
	together := m.wide > 0 && m.proven.Chunk
	if together {
		n = min(n, m.widest(0))
	} else {
		n = min(n, 12)
	}
	if n < 2 || !m.proven.Scatter || m.slots != nil {
		return nil
	}
	values := m.shape.Hidden * max(m.shape.Layers, 1) * max(m.minWide, 1)
	m.alike = Alike{true, true}
	for round := range uint64(min(max((1<<17)/values, 1), 16)) {
		id := func(i int) int32 { return int32((uint64(i)*37 + round*101 + 3) % uint64(m.vocab())) }
		var first [][]uint16
		for i, cells := range layouts(n) {
			if err := ctx.Err(); err != nil {
				return err
			}
			got, err := m.seen(cells, together, id)
			if err != nil {
				return err
			}
			switch equal := first == nil || slices.EqualFunc(first, got, slices.Equal[[]uint16]); {
			case i == 0:
				first = got
			case i == 1:
				m.alike.Ordered = m.alike.Ordered && equal
			default:
				m.alike.Anywhere = m.alike.Anywhere && equal
			}
		}
		if m.alike.Anywhere = m.alike.Anywhere && m.alike.Ordered; !m.alike.Ordered {
			break
		}
	}
	return nil
}

// seen lays a context in cells and gives what rows that see it give: one alone, and several together where the card takes that.
func (m *lm) seen(cells []uint32, together bool, id func(int) int32) ([][]uint16, error) {
	context := make([]trial, len(cells))
	for i, c := range cells {
		context[i] = trial{id: id(i), pos: uint32(i), cell: c}
		if together {
			for e := range i {
				context[i].rows = append(context[i].rows, e)
			}
			continue
		}
		context[i].cells = cells[:i]
		if _, err := m.try(context[i]); err != nil {
			return nil, err
		}
	}
	if together {
		if _, err := m.try(context...); err != nil {
			return nil, err
		}
	}
	n, top := len(cells), uint32(m.shape.Cells-1)
	out, err := m.try(trial{id: id(n), pos: uint32(n), cell: top, cells: cells})
	reach := int(slices.Max(cells)) + 1
	if err != nil || !together || !m.proven.Mixed || reach > m.wideReach {
		return out, err
	}
	var rows []trial
	for i := range min(m.minWide, m.shape.Cells-reach, m.widest(reach)) {
		rows = append(rows, trial{id: id(n + 1 + i), pos: uint32(n), cell: top - uint32(i), cells: cells})
	}
	wide, err := m.try(rows...)
	return append(out, wide...), err
}
