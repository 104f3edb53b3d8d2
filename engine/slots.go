package engine

import (
	"iter"
	"slices"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/cache"
)

// This file is for models of which layers keep a state (axcl.Pass.From, cache.Snapshots).
//
// Snapshots are left where the next request is likely to go on from: at the prompt's end but for what a template puts before an answer
// (thinking is cut out of a history, so that the very end does not come again), where the last turn of the user begins, after each chunk on
// the way, and where an answer ends. As many sequences run at once as there are slots: so there always is one to be had.
//
// A pass carries rows of one sequence, turn about. Nothing is guessed: a state that has seen a wrong guess would have to be made again.

// beforeEnd is how far from a prompt's end a snapshot is left where its last turn cannot be told: more than what templates put there.
const beforeEnd = 8

// rest puts a sequence on what is kept of its text, where that is more than it stands on. It has no slot of its own then.
func (m *layout) rest(s *seq) {
	path, slot := m.cache.Match(s.Key, s.ids, len(s.ids)-1)
	if len(path) <= len(s.Path) || len(m.worth(s, path)) < len(path) {
		return
	}
	if s.begun && s.usage.Output == 0 {
		s.usage.Cached += len(path) - len(s.Path)
	}
	m.cache.Stand(&s.Seq, path, slot)
}

// mark leaves a sequence's state at the node that it stands on, for others; on the way says that a better one is to come. The sequence goes
// on from it.
func (m *core) mark(s *seq, way bool) {
	//rule:G17 TestStatesLeft || s.Bring > 0 =>
	if s.solo || s.Bring > 0 {
		return
	}
	m.cache.Snapshot(&s.Seq, way, m.places())
}

// places are where the sequences stand that run.
func (m *core) places() iter.Seq[*cache.Seq] {
	return func(yield func(*cache.Seq) bool) {
		for _, s := range m.running {
			if !yield(&s.Seq) {
				return
			}
		}
	}
}

// stops are the lengths of s's prompt at which its state is to be kept, ascending: where the last turn of the user begins, and the turn
// after it, which is to be answered.
func (m *core) stops(s *seq) (at []int) {
	end := s.prompt
	turn, answer := m.turns(s.ids[:end])
	if answer == 0 || answer < end-4*beforeEnd || answer >= end {
		answer = end - beforeEnd
	}
	// One that saves less than a few rows is not worth a pass.
	if turn > 0 && turn+beforeEnd < answer {
		at = append(at, turn)
	}
	if answer > 0 {
		at = append(at, answer)
	}
	return at
}

// turns are where the last two turns of a prompt begin: at the last control token that occurs more than once, and where it occurs before. 0
// where there is none.
func (m *core) turns(ids []int32) (turn, answer int) {
	if m.tokenizer == nil {
		return 0, 0
	}
	seen := map[int32]int{}
	for i, id := range ids {
		if id >= 0 && m.tokenizer.Control(id) {
			if before, ok := seen[id]; ok {
				turn, answer = before, i
			}
			seen[id] = i
		}
	}
	return turn, answer
}

// inOwnTurn plans the next pass of a model with states: the one that waited longest, a chunk of its prompt up to where its state is to be
// kept, or one row.
func (m *planner) inOwnTurn(s *seq) []share {
	if !s.solo && !s.whole() && s.pending() > 1 && m.proven.Kept {
		m.layout.rest(s)
	}
	if s.solo {
		return m.inTurn(s)
	}
	from, n := len(s.Path), s.pending()
	if !s.whole() {
		for _, at := range s.stops {
			if at > from && (at > from+1 || !s.pictureNext()) {
				n = min(n, at-from)
				break
			}
		}
	}
	reach := s.Reach()
	n = min(n, m.widest(reach))
	g := m.shape.GroupFor(max(n, 2), reach)
	if n < 2 || g < 0 || reach > m.wideReach || !m.proven.Chunk ||
		m.costs.group[g] >= float64(n)*m.lone(reach) && !s.pictureNext() {
		n = 1
	}
	m.batch.shares = append(m.batch.shares, share{s: s, from: from, n: n})
	return m.batch.shares
}

// states fills in where the pass's state comes from and goes to. It fails with errNoCells where there is no slot.
func (m *batch) states() error {
	s := m.shares[0].s
	to, ok := m.cache.Into(&s.Seq)
	if !ok && m.aside() {
		to, ok = m.cache.Into(&s.Seq)
	}
	if !ok {
		return errNoCells
	}
	m.pass.From, m.pass.To, m.pass.Single = s.State, to, m.proven.Stepped
	return nil
}

// lost is what follows a pass that failed: the slot that it was to fill holds nothing, and a sequence whose own it was goes on from what is
// kept. unsent says that the pass was never run.
func (m *batch) lostState(unsent bool) {
	if m.pass.To == 0 || len(m.shares) == 0 {
		return
	}
	s, to := m.shares[0].s, m.pass.To
	m.pass.To = 0
	if m.cache.Failed(&s.Seq, to, unsent) {
		//rule:G12 TestStatesFaults drop
		m.leave(s)
	}
}

// moved is what follows a pass that ran: its sequence's state is that after its new rows, and is kept where it is of use.
func (m *batch) moved(h *share) {
	s := h.s
	m.cache.Passed(&s.Seq, m.pass.To)
	m.pass.To = 0
	if s.pending() == 0 || s.whole() || !m.proven.Kept {
		return
	}
	m.mark(s, !slices.Contains(s.stops, len(s.Path)))
}

// scratch is a slot for a pass that belongs to no sequence, and what gives it back.
func (m *core) scratch() (slot uint32, back func(), ok bool) {
	slot, ok = m.cache.Scratch()
	return slot, func() { m.cache.Give(slot) }, ok
}

// sequent makes the rows of a pass see each other as those of one sequence do, where the model keeps a state, and go on from where it says.
func (m *core) sequent(p *axcl.Pass, from, to uint32) {
	if !m.limits.Stops {
		return
	}
	p.From, p.To, p.Single = from, to, m.proven.Stepped
	rw := axcl.Words(p.Rows())
	for r := range p.Rows() {
		for e := range r {
			p.SeeRows[r*rw+e/64] |= 1 << (e % 64)
		}
	}
}
