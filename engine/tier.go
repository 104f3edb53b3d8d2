package engine

import (
	"slices"
	"time"

	"github.com/axle-llm/axle/axcl"
)

// tier keeps copies of rows in this machine's memory: a text that had to leave the card comes back over the link where that is cheaper than
// evaluating it. It is the card's tree once more, with places in memory instead of cells: a node is on the card, in memory, or both, and a
// text that is in memory is there from its first token on. Roots are keys' here too, so that text of one key is never found by another.
// The longest unused goes first, from its end. A node's row is known by what spells it, its tokens from the root on; who gives nodes
// another identity than a token (a picture's row, a state) finds them here like any other.
//
// Rows are copied in pieces of at most Shape.Piece rows, one between two passes: who waits for a pass waits for one piece more. They are
// copied when the card has nothing else to do, and while answers are written when cells are about to run out; what an answer has begun to
// need is never kept waiting for it. What a row is worth is a matter of the cost table: see bring and worthStashing.
//
// The tree, the rows and back belong to whoever holds memory's lock, all else to the card's worker. The lock is not held while rows travel.
type tier struct {
	memory *Memory
	c      *cells
	rows   []byte // a row of c each
	bytes  int    // of a row
	stride int    // from one row to the next
	piece  int    // rows that travel in one call
	buf    []byte // a piece
	free   func()
	kept   []int32 // of each cell: where in memory its row is, if that says so too; or none
	back   []int32 // of each row: the cell, if that says so too; or none
	out    travel
	in     travel
	shelf  shelf
	off    bool // it failed: nothing goes in or out any more

	hits     struct{ rows, bytes uint64 } // brought back
	outBytes uint64
	saved    float64 // seconds that evaluating what came back would have taken longer
}

// travel is what a call that moves rows costs: for each call and run of cells, and for each row, in seconds.
type travel struct{ run, row float64 }

func (t travel) cost(rows, piece int) float64 {
	return float64((rows+piece-1)/piece)*t.run + float64(rows)*t.row
}

// observe corrects the price of a row by what a call took.
func (t *travel) observe(rows, runs int, took float64) {
	if want := float64(runs)*t.run + float64(rows)*t.row; took > 0 && want > 0 {
		f := min(max(1+settle*(took/want-1), 0.8), 1.25)
		t.run, t.row = t.run*f, t.row*f
	}
}

// openTier measures what moving rows costs, gives m a tier in memory, and measures what its rows cost. Where rows cannot travel, or a
// sequence's cells must be in order, there is none: m.tier stays nil. It must run before anything is on the card.
func (m *lm) openTier(memory *Memory) error {
	if err := m.priceMoves(); err != nil {
		return err
	}
	if memory == nil || m.slots != nil && !m.proven.Kept || m.shape.RowBytes() <= 0 || m.shape.Piece <= 0 || !m.proven.Scatter {
		return nil
	}
	if m.tier = memory.open(m.shape.RowBytes(), m.shape.Piece, m.cells.size()); m.tier == nil {
		return nil
	}
	t := m.tier
	dropped := m.cells.dropped
	m.cells.dropped = func(n int32) {
		if t.kept[n] = none; dropped != nil {
			dropped(n)
		}
	}
	err := m.priceTier()
	if err == nil {
		err = m.openShelf()
	}
	if err != nil {
		t.close()
		m.tier = nil
		return err
	}
	m.tierStats(0)
	return nil
}

// link makes row h the copy of cell n's.
func (t *tier) link(n, h int32) { t.kept[n], t.back[h] = h, n }

// copied reports whether the row of cell n is in memory.
func (t *tier) copied(n int32) bool { return t.kept[n] != none && t.back[t.kept[n]] == n }

// onCard reports whether row h is on the card.
func (t *tier) onCard(h int32) bool { return t.back[h] != none && t.kept[t.back[h]] == h }

// mostKept is the most rows that are kept, however much memory there is: bookkeeping is forty bytes a row, and searches look at each.
const mostKept = 1 << 17

// priceTier measures both ways with one row and with a piece, on cells that nobody uses.
func (m *lm) priceTier() error {
	t := m.tier
	cells := make([]uint32, t.piece)
	for i := range cells {
		cells[i] = uint32(i)
	}
	timed := func(f func([]uint32, []byte) error) (p travel, err error) {
		var took [2]float64
		for i, n := range []int{1, len(cells)} {
			t0 := m.card.now()
			if err := m.card.travel(func() error { return f(cells[:n], t.buf[:n*t.bytes]) }); err != nil {
				return p, err
			}
			took[i] = (m.card.now() - t0).Seconds()
		}
		if len(cells) > 1 {
			p.row = max((took[1]-took[0])/float64(len(cells)-1), 0)
		}
		p.run = max(took[0]-p.row, 1e-7)
		return p, nil
	}
	var err error
	if t.out, err = timed(m.model.Save); err != nil {
		return err
	}
	t.in, err = timed(m.model.Restore)
	return err
}

// travel is a call that moves rows, under the watchdog's eye.
func (c *Card) travel(f func() error) error {
	c.owned()
	c.enter(c.o.Watch)
	err := f()
	c.exit()
	if c.Err() != nil && err == nil {
		return axcl.ErrLost
	}
	return err
}

// locate is the node in memory of the last of ids, and whether all of them are there.
func (t *tier) locate(key string, ids []int32) (int32, bool) {
	at := t.c.root(key)
	for _, id := range ids {
		if at = t.c.find(at, id); at == none {
			return none, false
		}
	}
	return at, true
}

// forget drops everything: what lies on the card may be wrong, and so may what was copied of it.
func (t *tier) forget() {
	if t == nil {
		return
	}
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	t.c.forget()
	t.shelf.half = nil
}

// distrust forgets what nobody uses, on the card and in memory.
func (m *lm) distrust() {
	m.cells.forget()
	m.tier.forget()
}

// cut drops what memory has of a sequence's text beyond what others begin with: the sequence met an error.
func (t *tier) cut(s *seq) {
	if t == nil {
		return
	}
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	path := t.c.match(nil, t.c.root(s.job.Key), s.ids, len(s.ids))
	if len(path) > 0 {
		t.c.prune(path[len(path)-1], len(path))
	}
}

// inMemory decides how far the text of s is to be brought back beyond what it stands on: 0 where nothing is there, or evaluating is
// cheaper.
func (m *lm) inMemory(s *seq) int {
	t := m.tier
	if t == nil || t.off || s.whole() || s.solo {
		return 0
	}
	if m.slots != nil {
		return m.stateInMemory(s)
	}
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	at, ok := t.locate(s.job.Key, s.ids[:len(s.path)])
	if !ok {
		return 0
	}
	more := t.c.match(nil, at, s.ids[len(s.path):], s.pending()-1)
	if len(more) == 0 {
		return 0
	}
	// All of it, or so much that the rest goes in wide passes: what they see ends somewhere, and they begin at the end of what is there.
	best, to := m.redo(len(s.path), len(s.ids)), 0
	for _, n := range []int{len(more), min(len(more), m.wideReach-len(s.path)), len(more) - len(more)%max(m.wide, 1)} {
		if n > 0 && m.proven.Chunk || n == len(more) {
			if cost := t.in.cost(n, t.piece) + m.redo(len(s.path)+n, len(s.ids)); cost < best {
				best, to = cost, len(s.path)+n
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
		if m.slots != nil && s.bring > 0 {
			return true, m.statePiece(s)
		}
		if s.bring > len(s.path) {
			err := m.piece(s)
			s.way = m.moves() // first it is seen whether the cells for the rest of it lie well
			return true, err
		}
		s.bring = 0
	}
	return false, nil
}

// next is where in memory the next piece of s is, which stays there until it is released; nil where there is none.
func (t *tier) next(s *seq) []int32 {
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	at, ok := t.locate(s.job.Key, s.ids[:len(s.path)])
	if !ok {
		return nil
	}
	from := t.c.match(nil, at, s.ids[len(s.path):], min(s.bring-len(s.path), t.piece))
	if len(from) > 0 {
		t.c.hold(from[len(from)-1])
	}
	return from
}

// locked does something with what memory's lock guards.
func (t *tier) locked(f func()) {
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	f()
}

// piece brings the next piece of s back. What cannot be had is evaluated. The error is one that the card does not survive.
func (m *lm) piece(s *seq) error {
	t := m.tier
	from := t.next(s)
	if len(from) > 0 {
		last := from[len(from)-1]
		defer t.locked(func() { t.c.release(last) })
	}
	if len(from) == 0 || len(from)+16 > m.cells.available() {
		s.bring = 0
		return nil
	}
	n := len(from)
	if m.wide > 0 && s.reach() <= m.wideReach && len(s.path)+n <= m.wideReach {
		m.cells.lower(n, m.wideReach, func(int, int) bool { return true })
	}
	taken, ok := m.cells.take(nil, n, s.reach(), true)
	if !ok {
		s.bring = 0
		return nil
	}
	slices.Sort(taken)
	cells := make([]uint32, n)
	for i, c := range taken {
		cells[i] = uint32(c)
	}
	n = t.in.most(cells, t.piece)
	for _, c := range taken[n:] {
		m.cells.give(c)
	}
	taken, cells = taken[:n], cells[:n]
	for i := range taken {
		copy(t.buf[i*t.bytes:], t.row(from[i])[:t.bytes])
	}
	t0 := m.card.now()
	err := m.card.travel(func() error { return m.model.Restore(cells, t.buf[:n*t.bytes]) })
	took := (m.card.now() - t0).Seconds()
	if err != nil {
		s.bring, t.off = 0, true
		if axcl.Fatal(err) {
			for _, c := range taken {
				m.cells.give(c)
			}
			return err
		}
		if err := m.card.strike(err); err != nil {
			return err
		}
		m.taken = append(m.taken[:0], taken...)
		return m.clearTaken()
	}
	before := m.redo(len(s.path), len(s.ids))
	t.in.observe(n, axcl.Runs(cells), took)
	for _, c := range taken {
		m.cells.attach(c, s.tip(m.cells), s.ids[len(s.path)])
		s.step(m.cells, c)
	}
	t.locked(func() {
		for i, c := range taken {
			t.link(c, from[i])
		}
	})
	s.high = max(s.high, len(s.path))
	if s.usage.Output == 0 {
		s.usage.Cached += n
	}
	t.hits.rows += uint64(n)
	t.hits.bytes += uint64(n * t.bytes)
	t.saved += before - m.redo(len(s.path), len(s.ids)) - took
	m.tierStats(took)
	return nil
}

// worthStashing reports whether copying a piece of n rows in so many runs is worth it, of a text of which rows [from, to) are not in
// memory: it may be asked for or not, and then comes back, or is evaluated.
func (m *lm) worthStashing(n, runs, from, to int) bool {
	const chance = 0.5
	t := m.tier
	again := (m.redo(0, to) - m.redo(0, from)) * float64(n) / float64(to-from)
	return chance*(again-t.in.cost(n, t.piece)) > float64(runs)*t.out.run+float64(n)*t.out.row
}

// most is how many of the cells travel in the time of a full piece that is one run: each run of cells is a call of its own in every layer.
func (t travel) most(cells []uint32, piece int) (n int) {
	budget, took := t.cost(piece, piece)*1.001, 0.0
	for n < min(len(cells), piece) {
		took += t.row
		if n == 0 || cells[n] != cells[n-1]+1 {
			took += t.run
		}
		if took > budget && n > 0 {
			break
		}
		n++
	}
	return n
}

// stash copies one piece of what is on the card only, of the text that has to leave it next, and reports whether there was one. Where the
// card has something to do it is done only when cells are about to run out, and no prompt waits. The error is one that the card does not
// survive.
func (m *lm) stash(busy bool) (bool, error) {
	t := m.tier
	if t == nil || t.off || busy && m.slots == nil && 2*m.cells.nfree > m.cells.size() && 2*m.cells.freeBelow(m.wideReach) > m.wideReach ||
		busy && m.slots != nil && len(m.slots.free) > 0 {
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
	if m.slots != nil {
		return m.stashState()
	}
	cells, to, again := m.choose()
	if len(to) == 0 {
		return again, nil
	}
	t0 := m.card.now()
	defer func() { m.ledger.lost += (m.card.now() - t0).Seconds() }()
	return m.stashRows(cells, to)
}

// stashRows copies the rows of cells to the rows to[1:] in memory, behind to[0], which is held until then.
func (m *lm) stashRows(cells []uint32, to []int32) (bool, error) {
	t := m.tier
	n := len(cells)
	t0 := m.card.now()
	err := m.card.travel(func() error { return m.model.Save(cells, t.buf[:n*t.bytes]) })
	took := (m.card.now() - t0).Seconds()
	t.locked(func() {
		under := to[0]
		if under >= 0 {
			defer t.c.release(under)
		}
		for i, h := range to[1:] {
			if err != nil {
				t.c.give(h)
				continue
			}
			copy(t.row(h), t.buf[i*t.bytes:(i+1)*t.bytes])
			t.c.attach(h, under, m.cells.token[cells[i]])
			t.link(int32(cells[i]), h)
			under = h
		}
	})
	if err != nil {
		if t.off = true; axcl.Fatal(err) {
			return true, err
		}
		return true, m.card.strike(err)
	}
	t.out.observe(n, axcl.Runs(cells), took)
	t.outBytes += uint64(n * t.bytes)
	m.tierStats(took)
	return true, nil
}

// choose gives the cells of the next piece that is to be copied, and the row in memory that it goes behind, which is held, with the rows
// that are taken for it. Where there is no piece it reports whether another look may find one.
func (m *lm) choose() (cells []uint32, to []int32, again bool) {
	t := m.tier
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	// What nobody stands on may go first; but what is running now may be what the next one pushes out at once.
	end, own := none, false
	for i, st := range m.cells.state {
		if st != cellNode || m.cells.child[i] != none || m.cells.left[i] || t.copied(int32(i)) {
			continue
		}
		if stands := m.cells.refs[i] > 0; end == none || own && !stands || own == stands && m.cells.used[i] < m.cells.used[end] {
			end, own = int32(i), stands
		}
	}
	if end == none {
		return nil, nil, false
	}
	var path []int32
	at := end
	for ; at >= 0; at = m.cells.parent[at] {
		path = append(path, at)
	}
	slices.Reverse(path)
	// What of it is there already, by whatever cell it was copied from.
	//rule:T17 TestTierKeys m.cells.names[^at] => ""
	under, first := t.c.root(m.cells.names[^at]), 0
	t.c.touch()
	for ; first < len(path); first++ {
		h := t.c.find(under, m.cells.token[path[first]])
		if h == none {
			break
		}
		t.c.used[h] = t.c.tick
		if !t.copied(path[first]) && !t.onCard(h) {
			t.link(path[first], h)
		}
		under = h
	}
	n := min(len(path)-first, t.piece)
	if own && n < t.piece {
		return nil, nil, false // it grows
	}
	cells = make([]uint32, n)
	for i := range cells {
		cells[i] = uint32(path[first+i])
	}
	//rule:G17 TestTierGap t.out.most(cells, t.piece) => len(cells)
	n = t.out.most(cells, t.piece)
	if n == 0 || !m.worthStashing(n, axcl.Runs(cells[:n]), first, len(path)) {
		m.cells.left[end] = true // not looked at again
		return nil, nil, n == 0
	}
	t.c.hold(under)
	if n = t.memory.room(t, n); n == 0 {
		t.c.release(under)
		m.cells.left[end] = true // longer than all there is: its beginning is kept
		return nil, nil, false
	}
	to, _ = t.c.take([]int32{under}, n, 0, false)
	return cells[:n], to, false
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
func (m *lm) tierStats(took float64) {
	t := m.tier
	used, states := 0, int64(0)
	t.locked(func() { used, states = t.c.size()-t.c.nfree, t.shelf.held() })
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stats.Busy += time.Duration(took * float64(time.Second))
	m.stats.Memory = MemoryTier{Rows: t.c.size(), Used: used, Bytes: int64(len(t.rows) + len(t.buf)),
		UsedBytes: int64(used)*int64(t.stride) + states, Hits: t.hits.rows, Out: t.outBytes, In: t.hits.bytes,
		Saved: time.Duration(t.saved * float64(time.Second))}
}
