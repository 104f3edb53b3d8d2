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
type tier struct {
	c     *cells
	rows  []byte // a row of c each
	bytes int    // of a row
	piece int    // rows that travel in one call
	buf   []byte // a piece
	free  func()
	kept  []int32 // of each cell: where in memory its row is, or none
	back  []int32 // and the reverse
	out   travel
	in    travel
	off   bool // it failed: nothing goes in or out any more

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

// openTier gives m a tier of at most limit bytes, and measures what its rows cost. Where rows cannot travel, or a sequence's cells must be
// in order, there is none: m.tier stays nil. It must run before anything is on the card.
func (m *lm) openTier(limit int64) error {
	bytes := m.shape.RowBytes()
	if limit <= 0 || bytes <= 0 || m.shape.Piece <= 0 || !m.proven.Scatter {
		return nil
	}
	n := int(min(limit/int64(bytes), mostKept))
	piece := min(m.shape.Piece, max(n/8, 1))
	if n -= piece; n <= 0 { // where a piece waits on its way counts too
		return nil
	}
	rows, free, err := hostMemory(n * bytes)
	if err != nil {
		return nil // no memory to keep anything in: all is evaluated
	}
	t := &tier{c: newCells(n), rows: rows, bytes: bytes, buf: make([]byte, piece*bytes), piece: piece, free: free}
	t.kept, t.back = make([]int32, m.cells.size()), make([]int32, n)
	for i := range t.kept {
		t.kept[i] = none
	}
	for i := range t.back {
		t.back[i] = none
	}
	m.cells.dropped = func(n int32) {
		if h := t.kept[n]; h != none {
			t.kept[n], t.back[h] = none, none
		}
	}
	t.c.dropped = func(h int32) {
		if n := t.back[h]; n != none {
			t.kept[n], t.back[h] = none, none
		}
	}
	m.tier = t
	if err := m.priceTier(); err != nil {
		t.close()
		m.tier = nil
		return err
	}
	m.tierStats(0)
	return nil
}

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
	if t != nil {
		t.c.forget()
	}
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
	path := t.c.match(nil, t.c.root(s.job.Key), s.ids, len(s.ids))
	if len(path) > 0 {
		t.c.prune(path[len(path)-1], len(path))
	}
}

// close gives the memory back.
func (t *tier) close() {
	if t != nil && t.free != nil {
		t.free()
		t.rows, t.free, t.off = nil, nil, true
	}
}

// inMemory decides how far the text of s is to be brought back beyond what it stands on: 0 where nothing is there, or evaluating is
// cheaper.
func (m *lm) inMemory(s *seq) int {
	t := m.tier
	if t == nil || t.off || s.whole() || s.solo {
		return 0
	}
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
		if s.bring > len(s.path) && !s.box.full() {
			return true, m.piece(s)
		}
		s.bring = 0
	}
	return false, nil
}

// piece brings the next piece of s back. What cannot be had is evaluated. The error is one that the card does not survive.
func (m *lm) piece(s *seq) error {
	t := m.tier
	at, ok := t.locate(s.job.Key, s.ids[:len(s.path)])
	if !ok {
		s.bring = 0
		return nil
	}
	from := t.c.match(nil, at, s.ids[len(s.path):], min(s.bring-len(s.path), t.piece))
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
		copy(t.buf[i*t.bytes:], t.rows[int(from[i])*t.bytes:(int(from[i])+1)*t.bytes])
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
	for i, c := range taken {
		m.cells.attach(c, s.tip(m.cells), s.ids[len(s.path)])
		s.step(m.cells, c)
		if old := t.back[from[i]]; old != none {
			t.kept[old] = none
		}
		t.kept[c], t.back[from[i]] = from[i], c
	}
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
	if t == nil || t.off || busy && 2*m.cells.nfree > m.cells.size() && 2*m.cells.freeBelow(m.wideReach) > m.wideReach {
		return false, nil
	}
	if busy {
		for _, s := range m.running {
			if !s.box.full() && s.pending() > 1 {
				return false, nil
			}
		}
	}
	// What nobody stands on may go first; but what is running now may be what the next one pushes out at once.
	end, own := none, false
	for i, st := range m.cells.state {
		if st != cellNode || m.cells.child[i] != none || t.kept[i] != none || m.cells.left[i] {
			continue
		}
		if stands := m.cells.refs[i] > 0; end == none || own && !stands || own == stands && m.cells.used[i] < m.cells.used[end] {
			end, own = int32(i), stands
		}
	}
	if end == none {
		return false, nil
	}
	var path []int32
	at := end
	for ; at >= 0; at = m.cells.parent[at] {
		path = append(path, at)
	}
	slices.Reverse(path)
	// What of it is there already, by whatever cell it was copied from.
	under, first := t.c.root(m.cells.names[^at]), 0
	t.c.tick++
	for ; first < len(path); first++ {
		h := t.c.find(under, m.cells.token[path[first]])
		if h == none {
			break
		}
		t.c.used[h] = t.c.tick
		if t.kept[path[first]] == none && t.back[h] == none {
			t.kept[path[first]], t.back[h] = h, path[first]
		}
		under = h
	}
	n := min(len(path)-first, t.piece)
	if own && n < t.piece {
		return false, nil // it grows
	}
	cells := make([]uint32, n)
	for i := range cells {
		cells[i] = uint32(path[first+i])
	}
	n = t.out.most(cells, t.piece)
	if n == 0 || !m.worthStashing(n, axcl.Runs(cells[:n]), first, len(path)) {
		m.cells.left[end] = true // not looked at again
		return n == 0, nil
	}
	t.c.hold(under)
	defer t.c.release(under)
	if n = min(n, t.c.available()); n == 0 {
		m.cells.left[end] = true // longer than all there is: its beginning is kept
		return false, nil
	}
	to, _ := t.c.take(nil, n, 0, false)
	cells = cells[:n]
	t0 := m.card.now()
	err := m.card.travel(func() error { return m.model.Save(cells, t.buf[:n*t.bytes]) })
	took := (m.card.now() - t0).Seconds()
	if err != nil {
		t.off = true
		for _, h := range to {
			t.c.give(h)
		}
		if axcl.Fatal(err) {
			return true, err
		}
		return true, m.card.strike(err)
	}
	t.out.observe(n, axcl.Runs(cells), took)
	for i, h := range to {
		copy(t.rows[int(h)*t.bytes:(int(h)+1)*t.bytes], t.buf[i*t.bytes:(i+1)*t.bytes])
		t.c.attach(h, under, m.cells.token[path[first+i]])
		t.kept[path[first+i]], t.back[h] = h, path[first+i]
		under = h
	}
	t.outBytes += uint64(n * t.bytes)
	m.tierStats(took)
	return true, nil
}

// idle is what the card does when no sequence has anything for it to do: one piece, and it looks again.
func (m *lm) idle() (bool, error) {
	for _, s := range m.running {
		if !s.box.full() {
			return false, nil
		}
	}
	return m.stash(false)
}

// tierStats publishes what the tier holds and did.
func (m *lm) tierStats(took float64) {
	t := m.tier
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stats.Busy += time.Duration(took * float64(time.Second))
	m.stats.Memory = MemoryTier{Rows: t.c.size(), Used: t.c.size() - t.c.nfree, Bytes: int64(len(t.rows) + len(t.buf)),
		UsedBytes: int64(t.c.size()-t.c.nfree) * int64(t.bytes), Hits: t.hits.rows, Out: t.outBytes, In: t.hits.bytes,
		Saved: time.Duration(t.saved * float64(time.Second))}
}
