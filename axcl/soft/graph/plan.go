// Package graph runs the nets of axmodel.Graph on the software card.
//
// A [Plan] is made once for a shape group: it says where each value lies in one block of memory,
// which values share a place one after the other, and what is done in which order. A call then
// allocates nothing. Each step is cut into parts that do not depend on how many goroutines there
// are, and a part's sums have one order: the same inputs give the same bits on any number of them.
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
	most map[int64]int       // of bf16 at each place of the file, how many are to be float32
	wide map[int64][]float32 // those, once they are
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

func (w *Weights) widen(off int64, n int) { w.most[off] = max(w.most[off], n) }

// floats gives a constant as float32.
func (w *Weights) floats(c axmodel.GraphConstant, n int) []float32 {
	if c.Type == axcl.FP32 {
		return view[float32](w.file, c.Offset, n)
	}
	v, ok := w.wide[c.Offset]
	if !ok {
		v = make([]float32, w.most[c.Offset])
		for i, b := range view[uint16](w.file, c.Offset, len(v)) {
			v[i] = axcl.Float32(b)
		}
		w.wide[c.Offset] = v
	}
	return v[:n]
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

// step is one thing to do, in parts.
type step struct {
	count, work int
	task        func(worker, i int)
}

// place is where a value lies: in the block of memory, or among the constants.
type place struct {
	at, n    int
	constant int // -1: none
	uses     int // left to come
}

// Plan is how a group is computed.
type Plan struct {
	g       *axmodel.Graph
	set     kernel.Set
	pool    Pool
	weights *Weights

	of     []*place // of each value
	free   []gap
	size   int // of the block, in words
	block  []uint32
	apart  int // words of each worker
	rooms  [][]float32
	rows   int // of products at most
	scrap  []*kernel.Scratch
	kept   int // words that constants take in another order
	steps  []step
	in     [][]byte
	out    [][]byte
	dry    bool // places are looked for; there is no memory yet
	node   *axmodel.GraphNode
	rests  []gap // what the node at hand has taken for itself
	worker int   // and of each worker's words
}

// gap is a part of the block that nothing lies in.
type gap struct{ at, n int }

// New plans a group and takes no memory for it yet.
func New(g *axmodel.Graph, weights *Weights, pool Pool, set kernel.Set) *Plan {
	p := &Plan{g: g, set: set, pool: pool, weights: weights, dry: true}
	p.walk()
	return p
}

// Bytes is what Room takes.
func (p *Plan) Bytes() int64 {
	workers := int64(p.pool.Workers())
	return 4*(int64(p.size)+int64(p.kept)) + workers*(4*int64(p.apart)+kernel.ScratchBytes(p.rows, 1, 1))
}

// Room takes the memory.
func (p *Plan) Room() {
	p.block = make([]uint32, p.size)
	for range p.pool.Workers() {
		p.rooms = append(p.rooms, make([]float32, p.apart))
		p.scrap = append(p.scrap, kernel.NewScratch(p.rows, 1, 1))
	}
	p.dry, p.steps = false, nil
	p.walk()
}

// Run computes the group. in has each input's bytes, out each output's, nil where one is not
// wanted.
func (p *Plan) Run(in, out [][]byte) {
	p.in, p.out = in, out
	for _, s := range p.steps {
		p.pool.Each(s.count, s.work, s.task)
	}
	p.in, p.out = nil, nil
}

// words is a multiple of 16 words, so that values begin where lines of memory do.
func words(n int) int { return (n + 15) &^ 15 }

// take gives n words of the block.
func (p *Plan) take(n int) int {
	n = words(n)
	best := -1
	for i, g := range p.free {
		if g.n >= n && (best < 0 || g.n < p.free[best].n) {
			best = i
		}
	}
	if best < 0 {
		if k := len(p.free) - 1; k >= 0 && p.free[k].at+p.free[k].n == p.size { // the last gap grows
			at := p.free[k].at
			p.size = at + n
			p.free = p.free[:k]
			return at
		}
		p.size += n
		return p.size - n
	}
	at := p.free[best].at
	if p.free[best] = (gap{at + n, p.free[best].n - n}); p.free[best].n == 0 {
		p.free = append(p.free[:best], p.free[best+1:]...)
	}
	return at
}

// give gives words back.
func (p *Plan) give(at, n int) {
	n = words(n)
	i := 0
	for i < len(p.free) && p.free[i].at < at {
		i++
	}
	p.free = append(p.free, gap{})
	copy(p.free[i+1:], p.free[i:])
	p.free[i] = gap{at, n}
	for k := max(i-1, 0); k+1 < len(p.free) && k <= i; {
		if a, b := p.free[k], p.free[k+1]; a.at+a.n == b.at {
			p.free[k].n += b.n
			p.free = append(p.free[:k+1], p.free[k+2:]...)
			continue
		}
		k++
	}
}

// walk goes through the nodes in order: it finds each value a place, and says what is to be done.
func (p *Plan) walk() {
	p.of, p.free, p.size, p.kept = nil, nil, 0, 0
	uses := make([]int, len(p.g.Values))
	for _, n := range p.g.Nodes {
		for _, v := range n.In {
			if v >= 0 {
				uses[v]++
			}
		}
	}
	for _, o := range p.g.Outputs {
		uses[o.Value]++ // which no node ends
	}
	for v := range p.g.Values {
		p.of = append(p.of, &place{n: p.g.Values[v].Len(), constant: -1, uses: max(uses[v], 1)})
	}
	for i, port := range p.g.Inputs {
		p.of[i].at = p.take(p.of[i].n)
		p.receive(i, port.Type)
	}
	for i := range p.g.Constants {
		p.of[len(p.g.Inputs)+i].constant = i
	}
	for i := range p.g.Nodes {
		p.node, p.rests, p.worker = &p.g.Nodes[i], nil, 0
		p.plan()
		for _, r := range p.rests {
			p.give(r.at, r.n)
		}
		for _, v := range p.node.In {
			if v >= 0 {
				p.done(v)
			}
		}
		for v := p.node.Out; v < p.node.Out+p.node.Op.Outs(); v++ {
			if uses[v] == 0 { // it is not asked for
				p.done(v)
			}
		}
		p.apart = max(p.apart, p.worker)
	}
	for i, port := range p.g.Outputs {
		p.send(i, port)
	}
}

// done says that a value was used once.
func (p *Plan) done(v int) {
	l := p.of[v]
	if l.uses--; l.uses == 0 && l.constant < 0 {
		p.give(l.at, l.n)
	}
}

// alias lets a result lie where an operand does.
func (p *Plan) alias(out, in int) {
	p.of[in].uses += p.of[out].uses
	p.of[out] = p.of[in]
}

// result gives result k of the node its place.
func (p *Plan) result(k int) buffer {
	v := p.node.Out + k
	p.of[v].at = p.take(p.of[v].n)
	return p.value(v)
}

// value is a value's memory; empty while there is none yet.
func (p *Plan) value(v int) buffer {
	l := p.of[v]
	if l.constant >= 0 {
		c := p.g.Constants[l.constant]
		switch {
		case c.Type == axcl.Int32:
			return bufferOf(view[uint32](p.weights.file, c.Offset, l.n))
		case p.dry && c.Type == axcl.BF16:
			p.weights.widen(c.Offset, l.n)
			return buffer{}
		}
		f := p.weights.floats(c, l.n)
		return buffer{f: f, w: unsafe.Slice((*uint32)(unsafe.Pointer(&f[0])), len(f))}
	}
	if p.dry {
		return buffer{}
	}
	return bufferOf(p.block[l.at:][:l.n])
}

// operand is operand i's memory and shape; both are nil where it is left out.
func (p *Plan) operand(i int) (buffer, []int) {
	if i >= len(p.node.In) || p.node.In[i] < 0 {
		return buffer{}, nil
	}
	return p.value(p.node.In[i]), p.g.Values[p.node.In[i]].Dims
}

// shape is operand i's.
func (p *Plan) shape(i int) []int { return p.g.Values[p.node.In[i]].Dims }

// constant says whether operand i is one.
func (p *Plan) constant(i int) bool { return p.of[p.node.In[i]].constant >= 0 }

// dims is the shape of the node's first result.
func (p *Plan) dims() []int { return p.g.Values[p.node.Out].Dims }

// space is memory for the node alone, which all its steps see.
func (p *Plan) space(n int) []float32 {
	at := p.take(n)
	p.rests = append(p.rests, gap{at, n})
	if p.dry {
		return nil
	}
	return bufferOf(p.block[at:][:n]).f
}

// keep is memory that stays what fill makes of it, before the first call.
func (p *Plan) keep(n int, fill func(dst []float32)) []float32 {
	p.kept += n
	if p.dry {
		return nil
	}
	dst := make([]float32, n)
	fill(dst)
	return dst
}

// own is memory of the worker that has a part of the node at hand.
func (p *Plan) own(n int) func(worker int) []float32 {
	at := p.worker
	p.worker += words(n)
	return func(worker int) []float32 { return p.rooms[worker][at:][:n] }
}

// do appends a step.
func (p *Plan) do(count, work int, task func(worker, i int)) {
	if !p.dry {
		p.steps = append(p.steps, step{count, max(work, 1), task})
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
	to := p.value(i)
	le := binary.LittleEndian
	p.spread(p.of[i].n, 1, func(_, from, end int) {
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
	v := p.value(port.Value)
	le := binary.LittleEndian
	p.spread(p.of[port.Value].n, 1, func(_, from, end int) {
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

// plan plans the node at hand.
func (p *Plan) plan() {
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
