package prove

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"

	"github.com/axle-llm/axle/axcl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestAbilities: a card that does all has all abilities, and each lie costs those that rest on it,
// and no others.
func TestAbilities(t *testing.T) {
	all := Proven{Chunk: true, Mixed: true, Scatter: true}
	for _, c := range []struct {
		name  string
		slots int
		lie   func(c *toy)
		want  Proven
		wide  bool
	}{
		{"none", 0, func(*toy) {}, all, true},
		{"positions", 0, func(c *toy) { c.positions = true }, Proven{Chunk: true, Scatter: true}, true},
		{"masks", 0, func(c *toy) { c.masks = true }, Proven{Chunk: true, Scatter: true}, true},
		{"ordered", 0, func(c *toy) { c.ordered = true }, Proven{Chunk: true}, true},
		{"short", 0, func(c *toy) { c.short = true }, Proven{Scatter: true}, true},
		{"late", 0, func(c *toy) { c.late = true }, all, false},
		{"few cells", 0, func(c *toy) {
			c.shape.Cells = 20
			c.kept = c.kept[:20]
			c.shape.Groups[0].Cells = 20
			c.shape.Groups[2].Cells = 16
		},
			Proven{}, true},
		{"no wide groups", 0, func(c *toy) { c.shape.Groups = c.shape.Groups[:1] }, Proven{Scatter: true}, true},
		{"states", 3, func(*toy) {}, Proven{Chunk: true, Scatter: true, Kept: true}, true},
		{"states, padding", 3, func(c *toy) { c.pads = true }, Proven{Chunk: true, Scatter: true, Kept: true, Stepped: true}, true},
		{"one slot", 1, func(*toy) {}, Proven{}, false},
	} {
		card := newToy(c.slots)
		c.lie(card)
		m := card.model()
		got, err := m.Abilities(context.Background())
		if err != nil || got != c.want {
			t.Errorf("%s: %+v %v, want %+v", c.name, got, err, c.want)
		}
		m.Stepped = got.Stepped
		if sound, err := m.Wide(context.Background(), 8); err != nil || sound != c.wide {
			t.Errorf("%s: wide passes are sound: %v %v, want %v", c.name, sound, err, c.wide)
		}
	}
	card := newToy(3)
	card.leaks = true
	if _, err := card.model().Abilities(context.Background()); !errors.Is(err, ErrWrong) {
		t.Errorf("a text that goes on from another's state: %v", err)
	}
}

// TestProbesEnd: a pass that fails ends the probes with its error wherever it is, and so does a
// context that has ended.
func TestProbesEnd(t *testing.T) {
	for _, slots := range []int{0, 3} {
		whole := newToy(slots)
		ask := func(ctx context.Context, card *toy) error {
			m := card.model()
			found, err := m.Abilities(ctx)
			if err == nil {
				_, err = m.Wide(ctx, 8)
			}
			if err == nil {
				_, err = m.Alike(ctx, found)
			}
			return err
		}
		if err := ask(context.Background(), whole); err != nil {
			t.Fatal(err)
		}
		for fail := 1; fail <= whole.passes; fail++ {
			card := newToy(slots)
			card.fail = fail
			if err := ask(context.Background(), card); !errors.Is(err, axcl.ErrTimeout) || card.passes != fail {
				t.Errorf("pass %d of %d fails: %v after %d", fail, whole.passes, err, card.passes)
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if card := newToy(slots); !errors.Is(ask(ctx, card), context.Canceled) || card.passes != 0 {
			t.Errorf("a context that has ended: %d passes", card.passes)
		}
	}
}

// TestWithin: what is the same is near the right value and much nearer to it than to a wrong one
// that can be told from it.
func TestWithin(t *testing.T) {
	vector := func(v ...float32) (b []uint16) {
		for _, x := range v {
			b = append(b, axcl.BFloat16(x))
		}
		return b
	}
	right, odd := vector(1, 0), []uint16{0x7fc0, 0} // no number
	for _, c := range []struct {
		got   []uint16
		wrong [][]uint16
		want  bool
	}{
		{right, nil, true},
		{vector(1, 0.09), nil, true},
		{vector(1, 0.12), nil, false},
		{vector(1, 0.09), [][]uint16{vector(1, 0.125)}, false},
		{vector(1, 0.09), [][]uint16{right}, true}, // which cannot be told from it
		{odd, nil, false},
	} {
		if got := Same(right, c.got, c.wrong...); got != c.want {
			t.Errorf("%v beside %v: %v", c.got, c.wrong, got)
		}
	}
	if !Within(0.1, 0.1, right, vector(1, 0.09), vector(1, 0.125)) {
		t.Error("a wrong value brings the limit below the least")
	}
}

// TestNamesOfCalls: of the results that a table's claims speak of, each is made by one call of the
// tables before, and no two calls' results that are spoken of have one name.
func TestNamesOfCalls(t *testing.T) {
	rows, states := newToy(0).model(), newToy(3).model()
	states.Shape.Groups = append(states.Shape.Groups, axcl.Group{Rows: 16}, axcl.Group{Rows: 16, Cells: 16}, axcl.Group{Rows: 4, Cells: 8})
	for name, tables := range map[string][]probe{
		"rows":   {rows.alone(), rows.scattered(), rows.chunked(), rows.mixed(), rows.mixedInCells()},
		"states": {states.statesAlone(), states.anew(), states.kept(), states.statesScattered(), states.statesChunked()},
		"wide":   {rows.wideChunks(8)},
	} {
		made := map[string]int{}
		for i, p := range tables {
			for _, c := range p.calls {
				for r := range c.rows {
					if c.name != nil {
						made[c.name(r)]++
					}
				}
			}
			for _, c := range p.claims {
				for _, n := range append([]string{c.right, c.got}, c.wrong...) {
					if made[n] == 0 || made[n] > 1 && n != "scattered" {
						t.Errorf("%s, table %d: %q is made %d times", name, i, n, made[n])
					}
				}
			}
		}
	}
}

func ExampleModel_Abilities() {
	card := newToy(0)
	found, err := card.model().Abilities(context.Background())
	fmt.Println(found.Chunk, found.Mixed, found.Scatter, err)
	// Output: true true true <nil>
}

// toy is a card that adds up what a row sees, by hashes, and may lie about it.
type toy struct {
	shape  axcl.Shape
	kept   []uint64 // of each cell
	states []uint64 // of each slot; nil: it keeps none
	passes int
	fail   int // the pass that fails; 0: none

	positions, masks, ordered, short, leaks, pads bool
	late                                          bool // a wide pass leaves in its cells what the one before left
	before                                        []uint64
}

func newToy(slots int) *toy {
	t := &toy{shape: axcl.Shape{Layers: 1, Hidden: 8, Out: 64, Cells: 32, Pos: 1, Slots: slots,
		Groups: []axcl.Group{{Rows: 1, Cells: 32}, {Rows: 8}, {Rows: 8, Cells: 24}}}, kept: make([]uint64, 32)}
	if slots > 0 {
		t.states = make([]uint64, slots+1)
	}
	return t
}

func (t *toy) model() *Model {
	return &Model{Shape: t.shape, Vocab: 64, Run: t.run, Slots: t.shape.Slots,
		Row: func(p *axcl.Pass, r int, id int32) error { p.Hidden[r*t.shape.Hidden] = uint16(id); return nil }}
}

func mix(v uint64) uint64 {
	v = (v ^ v>>31) * 0x9e3779b97f4a7c15
	v = (v ^ v>>29) * 0xbf58476d1ce4e5b9
	return v ^ v>>32
}

func (t *toy) run(p *axcl.Pass) error {
	if t.passes++; t.passes == t.fail {
		return axcl.ErrTimeout
	}
	if err := p.Check(t.shape); err != nil {
		return err
	}
	n := p.Rows()
	cw, rw := axcl.Words(t.shape.Cells), axcl.Words(n)
	own, out := make([]uint64, n), make([]uint64, n)
	var state uint64
	if t.states != nil && (p.From != 0 || t.leaks) {
		state = t.states[max(p.From, 1)]
	}
	for r := range n {
		pos := uint64(p.Pos[r])
		if t.positions {
			pos = uint64(p.Pos[0]) + uint64(r)
		}
		own[r] = mix(uint64(p.Hidden[r*t.shape.Hidden])<<32 | pos<<1 | 1)
		see, sum := p.SeeCells[r*cw:][:cw], own[r]
		seen := 0
		for _, v := range see {
			seen += bits.OnesCount64(v)
		}
		for c, v := range t.kept {
			if t.ordered && c < seen || !t.ordered && see[c/64]>>(c%64)&1 == 1 {
				sum += mix(v)
			}
		}
		for e := range r {
			if t.masks || p.SeeRows[r*rw+e/64]>>(e%64)&1 == 1 {
				sum += mix(own[e])
			}
		}
		if t.states != nil {
			state = mix(3*state + own[r])
			sum += state
		}
		out[r] = mix(sum)
	}
	for r, c := range p.Cell {
		t.kept[c] = own[r]
		if t.short && n > 1 && n < 8 {
			t.kept[c], out[r] = 0, 0
		}
		if t.late && n == 8 && t.before != nil {
			t.kept[c] = t.before[r]
		}
	}
	if n == 8 {
		t.before = own
	}
	if t.states != nil {
		if t.pads && n > 1 && n < 8 && !p.Single {
			state = mix(state)
		}
		t.states[p.To] = state
	}
	for r := range n {
		rng := rand.New(rand.NewPCG(out[r], 1))
		for i := range t.shape.Hidden {
			p.HiddenOut[r*t.shape.Hidden+i] = axcl.BFloat16(float32(rng.NormFloat64()))
		}
	}
	return nil
}
