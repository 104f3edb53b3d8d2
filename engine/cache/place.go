package cache

import (
	"cmp"
	"iter"
	"math"
	"slices"
)

// This file chooses where a sequence's next rows will lie, before they come. Each run of
// neighbouring cells that a wide pass's new rows lie in costs a copy of K and one of V in every
// layer, and each wide pass costs what the cells do that its rows look back on. So a prompt that
// fills a wide pass has cells reserved for all of its rows, and for the beginning of its answer:
// those where passes, copies and what is lost of the cache cost least together. They may hold
// cached text. It goes when the rows come, a whole conversation before others are touched, and the
// longest unused where nothing else tells.
//
// A reservation is a preference. Who finds no other cells takes reserved ones, and a sequence whose
// reserved cells cannot be had any more has others reserved, or takes what there is.

const mostStarts = 64 // places that are compared

// Places chooses cells in a tree: where the next rows will lie, and what gives way to them.
type Places struct{ t *Tree }

// Places chooses cells in this tree.
func (t *Tree) Places() Places { return Places{t} }

// Placing is what the places for a sequence's next rows are compared by. Costs are in seconds.
type Placing struct {
	Prompt int // rows that are to come, with those of Down
	Down   int // of these, rows that the sequence stands on and that come down first
	Ahead  int // rows of the answer that cells are reserved for in addition
	Reach  int // that the sequence's rows have without those that come down

	Wide, WideReach int                           // most rows of a wide pass, and how many cells it sees
	Run             float64                       // what a wide pass takes more for each run of cells after the first
	Row             float64                       // what evaluating a row again takes
	Stretch         func(reach, rows int) float64 // what this many rows of a prompt take that see this many cells
	Answers         func(reach, top int) float64  // what answers take more because rows lie up to top, and not up to reach
	Prompts         iter.Seq[[]int32]             // the cells that are reserved for the prompts of sequences
}

// placing is one comparison.
type placing struct {
	*Placing
	t        *Tree
	last     int     // the cell of the sequence's last row, or −1
	rank     []int32 // of each node that no sequence stands on: how many branches were used before the last used of those it is in
	branches int
	need     int
	taken    []uint64 // cells that rows of others are to come to
	seen     []int32  // of each node: for which place it was counted as lost
	place    int32
	stack    []int32
}

// Reserve sees to it that cells are reserved for the next n rows of s: those that are, or as many
// of what place gives. It reports false where place knows of none. What is busy is marked when it
// is asked.
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

// Unreserve leaves the cells to others.
func (c Places) Unreserve(s *Seq) {
	t := c.t
	t.reserve(s.Reserved, false)
	s.Reserved = nil
}

// TakeReserved takes the first n cells that are reserved for s. What is cached there goes.
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

// ReserveAgain reserves cells that were taken from what is reserved for s, and are free.
func (c Places) ReserveAgain(s *Seq, cells []int32) {
	t := c.t
	t.reserve(cells, true)
	s.Reserved = append(slices.Clone(cells), s.Reserved...)
}

// Place gives cells for the next rows of s, ascending, or nil where it knows of none that are
// better than others. What is busy must be marked, as it is when [Places.Reserve] asks. What is
// reserved for others' answers is theirs unless a prompt finds nothing else.
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

// best gives the cells of the best place, or nil.
func (p *placing) best() []int32 {
	t := p.t
	best, at, most := math.Inf(1), -1, 0
	starts := p.starts()
	for _, k := range []int{0, 1, 2, 3, p.branches} { // how many branches may go
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

// ranks numbers the branches that no sequence stands on by when they were last used, from 0, and
// gives each of their nodes the number of the last used branch that it is in; −1 to all other
// cells. It gives how many branches there are. What is busy is marked.
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

// open reports whether a row may come to cell i, where the k branches that were used longest ago
// may go.
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

// starts are the cells where a place may begin: where a stretch of free cells or of a text does, or
// so far before its end that all rows fit, or behind the sequence's own last row. Where there are
// too many, short stretches do not count.
func (p *placing) starts() (out []int) {
	t := p.t
	size := t.Size()
	if p.last >= 0 && p.last+1 < size {
		out = append(out, p.last+1)
	}
	own := len(out)
	joined := func(i int) bool { // cells i−1 and i are of one stretch
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

// price is what it takes to evaluate the prompt with its rows in the open cells from one on, and
// what is lost there of the cache; infinite if rows of it would go one by one that need not, or the
// price is not below most.
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
			price += run / 8 // who comes after it finds it in the way
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

// lost is what evaluating node n and what hangs on it again takes, as far as it was not counted for
// this place, times the chance that anybody asks for it: the more the later it was used, one half
// on the average.
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

// usable reports whether a row may come to cell n: it is free, or no sequence stands on what it
// holds. What is busy is marked.
func (c Places) usable(n int32) bool {
	t := c.t
	return t.state[n] == cellFree || t.state[n] == cellNode && !t.busy[n]
}
