// Package graph runs the nets of axmodel.Graph on the software card.
//
// A [Plan] computes a shape group, node after node. Each node is cut into parts that do not depend
// on how many goroutines there are, and a part's sums have one order: the same inputs give the same
// bits on any number of them.
//
// A Plan belongs to the goroutine that owns the card. It keeps no file open: the bytes it is given
// must stay as they are until the last Run.
package graph

import (
	"encoding/binary"
	"unsafe"

	"github.com/x448/float16"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft/kernel"
	"github.com/axle-llm/axle/axmodel"
)

// Pool runs the parts of a step.
type Pool interface {
	// Each calls task for i in [0, count), each part being about work multiplications, and returns
	// when all are done. worker tells scratch memory apart.
	Each(count, work int, task func(worker, i int))
	Workers() int
}

// Weights are a file's constants as they are computed with, which all of its groups share.
type Weights struct {
	file []byte
	wide map[int64][]float32 // bf16 at each place of the file as float32; nil where it is only counted
	most map[int64]int       // and how many there are
}

// NewWeights are those of a file's bytes, which axmodel has checked.
func NewWeights(file []byte) *Weights {
	return &Weights{file: file, most: map[int64]int{}, wide: map[int64][]float32{}}
}

// Bytes is what they take in addition to the file, for the plans that were made of it.
func (w *Weights) Bytes() (n int64) {
	for _, values := range w.most {
		n += 4 * int64(values)
	}
	return n
}

// buffer gives a constant of n values, or counts it.
func (w *Weights) buffer(c axmodel.GraphConstant, n int, dry bool) buffer {
	if c.Type != axcl.BF16 {
		return bufferOf(view[uint32](w.file, c.Offset, n))
	}
	if w.most[c.Offset] = max(w.most[c.Offset], n); dry {
		return buffer{}
	}
	v := w.wide[c.Offset]
	if v == nil {
		v = make([]float32, w.most[c.Offset])
		for i, b := range view[uint16](w.file, c.Offset, len(v)) {
			v[i] = axcl.Float32(b)
		}
		w.wide[c.Offset] = v
	}
	return bufferOf(view[uint32](unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), 4*n), 0, n))
}

func view[T any](b []byte, off int64, n int) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(&b[off])), n)
}

// buffer is a value's memory, as what it is needed for.
type buffer struct {
	f []float32
	n []int32
	w []uint32 // whichever of both it is
}

func bufferOf(mem []uint32) buffer {
	if len(mem) == 0 {
		return buffer{}
	}
	return buffer{unsafe.Slice((*float32)(unsafe.Pointer(&mem[0])), len(mem)), unsafe.Slice((*int32)(unsafe.Pointer(&mem[0])), len(mem)),
		mem}
}

// Plan is how a group is computed.
type Plan struct {
	g       *axmodel.Graph
	set     kernel.Set
	pool    Pool
	weights *Weights
	last    []int // the node that is the last to use a value

	// The call at hand.
	values  []buffer // those that are there
	node    *axmodel.GraphNode
	scrap   []*kernel.Scratch
	in, out [][]byte

	dry   bool // memory is counted, and nothing is computed
	words int  // that a call takes, if nothing is given back before its end
	apart int  // words of each worker, for one node
}

// New makes the plan of a group.
func New(g *axmodel.Graph, weights *Weights, pool Pool, set kernel.Set) *Plan {
	p := &Plan{g: g, set: set, pool: pool, weights: weights, last: make([]int, len(g.Values))}
	for i, n := range g.Nodes {
		for _, v := range n.In {
			if v >= 0 {
				p.last[v] = i
			}
		}
	}
	for _, o := range g.Outputs {
		p.last[o.Value] = len(g.Nodes)
	}
	p.dry = true
	p.Run(nil, nil)
	p.dry = false
	return p
}

// Bytes is what a call takes at the most.
func (p *Plan) Bytes() int64 {
	return 4*int64(p.words) + int64(p.pool.Workers())*(4*int64(p.apart)+kernel.ScratchBytes(kernel.Together, 1, 1))
}

// Run computes the group. in has each input's bytes, out each output's, nil where one is not
// wanted.
func (p *Plan) Run(in, out [][]byte) {
	p.in, p.out, p.values = in, out, make([]buffer, len(p.g.Values))
	for !p.dry && len(p.scrap) < p.pool.Workers() {
		p.scrap = append(p.scrap, kernel.NewScratch(kernel.Together, 1, 1))
	}
	for i, port := range p.g.Inputs {
		p.make(i)
		p.receive(i, port.Type)
	}
	for i, c := range p.g.Constants {
		v := len(p.g.Inputs) + i
		p.values[v] = p.weights.buffer(c, p.g.Values[v].Len(), p.dry)
	}
	for i := range p.g.Nodes {
		p.node = &p.g.Nodes[i]
		p.compute()
		for _, v := range p.node.In {
			if v >= 0 && p.last[v] == i {
				p.values[v] = buffer{}
			}
		}
	}
	for i, port := range p.g.Outputs {
		p.send(i, port)
	}
	p.in, p.out, p.values = nil, nil, nil
}

// make takes a value's memory.
func (p *Plan) make(v int) buffer {
	n := p.g.Values[v].Len()
	if p.words += n; !p.dry {
		p.values[v] = bufferOf(make([]uint32, n))
	}
	return p.values[v]
}

// alias lets a result lie where an operand does.
func (p *Plan) alias(out, in int) { p.values[out] = p.values[in] }

// result takes the memory of result k of the node.
func (p *Plan) result(k int) buffer { return p.make(p.node.Out + k) }

// operand is operand i's memory and shape; both are nil where it is left out.
func (p *Plan) operand(i int) (buffer, []int) {
	if i >= len(p.node.In) || p.node.In[i] < 0 {
		return buffer{}, nil
	}
	return p.values[p.node.In[i]], p.shape(i)
}

// shape is operand i's.
func (p *Plan) shape(i int) []int { return p.g.Values[p.node.In[i]].Dims }

// dims is the shape of the node's first result.
func (p *Plan) dims() []int { return p.g.Values[p.node.Out].Dims }

// space is memory for the node alone, which all its parts see.
func (p *Plan) space(n int) []float32 {
	if p.words += n; p.dry {
		return nil
	}
	return make([]float32, n)
}

// own is memory of the worker that has a part of the node at hand.
func (p *Plan) own(n int) func(worker int) []float32 {
	if p.apart += n; p.dry {
		return nil
	}
	rooms := make([][]float32, p.pool.Workers())
	for i := range rooms {
		rooms[i] = make([]float32, n)
	}
	return func(worker int) []float32 { return rooms[worker] }
}

// do computes the parts of a step.
func (p *Plan) do(count, work int, task func(worker, i int)) {
	if !p.dry {
		p.pool.Each(count, max(work, 1), task)
	}
}

// chunk is how many values of an operation that takes them one by one are a part.
const chunk = 1 << 13

// spread calls f for parts of n values.
func (p *Plan) spread(n, cost int, f func(worker, from, to int)) {
	p.do((n+chunk-1)/chunk, cost*min(chunk, n), func(worker, i int) { f(worker, i*chunk, min((i+1)*chunk, n)) })
}

// rowsOf calls f for parts of n rows of this many values.
func (p *Plan) rowsOf(n, values, cost int, f func(worker, from, to int)) {
	each := max(1, chunk/max(values, 1))
	p.do((n+each-1)/each, cost*values*min(each, n), func(worker, i int) { f(worker, i*each, min((i+1)*each, n)) })
}

// receive reads an input.
func (p *Plan) receive(i int, t axcl.Type) {
	to := p.values[i]
	le := binary.LittleEndian
	p.spread(p.g.Values[i].Len(), 1, func(_, from, end int) {
		b := p.in[i]
		switch t {
		case axcl.FP32, axcl.Int32, axcl.Uint32:
			copy(unsafe.Slice((*byte)(unsafe.Pointer(&to.w[from])), 4*(end-from)), b[4*from:4*end])
		case axcl.Uint8:
			for k := from; k < end; k++ {
				to.n[k] = int32(b[k])
			}
		case axcl.BF16:
			for k := from; k < end; k++ {
				to.f[k] = axcl.Float32(le.Uint16(b[2*k:]))
			}
		default:
			for k := from; k < end; k++ {
				to.f[k] = float16.Frombits(le.Uint16(b[2*k:])).Float32()
			}
		}
	})
}

// send writes an output.
func (p *Plan) send(i int, port axmodel.GraphPort) {
	v := p.values[port.Value]
	le := binary.LittleEndian
	p.spread(p.g.Values[port.Value].Len(), 1, func(_, from, end int) {
		b := p.out[i]
		if b == nil {
			return
		}
		switch port.Type {
		case axcl.FP32, axcl.Int32, axcl.Uint32:
			copy(b[4*from:4*end], unsafe.Slice((*byte)(unsafe.Pointer(&v.w[from])), 4*(end-from)))
		case axcl.Uint8:
			for k := from; k < end; k++ {
				b[k] = byte(v.n[k])
			}
		case axcl.BF16:
			for k := from; k < end; k++ {
				le.PutUint16(b[2*k:], axcl.BFloat16(v.f[k]))
			}
		default:
			for k := from; k < end; k++ {
				le.PutUint16(b[2*k:], float16.Fromfloat32(v.f[k]).Bits())
			}
		}
	})
}

// compute computes the node at hand.
func (p *Plan) compute() {
	switch p.node.Op {
	case axmodel.OpConv:
		p.conv()
	case axmodel.OpConvTranspose:
		p.convTranspose()
	case axmodel.OpMatMul:
		p.matmul()
	case axmodel.OpAttention:
		p.attention()
	case axmodel.OpLayerNorm, axmodel.OpRMSNorm:
		p.rowNorm()
	case axmodel.OpGroupNorm:
		p.groupNorm()
	case axmodel.OpUnary:
		p.unary()
	case axmodel.OpBinary:
		p.binary()
	case axmodel.OpCast:
		p.cast()
	case axmodel.OpSoftmax:
		p.softmax()
	case axmodel.OpReduce:
		p.reduce()
	case axmodel.OpPool:
		p.pooling()
	case axmodel.OpResize:
		p.resize()
	case axmodel.OpGather:
		p.gather()
	case axmodel.OpReshape:
		p.alias(p.node.Out, p.node.In[0])
	case axmodel.OpTranspose, axmodel.OpSlice, axmodel.OpExpand:
		p.pick()
	case axmodel.OpConcat:
		p.concat()
	case axmodel.OpPad:
		p.pad()
	case axmodel.OpLSTM:
		p.lstm()
	}
}

// strides are how far apart the values of a shape are along each axis.
func strides(dims []int) []int {
	out := make([]int, len(dims))
	at := 1
	for i := len(dims) - 1; i >= 0; i-- {
		out[i] = at
		at *= dims[i]
	}
	return out
}

func product(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}
