package cache

import (
	"cmp"
	"slices"
)

// This file chooses what gives way: which rows are evicted or moved so that others find cells.

// Idle is how many rows of path in [0, below) no sequence needs.
func (c Places) Idle(path []int32, below int) (n int) {
	t := c.t
	t.markBusy()
	for _, k := range path {
		if int(k) < below && !t.busy[k] {
			n++
		}
	}
	return n
}

// EvictBelow frees rows in [0, below) until n are free there, from the ends of branches that no
// sequence stands on, the longest unused first, as far as may allows it: it is told how many rows
// of a branch would go, and how long the text is that ends there. It reports whether n are free.
func (c Places) EvictBelow(n, below int, may func(drop, length int) bool) bool {
	t := c.t
	// Neighbours are worth a few rows more: a pass's new rows then go home together.
	enough := func() bool {
		at, free := t.Run(n, 0), t.FreeBelow(below)
		return free >= n && (at >= 0 && at+n <= below || free >= n+128)
	}
	t.markBusy()
	for !enough() {
		oldest := none
		for i := range t.state {
			if t.state[i] != cellNode || t.child[i] != none || t.refs[i] != 0 || oldest != none && t.used[i] >= t.used[oldest] {
				continue
			}
			// How far up until a row in [0, below) comes free, or one that other branches hang on
			// would?
			drop, length, low := 0, 0, false
			alone := true // nothing else hangs on the branch so far
			for k := int32(i); k >= 0; k = t.parent[k] {
				length++
				alone = alone && t.refs[k] == 0 && (t.child[k] == none || t.next[t.child[k]] == none)
				if alone && !low {
					drop++
				}
				low = low || int(k) < below && !t.busy[k]
			}
			if low && may(drop, length) {
				oldest = int32(i)
			}
		}
		if oldest == none {
			return t.FreeBelow(below) >= n
		}
		for k := oldest; k >= 0 && t.child[k] == none && t.refs[k] == 0 && !enough(); {
			up := t.parent[k]
			t.drop(k)
			k = up
		}
	}
	return true
}

// OldestBelow is the longest unused leaf that no sequence stands on and whose text has a row in [0,
// below) that none needs, with those rows and the length of the text; None where there is none.
func (c Places) OldestBelow(below int) (oldest int32, rows []int32, length int) {
	t := c.t
	t.markBusy()
	oldest = none
	for i := range t.state {
		if t.state[i] != cellNode || t.child[i] != none || t.refs[i] != 0 || oldest != none && t.used[i] >= t.used[oldest] {
			continue
		}
		for k := int32(i); k >= 0 && !t.busy[k]; k = t.parent[k] {
			if int(k) < below {
				oldest = int32(i)
				break
			}
		}
	}
	if oldest == none {
		return none, nil, 0
	}
	for k := oldest; k >= 0; k = t.parent[k] {
		if length++; int(k) < below && !t.busy[k] {
			rows = append(rows, k)
		}
	}
	slices.Sort(rows)
	return oldest, rows, length
}

// EvictAbove evicts what was used longest ago of what ends at cell from or above it, until n cells
// are free there.
func (c Places) EvictAbove(n, from int) {
	t := c.t
	for t.nfree-t.FreeBelow(from) < n {
		oldest := none
		for i := from; i < t.Size(); i++ {
			if t.state[i] == cellNode && t.child[i] == none && t.refs[i] == 0 && (oldest == none || t.used[i] < t.used[oldest]) {
				oldest = int32(i)
			}
		}
		if oldest == none {
			return
		}
		t.Prune(oldest, n)
	}
}

// Between finds the shortest stretch of nodes between free rows, of at most this many, and the
// smallest run of free rows that it fits into, both on the same side of reach; n is 0 where there
// is none. Whatever moves, there are fewer runs of free rows afterwards.
func (c Places) Between(most, reach int) (from, to, n int) {
	t := c.t
	type stretch struct{ from, n int }
	var free, nodes []stretch
	for i := 0; i < t.Size(); {
		j := i + 1
		for j < t.Size() && t.state[j] == t.state[i] {
			j++
		}
		if s := (stretch{i, j - i}); t.state[i] == cellFree {
			free = append(free, s)
		} else if t.state[i] == cellNode && i > 0 && j < t.Size() && s.n <= most && t.state[i-1] == cellFree && t.state[j] == cellFree {
			nodes = append(nodes, s)
		}
		i = j
	}
	bySize := func(a, b stretch) int { return cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(a.from, b.from)) }
	slices.SortFunc(free, bySize)
	slices.SortFunc(nodes, bySize)
	for _, s := range nodes {
		for _, f := range free {
			// Just behind itself it would still lie between the two.
			//rule:G25 TestCellsBetween f.from != s.from+s.n && =>
			if f.n >= s.n && f.from != s.from+s.n && (s.from+s.n <= reach) == (f.from+s.n <= reach) {
				return s.from, f.from, s.n
			}
		}
	}
	return 0, 0, 0
}
