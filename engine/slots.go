package engine

// This file is for models with recurrent layers (axcl.Pass.From, cache.Snapshots).
//
// Snapshots are left where the next request is likely to go on from: at the prompt's end but for
// what a template puts before an answer (thinking is cut out of a history, so that the very end
// does not come again), where the last turn of the user begins, after each chunk on the way, and
// where an answer ends. As many sequences run at once as there are slots: so there always is one to
// be had.
//
// A pass carries rows of one sequence, turn about. Nothing is guessed: a state that has seen a
// wrong guess would have to be made again.

// beforeEnd is how far from a prompt's end a snapshot is left where its last turn cannot be told:
// more than what templates put there.
const beforeEnd = 8

// inOwnTurn plans the next pass of a model with states: the one that waited longest, a chunk of its
// prompt up to where its state is to be kept, or one row.
func (m *planner) inOwnTurn(s *seq) []share {
	if !s.repeatable && !s.whole() && s.pending() > 1 && m.proven.Kept {
		m.layout.rest(s)
	}
	if s.repeatable {
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
