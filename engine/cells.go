package engine

import (
	"math/bits"
	"sync/atomic"
)

// cells keeps account of a model's cache rows. A row that holds a token's K and V is a node of a tree: its parent is the row of the token
// before it, so a path from a root spells a text, and sequences that begin alike share the path. Node and row have the same number, so
// the tree is a handful of arrays and nothing is allocated after newCells. A node whose row is moved on the card changes its number (shift,
// in move.go).
//
// A row is free, taken (given to a pass that has not come back), or a node. Nodes without children that no sequence stands on are what is
// evicted, the longest unused first: a prefix that another sequence uses has children or a sequence on it, and stays.
//
// Texts of different keys have different roots and never share.
type cells struct {
	free    []uint64 // bit set: the row is free
	spoken  []uint64 // bit set: a sequence's next rows are to come there: see reserve.go
	bits    []uint64 // scratch for spare
	nfree   int
	token   []int32
	parent  []int32 // a node, or ^root
	child   []int32 // first child, or none
	next    []int32 // sibling
	prev    []int32 // sibling before, or none for the first
	refs    []int32 // sequences whose last token this is
	used    []uint64
	state   []uint8
	busy    []bool  // scratch for markBusy
	label   []int32 // what chart (map.go) calls the branch that a row was first seen in; 0: not seen yet
	roots   []int32 // first child of each root
	keys    map[string]int32
	names   []string // of each root, its key
	tick    uint64
	clock   *atomic.Uint64 // where ages are compared beyond this tree; nil: the tree's own
	left    []bool         // a tier has looked at what ends here and leaves it
	dropped func(n int32)  // told of each node that goes; nil: nobody is
	rungs   []int          // cells that the shape groups see, ascending: rows below a lower rung make cheaper passes
}

const none = int32(-1)

const (
	cellFree uint8 = iota
	cellTaken
	cellNode
)

func newCells(n int) *cells {
	ints := func() []int32 {
		s := make([]int32, n)
		for i := range s {
			s[i] = none
		}
		return s
	}
	words := func() []uint64 { return make([]uint64, (n+63)/64) }
	c := &cells{free: words(), spoken: words(), bits: words(), nfree: n,
		token: ints(), parent: ints(), child: ints(), next: ints(), prev: ints(),
		refs: make([]int32, n), used: make([]uint64, n), state: make([]uint8, n), busy: make([]bool, n), left: make([]bool, n),
		label: make([]int32, n), keys: map[string]int32{}}
	for i := range n {
		c.free[i/64] |= 1 << (i % 64)
	}
	return c
}

func (c *cells) size() int { return len(c.token) }

// root is the place under which texts of key hang, as a parent.
func (c *cells) root(key string) int32 {
	//rule:T17 TestKeysApart c.keys[key] => int32(0), len(c.roots) > 0
	r, ok := c.keys[key]
	if !ok {
		r = int32(len(c.roots))
		c.roots = append(c.roots, none)
		c.keys[key] = r
		c.names = append(c.names, key)
	}
	return ^r
}

func (c *cells) first(parent int32) int32 {
	if parent < 0 {
		return c.roots[^parent]
	}
	return c.child[parent]
}

// find is the child of parent that holds token, or none.
func (c *cells) find(parent, token int32) int32 {
	for n := c.first(parent); n != none; n = c.next[n] {
		if c.token[n] == token {
			return n
		}
	}
	return none
}

// match appends to path the rows of the longest prefix of ids that is kept below parent, at most limit of them, and marks them used.
func (c *cells) match(path []int32, parent int32, ids []int32, limit int) []int32 {
	c.touch()
	for _, id := range ids[:min(limit, len(ids))] {
		n := c.find(parent, id)
		if n == none {
			break
		}
		c.used[n] = c.tick
		path = append(path, n)
		parent = n
	}
	return path
}

// touch makes now later than what was.
func (c *cells) touch() {
	if c.clock != nil {
		c.tick = c.clock.Add(1)
	} else {
		c.tick++
	}
}

// peek is match that marks nothing used.
func (c *cells) peek(parent int32, ids []int32) (path []int32) {
	for _, id := range ids {
		if parent = c.find(parent, id); parent == none {
			break
		}
		path = append(path, parent)
	}
	return path
}

// hold and release count the sequences that stand on a node; a root (negative) needs no holding.
func (c *cells) hold(n int32) {
	if n >= 0 {
		c.refs[n]++
	}
}

func (c *cells) release(n int32) {
	if n >= 0 {
		c.refs[n]--
		c.touch()
		c.used[n] = c.tick
	}
}

// available is how many rows are free or could be made free.
func (c *cells) available() int {
	c.markBusy()
	n := c.nfree
	for i, st := range c.state {
		if st == cellNode && !c.busy[i] {
			n++
		}
	}
	return n
}

// availableBelow is how many of the first limit rows are free or could be made free.
func (c *cells) availableBelow(limit int) int {
	c.markBusy()
	n := 0
	for i, st := range c.state[:min(limit, len(c.state))] {
		if st == cellFree || st == cellNode && !c.busy[i] {
			n++
		}
	}
	return n
}

// markBusy sets busy for the nodes that a sequence stands on or below.
func (c *cells) markBusy() {
	clear(c.busy)
	for i, st := range c.state {
		if st != cellNode || c.refs[i] == 0 {
			continue
		}
		for n := int32(i); n >= 0 && !c.busy[n]; n = c.parent[n] {
			c.busy[n] = true
		}
	}
}

// take appends n rows to out, evicting what is needed: the lowest free rows, or the lowest consecutive run where that lets no dearer shape
// group be needed. Where it costs nothing they lie at above or beyond it, behind the rows that are there: a card that adds in the order of
// its cells then adds as it would in fresh ones. With own set they are all one sequence's, which sees as far as above anyway: what lies
// lower is left to others. It fails, taking nothing, when that many cannot be had.
func (c *cells) take(out []int32, n, above int, own bool) ([]int32, bool) {
	for c.nfree < n {
		if !c.evict() {
			return out, false
		}
	}
	free := c.spare(n, 0, c.size())
	if k := len(c.rungs); k > 0 && nth(free, n) >= c.rungs[k-1] && nth(c.free, n) < c.rungs[k-1] {
		free = c.free // what wide passes see is worth more than where another's rows are to come
	}
	below := freeIn(free, above)
	cheap := c.rung(nth(free, n) + 1)
	if own {
		cheap = max(cheap, c.rung(above))
	}
	//rule:G14 TestRowsAscend above => 0
	from := runIn(free, n, above)
	if from < 0 || c.rung(from+n) > cheap {
		from = runIn(free, n, 0)
	}
	if from >= 0 && c.rung(from+n) <= cheap {
		for i := range n {
			out = append(out, c.grab(from+i))
		}
		return out, true
	}
	skip := 0
	if freeIn(free, c.size())-below >= n && c.rung(nth(free, below+n)+1) <= cheap {
		skip = above
	}
	for w := skip / 64; n > 0; w++ {
		v := free[w]
		if w == skip/64 {
			v &= ^uint64(0) << (skip % 64)
		}
		for ; v != 0 && n > 0; v &= v - 1 {
			out = append(out, c.grab(w*64+bits.TrailingZeros64(v)))
			n--
		}
	}
	return out, true
}

// takeFrom appends n free rows to out, from row from on where there are as many, consecutive where they can be. There must be n.
func (c *cells) takeFrom(out []int32, n, from int) []int32 {
	free := c.spare(n, 0, c.size())
	if at := runIn(free, n, from); at >= 0 {
		for i := range n {
			out = append(out, c.grab(at+i))
		}
		return out
	}
	for i := from; n > 0; i++ {
		if i == c.size() {
			i = 0
		}
		if free[i/64]>>(i%64)&1 == 1 {
			out = append(out, c.grab(i))
			n--
		}
	}
	return out
}

// takeAt is take for the rows [from, from+n) and no others: what lies there goes, and what hangs on it, unless a sequence stands on it.
func (c *cells) takeAt(out []int32, from, n int) ([]int32, bool) {
	if from+n > c.size() {
		return out, false
	}
	for i := from; i < from+n; i++ {
		if c.state[i] == cellTaken || c.state[i] == cellNode && !c.fell(int32(i)) {
			return out, false
		}
	}
	for i := range n {
		out = append(out, c.grab(from+i))
	}
	return out, true
}

// fell drops a node and all that hangs on it, as far as no sequence stands there, and reports whether the node is gone.
func (c *cells) fell(n int32) bool {
	for {
		k := n
		for c.child[k] != none {
			k = c.child[k]
		}
		for c.child[k] == none {
			if c.refs[k] != 0 {
				return false
			}
			up := c.parent[k]
			if c.drop(k); k == n {
				return true
			}
			k = up
		}
	}
}

// rung is the first of rungs that covers rows [0, top).
func (c *cells) rung(top int) int {
	for i, r := range c.rungs {
		if top <= r {
			return i
		}
	}
	return len(c.rungs)
}

// freeBelow counts the free rows in [0, top).
func (c *cells) freeBelow(top int) int { return freeIn(c.free, top) }

// freeIn counts the bits of rows in [0, top).
func freeIn(free []uint64, top int) int {
	n := 0
	for w := range top / 64 {
		n += bits.OnesCount64(free[w])
	}
	if top%64 != 0 {
		n += bits.OnesCount64(free[top/64] & (1<<(top%64) - 1))
	}
	return n
}

// nth is the row of the n-th bit, counted from 1; there must be as many.
func nth(free []uint64, n int) int {
	for w, v := range free {
		if k := bits.OnesCount64(v); k < n {
			n -= k
			continue
		}
		for ; n > 1; n-- {
			v &= v - 1
		}
		return w*64 + bits.TrailingZeros64(v)
	}
	return 64 * len(free)
}

func (c *cells) grab(i int) int32 {
	c.free[i/64] &^= 1 << (i % 64)
	c.nfree--
	c.state[i] = cellTaken
	return int32(i)
}

// run is the start of the lowest n consecutive free rows at from or beyond it, or −1.
func (c *cells) run(n, from int) int { return runIn(c.free, n, from) }

// runIn is run of rows given as bits.
func runIn(free []uint64, n, from int) int {
	start, length := 0, 0
	for w := from / 64; w < len(free); w++ {
		v := free[w]
		if w == from/64 {
			v &= ^uint64(0) << (from % 64)
		}
		if v == 0 {
			length = 0
			continue
		}
		if v == ^uint64(0) {
			if length == 0 {
				start = w * 64
			}
			if length += 64; length >= n {
				return start
			}
			continue
		}
		for b := range 64 {
			if v>>b&1 == 0 {
				length = 0
				continue
			}
			if length == 0 {
				start = w*64 + b
			}
			if length++; length >= n {
				return start
			}
		}
	}
	return -1
}

// give returns a taken row unused.
func (c *cells) give(n int32) {
	c.state[n] = cellFree
	c.label[n] = 0
	c.free[n/64] |= 1 << (n % 64)
	c.nfree++
}

// attach makes a taken row the node of token below parent.
func (c *cells) attach(n, parent, token int32) {
	c.state[n] = cellNode
	c.left[n] = false
	c.token[n], c.parent[n], c.child[n], c.prev[n] = token, parent, none, none
	c.refs[n] = 0
	c.used[n] = c.tick
	head := c.first(parent)
	c.next[n] = head
	if head != none {
		c.prev[head] = n
	}
	c.setFirst(parent, n)
}

func (c *cells) setFirst(parent, n int32) {
	if parent < 0 {
		c.roots[^parent] = n
	} else {
		c.child[parent] = n
	}
}

// drop frees a node that has no children and no sequence.
func (c *cells) drop(n int32) {
	if c.dropped != nil {
		c.dropped(n)
	}
	if c.prev[n] != none {
		c.next[c.prev[n]] = c.next[n]
	} else {
		c.setFirst(c.parent[n], c.next[n])
	}
	if c.next[n] != none {
		c.prev[c.next[n]] = c.prev[n]
	}
	c.give(n)
}

// oldest is the longest unused leaf that nobody stands on, or none.
func (c *cells) oldest() int32 {
	oldest := none
	for i := range c.state {
		if c.state[i] == cellNode && c.child[i] == none && c.refs[i] == 0 && (oldest == none || c.used[i] < c.used[oldest]) {
			oldest = int32(i)
		}
	}
	return oldest
}

// evict frees the longest unused branch, from its leaf up to where others hang on it: what comes next finds its rows in one run.
func (c *cells) evict() bool {
	oldest := c.oldest()
	if oldest == none {
		return false
	}
	//rule:G25 TestCellsEvict c.size() => 32
	c.prune(oldest, c.size())
	return true
}

// lower frees rows in [0, below) until n are free there, from the ends of branches that nobody stands on, the longest unused first, as far
// as may allows it: it is told how many rows of a branch would go, and how long the text is that ends there. It reports whether n are free.
func (c *cells) lower(n, below int, may func(drop, length int) bool) bool {
	// Neighbours are worth a few rows more: a pass's new rows then go home together.
	enough := func() bool {
		at, free := c.run(n, 0), c.freeBelow(below)
		return free >= n && (at >= 0 && at+n <= below || free >= n+128)
	}
	c.markBusy()
	for !enough() {
		oldest := none
		for i := range c.state {
			if c.state[i] != cellNode || c.child[i] != none || c.refs[i] != 0 || oldest != none && c.used[i] >= c.used[oldest] {
				continue
			}
			// How far up until a row in [0, below) comes free, or one that other branches hang on would?
			drop, length, low := 0, 0, false
			alone := true // nothing else hangs on the branch so far
			for k := int32(i); k >= 0; k = c.parent[k] {
				length++
				alone = alone && c.refs[k] == 0 && (c.child[k] == none || c.next[c.child[k]] == none)
				if alone && !low {
					drop++
				}
				low = low || int(k) < below && !c.busy[k]
			}
			if low && may(drop, length) {
				oldest = int32(i)
			}
		}
		if oldest == none {
			return c.freeBelow(below) >= n
		}
		for k := oldest; k >= 0 && c.child[k] == none && c.refs[k] == 0 && !enough(); {
			up := c.parent[k]
			c.drop(k)
			k = up
		}
	}
	return true
}

// prune drops up to most rows from n up its branch, as far as nothing else hangs or stands there.
func (c *cells) prune(n int32, most int) {
	for ; most > 0 && n >= 0 && c.child[n] == none && c.refs[n] == 0; most-- {
		up := c.parent[n]
		c.drop(n)
		n = up
	}
}

// forget drops everything that no sequence uses: after an error that may have damaged the card's memory.
func (c *cells) forget() {
	for c.evict() {
	}
}

// counts says how many rows hold something, how many of those only as a cache, and how many are shared by several sequences or branches.
func (c *cells) counts() (used, cached, shared int) {
	c.markBusy()
	for i := range c.state {
		switch c.state[i] {
		case cellTaken:
			used++
		case cellNode:
			used++
			if !c.busy[i] {
				cached++
			}
			if k := c.child[i]; c.refs[i] > 1 || k != none && (c.next[k] != none || c.refs[i] > 0) {
				shared++
			}
		}
	}
	return
}
