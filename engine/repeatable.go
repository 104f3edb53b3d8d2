package engine

import "slices"

// A repeatable sequence (Request.Repeatable) gives the same bits each time it runs, whatever ran
// before it or waits. If sums run in the order of the cells, or a wide pass rounds differently than
// a single row, the bits depend on more than the text: in which cells its rows lie, which rows
// share its passes, and how the text was divided into passes. So every row is evaluated again, in
// cells 0, 1, 2 and so on. The sequence is alone in its passes. It has the card to itself, because
// the rows of another would lie where its next ones must lie. Its passes are divided by its own
// length only, never by measured costs, and have no guesses.
//
// It runs when the running sequences have ended, and none is admitted until it has ended. If its
// reader is slow it stands aside like any other. Rows that others leave in its cells are dropped
// when it is alone again.

// repeatableLeast is how many rows of a prompt are worth a wide pass. It is a constant, not a
// measurement, so that the division is always the same.
const repeatableLeast = 4

// sharers returns the ready sequences that may share a pass: all that are not repeatable, or else
// one repeatable sequence, preferably one that has begun.
func (m *planner) sharers(ready []*seq) []*seq {
	if i := slices.IndexFunc(ready, func(s *seq) bool { return !s.repeatable }); i >= 0 {
		return slices.DeleteFunc(ready, func(s *seq) bool { return s.repeatable })
	}
	for i, s := range ready {
		if len(s.Path) > 0 {
			ready[0], ready[i] = ready[i], ready[0]
			break
		}
	}
	return ready[:1]
}

// inTurn plans the next pass of a repeatable sequence: a chunk of its prompt, or one row.
func (m *planner) inTurn(s *seq) []share {
	from := len(s.Path)
	rows := 1
	if n := min(s.prompt-from, m.widest(from)); (n >= repeatableLeast || s.pictureNext()) && from <= m.wideReach {
		if g := m.shape.GroupFor(n, from); g >= 0 && (m.proven.Chunk || m.shape.Groups[g].Rows == n) {
			rows = n
		}
	}
	m.batch.shares = append(m.batch.shares, share{s: s, from: from, n: rows})
	return m.batch.shares
}
