package cache

import (
	"iter"
	"math"
)

// Cache holds what sequences are continued from: rows alone, or rows with states. [Cache.Limits]
// says what may be done with them, so that a scheduler need not know which it has. See
// [Tree.Cache].
type Cache interface {
	// Limits never changes.
	Limits() Limits

	// Match returns the longest prefix of ids, at most limit of them, from which a sequence of
	// key's can be continued, and the slot of the state after it. It marks the prefix used.
	Match(key string, ids []int32, limit int) (path []int32, slot uint32)
	// Stand puts a sequence on a path. It is continued from there with the state in slot.
	Stand(s *Seq, path []int32, slot uint32)
	// Leave takes a sequence off its path. The rows stay as a cache. A state that was the
	// sequence's own is freed.
	Leave(s *Seq)

	// Into returns the slot for the state that the next pass of s leaves. ok is false if there is
	// none.
	Into(s *Seq) (slot uint32, ok bool)
	// Passed says that a pass has left the state of s in slot. Failed says that it has not, and
	// reports whether the state that s is continued from is lost. unsent: the pass was never run.
	Passed(s *Seq, slot uint32)
	Failed(s *Seq, slot uint32, unsent bool) (lost bool)
	// Snapshot makes a sequence's own state a snapshot at its last row. interim says that a better
	// one will follow. The sequence is continued from it, and so are those of seqs that wait for a
	// state there.
	Snapshot(s *Seq, interim bool, seqs iter.Seq[*Seq])

	// Scratch returns a slot for a pass that belongs to no sequence. ok is false if there is none.
	// Give gives it back.
	Scratch() (slot uint32, ok bool)
	Give(slot uint32)

	// Slots returns how many slots there are, how many hold a state, and how many of these are
	// snapshots.
	Slots() (all, used, kept int)
	// Waits reports whether rows or a state of s are still being restored.
	Waits(s *Seq) bool
	// Ample reports whether there is room without evicting: half of all cells, and half of those
	// below reach, are free.
	Ample(reach int) bool
	// Check returns an error for a slot whose account is wrong. coming are the slots to which a
	// state is being restored.
	Check(seqs iter.Seq[*Seq], coming []uint32) error
}

// Limits says what a cache allows.
type Limits struct {
	Sequences int  // sequences that run at once
	Together  bool // rows of several sequences may share a pass
	Stops     bool // a text can be continued only from where a pass has ended
	Back      bool // a row may be taken back, so guesses may be wrong
	Move      bool // a row may move to another cell
}

// Cache returns a cache of the tree's rows alone if slots is 0, else one with states in this many
// slots.
func (t *Tree) Cache(slots int) Cache {
	if slots == 0 {
		return rows{t}
	}
	t.snapshots = newSnapshots(slots, t)
	return t.snapshots
}

// rows is a Cache of rows alone.
type rows struct{ t *Tree }

func (rows) Limits() Limits {
	return Limits{Sequences: math.MaxInt, Together: true, Back: true, Move: true}
}

func (r rows) Match(key string, ids []int32, limit int) ([]int32, uint32) {
	return r.t.Match(key, ids, limit), 0
}

func (r rows) Stand(s *Seq, path []int32, _ uint32) { r.t.Stand(s, path) }
func (r rows) Leave(s *Seq)                         { r.t.leave(s) }
func (rows) Into(*Seq) (uint32, bool)               { return 0, true }
func (rows) Passed(*Seq, uint32)                    {}
func (rows) Failed(*Seq, uint32, bool) bool         { return false }
func (rows) Snapshot(*Seq, bool, iter.Seq[*Seq])    {}
func (rows) Scratch() (uint32, bool)                { return 0, true }
func (rows) Give(uint32)                            {}
func (rows) Slots() (all, used, kept int)           { return 0, 0, 0 }
func (rows) Waits(s *Seq) bool                      { return s.RestoreTo > len(s.Path) }
func (rows) Check(iter.Seq[*Seq], []uint32) error   { return nil }

func (r rows) Ample(reach int) bool {
	return 2*r.t.Free() > r.t.Size() && 2*r.t.FreeBelow(reach) > reach
}
