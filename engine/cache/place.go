package cache

import (
	"cmp"
	"iter"
	"math"
	"slices"
)

// This file chooses cells for a sequence's next rows in advance. If a wide pass's new rows lie in
// several runs of neighbouring cells, each run costs a copy of K and one of V in every layer. A
// wide pass also costs more if the rows that it looks back on reach farther. So a prompt that fills
// a wide pass has cells reserved for all its rows, and for the beginning of its answer. The cells
// are chosen so that passes, copies and the loss of cached text cost least together. They may hold
// cached text. It is evicted when the rows come: one whole conversation before others are touched,
// and, all else equal, the least recently used.
//
// A reservation is a preference. A sequence that finds no other cells takes reserved ones. A
// sequence that has lost reserved cells reserves others, or takes any cells.

const mostStarts = 64 // the most places that are compared

// Places chooses cells in a tree: for the next rows, and those to evict for them.
type Places struct{ t *Tree }

// Places returns the Places of this tree.
func (t *Tree) Places() Places { return Places{t} }

// Placing is what places for a sequence's next rows are compared by. Costs are in seconds.
type Placing struct {
	Prompt int // rows to come, including Down
	Down   int // of these, rows of the sequence on the card that move down first
	Ahead  int // further rows to reserve, for the answer
	Reach  int // the reach of the sequence's other rows

	Wide, WideReach int                           // the most rows of a wide pass, and how many cells it sees
	Run             float64                       // cost of each run of a wide pass's new cells after the first
	Row             float64                       // cost of evaluating a row again
	Stretch         func(reach, rows int) float64 // cost of this many rows of a prompt that see this many cells
	Answers         func(reach, top int) float64  // further cost of answers if rows reach to top, not to reach
	Prompts         iter.Seq[[]int32]             // the cells that are reserved for the prompts of sequences
}

// placing is one comparison of places.
type placing struct {
	*Placing
	t        *Tree
	last     int     // the cell of the sequence's last row, or −1
	rank     []int32 // of each node that no sequence uses: the rank of its most recently used branch
	branches int
	need     int
	taken    []uint64 // cells reserved for others
	seen     []int32  // of each node: the place for which it was counted as lost
	place    int32
	stack    []int32
}

// Reserve reserves cells for the next n rows of s: it keeps the present ones if they are usable,
// else it takes those that place returns. It returns false if place returns too few. The busy nodes
// are marked before place is called.
func (c Places) Reserve(s *Seq, n int, place func() []int32) bool {
	t := c.t
	if len(s.Reserved) >= n && !slices.ContainsFunc(s.Reserved[:n], func(k int32) bool { return t.state[k] != cellFree }) {
		return true
	}
	t.markBusy()
	if len(s.Reserved) >= n && !slices.ContainsFunc(s.Reserved[:n], func(k int32) bool { return !c.usable(k) }) {
		return true
	}
	c.Unreserve(s)
	if s.Reserved = place(); len(s.Reserved) < n {
		s.Reserved = nil
		return false
	}
	t.reserve(s.Reserved, true)
	return true
}

// Unreserve ends the reservation of s.
func (c Places) Unreserve(s *Seq) {
	t := c.t
	t.reserve(s.Reserved, false)
	s.Reserved = nil
}

// TakeReserved takes the first n cells that are reserved for s. Cached text there is evicted.
func (c Places) TakeReserved(s *Seq, n int) []int32 {
	t := c.t
	out := s.Reserved[:n:n]
	t.reserve(out, false)
	for _, k := range out {
		if t.state[k] == cellNode {
			t.fell(k)
		}
		t.Grab(int(k))
	}
	s.Reserved = s.Reserved[n:]
	return out
}

// ReserveAgain reserves cells that were taken from the reservation of s and are free again.
func (c Places) ReserveAgain(s *Seq, cells []int32) {
	t := c.t
	t.reserve(cells, true)
	s.Reserved = append(slices.Clone(cells), s.Reserved...)
}

// Place returns cells for the next rows of s, ascending, or nil if no place is better than others.
// The busy nodes must be marked, as they are when [Places.Reserve] calls it. Cells reserved for
// others' answers are used only if a prompt finds no others.
func (c Places) Place(s *Seq, how *Placing) []int32 {
	t := c.t
	p := &placing{Placing: how, t: t, last: -1, rank: make([]int32, t.Size()), seen: make([]int32, t.Size()), need: how.Prompt + how.Ahead,
		taken: t.reserved}
	if n := len(s.Path); n > 0 {
		p.last = int(s.Path[n-1])
	}
	p.branches = c.ranks(p.rank)
	out := p.best()
	if out == nil && p.Prompt > 1 {
		p.taken = make([]uint64, len(t.reserved))
		for cells := range p.Prompts {
			for _, k := range cells {
				p.taken[k/64] |= 1 << (k % 64)
			}
		}
		out = p.best()
	}
	return out
}

// best returns the cells of the best place, or nil.
func (p *placing) best() []int32 {
	t := p.t
	best, at, most := math.Inf(1), -1, 0
	starts := p.starts()
	for _, k := range []int{0, 1, 2, 3, p.branches} { // how many branches may be evicted
		if k > p.branches || k == p.branches && k > 3 && at >= 0 {
			break
		}
		for _, from := range starts {
			if price := p.price(from, k, best); price < best {
				best, at, most = price, from, k
			}
		}
	}
	if at < 0 {
		return nil
	}
	out := make([]int32, 0, p.need)
	for i := at; i < t.Size() && len(out) < p.need; i++ {
		if p.open(i, most) {
			out = append(out, int32(i))
		}
	}
	return out
}

// ranks numbers the branches that no sequence uses, from 0, the least recently used first. It sets
// each node's rank to the highest number of its branches, and −1 for all other cells. It returns
// the number of branches. The busy nodes must be marked.
func (c Places) ranks(rank []int32) int {
	t := c.t
	var leaves []int32
	for i := range rank {
		if rank[i] = none; t.state[i] == cellNode && t.child[i] == none && !t.busy[i] {
			leaves = append(leaves, int32(i))
		}
	}
	slices.SortFunc(leaves, func(a, b int32) int { return cmp.Compare(t.used[b], t.used[a]) })
	for i, n := range leaves {
		for ; n >= 0 && !t.busy[n] && rank[n] == none; n = t.parent[n] {
			rank[n] = int32(len(leaves) - 1 - i)
		}
	}
	return len(leaves)
}

// open reports whether a row may come to cell i if the k least recently used branches may be
// evicted.
func (p *placing) open(i, k int) bool {
	t := p.t
	switch {
	case p.taken[i/64]>>(i%64)&1 == 1:
		return false
	case t.state[i] == cellFree:
		return true
	}
	return t.state[i] == cellNode && p.rank[i] >= 0 && int(p.rank[i]) < k
}

// starts returns the cells where a place may begin: where a stretch of free cells or of a text
// begins, or just so far before its end that all rows fit, or behind the sequence's own last row.
// If there are too many, short stretches do not count.
func (p *placing) starts() (out []int) {
	t := p.t
	size := t.Size()
	if p.last >= 0 && p.last+1 < size {
		out = append(out, p.last+1)
	}
	own := len(out)
	joined := func(i int) bool { // cells i−1 and i belong to one stretch
		return p.open(i-1, p.branches) && p.open(i, p.branches) && t.state[i-1] == t.state[i] &&
			(t.state[i] == cellFree || t.parent[i] == int32(i-1))
	}
	for least := 1; ; least *= 4 {
		out = out[:own]
		for i := 0; i < size; {
			j := i + 1
			for j < size && joined(j) {
				j++
			}
			if p.open(i, p.branches) && j-i >= least {
				out = append(out, i)
				if e := j - p.need; e >= 0 && e != i {
					out = append(out, e)
				}
			}
			i = j
		}
		if len(out) <= mostStarts || least >= size {
			return out
		}
	}
}

// price returns the cost of evaluating the prompt with its rows in the open cells from one on, and
// of the cached text lost there. It is infinite if rows would be needlessly evaluated one by one.
// It stops when the cost reaches most.
func (p *placing) price(from, k int, most float64) float64 {
	t, n, top, last := p.t, 0, p.Reach, -2
	run := max(p.Run, 1e-6)
	price, prompt := 0.0, p.Reach
	p.place++
	for i := from; i < t.Size() && n < p.need; i++ {
		if !p.open(i, k) {
			continue
		}
		if first := n >= p.Down && (n-p.Down)%p.Wide == 0; first && n < p.Prompt {
			rows := min(p.Wide, p.Prompt-n)
			if rows > 1 && top > p.WideReach && p.Prompt <= p.WideReach+p.Wide {
				return math.Inf(1)
			}
			price += p.Stretch(top, rows)
		} else if i != last+1 && n > 0 && n < p.Prompt {
			//rule:G25 ./engine TestPlaceRuns run => 0 * run
			price += run
		} else if i != last+1 && n > 0 {
			price += run / 8 // it is in the way of later rows
		}
		if t.state[i] == cellNode {
			price += p.lost(int32(i))
		}
		if price >= most {
			return price
		}
		top, last = max(top, i+1), i
		if n++; n <= p.Prompt {
			prompt = top
		}
	}
	if n < p.Prompt {
		return math.Inf(1)
	}
	return price + p.Answers(prompt, top)
}

// lost returns the cost of evaluating node n and the nodes below it again, times the chance that a
// request needs them. Nodes already counted for this place are left out. The chance is greater for
// more recent use, and one half on average.
func (p *placing) lost(n int32) (sec float64) {
	t := p.t
	if p.seen[n] == p.place {
		return 0
	}
	p.stack = append(p.stack[:0], n)
	for len(p.stack) > 0 {
		n := p.stack[len(p.stack)-1]
		p.stack = p.stack[:len(p.stack)-1]
		p.seen[n] = p.place
		sec += p.Row * (float64(p.rank[n]) + 0.5) / float64(p.branches)
		for k := t.child[n]; k != none; k = t.next[k] {
			if p.seen[k] != p.place {
				p.stack = append(p.stack, k)
			}
		}
	}
	return sec
}

// usable reports whether a row may come to cell n: it is free, or no sequence uses its row. The
// busy nodes must be marked.
func (c Places) usable(n int32) bool {
	t := c.t
	return t.state[n] == cellFree || t.state[n] == cellNode && !t.busy[n]
}
