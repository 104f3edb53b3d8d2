package engine

import (
	"slices"

	"github.com/axle-llm/axle/axcl"
)

// This file keeps snapshots of states (slots.go) in this machine's memory. There a snapshot hangs on the row of the tier that it was after,
// and counts against the limit as rows do. It is of use with its rows only, and they with it only: rows go first, then the state; they come
// back in the same order, and the sequence that asked goes on from them when the last byte is there, and not before. What does not come
// whole is evaluated. Both ways a piece at most travels between two passes.

// shelf is what a tier has of snapshots. Of the maps and slices memory's lock guards what belongs to the tier's tree, as it does that.
type shelf struct {
	bytes  int              // of a state; 0: the model has none
	states map[int32][]byte // of each row in memory that a state is kept after
	half   *half            // one on its way there
	out    float64          // seconds that one takes, and back
	in     float64
	left   []uint64 // of each slot: its use (slots.use) in which it was found not to be worth the way
}

// half is a snapshot of which some bytes are in memory. It counts as whole.
type half struct {
	slot  uint32
	use   uint64 // of the slot: another means that it holds something else by now
	state []byte
	at    int
}

// held is what snapshots take.
func (h *shelf) held() int64 {
	n := int64(len(h.states))
	if h.half != nil {
		n++
	}
	return n * int64(h.bytes)
}

// openShelf measures what a state costs on its way, in a slot that nobody uses.
func (m *lm) openShelf() error {
	t := m.tier
	if m.slots == nil {
		return nil
	}
	slot := m.slots.take(false)
	if slot == 0 {
		return nil
	}
	defer m.slots.give(slot)
	piece := make([]byte, m.shape.StatePiece())
	pieces := float64((m.shape.State + len(piece) - 1) / len(piece))
	for _, way := range []struct {
		took *float64
		call func(uint32, int, []byte) error
	}{{&t.shelf.out, m.model.SaveState}, {&t.shelf.in, m.model.RestoreState}} {
		t0 := m.card.now()
		if err := m.card.travel(func() error { return way.call(slot, 0, piece) }); err != nil {
			return err
		}
		*way.took = (m.card.now() - t0).Seconds() * pieces
	}
	t.shelf.bytes, t.shelf.states, t.shelf.left = m.shape.State, map[int32][]byte{}, make([]uint64, m.slots.size()+1)
	return nil
}

// deepest is the row in memory of the longest prefix of ids that a state is kept after, and how long it is; at most limit of them.
func (t *tier) deepest(key string, ids []int32, limit int) (h int32, length int) {
	h = none
	at := t.c.root(key)
	for i, id := range ids[:min(limit, len(ids))] {
		if at = t.c.find(at, id); at == none {
			break
		}
		if t.shelf.states[at] != nil {
			h, length = at, i+1
		}
	}
	return h, length
}

// stateInMemory is inMemory for a model with states: how far a snapshot reaches that is worth its way, beyond what s goes on from.
func (m *lm) stateInMemory(s *seq) int {
	t := m.tier
	if t.shelf.bytes == 0 {
		return 0
	}
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	h, length := t.deepest(s.job.Key, s.ids, len(s.ids)-1)
	if h == none || length <= len(s.path) {
		return 0
	}
	t.c.match(nil, t.c.root(s.job.Key), s.ids, length) // used now
	rows := length - len(m.cells.peek(m.cells.root(s.job.Key), s.ids[:length]))
	if t.shelf.in+t.in.cost(rows, t.piece)+m.redo(length, len(s.ids)) >= m.redo(len(s.path), len(s.ids)) {
		return 0
	}
	return length
}

// statePiece brings the next piece of what s waits for, rows and then the state, and reports whether it still waits. The error is one that
// the card does not survive.
func (m *lm) statePiece(s *seq) (err error) {
	t, to := m.tier, s.bring
	if !s.own {
		// On what the card has of the rows, whether a state is kept after them or not.
		path := m.cells.match(nil, m.cells.root(s.job.Key), s.ids, to)
		s.stand(m.cells, path)
		if s.state = m.stateAfter(path); s.state != 0 && len(path) == to {
			s.bring = 0 // somebody was quicker
			return nil
		}
	}
	if len(s.path) < to {
		before := len(s.path)
		if err = m.piece(s); err == nil && s.bring == to && len(s.path) > before {
			s.state = m.stateAfter(s.path)
			return nil
		}
		m.stay(s)
		return err
	}
	var state []byte
	t.locked(func() {
		if h, n := t.deepest(s.job.Key, s.ids[:to], to); n == to {
			state = t.shelf.states[h]
		}
	})
	if !s.own && state != nil {
		if slot := m.slots.take(false); slot != 0 {
			s.state, s.own = slot, true
		}
	}
	if !s.own || state == nil {
		m.stay(s)
		return nil
	}
	n := min(m.shape.StatePiece(), len(state)-s.coming)
	t0 := m.card.now()
	err = m.card.travel(func() error { return m.model.RestoreState(s.state, s.coming, state[s.coming:s.coming+n]) })
	took := (m.card.now() - t0).Seconds()
	if err != nil {
		t.off = true
		m.stay(s)
		if axcl.Fatal(err) {
			return err
		}
		return m.card.strike(err)
	}
	t.hits.bytes += uint64(n)
	//rule:G17 TestStatesInMemory$ false
	if s.coming += n; s.coming < len(state) {
		m.tierStats(took)
		return nil
	}
	s.bring, s.coming = 0, 0
	m.mark(s, false)
	if s.usage.Output == 0 {
		s.usage.Cached = to
	}
	m.tierStats(took)
	return nil
}

// stateAfter is the slot that is kept after a path; 0: none.
func (m *lm) stateAfter(path []int32) uint32 {
	if len(path) == 0 {
		return 0
	}
	return m.slots.at[path[len(path)-1]]
}

// stay ends a sequence's wait: it goes on from what the card has.
func (m *lm) stay(s *seq) {
	m.leave(s)
	m.rest(s)
	if s.usage.Output == 0 {
		s.usage.Cached = len(s.path)
	}
}

// stashState is stash for a model with states: a piece of the snapshot that was used longest ago of those that memory has not.
func (m *lm) stashState() (bool, error) {
	t, p := m.tier, m.slots
	slot := m.unshelved()
	if slot == 0 {
		return false, nil
	}
	var path []int32
	root := p.node[slot]
	for ; root >= 0; root = m.cells.parent[root] {
		path = append(path, root)
	}
	slices.Reverse(path)
	var cells []uint32
	var to []int32
	last := none
	t.locked(func() { cells, to, last = m.behind(path, root, slot) })
	switch {
	case len(cells) > 0:
		return m.stashRows(cells, to)
	case last == none:
		t.locked(func() { t.shelf.left[slot], t.shelf.half = p.use[slot], nil })
		return true, nil
	}
	defer t.locked(func() { t.c.release(last) })
	h := t.shelf.half
	n := min(m.shape.StatePiece(), len(h.state)-h.at)
	t0 := m.card.now()
	err := m.card.travel(func() error { return m.model.SaveState(slot, h.at, h.state[h.at:h.at+n]) })
	took := (m.card.now() - t0).Seconds()
	if err != nil {
		t.locked(func() { t.shelf.half = nil })
		if t.off = true; axcl.Fatal(err) {
			return true, err
		}
		return true, m.card.strike(err)
	}
	t.outBytes += uint64(n)
	if h.at += n; h.at == len(h.state) {
		t.locked(func() { t.shelf.half, t.shelf.states[last] = nil, h.state })
	}
	m.tierStats(took)
	return true, nil
}

// unshelved is the slot whose snapshot is to go to memory: the one that is under way, or the one that was used longest ago. 0: there is
// none.
func (m *lm) unshelved() (slot uint32) {
	t, p := m.tier, m.slots
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	if h := t.shelf.half; h != nil {
		if p.node[h.slot] != none && p.use[h.slot] == h.use {
			return h.slot
		}
		t.shelf.half = nil // it went while it was copied
	}
	for at, n := range p.node {
		if n == none || p.less[at] || t.shelf.left[at] == p.use[at] || t.copied(n) && t.shelf.states[t.kept[n]] != nil {
			continue
		}
		if slot == 0 || m.cells.used[n] < m.cells.used[p.node[slot]] {
			slot = uint32(at)
		}
	}
	return slot
}

// behind gives the cells of the next piece that has to go before the snapshot after path, and the row in memory that it goes behind, held,
// with the rows that are taken for it; where there is none, the row after which the snapshot belongs, held, with room for it under way.
// None of both: it is there, not worth it, or there is no room. Memory's lock is held.
func (m *lm) behind(path []int32, root int32, slot uint32) (cells []uint32, to []int32, last int32) {
	t := m.tier
	//rule:T17 TestStatesInMemoryKeys m.cells.names[^root] => ""
	under, first, had := t.c.root(m.cells.names[^root]), 0, 0
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
		if under = h; t.shelf.states[h] != nil {
			had = first + 1
		}
	}
	if had == len(path) {
		return nil, nil, none
	}
	if missing := len(path) - first; missing > 0 {
		const chance = 0.5 // of being asked for
		saves := m.redo(0, len(path)) - m.redo(0, had) - t.shelf.in - t.in.cost(len(path)-had, t.piece)
		n := min(missing, t.piece)
		for _, c := range path[first : first+n] {
			cells = append(cells, uint32(c))
		}
		n = t.out.most(cells, t.piece)
		if n == 0 || chance*saves <= t.shelf.out+t.out.cost(missing, t.piece) {
			return nil, nil, none
		}
		t.c.hold(under)
		if n = t.memory.room(t, n); n == 0 {
			t.c.release(under)
			return nil, nil, none
		}
		to, _ = t.c.take([]int32{under}, n, 0, false)
		return cells[:n], to, none
	}
	t.c.hold(under)
	if t.shelf.half == nil {
		for t.memory.limit-t.memory.used() < int64(t.shelf.bytes) {
			if !t.memory.evict(int64(t.shelf.bytes)) {
				t.c.release(under)
				return nil, nil, none
			}
		}
		t.shelf.half = &half{slot: slot, use: m.slots.use[slot], state: make([]byte, t.shelf.bytes)}
	}
	return nil, nil, under
}
