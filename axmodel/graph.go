package axmodel

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/axle-llm/axle/axcl"
)

// This file is the software cards' nets: a graph of operations for each shape group, in
// docs/axmodel-format.md under Nets. Package graph makes some. What is read here is checked
// whole: operands, attributes and every shape that follows from them, so that a card computes
// without looking again.

// Graph is the program of one shape group. Values are numbered: inputs first, then constants, then
// what the nodes give, in order.
type Graph struct {
	Inputs, Outputs []GraphPort
	Constants       []GraphConstant
	Nodes           []GraphNode
	Values          []GraphValue
}

// GraphPort is an input or an output: a value by name, in the type in which it crosses the border.
type GraphPort struct {
	Name  string
	Type  axcl.Type // FP32, BF16 and FP16 of numbers; Int32, Uint32 and Uint8 of integers
	Value int
}

// GraphConstant is a weight: FP32, BF16 or Int32 in the file, row-major.
type GraphConstant struct {
	Type   axcl.Type
	Offset int64
}

// GraphNode is one operation. Operands that are left out are -1.
type GraphNode struct {
	Op    GraphOp
	In    []int
	Attrs []int32 // floats as their bits
	Out   int     // the first value it gives
}

// Float is attribute i, a float.
func (n *GraphNode) Float(i int) float32 { return math.Float32frombits(uint32(n.Attrs[i])) }

// GraphValue is the shape of a value. Numbers are computed in float32, integers in 32 bits.
type GraphValue struct {
	Int  bool
	Dims []int
}

// Len is how many elements a value has.
func (v *GraphValue) Len() int {
	n := 1
	for _, d := range v.Dims {
		n *= d
	}
	return n
}

// GraphOp is an operation.
type GraphOp uint32

// The operations. docs/axmodel-format.md says what each computes, and the order of its operands and
// attributes.
const (
	OpConv GraphOp = 1 + iota
	OpConvTranspose
	OpMatMul
	OpAttention
	OpLayerNorm
	OpRMSNorm
	OpGroupNorm
	OpUnary
	OpBinary
	OpCast
	OpSoftmax
	OpReduce
	OpPool
	OpResize
	OpGather
	OpReshape
	OpTranspose
	OpConcat
	OpSlice
	OpPad
	OpExpand
	OpLSTM
	opEnd
)

var opNames = [...]string{"", "conv", "transposed conv", "matmul", "attention", "layer norm", "RMS norm", "group norm", "unary", "binary",
	"cast", "softmax", "reduce", "pool", "resize", "gather", "reshape", "transpose", "concat", "slice", "pad", "expand", "LSTM"}

func (o GraphOp) String() string {
	if o >= OpConv && o < opEnd {
		return opNames[o]
	}
	return fmt.Sprintf("operation %d", uint32(o))
}

// Outs is how many values the operation gives.
func (o GraphOp) Outs() int {
	if o == OpLSTM {
		return 3
	}
	return 1
}

// Functions of OpUnary.
const (
	UnaryReLU = iota
	UnaryLeaky
	UnarySigmoid
	UnaryTanh
	UnarySiLU
	UnaryGELU     // exact, with erf
	UnaryGELUTanh // the form with tanh
	UnaryGELUFast // x·σ(1.702x), CLIP's
	UnarySqrt
	UnarySin
	UnaryCos
	unaryEnd
)

// Functions of OpBinary.
const (
	BinaryAdd = iota
	BinarySub
	BinaryMul
	BinaryDiv // of numbers alone
	BinaryMin
	BinaryMax
	binaryEnd
)

// Functions of OpReduce.
const (
	ReduceSum = iota
	ReduceMean
	ReduceMax
	reduceEnd
)

// Functions of OpPool, OpResize and OpPad.
const (
	PoolMax     = iota
	PoolAverage // of what is there: padding does not count

	ResizeNearest = 0
	ResizeLinear  = 1

	PadConstant = 0
	PadReflect  = 1
)

// Limits of a graph: far above any real net, and small enough that no product overflows.
const (
	MaxGraphRank  = 6
	MaxGraphPorts = 64 // inputs, and as many outputs
	maxConstants  = 1 << 12
	maxNodes      = 1 << 14
	maxOperands   = 64
	maxGraphDim   = 1 << 24
	maxElements   = 1 << 28 // of one value
	maxProgram    = 4 << 20 // bytes
	maxPortName   = 59      // with a group's suffix, what a card's library has room for
	portBytes     = 96
	constBytes    = 40
	outputBytes   = 72
	maxSpan       = 1 << 16 // strides, dilations, padding, kernels
)

// GraphTypeInt says whether a border's type is one of integers; ok is false where it is none that a
// graph may have.
func GraphTypeInt(t axcl.Type) (integer, ok bool) {
	switch t {
	case axcl.FP32, axcl.BF16, axcl.FP16:
		return false, true
	case axcl.Int32, axcl.Uint32, axcl.Uint8:
		return true, true
	}
	return false, false
}

// Add appends a node and the values it gives, checked. The error, an *Error without a path, says
// what does not fit.
func (g *Graph) Add(op GraphOp, in []int, attrs []int32) (out int, err error) {
	if len(g.Nodes) == maxNodes {
		return 0, errorf("has more than %d nodes", maxNodes)
	}
	fail := func(format string, a ...any) (int, error) {
		return 0, errorf("node %d (%v): %s", len(g.Nodes), op, fmt.Sprintf(format, a...))
	}
	if op < OpConv || op >= opEnd {
		return fail("is not known")
	}
	if len(in) > maxOperands {
		return fail("has %d operands", len(in))
	}
	n := shaper{op: op, attrs: attrs}
	for i, v := range in {
		if v == -1 {
			n.in = append(n.in, nil)
			continue
		}
		if v < 0 || v >= len(g.Values) {
			return fail("operand %d is value %d of %d", i, v, len(g.Values))
		}
		n.in = append(n.in, &g.Values[v])
	}
	outs, err := n.shapes()
	if err != nil {
		return fail("%s", err.(*Error).What)
	}
	for _, v := range outs {
		if why := impossible(v.Dims); why != "" {
			return fail("%s", why)
		}
	}
	out = len(g.Values)
	g.Values = append(g.Values, outs...)
	g.Nodes = append(g.Nodes, GraphNode{Op: op, In: slices.Clone(in), Attrs: slices.Clone(attrs), Out: out})
	return out, nil
}

// impossible says why a shape cannot be; empty where it can.
func impossible(dims []int) string {
	if len(dims) < 1 || len(dims) > MaxGraphRank {
		return fmt.Sprintf("a shape of %d dimensions, 1 to %d are possible", len(dims), MaxGraphRank)
	}
	n := 1
	for _, d := range dims {
		if d < 1 || d > maxGraphDim || n > maxElements/d {
			return fmt.Sprintf("a shape of %v", dims)
		}
		n *= d
	}
	return ""
}

// readGraphs reads the program of every group. table is the file's groups.
func (s *Soft) readGraphs(r io.ReaderAt, size int64, table []byte) error {
	le := binary.LittleEndian
	first := int64(headerBytes + len(table))
	for i := range len(table) / groupBytes {
		off, n := le.Uint64(table[i*groupBytes:]), le.Uint64(table[i*groupBytes+8:])
		if off%8 != 0 || off < uint64(first) || off > uint64(size) || n > uint64(size)-off || n > maxProgram || n < 16 {
			return errorf("group %d's program, %d bytes at %d, does not lie within the file's %d bytes on a multiple of 8", i, n, off, size)
		}
		b := make([]byte, n)
		if _, err := r.ReadAt(b, int64(off)); err != nil {
			return &Error{What: fmt.Sprintf("cannot read: %v", err), Err: err}
		}
		g, err := parseGraph(b, first, size)
		if err != nil {
			return errorf("group %d: %s", i, err.What)
		}
		s.Graphs = append(s.Graphs, g)
		s.Groups = append(s.Groups, SoftGroup{})
	}
	return nil
}

// program is what is left to read of one.
type program struct {
	b     []byte
	short bool
}

func (p *program) bytes(n int) []byte {
	if n > len(p.b) {
		p.short = true
		return make([]byte, n)
	}
	b := p.b[:n]
	p.b = p.b[n:]
	return b
}

func (p *program) u32() uint32 { return binary.LittleEndian.Uint32(p.bytes(4)) }

// parseGraph reads a program; its constants lie from first on in a file of this many bytes.
func parseGraph(b []byte, first, size int64) (*Graph, *Error) {
	p := &program{b: b}
	ins, outs, consts, nodes := p.u32(), p.u32(), p.u32(), p.u32()
	switch {
	case ins < 1 || ins > MaxGraphPorts || outs < 1 || outs > MaxGraphPorts:
		return nil, errorf("has %d inputs and %d outputs, 1 to %d are possible", ins, outs, MaxGraphPorts)
	case consts > maxConstants || nodes > maxNodes:
		return nil, errorf("has %d constants and %d nodes, at most %d and %d are possible", consts, nodes, maxConstants, maxNodes)
	}
	g := &Graph{}
	if err := g.readInputs(p, int(ins)); err != nil {
		return nil, err
	}
	if err := g.readConstants(p, int(consts), first, size); err != nil {
		return nil, err
	}
	if err := g.readNodes(p, int(nodes)); err != nil {
		return nil, err
	}
	if err := g.readOutputs(p, int(outs)); err != nil {
		return nil, err
	}
	if p.short || len(p.b) > 0 {
		return nil, errorf("its program has %d bytes, which is not what it lists", len(b))
	}
	return g, g.checkPorts()
}

func (g *Graph) readInputs(p *program, n int) *Error {
	le := binary.LittleEndian
	for i := range n {
		e := p.bytes(portBytes)
		port := GraphPort{Name: padded(e[:64]), Type: axcl.Type(min(le.Uint32(e[64:]), 255)), Value: i}
		dims, err := readDims(e[68:])
		if err != nil {
			return errorf("input %d, %q, has %s", i, port.Name, err.What)
		}
		integer, ok := GraphTypeInt(port.Type)
		if !ok {
			return errorf("input %q has type %d", port.Name, le.Uint32(e[64:]))
		}
		g.Inputs = append(g.Inputs, port)
		g.Values = append(g.Values, GraphValue{integer, dims})
	}
	return nil
}

func (g *Graph) readConstants(p *program, n int, first, size int64) *Error {
	le := binary.LittleEndian
	for i := range n {
		e := p.bytes(constBytes)
		t, off := axcl.Type(min(le.Uint32(e), 255)), le.Uint64(e[32:])
		dims, err := readDims(e[4:])
		if err != nil {
			return errorf("constant %d has %s", i, err.What)
		}
		v := GraphValue{t == axcl.Int32, dims}
		if t != axcl.FP32 && t != axcl.BF16 && t != axcl.Int32 {
			return errorf("constant %d has type %d", i, le.Uint32(e))
		}
		n := uint64(v.Len()) * uint64(typeBits(t)/8)
		if off%align != 0 || off < uint64(first) || off > uint64(size) || n > uint64(size)-off {
			return errorf("constant %d, %v of %v at %d, does not lie within the file's %d bytes on a multiple of %d", i, dims, t, off,
				size, align)
		}
		g.Constants = append(g.Constants, GraphConstant{t, int64(off)})
		g.Values = append(g.Values, v)
	}
	return nil
}

func (g *Graph) readNodes(p *program, n int) *Error {
	for i := range n {
		op, operands, a := p.u32(), p.u32(), p.u32()
		if operands > maxOperands || a > maxOperands {
			return errorf("node %d has %d operands and %d attributes, at most %d are possible", i, operands, a, maxOperands)
		}
		in, attrs := make([]int, operands), make([]int32, a)
		for k := range in {
			in[k] = int(int32(p.u32()))
		}
		for k := range attrs {
			attrs[k] = int32(p.u32())
		}
		if p.short {
			break
		}
		if _, err := g.Add(GraphOp(op), in, attrs); err != nil {
			return err.(*Error)
		}
	}
	return nil
}

func (g *Graph) readOutputs(p *program, n int) *Error {
	le := binary.LittleEndian
	for i := range n {
		e := p.bytes(outputBytes)
		port := GraphPort{padded(e[:64]), axcl.Type(min(le.Uint32(e[64:]), 255)), int(min(le.Uint32(e[68:]), math.MaxInt32))}
		if p.short {
			break
		}
		if port.Value >= len(g.Values) {
			return errorf("output %d, %q, is value %d of %d", i, port.Name, port.Value, len(g.Values))
		}
		g.Outputs = append(g.Outputs, port)
	}
	return nil
}

// readDims reads a rank and six dimensions. Dimensions beyond the rank say nothing.
func readDims(b []byte) ([]int, *Error) {
	le := binary.LittleEndian
	rank := le.Uint32(b)
	if rank < 1 || rank > MaxGraphRank {
		return nil, errorf("%d dimensions, 1 to %d are possible", rank, MaxGraphRank)
	}
	dims := make([]int, rank)
	for i := range dims {
		dims[i] = int(min(le.Uint32(b[4+4*i:]), math.MaxInt32))
	}
	if why := impossible(dims); why != "" {
		return nil, errorf("%s", why)
	}
	return dims, nil
}

// checkPorts holds names and types of inputs and outputs against each other and the values.
func (g *Graph) checkPorts() *Error {
	for side, ports := range map[string][]GraphPort{"input": g.Inputs, "output": g.Outputs} {
		if len(ports) < 1 || len(ports) > MaxGraphPorts {
			return errorf("has %d %ss, 1 to %d are possible", len(ports), side, MaxGraphPorts)
		}
		for i, p := range ports {
			if p.Name == "" || len(p.Name) > maxPortName {
				return errorf("%s %d has a name of %d bytes, 1 to %d are possible", side, i, len(p.Name), maxPortName)
			}
			if slices.ContainsFunc(ports[:i], func(other GraphPort) bool { return other.Name == p.Name }) {
				return errorf("%s %q is there twice", side, p.Name)
			}
			integer, ok := GraphTypeInt(p.Type)
			if !ok || integer != g.Values[p.Value].Int {
				return errorf("%s %q has type %v, which its values are not", side, p.Name, p.Type)
			}
		}
	}
	return nil
}

// checkGraphs holds a net's header and groups against each other: each group has the same inputs
// and outputs, in other shapes.
func (s *Soft) checkGraphs() error {
	if s.Flags&^FlagSuffix != 0 {
		return errorf("is a graph with flags 0x%x, which none has", s.Flags)
	}
	if len(s.Graphs) == 0 {
		return errorf("is a net without a graph")
	}
	for i, g := range s.Graphs {
		same := func(a, b []GraphPort) bool {
			return slices.EqualFunc(a, b, func(a, b GraphPort) bool { return a.Name == b.Name && a.Type == b.Type })
		}
		if !same(g.Inputs, s.Graphs[0].Inputs) || !same(g.Outputs, s.Graphs[0].Outputs) {
			return errorf("group %d has other inputs or outputs than group 0", i)
		}
	}
	return nil
}

// ports lists a graph's inputs and outputs.
func (g *Graph) ports(in, res func(string, axcl.Type, ...int)) {
	for _, p := range g.Inputs {
		in(p.Name, p.Type, g.Values[p.Value].Dims...)
	}
	for _, p := range g.Outputs {
		res(p.Name, p.Type, g.Values[p.Value].Dims...)
	}
}
