package axmodeltest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/compile"
)

// Report says how near a card came to the oracle.
type Report struct {
	Rows    int
	Cosine  float64 // the lowest of all rows
	Decided int     // rows whose two best logits lie further apart than bf16 can blur
	Wrong   int     // decided rows whose greedy token differs

	Tokens []int32     // every row's greedy token, as the card found it
	Logits [][]float32 // every row's logits, as the card gave them
}

// String leaves out tokens and logits.
func (r Report) String() string {
	return fmt.Sprintf("%d rows, lowest cosine %.7f, %d decided, %d of them wrong", r.Rows, r.Cosine, r.Decided, r.Wrong)
}

// Compare holds two cards' reports on the same checkpoint against each other: how many greedy
// tokens differ, and the lowest cosine.
func (r Report) Compare(o Report) (differ int, lowest float64) {
	lowest = 1
	for i := range r.Tokens {
		if r.Tokens[i] != o.Tokens[i] {
			differ++
		}
		y := make([]float64, len(o.Logits[i]))
		for j, v := range o.Logits[i] {
			y[j] = float64(v)
		}
		lowest = min(lowest, cosine(r.Logits[i], y))
	}
	return differ, lowest
}

// Against compiles a random checkpoint of the architecture in dir, runs it on the card, and holds
// every row's logits against the oracle's. The passes cross chunk and group borders, carry rows of
// three sequences together, share a prefix, and use cells out of order, so that masks skip cells.
// o's Context, Chunk and History are set by the test.
func Against(d axcl.Device, dir, arch string, seed uint64, o compile.Options) (Report, error) {
	a, ok := Find(arch)
	if !ok {
		return Report{}, fmt.Errorf("axmodeltest: no architecture %q", arch)
	}
	return AgainstArch(d, dir, a, seed, o)
}

// AgainstArch is Against for any architecture. Where layers keep a state, a pass carries rows of
// one sequence, and sequences take turns. A sliding window shorter than the text, 43 rows, needs a
// card that has local layers.
func AgainstArch(d axcl.Device, dir string, a Arch, seed uint64, o compile.Options) (Report, error) {
	var rep Report
	c, err := WriteCheckpoint(dir, a, seed)
	if err != nil {
		return rep, err
	}
	o.From, o.Out, o.Context, o.Chunk, o.History = dir, filepath.Join(dir, "package"), 95, 16, []int{0, 16, 64}
	o.Name = "m"
	r, err := compile.Run(context.Background(), o)
	if err != nil {
		return rep, err
	}
	layers, head := axmodel.Files(r.Dir, o.Name, o.Chunk, r.Layers)
	spec := axcl.LoadSpec{Layers: layers, Head: head}
	if o.Whole != "" {
		spec = axcl.LoadSpec{Layers: WholeFiles(r.Dir, o.Whole, o.Chunk)}
	}
	if a.Interval > 0 {
		spec.Slots = 4
	}
	for l := range a.Layers {
		if a.Window > 0 {
			spec.Local = append(spec.Local, a.Local(l))
		}
	}
	spec.Source = a.Sources()
	m, err := axcl.Load(context.Background(), d, spec)
	if err != nil {
		return rep, err
	}
	defer m.Close()
	w := &walk{c: c, m: m, shape: m.Shape(), rand: rand.New(rand.NewPCG(seed, 3))}
	if a.Interval > 0 {
		err = w.runStates()
	} else {
		err = w.run()
	}
	if err != nil {
		return rep, err
	}
	rep.judge(c, w.rows, w.logits, w.argmax)
	return rep, nil
}

// judge holds what a card gave for rows against the oracle.
func (rep *Report) judge(c *Checkpoint, rows []Row, logits [][]float32, argmax []int32) {
	rep.Cosine, rep.Tokens, rep.Logits = 1, argmax, logits
	for i, want := range c.Oracle(rows) {
		got := logits[i]
		rep.Rows++
		rep.Cosine = min(rep.Cosine, cosine(got, want))
		best, second := -1, -1
		for j, v := range want {
			switch {
			case best < 0 || v > want[best]:
				best, second = j, best
			case second < 0 || v > want[second]:
				second = j
			}
		}
		// bf16 keeps 8 bits: two steps apart at this size no rounding makes them equal, four leave
		// room for what the layers round.
		if want[best]-want[second] < 4*math.Abs(want[best])/128 {
			continue
		}
		rep.Decided++
		if argmax[i] != int32(best) {
			rep.Wrong++
		}
	}
}

func cosine(x []float32, y []float64) float64 {
	var xx, yy, xy float64
	for i := range x {
		xx, yy, xy = xx+float64(x[i])*float64(x[i]), yy+y[i]*y[i], xy+float64(x[i])*y[i]
	}
	return xy / math.Sqrt(xx*yy)
}

// walk feeds rows to a card and remembers what came out.
type walk struct {
	c      *Checkpoint
	m      axcl.Model
	shape  axcl.Shape
	rand   *rand.Rand
	rows   []Row
	cell   []uint32
	logits [][]float32
	argmax []int32

	from, to uint32 // slots, where layers keep a state
}

// cells gives cells out of order, but those that every prefill group sees first.
func (w *walk) cells() (cells []uint32) {
	low, mid, high := w.rand.Perm(16), w.rand.Perm(48), w.rand.Perm(31)
	for _, c := range low {
		cells = append(cells, uint32(c))
	}
	for _, c := range mid {
		cells = append(cells, uint32(16+c))
	}
	for _, c := range high {
		cells = append(cells, uint32(64+c))
	}
	return cells
}

func (w *walk) run() error {
	cells := w.cells()
	var a, b, c []int // the sequences' rows so far
	next := func(seqs ...*[]int) error {
		first := len(w.rows)
		for _, s := range seqs {
			w.rows = append(w.rows, Row{Token: w.rand.IntN(w.c.Vocab), Pos: len(*s), See: append([]int(nil), *s...)})
			*s = append(*s, len(w.rows)-1)
		}
		return w.pass(first, cells[first:len(w.rows)])
	}
	times := func(n int, s *[]int) []*[]int {
		var out []*[]int
		for range n {
			out = append(out, s)
		}
		return out
	}
	mix := func(parts ...[]*[]int) (out []*[]int) {
		for _, p := range parts {
			out = append(out, p...)
		}
		w.rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		return out
	}
	for _, n := range []int{16, 16, 8} {
		if err := next(times(n, &a)...); err != nil {
			return err
		}
	}
	b = append(b, a[:20]...)
	if err := next(mix(times(6, &b), times(5, &c), times(1, &a))...); err != nil {
		return err
	}
	if err := next(mix(times(3, &b), times(6, &c), times(1, &a))...); err != nil {
		return err
	}
	for range 3 {
		for _, s := range []*[]int{&a, &b, &c} {
			if err := next(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// pass runs the rows from first on together, and keeps them in cells.
func (w *walk) pass(first int, cells []uint32) error {
	s, n := w.shape, len(w.rows)-first
	cw, rw := axcl.Words(s.Cells), axcl.Words(n)
	p := &axcl.Pass{Hidden: make([]uint16, n*s.Hidden), Cell: cells, SeeCells: make([]uint64, n*cw), SeeRows: make([]uint64, n*rw),
		Logits: make([]uint16, n*s.Out), Argmax: make([]int32, n)}
	if s.State > 0 {
		p.From, p.To = w.from, w.to
	}
	if s.Local {
		p.LocalCells, p.LocalRows = make([]uint64, n*cw), make([]uint64, n*rw)
	}
	for i := range n {
		row := w.rows[first+i]
		w.c.Embed(p.Hidden[i*s.Hidden:(i+1)*s.Hidden], row.Token)
		if s.LayerInputs > 0 {
			for _, v := range w.c.LayerInputs(row.Token) {
				p.LayerInputs = append(p.LayerInputs, axcl.BFloat16(float32(v)))
			}
		}
		for k := range max(s.Pos, 1) {
			pos := row.Pos
			if row.At != nil {
				pos = row.At[k]
			}
			p.Pos = append(p.Pos, uint32(pos))
		}
		if row.Seen != nil {
			copy(p.Hidden[i*s.Hidden:], row.Seen.Given)
		}
		for _, e := range row.See {
			near := s.Local && w.rows[e].Pos > row.Pos-w.c.Window
			if e >= first {
				at, bit := i*rw+(e-first)/64, uint64(1)<<((e-first)%64)
				if p.SeeRows[at] |= bit; near {
					p.LocalRows[at] |= bit
				}
			} else {
				at, bit := i*cw+int(w.cell[e]/64), uint64(1)<<(w.cell[e]%64)
				if p.SeeCells[at] |= bit; near {
					p.LocalCells[at] |= bit
				}
			}
		}
		p.Want = append(p.Want, i)
	}
	for l := range s.Layers {
		for i := range n {
			if seen := w.rows[first+i].Seen; seen != nil && l < len(seen.Added) {
				p.Add, p.Added = append(p.Add, axcl.Addition{Layer: uint32(l), Row: uint32(i)}), append(p.Added, seen.Added[l]...)
			}
		}
	}
	if err := w.m.Run(p); err != nil {
		return fmt.Errorf("rows %d to %d: %w", first, len(w.rows), err)
	}
	w.cell = append(w.cell, cells...)
	w.argmax = append(w.argmax, p.Argmax...)
	for i := range n {
		row := make([]float32, s.Out)
		for j, v := range p.Logits[i*s.Out : (i+1)*s.Out] {
			row[j] = axcl.Float32(v)
		}
		w.logits = append(w.logits, row)
	}
	return nil
}

// Embed gives a token's embedding as a card is given it: bf16, scaled where the architecture
// scales.
func (c *Checkpoint) Embed(dst []uint16, token int) {
	scale := float32(1)
	if c.Type == "gemma3_text" || c.Gemma4 != nil {
		scale = float32(math.Sqrt(float64(c.Hidden)))
	}
	for i, v := range c.weights[c.prefix()+"embed_tokens.weight"][token*c.Hidden : (token+1)*c.Hidden] {
		dst[i] = axcl.BFloat16(v * scale)
	}
}
