package engine

import (
	"slices"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/cache"
)

// Memory is how much of this machine's memory may keep rows that had to leave a card: one limit for all models that are given it
// ([OpenOptions].CacheRAM), to the byte. Whatever of theirs was used longest ago goes first, whichever model's it is; so an idle model
// makes room for a busy one. Nothing is kept of a model that was unloaded. A nil Memory keeps nothing.
type Memory = cache.Memory

// NewMemory is a Memory of this many bytes; nil for none.
func NewMemory(limit int64) *Memory { return cache.NewMemory(limit) }

// RowsIn is how many rows of this many bytes fit in so much of this machine's memory, of a model alone there, where piece of them are to
// travel at once; and how many then do.
func RowsIn(limit int64, bytes, piece int) (rows, travel int) {
	return cache.RowsIn(limit, bytes, piece)
}

// tier is the RAM tier of a model (cache.RAM), and what went there and came back.
//
// Rows are copied in pieces of at most Shape.Piece rows, one between two passes: who waits for a pass waits for one piece more. They are
// copied when the card has nothing else to do, and while answers are written when cells are about to run out; what an answer has begun to
// need is never kept waiting for it. What a row is worth is a matter of the cost table: see bring and worthStashing.
type tier struct {
	*cache.RAM
	hits     struct{ rows, bytes uint64 } // brought back
	outBytes uint64
	saved    float64 // seconds that evaluating what came back would have taken longer
}

// openTier measures what moving rows costs, gives m a tier in memory, and measures what its rows cost. Where rows cannot travel, or a
// sequence's cells must be in order, there is none: m.tier stays nil. It must run before anything is on the card.
func (m *lm) openTier(memory *Memory) error {
	if err := m.priceMoves(); err != nil {
		return err
	}
	if memory == nil || m.shape.RowBytes() <= 0 || m.shape.Piece <= 0 || !m.restores() {
		return nil
	}
	ram := memory.Open(m.shape.RowBytes(), m.shape.Piece, m.cells)
	if ram == nil {
		return nil
	}
	m.tier, m.ram = &tier{RAM: ram}, ram
	err := m.priceTier()
	if err == nil {
		err = m.openShelf()
	}
	if err != nil {
		m.tier.close()
		m.tier, m.ram = nil, nil
		return err
	}
	m.tierStats(0)
	return nil
}

// restores reports whether a sequence can go on from rows that were elsewhere.
func (m *lm) restores() bool {
	return m.proven.Scatter && (!m.limits.Stops || m.proven.Kept)
}

// priceTier measures both ways with one row and with a piece, on unused cells.
func (m *lm) priceTier() error {
	t := m.tier
	cells := make([]uint32, t.Piece())
	for i := range cells {
		cells[i] = uint32(i)
	}
	timed := func(f func([]uint32, []byte) error) (p cache.Travel, err error) {
		var took [2]float64
		for i, n := range []int{1, len(cells)} {
			t0 := m.card.now()
			if err := m.mover.Watched(func() error { return f(cells[:n], t.Buffer(n)) }); err != nil {
				return p, err
			}
			took[i] = (m.card.now() - t0).Seconds()
		}
		return cache.Measured(took[0], took[1], len(cells)), nil
	}
	var err error
	if t.Out, err = timed(m.model.Save); err != nil {
		return err
	}
	t.In, err = timed(m.model.Restore)
	return err
}

// close gives the tier's memory back.
func (t *tier) close() {
	if t != nil {
		t.Off = true
		t.RAM.Close()
	}
}

// distrust forgets what is not in use, on the card and in memory.
func (m *lm) distrust() {
	m.cells.Forget()
	m.ram.Forget()
}

// inMemory decides how far the text of s is to be brought back beyond what it stands on: 0 where nothing is there, or evaluating is
// cheaper.
func (m *lm) inMemory(s *seq) int {
	t := m.tier
	if t == nil || t.Off || s.whole() || s.solo {
		return 0
	}
	if m.limits.Stops {
		return m.stateInMemory(s)
	}
	more := t.Beyond(&s.Seq, s.ids, s.pending()-1)
	if more == 0 {
		return 0
	}
	// All of it, or so much that the rest goes in wide passes: what they see ends somewhere, and they begin at the end of what is there.
	best, to := m.redo(len(s.Path), len(s.ids)), 0
	for _, n := range []int{more, min(more, m.wideReach-len(s.Path)), more - more%max(m.wide, 1)} {
		if n > 0 && m.proven.Chunk || n == more {
			if cost := t.In.Cost(n, t.Piece()) + m.redo(len(s.Path)+n, len(s.ids)); cost < best {
				best, to = cost, len(s.Path)+n
			}
		}
	}
	return to
}

// bring brings one piece back of a sequence that wants more than it stands on, and reports whether there was one.
func (m *lm) bring() (bool, error) {
	if m.tier == nil {
		return false, nil
	}
	for _, s := range m.running {
		if s.box.full() {
			continue
		}
		switch {
		case !m.cache.Waits(&s.Seq):
			s.Bring = 0
		case m.limits.Stops:
			return true, m.statePiece(s)
		default:
			err := m.piece(s)
			s.way = m.moves() // first it is seen whether the cells for the rest of it lie well
			return true, err
		}
	}
	return false, nil
}

// piece brings the next piece of s back. What cannot be had is evaluated. The error is one that the card does not survive.
func (m *lm) piece(s *seq) error {
	t := m.tier
	from := t.Next(&s.Seq, s.ids)
	defer t.Release(from)
	if len(from) == 0 || len(from)+16 > m.cells.Available() {
		s.Bring = 0
		return nil
	}
	n := len(from)
	if m.wide > 0 && s.Reach() <= m.wideReach && len(s.Path)+n <= m.wideReach {
		m.cells.Lower(n, m.wideReach, func(int, int) bool { return true })
	}
	taken, ok := m.cells.Take(nil, n, s.Reach(), true)
	if !ok {
		s.Bring = 0
		return nil
	}
	slices.Sort(taken)
	cells := make([]uint32, n)
	for i, c := range taken {
		cells[i] = uint32(c)
	}
	n = t.In.MostOf(cells, t.Piece())
	for _, c := range taken[n:] {
		m.cells.Give(c)
	}
	from, taken, cells = from[:n], taken[:n], cells[:n]
	rows := t.Load(from)
	took, ok, err := m.mover.Carry(cache.FromMemory, cells, func() error { return m.model.Restore(cells, rows) })
	if !ok {
		s.Bring, t.Off = 0, true
		for _, c := range taken {
			m.cells.Give(c)
		}
		return err
	}
	before := m.redo(len(s.Path), len(s.ids))
	t.In.Observe(n, axcl.Runs(cells), took.Seconds())
	for _, c := range taken {
		m.cells.Commit(&s.Seq, c, s.ids[len(s.Path)])
	}
	t.Link(taken, from)
	s.high = max(s.high, len(s.Path))
	if s.usage.Output == 0 {
		s.usage.Cached += n
	}
	t.hits.rows += uint64(n)
	t.hits.bytes += uint64(len(rows))
	t.saved += before - m.redo(len(s.Path), len(s.ids)) - took.Seconds()
	m.tierStats(took)
	return nil
}

// worthStashing reports whether copying a piece of n rows in this many runs is worth it, of a text of which rows [from, to) are not in
// memory: it may be asked for or not, and then comes back, or is evaluated.
func (m *lm) worthStashing(n, runs, from, to int) bool {
	const chance = 0.5
	t := m.tier
	again := (m.redo(0, to) - m.redo(0, from)) * float64(n) / float64(to-from)
	return chance*(again-t.In.Cost(n, t.Piece())) > float64(runs)*t.Out.Run+float64(n)*t.Out.Row
}

// stash copies one piece of what is on the card only, of the text that has to leave it next, and reports whether there was one. Where the
// card has something to do it is done only when cells are about to run out, and no prompt waits. The error is one that the card does not
// survive.
func (m *lm) stash(busy bool) (bool, error) {
	t := m.tier
	if t == nil || t.Off || busy && m.cache.Ample(m.wideReach) {
		return false, nil
	}
	if busy {
		//rule:G16 TestNeverWorse$ false
		if m.ledger.lost > tithe*m.ledger.done {
			return false, nil // memory that is too small for all that comes by would be filled over and over
		}
		for _, s := range m.running {
			if !s.box.full() && s.pending() > 1 {
				return false, nil
			}
		}
	}
	if m.limits.Stops {
		return m.stashState()
	}
	rows, ok, again := t.Choose(m.worthStashing)
	if !ok {
		return again, nil
	}
	t0 := m.card.now()
	defer func() { m.ledger.lost += (m.card.now() - t0).Seconds() }()
	return m.stashRows(rows)
}

// stashRows copies the rows of a piece to memory.
func (m *lm) stashRows(p cache.Piece) (bool, error) {
	t, n := m.tier, len(p.Cells)
	buf := t.Buffer(n)
	took, ok, err := m.mover.Carry(cache.ToMemory, nil, func() error { return m.model.Save(p.Cells, buf) })
	if t.Store(p, !ok); !ok {
		t.Off = true
		return true, err
	}
	t.Out.Observe(n, axcl.Runs(p.Cells), took.Seconds())
	t.outBytes += uint64(len(buf))
	m.tierStats(took)
	return true, nil
}

// idle is what the card does when no sequence has anything for it to do: one piece goes to memory, or within the card, and it looks again.
func (m *lm) idle() (bool, error) {
	if m.kept.waiting() > 0 {
		return false, nil // rows come from disk at any moment: how quick it is decides when, not what the card does meanwhile
	}
	for _, s := range m.running {
		if !s.box.full() {
			return false, nil
		}
	}
	if did, err := m.stash(false); did || err != nil {
		return did, err
	}
	return m.tidy()
}

// tierStats publishes what the tier holds and did.
func (m *lm) tierStats(took time.Duration) {
	t := m.tier
	rows, used, bytes, usedBytes := t.Size()
	m.queue.update(func(st *Stats) {
		st.Busy += took
		st.Memory = MemoryTier{Rows: rows, Used: used, Bytes: bytes, UsedBytes: usedBytes, Hits: t.hits.rows, Out: t.outBytes,
			In: t.hits.bytes, Saved: time.Duration(t.saved * float64(time.Second))}
	})
}
