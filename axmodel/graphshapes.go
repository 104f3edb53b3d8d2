package axmodel

import (
	"cmp"
	"math"
	"slices"
)

// shaper works out the shapes that a node gives, and refuses operands and attributes that do not
// fit.
type shaper struct {
	op    GraphOp
	in    []*GraphValue // nil: left out
	attrs []int32
}

// form is what an operation takes: operands, the first of them required; attributes; and which
// operands are integers.
type form struct {
	need, most int
	attrs      int  // -1: as many as the operation says itself
	any        bool // integers as well as numbers
	ids        int  // the operand that is integers, counted from 1
}

var forms = [opEnd]form{
	OpConv: {2, 3, 9, false, 0}, OpConvTranspose: {2, 3, 11, false, 0}, OpMatMul: {2, 3, 1, false, 0}, OpAttention: {3, 4, 2, false, 0},
	OpLayerNorm: {1, 3, 1, false, 0}, OpRMSNorm: {1, 2, 1, false, 0}, OpGroupNorm: {1, 3, 2, false, 0}, OpUnary: {1, 1, 2, false, 0},
	OpBinary: {2, 2, 1, true, 0}, OpCast: {1, 1, 1, true, 0}, OpSoftmax: {1, 1, 0, false, 0}, OpReduce: {1, 1, 2, false, 0},
	OpPool: {1, 1, 9, false, 0}, OpResize: {1, 1, 3, false, 0}, OpGather: {2, 2, 1, false, 2}, OpReshape: {1, 1, -1, true, 0},
	OpTranspose: {1, 1, -1, true, 0}, OpConcat: {1, maxOperands, 1, true, 0}, OpSlice: {1, 1, -1, true, 0}, OpPad: {1, 1, -1, false, 0},
	OpExpand: {1, 1, -1, true, 0}, OpLSTM: {3, 6, 1, false, 0},
}

func (n *shaper) attr(i int) int { return int(n.attrs[i]) }

// shapes gives what the node gives; the error is an *Error.
func (n *shaper) shapes() ([]GraphValue, error) {
	f := forms[n.op]
	if len(n.in) < f.need || len(n.in) > f.most {
		return nil, errorf("takes %d operands, not %d", f.need, len(n.in))
	}
	if f.attrs >= 0 && len(n.attrs) != f.attrs {
		return nil, errorf("has %d attributes, not %d", len(n.attrs), f.attrs)
	}
	for i, v := range n.in {
		switch {
		case v == nil && (i < f.need || n.op == OpConcat):
			return nil, errorf("operand %d is left out", i)
		case v == nil:
		case i+1 == f.ids && !v.Int:
			return nil, errorf("operand %d is not of integers", i)
		case i+1 != f.ids && !f.any && v.Int:
			return nil, errorf("operand %d is of integers", i)
		}
	}
	// eps checks that attribute i is a number to add to a variance.
	eps := func(i int) error {
		if e := math.Float32frombits(uint32(n.attrs[i])); !(e >= 0 && e <= 1) {
			return errorf("epsilon is %v", e)
		}
		return nil
	}
	one := func(dims ...int) ([]GraphValue, error) { return []GraphValue{{n.in[0].Int, dims}}, nil }
	x := n.in[0].Dims
	rank, last := len(x), x[len(x)-1]
	switch n.op {
	case OpConv, OpConvTranspose:
		return n.conv()
	case OpMatMul:
		return n.matmul()
	case OpAttention:
		return n.attention()
	case OpLayerNorm, OpRMSNorm:
		if err := cmp.Or(n.shaped(1, last), n.shaped(2, last), eps(0)); err != nil {
			return nil, err
		}
		return one(x...)
	case OpGroupNorm:
		g := n.attr(0)
		if rank < 3 || g < 1 || x[1]%g != 0 {
			return nil, errorf("%d groups of %v", g, x)
		}
		if err := cmp.Or(n.shaped(1, x[1]), n.shaped(2, x[1]), eps(1)); err != nil {
			return nil, err
		}
		return one(x...)
	case OpUnary:
		if n.attr(0) < 0 || n.attr(0) >= unaryEnd {
			return nil, errorf("function %d is not known", n.attr(0))
		}
		return one(x...)
	case OpBinary:
		y := n.in[1]
		if n.attr(0) < 0 || n.attr(0) >= binaryEnd || n.in[0].Int != y.Int || y.Int && n.attr(0) == BinaryDiv {
			return nil, errorf("function %d of integers (%v) and integers (%v)", n.attr(0), n.in[0].Int, y.Int)
		}
		dims := broadcast(x, y.Dims)
		if dims == nil {
			return nil, errorf("%v and %v do not go together", x, y.Dims)
		}
		return one(dims...)
	case OpCast:
		if n.attr(0) != 0 && n.attr(0) != 1 {
			return nil, errorf("casts to %d", n.attr(0))
		}
		return []GraphValue{{n.attr(0) == 1, x}}, nil
	case OpSoftmax:
		return one(x...)
	case OpReduce:
		axes := n.attr(1)
		if n.attr(0) < 0 || n.attr(0) >= reduceEnd || axes < 1 || axes >= 1<<rank {
			return nil, errorf("function %d over axes 0x%x of %v", n.attr(0), axes, x)
		}
		dims := slices.Clone(x)
		for i := range dims {
			if axes>>i&1 != 0 {
				dims[i] = 1
			}
		}
		return one(dims...)
	case OpPool:
		return n.pool()
	case OpResize:
		if rank != 3 && rank != 4 || n.attr(0) < 0 || n.attr(0) > ResizeLinear || n.attr(1) < 1 || n.attr(2) < 1 ||
			rank == 3 && n.attr(1) != 1 {
			return nil, errorf("%v in mode %d to %d × %d", x, n.attr(0), n.attr(1), n.attr(2))
		}
		dims := slices.Clone(x)
		dims[rank-1] = n.attr(2)
		if rank == 4 {
			dims[2] = n.attr(1)
		}
		return one(dims...)
	case OpGather:
		axis := n.attr(0)
		if axis < 0 || axis >= rank {
			return nil, errorf("axis %d of %v", axis, x)
		}
		return one(slices.Concat(x[:axis], n.in[1].Dims, x[axis+1:])...)
	case OpReshape, OpExpand:
		dims := ints(n.attrs)
		if why := impossible(dims); why != "" {
			return nil, errorf("%s", why)
		}
		to := GraphValue{Dims: dims}
		if n.op == OpReshape && to.Len() != n.in[0].Len() || n.op == OpExpand && !slices.Equal(broadcast(x, dims), dims) {
			return nil, errorf("%v does not become %v", x, dims)
		}
		return one(dims...)
	case OpTranspose:
		dims, seen := make([]int, rank), 0
		if len(n.attrs) != rank {
			return nil, errorf("%v in the order %v", x, n.attrs)
		}
		for i, a := range n.attrs {
			if a < 0 || int(a) >= rank || seen>>a&1 != 0 {
				return nil, errorf("%v in the order %v", x, n.attrs)
			}
			dims[i] = x[a]
			seen |= 1 << a
		}
		return one(dims...)
	case OpConcat:
		return n.concat()
	case OpSlice:
		if len(n.attrs) != 2*rank {
			return nil, errorf("a part of %v with %d attributes", x, len(n.attrs))
		}
		for i, d := range x {
			from, size := n.attr(i), n.attr(rank+i)
			if from < 0 || size < 1 || from > d-size {
				return nil, errorf("%d from %d on, of %d along axis %d", size, from, d, i)
			}
		}
		return one(ints(n.attrs[rank:])...)
	case OpPad:
		return n.pad()
	}
	return n.lstm()
}

// shaped checks that operand i, where there is one, has this shape.
func (n *shaper) shaped(i int, want ...int) error {
	if i < len(n.in) && n.in[i] != nil && !slices.Equal(n.in[i].Dims, want) {
		return errorf("operand %d is %v, not %v", i, n.in[i].Dims, want)
	}
	return nil
}

func ints(a []int32) []int {
	out := make([]int, len(a))
	for i, v := range a {
		out[i] = int(v)
	}
	return out
}

// broadcast is the shape of two that go together, aligned at the last axis: equal, or one of them
// 1; nil where they do not.
func broadcast(a, b []int) []int {
	if len(a) < len(b) {
		a, b = b, a
	}
	out := slices.Clone(a)
	for i, d := range b {
		k := len(a) - len(b) + i
		switch {
		case out[k] == 1:
			out[k] = d
		case d != 1 && d != out[k]:
			return nil
		}
	}
	return out
}

// span checks that attributes from..to lie in [low, maxSpan].
func (n *shaper) span(low int, at ...int) error {
	for _, i := range at {
		if v := n.attr(i); v < low || v > maxSpan {
			return errorf("attribute %d is %d", i, v)
		}
	}
	return nil
}

// plane is a value's height and width: a row of values has a height of 1.
func plane(dims []int) (h, w int) {
	if len(dims) == 3 {
		return 1, dims[2]
	}
	return dims[2], dims[3]
}

func (n *shaper) conv() ([]GraphValue, error) {
	x, w := n.in[0].Dims, n.in[1].Dims
	if len(x) != 3 && len(x) != 4 || len(w) != len(x) {
		return nil, errorf("weights of %v for %v", w, x)
	}
	if err := cmp.Or(n.span(1, 0, 1, 6, 7), n.span(0, 2, 3, 4, 5)); err != nil {
		return nil, err
	}
	groups := n.attr(8)
	if len(x) == 3 && (n.attr(0) != 1 || n.attr(2) != 0 || n.attr(4) != 0 || n.attr(6) != 1) {
		return nil, errorf("a stride, padding or dilation down of %v", x)
	}
	if groups < 1 || groups > x[1] || x[1]%groups != 0 {
		return nil, errorf("%d groups of %d channels", groups, x[1])
	}
	kh, kw := plane(w)
	if kh > maxSpan || kw > maxSpan {
		return nil, errorf("weights of %v", w)
	}
	size := n.transposed
	if n.op == OpConv {
		size = n.convolved
	}
	oh, ow, channels, err := size(groups)
	if err != nil {
		return nil, err
	}
	if err := n.shaped(2, channels); err != nil {
		return nil, err
	}
	if oh < 1 || ow < 1 {
		return nil, errorf("%v becomes %d × %d", x, oh, ow)
	}
	if len(x) == 3 {
		return []GraphValue{{Dims: []int{x[0], channels, ow}}}, nil
	}
	return []GraphValue{{Dims: []int{x[0], channels, oh, ow}}}, nil
}

// convolved is what a convolution in groups makes of its input.
func (n *shaper) convolved(groups int) (oh, ow, channels int, err error) {
	x, w := n.in[0].Dims, n.in[1].Dims
	ih, iw := plane(x)
	kh, kw := plane(w)
	if w[1] != x[1]/groups || w[0]%groups != 0 {
		return 0, 0, 0, errorf("weights of %v for %v in %d groups", w, x, groups)
	}
	channels = w[0]
	oh = (ih+n.attr(2)+n.attr(4)-n.attr(6)*(kh-1)-1)/n.attr(0) + 1
	ow = (iw+n.attr(3)+n.attr(5)-n.attr(7)*(kw-1)-1)/n.attr(1) + 1
	if ih+n.attr(2)+n.attr(4) < n.attr(6)*(kh-1)+1 || iw+n.attr(3)+n.attr(5) < n.attr(7)*(kw-1)+1 {
		return 0, 0, 0, errorf("weights of %v are larger than %v with its padding", w, x)
	}
	return oh, ow, channels, nil
}

// transposed is what a transposed convolution makes of it.
func (n *shaper) transposed(groups int) (oh, ow, channels int, err error) {
	x, w := n.in[0].Dims, n.in[1].Dims
	ih, iw := plane(x)
	kh, kw := plane(w)
	if w[0] != x[1] || w[1] > maxElements/groups {
		return 0, 0, 0, errorf("weights of %v for %v in %d groups", w, x, groups)
	}
	for i, k := range []int{9, 10} {
		if a := n.attr(k); a < 0 || a >= max(n.attr(i), n.attr(6+i)) {
			return 0, 0, 0, errorf("%d values are added at the end, with a stride of %d", a, n.attr(i))
		}
	}
	if len(x) == 3 && n.attr(9) != 0 {
		return 0, 0, 0, errorf("adds to the height of %v", x)
	}
	channels = w[1] * groups
	oh = (ih-1)*n.attr(0) - n.attr(2) - n.attr(4) + n.attr(6)*(kh-1) + n.attr(9) + 1
	ow = (iw-1)*n.attr(1) - n.attr(3) - n.attr(5) + n.attr(7)*(kw-1) + n.attr(10) + 1
	return oh, ow, channels, nil
}

func (n *shaper) matmul() ([]GraphValue, error) {
	a, b := n.in[0].Dims, n.in[1].Dims
	if len(a) < 2 || len(b) < 2 || n.attr(0) != 0 && n.attr(0) != 1 {
		return nil, errorf("%v by %v, turned %d", a, b, n.attr(0))
	}
	k, cols := b[len(b)-2], b[len(b)-1]
	if n.attr(0) == 1 {
		k, cols = cols, k
	}
	batch := broadcast(a[:len(a)-2], b[:len(b)-2])
	if a[len(a)-1] != k || batch == nil && len(a)+len(b) > 4 {
		return nil, errorf("%v by %v, turned %d", a, b, n.attr(0))
	}
	if v := (GraphValue{Dims: batch}); v.Len() > maxRows {
		return nil, errorf("%v by %v makes more than %d matrices", a, b, maxRows)
	}
	if err := n.shaped(2, cols); err != nil {
		return nil, err
	}
	return []GraphValue{{Dims: append(batch, a[len(a)-2], cols)}}, nil
}

func (n *shaper) attention() ([]GraphValue, error) {
	q, k, v, heads := n.in[0].Dims, n.in[1].Dims, n.in[2].Dims, n.attr(0)
	scale := float64(math.Float32frombits(uint32(n.attrs[1])))
	if len(q) != 3 || len(k) != 3 || len(v) != 3 || k[0] != q[0] || v[0] != q[0] || k[2] != q[2] || v[1] != k[1] {
		return nil, errorf("queries of %v, keys of %v, values of %v", q, k, v)
	}
	if heads < 1 || heads > maxHeads || q[2]%heads != 0 || v[2]%heads != 0 || !(math.Abs(scale) < 1e9) {
		return nil, errorf("%d heads of %d and %d values, scale %v", heads, q[2], v[2], scale)
	}
	if scores := []int{q[0], heads, q[1], k[1]}; len(n.in) > 3 && n.in[3] != nil &&
		(len(n.in[3].Dims) > 4 || !slices.Equal(broadcast(n.in[3].Dims, scores), scores)) {
		return nil, errorf("a mask of %v for scores of %v", n.in[3].Dims, scores)
	}
	return []GraphValue{{Dims: []int{q[0], q[1], v[2]}}}, nil
}

func (n *shaper) pool() ([]GraphValue, error) {
	x := n.in[0].Dims
	if len(x) != 3 && len(x) != 4 || n.attr(0) != PoolMax && n.attr(0) != PoolAverage {
		return nil, errorf("function %d of %v", n.attr(0), x)
	}
	if err := cmp.Or(n.span(1, 1, 2, 3, 4), n.span(0, 5, 6, 7, 8)); err != nil {
		return nil, err
	}
	kh, kw, sh, sw := n.attr(1), n.attr(2), n.attr(3), n.attr(4)
	if max(n.attr(5), n.attr(7)) >= kh || max(n.attr(6), n.attr(8)) >= kw || len(x) == 3 && (kh != 1 || sh != 1) {
		return nil, errorf("a window of %d × %d with padding %v", kh, kw, n.attrs[5:])
	}
	ih, iw := plane(x)
	ih, iw = ih+n.attr(5)+n.attr(7), iw+n.attr(6)+n.attr(8)
	if ih < kh || iw < kw {
		return nil, errorf("a window of %d × %d on %v", kh, kw, x)
	}
	dims := slices.Clone(x)
	dims[len(x)-1] = (iw-kw)/sw + 1
	if len(x) == 4 {
		dims[2] = (ih-kh)/sh + 1
	}
	return []GraphValue{{Dims: dims}}, nil
}

func (n *shaper) concat() ([]GraphValue, error) {
	dims, axis := slices.Clone(n.in[0].Dims), n.attr(0)
	if axis < 0 || axis >= len(dims) {
		return nil, errorf("axis %d of %v", axis, dims)
	}
	for i, v := range n.in[1:] {
		if v.Int != n.in[0].Int || len(v.Dims) != len(dims) {
			return nil, errorf("operand %d of %v beside %v", i+1, v.Dims, n.in[0].Dims)
		}
		for k, d := range v.Dims {
			if k != axis && d != dims[k] {
				return nil, errorf("operand %d of %v beside %v along axis %d", i+1, v.Dims, n.in[0].Dims, axis)
			}
		}
		dims[axis] += v.Dims[axis]
	}
	return []GraphValue{{n.in[0].Int, dims}}, nil
}

func (n *shaper) pad() ([]GraphValue, error) {
	x := n.in[0].Dims
	if len(n.attrs) != 2+2*len(x) || n.attr(0) != PadConstant && n.attr(0) != PadReflect {
		return nil, errorf("%v with %d attributes", x, len(n.attrs))
	}
	dims := make([]int, len(x))
	for i, d := range x {
		before, after := n.attr(2+i), n.attr(2+len(x)+i)
		if before < 0 || after < 0 || before > maxGraphDim || after > maxGraphDim ||
			n.attr(0) == PadReflect && max(before, after) >= d {
			return nil, errorf("%d before and %d after the %d of axis %d", before, after, d, i)
		}
		dims[i] = before + d + after
	}
	return []GraphValue{{Dims: dims}}, nil
}

func (n *shaper) lstm() ([]GraphValue, error) {
	x, w, r, dirs := n.in[0].Dims, n.in[1].Dims, n.in[2].Dims, n.attr(0)
	if len(x) != 3 || len(w) != 3 || len(r) != 3 || dirs != 1 && dirs != 2 {
		return nil, errorf("weights of %v and %v for %v, %d directions", w, r, x, dirs)
	}
	h := r[2]
	if w[0] != dirs || r[0] != dirs || w[1] != 4*h || r[1] != 4*h || w[2] != x[2] {
		return nil, errorf("weights of %v and %v for %v, %d directions", w, r, x, dirs)
	}
	state := []int{dirs, x[0], h}
	if err := cmp.Or(n.shaped(3, dirs, 4*h), n.shaped(4, state...), n.shaped(5, state...)); err != nil {
		return nil, err
	}
	return []GraphValue{{Dims: []int{x[0], x[1], dirs * h}}, {Dims: state}, {Dims: slices.Clone(state)}}, nil
}
