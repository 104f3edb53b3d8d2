package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/axle-llm/axle/axcl"
)

// This file chooses where a sequence's next rows will lie, before they come. Each run of neighbouring cells that a wide pass's new rows
// lie in costs a copy of K and one of V in every layer, and each wide pass costs what the cells do that its rows look back on. So a prompt
// that fills a wide pass has cells reserved for all of its rows, and for the beginning of its answer: those where passes, copies and what
// is lost of the cache cost least together. They may hold cached text. It goes when the rows come, a whole conversation before others are
// touched, and the longest unused where nothing else tells.
//
// A reservation is a preference. Who finds no other cells takes reserved ones, and a sequence whose reserved cells cannot be had any more
// has others reserved, or takes what there is.

const (
	answerAhead = 128 // rows of an answer that are reserved at a time
	mostStarts  = 64  // places that are compared
)

// reserves reports whether cells may be reserved for s: not where cells must be used in order, or there are no wide passes.
func (m *lm) reserves(s *seq) bool {
	return m.wide > 0 && m.slots == nil && m.proven.Scatter && !s.solo
}

// claim takes the cells of a share's rows from those reserved for its sequence, and reports whether it did.
func (m *lm) claim(h *share) bool {
	s := h.s
	h.cells = nil
	switch {
	case !m.reserves(s):
		return false
	case h.n == 1 && len(m.shares) > 1:
		return false // rows of several answers lie beside each other: so they are one run
	case h.n > 1 && s.pending() < m.wide && len(s.reserved) == 0:
		return false // short prompts share a pass, and lie beside each other too
	case !m.reserve(s, h.rows(), 0):
		return false
	}
	h.cells = m.fromReserved(s, h.rows())
	return true
}

// reserve sees to it that cells are reserved for the next n rows of s, and for down rows that it stands on and that lie too high. It
// reports false where no place is better than whatever cells there are.
func (m *lm) reserve(s *seq, n, down int) bool {
	c := m.cells
	if len(s.reserved) >= n && !slices.ContainsFunc(s.reserved[:n], func(k int32) bool { return c.state[k] != cellFree }) {
		return true
	}
	c.markBusy()
	if len(s.reserved) >= n && !slices.ContainsFunc(s.reserved[:n], func(k int32) bool { return !c.usable(k) }) {
		return true
	}
	m.unreserve(s)
	if s.reserved = m.place(s, down); len(s.reserved) < n {
		s.reserved = nil
		return false
	}
	c.reserve(s.reserved, true)
	return true
}

// unreserve leaves the cells to others.
func (m *lm) unreserve(s *seq) {
	m.cells.reserve(s.reserved, false)
	s.reserved = nil
}

// fromReserved takes the first n cells that are reserved for s. What is cached there goes.
func (m *lm) fromReserved(s *seq, n int) []int32 {
	out := s.reserved[:n:n]
	m.cells.reserve(out, false)
	for _, k := range out {
		if m.cells.state[k] == cellNode {
			m.cells.fell(k)
		}
		m.cells.grab(int(k))
	}
	s.reserved = s.reserved[n:]
	return out
}

// back reserves rows again that were taken from what is reserved for s, and are free.
func (m *lm) back(s *seq, rows []int32) {
	m.cells.reserve(rows, true)
	s.reserved = append(slices.Clone(rows), s.reserved...)
}

// placing is what places are compared by.
type placing struct {
	m                  *lm
	s                  *seq
	rank               []int32 // of each node that nobody stands on: how many branches were used before the last used of those it is in
	branches           int
	down, prompt, need int
	reach              int      // that the sequence's rows have without those that come down
	spoken             []uint64 // cells that rows of others are to come to
	row                float64  // what evaluating a row again takes
	seen               []int32  // of each node: for which place it was counted as lost
	place              int32
	stack              []int32
}

// place gives cells for the rows of s, ascending, or nil where it knows of none that are better than others. What is busy is marked. What
// is reserved for others' answers is theirs unless a prompt finds nothing else.
func (m *lm) place(s *seq, down int) []int32 {
	c := m.cells
	p := &placing{m: m, s: s, rank: make([]int32, c.size()), seen: make([]int32, c.size()), down: down, prompt: down + s.pending(),
		spoken: c.spoken}
	p.need = p.prompt + min(max(s.room()-1, 0), answerAhead)
	for _, n := range s.path {
		if down == 0 || int(n) < m.wideReach {
			p.reach = max(p.reach, int(n)+1)
		}
	}
	if g := m.shape.GroupFor(m.minWide, m.wideReach/2); g >= 0 {
		p.row = m.costs.group[g] / float64(m.wide)
	}
	p.branches = c.ranks(p.rank)
	out := p.best()
	if out == nil && p.prompt > 1 {
		p.spoken = make([]uint64, len(c.spoken))
		for _, r := range m.running {
			if n := min(r.pending(), len(r.reserved)); n > 1 {
				for _, k := range r.reserved[:n] {
					p.spoken[k/64] |= 1 << (k % 64)
				}
			}
		}
		out = p.best()
	}
	return out
}

// best gives the cells of the best place, or nil.
func (p *placing) best() []int32 {
	c := p.m.cells
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
	for i := at; i < c.size() && len(out) < p.need; i++ {
		if p.open(i, most) {
			out = append(out, int32(i))
		}
	}
	return out
}

// ranks numbers the branches that nobody stands on by when they were last used, from 0, and gives each of their nodes the number of the
// last used branch that it is in; −1 to all other cells. It gives how many branches there are. What is busy is marked.
func (c *cells) ranks(rank []int32) int {
	var leaves []int32
	for i := range rank {
		if rank[i] = none; c.state[i] == cellNode && c.child[i] == none && !c.busy[i] {
			leaves = append(leaves, int32(i))
		}
	}
	slices.SortFunc(leaves, func(a, b int32) int { return cmp.Compare(c.used[b], c.used[a]) })
	for i, n := range leaves {
		for ; n >= 0 && !c.busy[n] && rank[n] == none; n = c.parent[n] {
			rank[n] = int32(len(leaves) - 1 - i)
		}
	}
	return len(leaves)
}

// open reports whether a row may come to cell i, where the k branches that were used longest ago may go.
func (p *placing) open(i, k int) bool {
	c := p.m.cells
	switch {
	case p.spoken[i/64]>>(i%64)&1 == 1:
		return false
	case c.state[i] == cellFree:
		return true
	}
	return c.state[i] == cellNode && p.rank[i] >= 0 && int(p.rank[i]) < k
}

// starts are the cells where a place may begin: where a stretch of free cells or of a text does, or so far before its end that all rows
// fit, or behind the sequence's own last row. Where there are too many, short stretches do not count.
func (p *placing) starts() (out []int) {
	c := p.m.cells
	size := c.size()
	if n := len(p.s.path); n > 0 && int(p.s.path[n-1])+1 < size {
		out = append(out, int(p.s.path[n-1])+1)
	}
	own := len(out)
	joined := func(i int) bool { // cells i−1 and i are of one stretch
		return p.open(i-1, p.branches) && p.open(i, p.branches) && c.state[i-1] == c.state[i] &&
			(c.state[i] == cellFree || c.parent[i] == int32(i-1))
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

// price is what it takes to evaluate the prompt with its rows in the open cells from one on, and what is lost there of the cache; infinite
// if rows of it would go one by one that need not, or the price is not below most.
func (p *placing) price(from, k int, most float64) float64 {
	m := p.m
	c, n, top, last := m.cells, 0, p.reach, -2
	run := max(m.costs.run, 1e-6)
	price, prompt := 0.0, p.reach
	p.place++
	for i := from; i < c.size() && n < p.need; i++ {
		if !p.open(i, k) {
			continue
		}
		if first := n >= p.down && (n-p.down)%m.wide == 0; first && n < p.prompt {
			rows := min(m.wide, p.prompt-n)
			if rows > 1 && top > m.wideReach && p.prompt <= m.wideReach+m.wide {
				return math.Inf(1)
			}
			price += m.stretch(top, rows)
		} else if i != last+1 && n > 0 && n < p.prompt {
			//rule:G25 TestPlaceRuns run => 0 * run
			price += run
		} else if i != last+1 && n > 0 {
			price += run / 8 // who comes after it finds it in the way
		}
		if c.state[i] == cellNode {
			price += p.lost(int32(i))
		}
		if price >= most {
			return price
		}
		top, last = max(top, i+1), i
		if n++; n <= p.prompt {
			prompt = top
		}
	}
	if n < p.prompt {
		return math.Inf(1)
	}
	return price + p.answers(prompt, top)
}

// stretch is what so many rows of a prompt take that see so many cells: no less than what rows take that see fewer, whatever was measured.
// Else a busy moment in which a small group was measured would send prompts to high cells for good.
func (m *lm) stretch(reach, rows int) (sec float64) {
	wide := m.shape.GroupFor(m.minWide, reach)
	if wide < 0 || !m.chunks(rows) {
		return float64(rows) * m.atLeast(m.shape.GroupFor(1, min(reach, m.shape.Cells)), m.lone(reach))
	}
	return m.atLeast(wide, m.costs.group[wide])
}

// atLeast is sec, or what groups of as many rows as g that see fewer cells take, where that is more.
func (m *lm) atLeast(g int, sec float64) float64 {
	for i, other := range m.shape.Groups {
		if g >= 0 && other.Rows == m.shape.Groups[g].Rows && other.Cells < m.shape.Groups[g].Cells {
			sec = max(sec, m.costs.group[i])
		}
	}
	return sec
}

// answers is how much more answers take together, for a while, because this one's rows lie up to top, and not up to reach.
func (p *placing) answers(reach, top int) float64 {
	const passesToCome = 64
	m := p.m
	if len(m.running) < 2 || !m.proven.Mixed {
		return 0
	}
	pass := func(reach int) float64 {
		alone := float64(len(m.running)) * m.lone(reach)
		if g := m.shape.GroupFor(m.minWide, reach); g >= 0 {
			return min(alone, m.costs.group[g])
		}
		return alone
	}
	return max(pass(top)-pass(reach), 0) * float64(min(max(p.s.room(), 0), passesToCome))
}

// lost is what evaluating node n and what hangs on it again takes, as far as it was not counted for this place, times the chance that
// anybody asks for it: the more the later it was used, one half on the average.
func (p *placing) lost(n int32) (sec float64) {
	c := p.m.cells
	if p.seen[n] == p.place {
		return 0
	}
	p.stack = append(p.stack[:0], n)
	for len(p.stack) > 0 {
		n := p.stack[len(p.stack)-1]
		p.stack = p.stack[:len(p.stack)-1]
		p.seen[n] = p.place
		sec += p.row * (float64(p.rank[n]) + 0.5) / float64(p.branches)
		for k := c.child[n]; k != none; k = c.next[k] {
			if p.seen[k] != p.place {
				p.stack = append(p.stack, k)
			}
		}
	}
	return sec
}

// usable reports whether a row may come to cell n: it is free, or nobody stands on what it holds. What is busy is marked.
func (c *cells) usable(n int32) bool {
	return c.state[n] == cellFree || c.state[n] == cellNode && !c.busy[n]
}

// reserve notes of rows that they are spoken for, or are not.
func (c *cells) reserve(rows []int32, on bool) {
	for _, n := range rows {
		if c.spoken[n/64] &^= 1 << (n % 64); on {
			c.spoken[n/64] |= 1 << (n % 64)
		}
	}
}

// spare gives the free rows as bits: those that are not spoken for, if there are n of them in [from, to).
func (c *cells) spare(n, from, to int) []uint64 {
	for w, v := range c.free {
		c.bits[w] = v &^ c.spoken[w]
	}
	if freeIn(c.bits, to)-freeIn(c.bits, from) >= n {
		return c.bits
	}
	return c.free
}

// tidy joins free cells while the card has nothing else to do: what lies between two runs of free cells, and is no more than a piece, goes
// to another place where it fits, the least first. It moves one such stretch, and reports whether there was one.
func (m *lm) tidy() (bool, error) {
	if !m.moves() || m.slots != nil {
		return false, nil
	}
	from, to, n := m.cells.between(m.shape.Piece, m.wideReach)
	if n == 0 {
		return false, nil
	}
	rows, cells := make([]int32, n), make([]int32, n)
	for i := range rows {
		rows[i], cells[i] = int32(from+i), m.cells.grab(to+i)
	}
	return m.move(rows, cells)
}

// between finds the shortest stretch of nodes between free rows, of at most so many, and the smallest run of free rows that it fits into,
// both on the same side of reach; n is 0 where there is none. Whatever moves, there are fewer runs of free rows afterwards.
func (c *cells) between(most, reach int) (from, to, n int) {
	type stretch struct{ from, n int }
	var free, nodes []stretch
	for i := 0; i < c.size(); {
		j := i + 1
		for j < c.size() && c.state[j] == c.state[i] {
			j++
		}
		if s := (stretch{i, j - i}); c.state[i] == cellFree {
			free = append(free, s)
		} else if c.state[i] == cellNode && i > 0 && j < c.size() && s.n <= most && c.state[i-1] == cellFree && c.state[j] == cellFree {
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

// scattered is in how many runs the lowest n free rows lie that are not spoken for.
func (c *cells) scattered(n int) (runs int) {
	bits, last := c.spare(n, 0, c.size()), -2
	if runIn(bits, n, 0) >= 0 {
		return 1
	}
	for i := 0; i < c.size() && n > 0; i++ {
		if bits[i/64]>>(i%64)&1 == 1 {
			if i != last+1 {
				runs++
			}
			last = i
			n--
		}
	}
	return runs
}

// copies is what a pass's new rows take on their way to their cells, beyond what they take as one run.
func (c *costs) copies(rows []uint32) float64 { return c.run * float64(max(axcl.Runs(rows), 1)-1) }
