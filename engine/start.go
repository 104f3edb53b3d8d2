package engine

import "slices"

// This file is where a sequence begins: on which cached rows of its text.

// start puts a sequence on the longest cached prefix of its ids, at least one id left to evaluate.
func (m *layout) start(s *seq) {
	if s.low {
		m.cells.Forget()
	}
	m.leave(s)
	if m.limits.Stops {
		s.stops = m.stops(s)
	}
	if !m.proven.Scatter {
		// Cells must be used in order: only one sequence lives on the card, and it keeps what
		// begins alike.
		for _, r := range m.running {
			m.leave(r)
		}
	}
	switch {
	//rule:G14 TestRepeatable$ || s.repeatable =>
	case s.whole() || s.repeatable || m.limits.Stops && !m.restores(): // every row's output is needed, or none of an earlier run
		if !m.proven.Scatter {
			m.cells.Forget()
		}
	case !m.proven.Scatter:
		m.inOrder(s)
	case m.limits.Stops:
		m.rest(s)
	default:
		m.cells.Stand(&s.Seq, m.worth(s, m.cells.Match(s.Key, s.ids, len(s.ids)-1)))
		s.down = m.wide > 0 && s.Reach() > m.wideReach
	}
}

// inOrder frees every cell that does not hold, at its own place, the token that s has there.
func (m *layout) inOrder(s *seq) {
	path := m.cells.Match(s.Key, s.ids, len(s.ids)-1)
	for i, n := range path {
		if int(n) != i {
			path = path[:i]
			break
		}
	}
	m.cells.Stand(&s.Seq, path)
	m.cells.Forget()
}

// rest puts a sequence on what is kept of its text, where that is more than it stands on. It has no
// slot of its own then.
func (m *layout) rest(s *seq) {
	path, slot := m.cache.Match(s.Key, s.ids, len(s.ids)-1)
	if len(path) <= len(s.Path) || len(m.worth(s, path)) < len(path) {
		return
	}
	if s.begun && s.usage.Output == 0 {
		s.usage.Cached += len(path) - len(s.Path)
	}
	m.cache.Stand(&s.Seq, path, slot)
}

// worth cuts a cached path where that makes the rest of s cheaper: where it begins to lie beyond
// what wide passes see, if the rows that would have to follow one by one cost more than evaluating
// from there on again in near cells; and where the card only takes full chunks, so that the rest is
// some.
func (m *layout) worth(s *seq, path []int32) []int32 {
	rest := len(s.ids) - len(path)
	if m.wide == 0 {
		return path
	}
	if low := slices.IndexFunc(path, func(n int32) bool { return int(n) >= m.wideReach }); low >= 0 && (s.shown() > len(path) ||
		m.chunks(rest) && m.redo(low, len(s.ids)) < float64(rest)*m.lone(m.cells.Size()) && !m.relocatesDown(s, path)) {
		path = path[:low]
	}
	if !m.proven.Chunk {
		full := len(s.ids) - (len(s.ids)-len(path)+m.minWide-1)/m.minWide*m.minWide
		if full >= 0 && m.redo(full, len(s.ids)) < m.redo(len(path), len(s.ids)) {
			path = path[:full]
		}
	}
	return path
}
