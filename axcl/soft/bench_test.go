package soft

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft/kernel"
	"github.com/axle-llm/axle/axmodel"
)

func BenchmarkPass(b *testing.B) {
	for _, q := range []axmodel.DType{axmodel.BF16Fours, axmodel.Int8Groups, axmodel.Int4Groups} {
		spec := made(b, q, large)
		d, err := Open(Options{})
		if err != nil {
			b.Fatal(err)
		}
		m, err := axcl.Load(context.Background(), d, spec)
		if err != nil {
			b.Fatal(err)
		}
		for _, c := range []struct {
			name        string
			rows, cells int
		}{{"decode", 1, 0}, {"decode at 1024", 1, 1024}, {"4 rows", 4, 64}, {"8 clients", 8, 64}, {"prefill 128", 128, 0},
			{"prefill 128 at 512", 128, 512}} {
			b.Run(q.String()+"/"+c.name, func(b *testing.B) {
				p := pass(m.Shape(), c.rows, c.cells)
				if strings.HasSuffix(c.name, "clients") { // each row sees its own past alone, and every one has its logits
					clear(p.SeeRows)
					p.Want, p.Argmax = nil, make([]int32, c.rows)
					for r := range c.rows {
						p.Want = append(p.Want, r)
					}
				}
				b.ReportAllocs()
				for b.Loop() {
					if err := m.Run(p); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(c.rows)*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
			})
		}
		d.Close()
	}
}

// dims is how large a made-up model is; heads have 64 values.
type dims struct{ layers, hidden, heads, kv, inter, vocab int }

// large is SmolLM2-135M's: 0.13 billion parameters.
var large = dims{30, 576, 9, 3, 1536, 49152}

// made writes a model with weights of the type, and gives its files.
func made(tb testing.TB, quant axmodel.DType, size dims) axcl.LoadSpec {
	tb.Helper()
	const hd = 64
	dir := tb.TempDir()
	r := rand.New(rand.NewPCG(1, 2))
	random := make([]float32, 1<<16)
	for i := range random {
		random[i] = float32(r.NormFloat64()) * 0.04
	}
	fill := func(t axmodel.DType) func(h axmodel.Header) []axmodel.Tensor {
		return func(h axmodel.Header) (ts []axmodel.Tensor) {
			for _, e := range h.Wants() {
				x := axmodel.Tensor{Name: e.Name, Type: t, Rows: e.Rows, Cols: e.Cols, Row: func(dst []float32, row int) error {
					for i := range dst {
						dst[i] = random[(row*31+i)&(1<<16-1)]
					}
					return nil
				}}
				if e.Rows == 1 {
					x.Type = axmodel.F32
				}
				ts = append(ts, x)
			}
			return ts
		}
	}(quant)
	paths, head := axmodel.Files(dir, "t", 128, size.layers)
	h := axmodel.Header{Kind: axmodel.Layer, Hidden: size.hidden, Heads: size.heads, KVHeads: size.kv, HeadDim: hd,
		Intermediate: size.inter, Eps: 1e-5, Scale: 0.125, Rotary: hd, Magnitude: 1, Pos: 1}
	for _, p := range paths {
		if err := axmodel.WriteFile(p, h, axmodel.Ladder(2047, 128, []int{0, 512, 1024}), fill(h)); err != nil {
			tb.Fatal(err)
		}
	}
	h = axmodel.Header{Kind: axmodel.Head, Hidden: size.hidden, Out: size.vocab, Eps: 1e-5, Pos: 1, Flags: axmodel.FlagArgmax}
	if err := axmodel.WriteFile(head, h, []axmodel.SoftGroup{{Rows: 1}}, fill(h)); err != nil {
		tb.Fatal(err)
	}
	return axcl.LoadSpec{Layers: paths, Head: filepath.Join(dir, filepath.Base(head))}
}

// pass makes a pass of n rows that look back on cells cells.
func pass(s axcl.Shape, n, cells int) *axcl.Pass {
	cw, rw := axcl.Words(s.Cells), axcl.Words(n)
	p := &axcl.Pass{Hidden: make([]uint16, n*s.Hidden), Pos: make([]uint32, n), SeeCells: make([]uint64, n*cw),
		SeeRows: make([]uint64, n*rw), Want: []int{n - 1}, Argmax: make([]int32, 1)}
	for i := range p.Hidden {
		p.Hidden[i] = axcl.BFloat16(float32(i%17)/17 - 0.5)
	}
	for r := range n {
		p.Pos[r], p.Cell = uint32(cells+r), append(p.Cell, uint32(s.Cells-n+r))
		for c := range cells {
			p.SeeCells[r*cw+c/64] |= 1 << (c % 64)
		}
		for e := range r {
			p.SeeRows[r*rw+e/64] |= 1 << (e % 64)
		}
	}
	return p
}

// BenchmarkMatVec beside a copy of the same bytes by as many goroutines: how much of the memory's
// bandwidth a product with one row reaches.
func BenchmarkMatVec(b *testing.B) {
	const rows, cols = 32768, 2048 // 128 MiB of bf16
	p := newPool(runtime.GOMAXPROCS(0))
	defer p.close()
	w := make([]uint16, rows*cols)
	for i := range w {
		w[i] = uint16(0x3f80 + i%100)
	}
	x, y := make([]float32, 4*cols), make([]float32, 4*rows)
	to := make([]uint16, rows*cols)
	const step = 32
	set, scratch := kernel.Best(), kernel.NewScratch(1, 0, 0)
	for _, c := range []struct {
		name  string
		bytes int64
		task  func(_, i int)
	}{
		{"copy", rows * cols * 2, func(_, i int) { copy(to[i*step*cols:(i+1)*step*cols], w[i*step*cols:]) }},
		{"bf16", rows * cols * 2, func(_, i int) {
			set.Mul(y, &kernel.Weights{Rows: rows, Cols: cols, Fours: w}, kernel.Input{F: x}, 1, i*step, (i+1)*step, scratch)
		}},
		{"bf16 four rows", rows * cols * 2, func(_, i int) {
			set.Mul(y, &kernel.Weights{Rows: rows, Cols: cols, Fours: w}, kernel.Input{F: x}, 4, i*step, (i+1)*step, scratch)
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(c.bytes)
			for b.Loop() {
				p.run(rows/step, c.task)
			}
		})
	}
}
