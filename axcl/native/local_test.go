//go:build cgo && !fake && linux

package native

import (
	"context"
	"errors"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/native/simhook"
	"github.com/axle-llm/axle/axcl/soft"
)

// TestLocal: layers that see a window have a mask of their own, in wide passes and alone; the
// software card says what is right.
func TestLocal(t *testing.T) {
	onCard(t, "", func(t *testing.T, k Kind, _ *simhook.Sim) {
		spec := write(t, axcltest.DefaultTiny())
		d := open(t, k)
		defer closeAll(t, d)
		spec.Local = []bool{true}
		if _, err := axcl.Load(context.Background(), d, spec); !errors.Is(err, axcl.ErrModel) {
			t.Errorf("one of two layers said to be local or not: %v", err)
		}
		sd, err := soft.Open(soft.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer sd.Close()
		for _, spec.Local = range [][]bool{{true, false}, {false, true}, {false, false}} {
			m, err := axcl.Load(context.Background(), d, spec)
			if err != nil {
				t.Fatal(err)
			}
			s, err := axcl.Load(context.Background(), sd, spec)
			if err != nil {
				t.Fatal(err)
			}
			if want := spec.Local[0] || spec.Local[1]; m.Shape().Local != want {
				t.Errorf("Shape.Local is %v with %v", m.Shape().Local, spec.Local)
			}
			far := 0
			for i, n := range []int{6, 1, 5, 1, 1} {
				var p *axcl.Pass
				if n > 1 {
					p = widePass(m.Shape(), n)
				} else {
					p = rowPass(m.Shape(), far)
				}
				p.Want, p.Logits, p.Argmax = nil, nil, nil
				cw, rw := axcl.Words(m.Shape().Cells), axcl.Words(n)
				p.HiddenOut = make([]uint16, n*m.Shape().Hidden)
				for r := range n {
					p.Cell[r] = uint32(far + r)
					p.Pos[r] = uint32(far + r)
					for w := range cw {
						p.SeeCells[r*cw+w] = 0
					}
					p.SeeCells[r*cw] = 1<<far - 1
				}
				if i != 3 { // once, nil: all of it
					p.LocalCells, p.LocalRows = make([]uint64, n*cw), make([]uint64, n*rw)
					for r := range n {
						from := max(far+r-2, 0) // three rows, itself among them
						p.LocalCells[r*cw] = p.SeeCells[r*cw] >> from << from
						p.LocalRows[r*rw] = p.SeeRows[r*rw] >> max(from-far, 0) << max(from-far, 0)
					}
				}
				if err := m.Run(p); err != nil {
					t.Fatal(err)
				}
				got := p.HiddenOut
				p.HiddenOut = make([]uint16, len(got))
				if err := s.Run(p); err != nil {
					t.Fatal(err)
				}
				if c := axcltest.Cosine(got, p.HiddenOut); !(c >= axcltest.Same) {
					t.Errorf("local %v, pass %d: cosine %.5f with the software card", spec.Local, i, c)
				}
				far += n
			}
			if err := errors.Join(m.Close(), s.Close()); err != nil {
				t.Error(err)
			}
		}
	})
}
