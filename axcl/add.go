package axcl

import "fmt"

// Addition says where one row of Pass.Added goes: to what layer Layer of the model, counted from 0,
// gives for row Row of the pass.
type Addition struct{ Layer, Row uint32 }

// checkAdd reports the first addition that s does not allow, for a pass of n rows.
func (p *Pass) checkAdd(s Shape, n int) error {
	if len(p.Added) != len(p.Add)*s.Hidden {
		return fmt.Errorf("%w: %d values for %d additions of %d", ErrPass, len(p.Added), len(p.Add), s.Hidden)
	}
	for i, a := range p.Add {
		switch {
		case int64(a.Layer) >= int64(s.Layers):
			return fmt.Errorf("%w: an addition after layer %d of %d", ErrPass, a.Layer, s.Layers)
		case int64(a.Row) >= int64(n):
			return fmt.Errorf("%w: an addition to row %d of %d", ErrPass, a.Row, n)
		case i == 0:
		case a.Layer < p.Add[i-1].Layer, a.Layer == p.Add[i-1].Layer && a.Row <= p.Add[i-1].Row:
			return fmt.Errorf("%w: additions must ascend by layer and then by row, got layer %d, row %d after layer %d, row %d", ErrPass,
				a.Layer, a.Row, p.Add[i-1].Layer, p.Add[i-1].Row)
		}
	}
	return nil
}

// SplitAdd is the part of a pass's additions that belongs to the layers [from, to), numbered from 0
// again, which is what a model of those layers alone takes; into is room that is used again. Nil,
// both, where there are none.
func (p *Pass) SplitAdd(into []Addition, from, to int) (add []Addition, added []uint16) {
	add = into[:0]
	first := -1
	for i, a := range p.Add {
		if int(a.Layer) >= from && int(a.Layer) < to {
			if first < 0 {
				first = i
			}
			add = append(add, Addition{a.Layer - uint32(from), a.Row})
		}
	}
	if first < 0 {
		return nil, nil
	}
	hidden := len(p.Added) / len(p.Add)
	return add, p.Added[first*hidden : (first+len(add))*hidden]
}

// Sum is what an addition makes of a value: the sum in float32, rounded to the nearest bf16, ties
// to even. NaN stays NaN.
func Sum(a, b uint16) uint16 { return BFloat16(Float32(a) + Float32(b)) }
