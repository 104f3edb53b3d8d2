package prove

import (
	"context"
	"math/rand/v2"
	"slices"
)

// Alike says whether the same rows gave the same bits in other cells when the package first ran on
// the card. Nothing depends on it. If they did not, an answer at temperature 0 may differ at a near
// tie, depending on what the card did before. The answer to a repeatable request never does.
type Alike struct {
	Ordered  bool // other cells, in the same order
	Anywhere bool // other cells, in any order
}

// layouts returns three sets of cells for a context of n rows: the first cells, other cells in the
// same order, and these in random order. The cells lie below 2n.
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

// Alike puts a context into cells in each of these ways, and compares the results of rows that see
// it, alone and in a wide pass, bit for bit. Both are false for a model that keeps states, or that
// does not take cells in any order. A difference in the last place of a sum shows only if it
// changes a rounding to bf16, so small models are tried several times. Errors: those of passes,
// ctx's.
func (m *Model) Alike(ctx context.Context, found Proven) (Alike, error) {
	n := min(m.Shape.Cells/3-1, 48)
	wide := m.wide(0) > 0 && found.Chunk
	if wide {
		n = min(n, m.wide(0))
	} else {
		n = min(n, 12)
	}
	if n < 2 || !found.Scatter || m.Slots > 0 {
		return Alike{}, nil
	}
	values := m.Shape.Hidden * max(m.Shape.Layers, 1) * max(m.narrow(), 1)
	a := Alike{true, true}
	for round := range uint64(min(max((1<<17)/values, 1), 16)) {
		id := func(i int) int32 { return int32((uint64(i)*37 + round*101 + 3) % uint64(m.Vocab)) }
		var first [][]uint16
		for i, cells := range layouts(n) {
			if err := ctx.Err(); err != nil {
				return a, err
			}
			got, err := m.seen(cells, wide, wide && found.Mixed, id)
			if err != nil {
				return a, err
			}
			switch equal := first == nil || slices.EqualFunc(first, got, slices.Equal[[]uint16]); {
			case i == 0:
				first = got
			case i == 1:
				//rule:G14 ./engine TestAlikeElsewhere drop
				a.Ordered = a.Ordered && equal
			default:
				a.Anywhere = a.Anywhere && equal
			}
		}
		if a.Anywhere = a.Anywhere && a.Ordered; !a.Ordered {
			break
		}
	}
	return a, nil
}

// seen puts a context into cells, in one call if the card allows it, and returns the results of
// rows that see it: one row alone, and, if rows may be mixed, several in a wide pass.
func (m *Model) seen(cells []uint32, chunk, mixed bool, id func(int) int32) ([][]uint16, error) {
	context := make([]Row, len(cells))
	for i, c := range cells {
		context[i] = Row{ID: id(i), Pos: uint32(i), Cell: c}
		if chunk {
			continue
		}
		context[i].Cells = cells[:i]
		if _, err := m.Try(context[i]); err != nil {
			return nil, err
		}
	}
	if chunk {
		if _, err := m.Try(together(context)...); err != nil {
			return nil, err
		}
	}
	n, top := len(cells), uint32(m.Shape.Cells-1)
	out, err := m.Try(Row{ID: id(n), Pos: uint32(n), Cell: top, Cells: cells})
	reach := int(slices.Max(cells)) + 1
	if err != nil || !mixed || reach > m.reach() {
		return out, err
	}
	var rows []Row
	for i := range min(m.narrow(), m.Shape.Cells-reach, m.wide(reach)) {
		rows = append(rows, Row{ID: id(n + 1 + i), Pos: uint32(n), Cell: top - uint32(i), Cells: cells})
	}
	wide, err := m.Try(rows...)
	return append(out, wide...), err
}
