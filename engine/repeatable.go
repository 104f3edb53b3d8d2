package engine

import "slices"

// A repeatable sequence (Request.Repeatable) gives the same bits each time it runs, whatever ran
// before it and waits beside it. Where sums run in the cells' order, or a wide pass rounds
// otherwise than a lone row, the bits depend on three things other than the text: in which cells
// its rows lie, which rows share its passes, and how the text was cut into passes. So it lies in
// cells 0, 1, 2 …, every row evaluated anew; it is alone in its passes, and has the card for
// itself, since another's rows would be where its next ones must lie; and its passes are cut by its
// own length alone, never by what passes were measured to cost, and without guesses.
//
// It runs when those that run have ended, and none is admitted until it has. One whose reader does
// not read stands aside like any other: what others leave in its cells goes when it is alone again.

// repeatableLeast is how many rows of a prompt are worth a wide pass: a number, not a measurement,
// so that the cut is the same on every day.
const repeatableLeast = 4

// sharers leaves of those that are ready who may share a pass: all that are not repeatable, else
// one that is, which has begun before others.
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
