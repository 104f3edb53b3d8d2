package cache

import (
	"slices"
	"sync/atomic"
)

// Tree records what a model's cells hold. A row with a token's K and V is a node. Its parent is the
// row of the token before it, so a path from a root spells a text, and sequences that begin alike
// share the path. Node and cell have the same number, so the tree is a few arrays, and nothing is
// allocated after [New]. A node whose row moves on the card changes its number ([Tree.Relocate]).
//
// A cell is free, taken (for a pass that has not ended), or a node. Nodes without children that no
// sequence stands on are evicted, the least recently used first. A prefix that another sequence
// uses has children or a sequence on it, so it stays.
//
// Texts of different keys have different roots and never share rows.
type Tree struct {
	Cells
	token   []int32
	parent  []int32 // a node, or ^root
	child   []int32 // first child, or none
	next    []int32 // sibling
	prev    []int32 // sibling before, or none for the first
	refs    []int32 // sequences whose last token this is
	used    []uint64
	busy    []bool  // scratch for markBusy
	roots   []int32 // first child of each root
	keys    map[string]int32
	names   []string // of each root, its key
	tick    uint64
	clock   *atomic.Uint64 // a clock shared with other trees, to compare ages; nil: the tree has its own
	left    []bool         // a tier has considered the text that ends here, and does not copy it
	dropped func(n int32)  // called for each dropped node; may be nil
	chart   chart
	told    *told // nil: no listener is told of blocks
	// snapshots hang on the tree's nodes; nil: the model has no states
	snapshots *Snapshots
}

// New returns a tree of n free cells. sees are the numbers of cells that the model's shape groups
// see.
func New(n int, sees ...int) *Tree {
	ints := func() []int32 {
		s := make([]int32, n)
		for i := range s {
			s[i] = none
		}
		return s
	}
	return &Tree{Cells: newCells(n, sees), token: ints(), parent: ints(), child: ints(), next: ints(), prev: ints(),
		refs: make([]int32, n), used: make([]uint64, n), busy: make([]bool, n), left: make([]bool, n), keys: map[string]int32{},
		chart: chart{label: make([]int32, n)}}
}

// Snapshots returns the snapshots that hang on the tree's nodes; nil: the model has no states.
func (t *Tree) Snapshots() *Snapshots { return t.snapshots }

// Take appends n cells to out and evicts rows as needed. It takes the lowest free cells, or the
// lowest consecutive run if that needs no dearer shape group. Where it costs nothing, the cells
// begin at above, behind the rows that are there: then a card that adds in the order of its cells
// adds as in fresh cells. own means that all are for one sequence, which sees as far as above
// anyway, so that lower cells are left to others. If there are not enough cells, it fails and takes
// none.
func (t *Tree) Take(out []int32, n, above int, own bool) ([]int32, bool) {
	for t.nfree < n {
		if !t.evict() {
			return out, false
		}
	}
	return t.take(out, n, above, own), true
}

// root returns the root of key's texts, in the form of a parent.
func (t *Tree) root(key string) int32 {
	//rule:T17 ./engine TestKeysApart t.keys[key] => int32(0), len(t.roots) > 0
	r, ok := t.keys[key]
	if !ok {
		r = int32(len(t.roots))
		t.roots = append(t.roots, none)
		t.keys[key] = r
		t.names = append(t.names, key)
	}
	return ^r
}

func (t *Tree) first(parent int32) int32 {
	if parent < 0 {
		return t.roots[^parent]
	}
	return t.child[parent]
}

// find returns the child of parent that holds token, or none.
func (t *Tree) find(parent, token int32) int32 {
	for n := t.first(parent); n != none; n = t.next[n] {
		if t.token[n] == token {
			return n
		}
	}
	return none
}

// match appends to path the rows of the longest prefix of ids below parent, at most limit of them,
// and marks them used.
func (t *Tree) match(path []int32, parent int32, ids []int32, limit int) []int32 {
	t.touch()
	for _, id := range ids[:min(limit, len(ids))] {
		n := t.find(parent, id)
		if n == none {
			break
		}
		t.used[n] = t.tick
		path = append(path, n)
		parent = n
	}
	return path
}

// touch advances the clock.
func (t *Tree) touch() {
	if t.clock != nil {
		t.tick = t.clock.Add(1)
	} else {
		t.tick++
	}
}

// Match returns the path of the longest prefix of ids among key's texts, at most limit rows, and
// marks it used.
func (t *Tree) Match(key string, ids []int32, limit int) []int32 {
	return t.match(nil, t.root(key), ids, limit)
}

// Beyond returns the path of s and the rows of ids that follow it, at most limit of them, and marks
// these used.
func (t *Tree) Beyond(s *Seq, ids []int32, limit int) []int32 {
	return t.match(slices.Clone(s.Path), t.Tip(s), ids, limit)
}

// Peek is Match without a limit that marks nothing used.
func (t *Tree) Peek(key string, ids []int32) (path []int32) {
	parent := t.root(key)
	for _, id := range ids {
		if parent = t.find(parent, id); parent == none {
			break
		}
		path = append(path, parent)
	}
	return path
}

// Next returns the node that holds id after the last row of s, or None. It marks nothing used.
func (t *Tree) Next(s *Seq, id int32) int32 { return t.find(t.Tip(s), id) }

// pathTo returns the path to a node, and its root.
func (t *Tree) pathTo(n int32) (path []int32, root int32) {
	for ; n >= 0; n = t.parent[n] {
		path = append(path, n)
	}
	slices.Reverse(path)
	return path, n
}

// Through returns a text that contains node n, from its last row to its first.
func (t *Tree) Through(n int32) []int32 {
	for t.child[n] != none {
		n = t.child[n]
	}
	path, _ := t.pathTo(n)
	slices.Reverse(path)
	return path
}

// Holds reports whether a cell holds a row of a text.
func (t *Tree) Holds(n int32) bool { return t.state[n] == cellNode }

// TakeBehind is Take for n rows behind path, one of key's texts, which is held meanwhile. It fails
// unless need rows are free or can be evicted. It takes cells in [0, below) as far as possible.
func (t *Tree) TakeBehind(key string, path []int32, n, need, below int) ([]int32, bool) {
	tip, above := t.root(key), 0
	for _, c := range path {
		tip, above = c, max(above, int(c)+1)
	}
	t.hold(tip)
	defer t.release(tip)
	if t.Available() < need {
		return nil, false
	}
	if below > 0 {
		t.Places().EvictBelow(n, below, func(int, int) bool { return true })
	}
	return t.Take(make([]int32, 0, n), n, above, true)
}

// Insert makes taken cells the rows behind path, one of key's texts. They hold ids.
func (t *Tree) Insert(key string, path, cells, ids []int32) {
	parent := t.root(key)
	if len(path) > 0 {
		parent = path[len(path)-1]
	}
	for i, c := range cells {
		t.attach(c, parent, ids[i])
		parent = c
	}
}

// hold and release count the sequences that stand on a node. A root (negative) is not counted.
func (t *Tree) hold(n int32) {
	if n >= 0 {
		t.refs[n]++
	}
}

func (t *Tree) release(n int32) {
	if n >= 0 {
		t.refs[n]--
		t.touch()
		t.used[n] = t.tick
	}
}

// Available returns how many rows are free or can be evicted.
func (t *Tree) Available() int {
	t.markBusy()
	n := t.nfree
	for i, st := range t.state {
		if st == cellNode && !t.busy[i] {
			n++
		}
	}
	return n
}

// AvailableBelow returns how many of the first limit rows are free or can be evicted.
func (t *Tree) AvailableBelow(limit int) int {
	t.markBusy()
	n := 0
	for i, st := range t.state[:min(limit, len(t.state))] {
		if st == cellFree || st == cellNode && !t.busy[i] {
			n++
		}
	}
	return n
}

// markBusy sets busy for the nodes on the paths of sequences.
func (t *Tree) markBusy() {
	clear(t.busy)
	for i, st := range t.state {
		if st != cellNode || t.refs[i] == 0 {
			continue
		}
		for n := int32(i); n >= 0 && !t.busy[n]; n = t.parent[n] {
			t.busy[n] = true
		}
	}
}

// TakeAt takes exactly the rows [from, from+n). Rows there are evicted with everything below them,
// unless a sequence stands there.
func (t *Tree) TakeAt(out []int32, from, n int) ([]int32, bool) {
	if from+n > t.Size() {
		return out, false
	}
	for i := from; i < from+n; i++ {
		if t.state[i] == cellTaken || t.state[i] == cellNode && !t.fell(int32(i)) {
			return out, false
		}
	}
	for i := range n {
		out = append(out, t.Grab(from+i))
	}
	return out, true
}

// fell drops a node and everything below it, as far as no sequence stands there, and reports
// whether the node is gone.
func (t *Tree) fell(n int32) bool {
	for {
		k := n
		for t.child[k] != none {
			k = t.child[k]
		}
		for t.child[k] == none {
			if t.refs[k] != 0 {
				return false
			}
			up := t.parent[k]
			if t.drop(k); k == n {
				return true
			}
			k = up
		}
	}
}

// attach makes a taken row the node of token below parent.
func (t *Tree) attach(n, parent, token int32) {
	t.state[n] = cellNode
	t.left[n] = false
	t.token[n], t.parent[n], t.child[n], t.prev[n] = token, parent, none, none
	t.refs[n], t.chart.label[n] = 0, 0
	t.used[n] = t.tick
	head := t.first(parent)
	t.next[n] = head
	if head != none {
		t.prev[head] = n
	}
	t.setFirst(parent, n)
	t.told.add(t, n)
}

func (t *Tree) setFirst(parent, n int32) {
	if parent < 0 {
		t.roots[^parent] = n
	} else {
		t.child[parent] = n
	}
}

// drop frees a node that has no children and no sequence.
func (t *Tree) drop(n int32) {
	if t.dropped != nil {
		t.dropped(n)
	}
	t.told.remove(n)
	if t.prev[n] != none {
		t.next[t.prev[n]] = t.next[n]
	} else {
		t.setFirst(t.parent[n], t.next[n])
	}
	if t.next[n] != none {
		t.prev[t.next[n]] = t.prev[n]
	}
	t.Give(n)
}

// oldest returns the least recently used leaf that no sequence stands on, or none.
func (t *Tree) oldest() int32 {
	oldest := none
	for i := range t.state {
		if t.state[i] == cellNode && t.child[i] == none && t.refs[i] == 0 && (oldest == none || t.used[i] < t.used[oldest]) {
			oldest = int32(i)
		}
	}
	return oldest
}

// evict frees the least recently used branch, from its leaf up to where others hang on it, so that
// the next rows find one run.
func (t *Tree) evict() bool {
	oldest := t.oldest()
	if oldest == none {
		return false
	}
	//rule:G25 TestCellsEvict t.Size() => 32
	t.Prune(oldest, t.Size())
	return true
}

// Prune drops up to most rows from n upwards, as far as no other node or sequence needs them.
func (t *Tree) Prune(n int32, most int) {
	for ; most > 0 && n >= 0 && t.child[n] == none && t.refs[n] == 0; most-- {
		up := t.parent[n]
		t.drop(n)
		n = up
	}
}

// Forget drops everything that no sequence uses, after an error that may have damaged the card's
// memory.
func (t *Tree) Forget() {
	for t.evict() {
	}
}

// Counts returns how many rows are used, how many of these only as a cache, and how many are shared
// by several sequences or branches.
func (t *Tree) Counts() (used, cached, shared int) {
	t.markBusy()
	for i := range t.state {
		switch t.state[i] {
		case cellTaken:
			used++
		case cellNode:
			used++
			if !t.busy[i] {
				cached++
			}
			if k := t.child[i]; t.refs[i] > 1 || k != none && (t.next[k] != none || t.refs[i] > 0) {
				shared++
			}
		}
	}
	return
}

// Relocate makes the taken row to the node that n was, and frees n.
func (t *Tree) Relocate(n, to int32) {
	t.state[to], t.token[to], t.parent[to] = cellNode, t.token[n], t.parent[n]
	t.child[to], t.next[to], t.prev[to] = t.child[n], t.next[n], t.prev[n]
	t.refs[to], t.used[to], t.left[to], t.chart.label[to] = t.refs[n], t.used[n], t.left[n], t.chart.label[n]
	if t.prev[to] != none {
		t.next[t.prev[to]] = to
	} else {
		t.setFirst(t.parent[to], to)
	}
	if t.next[to] != none {
		t.prev[t.next[to]] = to
	}
	for k := t.child[to]; k != none; k = t.next[k] {
		t.parent[k] = to
	}
	t.told.move(n, to)
	t.refs[n] = 0
	t.Give(n)
}
