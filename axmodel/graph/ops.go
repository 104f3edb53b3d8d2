package graph

import (
	"cmp"

	"github.com/axle-llm/axle/axmodel"
)

// Pair is a number down and one across. Along a row of values alone the one across counts. Zeros
// stand for ones.
type Pair [2]int

// Both is the same down and across.
func Both(n int) Pair { return Pair{n, n} }

func (p Pair) down() int   { return cmp.Or(p[0], 1) }
func (p Pair) across() int { return cmp.Or(p[1], 1) }

// Conv is how a convolution walks. The zero Conv takes each place, without padding.
type Conv struct {
	Stride, Dilation Pair
	Pad              int     // zeros on each side
	Sides            *[4]int // zeros at the top, left, bottom and right; nil: Pad
	Groups           int     // 0 means 1
	More             Pair    // of a transposed convolution: values that are added at the end, which zeros here leave out
}

func (c Conv) attrs(row bool) []int32 {
	s := [4]int{c.Pad, c.Pad, c.Pad, c.Pad}
	if c.Sides != nil {
		s = *c.Sides
	}
	down, dilated := c.Stride.down(), c.Dilation.down()
	if row {
		down, dilated, s[0], s[2] = 1, 1, 0, 0
	}
	return narrow(down, c.Stride.across(), s[0], s[1], s[2], s[3], dilated, c.Dilation.across(), cmp.Or(c.Groups, 1))
}

// Conv1D convolves x [N, C, W] with w [O, C/groups, K], and adds bias [O] where there is one. Sums
// run from w's first to its last value, as in every net library: w is not turned round.
func (g *Graph) Conv1D(x, w, bias Value, c Conv) Value {
	return g.add(axmodel.OpConv, []Value{x, w, bias}, c.attrs(true)...)
}

// Conv2D is Conv1D of x [N, C, H, W] with w [O, C/groups, KH, KW].
func (g *Graph) Conv2D(x, w, bias Value, c Conv) Value {
	return g.add(axmodel.OpConv, []Value{x, w, bias}, c.attrs(false)...)
}

// ConvTranspose1D is the transposed convolution of x [N, C, W] with w [C, O/groups, K]: each value
// of x adds w, times itself, to the places that a convolution of the same stride, padding and
// dilation would have read for it.
func (g *Graph) ConvTranspose1D(x, w, bias Value, c Conv) Value {
	return g.add(axmodel.OpConvTranspose, []Value{x, w, bias}, append(c.attrs(true), 0, int32(c.More[1]))...)
}

// ConvTranspose2D is ConvTranspose1D of x [N, C, H, W] with w [C, O/groups, KH, KW].
func (g *Graph) ConvTranspose2D(x, w, bias Value, c Conv) Value {
	return g.add(axmodel.OpConvTranspose, []Value{x, w, bias}, append(c.attrs(false), int32(c.More[0]), int32(c.More[1]))...)
}

// MatMul multiplies a [… M, K] with b [… K, N]. Dimensions before the last two go together as in
// Add.
func (g *Graph) MatMul(a, b Value) Value { return g.add(axmodel.OpMatMul, []Value{a, b}, 0) }

// Linear multiplies rows of x [… M, K] with w [N, K], as checkpoints keep it, and adds bias [N]
// where there is one.
func (g *Graph) Linear(x, w, bias Value) Value {
	return g.add(axmodel.OpMatMul, []Value{x, w, bias}, 1)
}

// Attention is softmax(scale · q·kᵀ + mask) · v, head by head: q [N, M, heads·D], k [N, S,
// heads·D], v [N, S, heads·E] give [N, M, heads·E]. mask is added to scores of [N, heads, M, S] and
// goes together with them as in Add. What a row makes of scores that are all −∞ means nothing.
func (g *Graph) Attention(q, k, v, mask Value, heads int, scale float32) Value {
	return g.add(axmodel.OpAttention, []Value{q, k, v, mask}, append(narrow(heads), bits(scale))...)
}

// LayerNorm makes the mean of each row, along the last axis, 0 and its variance 1: (x − mean) /
// √(variance + eps) · w + bias.
func (g *Graph) LayerNorm(x, w, bias Value, eps float32) Value {
	return g.add(axmodel.OpLayerNorm, []Value{x, w, bias}, bits(eps))
}

// RMSNorm is x / √(mean of x² + eps) · w for each row, along the last axis.
func (g *Graph) RMSNorm(x, w Value, eps float32) Value {
	return g.add(axmodel.OpRMSNorm, []Value{x, w}, bits(eps))
}

// GroupNorm normalises x [N, C, …] over groups of channels and all their places, then multiplies
// each channel by w [C] and adds bias [C]. As many groups as channels make it an instance norm.
func (g *Graph) GroupNorm(x, w, bias Value, groups int, eps float32) Value {
	return g.add(axmodel.OpGroupNorm, []Value{x, w, bias}, append(narrow(groups), bits(eps))...)
}

func (g *Graph) unary(x Value, f int32, alpha float32) Value {
	return g.add(axmodel.OpUnary, []Value{x}, f, bits(alpha))
}

// ReLU is max(x, 0).
func (g *Graph) ReLU(x Value) Value { return g.unary(x, axmodel.UnaryReLU, 0) }

// LeakyReLU is x where x > 0, else slope·x.
func (g *Graph) LeakyReLU(x Value, slope float32) Value { return g.unary(x, axmodel.UnaryLeaky, slope) }

// Sigmoid is 1 / (1 + e^−x).
func (g *Graph) Sigmoid(x Value) Value { return g.unary(x, axmodel.UnarySigmoid, 0) }

// Tanh is the hyperbolic tangent.
func (g *Graph) Tanh(x Value) Value { return g.unary(x, axmodel.UnaryTanh, 0) }

// SiLU is x·σ(x).
func (g *Graph) SiLU(x Value) Value { return g.unary(x, axmodel.UnarySiLU, 0) }

// GELU is x·Φ(x), exactly.
func (g *Graph) GELU(x Value) Value { return g.unary(x, axmodel.UnaryGELU, 0) }

// GELUTanh is GELU's form with tanh.
func (g *Graph) GELUTanh(x Value) Value { return g.unary(x, axmodel.UnaryGELUTanh, 0) }

// GELUFast is x·σ(1.702·x), which CLIP was trained with.
func (g *Graph) GELUFast(x Value) Value { return g.unary(x, axmodel.UnaryGELUFast, 0) }

// Sqrt is the square root.
func (g *Graph) Sqrt(x Value) Value { return g.unary(x, axmodel.UnarySqrt, 0) }

// Sin is the sine of radians.
func (g *Graph) Sin(x Value) Value { return g.unary(x, axmodel.UnarySin, 0) }

// Cos is the cosine of radians.
func (g *Graph) Cos(x Value) Value { return g.unary(x, axmodel.UnaryCos, 0) }

func (g *Graph) binary(a, b Value, f int32) Value { return g.add(axmodel.OpBinary, []Value{a, b}, f) }

// Add adds numbers, or integers, which wrap around. Shapes go together from the last axis on where
// they are equal or one of them is 1.
func (g *Graph) Add(a, b Value) Value { return g.binary(a, b, axmodel.BinaryAdd) }

// Sub is Add for a − b.
func (g *Graph) Sub(a, b Value) Value { return g.binary(a, b, axmodel.BinarySub) }

// Mul is Add for a·b.
func (g *Graph) Mul(a, b Value) Value { return g.binary(a, b, axmodel.BinaryMul) }

// Div is a / b of numbers.
func (g *Graph) Div(a, b Value) Value { return g.binary(a, b, axmodel.BinaryDiv) }

// Min is Add for the smaller.
func (g *Graph) Min(a, b Value) Value { return g.binary(a, b, axmodel.BinaryMin) }

// Max is Add for the larger.
func (g *Graph) Max(a, b Value) Value { return g.binary(a, b, axmodel.BinaryMax) }

// Float makes integers numbers.
func (g *Graph) Float(x Value) Value { return g.add(axmodel.OpCast, []Value{x}, 0) }

// Int makes numbers integers, towards zero, and those beyond 32 bits the last there is; what is no
// number becomes 0.
func (g *Graph) Int(x Value) Value { return g.add(axmodel.OpCast, []Value{x}, 1) }

// Softmax makes each row, along the last axis, weights whose sum is 1.
func (g *Graph) Softmax(x Value) Value { return g.add(axmodel.OpSoftmax, []Value{x}) }

func (g *Graph) reduce(x Value, f int, axes []int) Value {
	set := 0
	for _, a := range axes {
		if a < 0 || a >= axmodel.MaxGraphRank {
			return g.fail("axis %d", a)
		}
		set |= 1 << a
	}
	return g.add(axmodel.OpReduce, []Value{x}, narrow(f, set)...)
}

// Sum adds up along the axes, which stay with a length of 1.
func (g *Graph) Sum(x Value, axes ...int) Value { return g.reduce(x, axmodel.ReduceSum, axes) }

// Mean is Sum for the mean.
func (g *Graph) Mean(x Value, axes ...int) Value { return g.reduce(x, axmodel.ReduceMean, axes) }

// Largest is Sum for the largest.
func (g *Graph) Largest(x Value, axes ...int) Value { return g.reduce(x, axmodel.ReduceMax, axes) }

// Pool is how a pooling walks. Sides are padding at the top, left, bottom and right, less than the
// window, which never counts.
type Pool struct {
	Window, Stride Pair
	Sides          [4]int
}

func (g *Graph) pool(x Value, f int, p Pool) Value {
	if len(g.Dims(x)) == 3 {
		p.Window[0], p.Stride[0], p.Sides[0], p.Sides[2] = 1, 1, 0, 0
	}
	return g.add(axmodel.OpPool, []Value{x}, narrow(f, p.Window.down(), p.Window.across(), p.Stride.down(), p.Stride.across(), p.Sides[0],
		p.Sides[1], p.Sides[2], p.Sides[3])...)
}

// MaxPool is the largest of each window of x [N, C, W] or [N, C, H, W].
func (g *Graph) MaxPool(x Value, p Pool) Value { return g.pool(x, axmodel.PoolMax, p) }

// AveragePool is the mean of what is there of each window.
func (g *Graph) AveragePool(x Value, p Pool) Value { return g.pool(x, axmodel.PoolAverage, p) }

func (g *Graph) resize(x Value, mode, h, w int) Value {
	return g.add(axmodel.OpResize, []Value{x}, narrow(mode, h, w)...)
}

// Nearest resizes x [N, C, H, W] to h × w, or x [N, C, W] to w with h 1: place i takes ⌊i·in/out⌋.
func (g *Graph) Nearest(x Value, h, w int) Value { return g.resize(x, axmodel.ResizeNearest, h, w) }

// Bilinear is Nearest with linear weights between centres: place i lies at (i + ½)·in/out − ½, and
// edges go on as they are.
func (g *Graph) Bilinear(x Value, h, w int) Value { return g.resize(x, axmodel.ResizeLinear, h, w) }

// Gather takes of x along an axis what ids, integers of any shape, name; that shape stands in the
// axis's place. An id that names nothing takes the first or the last.
func (g *Graph) Gather(x, ids Value, axis int) Value {
	return g.add(axmodel.OpGather, []Value{x, ids}, narrow(axis)...)
}

// Reshape gives the same values, in their order, another shape.
func (g *Graph) Reshape(x Value, dims ...int) Value {
	return g.add(axmodel.OpReshape, []Value{x}, narrow(dims...)...)
}

// Transpose gives axes another order: axis i of the result is axis order[i] of x.
func (g *Graph) Transpose(x Value, order ...int) Value {
	return g.add(axmodel.OpTranspose, []Value{x}, narrow(order...)...)
}

// Concat puts values one after the other along an axis.
func (g *Graph) Concat(axis int, xs ...Value) Value {
	return g.add(axmodel.OpConcat, xs, narrow(axis)...)
}

// Slice is n values along an axis, from the given one on.
func (g *Graph) Slice(x Value, axis, from, n int) Value {
	sizes := append([]int(nil), g.Dims(x)...)
	if axis < 0 || axis >= len(sizes) {
		return g.fail("a slice along axis %d of %v", axis, sizes)
	}
	starts := make([]int, len(sizes))
	starts[axis], sizes[axis] = from, n
	return g.add(axmodel.OpSlice, []Value{x}, narrow(append(starts, sizes...)...)...)
}

// Split cuts x along an axis into parts of the sizes, which must be all of it.
func (g *Graph) Split(x Value, axis int, sizes ...int) []Value {
	out, at := make([]Value, len(sizes)), 0
	for i, n := range sizes {
		out[i] = g.Slice(x, axis, at, n)
		at += n
	}
	if d := g.Dims(x); g.err == nil && at != d[axis] {
		g.fail("%v is split along axis %d into %v", d, axis, sizes)
	}
	return out
}

func (g *Graph) pad(x Value, mode int, value float32, before, after []int) Value {
	return g.add(axmodel.OpPad, []Value{x}, append([]int32{int32(mode), bits(value)}, narrow(append(before, after...)...)...)...)
}

// Pad puts this many of a number before and after x along each axis.
func (g *Graph) Pad(x Value, value float32, before, after []int) Value {
	return g.pad(x, axmodel.PadConstant, value, before, after)
}

// Reflect pads with x itself, mirrored at its first and last values, which are not repeated.
func (g *Graph) Reflect(x Value, before, after []int) Value {
	return g.pad(x, axmodel.PadReflect, 0, before, after)
}

// Expand repeats axes of length 1 until the shape is reached, which goes together with x as in Add.
func (g *Graph) Expand(x Value, dims ...int) Value {
	return g.add(axmodel.OpExpand, []Value{x}, narrow(dims...)...)
}

// LSTM takes x [N, T, I] through time, once forward or, with both, also backward: w [D, 4H, I], r
// [D, 4H, H], bias [D, 4H], D being 1 or 2; of 4H the input, forget, cell and output gates, in this
// order, as PyTorch has them, whose two biases are added up. h and c [D, N, H] are where it begins,
// zeros where they are left out. It gives y [N, T, D·H] and where it ends.
func (g *Graph) LSTM(x, w, r, bias, h, c Value, both bool) (y, hn, cn Value) {
	dirs := int32(1)
	if both {
		dirs = 2
	}
	if y = g.add(axmodel.OpLSTM, []Value{x, w, r, bias, h, c}, dirs); y.kind == none {
		return
	}
	return y, Value{result, y.at + 1}, Value{result, y.at + 2}
}
