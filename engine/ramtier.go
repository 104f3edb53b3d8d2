package engine

import (
	"slices"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/cache"
)

// Memory is how much of this machine's memory may keep rows that had to leave a card: one limit for
// all models that are given it ([OpenOptions].CacheRAM), to the byte. Whatever of theirs was used
// longest ago goes first, whichever model's it is; so an idle model makes room for a busy one.
// Nothing is kept of a model that was unloaded. A nil Memory keeps nothing.
type Memory = cache.Memory

// NewMemory is a Memory of this many bytes; nil for none.
func NewMemory(limit int64) *Memory { return cache.NewMemory(limit) }

// RowsIn is how many rows of this many bytes fit in so much of this machine's memory, of a model
// alone there, where piece of them are to be copied at once; and how many then are.
func RowsIn(limit int64, bytes, piece int) (rows, copied int) {
	return cache.RowsIn(limit, bytes, piece)
}

// ramTier is the RAM tier of a model (cache.RAM), and what went there and came back.
//
// Rows are copied in pieces of at most Shape.Piece rows, one between two passes: who waits for a
// pass waits for one piece more. They are copied when the card has nothing else to do, and while
// answers are written when cells are about to run out; what an answer has begun to need is never
// kept waiting for it. What a row is worth is a matter of the cost table: see restorable
// and worthSaving.
type ramTier struct {
	*core
	layout *layout
	*cache.RAM
	hits     struct{ rows, bytes uint64 } // brought back
	outBytes uint64
	saved    float64 // seconds that evaluating what came back would have taken longer
}

// openRAMTier measures what moving rows costs, opens a tier in memory, and measures what its rows
// cost. Where rows cannot be copied, or a sequence's cells must be in order, it gives nil: there is
// none. It must run before anything is on the card.
func openRAMTier(c *core, l *layout, memory *Memory) (*ramTier, error) {
	if err := l.priceMoves(); err != nil {
		return nil, err
	}
	if memory == nil || c.shape.RowBytes() <= 0 || c.shape.Piece <= 0 || !c.restores() {
		return nil, nil
	}
	ram := memory.Open(c.shape.RowBytes(), c.shape.Piece, c.cells)
	if ram == nil {
		return nil, nil
	}
	t := &ramTier{core: c, layout: l, RAM: ram}
	err := t.priceRows()
	if err == nil {
		err = t.priceStates()
	}
	if err != nil {
		t.close()
		return nil, err
	}
	c.ram = ram
	t.publish(0)
	return t, nil
}

// priceRows measures both ways with one row and with a piece, on unused cells.
func (t *ramTier) priceRows() error {
	cells := make([]uint32, t.Piece())
	for i := range cells {
		cells[i] = uint32(i)
	}
	var err error
	if t.Out, err = t.priced(len(cells), func(n int) error { return t.model.Save(cells[:n], t.Buffer(n)) }); err != nil {
		return err
	}
	t.In, err = t.priced(len(cells), func(n int) error { return t.model.Restore(cells[:n], t.Buffer(n)) })
	return err
}

// close gives the tier's memory back.
func (t *ramTier) close() {
	if t != nil {
		t.Off = true
		t.RAM.Close()
	}
}

// restorable decides how far the text of s is to be brought back beyond what it stands on: 0 where
// nothing is there, or evaluating is cheaper.
func (t *ramTier) restorable(s *seq) int {
	if t == nil || t.Off || s.whole() || s.repeatable {
		return 0
	}
	if t.limits.Stops {
		return t.restorableState(s)
	}
	more := t.Beyond(&s.Seq, s.ids, s.pending()-1)
	if more == 0 {
		return 0
	}
	// All of it, or so much that the rest goes in wide passes: what they see ends somewhere, and
	// they begin at the end of what is there.
	best, to := t.redo(len(s.Path), len(s.ids)), 0
	for _, n := range []int{more, min(more, t.wideReach-len(s.Path)), more - more%max(t.wide, 1)} {
		if n > 0 && t.proven.Chunk || n == more {
			if cost := t.In.Cost(n, t.Piece()) + t.redo(len(s.Path)+n, len(s.ids)); cost < best {
				best, to = cost, len(s.Path)+n
			}
		}
	}
	return to
}

// restore brings one piece back of a sequence that wants more than it stands on, and reports
// whether there was one.
func (t *ramTier) restore() (bool, error) {
	if t == nil {
		return false, nil
	}
	for _, s := range t.running {
		if s.box.full() {
			continue
		}
		switch {
		case !t.cache.Waits(&s.Seq):
			s.RestoreTo = 0
		case t.limits.Stops:
			return true, t.restoreState(s)
		default:
			err := t.restorePiece(s)
			s.relocating = t.moves() // first it is seen whether the cells for the rest of it lie well
			return true, err
		}
	}
	return false, nil
}

// restorePiece brings the next piece of s back. What cannot be had is evaluated. The error is one
// that the card does not survive.
func (t *ramTier) restorePiece(s *seq) error {
	from := t.Next(&s.Seq, s.ids)
	defer t.Release(from)
	if len(from) == 0 || len(from)+16 > t.cells.Available() {
		s.RestoreTo = 0
		return nil
	}
	n := len(from)
	if t.wide > 0 && s.Reach() <= t.wideReach && len(s.Path)+n <= t.wideReach {
		t.cells.Places().EvictBelow(n, t.wideReach, func(int, int) bool { return true })
	}
	taken, ok := t.cells.Take(nil, n, s.Reach(), true)
	if !ok {
		s.RestoreTo = 0
		return nil
	}
	slices.Sort(taken)
	cells := unsigned(taken)
	n = t.In.MostOf(cells, t.Piece())
	t.cells.Give(taken[n:]...)
	from, taken, cells = from[:n], taken[:n], cells[:n]
	rows := t.Load(from)
	took, ok, err := t.mover.Carry(cells, func() error { return t.model.Restore(cells, rows) })
	if !ok {
		s.RestoreTo, t.Off = 0, true
		t.cells.Give(taken...)
		return err
	}
	before := t.redo(len(s.Path), len(s.ids))
	t.In.Observe(n, axcl.Runs(cells), took.Seconds())
	for _, c := range taken {
		t.cells.Commit(&s.Seq, c, s.ids[len(s.Path)])
	}
	t.Link(taken, from)
	s.high = max(s.high, len(s.Path))
	if s.usage.Output == 0 {
		s.usage.Cached += n
	}
	t.hits.rows += uint64(n)
	t.hits.bytes += uint64(len(rows))
	t.saved += before - t.redo(len(s.Path), len(s.ids)) - took.Seconds()
	t.publish(took)
	return nil
}

// worthSaving reports whether copying a piece of n rows in this many runs is worth it, of a text
// of which rows [from, to) are not in memory: it may be asked for or not, and then comes back, or
// is evaluated.
func (t *ramTier) worthSaving(n, runs, from, to int) bool {
	const chance = 0.5
	again := (t.redo(0, to) - t.redo(0, from)) * float64(n) / float64(to-from)
	return chance*(again-t.In.Cost(n, t.Piece())) > float64(runs)*t.Out.Run+float64(n)*t.Out.Row
}

// save copies one piece of what is on the card only, of the text that has to leave it next, and
// reports whether there was one. Where the card has something to do it is done only when cells are
// about to run out, and no prompt waits. The error is one that the card does not survive.
func (t *ramTier) save(busy bool) (bool, error) {
	if t == nil || t.Off || busy && t.cache.Ample(t.wideReach) {
		return false, nil
	}
	if busy {
		//rule:G16 TestNeverWorse$ false
		if t.ledger.lost > tithe*t.ledger.done {
			return false, nil // memory that is too small for all that comes by would be filled over and over
		}
		for _, s := range t.running {
			if !s.box.full() && s.pending() > 1 {
				return false, nil
			}
		}
	}
	if t.limits.Stops {
		return t.saveState()
	}
	rows, ok, again := t.Choose(t.worthSaving)
	if !ok {
		return again, nil
	}
	t0 := t.card.Now()
	defer func() { t.ledger.lost += (t.card.Now() - t0).Seconds() }()
	return t.saveRows(rows)
}

// saveRows copies the rows of a piece to memory.
func (t *ramTier) saveRows(p cache.Piece) (bool, error) {
	n := len(p.Cells)
	buf := t.Buffer(n)
	took, ok, err := t.mover.Carry(nil, func() error { return t.model.Save(p.Cells, buf) })
	if t.Store(p, !ok); !ok {
		t.Off = true
		return true, err
	}
	t.Out.Observe(n, axcl.Runs(p.Cells), took.Seconds())
	t.outBytes += uint64(len(buf))
	t.publish(took)
	return true, nil
}

// idle is what the card does when no sequence has anything for it to do: one piece goes to memory,
// or within the card, and it looks again.
func (m *lm) idle() (bool, error) {
	if m.diskTier.waiting() > 0 {
		return false, nil // rows come from disk at any moment: how quick it is decides when, not what the card does meanwhile
	}
	for _, s := range m.running {
		if !s.box.full() {
			return false, nil
		}
	}
	if did, err := m.ramTier.save(false); did || err != nil {
		return did, err
	}
	return m.layout.tidy()
}

// publish publishes what the tier holds and did.
func (t *ramTier) publish(took time.Duration) {
	rows, used, bytes, usedBytes := t.Size()
	t.queue.update(func(st *Stats) {
		st.Busy += took
		st.Memory = MemoryTier{Rows: rows, Used: used, Bytes: bytes, UsedBytes: usedBytes, Hits: t.hits.rows, Out: t.outBytes,
			In: t.hits.bytes, Saved: time.Duration(t.saved * float64(time.Second))}
	})
}
