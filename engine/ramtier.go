package engine

import (
	"slices"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/cache"
)

// Memory is the part of this machine's memory that may hold rows that left a card. It is one limit,
// in bytes, for all models that share it ([OpenOptions].CacheRAM). The rows that were used longest
// ago are dropped first, whichever model they belong to, so an idle model makes room for a busy
// one. All rows of a model are dropped when it is unloaded. A nil Memory holds nothing.
type Memory = cache.Memory

// NewMemory returns a Memory of this many bytes, or nil for none.
func NewMemory(limit int64) *Memory { return cache.NewMemory(limit) }

// RowsIn returns how many rows of this many bytes fit in limit bytes of memory, for one model
// alone, where piece rows should be copied at once. copied is how many then are.
func RowsIn(limit int64, bytes, piece int) (rows, copied int) {
	return cache.RowsIn(limit, bytes, piece)
}

// ramTier is the RAM tier of a model (cache.RAM), with counts of what it saved and restored.
//
// Rows are copied in pieces of at most Shape.Piece rows, one between two passes, so a pass is
// delayed by at most one piece. Rows are saved when the card has nothing else to do, and also while
// answers are written if cells are about to run out. An answer that needs cells never waits for a
// save. The cost table decides what a row is worth: see restorable and worthSaving.
type ramTier struct {
	*core
	layout *layout
	*cache.RAM
	hits     struct{ rows, bytes uint64 } // restored
	outBytes uint64
	saved    float64 // seconds that restoring saved, compared with evaluating
}

// openRAMTier measures the cost of moving rows, opens a tier in memory, and measures the cost of
// its rows. It returns nil if rows cannot be copied or if a sequence's cells must be in order. It
// must run before anything is on the card.
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

// priceRows measures both directions with one row and with a piece, on unused cells.
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

// close releases the tier's memory.
func (t *ramTier) close() {
	if t != nil {
		t.Off = true
		t.RAM.Close()
	}
}

// restorable returns to which length the text of s is to be restored, or 0 if memory has nothing
// more of it or evaluating is cheaper.
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
	// All of it, or as much as lets the rest go in wide passes: up to the end of what they see, or
	// up to a multiple of their rows.
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

// restore restores one piece for a sequence that waits for rows from memory, and reports whether
// there was one.
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
			s.relocating = t.moves() // relocate first checks the cells for the rest of it
			return true, err
		}
	}
	return false, nil
}

// restorePiece restores the next piece of s. What cannot be restored is evaluated. An error means
// that the card is lost.
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

// worthSaving reports whether it pays to save a piece of n rows in this many runs. The rows [from,
// to) of its text are not in memory. The text may or may not be requested. If it is, the rows are
// either restored or evaluated.
func (t *ramTier) worthSaving(n, runs, from, to int) bool {
	const chance = 0.5
	again := (t.redo(0, to) - t.redo(0, from)) * float64(n) / float64(to-from)
	return chance*(again-t.In.Cost(n, t.Piece())) > float64(runs)*t.Out.Run+float64(n)*t.Out.Row
}

// save saves one piece of rows that are on the card only, of the text that will be evicted next,
// and reports whether there was one. With busy set it does so only if cells are about to run out
// and no prompt waits. An error means that the card is lost.
func (t *ramTier) save(busy bool) (bool, error) {
	if t == nil || t.Off || busy && t.cache.Ample(t.wideReach) {
		return false, nil
	}
	if busy {
		//rule:G16 TestNeverWorse$ false
		if t.ledger.lost > tithe*t.ledger.done {
			return false, nil // a memory too small for all texts would be filled again and again
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

// idle does one piece of work while no sequence needs the card: it saves rows to memory, or moves
// rows within the card.
func (m *lm) idle() (bool, error) {
	if m.diskTier.waiting() > 0 {
		return false, nil // rows may come from disk at any moment: the disk's speed must decide only when they come
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
