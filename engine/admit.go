package engine

// This file decides which sequences are admitted next to the running ones, so that running together
// is never slower than one after another: see doc.go.
//
// A prompt with rows beyond what wide passes see goes row by row, which costs fifty times as much.
// A sequence that returns to the queue for lack of cells may have to be evaluated again. So a
// sequence waits until its prompt finds near cells, and until there are cells for all answers up to
// their limits. To admit more is a bet. The ledger says how much may be lost on it: a small part of
// the time that the work, done and to come, takes one after another, plus what running together
// saves.

// ledger is the account of a period in which the card was never idle, in seconds by the cost table.
type ledger struct {
	done float64 // what the rows so far would have taken one sequence after another
	lost float64 // what it cost to evaluate rows again, or one by one instead of together
}

// tithe is the part of the work that may be lost by admitting more than is sure to fit. The rest,
// up to a twentieth, is for more expensive shape groups.
const tithe = 1.0 / 32

// leastAhead is how many more tokens each answer must have cells for, at least.
const leastAhead = 16

// admit starts queued sequences, in order, while their prompts fit next to the running ones. A
// sequence with a slow reader keeps none out. It gives up its place, and its cells if they are
// needed, and later continues from what is left of them.
func (m *lm) admit() {
	for !m.card.Hot() {
		live := m.live()
		//rule:G14 TestRepeatableIsNotPassed || m.repeating() =>
		if live >= m.parallel || live+m.diskTier.waiting() >= m.limits.Sequences || !m.proven.Scatter && live > 0 || m.repeating() {
			return
		}
		s := m.queue.pop(m.running)
		if s == nil {
			return
		}
		if (s.repeatable || s.low) && live > 0 {
			m.requeue(s) // it gets the card when the running ones have ended
			return
		}
		if live == 0 {
			m.ledger = ledger{}
		}
		m.layout.start(s)
		//rule:G20 TestRestartSoon false
		if m.diskTier.startRead(s) {
			continue
		}
		if !m.layout.fits(s) {
			m.aside()
			if live > 0 && !m.layout.fits(s) {
				m.leave(s)
				m.requeue(s)
				return
			}
		}
		m.admitted++
		s.admit, s.served, s.shifted = m.admitted, m.batch.passes, false
		if !s.begun {
			s.begun = true
			s.started = m.card.Now()
			s.usage.Queue = s.started - s.asked
			s.usage.Cached = len(s.Path)
			s.usage.Prompt = len(s.ids)
		}
		//rule:G17 TestTurns drop
		s.RestoreTo = m.ramTier.restorable(s)
		m.running = append(m.running, s)
		m.count(func(*Stats) {})
	}
}

// fits reports whether s may run next to the others: whether there are cells for all until they
// end, or whether the risk of admitting it is worth it.
func (m *layout) fits(s *seq) bool {
	//rule:G16 TestShifts$ false
	if s.shifted && !m.returns(s) {
		return false
	}
	if !m.proven.Mixed || !m.proven.Chunk {
		// Prompts cannot share passes, so they go one after the other, and each finds the rows of
		// those before it.
		for _, r := range m.running {
			if !r.box.full() && r.pending() > 1 {
				return false
			}
		}
	}
	pending, rooms, rows, stakes := s.pending(), max(s.room(), 0), len(s.ids), m.redo(0, len(s.ids))
	oldest := s
	n := 1
	for _, r := range m.running {
		if r.box.full() {
			continue
		}
		n++
		pending, rooms, rows = pending+r.pending(), rooms+max(r.room(), 0), rows+len(r.ids)
		stakes += m.redo(0, len(r.ids))
		if oldest == s || r.admit < oldest.admit {
			oldest = r
		}
	}
	stakes -= m.redo(0, len(oldest.ids)) // it would be the last to return to the queue
	have := m.cells.Available() - pending
	far := m.beyond(s)
	if have >= rooms && far == 0 {
		return true
	}
	if !m.proven.Mixed || !m.proven.Chunk {
		return false // running together saves nothing
	}
	ahead := 0 // tokens that each can still produce
	if have >= rooms {
		stakes, ahead = 0, rooms
	} else if ahead = have / n; ahead < leastAhead {
		return false
	}
	// The time for those tokens one after another, and what passes save that carry a row of each.
	work, rounds := 0.0, 0.0
	count := func(r *seq) {
		k := float64(min(max(r.room(), 0), ahead))
		work += k * m.lone(len(r.ids))
		rounds = max(rounds, k)
	}
	count(s)
	for _, r := range m.running {
		if !r.box.full() {
			count(r)
		}
	}
	saves := 0.0
	if g := m.shape.GroupFor(m.minWide, min(rows, m.wideReach)); far == 0 && m.wide > 0 && m.proven.Mixed && m.proven.Chunk && g >= 0 &&
		rows <= m.wideReach {
		saves = max(work-rounds*m.costs.group[g], 0)
	}
	return m.ledger.lost+stakes+far <= tithe*(m.ledger.done+work)+saves
}

// beyond returns the cost of rows of prompts, of s and of the others, that lie beyond what wide
// passes see. It is 0 if they find near cells. Prompts that crowd each other out of the near cells
// go row by row.
func (m *layout) beyond(s *seq) float64 {
	if m.wide == 0 {
		return 0
	}
	g := m.shape.GroupFor(m.minWide, 0)
	if g < 0 {
		return 0
	}
	others, prompts := 0, 0
	for _, r := range m.running {
		if r.box.full() {
			continue
		}
		others++
		if r.pending() > 1 && r.Reach() <= m.wideReach {
			prompts += r.pending()
			//rule:G16 TestNeverWorse$ false
		} else if r.pending() > 1 && r.down {
			prompts += r.pending() + len(m.high(r.Path)) // which are moved down
		}
	}
	// The rows of a prompt's last wide pass may lie anywhere, because no later wide pass sees them,
	// but they lie low while there is room. Until then, each answer takes a row and a cell in each
	// pass.
	chunk := m.wide
	if m.proven.Mixed {
		chunk = max(m.wide-others, 1)
	}
	need := min(s.pending(), m.wideReach+m.wide)
	if float64(need)*m.lone(s.Reach()) <= m.costs.group[g] {
		need = 0 // it goes row by row, wherever its rows lie
	} else if s.Reach() > m.wideReach {
		if need = 0; s.down && m.relocatesDown(s, s.Path) {
			need = min(s.pending()+len(m.high(s.Path)), m.wideReach+m.wide)
		}
	}
	have := m.cells.AvailableBelow(m.wideReach) - prompts - others*(need+prompts+chunk)/chunk
	rows := 0
	if prompts > 0 && have < 0 {
		rows = min((chunk-1-have)/chunk*chunk, prompts) // rows of the others: s has taken cells that were left to them
	}
	if need > 0 {
		fit := max(have, 0) / chunk * chunk
		if prompts == 0 && have >= 0 {
			fit += chunk
		}
		rows += max(need-fit, 0)
	}
	alone := float64(rows) * (m.lone(m.wideReach+1) - m.costs.group[g]/float64(m.wide))
	//rule:G18 TestMoves$ false
	if m.moves() && need > 0 && rows > 0 {
		// Unless enough low cells become free when the rows of answering sequences are moved up.
		lack := rows
		if prompts == 0 {
			lack = min(rows, (need-1)/m.wide*m.wide-have)
		}
		if up, cost := m.answering(s, lack); lack > 0 && len(up) == lack {
			return min(alone, cost+m.between(s))
		}
	}
	return alone
}

// between returns how much more time the passes of a prompt take if its rows lie between those of
// others, as far up as wide passes see, than if they begin at the first cell.
func (m *layout) between(s *seq) (sec float64) {
	far := m.stretch(m.wideReach, m.wide)
	for n := len(s.Path) + m.wide; n < min(len(s.ids), m.wideReach); n += m.wide {
		sec += max(far-m.stretch(n, m.wide), 0)
	}
	return sec
}

// enter adds the rows of a share to the ledger: what they would have taken one sequence after
// another, and what was lost on them.
func (m *core) enter(h *share) {
	s := h.s
	for i := h.from; i < h.from+h.n; i++ {
		turn := m.lone(i)
		if i < s.prompt && m.wide > 0 {
			if g := m.shape.GroupFor(m.minWide, i/m.wide*m.wide); g >= 0 && m.proven.Chunk {
				turn = m.costs.group[g] / float64(m.wide)
			}
			if h.n == 1 {
				m.ledger.lost += max(m.lone(s.Reach())-turn, 0)
			}
		}
		if i < s.high {
			m.ledger.lost += turn
		} else {
			m.ledger.done += turn
		}
	}
	s.high = max(s.high, h.from+h.n)
}
