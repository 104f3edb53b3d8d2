package engine

import (
	"cmp"
	"slices"
)

// This file decides what the next pass carries: whose rows, how many, and with which guesses.
// batch.go builds the pass.

// planner chooses what the next pass carries. Its fields after texts are scratch space.
type planner struct {
	*core
	layout *layout
	batch  *batch
	texts  keyTexts

	ready  []*seq
	tried  []int // used by bestReach
	asking []*seq
	askFor []int
}

// plan chooses the sequences of the next pass, and how many rows of each.
//
// The sequence that waited longest leads. It goes alone on the decode group, or with others in a
// wide pass that reaches them, whichever gives more rows for the time. A wide pass costs as much as
// its group, however many rows it carries, and each row alone costs as much as the decode group.
// Rows that must go through the head cost the same either way and do not count, unless the host may
// compute it.
func (m *planner) plan() []share {
	ready := m.ready[:0]
	for _, s := range m.running {
		if !s.box.full() {
			m.adopt(s)
			if s.relocating || m.cache.Waits(&s.Seq) || s.unseen() != nil || s.late != nil {
				continue // it waits for restored rows, for prepared cells, for the encoder, or for its head
			}
			ready = append(ready, s)
		}
	}
	m.ready = ready
	if len(ready) == 0 {
		return nil
	}
	m.batch.shares = m.batch.shares[:0]
	slices.SortStableFunc(ready, func(a, b *seq) int {
		return cmp.Or(cmp.Compare(a.served, b.served), cmp.Compare(a.admit, b.admit))
	})
	ready = m.sharers(ready)
	if s := ready[0]; s.Reach() > m.wideReach && s.pictureNext() {
		m.restartLow(s)
		return m.plan()
	}
	if !m.limits.Together {
		return m.inOwnTurn(ready[0])
	} else if ready[0].repeatable {
		return m.inTurn(ready[0])
	}
	if !m.proven.Scatter {
		// The sequence that has the card's cells keeps them to its end. If they took turns, each
		// would have to begin anew.
		if i := slices.IndexFunc(ready, func(s *seq) bool { return len(s.Path) > 0 }); i > 0 {
			ready[0], ready[i] = ready[i], ready[0]
		}
		ready = ready[:1]
	}
	lead := ready[0]
	ready = sameAdapter(ready, lead)
	if m.wide == 0 || lead.Reach() > m.wideReach {
		return m.alone(lead)
	}
	if !m.proven.Mixed {
		ready = ready[:1]
	}
	if m.worthWaiting(ready) {
		return nil
	}
	if m.fill(ready) {
		return m.batch.shares
	}
	m.batch.shares = m.batch.shares[:0]
	return m.alone(lead)
}

// worthWaiting reports whether a wide pass with the sequences whose heads are late takes less time
// than to go on in turn. Else two of three would never meet again.
func (m *planner) worthWaiting(ready []*seq) bool {
	late := m.waiters()
	if late == 0 || !m.proven.Mixed || !m.proven.Chunk {
		return false
	}
	n, reach, layers := 0, 0, 0.0
	add := func(s *seq) {
		n, reach, layers = n+1, max(reach, s.Reach()), layers+m.lone(s.Reach())
	}
	for _, s := range ready {
		if s.pending() > 1 {
			return true // a prompt, which the rows of all others can join
		}
		add(s)
	}
	for _, s := range m.running {
		if s.late != nil {
			add(s)
		}
	}
	g := m.shape.GroupFor(max(n, m.minWide), reach)
	if g < 0 || m.shape.Groups[g].Rows == 1 {
		return false
	}
	heads, _ := m.costs.heads(n)
	return m.costs.group[g]+heads < turnMargin*m.costs.inTurn(n, layers/float64(n))
}

// turnMargin is how much better rows in turn must be than a wide pass. The time of a wide group
// that was only measured at load includes copies of its new rows, which a head hides.
const turnMargin = 1.1

// alone gives the sequence one row on the decode group, or on the narrowest group that reaches if
// the model has no such decode group. A picture's row cannot use a decode group, so it takes the
// rows after it along.
func (m *planner) alone(s *seq) []share {
	n := 1
	if s.pictureNext() {
		n = min(s.pending(), m.widest(s.Reach()))
	}
	m.batch.shares = append(m.batch.shares, share{s: s, from: len(s.Path), n: n})
	return m.batch.shares
}

// adopt moves a sequence over ids that another sequence has put through the card in the meantime.
func (m *planner) adopt(s *seq) {
	if !m.proven.Scatter || s.whole() || s.repeatable || m.limits.Stops {
		return
	}
	for s.pending() > 1 {
		n := m.cells.Next(&s.Seq, s.ids[len(s.Path)])
		if n == none || int(n) >= m.wideReach && s.shown() > len(s.Path)+1 {
			return
		}
		if int(n) >= m.wideReach && s.Reach() <= m.wideReach || !m.proven.Chunk {
			// All of the cached rows, or none.
			if path := m.cells.Beyond(&s.Seq, s.ids[len(s.Path):], s.pending()-1); len(m.layout.worth(s, path)) < len(path) {
				return
			}
		}
		m.cells.Step(&s.Seq, n)
		if s.usage.Output == 0 {
			s.usage.Cached++
		}
	}
}

// fill builds the wide pass that makes the best use of its time, and reports whether it is better
// than one row alone for the leader (ready[0]).
func (m *planner) fill(ready []*seq) bool {
	leadReach := ready[0].Reach()
	best, limit := m.bestReach(ready)
	prompts := 0
	for _, s := range ready {
		if n := s.pending(); n > 1 && s.Reach() <= limit {
			prompts += n
		}
	}
	spec := m.draft(ready, limit, best, prompts)
	if limit < 0 && !spec {
		return false
	}
	if limit < 0 {
		limit = m.shape.Groups[m.shape.GroupFor(m.minWide, leadReach)].Cells
	}
	m.share(ready, limit)
	return len(m.batch.shares) > 0
}

// bestReach returns how far the sequences of the next wide pass may reach for the best use of its
// time, and how many times faster the pass then is than the same rows one by one. bestLimit is −1
// if no wide pass is faster. Sequences that reach far make the pass more expensive for all, so the
// reaches in use are tried as limits.
func (m *planner) bestReach(ready []*seq) (best float64, bestLimit int) {
	leadReach := ready[0].Reach()
	limits := m.tried[:0]
	for _, s := range ready {
		if r := s.Reach(); r >= leadReach && r <= m.wideReach {
			if g := m.shape.GroupFor(m.minWide, r); g >= 0 && !slices.Contains(limits, m.shape.Groups[g].Cells) {
				limits = append(limits, m.shape.Groups[g].Cells)
			}
		}
	}
	m.tried = limits
	best, bestLimit = 1.0, -1
	for _, limit := range limits {
		rows, alone, answers := 0, 0.0, 0 // alone: seconds for the rows one by one
		heads := 0                        // rows that go through the head
		room := m.widest(limit)
		for _, s := range ready {
			if r := s.Reach(); r <= limit {
				n := min(s.pending(), m.wide, room-rows)
				rows, alone = rows+n, alone+float64(n)*m.lone(r)
				if n == 1 {
					answers++
				}
				if n == s.pending() {
					heads++
				}
			}
		}
		g := m.shape.GroupFor(max(rows, 2), limit)
		if rows < 2 || g < 0 || !m.proven.Chunk && rows < m.shape.Groups[g].Rows {
			continue
		}
		wide := m.costs.group[g]
		if answers > 1 {
			wide += m.costs.run * float64(m.cells.Scattered(answers)-1)
		}
		if m.costs.host[0] > 0 { // else heads cost the same either way
			one, _ := m.costs.heads(1)
			all, _ := m.costs.heads(heads)
			each := alone / float64(max(heads, 1))
			alone, wide = alone+float64(heads)*one, wide+all
			if heads > 1 && heads == rows {
				alone = min(alone, turnMargin*m.costs.inTurn(heads, each))
			}
		}
		if gain := alone / wide; gain > best {
			best, bestLimit = gain, limit
		}
	}
	return best, bestLimit
}

// share gives the sequences that reach no farther than limit their shares of a wide pass: first one
// row for each running answer, then the prompts in turn.
func (m *planner) share(ready []*seq, limit int) {
	room := m.widest(limit)
	for _, s := range ready {
		if s.Reach() <= limit && s.pending() == 1 && room > 0 {
			h := share{s: s, from: len(s.Path), n: 1, draft: s.spec.draft}
			h.draft = h.draft[:min(len(h.draft), room-1)]
			room -= h.rows()
			m.batch.shares = append(m.batch.shares, h)
		}
	}
	//rule:G16 TestNeverWorse$ m.cells.AvailableBelow(m.wideReach) => 1<<20
	begun, low := false, m.cells.AvailableBelow(m.wideReach)
	for _, s := range ready {
		if s.Reach() > limit || s.pending() == 1 || room == 0 || m.twin(s) {
			continue
		}
		n := min(s.pending(), room)
		if n < s.pending() {
			// Rows that a later pass must see need low cells, otherwise the rest of the prompt
			// would go row by row.
			if low > 0 {
				n = min(n, low)
				low -= n
			} else if begun {
				continue // the next pass has more room for it
			}
		}
		room -= n
		m.batch.shares = append(m.batch.shares, share{s: s, from: len(s.Path), n: n, rest: begun && n < s.pending()})
		begun = true
	}
}

// twinRows is how many rows another's text must save before a sequence waits one pass for it.
const twinRows = 8

// twin reports whether a sequence in this pass already brings the same text as s. Then s waits one
// pass and adopts its cells.
func (m *planner) twin(s *seq) bool {
	if !m.proven.Scatter || s.whole() {
		return false
	}
	for i := range m.batch.shares {
		h := &m.batch.shares[i]
		o := h.s
		if o.job.Key != s.job.Key || len(o.Path) != len(s.Path) || m.cells.Tip(&o.Seq) != m.cells.Tip(&s.Seq) {
			continue
		}
		theirs, ours := o.ids[len(o.Path):], s.ids[len(s.Path):]
		n := min(h.n, len(theirs), len(ours))
		same := 0
		for same < n && theirs[same] == ours[same] {
			same++
		}
		//rule:G16 TestNeverWorse$ twinRows => 1
		if same >= twinRows {
			return true
		}
	}
	return false
}
