package engine

import (
	"cmp"
	"slices"
)

// This file decides what the next pass carries: whose rows, how many, and with which guesses.
// batch.go puts them together.

// planner chooses what the next pass carries. Its fields beside the parts below it are scratch.
type planner struct {
	*core
	layout *layout
	batch  *batch

	ready  []*seq
	tried  []int // of fill
	asking []*seq
	askFor []int
}

// plan chooses the next pass: who takes part, with how many rows.
//
// The sequence that waited longest leads. It goes alone on the decode group, or in a wide pass with
// all the others that reach, whichever gives more rows for the time: a wide pass costs what its
// group costs, however many rows it carries, and every row alone costs the decode group. Rows that
// must go through the head cost the same either way and do not count.
func (m *planner) plan() []share {
	ready := m.ready[:0]
	for _, s := range m.running {
		if !s.box.full() {
			m.adopt(s)
			if s.relocating || m.cache.Waits(&s.Seq) || s.unseen() != nil {
				continue // its rows come piece by piece, or its cells are made ready so, or they come from the encoder
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
		// The one that has the card's cells keeps them to its end: in turns, each would have to
		// begin anew.
		if i := slices.IndexFunc(ready, func(s *seq) bool { return len(s.Path) > 0 }); i > 0 {
			ready[0], ready[i] = ready[i], ready[0]
		}
		ready = ready[:1]
	}
	lead := ready[0]
	if m.wide == 0 || lead.Reach() > m.wideReach {
		return m.alone(lead)
	}
	if !m.proven.Mixed {
		ready = ready[:1]
	}
	if m.fill(ready) {
		return m.batch.shares
	}
	m.batch.shares = m.batch.shares[:0]
	return m.alone(lead)
}

// alone gives the sequence one row on the decode group; where the model has none that reaches, the
// narrowest that does. A picture's row goes through no decode group: there it takes what follows
// with it.
func (m *planner) alone(s *seq) []share {
	n := 1
	if s.pictureNext() {
		n = min(s.pending(), m.widest(s.Reach()))
	}
	m.batch.shares = append(m.batch.shares, share{s: s, from: len(s.Path), n: n})
	return m.batch.shares
}

// adopt moves a sequence over ids that another one has put through the card in the meantime.
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
			// All of what is there, or nothing.
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

// fill builds the wide pass with the best use of its time, and reports whether it beats one row
// alone for the leader (ready[0]).
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

// bestReach is how far the sequences of the next wide pass may reach so that its time is used best,
// and how many times faster that is than the same rows one by one; −1 where no wide pass is faster.
// Sequences that reach far make the pass dearer for all: the reaches in use are tried as limits,
// lowest first.
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
		rows, alone, answers := 0, 0.0, 0 // and what they take one by one
		room := m.widest(limit)
		for _, s := range ready {
			if r := s.Reach(); r <= limit {
				n := min(s.pending(), m.wide, room-rows)
				rows, alone = rows+n, alone+float64(n)*m.lone(r)
				if n == 1 {
					answers++
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
		if gain := alone / wide; gain > best {
			best, bestLimit = gain, limit
		}
	}
	return best, bestLimit
}

// share gives the sequences that reach no farther than limit their shares of a wide pass: running
// answers first, one row each, then prompts in turn.
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
			// What a later pass has to see lies low, or the rest of it would go row by row.
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

// twinRows is how many rows another's text must save: for fewer no sequence waits a pass.
const twinRows = 8

// twin reports whether a sequence already in this pass brings the very text that s would: s waits a
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
