package axmodeltest

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/x448/float16"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
)

// This file computes nets in float64, index by index, as docs/axmodel-format.md says it: a third
// time, and with none of the other two's short cuts.

// tensor is a value: of integers too, which float64 holds exactly.
type tensor struct {
	dims []int
	v    []float64
}

func newTensor(dims []int) *tensor {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return &tensor{dims, make([]float64, n)}
}

// at is the value at an index; axes that are missing in front, and axes of length 1, stand for all
// there are.
func (t *tensor) at(idx ...int) float64 {
	to := 0
	for i, d := range t.dims {
		k := idx[len(idx)-len(t.dims)+i]
		if d == 1 {
			k = 0
		}
		to = to*d + k
	}
	return t.v[to]
}

// fill sets each value by its index.
func (t *tensor) fill(f func(idx []int) float64) *tensor {
	idx := make([]int, len(t.dims))
	for i := range t.v {
		rest := i
		for k := len(idx) - 1; k >= 0; k-- {
			idx[k] = rest % t.dims[k]
			rest /= t.dims[k]
		}
		t.v[i] = f(idx)
	}
	return t
}

// decode reads values as a border has them.
func decode(t axcl.Type, b []byte, n int) []float64 {
	le := binary.LittleEndian
	v := make([]float64, n)
	for i := range v {
		switch t {
		case axcl.FP32:
			v[i] = float64(math.Float32frombits(le.Uint32(b[4*i:])))
		case axcl.BF16:
			v[i] = float64(axcl.Float32(le.Uint16(b[2*i:])))
		case axcl.FP16:
			v[i] = float64(float16.Frombits(le.Uint16(b[2*i:])).Float32())
		case axcl.Int32, axcl.Uint32:
			v[i] = float64(int32(le.Uint32(b[4*i:])))
		case axcl.Uint8:
			v[i] = float64(b[i])
		}
	}
	return v
}

// Oracle computes a graph of a file in float64: its outputs by name, before they are rounded.
func Oracle(g *axmodel.Graph, file []byte, in map[string][]byte) (map[string][]float64, error) {
	values := make([]*tensor, len(g.Values))
	for i, p := range g.Inputs {
		values[i] = &tensor{g.Values[i].Dims, decode(p.Type, in[p.Name], g.Values[i].Len())}
	}
	for i, c := range g.Constants {
		k := len(g.Inputs) + i
		values[k] = &tensor{g.Values[k].Dims, decode(c.Type, file[c.Offset:], g.Values[k].Len())}
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		o := node{n, g, make([]*tensor, 6)}
		for k, v := range n.In {
			if k >= len(o.in) {
				o.in = append(o.in, nil)
			}
			if v >= 0 {
				o.in[k] = values[v]
			}
		}
		for k, y := range o.run() {
			if want := g.Values[n.Out+k].Dims; fmt.Sprint(y.dims) != fmt.Sprint(want) {
				return nil, fmt.Errorf("node %d (%v) gives %v, the oracle %v", i, n.Op, want, y.dims)
			}
			values[n.Out+k] = y
		}
	}
	out := map[string][]float64{}
	for _, p := range g.Outputs {
		out[p.Name] = values[p.Value].v
	}
	return out, nil
}

type node struct {
	*axmodel.GraphNode
	g  *axmodel.Graph
	in []*tensor
}

func (n *node) a(i int) int { return int(n.Attrs[i]) }

// result is the shape that the file's reader worked out, which run's caller compares where the
// oracle has its own.
func (n *node) result() *tensor { return newTensor(n.g.Values[n.Out].Dims) }

func (n *node) run() []*tensor {
	x := n.in[0]
	rank := len(x.dims)
	one := func(t *tensor) []*tensor { return []*tensor{t} }
	switch n.Op {
	case axmodel.OpConv:
		return one(n.conv())
	case axmodel.OpConvTranspose:
		return one(n.convTranspose())
	case axmodel.OpMatMul:
		return one(n.result().fill(func(idx []int) float64 {
			r, c := len(idx)-2, len(idx)-1
			sum := 0.0
			for k := range x.dims[rank-1] {
				left, right := append(append([]int{}, idx[:r]...), idx[r], k), append(append([]int{}, idx[:r]...), k, idx[c])
				if n.a(0) == 1 {
					right[r], right[c] = right[c], right[r]
				}
				sum += x.at(left...) * n.in[1].at(right...)
			}
			if n.in[2] != nil {
				sum += n.in[2].v[idx[c]]
			}
			return sum
		}))
	case axmodel.OpAttention:
		return one(n.attention())
	case axmodel.OpLayerNorm, axmodel.OpRMSNorm:
		last := x.dims[rank-1]
		return one(newTensor(x.dims).fill(func(idx []int) float64 {
			row := append([]int{}, idx...)
			value := func(k int) float64 { row[rank-1] = k; return x.at(row...) }
			return n.scaled(normed(value, last, idx[rank-1], n.Op == axmodel.OpLayerNorm, float64(n.Float(0))), idx[rank-1])
		}))
	case axmodel.OpGroupNorm:
		each, area := x.dims[1]/n.a(0), 1
		for _, d := range x.dims[2:] {
			area *= d
		}
		y := newTensor(x.dims)
		for i := range y.v {
			first := i / (each * area) * each * area
			value := func(k int) float64 { return x.v[first+k] }
			y.v[i] = n.scaled(normed(value, each*area, i-first, true, float64(n.Float(1))), i/area%x.dims[1])
		}
		return one(y)
	case axmodel.OpUnary:
		return one(newTensor(x.dims).fill(func(idx []int) float64 { return unary(n.a(0), float64(n.Float(1)), x.at(idx...)) }))
	case axmodel.OpBinary:
		whole := n.g.Values[n.Out].Int
		return one(n.result().fill(func(idx []int) float64 {
			v := binaryOf(n.a(0), x.at(idx...), n.in[1].at(idx...))
			if whole {
				return float64(int32(int64(v)))
			}
			return v
		}))
	case axmodel.OpCast:
		return one(newTensor(x.dims).fill(func(idx []int) float64 {
			v := x.at(idx...)
			if n.a(0) == 1 {
				if v != v {
					return 0
				}
				return max(math.MinInt32, min(math.MaxInt32, math.Trunc(v)))
			}
			return v
		}))
	case axmodel.OpSoftmax:
		return one(newTensor(x.dims).fill(func(idx []int) float64 {
			sum, row := 0.0, append([]int{}, idx...)
			for k := range x.dims[rank-1] {
				row[rank-1] = k
				sum += math.Exp(x.at(row...) - x.at(idx...))
			}
			return 1 / sum
		}))
	case axmodel.OpReduce:
		y := n.result()
		return one(y.fill(func(to []int) float64 {
			sum, top, count := 0.0, math.Inf(-1), 0.0
			newTensor(x.dims).fill(func(idx []int) float64 {
				for i, k := range idx {
					if n.a(1)>>i&1 == 0 && k != to[i] {
						return 0
					}
				}
				sum, top, count = sum+x.at(idx...), max(top, x.at(idx...)), count+1
				return 0
			})
			return []float64{sum, sum / count, top}[n.a(0)]
		}))
	case axmodel.OpPool:
		return one(n.pool())
	case axmodel.OpResize:
		return one(n.resize())
	case axmodel.OpGather:
		axis, many := n.a(0), len(n.in[1].dims)
		return one(n.result().fill(func(idx []int) float64 {
			id := int(n.in[1].at(idx[axis : axis+many]...))
			id = max(0, min(id, x.dims[axis]-1))
			return x.at(append(append(append([]int{}, idx[:axis]...), id), idx[axis+many:]...)...)
		}))
	case axmodel.OpReshape:
		return one(&tensor{n.g.Values[n.Out].Dims, x.v})
	case axmodel.OpExpand:
		return one(n.result().fill(func(idx []int) float64 { return x.at(idx...) }))
	case axmodel.OpTranspose:
		return one(n.result().fill(func(idx []int) float64 {
			from := make([]int, rank)
			for i, a := range n.Attrs {
				from[a] = idx[i]
			}
			return x.at(from...)
		}))
	case axmodel.OpConcat:
		return one(n.result().fill(func(idx []int) float64 {
			from := append([]int{}, idx...)
			for _, t := range n.in {
				if t == nil {
					break
				}
				if from[n.a(0)] < t.dims[n.a(0)] {
					return t.at(from...)
				}
				from[n.a(0)] -= t.dims[n.a(0)]
			}
			panic("beyond the last")
		}))
	case axmodel.OpSlice:
		return one(n.result().fill(func(idx []int) float64 {
			from := make([]int, rank)
			for i := range from {
				from[i] = idx[i] + n.a(i)
			}
			return x.at(from...)
		}))
	case axmodel.OpPad:
		return one(n.result().fill(func(idx []int) float64 {
			from := make([]int, rank)
			for i := range from {
				k := idx[i] - n.a(2+i)
				switch d := x.dims[i]; {
				case k >= 0 && k < d:
				case n.a(0) == axmodel.PadConstant:
					return float64(n.Float(1))
				case k < 0:
					k = -k
				default:
					k = 2*d - 2 - k
				}
				from[i] = k
			}
			return x.at(from...)
		}))
	}
	return n.lstm()
}

// scaled applies a norm's factor and addend of place c.
func (n *node) scaled(v float64, c int) float64 {
	if n.in[1] != nil {
		v *= n.in[1].v[c]
	}
	if n.in[2] != nil {
		v += n.in[2].v[c]
	}
	return v
}

func normed(value func(k int) float64, n, at int, centred bool, eps float64) float64 {
	mean, square := 0.0, 0.0
	for k := range n {
		mean += value(k) / float64(n)
	}
	if !centred {
		mean = 0
	}
	for k := range n {
		square += (value(k) - mean) * (value(k) - mean) / float64(n)
	}
	return (value(at) - mean) / math.Sqrt(square+eps)
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func unary(f int, alpha, x float64) float64 {
	switch f {
	case axmodel.UnaryReLU:
		return max(x, 0)
	case axmodel.UnaryLeaky:
		return max(x, 0) + alpha*min(x, 0)
	case axmodel.UnarySigmoid:
		return logistic(x)
	case axmodel.UnaryTanh:
		return math.Tanh(x)
	case axmodel.UnarySiLU:
		return x * logistic(x)
	case axmodel.UnaryGELU:
		return x / 2 * (1 + math.Erf(x/math.Sqrt2))
	case axmodel.UnaryGELUTanh:
		return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	case axmodel.UnaryGELUFast:
		return x * logistic(1.702*x)
	case axmodel.UnarySqrt:
		return math.Sqrt(x)
	case axmodel.UnarySin:
		return math.Sin(x)
	}
	return math.Cos(x)
}

func binaryOf(f int, a, b float64) float64 {
	switch f {
	case axmodel.BinaryAdd:
		return a + b
	case axmodel.BinarySub:
		return a - b
	case axmodel.BinaryMul:
		return a * b
	case axmodel.BinaryDiv:
		return a / b
	case axmodel.BinaryMin:
		return min(a, b)
	}
	return max(a, b)
}

// flat makes of a row of values a plane of height 1.
func flat(t *tensor) *tensor {
	if len(t.dims) == 4 {
		return t
	}
	return &tensor{[]int{t.dims[0], t.dims[1], 1, t.dims[2]}, t.v}
}

// back gives a plane the rank of the node's operand.
func (n *node) back(y *tensor) *tensor {
	if len(n.in[0].dims) == 3 {
		y.dims = []int{y.dims[0], y.dims[1], y.dims[3]}
	}
	return y
}

func (n *node) conv() *tensor {
	x, w := flat(n.in[0]), flat(n.in[1])
	groups := n.a(8)
	size := func(in, k, stride, before, after, dilation int) int {
		return (in+before+after-dilation*(k-1)-1)/stride + 1
	}
	oh := size(x.dims[2], w.dims[2], n.a(0), n.a(2), n.a(4), n.a(6))
	ow := size(x.dims[3], w.dims[3], n.a(1), n.a(3), n.a(5), n.a(7))
	return n.back(newTensor([]int{x.dims[0], w.dims[0], oh, ow}).fill(func(i []int) float64 {
		sum := 0.0
		if n.in[2] != nil {
			sum = n.in[2].v[i[1]]
		}
		for c := range w.dims[1] {
			for ky := range w.dims[2] {
				for kx := range w.dims[3] {
					y, xx := i[2]*n.a(0)-n.a(2)+ky*n.a(6), i[3]*n.a(1)-n.a(3)+kx*n.a(7)
					if y >= 0 && y < x.dims[2] && xx >= 0 && xx < x.dims[3] {
						sum += x.at(i[0], i[1]/(w.dims[0]/groups)*w.dims[1]+c, y, xx) * w.at(i[1], c, ky, kx)
					}
				}
			}
		}
		return sum
	}))
}

// convTranspose asks for each place which values fall on it.
func (n *node) convTranspose() *tensor {
	x, w := flat(n.in[0]), flat(n.in[1])
	groups := n.a(8)
	size := func(in, k, stride, before, after, dilation, more int) int {
		return (in-1)*stride - before - after + dilation*(k-1) + more + 1
	}
	oh := size(x.dims[2], w.dims[2], n.a(0), n.a(2), n.a(4), n.a(6), n.a(9))
	ow := size(x.dims[3], w.dims[3], n.a(1), n.a(3), n.a(5), n.a(7), n.a(10))
	own := x.dims[1] / groups
	return n.back(newTensor([]int{x.dims[0], groups * w.dims[1], oh, ow}).fill(func(i []int) float64 {
		sum := 0.0
		if n.in[2] != nil {
			sum = n.in[2].v[i[1]]
		}
		for c := range own {
			from := i[1]/w.dims[1]*own + c
			for ky := range w.dims[2] {
				for kx := range w.dims[3] {
					y, xx := i[2]+n.a(2)-ky*n.a(6), i[3]+n.a(3)-kx*n.a(7)
					if y >= 0 && y%n.a(0) == 0 && y/n.a(0) < x.dims[2] && xx >= 0 && xx%n.a(1) == 0 && xx/n.a(1) < x.dims[3] {
						sum += x.at(i[0], from, y/n.a(0), xx/n.a(1)) * w.at(from, i[1]%w.dims[1], ky, kx)
					}
				}
			}
		}
		return sum
	}))
}

func (n *node) attention() *tensor {
	q, k, v, heads := n.in[0], n.in[1], n.in[2], n.a(0)
	d, e := q.dims[2]/heads, v.dims[2]/heads
	return newTensor([]int{q.dims[0], q.dims[1], v.dims[2]}).fill(func(i []int) float64 {
		head := i[2] / e
		sum, weights := 0.0, 0.0
		for s := range k.dims[1] {
			score := 0.0
			for c := range d {
				score += q.at(i[0], i[1], head*d+c) * k.at(i[0], s, head*d+c)
			}
			score *= float64(n.Float(1))
			if n.in[3] != nil {
				score += n.in[3].at(i[0], head, i[1], s)
			}
			w := math.Exp(score)
			weights += w
			sum += w * v.at(i[0], s, i[2])
		}
		return sum / weights
	})
}

func (n *node) pool() *tensor {
	x := flat(n.in[0])
	size := func(in, k, stride, before, after int) int { return (in+before+after-k)/stride + 1 }
	oh, ow := size(x.dims[2], n.a(1), n.a(3), n.a(5), n.a(7)), size(x.dims[3], n.a(2), n.a(4), n.a(6), n.a(8))
	return n.back(newTensor([]int{x.dims[0], x.dims[1], oh, ow}).fill(func(i []int) float64 {
		top, sum, count := math.Inf(-1), 0.0, 0.0
		for ky := range n.a(1) {
			for kx := range n.a(2) {
				y, xx := i[2]*n.a(3)-n.a(5)+ky, i[3]*n.a(4)-n.a(6)+kx
				if y >= 0 && y < x.dims[2] && xx >= 0 && xx < x.dims[3] {
					v := x.at(i[0], i[1], y, xx)
					top, sum, count = max(top, v), sum+v, count+1
				}
			}
		}
		if n.a(0) == axmodel.PoolAverage {
			return sum / count
		}
		return top
	}))
}

func (n *node) resize() *tensor {
	x := flat(n.in[0])
	oh, ow := n.a(1), n.a(2)
	// weight is what place k of an axis adds to place i of the result.
	weight := func(i, k, in, out int) float64 {
		if n.a(0) == axmodel.ResizeNearest {
			if k == i*in/out {
				return 1
			}
			return 0
		}
		at := (float64(i)+0.5)*float64(in)/float64(out) - 0.5
		at = max(0, min(at, float64(in-1)))
		return max(0, 1-math.Abs(at-float64(k)))
	}
	return n.back(newTensor([]int{x.dims[0], x.dims[1], oh, ow}).fill(func(i []int) float64 {
		sum := 0.0
		for y := range x.dims[2] {
			for xx := range x.dims[3] {
				if w := weight(i[2], y, x.dims[2], oh) * weight(i[3], xx, x.dims[3], ow); w != 0 {
					sum += w * x.at(i[0], i[1], y, xx)
				}
			}
		}
		return sum
	}))
}

func (n *node) lstm() []*tensor {
	x, w, r, dirs, h := n.in[0], n.in[1], n.in[2], n.a(0), n.in[2].dims[2]
	batch, steps := x.dims[0], x.dims[1]
	y, hn, cn := newTensor([]int{batch, steps, dirs * h}), newTensor([]int{dirs, batch, h}), newTensor([]int{dirs, batch, h})
	for d := range dirs {
		for b := range batch {
			state, cell := make([]float64, h), make([]float64, h)
			for k := range h {
				if n.in[4] != nil {
					state[k] = n.in[4].at(d, b, k)
				}
				if n.in[5] != nil {
					cell[k] = n.in[5].at(d, b, k)
				}
			}
			for s := range steps {
				t := s
				if d == 1 {
					t = steps - 1 - s
				}
				gate := func(which, k int) float64 {
					sum, row := 0.0, which*h+k
					for c := range x.dims[2] {
						sum += w.at(d, row, c) * x.at(b, t, c)
					}
					for c := range h {
						sum += r.at(d, row, c) * state[c]
					}
					if n.in[3] != nil {
						sum += n.in[3].at(d, row)
					}
					return sum
				}
				next := make([]float64, h)
				for k := range h {
					cell[k] = logistic(gate(1, k))*cell[k] + logistic(gate(0, k))*math.Tanh(gate(2, k))
					next[k] = logistic(gate(3, k)) * math.Tanh(cell[k])
				}
				state = next
				for k, v := range state {
					y.v[(b*steps+t)*dirs*h+d*h+k] = v
				}
			}
			copy(hn.v[(d*batch+b)*h:], state)
			copy(cn.v[(d*batch+b)*h:], cell)
		}
	}
	return []*tensor{y, hn, cn}
}
