package engine

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/pictures"
)

// This file decides what the next pass carries: whose rows, how many, with which guesses, and in which cells.

// share is a sequence's part of a pass: ids[from:from+n] and then its drafts.
type share struct {
	s     *seq
	from  int // index into s.ids of the first row
	n     int // rows of known ids
	draft []int32
	row   int     // first row in the pass
	want  int     // index of its first wanted row in Pass.Want, or −1
	out   int     // the first row whose last layer's output is wanted, or −1
	wants int     // how many, of either
	cells []int32 // that its rows come to, which were reserved; nil: any
	rest  bool    // part of a prompt, in what room others left of the pass: no turn of its own
}

// batch is the pass under way: whose rows it carries, and in which cells they come to lie.
type batch struct {
	*core
	layout *layout
	window int // local layers see rows whose position is within this many of a row's own; 0: there are none
	passes uint64
	// highUntil is the pass until which new rows may lie high: there was nothing to be had lower.
	highUntil uint64

	pass   axcl.Pass
	shares []share
	taken  []int32
	logits []uint16
	argmax []int32
	hidden []uint16
	placed []pictures.Placed
}

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

func (h *share) rows() int { return h.n + len(h.draft) }

// plan chooses the next pass: who takes part, with how many rows.
//
// The sequence that waited longest leads. It goes alone on the decode group, or in a wide pass with all the others that reach, whichever
// gives more rows for the time: a wide pass costs what its group costs, however many rows it carries, and every row alone costs the
// decode group. Rows that must go through the head cost the same either way and do not count.
func (m *planner) plan() []share {
	ready := m.ready[:0]
	for _, s := range m.running {
		if !s.box.full() {
			m.adopt(s)
			if s.way || m.cache.Waits(&s.Seq) || s.unseen() != nil {
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
	ready = m.apart(ready)
	if s := ready[0]; s.Reach() > m.wideReach && s.pictureNext() {
		m.sink(s)
		return m.plan()
	}
	if !m.limits.Together {
		return m.inOwnTurn(ready[0])
	} else if ready[0].solo {
		return m.inTurn(ready[0])
	}
	if !m.proven.Scatter {
		// The one that has the card's cells keeps them to its end: in turns, each would have to begin anew.
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

// alone gives the sequence one row on the decode group; where the model has none that reaches, the narrowest that does. A picture's row
// goes through no decode group: there it takes what follows with it.
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
	if !m.proven.Scatter || s.whole() || s.solo || m.limits.Stops {
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

// fill builds the wide pass with the best use of its time, and reports whether it beats one row alone for the leader (ready[0]).
func (m *planner) fill(ready []*seq) bool {
	// Sequences that reach far make the pass dearer for all. Try the reaches in use as limits, lowest first.
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
	best, bestLimit := 1.0, -1
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
		// How many times faster than the same rows one by one.
		wide := m.costs.group[g]
		if answers > 1 {
			wide += m.costs.run * float64(m.cells.Scattered(answers)-1)
		}
		if gain := alone / wide; gain > best {
			best, bestLimit = gain, limit
		}
	}
	prompts := 0
	for _, s := range ready {
		if n := s.pending(); n > 1 && s.Reach() <= bestLimit {
			prompts += n
		}
	}
	spec := m.draft(ready, bestLimit, best, prompts)
	if bestLimit < 0 && !spec {
		return false
	}
	if bestLimit < 0 {
		bestLimit = m.shape.Groups[m.shape.GroupFor(m.minWide, leadReach)].Cells
	}
	room := m.widest(bestLimit)
	// Running answers first, one row each, then prompts in turn.
	for _, s := range ready {
		if s.Reach() <= bestLimit && s.pending() == 1 && room > 0 {
			h := share{s: s, from: len(s.Path), n: 1, draft: s.spec.draft}
			h.draft = h.draft[:min(len(h.draft), room-1)]
			room -= h.rows()
			m.batch.shares = append(m.batch.shares, h)
		}
	}
	//rule:G16 TestNeverWorse$ m.cells.AvailableBelow(m.wideReach) => 1<<20
	begun, low := false, m.cells.AvailableBelow(m.wideReach)
	for _, s := range ready {
		if s.Reach() > bestLimit || s.pending() == 1 || room == 0 || m.twin(s) {
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
	return len(m.batch.shares) > 0
}

// twinRows is how many rows another's text must save: for fewer no sequence waits a pass.
const twinRows = 8

// twin reports whether a sequence already in this pass brings the very text that s would: s waits a pass and adopts its cells.
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

// build fills m.pass from the shares. It fails with errNoCells, having taken nothing, when there are not enough cells.
func (m *batch) build() error {
	p := &m.pass
	rows := 0
	for i := range m.shares {
		m.shares[i].row = rows
		rows += m.shares[i].rows()
	}
	var ok bool
	if h := &m.shares[0]; h.s.solo {
		//rule:G14 TestRepeatable$ m.cells.TakeAt(m.taken[:0], h.from, rows) => m.cells.Take(m.taken[:0], rows, 0, false)
		m.taken, ok = m.cells.TakeAt(m.taken[:0], h.from, rows)
	} else {
		ok = m.room(rows)
	}
	if !ok {
		return errNoCells
	}
	if err := m.states(); err != nil {
		m.giveBack()
		return err
	}
	cw, rw := axcl.Words(m.shape.Cells), axcl.Words(rows)
	p.Hidden = grow(p.Hidden, rows*m.shape.Hidden)
	p.Given = grow(p.Given, rows*m.layerInputs())
	p.Pos = grow(p.Pos, rows*m.shape.Pos)
	p.Cell = grow(p.Cell, rows)
	p.SeeCells = grow(p.SeeCells, rows*cw)
	p.SeeRows = grow(p.SeeRows, rows*rw)
	clear(p.SeeRows)
	if m.shape.Local {
		p.LocalCells, p.LocalRows = grow(p.LocalCells, rows*cw), grow(p.LocalRows, rows*rw)
		clear(p.LocalRows)
	}
	p.Want, m.placed = p.Want[:0], m.placed[:0]
	greedy, logits, hidden := false, false, false
	for i := range m.shares {
		h := &m.shares[i]
		s := h.s
		h.want, h.out, h.wants = -1, -1, 0
		for j := range h.rows() {
			r := h.row + j
			id := int32(0)
			if j < h.n {
				id = s.ids[h.from+j]
			} else {
				id = h.draft[j-h.n]
			}
			if id < 0 {
				of, n := s.pictured(h.from + j)
				m.placed = append(m.placed, pictures.Placed{Row: r, From: of.rows, N: n})
			} else {
				at := m.trace.clock()
				err := m.tokenRow(p, r, id)
				m.trace.since(embedTime, at)
				if err != nil {
					m.giveBack()
					m.lostState(true)
					return &rowError{i, err}
				}
			}
			for k := range m.shape.Pos {
				p.Pos[r*m.shape.Pos+k] = s.position(h.from+j, k, m.shape.Pos)
			}
			p.Cell[r] = uint32(m.taken[r])
			copy(p.SeeCells[r*cw:(r+1)*cw], s.See)
			for e := h.row; e < r; e++ {
				p.SeeRows[r*rw+e/64] |= 1 << (e % 64)
			}
			if m.shape.Local {
				// A window counts rows, not positions: it begins this many rows back, in the cells or in this pass.
				from := h.from + j - m.window + 1
				s.Window(from)
				copy(p.LocalCells[r*cw:(r+1)*cw], s.Near)
				for e := h.row + max(0, from-h.from); e < r; e++ {
					p.LocalRows[r*rw+e/64] |= 1 << (e % 64)
				}
			}
			if !s.wants(h.from + j) {
				continue
			}
			h.wants++
			if s.embed != nil && s.embed.hidden {
				if h.out < 0 {
					h.out, hidden = r, true
				}
				continue
			}
			if h.want < 0 {
				h.want = len(p.Want)
			}
			p.Want = append(p.Want, r)
		}
		if h.want >= 0 {
			greedy, logits = greedy || s.greedy, logits || !s.unchecked()
		}
	}
	pictures.Place(p, m.shape.Hidden, m.placed)
	for _, at := range m.placed {
		if err := m.picturedRow(p, at.Row); err != nil {
			m.giveBack()
			m.lostState(true)
			return err
		}
	}
	p.Logits, p.Argmax, p.HiddenOut = nil, nil, nil
	if (hidden || len(p.Want) == 0) && !m.shape.Whole {
		m.hidden = grow(m.hidden, rows*m.shape.Hidden)
		p.HiddenOut = m.hidden
	}
	if greedy {
		m.argmax = grow(m.argmax, len(p.Want))
		p.Argmax = m.argmax
	}
	if logits {
		m.logits = grow(m.logits, len(p.Want)*m.shape.Out)
		p.Logits = m.logits
	}
	return nil
}

// room takes the cells of a pass of so many rows: those that are reserved for its sequences, and others for the rest.
func (m *batch) room(rows int) bool {
	claimed := 0
	for i := range m.shares {
		//rule:G25 TestDay$ m.claim(h) => false && m.claim(h)
		if h := &m.shares[i]; m.claim(h) {
			claimed += h.rows()
		}
	}
	m.makeLow(rows - claimed)
	if !m.anywhere(rows - claimed) {
		for i := range m.shares {
			for _, n := range m.shares[i].cells {
				m.cells.Give(n)
			}
		}
		return false
	}
	if claimed == 0 {
		return true
	}
	others := slices.Clone(m.taken)
	m.taken = m.taken[:0]
	for i := range m.shares {
		h := &m.shares[i]
		from := h.cells
		if from == nil {
			from, others = others[:h.rows()], others[h.rows():]
		}
		m.taken = append(m.taken, from...)
	}
	return true
}

// anywhere takes cells for so many rows, of shares that have none. Where not all of them can lie low, those do that a later wide pass has
// to see.
func (m *batch) anywhere(rows int) (ok bool) {
	m.taken = m.taken[:0]
	if rows == 0 {
		return true
	}
	above, seen := 0, 0
	for i := range m.shares {
		h := &m.shares[i]
		if h.cells != nil {
			continue
		}
		if above = max(above, h.s.Reach()); h.s.pending() > h.n && h.s.Reach() <= m.wideReach {
			seen += h.n
		}
	}
	//rule:G16 TestNeverWorse$ len(m.shares) == 1 && m.wide > => m.wide <
	if len(m.shares) == 1 && m.wide > 0 && above > m.wideReach && m.cells.Free()-m.cells.FreeBelow(m.wideReach) >= rows {
		m.taken = m.cells.TakeFrom(m.taken[:0], rows, m.wideReach) // it has no use for near cells, others have
		return true
	}
	if seen == 0 || seen == rows || m.cells.FreeBelow(m.wideReach) >= rows {
		m.taken, ok = m.cells.Take(m.taken[:0], rows, above, len(m.shares) == 1)
		return ok
	}
	if m.taken, ok = m.cells.Take(m.taken[:0], rows, 0, false); !ok {
		return false
	}
	m.giveBack()
	low, _ := m.cells.Take(nil, seen, 0, false)
	high := m.cells.TakeFrom(nil, rows-seen, m.wideReach)
	m.taken = m.taken[:0]
	for i := range m.shares {
		h := &m.shares[i]
		if h.cells != nil {
			continue
		}
		from := &high
		if h.s.pending() > h.n && h.s.Reach() <= m.wideReach {
			from = &low
		}
		m.taken = append(m.taken, (*from)[:h.rows()]...)
		*from = (*from)[h.rows():]
	}
	return true
}

// makeLow lets cached rows go where n new rows would otherwise lie so high that passes become dearer. Where wide passes pay, all who run
// pay for a dearer group in every pass to come; elsewhere a prompt that cannot be seen by wide passes goes row by row. Both are weighed
// against what it takes to evaluate the cached text again, times the chance that anybody asks for it.
func (m *batch) makeLow(n int) {
	const passesToCome, chance = 64, 0.5
	if n == 0 {
		return
	}
	reach, near, after := 0, false, 0 // after: the most rows of a prompt that come after this pass
	for i := range m.shares {
		if r := m.shares[i].s.Reach(); r <= m.wideReach && m.shares[i].cells == nil {
			reach, near = max(reach, r), true
			after = max(after, m.shares[i].s.pending()-m.shares[i].n)
		}
	}
	if !near || m.wideReach == 0 || !m.proven.Scatter {
		return
	}
	lands := m.cells.Size()
	if at := m.cells.Run(n, 0); at >= 0 {
		lands = at + n
	}
	one, g := m.lone(reach), m.shape.GroupFor(m.minWide, max(reach, 1))
	if g < 0 {
		return
	}
	below, worth := m.wideReach, 0.0
	wide := m.costs.group[g]
	if lands > m.wideReach && after > 0 {
		one = m.lone(m.wideReach + 1)
		worth = float64(after) * one
	} else if m.passes < m.highUntil {
		return
	} else if m.proven.Mixed && float64(len(m.running))*one > wide {
		below = m.shape.Groups[g].Cells
		dear := float64(len(m.running)) * one
		if to := m.shape.GroupFor(m.minWide, lands); to >= 0 {
			dear = m.costs.group[to]
		}
		worth = (dear - wide) * passesToCome
	}
	if lands <= below || worth <= 0 {
		return
	}
	if !m.cells.Lower(n, below, func(drop, length int) bool {
		far := min(max(length-m.wideReach-m.wide, 0), drop)
		return (float64(far)*one+float64(drop-far)/float64(m.wide)*wide)*chance <= worth
	}) {
		m.highUntil = m.passes + 16 // the search walks all branches: not again at once
	}
}

// rowError is a share whose id has no embedding: the others of its pass can do nothing about it.
type rowError struct {
	share int
	error
}

var errNoCells = fmt.Errorf("engine: no cells left")

// giveBack returns the cells that build took.
func (m *batch) giveBack() {
	for _, n := range m.taken {
		m.cells.Give(n)
	}
	m.taken = m.taken[:0]
}

// grow gives a slice of length n, its contents undefined, reusing memory where it is long enough.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}
