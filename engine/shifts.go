package engine

import (
	"cmp"
	"slices"
)

// This file divides answers into shifts. Answers that go on together need near cells. When those
// run out, all answers would go alone from then on, which takes several times as long. So the
// youngest answers go back to the queue, and the others go on together in their cells. Those that
// went back come first when near cells are free again. Their text is then evaluated again in wide
// passes, which takes little time.

// shiftAhead is for how many more tokens the answers that go on must find near cells. An answer
// with a lower limit needs no more than that.
const shiftAhead = 64

// shift sends the youngest answers back to the queue if near cells run out and that is faster. None
// is sent back while others of an earlier shift still wait. So an answer waits until others have
// ended, or have used up the near cells and go alone.
func (m *layout) shift() {
	if m.wide == 0 || !m.limits.Together || !m.proven.Mixed || !m.proven.Chunk || !m.proven.Scatter {
		return
	}
	live := make([]*seq, 0, len(m.running))
	for _, s := range m.running {
		switch {
		case s.box.full():
			continue
		case s.pending() != 1 || s.late != nil || s.repeatable || s.embed != nil || s.Reach() > m.wideReach:
			return
		}
		live = append(live, s)
	}
	//rule:G16 TestShifts$ || m.queue.shifted() =>
	if len(live) < 3 || m.cells.AvailableBelow(m.wideReach) >= len(live) || m.queue.shifted() {
		return
	}
	slices.SortFunc(live, func(a, b *seq) int { return cmp.Compare(a.admit, b.admit) })
	n := m.shiftTo(live)
	for _, s := range slices.Backward(live[n:]) {
		s.shifted = true
		m.quit(s, exitPreempted)
	}
}

// shiftTo returns how many of the answers, the oldest first, are to go on. It is all of them if
// that is fastest.
func (m *layout) shiftTo(live []*seq) int {
	for n := len(live) - 1; n > 1; n-- {
		need, rounds := 0, 0
		for _, s := range live[:n] {
			k := min(max(s.room(), 0), shiftAhead)
			need, rounds = need+k, max(rounds, k)
		}
		if m.frees(live[:n], live[n:]) < need {
			continue
		}
		heads, _ := m.costs.heads(n)
		one, _ := m.costs.heads(1)
		wide := m.costs.group[m.shape.GroupFor(max(n, m.minWide), m.wideReach)] + heads
		layers := m.lone(m.wideReach + 1)
		alone := float64(n) * (layers + one)
		if m.costs.host[0] > 0 {
			alone = min(alone, m.costs.inTurn(n, layers))
		}
		again := 0.0
		for _, s := range live[n:] {
			again += m.redo(0, len(s.ids))
		}
		if float64(rounds)*(alone-wide) > again {
			return n
		}
		break // with fewer it is worse
	}
	return len(live)
}

// frees returns how many near cells only the answers of back use.
func (m *layout) frees(stay, back []*seq) (n int) {
	used := make([]bool, m.wideReach)
	for _, s := range stay {
		for _, c := range s.Path {
			used[c] = true
		}
	}
	for _, s := range back {
		for _, c := range s.Path {
			if !used[c] {
				used[c] = true
				n++
			}
		}
	}
	return n
}

// returns reports whether an answer that was sent back may go on: near cells are there for it and
// the others, or no other uses wide passes any more.
func (m *layout) returns(s *seq) bool {
	need := s.pending() + min(max(s.room(), 0), shiftAhead)
	together := false
	for _, r := range m.running {
		if !r.box.full() && r.Reach() <= m.wideReach {
			together = true
			need += r.pending() + min(max(r.room(), 0), shiftAhead)
		}
	}
	return !together || m.cells.AvailableBelow(m.wideReach) >= need
}
