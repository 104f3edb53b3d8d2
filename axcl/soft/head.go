package soft

import (
	"math"
	"slices"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft/kernel"
	"github.com/axle-llm/axle/axmodel"
)

// head is a post model's weights, and room for the rows of one call.
type head struct {
	*file
	norm   []float32
	bias   []float32 // nil: none
	weight kernel.Weights
	pool   *pool
	set    kernel.Set

	n, most int
	work    []*kernel.Scratch
	in      kernel.Input
	y       []float32 // rows × out
	half    []uint16  // y as bf16
	product func(worker, i int)
	step    int
}

// headRows is how many wanted rows go through the head together, so that its weights are read once
// for all of them.
const headRows = 32

func newHead(f *file, p *pool, set kernel.Set) *head {
	h := &head{file: f, norm: f.norm("norm"), bias: f.vector("bias"), weight: f.matrix("weight"), pool: p, set: set}
	for range p.n {
		h.work = append(h.work, kernel.NewScratch(headRows, 0, 0))
	}
	h.product = func(worker, i int) {
		h.set.Mul(h.y, &h.weight, h.in, h.n, i*h.step, min((i+1)*h.step, h.weight.Rows), h.work[worker])
	}
	return h
}

// out is the length of an output row.
func (h *head) out() int {
	if h.Kind == axmodel.EmbeddingHead {
		return h.Hidden
	}
	return h.Out
}

// bytes is what the head allocates at the most.
func (h *head) bytes() int64 {
	return headRows*(4*int64(h.Hidden)+int64(kernel.QuantisedBytes(h.Hidden))+6*int64(h.out())) +
		int64(h.pool.n)*kernel.ScratchBytes(headRows, 0, 0)
}

// run computes n ≤ headRows rows: in(r) is row r's hidden state. The result is in h.y.
func (h *head) run(n int, in func(r int) []uint16) {
	if h.most < n {
		h.most, h.in, h.y = n, kernel.NewInput(&h.weight, h.Hidden, n), make([]float32, n*h.out())
	}
	h.n = n
	for r := range n {
		x, row := h.in.F[r*h.Hidden:(r+1)*h.Hidden], in(r)
		if h.Flags&axmodel.FlagShapeOnly != 0 {
			h.logitsOfShape(h.y[r*h.out():(r+1)*h.out()], row)
			continue
		}
		h.set.Widen(x, row)
		if h.Kind == axmodel.EmbeddingHead {
			h.set.RMSNorm(h.y[r*h.Hidden:(r+1)*h.Hidden], x, h.norm, h.Eps)
		} else {
			h.set.RMSNorm(x, x, h.norm, h.Eps)
			h.set.Prepare(h.in, &h.weight, r)
		}
	}
	if h.Kind == axmodel.Head && h.Flags&axmodel.FlagShapeOnly == 0 {
		h.step = step(&h.weight, n)
		h.pool.each((h.Out+h.step-1)/h.step, h.step*h.Hidden*n, h.product)
	}
	for r := range n {
		if h.bias != nil {
			h.set.Add(h.y[r*h.Out:(r+1)*h.Out], h.bias)
		}
	}
	if h.Kind == axmodel.Head && h.Scale > 0 && h.Flags&axmodel.FlagShapeOnly == 0 {
		for i, v := range h.y[:n*h.Out] {
			h.y[i] = h.Scale * float32(math.Tanh(float64(v/h.Scale)))
		}
	}
	if h.Flags&axmodel.FlagF32 == 0 { // bf16 at the border, before the largest is looked for
		y := h.y[:n*h.out()]
		h.half = slices.Grow(h.half[:0], len(y))[:len(y)]
		h.set.Narrow(h.half, y)
		h.set.Widen(y, h.half)
	}
}

// give computes n rows, headRows at a time. in returns a row's hidden state. logits and argmax
// receive what a pass's do, where they are not nil.
func (h *head) give(n int, in func(r int) []uint16, logits []uint16, argmax []int32) {
	out := h.out()
	for i := 0; i < n; i += headRows {
		k := min(headRows, n-i)
		h.run(k, func(r int) []uint16 { return in(i + r) })
		for r := range k {
			y := h.y[r*out : (r+1)*out]
			if logits != nil {
				h.set.Narrow(logits[(i+r)*out:][:out], y)
			}
			if argmax != nil {
				argmax[i+r] = largest(y)
			}
		}
	}
}

// Head implements axcl.Model.
func (m *Model) Head(rows, logits []uint16) error {
	if err := m.ready(); err != nil {
		return err
	}
	if err := m.shape.CheckHead(len(rows), len(logits)); err != nil {
		return err
	}
	hidden := m.shape.Hidden
	m.head.give(len(rows)/hidden, func(r int) []uint16 { return rows[r*hidden:][:hidden] }, logits, nil)
	return nil
}

// logitsOfShape gives the logits of a model without weights: see docs/axmodel-format.md.
func (h *head) logitsOfShape(y []float32, row []uint16) {
	if h.Kind == axmodel.EmbeddingHead {
		for i, v := range row {
			y[i] = axcl.Float32(v)
		}
		return
	}
	clear(y)
	next := axmodel.ShapeNext(row, h.Out, h.Period)
	y[(next+1)%h.Out] = 8
	y[next] = 16
}

func largest(y []float32) int32 {
	best := 0
	for i, v := range y {
		if v > y[best] {
			best = i
		}
	}
	return int32(best)
}
