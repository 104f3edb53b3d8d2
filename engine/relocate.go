package engine

import (
	"cmp"
	"slices"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/cache"
)

// This file moves rows to other cells. Only wide passes depend on where a row lies: they see the
// low cells only. An answering sequence goes row by row, wherever it lies, and unused rows may lie
// anywhere. The rows of a prompt must lie low if the next ones are to go in wide passes. So rows
// are moved up where a prompt lacks near cells. They are moved down where a text lies too high for
// its further rows to go together. Both happen only where the cost table says that this is cheaper
// than the alternative: waiting, evaluating again, or feeding row by row.
//
// Rows move between passes, one piece at a time, as they do between card and memory. So no stream's
// gap grows by more than a piece. A sequence whose cells are being prepared takes part in no pass
// meanwhile. Admission relies on these moves (beyond, in admit.go), and the ledger is charged for
// them. While there is work, rows move only to free near cells. To free one run for the new rows of
// a pass would take as many copies as it saves, because moving a row takes a copy, and so does the
// way of a new row to its cell. An idle card joins its free cells (tidy, in reserve.go).

// layout decides where rows lie: it reserves cells, moves rows, and tells whether there is room.
type layout struct {
	*core
	carried uint64 // rows that were moved to other cells
}

// priceMoves measures the cost of moving one row and of moving a piece, on unused cells. If rows
// cannot lie anywhere, or a row has changed after a move, the price stays zero and nothing is
// moved.
func (m *layout) priceMoves() error {
	m.costs.move = cache.CopyCost{}
	n := min(m.shape.Piece, m.shape.Cells/2)
	if n <= 0 || m.wide == 0 || !m.limits.Move || m.shape.RowBytes() <= 0 || !m.proven.Scatter || !m.proven.Chunk {
		return nil
	}
	from, to := make([]uint32, n), make([]uint32, n)
	for i := range n {
		from[i], to[i] = uint32(i), uint32(m.shape.Cells-n+i)
	}
	price, err := m.priced(n, func(rows int) error { return m.model.Copy(to[:rows], from[:rows]) })
	if err != nil {
		return err
	}
	row := make([]byte, 2*m.shape.RowBytes())
	for i, cells := range [][]uint32{from[n-1:], to[n-1:]} {
		half := row[i*len(row)/2:][:len(row)/2]
		if err := m.mover.Watched(func() error { return m.model.Save(cells, half) }); err != nil {
			return err
		}
	}
	if !slices.Equal(row[:len(row)/2], row[len(row)/2:]) {
		return nil
	}
	m.costs.move = price
	m.costs.run = m.costs.move.Run // the rows of a pass reach their cells by the same copies
	return nil
}

// priced measures the cost of a call that moves rows, with one row and with n.
func (m *core) priced(n int, call func(rows int) error) (cache.CopyCost, error) {
	var took [2]float64
	for i, rows := range []int{1, n} {
		t0 := m.card.Now()
		if err := m.mover.Watched(func() error { return call(rows) }); err != nil {
			return cache.CopyCost{}, err
		}
		took[i] = (m.card.Now() - t0).Seconds()
	}
	return cache.Measured(took[0], took[1], n), nil
}

// relocate prepares cells for the running prompts, one piece for each call, and reports whether it
// moved one. An error means that the card is lost.
func (m *layout) relocate() (bool, error) {
	for _, s := range m.running {
		s.relocating = false
	}
	if !m.moves() || m.repeating() {
		return false, nil
	}
	for _, s := range m.running {
		if s.repeatable || s.box.full() || s.pending() < 2 {
			continue
		}
		var did bool
		var err error
		if s.Reach() > m.wideReach {
			did, err = m.relocateDown(s)
		} else {
			did, err = m.relocateUp(s)
		}
		if did && err == nil {
			m.wait(s)
		}
		if did || err != nil {
			return did, err
		}
	}
	return false, nil
}

// wait keeps s out of passes while its cells are being prepared, and also the prompts that would
// take those cells.
func (m *layout) wait(s *seq) {
	s.relocating = true
	for _, r := range m.running {
		r.relocating = r.relocating || r.pending() > 1 && r.Reach() <= m.wideReach &&
			m.cells.FreeBelow(m.wideReach) < min(r.pending(), m.wide)
	}
}

// high returns the rows of path that wide passes do not see, in ascending order.
func (m *layout) high(path []int32) (rows []int32) {
	for _, n := range path {
		if int(n) >= m.wideReach {
			rows = append(rows, n)
		}
	}
	slices.Sort(rows)
	return rows
}

// relocatesDown reports whether it is cheapest to move down the rows of path that lie too high, so
// that the rest of s goes in wide passes.
func (m *layout) relocatesDown(s *seq, path []int32) bool {
	rest := len(s.ids) - len(path)
	if !m.moves() || s.repeatable || s.whole() || !m.chunks(rest) || len(path) > m.wideReach {
		return false
	}
	rows := m.high(path)
	if len(rows) == 0 {
		return false
	}
	own := m.cells.Places().Idle(path, m.wideReach)
	cost := m.priceOf(rows) + m.redo(len(path), len(s.ids))
	if lack := len(rows) - m.cells.AvailableBelow(m.wideReach) + own; lack > 0 {
		up, more := m.answering(s, lack)
		if len(up) < lack {
			return false
		}
		cost += more
	}
	low := slices.IndexFunc(path, func(n int32) bool { return int(n) >= m.wideReach })
	other := min(float64(rest)*m.lone(m.cells.Size()), m.redo(low, len(s.ids)))
	if t := m.ram; t.On() {
		if copied := t.Copied(path[low:]...); copied == len(path)-low {
			other = min(other, t.In.Cost(copied, t.Piece())+m.redo(len(path), len(s.ids)))
		}
	}
	return cost < other
}

// relocateDown moves down a piece of the rows of s, where that pays. Where it no longer pays, the
// rows that lie too high are evaluated again if that is cheaper.
func (m *layout) relocateDown(s *seq) (bool, error) {
	if !m.relocatesDown(s, s.Path) {
		if s.down {
			s.down = false
			if path := m.worth(s, s.Path); len(path) < len(s.Path) {
				m.cells.Stand(&s.Seq, slices.Clone(path))
			}
		}
		return false, nil
	}
	from := m.high(s.Path)
	if m.reserves(s) && (len(s.Reserved) > 0 || len(from)+s.pending() <= m.wideReach+m.wide) {
		n := min(len(from), m.shape.Piece)
		if m.reserve(s, n, len(from)) && int(s.Reserved[n-1]) < m.wideReach {
			if did, err := m.vacate(s, s.Reserved[:n]); did || err != nil {
				return did, err
			}
			return m.move(from, m.cells.Places().TakeReserved(&s.Seq, m.most(from, s.Reserved[:n])))
		}
	}
	from = from[:min(len(from), m.shape.Piece)]
	if m.cells.FreeBelow(m.wideReach) < len(from) {
		if did, err := m.relocateCached(len(from)); did || err != nil {
			return did, err
		}
		m.cells.Places().EvictBelow(len(from), m.wideReach, func(int, int) bool { return true })
		if lack := len(from) - m.cells.FreeBelow(m.wideReach); lack > 0 {
			up, _ := m.answering(s, lack)
			return m.moveUp(up)
		}
	}
	from = from[:min(len(from), m.cells.FreeBelow(m.wideReach))]
	return m.move(from, m.cells.TakeIn(nil, len(from), 0, m.wideReach))
}

// lacks returns how many cells the rest of a prompt lacks below the wide passes' reach. All its
// rows except those of its last pass must lie there.
func (m *layout) lacks(s *seq, below int) int {
	return min((s.pending()-1)/m.wide*m.wide, m.wideReach-len(s.Path)) - below
}

// relocateUp moves up a piece of rows that need not lie low, where s lacks near cells.
func (m *layout) relocateUp(s *seq) (bool, error) {
	n := m.wide
	if m.reserves(s) && (s.pending() >= n || len(s.Reserved) > 0) {
		if next := min(s.pending(), n); m.reserve(s, next, 0) {
			return m.vacate(s, s.Reserved[:next])
		}
	}
	if s.pending() <= n || m.cells.FreeBelow(m.wideReach) >= n {
		return false, nil
	}
	if did, err := m.relocateCached(n); did || err != nil {
		return did, err
	}
	below := m.cells.AvailableBelow(m.wideReach)
	if below >= n {
		return false, nil // unused rows are evicted instead
	}
	lack := m.lacks(s, below)
	rows, cost := m.answering(nil, lack)
	together := len(rows) // this many more rows of the prompt go in wide passes
	if together == lack {
		together += m.wide
	}
	if len(rows) == 0 || cost >= float64(together)*m.dear() {
		return false, nil
	}
	return m.moveUp(rows)
}

// moveUp moves a piece of rows up. It evicts the rows there that were used longest ago.
func (m *layout) moveUp(rows []int32) (bool, error) {
	rows = rows[:min(len(rows), m.shape.Piece)]
	m.cells.Places().EvictAbove(len(rows), m.wideReach)
	rows = rows[:min(len(rows), m.cells.Free()-m.cells.FreeBelow(m.wideReach))]
	return m.move(rows, m.cells.TakeIn(nil, len(rows), m.wideReach, m.cells.Size()))
}

// answering returns up to n low rows, in ascending order, that only answering sequences use, and
// the cost of moving them. The cost is that of the copies, and what those sequences no longer save
// by sharing passes. The result is empty where there is no room higher up. The rows of s, which may
// not run yet, stay where they are.
func (m *layout) answering(s *seq, n int) (rows []int32, cost float64) {
	if n <= 0 {
		return nil, 0
	}
	pinned := make([]bool, m.wideReach)
	pin := func(s *seq) {
		for _, n := range s.Path {
			if int(n) < m.wideReach {
				pinned[n] = true
			}
		}
	}
	if s != nil {
		pin(s)
	}
	var answers []*seq
	for _, r := range m.running {
		// Guesses go in wide passes, so a sequence whose guesses are often right stays low.
		if r.pending() > 1 || r.repeatable || r.embed != nil || 4*r.usage.Accepted > r.usage.Output {
			pin(r)
		} else if !r.box.full() {
			answers = append(answers, r)
		}
	}
	mine := func(r *seq) (k int) {
		for _, n := range r.Path {
			if int(n) < m.wideReach && !pinned[n] {
				k++
			}
		}
		return k
	}
	slices.SortStableFunc(answers, func(a, b *seq) int { return cmp.Compare(mine(b), mine(a)) })
	low, moved, rounds, top := 0, 0, 0, 0
	for _, r := range answers {
		if k := r.Reach(); k <= m.wideReach {
			low, top = low+1, max(top, k)
		}
	}
	for _, r := range answers {
		if len(rows) >= n {
			break
		}
		if r.Reach() <= m.wideReach {
			moved, rounds = moved+1, max(rounds, min(r.room(), 256))
		}
		from := len(rows)
		for _, c := range r.Path {
			if int(c) < m.wideReach && !pinned[c] {
				pinned[c] = true
				rows = append(rows, c)
			}
		}
		slices.Sort(rows[from:])
	}
	rows = rows[:min(len(rows), n)]
	slices.Sort(rows)
	if m.cells.Available()-m.cells.AvailableBelow(m.wideReach) < len(rows) {
		return nil, 0
	}
	one, wide := m.lone(top), m.costs.group[max(m.shape.GroupFor(m.minWide, top), 0)]
	round := func(n int) float64 { return min(float64(n)*one, wide) }
	lost := float64(rounds) * max(round(low-moved)+float64(moved)*one-round(low), 0)
	return rows, m.priceOf(rows) + lost
}

// vacate moves up a piece of the rows that lie in the given cells, which are reserved for s. It
// does so only if the moves take less than half of the time to evaluate those rows, and the rows
// that depend on them, again, times the chance that they are requested.
func (m *layout) vacate(s *seq, cells []int32) (bool, error) {
	const chance = 0.5
	c := m.cells
	free := c.Free() - c.FreeBelow(m.wideReach) - 16*len(m.running)
	at := slices.IndexFunc(cells, func(n int32) bool { return int(n) < m.wideReach && c.Holds(n) })
	if at < 0 || free <= 0 || m.ledger.lost > tithe/2*m.ledger.done {
		return false, nil
	}
	length, top := 0, 0
	var all, now []int32 // rows of the text: all that must go, and those that go first
	for _, k := range c.Through(cells[at]) {
		length++
		if int(k) < m.wideReach && slices.Contains(s.Reserved, k) {
			all, top = append(all, k), length
			if slices.Contains(cells, k) {
				now = append(now, k)
			}
		}
	}
	slices.Sort(all)
	slices.Sort(now)
	if length > m.wideReach || len(all) > free || m.priceOf(all)*(1+chance) >= chance/2*m.redo(length-top, length) {
		return false, nil
	}
	now = now[:min(len(now), m.shape.Piece)]
	return m.move(now, c.TakeIn(nil, len(now), m.wideReach, c.Size()))
}

// relocateCached moves up a piece of the low rows that were used longest ago and that no sequence
// uses, until n low cells are free. It does so only if that takes less than half of the time to
// evaluate or restore them, times the chance that they are requested.
func (m *layout) relocateCached(n int) (bool, error) {
	const chance = 0.5
	free := m.cells.Free() - m.cells.FreeBelow(m.wideReach) - 16*len(m.running)
	lack := n - m.cells.FreeBelow(m.wideReach)
	if free <= 0 || lack <= 0 {
		return false, nil
	}
	oldest, rows, length := m.cells.Places().OldestBelow(m.wideReach)
	if oldest == none || length > m.wideReach {
		return false, nil // it would not be moved down again
	}
	rows = rows[:min(len(rows), free, max(lack, m.shape.Piece))]
	again := m.redo(length-len(rows), length)
	if t := m.ram; t.On() {
		if t.Copied(oldest) > 0 {
			again = min(again, t.In.Cost(len(rows), t.Piece()))
		}
	}
	// Up, and down again if the rows are requested.
	if m.priceOf(rows)*(1+chance) >= chance/2*again || m.ledger.lost > tithe/2*m.ledger.done {
		return false, nil
	}
	rows = rows[:min(len(rows), m.shape.Piece)]
	return m.move(rows, m.cells.TakeIn(nil, len(rows), m.wideReach, m.cells.Size()))
}

// move moves rows from the cells of from, ascending, to the cells of to, which are taken. It moves
// as many as can be copied in the time of a piece that is one run, and reports whether there were
// any. An error means that the card is lost.
func (m *layout) move(from, to []int32) (bool, error) {
	slices.Sort(to)
	a, b, n := unsigned(from), unsigned(to), m.most(from, to)
	back := to[n:]
	defer func() { m.cells.Give(back...) }()
	if n == 0 {
		return false, nil
	}
	a, b = a[:n], b[:n]
	took, ok, err := m.mover.Carry(b, func() error { return m.model.Copy(b, a) })
	if !ok {
		//rule:G18 TestMoveFails , m.costs.move = to, cache.CopyCost{} => = to
		back, m.costs.move = to, cache.CopyCost{} // the rows of from are unchanged
		return true, err
	}
	sec := took.Seconds()
	m.costs.move.Observe(n, axcl.Runs(b, a), sec)
	m.ledger.lost += sec
	m.carried += uint64(n)
	now := make(map[int32]int32, n)
	for i := range n {
		now[from[i]] = to[i]
		m.cells.Relocate(from[i], to[i])
		m.ram.Relocate(from[i], to[i])
	}
	for _, s := range m.running {
		//rule:G18 TestMovesSameTokens drop
		s.Relocate(now)
	}
	return true, nil
}

// most returns how many rows can be copied from cells to cells in the time of a piece that is one
// run.
func (m *layout) most(from, to []int32) int {
	return m.costs.move.Most(min(len(from), len(to)), m.shape.Piece, func(i int) bool {
		return from[i] == from[i-1]+1 && to[i] == to[i-1]+1
	})
}
