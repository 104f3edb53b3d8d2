package soft

import (
	"encoding/binary"
	"math"
	"slices"
	"unsafe"

	"github.com/x448/float16"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft/kernel"
	"github.com/axle-llm/axle/axmodel"
)

// linear is what a layer with a state has instead of attention: a gated delta-net
// (docs/axmodel-format.md, Linear layers). It is computed row by row, in chunks too: a state that
// is kept in float32 is then the same to the last bit, however its rows were cut into calls.
type linear struct {
	qkv, z, b, a     kernel.Weights
	conv             []float32 // channels × Conv
	bias, rate, norm []float32 // dt_bias; exp(a_log), by which a head forgets; the norm's factors, never plus one
}

func newLinear(f *file) *linear {
	l := &linear{qkv: f.matrix("qkv"), z: f.matrix("z"), b: f.matrix("b"), a: f.matrix("a"), bias: f.vector("dt_bias"),
		rate: f.vector("a_log"), norm: f.vector("norm")}
	for i, v := range l.rate {
		l.rate[i] = float32(math.Exp(float64(v)))
	}
	l.conv = f.matrix("conv").F32
	return l
}

// held is the memory of a layer's two states, as K_cache and V_cache have them. Nil stands for
// zeros where it is read, and for nowhere where it is written.
type held struct{ k, v []byte }

// linearSize is what an engine must hold for layers with a state.
type linearSize struct {
	channels, values, writers, columns, state int
}

func (s *linearSize) growLinear(l *layer) {
	channels := l.Channels()
	s.channels, s.values, s.writers = max(s.channels, channels), max(s.values, l.Heads*l.ValueDim), max(s.writers, l.Heads)
	s.columns, s.state = max(s.columns, channels*(l.Conv-1)), max(s.state, l.HeadDim*l.ValueDim)
}

// linearBytes is what newMixing and the workers' rooms take.
func (s *linearSize) linearBytes(rows int64, threads int) int64 {
	return 4 * (rows*int64(2*s.channels+2*s.values+2*s.writers) + int64(s.columns+s.channels) + int64(threads)*int64(s.state))
}

// mixing is the memory in which layers with a state are computed.
type mixing struct {
	u, c, z, y []float32 // the convolution's input and output; the gates of the output, and what they are gates of
	beta, keep []float32 // of each row's heads: how much is written, and how much of the old state stays
	columns    []float32 // the rows before the call, channel by channel
	ones       []float32

	from, to held
}

func newMixing(s size) mixing {
	f := func(n int) []float32 { return make([]float32, s.rows*n) }
	m := mixing{u: f(s.channels), c: f(s.channels), z: f(s.values), y: f(s.values), beta: f(s.writers), keep: f(s.writers),
		columns: make([]float32, s.columns), ones: make([]float32, s.channels)}
	for i := range m.ones {
		m.ones[i] = 1
	}
	return m
}

func sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }

// runLinear computes one layer with a state for n rows. The caller has left out padding. The rows
// go on from one state and leave another, perhaps in the same memory.
func (e *engine) runLinear(l *layer, n int, out, in []uint16, from, to held) {
	e.l, e.n, e.out, e.raw, e.lin.from, e.lin.to = l, n, out, in, from, to
	h, x, m := l.Hidden, l.linear, &e.lin
	if l.Flags&axmodel.FlagShapeOnly != 0 {
		copy(out, in[:n*h])
		clear(to.k)
		clear(to.v)
		return
	}
	channels, past := l.Channels(), l.Conv-1
	e.load(m.columns[:channels*past], from.k, l.State)
	if n > 0 {
		e.pool.each(n, 2*h, e.begin)
		e.multiply(e.a, product{w: &x.qkv, dst: m.u}, product{w: &x.z, dst: m.z}, product{w: &x.b, dst: m.beta},
			product{w: &x.a, dst: m.keep})
		e.pool.each(n, channels*(l.Conv+8), e.convolve)
	}
	e.keepColumns(n)
	e.pool.each(l.Heads, l.HeadDim*l.ValueDim*(1+4*n), e.recall)
	if n > 0 {
		e.multiply(m.z, product{w: &l.o, dst: e.a})
		e.mlp()
	}
}

// doConvolve makes a row's queries, keys and values, and what its heads write and keep.
func (e *engine) doConvolve(_, r int) {
	l, m := e.l, &e.lin
	channels, width := l.Channels(), l.Conv
	past := width - 1
	c := e.row(m.c, r, channels)
	clear(c)
	for j := range width {
		if at := r - past + j; at >= 0 {
			for i, v := range e.row(m.u, at, channels) {
				c[i] += l.linear.conv[i*width+j] * v
			}
			continue
		}
		for i := range c {
			c[i] += l.linear.conv[i*width+j] * m.columns[i*past+r+j]
		}
	}
	e.set.SiLU(c, m.ones[:channels])
	dk := l.HeadDim
	keys := l.KVHeads * dk
	for i := 0; i < keys; i += dk {
		unit(c[i:i+dk], 1/math.Sqrt(float64(dk)))
		unit(c[keys+i:keys+i+dk], 1)
	}
	beta, keep := e.row(m.beta, r, l.Heads), e.row(m.keep, r, l.Heads)
	for i, v := range keep {
		beta[i] = sigmoid(beta[i])
		keep[i] = float32(math.Exp(-float64(l.linear.rate[i]) * softplus(float64(v+l.linear.bias[i]))))
	}
}

// softplus is ln(1 + e^x), for large x too.
func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// unit gives x the length of scale.
func unit(x []float32, scale float64) {
	sum := 1e-6
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	f := float32(scale / math.Sqrt(sum))
	for i := range x {
		x[i] *= f
	}
}

// keepColumns leaves the last rows of the convolution's input for the next call.
func (e *engine) keepColumns(n int) {
	l, m := e.l, &e.lin
	if m.to.k == nil {
		return
	}
	channels, past := l.Channels(), l.Conv-1
	for i := range channels {
		column := m.columns[i*past : (i+1)*past]
		for j := range column {
			if j+n < past {
				column[j] = column[j+n]
			} else {
				column[j] = m.u[(j+n-past)*channels+i]
			}
		}
	}
	e.store(m.to.k, m.columns[:channels*past], l.State)
}

// doRecall takes one value head through all rows: it forgets, writes what the key does not recall
// rightly yet, and is asked the query.
func (e *engine) doRecall(worker, head int) {
	l, m, room := e.l, &e.lin, &e.work[worker]
	dk, dv, channels := l.HeadDim, l.ValueDim, l.Channels()
	key := head / (l.Heads / l.KVHeads) * dk
	keys := l.KVHeads * dk
	s := room.s[:dk*dv]
	at := head * dk * dv
	e.load(s, part(m.from.v, at, dk*dv, l.State), l.State)
	for r := range e.n {
		c := e.row(m.c, r, channels)
		q, k, v := c[key:key+dk], c[keys+key:keys+key+dk], c[2*keys+head*dv:][:dv]
		keep, beta := m.keep[r*l.Heads+head], m.beta[r*l.Heads+head]
		z, o := e.row(m.z, r, l.Heads*dv)[head*dv:][:dv], e.row(m.y, r, l.Heads*dv)[head*dv:][:dv]
		e.set.Delta(o, s, q, k, v, keep, beta)
		e.set.RMSNorm(o, o, l.linear.norm, l.Eps)
		e.set.SiLU(z, o)
	}
	e.store(part(m.to.v, at, dk*dv, l.State), s, l.State)
}

// part is n values of a state from the at-th on; nil of none.
func part(b []byte, at, n int, t axmodel.State) []byte {
	if b == nil {
		return nil
	}
	width := 2
	if t == axmodel.StateFP32 {
		width = 4
	}
	return b[at*width : (at+n)*width]
}

// load reads a state, or zeros where there is none.
func (e *engine) load(dst []float32, b []byte, t axmodel.State) {
	if b == nil || len(dst) == 0 {
		clear(dst)
		return
	}
	le := binary.LittleEndian
	switch {
	case t == axmodel.StateFP32 && aligned(b, 4):
		copy(dst, view[float32](b, 0, len(dst)))
	case t == axmodel.StateFP32:
		for i := range dst {
			dst[i] = math.Float32frombits(le.Uint32(b[4*i:]))
		}
	case t == axmodel.StateFP16:
		for i := range dst {
			dst[i] = float16.Frombits(le.Uint16(b[2*i:])).Float32()
		}
	case aligned(b, 2):
		e.set.Widen(dst, view[uint16](b, 0, len(dst)))
	default:
		for i := range dst {
			dst[i] = axcl.Float32(le.Uint16(b[2*i:]))
		}
	}
}

// aligned says whether values of this many bytes may be read and written where they lie: files and
// slots lie so, a caller's bytes may not.
func aligned(b []byte, width uintptr) bool { return uintptr(unsafe.Pointer(&b[0]))%width == 0 }

// store writes a state, rounded to its type; nowhere is nothing to do.
func (e *engine) store(b []byte, src []float32, t axmodel.State) {
	if b == nil || len(src) == 0 {
		return
	}
	le := binary.LittleEndian
	switch {
	case t == axmodel.StateFP32 && aligned(b, 4):
		copy(view[float32](b, 0, len(src)), src)
	case t == axmodel.StateFP32:
		for i, v := range src {
			le.PutUint32(b[4*i:], math.Float32bits(v))
		}
	case t == axmodel.StateFP16:
		for i, v := range src {
			le.PutUint16(b[2*i:], float16.Fromfloat32(v).Bits())
		}
	case aligned(b, 2):
		e.set.Narrow(view[uint16](b, 0, len(src)), src)
	default:
		for i, v := range src {
			le.PutUint16(b[2*i:], axcl.BFloat16(v))
		}
	}
}

// present is how many rows of a call are there: a mask of ones, then of zeros for padding.
func present(mask []uint16) int {
	if i := slices.IndexFunc(mask, func(v uint16) bool { return !(axcl.Float32(v) > 0) }); i >= 0 {
		return i
	}
	return len(mask)
}

// runLinear is runLayer for a layer with a state.
func (n *net) runLinear(g axmodel.SoftGroup, in, out map[string][]byte) {
	hidden := make([]uint16, g.Rows*n.file.Hidden)
	//rule:G13 TestLinearChunk present(get16(in["mask"])) => g.Rows
	rows := present(get16(in["mask"]))
	n.engine.runLinear(n.layer, rows, hidden, get16(in["input"]), held{in["K_cache"], in["V_cache"]},
		held{out["K_cache_out"], out["V_cache_out"]})
	put16(out["output"], hidden)
}
