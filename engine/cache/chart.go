package cache

import (
	"cmp"
	"slices"

	"github.com/axle-llm/axle/ask"
)

const mostBranches = 256

// chart is scratch memory for drawing a map.
type chart struct {
	depth, root, branch []int32 // of each row: the length of its text up to there, its root and its branch
	label               []int32 // of each node: the name of the branch in which its row was first seen; 0: not seen yet
	named               int32   // the highest name so far
}

// Values of chart.branch that are not a branch's index.
const (
	ofNone = int32(-1)
	ofMany = int32(-2)
)

// Chart draws the map. It visits each row only a few times, however long the texts are and however
// many begin alike.
func (t *Tree) Chart() *ask.CellMap {
	s, n := &t.chart, t.Size()
	if len(s.depth) != n {
		s.depth, s.root, s.branch = make([]int32, n), make([]int32, n), make([]int32, n)
	}
	m := &ask.CellMap{Cells: n}
	m.Used, m.Cached, _ = t.Counts()
	m.Free = n - m.Used
	var ends []int32
	for i, st := range t.state {
		s.branch[i] = ofNone
		if st == cellNode && (t.child[i] == none || t.refs[i] > 0) {
			ends = append(ends, int32(i))
		}
	}
	slices.SortStableFunc(ends, func(a, b int32) int {
		return cmp.Or(cmp.Compare(min(t.refs[b], 1), min(t.refs[a], 1)), cmp.Compare(t.used[b], t.used[a]))
	})
	for b, end := range ends {
		// Up to a row of another branch: from there on the text is shared.
		k, depth := end, int32(0)
		for ; k >= 0 && s.branch[k] == ofNone; k = t.parent[k] {
			s.branch[k] = int32(b)
			depth++
		}
		root := ^k
		if k >= 0 {
			root = s.root[k]
			depth += s.depth[k]
		}
		for j := end; j != k; j = t.parent[j] {
			s.depth[j], s.root[j] = depth, root
			depth--
		}
		for ; k >= 0 && s.branch[k] != ofMany; k = t.parent[k] {
			s.branch[k] = ofMany
		}
	}
	keys := make([]string, len(t.roots))
	for key, r := range t.keys {
		keys[r] = key
	}
	names := s.name(t, ends)
	for b, end := range ends[:min(len(ends), mostBranches)] {
		k := end
		for k >= 0 && s.branch[k] != ofMany {
			k = t.parent[k]
		}
		br := ask.Branch{ID: int(names[b]), Key: keys[s.root[end]], Running: t.refs[end] > 0, Tokens: int(s.depth[end])}
		if k >= 0 {
			br.Shared = int(s.depth[k])
		}
		m.Branches = append(m.Branches, br)
	}
	for i, st := range t.state {
		what := ask.HoldsNothing
		switch b := s.branch[i]; {
		case st == cellTaken:
			what = ask.HoldsPass
		case st == cellNode && b == ofMany:
			what = ask.HoldsShared
			m.Shared++
		case st == cellNode && int(b) < len(m.Branches):
			what = m.Branches[b].ID
		case st == cellNode:
			what = ask.HoldsOther
		}
		if last := len(m.Runs) - 1; last >= 0 && m.Runs[last].What == what {
			m.Runs[last].Cells++
		} else {
			m.Runs = append(m.Runs, ask.CellRun{Cells: 1, What: what})
		}
	}
	return m
}

// name gives each branch a name: that of its own rows, nearest to its end. A branch without named
// rows, or whose name another branch has, gets a new name. Rows keep their names until they are
// free.
func (s *chart) name(t *Tree, ends []int32) []int32 {
	names := make([]int32, len(ends))
	taken := map[int32]bool{}
	for _, own := range []bool{true, false} { // branches with rows of their own first, then those whose text another branch continues
		for b, end := range ends {
			if names[b] != 0 {
				continue
			}
			for k := end; k >= 0 && (s.branch[k] == int32(b) || !own && k == end); k = t.parent[k] {
				if l := s.label[k]; l != 0 {
					if !taken[l] {
						names[b] = l
						taken[l] = true
					}
					break
				}
			}
		}
	}
	for b, end := range ends {
		if names[b] == 0 {
			s.named++
			names[b] = s.named
		}
		for k := end; k >= 0 && (s.branch[k] == int32(b) || k == end); k = t.parent[k] {
			if s.label[k] == 0 {
				s.label[k] = names[b]
			}
		}
	}
	return names
}
