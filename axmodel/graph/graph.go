// Package graph makes nets: .axmodel files of the software cards that hold a graph of operations
// for each shape group.
//
//	g := graph.New()
//	x := g.Input("x", axcl.FP32, 1, 80, 3000)
//	y := g.GELU(g.Conv1D(x, g.Const(weight), g.Const(bias), graph.Conv{Pad: 1}))
//	g.Output("y", axcl.FP32, y)
//	err := g.Save("net.axmodel")
//
// [Graph.Err] is the first mistake, with its node. After one, all that is added is ignored, so a
// graph is built without looking at errors on the way. A Graph belongs to one goroutine; nothing is
// closed.
package graph

import (
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
)

// Graph is one shape group of a net in the making.
type Graph struct {
	g     axmodel.Graph
	data  []*Weight       // of the constants
	known map[*Weight]int // constants by what they are of, counted from 0
	err   error

	// Values are numbered when the file is written: inputs and constants may be added at any time.
	// Until then a value is the number of its kind.
	nodes []node
	dims  map[Value]axmodel.GraphValue
	check axmodel.Graph // holds the shapes of one node's operands, to add it to
}

// node is an operation before its values have their numbers.
type node struct {
	op    axmodel.GraphOp
	in    []Value
	attrs []int32
}

// Value is an input, a constant or a result within one graph. The zero Value stands for an operand
// that is left out.
type Value struct {
	kind kind
	at   int // of its kind; of results node number × 4 + which
}

type kind uint8

const (
	none kind = iota
	input
	constant
	result
)

// Weight is what a constant holds. Its first dimension counts its rows. The same Weight in several
// graphs of a net is written once.
type Weight struct {
	Type axcl.Type // FP32, BF16 or Int32
	Dims []int
	Row  func(dst []float32, r int) error // of numbers: row r, asked for once each, in order
	Ints []int32                          // of integers: all values
}

// Float32 is a weight of numbers that are kept as they are. The values are not copied.
func Float32(values []float32, dims ...int) *Weight { return numbers(axcl.FP32, values, dims) }

// BFloat16 is a weight of numbers that are rounded to bf16.
func BFloat16(values []float32, dims ...int) *Weight { return numbers(axcl.BF16, values, dims) }

func numbers(t axcl.Type, values []float32, dims []int) *Weight {
	w := &Weight{Type: t, Dims: dims}
	n := len(values) / max(w.rows(), 1)
	w.Row = func(dst []float32, r int) error {
		if len(dst) != n || len(values) != n*w.rows() {
			return fmt.Errorf("there are %d values", len(values))
		}
		copy(dst, values[r*n:])
		return nil
	}
	return w
}

func (w *Weight) rows() int {
	if len(w.Dims) == 0 {
		return 0
	}
	return w.Dims[0]
}

// Rows is a weight, FP32 or BF16, whose rows are asked for when the file is written, once each, in
// order; a row is what one step along the first dimension takes.
func Rows(t axcl.Type, row func(dst []float32, r int) error, dims ...int) *Weight {
	return &Weight{Type: t, Dims: dims, Row: row}
}

// Ints is a weight of integers.
func Ints(values []int32, dims ...int) *Weight {
	return &Weight{Type: axcl.Int32, Dims: dims, Ints: values}
}

// New begins a graph.
func New() *Graph { return &Graph{known: map[*Weight]int{}, dims: map[Value]axmodel.GraphValue{}} }

// Err is the first mistake; nil where there is none.
func (g *Graph) Err() error { return g.err }

func (g *Graph) fail(format string, a ...any) Value {
	if g.err == nil {
		g.err = fmt.Errorf("graph: "+format, a...)
	}
	return Value{}
}

// Input adds an input: numbers in FP32, BF16 or FP16, or integers in Int32, Uint32 or Uint8.
func (g *Graph) Input(name string, t axcl.Type, dims ...int) Value {
	integer, ok := axmodel.GraphTypeInt(t)
	if !ok {
		return g.fail("input %q cannot be of type %v", name, t)
	}
	v := Value{input, len(g.g.Inputs)}
	g.g.Inputs = append(g.g.Inputs, axmodel.GraphPort{Name: name, Type: t, Value: v.at})
	g.dims[v] = axmodel.GraphValue{Int: integer, Dims: slices.Clone(dims)}
	return v
}

// Const makes a weight a value of this graph.
func (g *Graph) Const(w *Weight) Value {
	if w == nil {
		return Value{}
	}
	at, ok := g.known[w]
	v := Value{constant, at}
	if !ok {
		v.at = len(g.data)
		g.known[w] = v.at
		g.data = append(g.data, w)
		g.g.Constants = append(g.g.Constants, axmodel.GraphConstant{Type: w.Type})
		g.dims[v] = axmodel.GraphValue{Int: w.Type == axcl.Int32, Dims: w.Dims}
	}
	return v
}

// Scalar is a number as a value that goes with any.
func (g *Graph) Scalar(x float32) Value { return g.Const(Float32([]float32{x}, 1)) }

// Output gives a value out under a name, in one of the types that Input takes: numbers are rounded
// to it, integers lose their upper bits.
func (g *Graph) Output(name string, t axcl.Type, v Value) {
	if _, ok := g.dims[v]; !ok {
		g.fail("output %q is none of the graph's values", name)
		return
	}
	g.outputs(name, t, v)
}

func (g *Graph) outputs(name string, t axcl.Type, v Value) {
	g.g.Outputs = append(g.g.Outputs, axmodel.GraphPort{Name: name, Type: t, Value: int(v.kind)<<32 | v.at})
}

// Dims is a value's shape; nil for one that is left out or could not be made.
func (g *Graph) Dims(v Value) []int { return g.dims[v].Dims }

// add appends a node and checks it with the shapes of its operands.
func (g *Graph) add(op axmodel.GraphOp, in []Value, attrs ...int32) Value {
	if g.err != nil {
		return Value{}
	}
	for len(in) > 0 && in[len(in)-1].kind == none {
		in = in[:len(in)-1]
	}
	g.check = axmodel.Graph{}
	var at []int
	for i, v := range in {
		shape, ok := g.dims[v]
		switch {
		case ok:
			at = append(at, len(g.check.Values))
			g.check.Values = append(g.check.Values, shape)
		case v.kind == none:
			at = append(at, -1)
		default:
			return g.fail("node %d (%v): operand %d is none of the graph's values", len(g.nodes), op, i)
		}
	}
	first, err := g.check.Add(op, at, attrs)
	if err != nil {
		return g.fail("node %d: %w", len(g.nodes), err)
	}
	v := Value{result, 4 * len(g.nodes)}
	for i, shape := range g.check.Values[first:] {
		g.dims[Value{result, v.at + i}] = shape
	}
	g.nodes = append(g.nodes, node{op, slices.Clone(in), attrs})
	return v
}

// finish numbers the values.
func (g *Graph) finish() (*axmodel.Graph, error) {
	if g.err != nil {
		return nil, g.err
	}
	out := g.g
	ins := len(out.Inputs)
	for i := range ins {
		out.Values = append(out.Values, g.dims[Value{input, i}])
	}
	for i := range g.data {
		out.Values = append(out.Values, g.dims[Value{constant, i}])
	}
	firsts := make([]int, len(g.nodes))
	number := func(v Value) int {
		switch v.kind {
		case input:
			return v.at
		case constant:
			return ins + v.at
		case result:
			return firsts[v.at/4] + v.at%4
		}
		return -1
	}
	var err error
	for i, n := range g.nodes {
		in := make([]int, len(n.in))
		for k, v := range n.in {
			in[k] = number(v)
		}
		if firsts[i], err = out.Add(n.op, in, n.attrs); err != nil {
			return nil, err
		}
	}
	out.Outputs = slices.Clone(out.Outputs)
	for i, p := range out.Outputs {
		out.Outputs[i].Value = number(Value{kind(p.Value >> 32), p.Value & (1<<32 - 1)})
	}
	return &out, nil
}

// Save writes the graph, and further shape groups of the same net, to a file that must not exist.
// The error is the first mistake of any of them, an *axmodel.Error where they do not make a net
// together, or the file's; what was written by then is removed.
func (g *Graph) Save(path string, more ...*Graph) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	err = Write(f, axmodel.Header{Tool: "axle"}, append([]*Graph{g}, more...)...)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		os.Remove(path)
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func bits(x float32) int32 { return int32(math.Float32bits(x)) }

func narrow(a ...int) []int32 {
	out := make([]int32, len(a))
	for i, v := range a {
		out[i] = int32(max(math.MinInt32, min(math.MaxInt32, v)))
	}
	return out
}
