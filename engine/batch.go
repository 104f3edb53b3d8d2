package engine

import (
	"errors"
	"slices"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/pictures"
)

// This file puts a pass together: cells for its rows, the rows, their positions and what each sees,
// and which results are wanted.

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

func (h *share) rows() int { return h.n + len(h.draft) }

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

var errNoCells = errors.New("engine: no cells left")

// build fills m.pass from the shares. It fails with errNoCells, having taken nothing, when there
// are not enough cells.
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
				// A window counts rows, not positions: it begins this many rows back, in the cells
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

// room takes the cells of a pass of this many rows: those that are reserved for its sequences, and
// others for the rest.
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

// anywhere takes cells for this many rows, of shares that have none. Where not all of them can lie
// low, those do that a later wide pass has to see.
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

// makeLow lets cached rows go where n new rows would otherwise lie so high that passes become
// dearer. Where wide passes pay, all who run pay for a dearer group in every pass to come;
// elsewhere a prompt that cannot be seen by wide passes goes row by row. Both are weighed against
// what it takes to evaluate the cached text again, times the chance that anybody asks for it.
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
	if !m.cells.Places().EvictBelow(n, below, func(drop, length int) bool {
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

// giveBack returns the cells that build took.
func (m *batch) giveBack() {
	m.cells.Give(m.taken...)
	m.taken = m.taken[:0]
}

// grow gives a slice of length n, its contents undefined, reusing memory where it is long enough.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}

// account publishes the pass.
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

// claim takes the cells of a share's rows from those reserved for its sequence, and reports whether
// it did.
func (m *batch) claim(h *share) bool {
	s := h.s
	h.cells = nil
	switch {
	case !m.layout.reserves(s):
		return false
	case h.n == 1 && len(m.shares) > 1:
		return false // rows of several answers lie beside each other: so they are one run
	case h.n > 1 && s.pending() < m.wide && len(s.Reserved) == 0:
		return false // short prompts share a pass, and lie beside each other too
	case !m.layout.reserve(s, h.rows(), 0):
		return false
	}
	h.cells = m.cells.Places().TakeReserved(&s.Seq, h.rows())
	return true
}

// states fills in where the pass's state comes from and goes to. It fails with errNoCells where
// there is no slot.
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

// lost is what follows a pass that failed: the slot that it was to fill holds nothing, and a
// sequence whose own it was goes on from what is kept. unsent says that the pass was never run.
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

// moved is what follows a pass that ran: its sequence's state is that after its new rows, and is
// kept where it is of use.
func (m *batch) moved(h *share) {
	s := h.s
	m.cache.Passed(&s.Seq, m.pass.To)
	m.pass.To = 0
	if s.pending() == 0 || s.whole() || !m.proven.Kept {
		return
	}
	m.mark(s, !slices.Contains(s.stops, len(s.Path)))
}

// clearTaken clears the cells that build took for a pass that failed, and gives them back.
func (m *batch) clearTaken() error {
	cells := unsigned(m.taken)
	slices.Sort(cells)
	//rule:D4 TestFailedCellsCleared err := m.clear(cells) => var err error
	err := m.clear(cells)
	m.giveBack()
	return err
}
