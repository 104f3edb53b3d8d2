package soft_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/internal/lane"
)

// Rows of one pass give bit for bit what they give one at a time, on any number of threads.
func TestTogetherAsAlone(t *testing.T) {
	for _, quant := range []string{"bf16", "int8", "int4"} {
		spec, c := compiled(t, "qwen3", compile.Options{Quant: quant})
		tokens := []int{3, 141, 59, 26, 53, 58, 97, 93, 238, 46, 264}
		m := load(t, open(t, soft.Options{Threads: 3}), spec)
		s := m.Shape()
		wide := rows(s, c, tokens, 0, nil, 0)
		if err := m.Run(wide); err != nil {
			t.Fatal(err)
		}
		one := load(t, open(t, soft.Options{Threads: 1}), spec)
		var seen []int
		for i, tok := range tokens {
			p := rows(s, c, []int{tok}, i, seen, 40+i)
			if err := one.Run(p); err != nil {
				t.Fatal(err)
			}
			seen = append(seen, 40+i)
			if !slices.Equal(p.Logits, wide.Logits[i*s.Out:(i+1)*s.Out]) ||
				!slices.Equal(p.HiddenOut, wide.HiddenOut[i*s.Hidden:(i+1)*s.Hidden]) {
				t.Errorf("%s: row %d differs", quant, i)
			}
		}
	}
}

// compiled makes a package of a random checkpoint and gives its files.
func compiled(t *testing.T, arch string, o compile.Options) (axcl.LoadSpec, *axmodeltest.Checkpoint) {
	t.Helper()
	o.From, o.Name = t.TempDir(), "m"
	c, err := axmodeltest.RandomCheckpoint(o.From, arch, 7)
	if err != nil {
		t.Fatal(err)
	}
	o.Out, o.Context, o.Chunk, o.History = filepath.Join(t.TempDir(), "p"), 95, 16, []int{0, 16, 64}
	r, err := compile.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	layers, head := axmodel.Files(r.Dir, o.Name, o.Chunk, r.Layers)
	return axcl.LoadSpec{Layers: layers, Head: head}, c
}

// rows makes a pass of causal rows of one text, kept in cells from first on, that sees the cells
// seen.
func rows(s axcl.Shape, c *axmodeltest.Checkpoint, tokens []int, pos int, seen []int, first int) *axcl.Pass {
	n := len(tokens)
	p := &axcl.Pass{Hidden: make([]uint16, n*s.Hidden), SeeCells: make([]uint64, n*axcl.Words(s.Cells)), SeeRows: make([]uint64, n),
		Logits: make([]uint16, n*s.Out), HiddenOut: make([]uint16, n*s.Hidden)}
	for r, tok := range tokens {
		c.Embed(p.Hidden[r*s.Hidden:(r+1)*s.Hidden], tok)
		p.Pos, p.Cell, p.Want = append(p.Pos, uint32(pos+r)), append(p.Cell, uint32(first+r)), append(p.Want, r)
		p.SeeRows[r] = 1<<r - 1
		for _, cell := range seen {
			p.SeeCells[r*axcl.Words(s.Cells)+cell/64] |= 1 << (cell % 64)
		}
	}
	return p
}

func load(t *testing.T, d *soft.Device, spec axcl.LoadSpec) axcl.Model {
	t.Helper()
	m, err := axcl.Load(context.Background(), d, spec)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A layer called by tensor name gives what the same layer gives in a pass: mask, positions, new
// rows and untouched cache.
func TestLayerNet(t *testing.T) {
	for _, arch := range []string{"qwen2", "gemma3"} {
		spec, c := compiled(t, arch, compile.Options{})
		d := open(t, soft.Options{})
		spec.Layers, spec.Head = spec.Layers[:1], ""
		m := load(t, d, spec)
		s := m.Shape()
		first := rows(s, c, []int{1, 2, 3, 4, 5}, 0, nil, 0)
		first.Want, first.Logits = nil, nil
		second := rows(s, c, []int{6, 7, 8}, 5, []int{0, 2, 3}, 5)
		second.Want, second.Logits = nil, nil
		net, err := d.LoadNet(spec.Layers[0])
		if err != nil {
			t.Fatal(err)
		}
		if net.Groups() != 4 || net.Inputs(2)[2].Name != "mask" {
			t.Fatalf("%d groups, %+v", net.Groups(), net.Inputs(2))
		}
		buffers := func(ts []axcl.Tensor) map[string][]byte {
			out := map[string][]byte{}
			for _, x := range ts {
				out[x.Name] = make([]byte, x.Size)
			}
			return out
		}
		put := func(b []byte, at int, v ...uint16) {
			for i, x := range v {
				binary.LittleEndian.PutUint16(b[2*(at+i):], x)
			}
		}
		const hidden16 = 0xc780 // −65536
		call := func(group int, p *axcl.Pass, cells int, k, v []byte) map[string][]byte {
			in, out := buffers(net.Inputs(group)), buffers(net.Outputs(group))
			put(in["input"], 0, p.Hidden...)
			for i := range 16 {
				for j := range cells + 16 {
					put(in["mask"], i*(cells+16)+j, hidden16)
				}
			}
			for r, pos := range p.Pos {
				binary.LittleEndian.PutUint32(in["indices"][4*r:], pos)
				for cell := range cells {
					if p.SeeCells[r*axcl.Words(s.Cells)+cell/64]>>(cell%64)&1 != 0 {
						put(in["mask"], r*(cells+16)+cell, 0)
					}
				}
				for e := range r + 1 {
					put(in["mask"], r*(cells+16)+cells+e, 0)
				}
			}
			copy(in["K_cache"], k)
			copy(in["V_cache"], v)
			if err := net.Run(group, in, out); err != nil {
				t.Fatal(err)
			}
			return out
		}
		check := func(p *axcl.Pass, out map[string][]byte) {
			t.Helper()
			if err := m.Run(p); err != nil {
				t.Fatal(err)
			}
			for i, want := range p.HiddenOut {
				if got := binary.LittleEndian.Uint16(out["output"][2*i:]); got != want {
					t.Fatalf("%s: value %d is %v by name, %v in a pass", arch, i, axcl.Float32(got), axcl.Float32(want))
				}
			}
		}
		out := call(1, first, 0, nil, nil)
		check(first, out)
		row := s.KV * 2
		// what is not seen may hold NaN
		k, v := bytes.Repeat([]byte{0xff}, 16*row), bytes.Repeat([]byte{0xff}, 16*row)
		copy(k, out["K_cache_out"][:5*row])
		copy(v, out["V_cache_out"][:5*row])
		check(second, call(2, second, 16, k, v))
		if !bytes.Equal(k[:5*row], out["K_cache_out"][:5*row]) {
			t.Error("the cache was changed")
		}
	}
}

// The mask is added to the scores: a column at −4 weighs e⁻⁴ as much.
func TestMaskIsAdded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l.axmodel")
	h := axmodel.Header{Kind: axmodel.Layer, Hidden: 2, Heads: 1, KVHeads: 1, HeadDim: 2, Intermediate: 1, Eps: 1e-6, Scale: 1,
		Magnitude: 1, Pos: 1}
	var ts []axmodel.Tensor
	for _, e := range h.Wants() {
		v := make([]float32, e.Rows*e.Cols) // q, k and the MLP are zero: all scores are the mask's
		switch e.Name {
		case "input_norm", "post_norm":
			v = []float32{1, 1}
		case "o":
			v = []float32{1, 0, 0, 1}
		}
		ts = append(ts, axmodel.Matrix(e.Name, axmodel.F32, e.Rows, e.Cols, v))
	}
	if err := axmodel.WriteFile(path, h, []axmodel.SoftGroup{{Rows: 1, Cells: 2, Cache: 2}}, ts); err != nil {
		t.Fatal(err)
	}
	n, err := open(t, soft.Options{}).LoadNet(path)
	if err != nil {
		t.Fatal(err)
	}
	words := func(v ...float32) (b []byte) {
		for _, x := range v {
			b = binary.LittleEndian.AppendUint16(b, axcl.BFloat16(x))
		}
		return b
	}
	in := map[string][]byte{"input": words(0, 0), "indices": make([]byte, 4), "mask": words(0, -4, -65536), "K_cache": words(0, 0, 0, 0),
		"V_cache": words(1, 0, 0, 1)}
	out := map[string][]byte{"output": make([]byte, 4)}
	if err := n.Run(0, in, out); err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{1 / (1 + math.Exp(-4)), math.Exp(-4) / (1 + math.Exp(-4))} {
		if got := float64(axcl.Float32(binary.LittleEndian.Uint16(out["output"][2*i:]))); math.Abs(got-want) > want/200 {
			t.Errorf("value %d: %v, want %v", i, got, want)
		}
	}
	in["mask"] = words(0, -65536, -2) // the call's own row, whose value is zero, weighs e⁻²
	if err := n.Run(0, in, out); err != nil {
		t.Fatal(err)
	}
	if got, want := float64(axcl.Float32(binary.LittleEndian.Uint16(out["output"]))), 1/(1+math.Exp(-2)); math.Abs(got-want) > want/200 {
		t.Errorf("beside its own row at −2: %v, want %v", got, want)
	}
	in["mask"] = words(-65536, -65536, -65536) // a padding row sees nothing: nothing comes of it, and no NaN
	if err := n.Run(0, in, out); err != nil || !bytes.Equal(out["output"], words(0, 0)) {
		t.Errorf("a row that sees nothing: %x, %v", out["output"], err)
	}
}

func TestPassErrors(t *testing.T) {
	spec, c := compiled(t, "llama", compile.Options{})
	d := open(t, soft.Options{})
	m := load(t, d, spec)
	s := m.Shape()
	good := func() *axcl.Pass { return rows(s, c, []int{1, 2}, 0, nil, 0) }
	for name, change := range map[string]func(p *axcl.Pass){
		"hidden":        func(p *axcl.Pass) { p.Hidden = p.Hidden[1:] },
		"cell twice":    func(p *axcl.Pass) { p.Cell[1] = p.Cell[0] },
		"cell past end": func(p *axcl.Pass) { p.Cell[1] = uint32(s.Cells) },
		"sees itself":   func(p *axcl.Pass) { p.SeeRows[1] = 2 },
		"no room":       func(p *axcl.Pass) { p.Logits = nil },
	} {
		p := good()
		change(p)
		if err := m.Run(p); !errors.Is(err, axcl.ErrPass) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := m.Run(good()); err != nil {
		t.Errorf("after bad passes: %v", err)
	}
	spec.Timeout = time.Nanosecond
	slow := load(t, d, spec)
	if err := slow.Run(good()); !errors.Is(err, axcl.ErrTimeout) || !axcl.Fatal(err) {
		t.Errorf("time-out: %v", err)
	}
	if err := m.Run(good()); !errors.Is(err, axcl.ErrLost) {
		t.Errorf("after a time-out: %v", err)
	}
}

// A pass allocates nothing once buffers have grown.
func TestNoAllocations(t *testing.T) {
	spec, c := compiled(t, "qwen2", compile.Options{})
	m := load(t, open(t, soft.Options{Threads: 2}), spec)
	for _, tokens := range [][]int{{1}, {1, 2, 3, 4, 5, 6}} {
		p := rows(m.Shape(), c, tokens, 0, nil, 0)
		p.Timing = new(axcl.Timing)
		if n := testing.AllocsPerRun(20, func() {
			if err := m.Run(p); err != nil {
				t.Fatal(err)
			}
		}); n > 0 {
			t.Errorf("%d rows: %v allocations", len(tokens), n)
		}
		if p.Timing.Wait <= 0 || p.Timing.Head <= 0 {
			t.Errorf("timing %+v", *p.Timing)
		}
	}
}

// Weights of eight and of four bits stay near bf16's: the perplexity of what bf16 would say rises
// by no more than the bound, for random weights, whose logits lie close together.
// docs/performance.md has the figures.
func TestQuantised(t *testing.T) {
	lane.NoRace(t)
	for _, c := range []struct {
		quant  string
		group  int
		rises  float64
		cosine float64
	}{{"int8", 32, 1.0003, 0.9988}, {"int8", 128, 1.0003, 0.9988}, {"int4", 32, 1.06, 0.88}, {"int4", 128, 1.06, 0.87}} {
		for _, arch := range []string{"qwen3", "gemma3"} {
			of := func(o compile.Options) axmodeltest.Report {
				r, err := axmodeltest.Against(open(t, soft.Options{}), t.TempDir(), arch, 5, o)
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			want, got := of(compile.Options{}), of(compile.Options{Quant: c.quant, Group: c.group})
			rise := math.Exp(divergence(want.Logits, got.Logits))
			t.Logf("%s %s in groups of %d: perplexity times %.5f, %v", arch, c.quant, c.group, rise, got)
			if rise > c.rises || got.Cosine < c.cosine {
				t.Errorf("%s %s in groups of %d: perplexity times %.5f, at most %v was expected; %v", arch, c.quant, c.group, rise, c.rises,
					got)
			}
		}
	}
}

// divergence is the mean over rows of how much more the other logits take to say what these say, in
// nats.
func divergence(these, others [][]float32) float64 {
	sum := 0.0
	for r := range these {
		p, q := distribution(these[r]), distribution(others[r])
		for i := range p {
			sum += p[i] * (math.Log(p[i]) - math.Log(q[i]))
		}
	}
	return sum / float64(len(these))
}

func distribution(logits []float32) []float64 {
	out, top, total := make([]float64, len(logits)), float64(slices.Max(logits)), 0.0
	for i, v := range logits {
		out[i] = math.Exp(float64(v) - top)
		total += out[i]
	}
	for i := range out {
		out[i] = max(out[i]/total, 1e-300)
	}
	return out
}

// An embedding head gives the last layer's rows, normalised.
func TestEmbeddingHead(t *testing.T) {
	spec, c := compiled(t, "qwen3", compile.Options{Embedding: true})
	m := load(t, open(t, soft.Options{}), spec)
	s := m.Shape()
	if s.Out != s.Hidden || s.Argmax {
		t.Fatalf("shape %+v", s)
	}
	p := rows(s, c, []int{5, 6, 7}, 0, nil, 0)
	if err := m.Run(p); err != nil {
		t.Fatal(err)
	}
	norm := c.Weight("model.norm.weight")
	for r := range 3 {
		sum := 0.0
		for _, v := range p.HiddenOut[r*s.Hidden : (r+1)*s.Hidden] {
			sum += float64(axcl.Float32(v)) * float64(axcl.Float32(v))
		}
		for i, v := range p.HiddenOut[r*s.Hidden : (r+1)*s.Hidden] {
			want := float64(axcl.Float32(v)) / math.Sqrt(sum/float64(s.Hidden)+1e-6) * float64(norm[i])
			if got := float64(axcl.Float32(p.Logits[r*s.Out+i])); math.Abs(got-want) > math.Abs(want)/200+1e-6 {
				t.Fatalf("row %d, value %d: %v, want %v", r, i, got, want)
			}
		}
	}
}
