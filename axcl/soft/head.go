package soft

import (
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
)

// head is a post model's weights, and room for the rows of one call.
type head struct {
	*file
	norm   []float32
	weight matrix
	pool   *pool

	n       int
	x, y    []float32 // rows × hidden, rows × out
	product func(worker, i int)
	step    int
}

// headRows is how many wanted rows go through the head together, so that its weights are read once for all of them.
const headRows = 32

func newHead(f *file, p *pool) *head {
	h := &head{file: f, norm: f.norm("norm"), weight: f.matrix("weight"), pool: p}
	h.step = min(max(1<<15/f.Hidden, 4), 256)
	h.product = func(_, i int) { h.weight.mul(h.y, h.x, h.n, i*h.step, min((i+1)*h.step, h.weight.rows)) }
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
func (h *head) bytes() int64 { return 4 * headRows * (int64(h.Hidden) + int64(h.out())) }

// run computes n ≤ headRows rows: in(r) is row r's hidden state. The result is in h.y.
func (h *head) run(n int, in func(r int) []uint16) {
	if need := n * h.Hidden; len(h.x) < need {
		h.x = make([]float32, need)
	}
	if need := n * h.out(); len(h.y) < need {
		h.y = make([]float32, need)
	}
	h.n = n
	for r := range n {
		x, row := h.x[r*h.Hidden:(r+1)*h.Hidden], in(r)
		if h.Flags&axmodel.FlagHollow != 0 {
			h.hollow(h.y[r*h.out():(r+1)*h.out()], row)
			continue
		}
		for i, v := range row {
			x[i] = axcl.Float32(v)
		}
		if h.Kind == axmodel.EmbeddingHead {
			rmsNorm(h.y[r*h.Hidden:(r+1)*h.Hidden], x, h.norm, h.Eps)
		} else {
			rmsNorm(x, x, h.norm, h.Eps)
		}
	}
	if h.Kind == axmodel.Head && h.Flags&axmodel.FlagHollow == 0 {
		h.pool.each((h.Out+h.step-1)/h.step, h.step*h.Hidden*n, h.product)
	}
	if h.Flags&axmodel.FlagF32 == 0 { // bf16 at the border, before the largest is looked for
		y := h.y[:n*h.out()]
		for i, v := range y {
			y[i] = axcl.Float32(axcl.BFloat16(v))
		}
	}
}

// hollow gives the logits of a model without weights: see docs/axmodel-format.md.
func (h *head) hollow(y []float32, row []uint16) {
	if h.Kind == axmodel.EmbeddingHead {
		for i, v := range row {
			y[i] = axcl.Float32(v)
		}
		return
	}
	clear(y)
	next := axmodel.HollowNext(row, h.Out, h.Period)
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
