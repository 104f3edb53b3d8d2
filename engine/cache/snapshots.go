package cache

import (
	"fmt"
	"iter"
)

// Snapshots records which slot holds which state (axcl.Pass.From). Recurrent layers keep one state
// for all rows of a text. It cannot be divided, and lies in a slot. A sequence has its own slot for
// the state after its rows, which each pass replaces. A snapshot is a slot that is no longer
// changed. It hangs on the node of the tree after whose row the state was made. A text that begins
// alike is continued from the deepest snapshot, and what follows it is evaluated again. A snapshot
// costs only a slot: the next pass leaves its state in another.
//
// Interim snapshots, which a better one will follow, are evicted first, then the least recently
// used. A snapshot that a sequence is continued from stays.
type Snapshots struct {
	tree    *Tree
	free    []uint32
	at      []uint32 // of each cell: the slot with the state after its row; 0: none
	node    []int32  // of each slot: the node on which it hangs, or none
	interim []bool   // of each slot: an interim snapshot, which a better one will follow
	use     []uint64 // of each slot: how many times it was taken
}

// newSnapshots returns the Snapshots of n slots. The tree tells it about dropped nodes.
func newSnapshots(n int, t *Tree) *Snapshots {
	p := &Snapshots{tree: t, at: make([]uint32, t.Size()), node: make([]int32, n+1), interim: make([]bool, n+1), use: make([]uint64, n+1)}
	for i := n; i >= 1; i-- {
		p.free, p.node[i] = append(p.free, uint32(i)), none
	}
	p.node[0] = none
	t.dropped = p.drop
	return p
}

// Limits: see [Cache]. A pass carries rows of one sequence. A state that has seen a wrong guess
// would have to be computed again.
func (p *Snapshots) Limits() Limits {
	return Limits{Sequences: len(p.node) - 1, Stops: true}
}

// Slots: see [Cache].
func (p *Snapshots) Slots() (all, used, kept int) {
	for _, at := range p.node {
		if at != none {
			kept++
		}
	}
	return len(p.node) - 1, len(p.node) - 1 - len(p.free), kept
}

// Waits: see [Cache].
func (p *Snapshots) Waits(s *Seq) bool { return s.RestoreTo > 0 }

// Ample: see [Cache].
func (p *Snapshots) Ample(int) bool { return len(p.free) > 0 }

// drop frees the snapshot of a dropped node.
func (p *Snapshots) drop(n int32) {
	if slot := p.at[n]; slot != 0 {
		p.at[n], p.node[slot] = 0, none
		p.free = append(p.free, slot)
	}
}

// Take returns a slot for a state: a free one, or that of the least useful snapshot. If cheap is
// set, only interim snapshots are evicted. It returns 0 if all slots are in use.
func (p *Snapshots) Take(cheap bool) uint32 {
	if len(p.free) == 0 {
		worst := none
		for slot, n := range p.node {
			if n == none || p.tree.refs[n] > 0 || cheap && !p.interim[slot] {
				continue
			}
			if worst == none || p.interim[slot] && !p.interim[worst] ||
				p.interim[slot] == p.interim[worst] && p.tree.used[n] < p.tree.used[p.node[worst]] {
				worst = int32(slot)
			}
		}
		if worst == none {
			return 0
		}
		p.drop(p.node[worst])
	}
	slot := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.use[slot]++
	return slot
}

// Give: see [Cache]. Slot 0 is ignored.
func (p *Snapshots) Give(slot uint32) {
	if slot != 0 {
		p.free = append(p.free, slot)
	}
}

// Scratch: see [Cache].
func (p *Snapshots) Scratch() (uint32, bool) {
	slot := p.Take(false)
	return slot, slot != 0
}

// After returns the snapshot at the end of a path; 0 for none.
func (p *Snapshots) After(path []int32) uint32 {
	if len(path) == 0 {
		return 0
	}
	return p.at[path[len(path)-1]]
}

// Use returns a number that changes each time the slot is taken. It tells a slot's contents from
// earlier ones.
func (p *Snapshots) Use(slot uint32) uint64 { return p.use[slot] }

// Interim reports whether the snapshot in a slot is an interim one, which a better one will follow.
func (p *Snapshots) Interim(slot uint32) bool { return p.interim[slot] }

// Match: see [Cache].
func (p *Snapshots) Match(key string, ids []int32, limit int) (path []int32, slot uint32) {
	if path, slot = p.Peek(key, ids[:min(limit, len(ids))]); slot != 0 {
		p.tree.touch()
		for _, n := range path {
			p.tree.used[n] = p.tree.tick
		}
	}
	return path, slot
}

// Peek is Match that marks nothing used. Rows that were evaluated again are siblings of equal rows,
// so it follows all of them.
func (p *Snapshots) Peek(key string, ids []int32) (path []int32, slot uint32) {
	best := none
	here, next := []int32{p.tree.root(key)}, []int32(nil)
	for _, id := range ids {
		next = next[:0]
		for _, parent := range here {
			for n := p.tree.first(parent); n != none; n = p.tree.next[n] {
				if p.tree.token[n] == id {
					if next = append(next, n); p.at[n] != 0 {
						best = n
					}
				}
			}
		}
		if here, next = next, here; len(here) == 0 {
			break
		}
	}
	if best == none {
		return nil, 0
	}
	path, _ = p.tree.pathTo(best)
	return path, p.at[best]
}

// Hang makes a slot the snapshot after node n, which has none. Those of seqs that wait for a state
// there get it.
func (p *Snapshots) Hang(slot uint32, n int32, interim bool, seqs iter.Seq[*Seq]) {
	p.at[n], p.node[slot], p.interim[slot] = slot, n, interim
	for s := range seqs {
		if s.RestoreTo > 0 && !s.Own && p.tree.Tip(s) == n {
			s.State = slot
		}
	}
}

// Snapshot: see [Cache].
func (p *Snapshots) Snapshot(s *Seq, interim bool, seqs iter.Seq[*Seq]) {
	if !s.Own || len(s.Path) == 0 {
		return
	}
	n := s.Path[len(s.Path)-1]
	if p.at[n] == 0 {
		p.Hang(s.State, n, interim, seqs)
		s.Own = false
		return
	}
	p.interim[p.at[n]] = p.interim[p.at[n]] && interim
	p.letGo(s) // there is a snapshot already
	s.State = p.at[n]
}

// Stand: see [Cache].
func (p *Snapshots) Stand(s *Seq, path []int32, slot uint32) {
	p.letGo(s)
	p.tree.Stand(s, path)
	s.State = slot
}

// Leave: see [Cache].
func (p *Snapshots) Leave(s *Seq) {
	p.letGo(s)
	p.tree.leave(s)
}

// letGo gives back the sequence's own slot.
func (p *Snapshots) letGo(s *Seq) {
	if s.Own {
		p.Give(s.State)
	}
	s.State, s.Own, s.RestoreTo, s.Restored = 0, false, 0, 0
}

// Into: see [Cache]. If no other slot is free, a snapshot that only this sequence is continued from
// becomes its own again.
func (p *Snapshots) Into(s *Seq) (slot uint32, ok bool) {
	if s.Own {
		return s.State, true
	}
	alone := false // no other sequence stands on its last row
	if len(s.Path) > 0 {
		alone = p.tree.refs[s.Path[len(s.Path)-1]] == 1
	}
	if slot := p.Take(alone && p.interim[s.State]); slot != 0 || !alone {
		return slot, slot != 0
	}
	n := s.Path[len(s.Path)-1]
	p.at[n], p.node[s.State] = 0, none
	p.use[s.State]++
	s.Own = true
	return s.State, true
}

// Passed: see [Cache].
func (p *Snapshots) Passed(s *Seq, slot uint32) { s.State, s.Own = slot, true }

// Failed: see [Cache]. A slot that the pass was to fill, and that was not the sequence's, holds
// nothing.
func (p *Snapshots) Failed(s *Seq, slot uint32, unsent bool) (lost bool) {
	if !s.Own || s.State != slot {
		p.Give(slot)
		return false
	}
	return !unsent
}

// Check: see [Cache]. Each slot is exactly one of these: free, a snapshot, a sequence's own, or
// being restored.
func (p *Snapshots) Check(seqs iter.Seq[*Seq], coming []uint32) error {
	has := make([]int, len(p.node))
	for _, slot := range p.free {
		has[slot]++
	}
	for _, slot := range coming {
		has[slot]++
	}
	for slot, n := range p.node {
		if n != none {
			if has[slot]++; p.at[n] != uint32(slot) || p.tree.state[n] != cellNode {
				return fmt.Errorf("slot %d hangs on cell %d, which has slot %d and is in state %d", slot, n, p.at[n], p.tree.state[n])
			}
		}
	}
	for s := range seqs {
		switch {
		case s.Own:
			has[s.State]++
		case len(s.Path) == 0 && s.State != 0, len(s.Path) > 0 && s.State != p.at[s.Path[len(s.Path)-1]]:
			return fmt.Errorf("a sequence of %d rows goes on from slot %d, which is not kept there", len(s.Path), s.State)
		}
	}
	for slot, n := range has[1:] {
		if n != 1 {
			return fmt.Errorf("slot %d is accounted for %d times", slot+1, n)
		}
	}
	return nil
}
