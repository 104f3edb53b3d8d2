package axcltest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft/kernel"
	"github.com/axle-llm/axle/axmodel"
)

// Figures say how far a check's results are from exact ones, which are computed in float64 and
// rounded nowhere: the length of the difference over the length of the exact row, for the row that
// is furthest off.
type Figures struct {
	Card float64 // what the card gave
	BF16 float64 // what the software card gives, which rounds to bf16 where a card's tensors do, and nowhere else
}

// Measurer is a TB that wants to know how far results are from exact ones. Other TBs are spared the
// computation.
type Measurer interface {
	TB
	Measure(f Figures)
	// Sample is told what the card gave for fixed rows of a vendor's model, whose weights cannot be
	// read: a later run can be held against this one.
	Sample(rows [][]uint16)
}

// measure tells a Measurer how far the card's and the software card's results of a script are from
// exact ones.
func measure(t TB, spec axcl.LoadSpec, s axcl.Shape, sc script, card, soft [][]result) {
	m, ok := t.(Measurer)
	if !ok {
		return
	}
	e, err := newExact(spec, s)
	if err != nil {
		t.Fatalf("exact results: %v", err)
	}
	var f Figures
	for i, rows := range sc.passes {
		for r, x := range rows {
			hidden, logits := e.row(rows, x)
			//rule:G13 TestExactFigures distance(card[i][r].hidden, hidden) => 0*distance(card[i][r].hidden, hidden)
			f.Card = max(f.Card, distance(card[i][r].hidden, hidden), distance(card[i][r].logits, logits))
			f.BF16 = max(f.BF16, distance(soft[i][r].hidden, hidden), distance(soft[i][r].logits, logits))
		}
	}
	m.Measure(f)
}

// sample tells a Measurer the first values of each row.
func sample(t TB, passes [][]result) {
	m, ok := t.(Measurer)
	if !ok {
		return
	}
	var rows [][]uint16
	for _, pass := range passes {
		for _, x := range pass {
			for _, v := range [][]uint16{x.hidden, x.logits} {
				if len(v) > 0 {
					rows = append(rows, v[:min(len(v), 64)])
				}
			}
		}
	}
	m.Sample(rows)
}

// Furthest is the largest distance, and that of rows that hold what is no number.
const Furthest = 1000.0

// Distance is the length of the difference of two bf16 vectors of the same length over that of
// want, at most Furthest.
func Distance(got, want []uint16) float64 { return distance(got, widened(want)) }

func distance(got []uint16, want []float64) float64 {
	var off, all float64
	for i, w := range want {
		d := float64(axcl.Float32(got[i])) - w
		off, all = off+d*d, all+w*w
	}
	if off == 0 {
		return 0
	}
	if d := math.Sqrt(off / all); d < Furthest {
		return d
	}
	return Furthest // NaN, too
}

// exact computes a small model row by row in float64, straight from its files, by the formulas in
// docs/axmodel-format.md.
type exact struct {
	shape  axcl.Shape
	layers []*exactFile
	head   *exactFile // nil: there is none
	source []int
	k, v   []map[uint32][]float64 // of each layer's cells
	past   [][][]float64          // of a layer that keeps a state: the last inputs of its convolution
	state  [][]float64            // and what its heads remember
}

// exactFile is a file's header and its tensors.
type exactFile struct {
	*axmodel.Soft
	tensors map[string][][]float64
}

func newExact(spec axcl.LoadSpec, s axcl.Shape) (*exact, error) {
	e := &exact{shape: s, source: spec.Source, past: make([][][]float64, s.Layers), state: make([][]float64, s.Layers)}
	for l, path := range spec.Layers {
		f, err := readExact(path)
		if err != nil {
			return nil, err
		}
		if e.layers = append(e.layers, f); spec.Source == nil {
			e.source = append(e.source, l)
		}
		e.k, e.v = append(e.k, map[uint32][]float64{}), append(e.v, map[uint32][]float64{})
	}
	if spec.Head == "" {
		return e, nil
	}
	var err error
	e.head, err = readExact(spec.Head)
	return e, err
}

func readExact(path string) (*exactFile, error) {
	meta, err1 := axmodel.ReadFile(path)
	b, err2 := os.ReadFile(path)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	f := &exactFile{meta.Soft, map[string][][]float64{}}
	for _, t := range meta.Soft.Tensors {
		w := kernel.Weights{Rows: t.Rows, Cols: t.Cols}
		halves := func(n int) (v []uint16) {
			for i := range n {
				v = append(v, binary.LittleEndian.Uint16(b[int(t.Offset)+2*i:]))
			}
			return v
		}
		switch t.Type {
		case axmodel.BF16:
			w.BF16 = halves(t.Rows * t.Cols)
		case axmodel.BF16Fours:
			w.Fours = halves(kernel.FourValues(t.Rows, t.Cols))
		case axmodel.F32:
			for i := range t.Rows * t.Cols {
				w.F32 = append(w.F32, math.Float32frombits(binary.LittleEndian.Uint32(b[int(t.Offset)+4*i:])))
			}
		default:
			return nil, fmt.Errorf("%s: %s is of type %v", path, t.Name, t.Type)
		}
		row := make([]float32, t.Cols)
		for r := range t.Rows {
			w.Row(row, r)
			wide := make([]float64, len(row))
			for i, v := range row {
				wide[i] = float64(v)
			}
			f.tensors[t.Name] = append(f.tensors[t.Name], wide)
		}
	}
	return f, nil
}

// vector is a tensor of one row; nil: there is none.
func (f *exactFile) vector(name string) []float64 {
	if t := f.tensors[name]; t != nil {
		return t[0]
	}
	return nil
}

func (f *exactFile) times(name string, x []float64) []float64 {
	var out []float64
	for _, row := range f.tensors[name] {
		sum := 0.0
		for i, w := range row {
			sum += w * x[i]
		}
		out = append(out, sum)
	}
	return out
}

// norm normalises x in place by a norm of the file; one without weights normalises only.
func (f *exactFile) norm(name string, x []float64) []float64 {
	one := 0.0
	if f.Flags&axmodel.FlagNormOne != 0 && (name != "norm" || f.Kind == axmodel.Head) {
		one = 1 // not in the norm of what a layer with a state recalls
	}
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	r := 1 / math.Sqrt(sum/float64(len(x))+float64(f.Eps))
	w := f.vector(name)
	for i := range x {
		if x[i] *= r; w != nil {
			x[i] *= w[i] + one
		}
	}
	return x
}

func (f *exactFile) active(x float64) float64 {
	if f.Activation == axmodel.GELU {
		return gelu(x)
	}
	return silu(x)
}

func silu(x float64) float64 { return x / (1 + math.Exp(-x)) }

func gelu(x float64) float64 {
	return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}

func addTo(x, y []float64) {
	for i, v := range y {
		x[i] += v
	}
}

// row computes one row of a pass whose earlier rows were computed, and keeps what later ones read
// of it.
func (e *exact) row(pass []row, r row) (hidden, logits []float64) {
	one := r
	one.cells, one.rows = slices.Clone(r.cells), nil
	for _, i := range r.rows {
		one.cells = append(one.cells, pass[i].cell)
	}
	p := build(e.shape, []row{one}, func(token uint64) []uint16 { return Rows(token, 1, e.shape.Hidden) })
	x := widened(p.Hidden)
	for l, f := range e.layers {
		if f.Kind == axmodel.Linear {
			e.recall(l, f, x, len(one.cells) == 0)
		} else {
			e.attend(l, f, x, p.Pos, one)
		}
		before := "post_norm"
		if f.Flags&axmodel.FlagGemma != 0 {
			before = "pre_mlp_norm"
		}
		mlp := f.norm(before, slices.Clone(x))
		gate, up := f.times("gate", mlp), f.times("up", mlp)
		for i := range gate {
			gate[i] = f.active(gate[i]) * up[i]
		}
		down := f.times("down", gate)
		if f.Flags&axmodel.FlagGemma != 0 {
			down = f.norm("post_mlp_norm", down)
		}
		addTo(x, down)
		if f.Flags&axmodel.FlagGemma4 != 0 {
			g := f.times("per_gate", x)
			for i, v := range widened(p.LayerInputs[l*e.shape.LayerInputs:][:e.shape.LayerInputs]) {
				g[i] = gelu(g[i]) * v
			}
			addTo(x, f.norm("per_norm", f.times("per_proj", g)))
			for i := range x {
				x[i] *= f.vector("scalar")[0]
			}
		}
	}
	if e.head == nil {
		return x, nil
	}
	y := e.head.times("weight", e.head.norm("norm", slices.Clone(x)))
	addTo(y, e.head.vector("bias"))
	return x, y
}

func widened(v []uint16) []float64 {
	out := make([]float64, len(v))
	for i, h := range v {
		out[i] = float64(axcl.Float32(h))
	}
	return out
}

// attend adds to x what a layer's attention to the row and what it sees gives.
func (e *exact) attend(l int, f *exactFile, x []float64, pos []uint32, r row) {
	a := f.norm("input_norm", slices.Clone(x))
	heads := func(name string) (out [][]float64) {
		y := f.times(name, a)
		addTo(y, f.vector(name+"_bias"))
		for h := range slices.Chunk(y, f.HeadDim) {
			if norm := name + "_norm"; f.vector(norm) != nil || name == "v" && f.Flags&axmodel.FlagGemma4 != 0 {
				f.norm(norm, h)
			}
			if name != "v" {
				f.turn(h, pos)
			}
			out = append(out, h)
		}
		return out
	}
	from := e.source[l]
	if from == l {
		e.k[l][r.cell], e.v[l][r.cell] = slices.Concat(heads("k")...), slices.Concat(heads("v")...)
	}
	seen := append(slices.Clone(r.cells), r.cell)
	var att []float64
	for h, q := range heads("q") {
		at := h / (f.Heads / f.KVHeads) * f.HeadDim
		score, total := make([]float64, len(seen)), 0.0
		for i, c := range seen {
			for d, v := range q {
				score[i] += v * e.k[from][c][at+d] * float64(f.Scale)
			}
		}
		top := slices.Max(score)
		for i, s := range score {
			score[i] = math.Exp(s - top)
			total += score[i]
		}
		out := make([]float64, f.HeadDim)
		for i, c := range seen {
			for d := range out {
				out[d] += score[i] / total * e.v[from][c][at+d]
			}
		}
		att = append(att, out...)
	}
	o := f.times("o", att)
	if f.Flags&axmodel.FlagGemma != 0 {
		o = f.norm("post_norm", o)
	}
	addTo(x, o)
}

// turn rotates a head by a row's position, or by the one of its three that each frequency takes.
func (f *exactFile) turn(x []float64, pos []uint32) {
	freq, axis := f.vector("inv_freq"), f.vector("rope_axis")
	for i, w := range freq {
		p := pos[0]
		if axis != nil {
			p = pos[int(axis[i])]
		}
		s, c := math.Sincos(float64(p) * w)
		a, b := x[i], x[i+len(freq)]
		x[i], x[i+len(freq)] = (a*c-b*s)*float64(f.Magnitude), (b*c+a*s)*float64(f.Magnitude)
	}
}

// recall adds to x what a layer that keeps a state recalls, and takes its state one row on, or
// begins one.
func (e *exact) recall(l int, f *exactFile, x []float64, first bool) {
	a := f.norm("input_norm", slices.Clone(x))
	dk, dv, keys := f.HeadDim, f.ValueDim, f.KVHeads*f.HeadDim
	if first {
		e.past[l], e.state[l] = nil, make([]float64, f.Heads*dk*dv)
		for range f.Conv - 1 {
			e.past[l] = append(e.past[l], make([]float64, f.Channels()))
		}
	}
	e.past[l] = append(e.past[l], f.times("qkv", a))
	c := make([]float64, f.Channels())
	for i, w := range f.tensors["conv"] {
		for j, v := range w {
			c[i] += v * e.past[l][j][i]
		}
		c[i] = silu(c[i])
	}
	e.past[l] = e.past[l][1:]
	for i := 0; i < keys; i += dk {
		unit(c[i:i+dk], 1/math.Sqrt(float64(dk)))
		unit(c[keys+i:keys+i+dk], 1)
	}
	z, write, fade := f.times("z", a), f.times("b", a), f.times("a", a)
	for h := range f.Heads {
		key := h / (f.Heads / f.KVHeads) * dk
		q, k, v := c[key:key+dk], c[keys+key:keys+key+dk], c[2*keys+h*dv:][:dv]
		keep := math.Exp(-math.Exp(f.vector("a_log")[h]) * math.Log1p(math.Exp(fade[h]+f.vector("dt_bias")[h])))
		beta, s, o := 1/(1+math.Exp(-write[h])), e.state[l][h*dk*dv:][:dk*dv], make([]float64, dv)
		for j := range dv {
			had := 0.0
			for i := range dk {
				s[i*dv+j] *= keep
				had += k[i] * s[i*dv+j]
			}
			for i := range dk {
				s[i*dv+j] += k[i] * beta * (v[j] - had)
				o[j] += q[i] * s[i*dv+j]
			}
		}
		for j, v := range f.norm("norm", o) {
			z[h*dv+j] = silu(z[h*dv+j]) * v
		}
	}
	addTo(x, f.times("o", z))
}

// unit gives x the length of scale.
func unit(x []float64, scale float64) {
	sum := 1e-6
	for _, v := range x {
		sum += v * v
	}
	for i := range x {
		x[i] *= scale / math.Sqrt(sum)
	}
}
