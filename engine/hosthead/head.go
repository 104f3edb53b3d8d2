package hosthead

import (
	"math"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft/kernel"
)

// Exact is how many of a row's largest logits are computed again from the table.
const Exact = 64

// MostRows is how many rows are computed together; more are computed in several parts.
const MostRows = 16

// lowest is the logit of what is no token. It is a number, because a card that gives infinities is
// broken.
const lowest = -1e30

// Head computes the logits of hidden rows. It belongs to one goroutine.
type Head struct {
	s      Source
	set    kernel.Set
	norm   []float32
	bias   []float32 // nil: none
	weight kernel.Weights
	mapped []byte
	pool   *pool

	in     kernel.Input
	y      []float32 // rows × Out
	failed [MostRows]error
	row    [][]uint16 // of each row, room for one of the table
}

func newHead(s Source, mapped []byte) *Head {
	h := &Head{s: s, set: kernel.Best(), mapped: mapped, pool: newPool(MostRows)}
	h.row = make([][]uint16, MostRows)
	for i := range h.row {
		h.row[i] = make([]uint16, s.Hidden)
	}
	return h
}

// Blank returns a head of these sizes whose weights are zeros, for measuring.
func Blank(hidden, out int) (*Head, error) {
	values, scales := kernel.EightValues(out, hidden), kernel.EightScales(out, hidden, group)
	b, err := unix.Mmap(-1, 0, values+2*scales, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(b); i += 4096 {
		b[i] = 0 // a page that was never written is not read from memory
	}
	h := newHead(Source{Hidden: hidden, Out: out, Tokens: out, Eps: 1e-6, Table: zeros{}}, b)
	h.norm = make([]float32, hidden)
	h.weight = kernel.Weights{Rows: out, Cols: hidden, Group: group, Q8: b[:values], Groups: view[uint16](b, int64(values), scales)}
	return h, nil
}

// zeros is a table of them.
type zeros struct{}

func (zeros) Unscaled(dst []uint16, _ int32) error {
	clear(dst)
	return nil
}

// Work is what Run does for n rows: bytes that are read, and products.
func (h *Head) Work(n int) (bytes, products int64) { return Work(h.s.Hidden, h.s.Out, n) }

// Work is what a head of these sizes does for n rows.
func Work(hidden, out, n int) (bytes, products int64) {
	weights := int64(kernel.EightValues(out, hidden)) + 2*int64(kernel.EightScales(out, hidden, group))
	return int64(n+MostRows-1) / MostRows * weights, int64(n) * int64(hidden) * int64(out)
}

// Run computes the logits of rows, hidden states as the last layer gives them, bf16. logits, if not
// nil, gets Out values a row, bf16, and argmax, if not nil, the index of the largest, the lowest
// where several are. A row that holds no numbers gives logits that are none. Errors: the table's.
func (h *Head) Run(rows [][]uint16, logits []uint16, argmax []int32) error {
	for len(rows) > 0 {
		n := min(len(rows), MostRows)
		if err := h.some(rows[:n], logits, argmax); err != nil {
			return err
		}
		if logits != nil {
			logits = logits[n*h.s.Out:]
		}
		if argmax != nil {
			argmax = argmax[n:]
		}
		rows = rows[n:]
	}
	return nil
}

func (h *Head) some(rows [][]uint16, logits []uint16, argmax []int32) error {
	n, out := len(rows), h.s.Out
	if cap(h.y) < n*out {
		h.y, h.in = make([]float32, n*out), kernel.NewInput(&h.weight, h.s.Hidden, n)
	}
	h.y = h.y[:n*out]
	for r, row := range rows {
		x := h.in.F[r*h.s.Hidden:][:h.s.Hidden]
		h.set.Widen(x, row)
		h.set.RMSNorm(x, x, h.norm, h.s.Eps)
		h.set.Prepare(h.in, &h.weight, r)
	}
	step := max(1<<17/h.s.Hidden&^(kernel.Block-1), kernel.Block)
	h.pool.run((out+step-1)/step, func(part int, scratch *kernel.Scratch) {
		from := part * step
		h.set.Mul(h.y, &h.weight, h.in, n, from, min(from+step, out), scratch)
	})
	h.pool.run(n, func(r int, _ *kernel.Scratch) {
		var to []uint16
		if logits != nil {
			to = logits[r*out : (r+1)*out]
		}
		var best int32
		best, h.failed[r] = h.finish(r, to)
		if argmax != nil {
			argmax[r] = best
		}
	})
	for _, err := range h.failed[:n] {
		if err != nil {
			return err
		}
	}
	return nil
}

// finish makes the sums of row r logits, and returns the index of the largest.
func (h *Head) finish(r int, logits []uint16) (int32, error) {
	y, x := h.y[r*h.s.Out:][:h.s.Out], h.in.F[r*h.s.Hidden:][:h.s.Hidden]
	//rule:D6 TestNoNumbers false
	if slices.ContainsFunc(x, func(v float32) bool { return !finite(v) }) {
		for i := range logits {
			logits[i] = 0x7fc0
		}
		return 0, nil
	}
	for i, b := range h.bias {
		y[i] += b
	}
	others := y[min(h.s.Tokens, len(y)):] // that no token has
	for i := range others {
		others[i] = float32(math.Inf(-1))
	}
	best := int32(0)
	for k, id := range largest(y, Exact) {
		if err := h.s.Table.Unscaled(h.row[r], id); err != nil {
			return 0, err
		}
		var sum float64
		for i, v := range h.row[r] {
			sum += float64(x[i]) * float64(axcl.Float32(v))
		}
		if h.bias != nil {
			sum += float64(h.bias[id])
		}
		//rule:G27 TestAccepted drop
		y[id] = float32(sum)
		if k == 0 || y[id] > y[best] || y[id] == y[best] && id < best {
			best = id
		}
	}
	if logits == nil {
		return best, nil
	}
	if h.s.Cap > 0 {
		for i, v := range y {
			y[i] = h.s.Cap * float32(math.Tanh(float64(v/h.s.Cap)))
		}
	}
	for i := range others {
		others[i] = lowest
	}
	h.set.Narrow(logits, y)
	return best, nil
}

// largest returns the indexes of the n largest values, in no order.
func largest(y []float32, n int) []int32 {
	heap := make([]int32, 0, n) // the least is first
	down := func(i int) {
		for {
			c := 2*i + 1
			if c >= len(heap) {
				return
			}
			if c+1 < len(heap) && y[heap[c+1]] < y[heap[c]] {
				c++
			}
			if y[heap[i]] <= y[heap[c]] {
				return
			}
			heap[i], heap[c] = heap[c], heap[i]
			i = c
		}
	}
	for i, v := range y {
		switch {
		case len(heap) < n:
			if !math.IsInf(float64(v), -1) {
				heap = append(heap, int32(i))
			}
			if len(heap) == n {
				for k := n/2 - 1; k >= 0; k-- {
					down(k)
				}
			}
		case v > y[heap[0]]:
			heap[0] = int32(i)
			down(0)
		}
	}
	return heap
}

// Close unmaps the file and ends the threads.
func (h *Head) Close() error {
	h.pool.close()
	return unix.Munmap(h.mapped)
}
