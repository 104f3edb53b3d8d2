package cache

import (
	"slices"
	"sync/atomic"
)

// Tree is what a model's cells hold. A row that holds a token's K and V is a node: its parent is
// the row of the token before it, so a path from a root spells a text, and sequences that begin
// alike share the path. Node and cell have the same number, so the tree is a handful of arrays and
// nothing is allocated after [New]. A node whose row is moved on the card changes its number
// ([Tree.Shift]).
//
// A cell is free, taken (given to a pass that has not come back), or a node. Nodes without children
// that no sequence stands on are what is evicted, the longest unused first: a prefix that another
// sequence uses has children or a sequence on it, and stays.
//
// Texts of different keys have different roots and never share.
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
	clock   *atomic.Uint64 // where ages are compared beyond this tree; nil: the tree's own
	left    []bool         // a tier has looked at what ends here and leaves it
	dropped func(n int32)  // told of each node that goes; nil: nothing is
	chart   chart
	// snapshots of states that hang on nodes; nil: there are none
	snapshots *Snapshots
}

// New is a tree of n cells, all free. Its model's shape groups see this many of them each.
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

// Snapshots are those that hang on the tree's nodes; nil: the model has no states.
func (t *Tree) Snapshots() *Snapshots { return t.snapshots }

// Take appends n cells to out, evicting what is needed: the lowest free ones, or the lowest
// consecutive run where that lets no dearer shape group be needed. Where it costs nothing they lie
// at above or beyond it, behind the rows that are there: a card that adds in the order of its cells
// then adds as it would in fresh ones. With own set they are all one sequence's, which sees as far
// as above anyway: what lies lower is left to others. It fails, taking nothing, when that many
// cannot be had.
func (t *Tree) Take(out []int32, n, above int, own bool) ([]int32, bool) {
	for t.nfree < n {
		if !t.evict() {
			return out, false
		}
	}
	return t.take(out, n, above, own), true
}

// root is the place under which texts of key hang, as a parent.
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

// find is the child of parent that holds token, or none.
func (t *Tree) find(parent, token int32) int32 {
	for n := t.first(parent); n != none; n = t.next[n] {
		if t.token[n] == token {
			return n
		}
	}
	return none
}

// match appends to path the rows of the longest prefix of ids that is kept below parent, at most
// limit of them, and marks them used.
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

// touch makes now later than what was.
func (t *Tree) touch() {
	if t.clock != nil {
		t.tick = t.clock.Add(1)
	} else {
		t.tick++
	}
}

// Match is the path of the longest prefix of ids that is kept of key's texts, at most limit of
// them, and marks it used.
func (t *Tree) Match(key string, ids []int32, limit int) []int32 {
	return t.match(nil, t.root(key), ids, limit)
}

// Beyond is the path of s with what is kept of ids beyond it, at most limit of them, and marks that
// used.
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

// Next is the node that holds id after the last row of s, or None. It marks nothing used.
func (t *Tree) Next(s *Seq, id int32) int32 { return t.find(t.Tip(s), id) }

// pathTo is the path to a node, and its root.
func (t *Tree) pathTo(n int32) (path []int32, root int32) {
	for ; n >= 0; n = t.parent[n] {
		path = append(path, n)
	}
	slices.Reverse(path)
	return path, n
}

// Through is a text that goes through node n, from its last row to its first.
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

// TakeBehind is Take for n rows behind path, which belongs to key's texts and is held meanwhile:
// only where this many rows as need are free or can be made free, and in [0, below) as far as they
// can be.
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

// Insert makes cells that were taken the rows behind path, of key's, which hold ids.
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

// hold and release count the sequences that stand on a node; a root (negative) needs no holding.
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

// Available is how many rows are free or could be made free.
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

// AvailableBelow is how many of the first limit rows are free or could be made free.
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

// markBusy sets busy for the nodes that a sequence stands on or below.
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

// TakeAt is take for the rows [from, from+n) and no others: what lies there goes, and what hangs on
// it, unless a sequence stands on it.
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

// fell drops a node and all that hangs on it, as far as no sequence stands there, and reports
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

// oldest is the longest unused leaf that no sequence stands on, or none.
func (t *Tree) oldest() int32 {
	oldest := none
	for i := range t.state {
		if t.state[i] == cellNode && t.child[i] == none && t.refs[i] == 0 && (oldest == none || t.used[i] < t.used[oldest]) {
			oldest = int32(i)
		}
	}
	return oldest
}

// evict frees the longest unused branch, from its leaf up to where others hang on it: what comes
// next finds its rows in one run.
func (t *Tree) evict() bool {
	oldest := t.oldest()
	if oldest == none {
		return false
	}
	//rule:G25 TestCellsEvict t.Size() => 32
	t.Prune(oldest, t.Size())
	return true
}

// Prune drops up to most rows from n up its branch, as far as nothing else hangs or stands there.
func (t *Tree) Prune(n int32, most int) {
	for ; most > 0 && n >= 0 && t.child[n] == none && t.refs[n] == 0; most-- {
		up := t.parent[n]
		t.drop(n)
		n = up
	}
}

// Forget drops everything that no sequence uses: after an error that may have damaged the card's
// memory.
func (t *Tree) Forget() {
	for t.evict() {
	}
}

// Counts says how many rows hold something, how many of those only as a cache, and how many are
// shared by several sequences or branches.
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

// Relocate makes row to, which is taken, the node that n was; n is free.
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
	t.refs[n] = 0
	t.Give(n)
}
