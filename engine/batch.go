package engine

import (
	"errors"
	"slices"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/pictures"
)

// This file builds a pass: the cells for its rows, the rows, their positions, what each row sees,
// and which results are wanted.

// share is the part of a pass that belongs to one sequence: ids[from:from+n], then its drafts.
type share struct {
	s     *seq
	from  int // index into s.ids of the first row
	n     int // rows of known ids
	draft []int32
	row   int     // first row in the pass
	want  int     // index in Pass.Want of its first wanted row, or −1
	out   int     // first row whose output of the last layer is wanted, or −1
	wants int     // number of wanted rows, of either kind
	cells []int32 // reserved cells for its rows; nil: any cells
	rest  bool    // part of a prompt, in room that others left: does not count as the sequence's turn
}

func (h *share) rows() int { return h.n + len(h.draft) }

// batch is the current pass: whose rows it carries, and in which cells they will lie.
type batch struct {
	*core
	layout *layout
	checks func() bool // the canary row is due
	later  func() bool // the head of the pass may be late
	window int         // a row of a local layer sees this many rows, itself included; 0: no local layers
	passes uint64
	// highUntil is the pass until which new rows may lie high, because no lower cells could be
	// freed.
	highUntil uint64

	pass   axcl.Pass
	shares []share
	taken  []int32
	logits []uint16
	argmax []int32
	hidden []uint16
	placed []pictures.Placed

	late           bool  // the head is computed while other passes run: see lateheads.go
	leftToHost     []int // wanted rows whose logits the host computes; none: the card does
	greedy, sample bool  // of wanted rows, the largest logits' indexes are needed, or all logits
}

var errNoCells = errors.New("engine: no cells left")

// build fills m.pass from the shares. If there are not enough cells, it takes none and returns
// errNoCells.
func (m *batch) build() error {
	p := &m.pass
	rows := 0
	for i := range m.shares {
		m.shares[i].row = rows
		rows += m.shares[i].rows()
	}
	var ok bool
	if h := &m.shares[0]; h.s.repeatable {
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
	p.LayerInputs = grow(p.LayerInputs, rows*m.layerInputWidth())
	p.Pos = grow(p.Pos, rows*m.shape.Pos)
	p.Cell = grow(p.Cell, rows)
	p.SeeCells = grow(p.SeeCells, rows*cw)
	p.SeeRows = grow(p.SeeRows, rows*rw)
	clear(p.SeeRows)
	if m.shape.Local {
		p.LocalCells, p.LocalRows = grow(p.LocalCells, rows*cw), grow(p.LocalRows, rows*rw)
		clear(p.LocalRows)
	}
	p.Want, m.placed, p.Adapter = p.Want[:0], m.placed[:0], m.shares[0].s.adapter
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
				// A window counts rows, not positions. It begins this many rows back, in the cells
				// or in this pass.
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
	m.greedy, m.sample = greedy, logits
	m.late = m.later != nil && m.later()
	if m.leftToHost = m.leftToHost[:0]; m.late || m.forHost() {
		m.leftToHost = append(m.leftToHost, p.Want...)
		p.Want = p.Want[:0]
	}
	if (hidden || len(p.Want) == 0) && !m.shape.Whole {
		m.hidden = grow(m.hidden, rows*m.shape.Hidden)
		p.HiddenOut = m.hidden
	}
	if len(m.leftToHost) == 0 {
		p.Logits, p.Argmax = m.results(len(p.Want))
	}
	return nil
}

// results returns room for the results of n wanted rows.
func (m *batch) results(n int) (logits []uint16, argmax []int32) {
	if m.greedy {
		m.argmax = grow(m.argmax, n)
		argmax = m.argmax
	}
	if m.sample {
		m.logits = grow(m.logits, n*m.shape.Out)
		logits = m.logits
	}
	return logits, argmax
}

// forHost reports whether the host computes the head of the pass. A repeatable sequence always uses
// the card's, and so do vectors and scores. The card's head is checked by the canary row, so the
// card computes a pass that may carry it.
func (m *batch) forHost() bool {
	if _, host := m.costs.heads(len(m.pass.Want)); !host || m.checks() {
		return false
	}
	return !slices.ContainsFunc(m.shares, func(h share) bool { return h.s.repeatable || h.s.embed != nil && h.want >= 0 })
}

// room takes the cells for a pass of this many rows: those reserved for its sequences, and other
// cells for the rest.
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
			m.cells.Give(m.shares[i].cells...)
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

// anywhere takes cells for this many rows of shares that have no reserved cells. If not all of them
// can lie low, the rows that a later wide pass must see get the low cells.
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
		m.taken = m.cells.TakeFrom(m.taken[:0], rows, m.wideReach) // it does not need near cells, and others do
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

// makeLow evicts cached rows if n new rows would otherwise lie so high that passes cost more. Where
// wide passes pay, rows that need a larger group make each later pass more expensive for all
// running sequences. A prompt that wide passes cannot see goes row by row. The cost is compared
// with that of evaluating the cached text again, times the chance that it is requested.
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
	} else if m.proven.Mixed && float64(len(m.running))*one > wide {
		below = m.shape.Groups[g].Cells
		dear := float64(len(m.running)) * one
		if to := m.shape.GroupFor(m.minWide, lands); to >= 0 {
			dear = m.costs.group[to]
		}
		worth = (dear - wide) * passesToCome
	}
	evict := func(below int) bool {
		return m.cells.Places().EvictBelow(n, below, func(drop, length int) bool {
			far := min(max(length-m.wideReach-m.wide, 0), drop)
			return (float64(far)*one+float64(drop-far)/float64(m.wide)*wide)*chance <= worth
		})
	}
	if lands <= below || worth <= 0 {
		return
	}
	if below < m.wideReach && m.passes >= m.highUntil {
		if evict(below) {
			return
		}
		m.highUntil = m.passes + 16 // the search walks all branches, so it is not repeated at once
	}
	//rule:G16 TestShiftsAnywhere$ false
	if lands > m.wideReach { // any cell that wide passes see is better
		evict(m.wideReach)
	}
}

// rowError is the error of a share with an id that has no embedding. The other shares of its pass
// are not at fault.
type rowError struct {
	share int
	error
}

// giveBack returns the cells that build took.
func (m *batch) giveBack() {
	m.cells.Give(m.taken...)
	m.taken = m.taken[:0]
}

// grow returns a slice of length n with undefined contents. It reuses the memory of s where that is
// large enough.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}

// account adds the pass to the published numbers.
func (m *batch) account(took time.Duration, drafts int) string {
	kind := "prefill"
	decodes := 0
	for i := range m.shares {
		if m.shares[i].n == 1 {
			decodes++
		}
	}
	switch {
	case drafts > 0:
		kind = "verify"
	case m.pass.Rows() == 1:
		kind = "decode"
	case decodes == len(m.shares):
		kind = "batch"
	case decodes > 0:
		kind = "mixed"
	}
	m.queue.update(func(st *Stats) {
		st.Passes[kind]++
		st.Rows += uint64(m.pass.Rows())
		st.Busy += took
		if m.card.Now()-m.counted > surveyEvery {
			m.survey(st)
		}
	})
	return kind
}

// claim takes the cells for the rows of a share from those reserved for its sequence, and reports
// whether it did.
func (m *batch) claim(h *share) bool {
	s := h.s
	h.cells = nil
	switch {
	case !m.layout.reserves(s):
		return false
	case h.n == 1 && len(m.shares) > 1:
		return false // rows of several answers lie side by side, in one run
	case h.n > 1 && s.pending() < m.wide && len(s.Reserved) == 0:
		return false // short prompts share a pass, and also lie side by side
	case !m.layout.reserve(s, h.rows(), 0):
		return false
	}
	h.cells = m.cells.Places().TakeReserved(&s.Seq, h.rows())
	return true
}

// states sets the slots from which the pass reads its state and to which it writes it. If there is
// no slot, it returns errNoCells.
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

// lostState follows a pass that failed. The slot that the pass was to fill holds nothing, and a
// sequence that owned the slot continues from what is cached. unsent says that the pass never ran.
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

// moved follows a pass that ran. The state of its sequence is now the one after the new rows, and
// it is kept where it is of use.
func (m *batch) moved(h *share) {
	s := h.s
	m.cache.Passed(&s.Seq, m.pass.To)
	m.pass.To = 0
	if s.pending() == 0 || s.whole() || !m.proven.Kept {
		return
	}
	m.mark(s, !slices.Contains(s.stops, len(s.Path)))
}

// clearTaken clears the cells that build took for a failed pass, and gives them back.
func (m *batch) clearTaken() error {
	cells := unsigned(m.taken)
	slices.Sort(cells)
	//rule:D4 TestFailedCellsCleared err := m.clear(cells) => var err error
	err := m.clear(cells)
	m.giveBack()
	return err
}
