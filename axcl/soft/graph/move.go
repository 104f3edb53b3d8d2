package graph

import "github.com/axle-llm/axle/axmodel"

// These operations move values and do not compute with them, so they go by words of any type.

// gather takes rows, of what lies behind the axis, by their numbers.
func (p *Plan) gather() {
	x, dims := p.operand(0)
	ids, idDims := p.operand(1)
	axis := int(p.node.Attrs[0])
	inner, n, of := product(dims[axis+1:]), product(idDims), dims[axis]
	y := p.result(0)
	p.rowsOf(product(dims[:axis])*n, inner, 1, func(_, from, to int) {
		for i := from; i < to; i++ {
			id := max(0, min(int(ids.n[i%n]), of-1))
			copy(y.w[i*inner:(i+1)*inner], x.w[(i/n*of+id)*inner:])
		}
	})
}

// pick copies values that go through the operand by strides: a transposition, a part, or a
// repetition.
func (p *Plan) pick() {
	x, own := p.operand(0)
	dims, by, start := p.dims(), make([]int, len(p.dims())), 0
	st := strides(own)
	switch p.node.Op {
	case axmodel.OpTranspose:
		for i, a := range p.node.Attrs {
			by[i] = st[a]
		}
	case axmodel.OpSlice:
		copy(by, st)
		for i := range own {
			start += int(p.node.Attrs[i]) * st[i]
		}
	case axmodel.OpExpand:
		by = through(dims, own)
	}
	to, from := []int{1}, []int{0} // axes that the operand goes through as the result does are one
	for i, d := range dims {
		k := len(to) - 1
		switch {
		case d == 1:
		case to[k] == 1 || from[k] == by[i]*d:
			to[k], from[k] = to[k]*d, by[i]
		default:
			to, from = append(to, d), append(from, by[i])
		}
	}
	last := len(to) - 1
	n, step := to[last], from[last]
	y := p.result(0)
	p.rowsOf(product(to[:last]), n, 1, func(_, first, end int) {
		for r := first; r < end; r++ {
			dst, src := y.w[r*n:(r+1)*n], x.w[start+offset(r, to[:last], from[:last]):]
			if step == 1 {
				copy(dst, src)
				continue
			}
			for i := range dst {
				dst[i] = src[i*step]
			}
		}
	})
}

// concat copies each operand to its part of the result.
func (p *Plan) concat() {
	axis := int(p.node.Attrs[0])
	width := product(p.dims()[axis:])
	y := p.result(0)
	at := 0
	for i := range p.node.In {
		x, dims := p.operand(i)
		n, first := product(dims[axis:]), at
		p.rowsOf(product(dims[:axis]), n, 1, func(_, from, to int) {
			for r := from; r < to; r++ {
				copy(y.w[r*width+first:][:n], x.w[r*n:])
			}
		})
		at += n
	}
}

// pad goes through rows of the result; each is a row of the operand or padding.
func (p *Plan) pad() {
	x, own := p.operand(0)
	dims := p.dims()
	rank := len(dims)
	value := p.node.Float(1)
	maps := make([][]int, rank) // of each axis, where the operand's value is; -1: nowhere
	for i, d := range dims {
		for k := range d {
			at := k - int(p.node.Attrs[2+i])
			if p.node.Attrs[0] == axmodel.PadReflect {
				if at < 0 {
					at = -at
				}
				if at >= own[i] {
					at = 2*(own[i]-1) - at
				}
			} else if at < 0 || at >= own[i] {
				at = -1
			}
			maps[i] = append(maps[i], at)
		}
	}
	n := dims[rank-1]
	st := strides(own)
	y := p.result(0)
	p.rowsOf(product(dims[:rank-1]), n, 1, func(_, from, to int) {
		for r := from; r < to; r++ {
			at, rest, inside := 0, r, true
			for k := rank - 2; k >= 0; k-- {
				m := maps[k][rest%dims[k]]
				rest /= dims[k]
				inside = inside && m >= 0
				at += m * st[k]
			}
			dst := y.f[r*n : (r+1)*n]
			for i, m := range maps[rank-1] {
				if inside && m >= 0 {
					dst[i] = x.f[at+m]
				} else {
					dst[i] = value
				}
			}
		}
	})
}
