package engine

// This file is for models with recurrent layers (axcl.Pass.From, cache.Snapshots).
//
// Snapshots are kept where the next request is likely to continue: before the end of the prompt,
// where the last turn of the user begins, after each chunk on the way, and where an answer ends.
// The snapshot before the end of the prompt leaves out what a template puts before an answer.
// Thinking is cut out of a history, so the very end does not occur again. At most as many sequences
// run at once as there are slots, so there is always a slot.
//
// A pass carries rows of one sequence, and the sequences take turns. Nothing is guessed, because a
// state after a wrong guess would have to be computed again.

// beforeEnd is how far before a prompt's end a snapshot is kept if the last turn's beginning is not
// known. It is more than what templates put there.
const beforeEnd = 8

// inOwnTurn plans the next pass of a model with states, for the sequence that waited longest: a
// chunk of its prompt up to where its state is to be kept, or one row.
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
