package cache

// This file keeps snapshots of states in this machine's memory. A snapshot hangs there on the row
// after which it was made. Neither is of use without the other. The rows are copied first, then the
// state, in both directions.

// ramSnapshots is the part of a RAM tier that keeps snapshots.
type ramSnapshots struct {
	StateIn, StateOut float64 // seconds to copy a state to the card, and from it

	snapshots  *Snapshots       // nil: the model has no states, or they are not kept
	stateBytes int              // of a state
	states     map[int32][]byte // by the row in memory after which the state was made
	pending    *Pending         // the one that is being copied
	passed     []uint64         // of each slot: the use for which copying was found not to pay
}

// Pending is a snapshot that is partly copied to memory. It counts in full.
type Pending struct {
	Slot  uint32
	State []byte
	At    int    // bytes copied so far
	use   uint64 // of the slot: if it changes, the slot holds something else
	last  int32  // the row in memory on which it will hang, held
}

// OpenStates makes the tier keep snapshots too, of this many bytes. in and out are the seconds to
// copy one to the card and from it.
func (r *RAM) OpenStates(bytes int, in, out float64) {
	r.snapshots, r.stateBytes, r.StateIn, r.StateOut = r.card.snapshots, bytes, in, out
	r.states, r.passed = map[int32][]byte{}, make([]uint64, len(r.snapshots.node))
}

// States returns the number of snapshots.
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

// held returns the bytes of all snapshots.
func (s *ramSnapshots) held() int64 {
	n := int64(len(s.states))
	if s.pending != nil {
		n++
	}
	return n * int64(s.stateBytes)
}

// deepest returns the last row of the longest prefix of ids with a state in memory, and the
// prefix's length.
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

// StateBeyond returns the length of the longest prefix of ids with a state in memory, and how many
// of its rows are not on the card. It marks the prefix used. It returns 0 if that is no longer than
// what s stands on.
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

// State returns the state after ids; nil if it is not in memory.
func (r *RAM) State(key string, ids []int32) []byte {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	if h, n := r.deepest(key, ids); n == len(ids) {
		return r.states[h]
	}
	return nil
}

// ChooseState returns the next piece to copy of the least recently used snapshot that is not in
// memory: rows before it, or any number of its own bytes. If rows are missing, worth says whether
// copying pays. It gets the text's length, the length up to which memory has a snapshot, and how
// many rows are missing. If there is no piece, ChooseState reports whether another call may find
// one.
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
	leave := func() (Piece, *Pending, bool) { // it is in memory, does not pay, or has no room
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

// StoreState counts the next n bytes of a snapshot as copied, or drops it if the call failed.
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

// nextSnapshot returns the slot of the snapshot to copy: the pending one, or the least recently
// used; 0 for none. Memory's lock is held.
func (r *RAM) nextSnapshot() (slot uint32) {
	p := r.snapshots
	if h := r.pending; h != nil {
		if p.node[h.Slot] != none && p.use[h.Slot] == h.use {
			return h.Slot
		}
		r.pending = nil // it was evicted while it was copied
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
