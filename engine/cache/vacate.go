package cache

import (
	"cmp"
	"slices"
)

// This file chooses which rows are evicted or moved, so that others find cells.

// Idle returns how many rows of path in [0, below) no sequence needs.
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

// EvictBelow evicts rows until n are free in [0, below). It works from the ends of branches that no
// sequence stands on, the least recently used first, as far as may allows. may gets the number of a
// branch's rows that would be evicted, and the length of the text that ends there. EvictBelow
// reports whether n rows are free.
func (c Places) EvictBelow(n, below int, may func(drop, length int) bool) bool {
	t := c.t
	// A few more rows are evicted to get neighbours: a pass's new rows are then copied together.
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
			// How many rows must be evicted, from the leaf up, until a row in [0, below) is free or
			// a shared row is reached?
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

// OldestBelow returns the least recently used leaf that no sequence stands on and whose text has
// rows in [0, below) that none needs. It also returns these rows and the text's length. Without
// such a leaf it returns None.
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

// EvictAbove evicts texts that end at or above cell from, the least recently used first, until n
// cells are free there.
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

// Between finds the shortest stretch of nodes between free rows, up to most long, and the smallest
// run of free rows that it fits into, both on the same side of reach. n is 0 if there is none.
// Moving the stretch always leaves fewer runs of free rows.
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
			// Directly behind its old place, it would still lie between two runs of free rows.
			//rule:G25 TestCellsBetween f.from != s.from+s.n && =>
			if f.n >= s.n && f.from != s.from+s.n && (s.from+s.n <= reach) == (f.from+s.n <= reach) {
				return s.from, f.from, s.n
			}
		}
	}
	return 0, 0, 0
}
