package engine

import "slices"

// This file chooses where a sequence begins: on which cached rows of its text.

// start puts a sequence on the longest cached prefix of its ids that leaves at least one id to
// evaluate.
func (m *layout) start(s *seq) {
	if s.low {
		m.cells.Forget()
	}
	m.leave(s)
	if m.limits.Stops {
		s.stops = m.stops(s)
	}
	if !m.proven.Scatter {
		// Cells must be used in order, so only one sequence lives on the card. It keeps the common
		// beginning of its text and the text before.
		for _, r := range m.running {
			m.leave(r)
		}
	}
	switch {
	//rule:G14 TestRepeatable$ || s.repeatable =>
	case s.whole() || s.repeatable || m.limits.Stops && !m.restores(): // all outputs are needed, or no cached rows may be used
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

// inOrder frees every cell that does not hold the token of s with the same index.
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

// rest puts a sequence on what is cached of its text, if that is more than it has. The sequence
// then has no slot of its own.
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

// worth cuts a cached path where that makes the rest of s cheaper. It cuts where the path begins to
// lie beyond what wide passes see, if the rows after it would cost more one by one than evaluating
// from there again in near cells. If the card takes only full chunks, it cuts so that the rest is a
// number of full chunks.
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
