package soft

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft/kernel"
	"github.com/axle-llm/axle/axmodel"
)

// A row's result has the same bits in float32, before it is rounded, whatever the number of
// threads, wherever the rows that it sees lie, and whatever else is in the pass: enough rows that
// weights are unpacked for all of them, and large enough that workers share them.
func TestSameBits(t *testing.T) {
	const before, n = 40, 14
	for _, quant := range []axmodel.DType{axmodel.BF16, axmodel.BF16Fours, axmodel.Int8Groups, axmodel.Int4Groups} {
		spec := made(t, quant, dims{1, 256, 4, 2, 384, 300})
		for _, set := range kernel.Available() {
			// answer runs the rows before into these cells, then n rows that see them, together or
			// each for itself.
			answer := func(threads int, cells []int, together bool) (x []float32) {
				d, err := Open(Options{Threads: threads, Kernels: set.String()})
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				loaded, err := axcl.Load(context.Background(), d, spec)
				if err != nil {
					t.Fatal(err)
				}
				m := loaded.(*Model)
				run := func(p *axcl.Pass, first, see int) {
					for r := range p.Cell {
						p.Cell[r], p.Pos[r] = uint32(cells[first+r]), uint32(first+r)
						for _, c := range cells[:see] {
							p.SeeCells[r*axcl.Words(m.shape.Cells)+c/64] |= 1 << (c % 64)
						}
					}
					if err := m.Run(p); err != nil {
						t.Fatal(err)
					}
				}
				run(pass(m.shape, before, 0), 0, 0)
				whole := pass(m.shape, n, 0)
				if together {
					run(whole, before, before)
					return slices.Clone(m.engine.x[:n*m.shape.Hidden])
				}
				for r := range n {
					p := pass(m.shape, 1, 0)
					copy(p.Hidden, whole.Hidden[r*m.shape.Hidden:])
					run(p, before+r, before+r)
					x = append(x, m.engine.x[:m.shape.Hidden]...)
				}
				return x
			}
			inOrder, anywhere := make([]int, before+n), rand.New(rand.NewPCG(1, 2)).Perm(500)[:before+n]
			for i := range inOrder {
				inOrder[i] = i
			}
			want := answer(1, inOrder, true)
			for _, c := range []struct {
				name string
				x    []float32
			}{{"two threads", answer(2, inOrder, true)}, {"three threads, and other cells", answer(3, anywhere, true)},
				{"two threads, other cells, each row for itself", answer(2, anywhere, false)}} {
				for i, v := range c.x {
					if v != want[i] {
						t.Errorf("%v, %v: %s: value %d of row %d is %v, with one thread and all rows together %v", quant, set, c.name,
							i%256, i/256, v, want[i])
						break
					}
				}
			}
		}
	}
}
