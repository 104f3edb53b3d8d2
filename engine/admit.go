package engine

// This file decides who is let in beside those that run, so that together is never slower than one
// after another: see doc.go.
//
// A prompt whose rows lie beyond what wide passes see goes row by row, fifty times as dear; a
// sequence that is sent back to the queue for want of cells may have to be evaluated again. So a
// sequence waits until its prompt finds near cells, and until all whose answers have a known end
// can come to it. What goes beyond that is a bet, and the ledger says what may be lost: a small
// part of what one after another has taken or will have taken until then, and what being together
// will save.

// ledger is the account of a time in which the card was never idle, in seconds by the cost table.
type ledger struct {
	done float64 // what the rows that went through would have taken in their sequences' turns
	lost float64 // what rows took that had been through before, or went one by one where they might have gone together
}

// tithe is which part of the work may be lost by letting in more than surely fits; the rest up to a
// twentieth is for dearer shape groups.
const tithe = 1.0 / 32

// leastAhead is how many tokens each answer can come to at least before cells run out.
const leastAhead = 16

// admit starts queued sequences, in order, while their prompts fit beside what is running. A
// sequence whose reader does not read keeps no sequence out: it gives up its place, and its cells
// where they are needed, and finds what is left of them when it goes on.
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
			m.requeue(s) // it has the card when those that run have ended
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
		s.admit, s.served = m.admitted, m.batch.passes
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

// fits reports whether s may run beside the others: whether there are cells for all until they end,
// or what may come of letting it in all the same is worth it.
func (m *layout) fits(s *seq) bool {
	if !m.proven.Mixed || !m.proven.Chunk {
		// Prompts cannot share passes: they go one after the other, and what one has the next
		// finds.
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
	stakes -= m.redo(0, len(oldest.ids)) // it is the last to be sent back
	have := m.cells.Available() - pending
	far := m.beyond(s)
	if have >= rooms && far == 0 {
		return true
	}
	if !m.proven.Mixed || !m.proven.Chunk {
		return false // nothing is saved by being together
	}
	ahead := 0 // tokens that each can still come to
	if have >= rooms {
		stakes, ahead = 0, rooms
	} else if ahead = have / n; ahead < leastAhead {
		return false
	}
	// What those tokens would take in turn, and what passes save that carry a row of each.
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

// beyond is what it costs that rows of prompts, the others' and that of s, lie beyond what wide
// passes see: 0 where they find near cells. Prompts that crowd each other out of the ladder's reach
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
			prompts += r.pending() + len(m.high(r.Path)) // which come down
		}
	}
	// The rows of a prompt's last wide pass may lie anywhere, since nothing has to see them in it,
	// but lie low while there is room. Answers take a row of each pass until then, and a cell.
	chunk := m.wide
	if m.proven.Mixed {
		chunk = max(m.wide-others, 1)
	}
	need := min(s.pending(), m.wideReach+m.wide)
	if float64(need)*m.lone(s.Reach()) <= m.costs.group[g] {
		need = 0 // it goes row by row wherever they lie
	} else if s.Reach() > m.wideReach {
		if need = 0; s.down && m.relocatesDown(s, s.Path) {
			need = min(s.pending()+len(m.high(s.Path)), m.wideReach+m.wide)
		}
	}
	have := m.cells.AvailableBelow(m.wideReach) - prompts - others*(need+prompts+chunk)/chunk
	rows := 0
	if prompts > 0 && have < 0 {
		rows = min((chunk-1-have)/chunk*chunk, prompts) // of the others: s stands on what was left to them
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
		// Unless there are cells below once those go up that only answer.
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

// between is how much more the passes of a prompt take whose rows come between those of others, as
// far up as wide passes see, than where they begin at the first cell.
func (m *layout) between(s *seq) (sec float64) {
	far := m.stretch(m.wideReach, m.wide)
	for n := len(s.Path) + m.wide; n < min(len(s.ids), m.wideReach); n += m.wide {
		sec += max(far-m.stretch(n, m.wide), 0)
	}
	return sec
}

// enter puts a share's rows into the account: what they would have taken in turn, and what was lost
// on them.
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
