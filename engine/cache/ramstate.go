package cache

// This file keeps snapshots of states in this machine's memory. There a snapshot hangs on the row
// that it was after. It is of use with its rows only, and they with it only: rows go first, then
// the state; they come back in the same order.

// ramSnapshots is what a RAM tier has of snapshots.
type ramSnapshots struct {
	StateIn, StateOut float64 // seconds that a state takes to the card, and from there

	snapshots  *Snapshots       // nil: the model has no states, or none of them is kept
	stateBytes int              // of a state
	states     map[int32][]byte // of each row in memory that a state is kept after
	pending    *Pending         // one on its way there
	passed     []uint64         // of each slot: its use in which it was found not to be worth the way
}

// Pending is a snapshot with some of its bytes in memory. It counts as whole.
type Pending struct {
	Slot  uint32
	State []byte
	At    int    // this many bytes of it are there
	use   uint64 // of the slot: another means that it holds something else by now
	last  int32  // the row in memory that it comes to, held
}

// OpenStates has the tier keep snapshots of this many bytes too, which take this many seconds to
// the card and from there.
func (r *RAM) OpenStates(bytes int, in, out float64) {
	r.snapshots, r.stateBytes, r.StateIn, r.StateOut = r.card.snapshots, bytes, in, out
	r.states, r.passed = map[int32][]byte{}, make([]uint64, len(r.snapshots.node))
}

// States is how many snapshots there are.
func (r *RAM) States() int {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	return len(r.states)
}

// ForgetStates drops all snapshots.
func (r *RAM) ForgetStates() {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	clear(r.states)
	r.pending = nil
}

// held is what snapshots take.
func (s *ramSnapshots) held() int64 {
	n := int64(len(s.states))
	if s.pending != nil {
		n++
	}
	return n * int64(s.stateBytes)
}

// deepest is the row of the longest prefix of ids that a state is kept after, and how long it is.
func (r *RAM) deepest(key string, ids []int32) (h int32, length int) {
	h = none
	at := r.tree.root(key)
	for i, id := range ids {
		if at = r.tree.find(at, id); at == none {
			break
		}
		if r.states[at] != nil {
			h, length = at, i+1
		}
	}
	return h, length
}

// StateBeyond is the length of the longest prefix of ids that a state is kept after, used now, and
// how many of its rows are not on the card; 0 where it is no longer than what s stands on.
func (r *RAM) StateBeyond(s *Seq, ids []int32) (length, missing int) {
	if r.snapshots == nil {
		return 0, 0
	}
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	_, length = r.deepest(s.Key, ids)
	if length <= len(s.Path) {
		return 0, 0
	}
	r.tree.Match(s.Key, ids, length)
	return length, length - len(r.card.Peek(s.Key, ids[:length]))
}

// State is the state after ids; nil where it is not there.
func (r *RAM) State(key string, ids []int32) []byte {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	if h, n := r.deepest(key, ids); n == len(ids) {
		return r.states[h]
	}
	return nil
}

// ChooseState gives the next piece that goes to memory of the snapshot that was used longest ago of
// those that it has not: rows that it is after, or its own bytes, of which any number may go. worth
// says whether it pays, where rows are missing: it is told the text's length, how many rows in
// memory a snapshot is after, and how many are missing. Where there is no piece ChooseState reports
// whether another look may find one.
func (r *RAM) ChooseState(worth func(length, had, missing int) bool) (rows Piece, state *Pending, again bool) {
	if r.snapshots == nil {
		return rows, nil, false
	}
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	slot := r.nextSnapshot()
	if slot == 0 {
		return rows, nil, false
	}
	path, root := r.card.pathTo(r.snapshots.node[slot])
	had := 0
	first, under := r.walk(path, root, func(h int32, length int) {
		if r.states[h] != nil {
			had = length
		}
	})
	leave := func() (Piece, *Pending, bool) { // it is there, not worth it, or there is no room
		r.passed[slot], r.pending = r.snapshots.use[slot], nil
		return Piece{}, nil, true
	}
	if had == len(path) {
		return leave()
	}
	if missing := len(path) - first; missing > 0 {
		p := r.next(path[first:min(len(path), first+r.piece)])
		if len(p.Cells) == 0 || !worth(len(path), had, missing) {
			return leave()
		}
		p, ok := r.behind(p, under)
		if !ok {
			return leave()
		}
		return p, nil, true
	}
	r.tree.hold(under)
	if r.pending == nil {
		for r.memory.limit-r.memory.used() < int64(r.stateBytes) {
			if !r.memory.evict(int64(r.stateBytes)) {
				r.tree.release(under)
				return leave()
			}
		}
		r.pending = &Pending{Slot: slot, use: r.snapshots.use[slot], State: make([]byte, r.stateBytes)}
	}
	r.pending.last = under
	return rows, r.pending, true
}

// StoreState ends the way of a snapshot's next n bytes, which are there, or the call failed.
func (r *RAM) StoreState(h *Pending, n int, failed bool) {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	switch h.At += n; {
	case failed:
		r.pending = nil
	case h.At == len(h.State):
		r.pending, r.states[h.last] = nil, h.State
	}
	r.tree.release(h.last)
}

// nextSnapshot is the slot whose snapshot is to go to memory: the one that is under way, or the one
// that was used longest ago. 0: there is none. Memory's lock is held.
func (r *RAM) nextSnapshot() (slot uint32) {
	p := r.snapshots
	if h := r.pending; h != nil {
		if p.node[h.Slot] != none && p.use[h.Slot] == h.use {
			return h.Slot
		}
		r.pending = nil // it went while it was copied
	}
	for at, n := range p.node {
		if n == none || p.interim[at] || r.passed[at] == p.use[at] || r.copied(n) && r.states[r.copyOf[n]] != nil {
			continue
		}
		if slot == 0 || r.card.used[n] < r.card.used[p.node[slot]] {
			slot = uint32(at)
		}
	}
	return slot
}
