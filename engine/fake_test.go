package engine

import (
	"context"
	"errors"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/cache"
	"github.com/axle-llm/axle/sampler"
)

// fake is a device whose model is a function of exactly what a row may depend on: its token, its
// position, and the set of (token, position) that it sees. Any row that sees too much, too little,
// or at the wrong place says something else. It can lie in each way a card may.
type fake struct {
	axcl.Device // nil: what the engine does not call must not be called
	shape       axcl.Shape

	positions, masks, shorts, ordered bool // lies: positions from the first row, its mask for all, short chunks unwritten, cells in order

	run     func(n int) error // before pass n, from 1; an error fails it
	after   func() error      // after the host's work in a pass, while the card keeps its rows; an error fails it
	damage  func(n int, p *axcl.Pass)
	passes  int
	closed  atomic.Int32
	shut    func(n int32) // in the n-th Close, from 1: as a model first, then as a device
	heat    func() float64
	free    int64
	content []uint64 // by cell: what it holds; 0 nothing
	tint    []uint64 // by cell: in which order what it was made of was added; see sums
	sums    sums
	states  []uint64 // by slot: a number that all rows which went into it made; see withStates
	// Lies about states: what begins anew goes on from what the slot had; padding counts; what
	// passes go on from changes too; wide passes begin anew; rows that are asked for one by one are
	// padded all the same.
	leaks, pads, spoils, cold, steps bool
	fills                            uint32 // the slot that the pass under way is to fill

	quick   bool   // every answer is 9, at no cost
	errs    uint64 // as a draft: every n-th answer is another; 0 none
	clear   func() error
	copy    func(in bool) error // after rows went from cells, or came into them
	cleared []int               // how many cells each Clear was for
}

const fakeVocab = 64

// sums says how the fake adds up what a row sees. Its last bits, and the choice at near ties, are a
// matter of the order.
type sums int

const (
	exactly sums = iota // in float64: the order does not matter
	inOrder             // in float32, in the cells' order
	inPlace             // in float32, and in blocks of cells: their numbers matter too
)

func newFake() *fake {
	f := &fake{shape: axcl.Shape{Layers: 1, Hidden: 16, KV: 16, Cells: 96, Out: fakeVocab, Pos: 1, Argmax: true, Place: true,
		Groups: []axcl.Group{{Rows: 1, Cells: 96}, {Rows: 8, Cells: 0}, {Rows: 8, Cells: 24}, {Rows: 8, Cells: 56}, {Rows: 8, Cells: 88}}}}
	f.shape.Piece = axcl.PieceCells(f.shape)
	f.content = make([]uint64, f.shape.Cells)
	return f
}

// withStates makes the model one that keeps a state as well, with this many slots.
func withStates(slots int) *fake {
	f := newFake()
	f.shape.Layers, f.shape.Linear, f.shape.State, f.shape.Slots = 2, 1, 8, slots
	f.states = make([]uint64, slots+1)
	return f
}

// state is the state before the first row of a pass; left puts that after the last where it
// belongs.
func (f *fake) state(p *axcl.Pass) uint64 {
	switch {
	case f.states == nil, f.cold && p.Rows() > 1 && !p.Single:
		return 0
	case p.From == 0 && f.leaks:
		return f.states[p.To]
	}
	return f.states[p.From]
}

func (f *fake) left(p *axcl.Pass, padding int, state uint64) {
	if f.states == nil {
		return
	}
	for range padding {
		if f.pads && (f.steps || !p.Single) {
			state = mix(state)
		}
	}
	if f.states[p.To] = state; f.spoils && p.From != 0 {
		f.states[p.From] = state
	}
}

func (f *fake) Info() (axcl.Info, error) {
	info := axcl.Info{Kind: "fake", Name: "fake", ID: "fake", TotalCMM: f.free, FreeCMM: f.free}
	if f.heat != nil {
		info.Temperature = f.heat()
	}
	return info, nil
}
func (f *fake) Close() error {
	if n := f.closed.Add(1); f.shut != nil {
		f.shut(n)
	}
	return nil
}
func (f *fake) Clear(cells []uint32) error {
	for _, c := range cells {
		f.content[c] = 0
	}
	if f.cleared = append(f.cleared, len(cells)); f.clear != nil {
		return f.clear()
	}
	return nil
}

// Save spells what a cell holds, a byte a value: of the fake's one layer K is what it keeps, V the
// order it was added in.
func (f *fake) Save(cells []uint32, to []byte) error {
	if err := f.shape.CheckRows(cells, len(to)); err != nil {
		return err
	}
	n := f.shape.RowBytes()
	clear(to)
	for i, c := range cells {
		for k := range 8 {
			to[i*n+2*k] = byte(f.content[c] >> (8 * k))
			if f.tint != nil {
				to[i*n+n/2+2*k] = byte(f.tint[c] >> (8 * k))
			}
		}
	}
	return f.moved(false)
}

func (f *fake) Restore(cells []uint32, from []byte) error {
	if err := f.shape.CheckRows(cells, len(from)); err != nil {
		return err
	}
	if f.tint == nil {
		f.tint = make([]uint64, len(f.content))
	}
	n := f.shape.RowBytes()
	for i, c := range cells {
		f.content[c], f.tint[c] = 0, 0
		for k := range 8 {
			f.content[c] |= uint64(from[i*n+2*k]) << (8 * k)
			f.tint[c] |= uint64(from[i*n+n/2+2*k]) << (8 * k)
		}
	}
	return f.moved(true)
}

// moved is what a call that moved rows gives.
func (f *fake) moved(in bool) error {
	if f.copy == nil {
		return nil
	}
	return f.copy(in)
}

func (f *fake) Copy(to, from []uint32) error {
	if err := f.shape.CheckCopy(to, from); err != nil {
		return err
	}
	for i, c := range to {
		if f.content[c] = f.content[from[i]]; f.tint != nil {
			f.tint[c] = f.tint[from[i]]
		}
	}
	return nil
}

func (f *fake) SaveState(slot uint32, at int, to []byte) error {
	clear(to)
	f.bytes(at, len(to), func(i, shift int) { to[i] = byte(f.states[slot] >> shift) })
	return errors.Join(f.shape.CheckState(slot, at, len(to)), f.moved(false))
}
func (f *fake) RestoreState(slot uint32, at int, from []byte) error {
	f.bytes(at, len(from), func(i, shift int) {
		f.states[slot] = f.states[slot]&^(0xff<<shift) | uint64(from[i])<<shift
	})
	return errors.Join(f.shape.CheckState(slot, at, len(from)), f.moved(true))
}

// bytes does something with each of the bytes from at on that have some of a state: the first four
// of a slot's have, and the last four.
func (f *fake) bytes(at, n int, do func(i, shift int)) {
	for k := range 8 {
		i := k - at
		if k >= 4 {
			i += f.shape.State - 8
		}
		if i >= 0 && i < n {
			do(i, 8*k)
		}
	}
}

func (f *fake) Shape() axcl.Shape                  { return f.shape }
func (f *fake) open() (axcl.Device, string, error) { return f, "test", nil }

// Row spells the token in the embedding's first values.
func (f *fake) Row(dst []uint16, id int32) error {
	clear(dst)
	for i := range 8 {
		dst[i] = 0x3f80 | uint16(id>>i&1)<<15
	}
	return nil
}

func mix(v uint64) uint64 {
	v ^= v >> 31
	v *= 0x9e3779b97f4a7c15
	v ^= v >> 29
	v *= 0xbf58476d1ce4e5b9
	return v ^ v>>32
}

func (f *fake) Run(p *axcl.Pass) error {
	if err := f.runs(p); err != nil || p.Meanwhile == nil {
		return err
	}
	p.Meanwhile()
	if f.after != nil {
		return f.after()
	}
	return nil
}

func (f *fake) runs(p *axcl.Pass) error {
	f.passes++
	if err := p.Check(f.shape); err != nil {
		return err
	}
	f.fills = p.To
	if f.run != nil {
		if err := f.run(f.passes); err != nil {
			return err
		}
	}
	n := p.Rows()
	if f.quick {
		for i := range p.Argmax {
			p.Argmax[i] = 9
		}
		for i := range p.Logits {
			p.Logits[i] = uint16(0x3f00 + i%64)
		}
		for i := range p.HiddenOut {
			p.HiddenOut[i] = uint16(0x3f00 + i%64)
		}
		return nil
	}
	cw, rw := axcl.Words(f.shape.Cells), axcl.Words(n)
	group := f.shape.Groups[f.shape.GroupFor(n, p.Reach(f.shape))]
	short := f.shorts && n < group.Rows
	if f.tint == nil {
		f.tint = make([]uint64, len(f.content))
	}
	own, out, order := make([]uint64, n), make([]uint64, n), make([]uint64, n)
	state := f.state(p)
	for r := range n {
		id := uint64(0)
		for i := range 8 {
			id |= uint64(p.Hidden[r*f.shape.Hidden+i]>>15) << i
		}
		pos := uint64(p.Pos[r])
		if f.positions {
			pos = uint64(p.Pos[0]) + uint64(r)
		}
		own[r] = id<<32 | pos<<1 | 1
		see, rows := p.SeeCells[r*cw:(r+1)*cw], p.SeeRows[r*rw:(r+1)*rw]
		var sum uint64
		if f.masks && n > 1 {
			see = p.SeeCells[:cw]
			for e := range r {
				sum += mix(own[e])
			}
		} else {
			for e := range r {
				if rows[e/64]>>(e%64)&1 == 1 {
					sum += mix(own[e])
				}
			}
		}
		count := 0
		for _, v := range see {
			count += bits.OnesCount64(v)
		}
		for c := range f.shape.Cells {
			if f.ordered && c < count || !f.ordered && see[c/64]>>(c%64)&1 == 1 {
				sum += mix(f.content[c])
			}
		}
		if f.states != nil {
			state = mix(3*state + own[r])
			sum += state
		}
		out[r] = mix(own[r] + sum)
		if f.sums != exactly {
			fold := func(v uint64) { order[r] = mix(order[r]*3 + v) }
			for c := range f.shape.Cells {
				if see[c/64]>>(c%64)&1 == 1 {
					fold(f.content[c] + f.tint[c])
					if f.sums == inPlace {
						fold(uint64(c))
					}
				}
			}
			for e := range r {
				if rows[e/64]>>(e%64)&1 == 1 {
					fold(own[e] + order[e])
					if f.sums == inPlace {
						fold(uint64(p.Cell[e]))
					}
				}
			}
		}
	}
	for r := range n {
		f.content[p.Cell[r]], f.tint[p.Cell[r]] = own[r], order[r]
		if short {
			f.content[p.Cell[r]], out[r] = 0, 0
		}
	}
	f.left(p, group.Rows-n, state)
	if p.HiddenOut != nil {
		for r := range n {
			rng := rand.New(rand.NewPCG(out[r], 1))
			for i := range f.shape.Hidden {
				p.HiddenOut[r*f.shape.Hidden+i] = axcl.BFloat16(float32(rng.NormFloat64())) ^ uint16(order[r]>>i&1)
			}
		}
	}
	for i, r := range p.Want {
		id := int32(own[r] >> 32)
		next := f.next(id, out[r])
		if out[r]%4 == 1 { // a near tie
			next = (next + int32(order[r]%7)) % fakeVocab
		}
		if f.errs > 0 && out[r]>>20%f.errs == 0 {
			next = (next + 1) % fakeVocab
		}
		if p.Argmax != nil {
			p.Argmax[i] = next
		}
		if p.Logits != nil {
			row := p.Logits[i*f.shape.Out:][:f.shape.Out]
			for j := range row {
				row[j] = axcl.BFloat16(float32(mix(out[r]+uint64(j))%1000) / 1000)
			}
			row[next] = axcl.BFloat16(3)
		}
	}
	if f.damage != nil {
		f.damage(f.passes, p)
	}
	return nil
}

// Head makes logits of a row's own bits: those of a pass depend on more than its hidden row says.
func (f *fake) Head(rows, logits []uint16) error {
	if err := f.shape.CheckHead(len(rows), len(logits)); err != nil {
		return err
	}
	for i := range len(rows) / f.shape.Hidden {
		var sum uint64
		for _, v := range rows[i*f.shape.Hidden:][:f.shape.Hidden] {
			sum = mix(3*sum + uint64(v))
		}
		for j := range f.shape.Out {
			logits[i*f.shape.Out+j] = axcl.BFloat16(float32(mix(sum+uint64(j))%1000) / 1000)
		}
	}
	return nil
}

// next is the token after id: for most tokens a matter of everything seen, for some of them of the
// token alone, so that texts come to repeat themselves.
func (f *fake) next(id int32, all uint64) int32 {
	if id >= 48 {
		return 48 + (id+5)%16
	}
	if all%4 == 0 {
		return 48 + int32(all>>8%16)
	}
	return 1 + int32(all>>16%47)
}

// onFake opens the engine on f.
func onFake(t testing.TB, f *fake, o OpenOptions) *cardBackend {
	t.Helper()
	card, err := OpenCard(f.open, o.CardOptions)
	if err != nil {
		t.Fatal(err)
	}
	b := &cardBackend{card: card, closer: card.Close, sampling: sampler.Defaults(),
		info: Info{Name: "fake", Context: f.shape.Cells, Vocab: fakeVocab, Hidden: f.shape.Hidden}}
	if err := card.Do(context.Background(), func(axcl.Device) error {
		b.m = newLM(card, f, f, nil, nil, o)
		if err := b.m.prover.measure(context.Background()); err != nil {
			return err
		}
		if o.Proven != nil {
			b.m.proven = *o.Proven
		} else if err := probe(b.m); err != nil {
			return err
		} else if err := compare(b.m); err != nil {
			return err
		}
		var err error
		if err = b.m.openDisk(mediumOf(o), "a digest", "fake"); err != nil {
			return err
		}
		if err := b.m.openRAM(o.CacheRAM); err != nil {
			return err
		}
		card.Attach(b.m, 1)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// hold keeps the worker from running passes until the returned function is called.
func hold(b *cardBackend) (release func()) {
	held, free, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = b.card.Do(context.Background(), func(axcl.Device) error { close(held); <-free; return nil })
	}()
	<-held
	return func() { close(free); <-done }
}

// clean fails the test when anything is left of the sequences that ran.
func clean(t *testing.T, b *cardBackend) {
	t.Helper()
	var running, queued, open, left int
	if err := b.card.Do(context.Background(), func(axcl.Device) error {
		b.m.reap()
		running, queued = len(b.m.running), b.m.queue.len()
		b.m.queue.update(func(*Stats) { open = len(b.m.queue.open) })
		b.m.cells.Forget()
		var err error
		left, err = cache.Check(b.m.cells, nil)
		_, used, _ := b.m.cache.Slots()
		left += used
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if running+queued+open+left != 0 {
		t.Errorf("left behind: %d running, %d queued, %d open, %d cells", running, queued, open, left)
	}
	if st := b.Stats(); st.Running != 0 || st.Queued != 0 {
		t.Errorf("Stats say %d running, %d queued", st.Running, st.Queued)
	}
}

// jobsFor makes conversations that share beginnings.
func jobsFor(seed uint64, n, vocab, longest int) []Job {
	rng := rand.New(rand.NewPCG(seed, 9))
	var jobs []Job
	for range n {
		var ids []int32
		if len(jobs) > 0 && rng.IntN(3) > 0 {
			from := jobs[rng.IntN(len(jobs))].IDs
			ids = append(ids, from[:1+rng.IntN(len(from))]...)
		}
		for range 1 + rng.IntN(12) {
			ids = append(ids, int32(rng.IntN(vocab)))
		}
		jobs = append(jobs, greedy(ids[:min(len(ids), longest)], 1+rng.IntN(30)))
	}
	return jobs
}

// probe finds out what the scheduler may count on, and compare whether bits are the same elsewhere.
func probe(m *lm) (err error) {
	m.proven, err = m.trials().Abilities(context.Background())
	return err
}

func compare(m *lm) (err error) {
	m.prover.alike, err = m.trials().Alike(context.Background(), m.proven)
	return err
}
