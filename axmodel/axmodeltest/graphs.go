package axmodeltest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/x448/float16"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/graph"
)

// GraphCase is a net of operations to try: its shape groups, and for each the inputs.
type GraphCase struct {
	Graphs []*graph.Graph
	In     []map[string][]byte
	Ops    []string // what is in it, for people
}

// Tolerances of nets on the software cards against float64. An element may differ by Near of its
// own size and of its output's root mean square together; where it leaves in fewer bits, by their
// rounding too.
const (
	Near     = 1e-5
	nearBF16 = 1.0 / 256
	nearFP16 = 1.0 / 2048
)

// AgainstGraph has a card compute a case, group by group and the first again at the end, and
// compares with the oracle. worst is the largest difference there was in float32, as a part of what
// is allowed.
func AgainstGraph(d axcl.Device, dir string, c *GraphCase) (worst float64, err error) {
	path := filepath.Join(dir, "net.axmodel")
	defer os.Remove(path)
	if err := c.Graphs[0].Save(path, c.Graphs[1:]...); err != nil {
		return 0, err
	}
	file, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	meta, err := axmodel.ReadFile(path)
	if err != nil {
		return 0, err
	}
	n, err := d.LoadNet(path)
	if err != nil {
		return 0, err
	}
	defer n.Close()
	if n.Groups() != len(c.Graphs) {
		return 0, fmt.Errorf("%d groups, not %d", n.Groups(), len(c.Graphs))
	}
	var first map[string][]byte
	for i := range len(c.Graphs) + 1 {
		g := i % len(c.Graphs)
		out := map[string][]byte{}
		for _, t := range n.Outputs(g) {
			out[t.Name] = make([]byte, t.Size)
		}
		if err := n.Run(g, c.In[g], out); err != nil {
			return 0, err
		}
		if i == len(c.Graphs) { // nothing was left over from the calls before
			for name, b := range out {
				if string(b) != string(first[name]) {
					return 0, fmt.Errorf("output %q is another the second time", name)
				}
			}
			break
		}
		if i == 0 {
			first = out
		}
		of := meta.Soft.Graphs[g]
		want, err := Oracle(of, file, c.In[g])
		if err != nil {
			return 0, err
		}
		for _, p := range of.Outputs {
			off, err := compareGraph(p, of.Values[p.Value].Len(), out[p.Name], want[p.Name])
			if err != nil {
				return 0, fmt.Errorf("group %d: %w", g, err)
			}
			worst = max(worst, off)
		}
	}
	return worst, nil
}

// compareGraph gives the largest difference in float32 as a part of what is allowed; the error is
// one above that.
func compareGraph(p axmodel.GraphPort, n int, b []byte, want []float64) (worst float64, err error) {
	got := decode(p.Type, b, n)
	square := 0.0
	for _, v := range want {
		square += v * v
	}
	rms := math.Sqrt(square / float64(n))
	for i, w := range want {
		off := math.Abs(got[i] - w)
		near := Near * (rms + math.Abs(w))
		switch p.Type {
		case axcl.BF16:
			near += nearBF16 * math.Abs(w)
		case axcl.FP16:
			near += nearFP16*math.Abs(w) + 1e-7
		case axcl.Uint8:
			off, near = math.Abs(float64(byte(int32(w)))-got[i]), 0.5
		case axcl.Int32, axcl.Uint32:
			near = 0.5
		}
		if !(off <= near+1e-6) {
			return 0, fmt.Errorf("output %q of %v, element %d of %d: %v, not %v (root mean square %v)", p.Name, p.Type, i, n, got[i], w,
				rms)
		}
		if p.Type == axcl.FP32 {
			worst = max(worst, off/(near+1e-6))
		}
	}
	return worst, nil
}

// encode writes values as a border has them.
func encode(t axcl.Type, v []float64) []byte {
	le := binary.LittleEndian
	var b []byte
	for _, x := range v {
		switch t {
		case axcl.FP32:
			b = le.AppendUint32(b, math.Float32bits(float32(x)))
		case axcl.BF16:
			b = le.AppendUint16(b, axcl.BFloat16(float32(x)))
		case axcl.FP16:
			b = le.AppendUint16(b, float16.Fromfloat32(float32(x)).Bits())
		case axcl.Uint8:
			b = append(b, byte(int(x)))
		default:
			b = le.AppendUint32(b, uint32(int32(x)))
		}
	}
	return b
}

// RandomGraph makes a case whose first operation is the named one of [GraphOps], with up to three
// others behind it, in one to three shape groups. Equal seeds give equal cases.
func RandomGraph(op string, seed uint64) (*GraphCase, error) {
	rng := rand.New(rand.NewPCG(seed, 7))
	c := &GraphCase{}
	pick := func(ts ...axcl.Type) axcl.Type { return ts[rng.IntN(len(ts))] }
	xt, nt := pick(axcl.FP32, axcl.FP32, axcl.BF16, axcl.FP16), pick(axcl.Int32, axcl.Int32, axcl.Uint32, axcl.Uint8)
	yt, zt := pick(axcl.FP32, axcl.FP32, axcl.BF16, axcl.FP16), pick(axcl.Int32, axcl.Uint32, axcl.Uint8)
	shared := &shelf{known: map[string]*graph.Weight{}}
	for range 1 + rng.IntN(3) {
		r := &grower{rng: rng, g: graph.New(), shelf: shared, left: 1200}
		dims, ids := r.dims(1+rng.IntN(4), 300), r.dims(1+rng.IntN(2), 12)
		x := r.g.Input("x", xt, dims...)
		r.ids = r.g.Input("n", nt, ids...)
		c.Ops = append(c.Ops, op)
		y := r.op(op, x)
		for range rng.IntN(4) {
			next := GraphOps[rng.IntN(len(GraphOps))]
			c.Ops = append(c.Ops, next)
			y = r.op(next, y)
		}
		r.g.Output("y", yt, y)
		r.g.Output("z", zt, r.whole())
		if err := r.g.Err(); err != nil {
			return nil, fmt.Errorf("%v: %w", c.Ops, err)
		}
		in := map[string][]byte{"x": encode(xt, r.values(product(dims), 1))}
		v := make([]float64, product(ids))
		for i := range v {
			if v[i] = float64(rng.IntN(20) - 5); nt == axcl.Uint8 {
				v[i] = float64(rng.IntN(256))
			}
		}
		in["n"] = encode(nt, v)
		c.Graphs, c.In = append(c.Graphs, r.g), append(c.In, in)
	}
	return c, nil
}

func product(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// GraphOps are the operations that RandomGraph knows by name: each that a net may have, those with
// several functions more than once.
var GraphOps = []string{"conv1d", "conv2d", "depthwise", "transposed1d", "transposed2d", "transposed depthwise", "matmul", "batches",
	"linear", "attention", "layer norm", "RMS norm", "group norm", "instance norm", "relu", "leaky", "sigmoid", "tanh", "silu", "gelu",
	"gelu tanh", "gelu fast", "sqrt", "sin", "cos", "add", "sub", "mul", "div", "min", "max", "cast", "softmax", "sum", "mean", "largest",
	"max pool", "average pool", "nearest", "bilinear", "gather", "reshape", "transpose", "concat", "slice", "pad", "reflect", "expand",
	"lstm"}

// shelf is where the groups of a case share weights.
type shelf struct{ known map[string]*graph.Weight }

// grower adds operations to a graph, of whatever fits.
type grower struct {
	*shelf
	rng  *rand.Rand
	g    *graph.Graph
	ids  graph.Value
	left int // elements that a value may have
}

func (r *grower) values(n int, scale float64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = r.rng.NormFloat64() * scale
	}
	return v
}

// weight is a constant, in bf16 or not, which groups share where they ask for the same.
func (r *grower) weight(scale float64, dims ...int) graph.Value {
	key := fmt.Sprint(dims, scale)
	if w := r.known[key]; w != nil && r.rng.IntN(2) == 0 {
		return r.g.Const(w)
	}
	v := make([]float32, product(dims))
	for i := range v {
		v[i] = float32(r.rng.NormFloat64() * scale)
	}
	w := graph.Float32(v, dims...)
	if r.rng.IntN(2) == 0 {
		w = graph.BFloat16(v, dims...)
	}
	r.known[key] = w
	return r.g.Const(w)
}

// perhaps is a weight, or nothing.
func (r *grower) perhaps(scale float64, dims ...int) graph.Value {
	if r.rng.IntN(3) == 0 {
		return graph.Value{}
	}
	return r.weight(scale, dims...)
}

// dims is a shape of at most this many elements.
func (r *grower) dims(rank, most int) []int {
	dims := make([]int, rank)
	for i := range dims {
		dims[i] = 1 + r.rng.IntN(max(1, min(most, 9)))
		most /= dims[i]
	}
	r.rng.Shuffle(rank, func(i, k int) { dims[i], dims[k] = dims[k], dims[i] })
	return dims
}

// as gives x another rank, and keeps its first values where that needs fewer.
func (r *grower) as(x graph.Value, rank int) graph.Value {
	n := product(r.g.Dims(x))
	if n > r.left {
		x, n = r.g.Slice(r.g.Reshape(x, n), 0, 0, r.left), r.left
	}
	dims := make([]int, rank)
	rest := n
	for i := range rank - 1 {
		dims[i] = 1
		for _, f := range []int{2, 3, 5, 2, 7} {
			if rest%f == 0 && r.rng.IntN(3) == 0 && dims[i] < 40 {
				dims[i] *= f
				rest /= f
			}
		}
	}
	dims[rank-1] = rest
	r.rng.Shuffle(rank, func(i, k int) { dims[i], dims[k] = dims[k], dims[i] })
	return r.g.Reshape(x, dims...)
}

// divisor is one of n's.
func (r *grower) divisor(n int) int {
	for {
		if d := 1 + r.rng.IntN(n); n%d == 0 {
			return d
		}
	}
}

// whole is something of integers.
func (r *grower) whole() graph.Value {
	n := r.ids
	d := r.g.Dims(n)
	switch r.rng.IntN(5) {
	case 0:
		n = r.g.Add(n, r.g.Const(graph.Ints([]int32{math.MaxInt32}, 1)))
	case 1:
		n = r.g.Sub(r.g.Mul(n, n), r.g.Const(graph.Ints([]int32{7}, 1)))
	case 2:
		n = r.g.Max(r.g.Min(n, r.g.Const(graph.Ints([]int32{3}, 1))), r.g.Const(graph.Ints([]int32{-2}, 1)))
	case 3:
		n = r.g.Int(r.g.Mul(r.g.Float(n), r.g.Scalar(-1.5)))
	default:
		twice := r.g.Reshape(r.g.Expand(n, append([]int{2}, d...)...), append([]int{2 * d[0]}, d[1:]...)...)
		n = r.g.Concat(0, r.g.Slice(n, 0, 0, 1), twice)
	}
	return n
}

// other is a value that goes together with x.
func (r *grower) other(x graph.Value) graph.Value {
	dims := append([]int(nil), r.g.Dims(x)...)
	for i := range dims {
		if r.rng.IntN(3) == 0 {
			dims[i] = 1
		}
	}
	return r.weight(1, dims[r.rng.IntN(len(dims)):]...)
}

// op applies an operation to x, which is made to fit.
func (r *grower) op(name string, x graph.Value) graph.Value {
	g, n := r.g, r.rng.IntN
	if g.Err() != nil {
		return x
	}
	switch name {
	case "conv1d", "depthwise", "conv2d", "transposed1d", "transposed2d", "transposed depthwise":
		return r.conv(name, x)
	case "matmul":
		x = r.as(x, 2)
		k, m := g.Dims(x)[1], 1+n(40)
		w := r.weight(1/math.Sqrt(float64(k)), k, m)
		if n(2) == 0 { // of two that are computed
			w = g.Tanh(w)
		}
		return g.MatMul(x, w)
	case "batches":
		x = r.as(x, 3+n(2))
		d := append([]int(nil), g.Dims(x)...)
		k := d[len(d)-1]
		for i := range d[:len(d)-2] {
			if n(3) == 0 {
				d[i] = 1
			}
		}
		d[len(d)-2], d[len(d)-1] = k, 1+n(9)
		w := r.weight(1/math.Sqrt(float64(k)), d[n(len(d)-1):]...)
		if n(2) == 0 {
			w = g.Sin(w)
		}
		if n(3) == 0 && len(g.Dims(w)) == 3 && len(g.Dims(x)) == 3 { // the left side goes together with more of the right
			x = g.Slice(x, 0, 0, 1)
		}
		return g.MatMul(x, w)
	case "linear":
		x = r.as(x, 2+n(3))
		d := g.Dims(x)
		k, m := d[len(d)-1], 1+n(70)
		return g.Linear(x, r.weight(1/math.Sqrt(float64(k)), m, k), r.perhaps(1, m))
	case "attention":
		x = r.as(x, 3)
		d := g.Dims(x)
		heads := r.divisor(d[2])
		keys, e := 1+n(50), heads*(1+n(6))
		k, v := r.weight(1, d[0], keys, d[2]), r.weight(1, d[0], keys, e)
		mask := graph.Value{}
		if n(2) == 0 {
			m := []int{d[0], heads, d[1], keys}
			for i := range m {
				if n(3) == 0 {
					m[i] = 1
				}
			}
			mask = r.weight(1, m[n(4):]...)
		}
		if n(3) == 0 { // a row sees itself and those before it
			keys = d[1]
			k, v = r.weight(1, d[0], keys, d[2]), x
			hide := make([]float32, keys*keys)
			for i := range hide {
				if i%keys > i/keys {
					hide[i] = float32(math.Inf(-1))
				}
			}
			mask = g.Const(graph.Float32(hide, keys, keys))
		}
		return g.Attention(x, k, v, mask, heads, float32(1/math.Sqrt(float64(d[2]/heads))))
	case "layer norm", "RMS norm":
		x = r.as(x, 1+n(4))
		d := g.Dims(x)
		w := r.perhaps(1, d[len(d)-1])
		if name == "RMS norm" {
			return g.RMSNorm(x, w, 1e-3)
		}
		return g.LayerNorm(x, w, r.perhaps(1, d[len(d)-1]), 1e-3)
	case "group norm", "instance norm":
		x = r.as(x, 3+n(2))
		c := g.Dims(x)[1]
		groups := c
		if name == "group norm" {
			groups = r.divisor(c)
		}
		return g.GroupNorm(x, r.perhaps(1, c), r.perhaps(1, c), groups, 1e-3)
	case "sqrt":
		return g.Sqrt(g.Add(g.Mul(x, x), g.Scalar(0.25)))
	case "div":
		o := r.other(x)
		return g.Div(x, g.Add(g.Mul(o, o), g.Scalar(0.5)))
	case "cast":
		return g.Add(x, g.Float(g.Slice(g.Reshape(r.ids, product(g.Dims(r.ids))), 0, 0, 1)))
	case "softmax":
		return g.Softmax(r.as(x, 1+n(4)))
	case "sum", "mean", "largest":
		rank := 1 + n(4)
		x = r.as(x, rank)
		var axes []int
		for i := range rank {
			if n(2) == 0 {
				axes = append(axes, i)
			}
		}
		if axes == nil {
			axes = []int{n(rank)}
		}
		switch name {
		case "sum":
			x = g.Mul(x, g.Scalar(1/float32(math.Sqrt(float64(product(g.Dims(x)))))))
			return g.Sum(x, axes...)
		case "mean":
			return g.Mean(x, axes...)
		}
		return g.Largest(x, axes...)
	case "max pool", "average pool":
		x = r.as(x, 3+n(2))
		d := g.Dims(x)
		h, w := 1, d[len(d)-1]
		if len(d) == 4 {
			h = d[2]
		}
		p := graph.Pool{Window: graph.Pair{1 + n(min(h, 4)), 1 + n(min(w, 4))}}
		p.Stride = graph.Pair{1 + n(p.Window[0]), 1 + n(p.Window[1])}
		for i := range p.Sides {
			p.Sides[i] = n(p.Window[i%2])
		}
		if name == "max pool" {
			return g.MaxPool(x, p)
		}
		return g.AveragePool(x, p)
	case "nearest", "bilinear":
		x = r.as(x, 3+n(2))
		h, w := 1+n(12), 1+n(12)
		if len(g.Dims(x)) == 3 {
			h = 1
		}
		if name == "nearest" {
			return g.Nearest(x, h, w)
		}
		return g.Bilinear(x, h, w)
	case "gather":
		x = r.as(x, 1+n(4))
		return g.Gather(x, r.ids, n(len(g.Dims(x))))
	case "reshape":
		return r.as(x, 1+n(6))
	case "transpose":
		x = r.as(x, 1+n(6))
		return g.Transpose(x, r.rng.Perm(len(g.Dims(x)))...)
	case "concat":
		x = r.as(x, 1+n(4))
		axis := n(len(g.Dims(x)))
		d := append([]int(nil), g.Dims(x)...)
		d[axis] = 1 + n(4)
		return g.Concat(axis, r.weight(1, d...), x, g.Slice(x, axis, 0, 1))
	case "slice":
		x = r.as(x, 1+n(4))
		axis := n(len(g.Dims(x)))
		of := g.Dims(x)[axis]
		if of == 1 {
			return g.Slice(x, axis, 0, 1)
		}
		cut := 1 + n(of-1)
		return g.Split(x, axis, cut, of-cut)[n(2)]
	case "pad", "reflect":
		x = r.as(x, 1+n(4))
		d := g.Dims(x)
		before, after := make([]int, len(d)), make([]int, len(d))
		for i, k := range d {
			if name == "reflect" {
				before[i], after[i] = n(min(k, 4)), n(min(k, 4))
			} else {
				before[i], after[i] = n(3), n(3)
			}
		}
		if name == "reflect" {
			return g.Reflect(x, before, after)
		}
		return g.Pad(x, 0.75, before, after)
	case "expand":
		x = r.as(x, 1+n(3))
		d := append([]int(nil), g.Dims(x)...)
		axis := n(len(d))
		x = g.Slice(x, axis, 0, 1)
		d[axis] = 1 + n(5)
		return g.Expand(x, append([]int{1 + n(3)}, d...)...)
	case "lstm":
		x = r.as(x, 3)
		d := g.Dims(x)
		h, dirs := 1+n(12), 1+n(2)
		state := func() graph.Value { return r.perhaps(1, dirs, d[0], h) }
		y, hn, cn := g.LSTM(x, r.weight(1/math.Sqrt(float64(d[2])), dirs, 4*h, d[2]), r.weight(1/math.Sqrt(float64(h)), dirs, 4*h, h),
			r.perhaps(1, dirs, 4*h), state(), state(), dirs == 2)
		flat := func(v graph.Value) graph.Value { return g.Reshape(v, product(g.Dims(v))) }
		return g.Concat(0, flat(hn), flat(y), flat(cn))
	}
	type one = func(graph.Value) graph.Value
	type two = func(a, b graph.Value) graph.Value
	if f := map[string]one{"relu": g.ReLU, "sigmoid": g.Sigmoid, "tanh": g.Tanh, "silu": g.SiLU, "gelu": g.GELU, "gelu tanh": g.GELUTanh,
		"gelu fast": g.GELUFast, "sin": g.Sin, "cos": g.Cos,
		"leaky": func(x graph.Value) graph.Value { return g.LeakyReLU(x, 0.2) }}[name]; f != nil {
		return f(x)
	}
	f := map[string]two{"add": g.Add, "sub": g.Sub, "mul": g.Mul, "min": g.Min, "max": g.Max}[name]
	if n(2) == 0 {
		return f(r.other(x), x)
	}
	return f(x, r.other(x))
}

func (r *grower) conv(name string, x graph.Value) graph.Value {
	g, n := r.g, r.rng.IntN
	plane := name == "conv2d" || name == "transposed2d" || n(2) == 0 && (name == "depthwise" || name == "transposed depthwise")
	rank := 3
	if plane {
		rank = 4
	}
	x = r.as(x, rank)
	d := g.Dims(x)
	c := graph.Conv{Stride: graph.Pair{1 + n(3), 1 + n(3)}, Dilation: graph.Pair{1 + n(2), 1 + n(3)}, Groups: r.divisor(d[1])}
	if n(2) == 0 {
		c.Groups = 1
	}
	if name == "depthwise" || name == "transposed depthwise" {
		c.Groups = d[1]
	}
	each := 1 + n(24/c.Groups+1)
	c.Sides = &[4]int{n(3), n(3), n(3), n(3)}
	kernel := []int{1 + n(3), 1 + n(4)}
	if !plane {
		kernel = kernel[1:]
		c.Stride[0], c.Dilation[0] = 1, 1
	}
	back := name[0] == 't'
	for i := range kernel {
		k, in, side := kernel[len(kernel)-1-i], d[len(d)-1-i], 1-i
		reach := c.Dilation[side]*(k-1) + 1
		if back { // something must be left
			for (in-1)*c.Stride[side]+reach-c.Sides[side]-c.Sides[2+side] < 1 {
				c.Sides[side], c.Sides[2+side] = 0, 0
			}
			if c.Stride[side] > 1 {
				c.More[side] = n(c.Stride[side])
			}
			continue
		}
		for in+c.Sides[side]+c.Sides[2+side] < reach {
			c.Sides[side]++
		}
	}
	in := d[1] / c.Groups
	scale := 1 / math.Sqrt(float64(in*product(kernel)))
	if back {
		w := r.weight(scale, append([]int{d[1], each}, kernel...)...)
		if n(3) == 0 {
			w = g.Tanh(w)
		}
		b := r.perhaps(1, each*c.Groups)
		if plane {
			return g.ConvTranspose2D(x, w, b, c)
		}
		return g.ConvTranspose1D(x, w, b, c)
	}
	w, b := r.weight(scale, append([]int{each * c.Groups, in}, kernel...)...), r.perhaps(1, each*c.Groups)
	if plane {
		return g.Conv2D(x, w, b, c)
	}
	return g.Conv1D(x, w, b, c)
}

// GraphBits has a card compute a case, and gives the outputs' bytes of each group.
func GraphBits(d axcl.Device, dir string, c *GraphCase) (out []map[string][]byte, err error) {
	path := filepath.Join(dir, "bits.axmodel")
	defer os.Remove(path)
	if err := c.Graphs[0].Save(path, c.Graphs[1:]...); err != nil {
		return nil, err
	}
	n, err := d.LoadNet(path)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	for g := range c.Graphs {
		to := map[string][]byte{}
		for _, t := range n.Outputs(g) {
			to[t.Name] = make([]byte, t.Size)
		}
		if err := n.Run(g, c.In[g], to); err != nil {
			return nil, err
		}
		out = append(out, to)
	}
	return out, nil
}
