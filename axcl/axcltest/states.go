package axcltest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
)

// stateModels are models with recurrent layers: of each type, with as many shape groups as
// the other layers and with fewer, which leaves rows that go on from a state no group of their own.
func stateModels() []named {
	d := DefaultStates()
	half := d
	half.State, half.HeadFlags = axmodel.StateFP16, axmodel.FlagF32
	half.Flags |= axmodel.FlagSuffix
	half.Linear = []axmodel.SoftGroup{{Rows: 1}, {Rows: 16}, {Rows: 16}}
	brain := d
	brain.State, brain.ValueHeads, brain.Interval, brain.Layers = axmodel.StateBF16, 2, 3, 5
	brain.Linear = []axmodel.SoftGroup{{Rows: 1}, {Rows: 16}}
	warm := d
	warm.Seed, warm.Groups = 5, []axmodel.SoftGroup{{Rows: 1, Cells: 40, Cache: 40}, {Rows: 1, Cells: 96, Cache: 96},
		{Rows: 16, Cells: 32, Cache: 32}, {Rows: 16, Cells: 80, Cache: 80}}
	return []named{{"fp32 states", d}, {"fp16 states, fewer groups", half}, {"bf16 states, one cold group", brain},
		{"no cold group", warm}}
}

// alike is the cosine above which rows of the model are the same.
func (y Tiny) alike() float64 {
	if y.Interval > 0 && y.State == axmodel.StateBF16 {
		return alikeBF16
	}
	if y.LayerInputs > 0 {
		return alikeShared
	}
	return Same
}

// text is a sequence that a test plays on a model and, row by row, on the software card.
type text struct {
	t        TB
	m        axcl.Model
	embed    func(token uint64) []uint16
	first    uint64 // its first token
	cell     func(i int) uint32
	n        int // tokens so far
	from, to uint32
	single   bool
}

// next plays n tokens in one pass, from slot from to slot to, and gives what the last of them gave.
func (x *text) next(n int) result {
	x.t.Helper()
	s := x.m.Shape()
	p := build(s, prompt(x.first, x.n, n, n, x.cell)[0], x.embed)
	if p.To = x.to; x.n > 0 {
		p.From = x.from
	}
	p.Single = x.single
	if err := x.m.Run(p); err != nil {
		x.t.Fatalf("token %d: %v", x.n, err)
	}
	x.n += n
	r := result{hidden: p.HiddenOut[(n-1)*s.Hidden:]}
	if s.Out > 0 {
		r.logits, r.argmax = p.Logits[(n-1)*s.Out:], p.Argmax[n-1]
	}
	return r
}

// checkStates: a state goes where it is sent and nowhere else, and a slot that is not written stays
// what it was.
func checkStates(t TB, d axcl.Device, y Tiny) {
	spec := write(t, y)
	spec.Slots = 4
	m := load(t, d, spec)
	if m.Shape().Slots != 4 {
		t.Errorf("%d slots, 4 were asked for", m.Shape().Slots)
	}
	ref, stop := reference(t, spec)
	defer stop()
	embed := func(token uint64) []uint16 { return Rows(token, 1, m.Shape().Hidden) }
	// want is the last row of first's first n tokens, as the software card gives it row by row.
	want := func(first uint64, n int) result {
		x := text{t: t, m: ref, embed: embed, first: first, cell: func(i int) uint32 { return uint32(i) }, from: 1, to: 1}
		for range n - 1 {
			x.next(1)
		}
		return x.next(1)
	}
	same := func(what string, got result, first uint64, n int) {
		t.Helper()
		if diff := differBy([][]result{{got}}, [][]result{{want(first, n)}}, y.alike()); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	begin := func(first uint64, at uint32, to uint32) *text {
		return &text{t: t, m: m, embed: embed, first: first, cell: func(i int) uint32 { return at + uint32(i) }, to: to}
	}
	checkTurns(begin, same)
	checkSnapshots(t, m, begin, same)
	checkStateSaved(t, m, begin, same)
	checkBadStates(t, m, begin)
	if err := m.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	b := make([]byte, 1)
	for what, err := range map[string]error{"save": m.SaveState(1, 0, b), "restore": m.RestoreState(1, 0, b)} {
		if !errors.Is(err, axcl.ErrClosed) {
			t.Errorf("%s of a state after close: %v", what, err)
		}
	}
}

// checkTurns: two sequences turn about, one in place and one between two slots, in passes of one
// row, of a few and of a whole chunk; rows of several pieces are what they are one by one, through
// the group that decodes too.
func checkTurns(begin func(first uint64, at, to uint32) *text, same func(what string, got result, first uint64, n int)) {
	for _, single := range []bool{false, true} {
		a, b := begin(7000, 0, 1), begin(7500, 48, 2)
		a.from, b.from, a.single, b.single = 1, 2, single, single
		wide := min(a.m.Shape().MaxRows(), 16)
		for i, n := range []int{5, 1, wide, 2, 1, 1, 3} {
			what := fmt.Sprintf("turn %d, singly %t", i, single)
			if a.n+n < 40 {
				same(what+", in place", a.next(n), 7000, a.n)
			}
			if k := []int{1, wide, 1, 4, 1, 1, 6}[i]; b.n+k < 40 {
				b.to = 5 - b.from // 2 and 3
				same(what+", from one slot to another", b.next(k), 7500, b.n)
				b.from = b.to
			}
		}
	}
}

// checkSnapshots: a slot that is kept can be gone on from again and again, whatever happened
// meanwhile; a new sequence in a used slot begins with the zero state.
func checkSnapshots(t TB, m axcl.Model, begin func(first uint64, at, to uint32) *text,
	same func(what string, got result, first uint64, n int)) {
	a := begin(7100, 0, 1)
	a.next(9)
	kept := *a
	for i, n := range []int{1, 6, 2} {
		b := kept
		b.from, b.to = 1, uint32(2+i%2)
		same(fmt.Sprintf("going on from a kept state, %d times", i+1), b.next(n), 7100, b.n)
		b.from, b.to = b.to, 4
		same("and further", b.next(1), 7100, b.n)
		c := begin(7200, 60, 4) // in a slot that was used
		same("a new sequence in a used slot", c.next(3), 7200, c.n)
	}
	b := kept
	b.from, b.to = 1, 1
	same("going on from a kept state, in place", b.next(4), 7100, b.n)
}

// checkStateSaved: a state that was saved in pieces, and restored to another slot in others, is
// gone on from as if nothing had happened; slots hold what was put there whatever it was.
func checkStateSaved(t TB, m axcl.Model, begin func(first uint64, at, to uint32) *text,
	same func(what string, got result, first uint64, n int)) {
	s := m.Shape()
	a := begin(7300, 0, 1)
	a.next(7)
	kept := make([]byte, s.State)
	move := func(slot uint32, b []byte, step int, call func(uint32, int, []byte) error) {
		t.Helper()
		step = min(step, s.StatePiece())
		for at := 0; at < len(b); at += step {
			if err := call(slot, at, b[at:min(at+step, len(b))]); err != nil {
				t.Fatalf("slot %d, byte %d: %v", slot, at, err)
			}
		}
	}
	move(1, kept, 1000, m.SaveState)
	other := begin(7400, 40, 1)
	other.next(5)
	move(4, kept, 777, m.RestoreState)
	a.from, a.to = 4, 2
	same("going on from a state that was saved and restored", a.next(1), 7300, a.n)

	rng := rand.New(rand.NewPCG(3, uint64(s.State)))
	held := make([][]byte, s.Slots+1)
	for slot := 1; slot <= s.Slots; slot++ {
		held[slot] = make([]byte, s.State)
		for i := range held[slot] {
			held[slot][i] = byte(rng.Uint32())
		}
		move(uint32(slot), held[slot], s.State, m.RestoreState)
	}
	for range 12 {
		slot, at := 1+rng.IntN(s.Slots), rng.IntN(s.State)
		part := held[slot][at:min(at+50, s.State)]
		for i := range part {
			part[i] = byte(rng.Uint32())
		}
		if err := m.RestoreState(uint32(slot), at, part); err != nil {
			t.Fatalf("restore: %v", err)
		}
	}
	for slot := 1; slot <= s.Slots; slot++ {
		got := make([]byte, s.State)
		if move(uint32(slot), got, 501, m.SaveState); !bytes.Equal(got, held[slot]) {
			t.Errorf("slot %d holds what no pass put there", slot)
		}
	}
}

// checkBadStates: what is not allowed is refused, and changes no slot.
func checkBadStates(t TB, m axcl.Model, begin func(first uint64, at, to uint32) *text) {
	s := m.Shape()
	a := begin(7600, 0, 1)
	a.next(2)
	before, after := make([]byte, min(s.State, 4096)), make([]byte, min(s.State, 4096))
	if err := m.SaveState(1, 0, before); err != nil {
		t.Fatalf("save: %v", err)
	}
	b := make([]byte, 8)
	far := uint32(s.Slots + 1)
	for i, err := range []error{m.SaveState(0, 0, b), m.SaveState(far, 0, b), m.SaveState(1, s.State-7, b), m.SaveState(1, -1, b),
		m.RestoreState(0, 0, b), m.RestoreState(far, 0, b), m.RestoreState(1, s.State-7, b), m.RestoreState(1, -1, b)} {
		if !errors.Is(err, axcl.ErrPass) {
			t.Errorf("bad call %d: %v", i, err)
		}
	}
	for i, spoil := range []func(p *axcl.Pass){
		func(p *axcl.Pass) { p.To = 0 }, func(p *axcl.Pass) { p.To = far }, func(p *axcl.Pass) { p.From = far },
		func(p *axcl.Pass) { p.From = 0 }, func(p *axcl.Pass) { clear(p.SeeCells) },
	} {
		p := build(s, prompt(7600, 2, 1, 1, func(i int) uint32 { return uint32(i) })[0], a.embed)
		p.From, p.To = 1, 1
		spoil(p)
		if err := m.Run(p); !errors.Is(err, axcl.ErrPass) {
			t.Errorf("bad pass %d: %v", i, err)
		}
	}
	if err := m.SaveState(1, 0, after); err != nil || !bytes.Equal(before, after) {
		t.Errorf("a call that was refused changed a slot (%v)", err)
	}
}
