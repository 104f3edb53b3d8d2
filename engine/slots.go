package engine

import (
	"slices"

	"github.com/axle-llm/axle/axcl"
)

// This file is for models of which layers keep a state (axcl.Pass.From): a state stands for all rows of a text, cannot be taken apart, and
// lies in a slot. A sequence has a slot of its own for the state after its rows, which each pass replaces. A slot that is left as it is
// hangs on the node of the tree after whose row it was, as a snapshot: a text that begins alike goes on from the deepest one there is, and
// what lies behind that is evaluated again. Making one costs nothing but the slot; the next pass leaves its state in another.
//
// Snapshots are left where the next request is likely to go on from: at the prompt's end but for what a template puts before an answer
// (thinking is cut out of a history, so that the very end does not come again), where the last turn of the user begins, after each chunk on
// the way, and where an answer ends. Those on the way go first, then what was used longest ago; one that a sequence goes on from stays. As
// many sequences run at once as there are slots: so there always is one to be had.
//
// A pass carries rows of one sequence, turn about. Nothing is guessed: a state that has seen a wrong guess would have to be made again.

// slots keeps account of a model's states. Everything in it belongs to the card's worker.
type slots struct {
	c    *cells
	free []uint32
	at   []uint32 // of each cell: the slot with the state after its row; 0: none is kept
	node []int32  // of each slot: the node that it hangs on, or none
	less []bool   // of each slot: a snapshot on the way
	use  []uint64 // of each slot: how often it was taken
}

// beforeEnd is how far from a prompt's end a snapshot is left where its last turn cannot be told: more than what templates put there.
const beforeEnd = 8

func newSlots(n int, c *cells) *slots {
	if n == 0 {
		return nil
	}
	p := &slots{c: c, at: make([]uint32, c.size()), node: make([]int32, n+1), less: make([]bool, n+1), use: make([]uint64, n+1)}
	for i := n; i >= 1; i-- {
		p.free, p.node[i] = append(p.free, uint32(i)), none
	}
	p.node[0] = none
	c.dropped = p.drop
	return p
}

// size is how many there are.
func (p *slots) size() int { return len(p.node) - 1 }

// drop frees the snapshot of a node that goes.
func (p *slots) drop(n int32) {
	if slot := p.at[n]; slot != 0 {
		p.at[n], p.node[slot] = 0, none
		p.free = append(p.free, slot)
	}
}

// take is a slot for a state: a free one, or that of the snapshot which is missed the least, one on the way if cheap is set; 0 where there
// is none that is not in use.
func (p *slots) take(cheap bool) uint32 {
	if len(p.free) == 0 {
		worst := none
		for slot, n := range p.node {
			if n == none || p.c.refs[n] > 0 || cheap && !p.less[slot] {
				continue
			}
			if worst == none || p.less[slot] && !p.less[worst] || p.less[slot] == p.less[worst] && p.c.used[n] < p.c.used[p.node[worst]] {
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

// give returns a slot whose state nobody needs.
func (p *slots) give(slot uint32) {
	if slot != 0 {
		p.free = append(p.free, slot)
	}
}

// kept says how many hold snapshots.
func (p *slots) kept() (n int) {
	for _, at := range p.node {
		if at != none {
			n++
		}
	}
	return n
}

// deepest is the longest prefix of ids below root whose state is kept, at most limit of them, and its slot, used now.
func (p *slots) deepest(root int32, ids []int32, limit int) (path []int32, slot uint32) {
	if path, slot = p.peek(root, ids[:min(limit, len(ids))]); slot != 0 {
		p.c.touch()
		for _, n := range path {
			p.c.used[n] = p.c.tick
		}
	}
	return path, slot
}

// peek is deepest that marks nothing used. Rows that were evaluated again lie beside those that they are alike to: all of them are looked
// at.
func (p *slots) peek(root int32, ids []int32) (path []int32, slot uint32) {
	best := none
	here, next := []int32{root}, []int32(nil)
	for _, id := range ids {
		next = next[:0]
		for _, parent := range here {
			for n := p.c.first(parent); n != none; n = p.c.next[n] {
				if p.c.token[n] == id {
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
	for n := best; n >= 0; n = p.c.parent[n] {
		path = append(path, n)
	}
	slices.Reverse(path)
	return path, p.at[best]
}

// rest puts a sequence on what is kept of its text, where that is more than it stands on. It has no slot of its own then.
func (m *lm) rest(s *seq) {
	path, slot := m.slots.deepest(m.cells.root(s.job.Key), s.ids, len(s.ids)-1)
	if len(path) <= len(s.path) || len(m.worth(s, path)) < len(path) {
		return
	}
	if s.begun && s.usage.Output == 0 {
		s.usage.Cached += len(path) - len(s.path)
	}
	m.letGo(s)
	s.stand(m.cells, path)
	s.state = slot
}

// letGo gives a sequence's own slot back.
func (m *lm) letGo(s *seq) {
	if m.slots != nil && s.own {
		m.slots.give(s.state)
	}
	if s.state, s.own = 0, false; m.slots != nil {
		s.bring, s.coming = 0, 0
	}
}

// mark leaves a sequence's state at the node that it stands on, for others; on the way says that a better one is to come. The sequence goes
// on from it.
func (m *lm) mark(s *seq, way bool) {
	p := m.slots
	//rule:G17 TestStatesLeft || s.bring > 0 =>
	if p == nil || !s.own || len(s.path) == 0 || s.solo || s.bring > 0 {
		return
	}
	n := s.path[len(s.path)-1]
	if p.at[n] == 0 {
		m.hang(s.state, n, way)
		s.own = false
		return
	}
	p.less[p.at[n]] = p.less[p.at[n]] && way
	m.letGo(s) // there is one already
	s.state = p.at[n]
}

// hang makes a slot the snapshot at node n, which has none.
func (m *lm) hang(slot uint32, n int32, way bool) {
	p := m.slots
	p.at[n], p.node[slot], p.less[slot] = slot, n, way
	for _, r := range m.running { // what waits for its state on these rows has found it
		if r.bring > 0 && !r.own && r.tip(m.cells) == n {
			r.state = slot
		}
	}
}

// into is the slot that the next pass of s leaves its state in; 0 where there is none to be had. Where no other is free, what the sequence
// alone goes on from is its own again.
func (m *lm) into(s *seq) uint32 {
	p := m.slots
	if s.own {
		return s.state
	}
	alone := false // on what it goes on from
	if len(s.path) > 0 {
		alone = m.cells.refs[s.path[len(s.path)-1]] == 1
	}
	if slot := p.take(alone && p.less[s.state]); slot != 0 || !alone {
		return slot
	}
	n := s.path[len(s.path)-1]
	p.at[n], p.node[s.state] = 0, none
	p.use[s.state]++
	s.own = true
	return s.state
}

// stops are the lengths of s's prompt at which its state is to be kept, ascending: where the last turn of the user begins, and the turn
// after it, which is to be answered.
func (m *lm) stops(s *seq) (at []int) {
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
func (m *lm) turns(ids []int32) (turn, answer int) {
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
func (m *lm) inOwnTurn(s *seq) []share {
	if !s.solo && !s.whole() && s.pending() > 1 && m.proven.Kept {
		m.rest(s)
	}
	if s.solo {
		return m.inTurn(s)
	}
	from, n := len(s.path), s.pending()
	if !s.whole() {
		for _, at := range s.stops {
			if at > from && (at > from+1 || !s.pictureNext()) {
				n = min(n, at-from)
				break
			}
		}
	}
	reach := s.reach()
	n = min(n, m.widest(reach))
	g := m.shape.GroupFor(max(n, 2), reach)
	if n < 2 || g < 0 || reach > m.wideReach || !m.proven.Chunk ||
		m.costs.group[g] >= float64(n)*m.lone(reach) && !s.pictureNext() {
		n = 1
	}
	m.shares = append(m.shares, share{s: s, from: from, n: n})
	return m.shares
}

// states fills in where the pass's state comes from and goes to. It fails with errNoCells where there is no slot.
func (m *lm) states() error {
	if m.slots == nil {
		return nil
	}
	s := m.shares[0].s
	to := m.into(s)
	if to == 0 && m.aside() {
		to = m.into(s)
	}
	if to == 0 {
		return errNoCells
	}
	m.pass.From, m.pass.To, m.pass.Single = s.state, to, m.proven.Stepped
	return nil
}

// lost is what follows a pass that failed: the slot that it was to fill holds nothing, and a sequence whose own it was goes on from what is
// kept. unsent says that the pass was never run.
func (m *lm) lostState(unsent bool) {
	if m.slots == nil || m.pass.To == 0 || len(m.shares) == 0 {
		return
	}
	s, to := m.shares[0].s, m.pass.To
	m.pass.To = 0
	switch {
	case !s.own || s.state != to:
		m.slots.give(to)
	case !unsent:
		//rule:G12 TestStatesFaults drop
		m.leave(s)
	}
}

// moved is what follows a pass that ran: its sequence's state is that after its new rows, and is kept where it is of use.
func (m *lm) moved(h *share) {
	if m.slots == nil {
		return
	}
	s := h.s
	s.state, s.own = m.pass.To, true
	m.pass.To = 0
	if s.pending() == 0 || s.whole() || !m.proven.Kept {
		return
	}
	m.mark(s, !slices.Contains(s.stops, len(s.path)))
}

// scratch is a slot for a pass that belongs to no sequence, and what gives it back.
func (m *lm) scratch() (slot uint32, back func(), ok bool) {
	if m.slots == nil {
		return 0, func() {}, true
	}
	if slot = m.slots.take(false); slot == 0 {
		return 0, nil, false
	}
	return slot, func() { m.slots.give(slot) }, true
}

// sequent makes the rows of a pass see each other as those of one sequence do, where the model keeps a state, and go on from where it says.
func (m *lm) sequent(p *axcl.Pass, from, to uint32) {
	if m.slots == nil {
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
