package cache

import (
	"iter"
	"math"
)

// Cache is what a sequence goes on from: rows alone, or rows with states. It says what may be done
// with them ([Cache.Limits]), so that a scheduler need not know which it has. See [Tree.Cache].
type Cache interface {
	// Limits is the same at any time.
	Limits() Limits

	// Match is the longest prefix of ids, at most limit of them, from which a sequence of key's can
	// go on, and the slot of the state after it. What is found is marked used.
	Match(key string, ids []int32, limit int) (path []int32, slot uint32)
	// Stand puts a sequence on a path, from which it goes on with the state in a slot.
	Stand(s *Seq, path []int32, slot uint32)
	// Leave takes a sequence off what it stands on. It stays as a cache, but for a state that was
	// the sequence's own.
	Leave(s *Seq)

	// Into is the slot that the next pass of s leaves its state in. It is not ok where there is
	// none to be had.
	Into(s *Seq) (slot uint32, ok bool)
	// Passed says that a pass has left the state of s in such a slot; Failed that it has not, which
	// it reports to be the end of what s goes on from. unsent: the pass was never run.
	Passed(s *Seq, slot uint32)
	Failed(s *Seq, slot uint32, unsent bool) (lost bool)
	// Snapshot leaves a sequence's own state where it stands, for others; interim says that a
	// better one is to come. The sequence goes on from it. Those of seqs whose state was to come
	// there have found it.
	Snapshot(s *Seq, interim bool, seqs iter.Seq[*Seq])

	// Scratch is a slot for a pass that belongs to no sequence. It is not ok where there is none to
	// be had. Give gives it back.
	Scratch() (slot uint32, ok bool)
	Give(slot uint32)

	// Slots says how many there are, how many hold a state, and how many of those snapshots.
	Slots() (all, used, kept int)
	// Waits reports whether rows or a state of s are to come from elsewhere.
	Waits(s *Seq) bool
	// Ample reports whether there is room before anything is evicted: in half of all cells, and of
	// those below reach.
	Ample(reach int) bool
	// Check reports a slot whose account is wrong; coming are those that a state comes to from
	// elsewhere.
	Check(seqs iter.Seq[*Seq], coming []uint32) error
}

// Limits says what a cache allows.
type Limits struct {
	Sequences int  // that run at once
	Together  bool // rows of several sequences may share a pass
	Stops     bool // a text can be gone on from only where a pass has ended
	Back      bool // a row may be taken back: guesses may be wrong
	Move      bool // a row may go to another cell
}

// Cache is the tree's rows alone where the model has no slots, or with states in this many.
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
