package cache

import (
	"math/bits"
	"slices"
)

// Cells is the cell allocator of one model: it knows which cells are free, and which are reserved
// for a sequence's next rows.
type Cells struct {
	free     []uint64 // bit set: the cell is free
	reserved []uint64 // bit set: the cell is reserved for a sequence's next rows: see place.go
	bits     []uint64 // scratch for spare
	nfree    int
	state    []uint8
	rungs    []int // how many cells each shape group sees, ascending: passes over rows below a lower rung are cheaper
}

// None stands for no node, cell or row.
const None = int32(-1)

const none = None

const (
	cellFree  uint8 = iota
	cellTaken       // for a pass that has not ended
	cellNode        // a node of the tree
)

func newCells(n int, rungs []int) Cells {
	words := func() []uint64 { return make([]uint64, (n+63)/64) }
	c := Cells{free: words(), reserved: words(), bits: words(), nfree: n, state: make([]uint8, n)}
	c.SetRungs(rungs)
	for i := range n {
		c.free[i/64] |= 1 << (i % 64)
	}
	return c
}

// SetRungs sets how many cells the model's shape groups see.
func (c *Cells) SetRungs(cells []int) {
	c.rungs = c.rungs[:0]
	for _, n := range cells {
		if n > 0 && n < c.Size() {
			c.rungs = append(c.rungs, n)
		}
	}
	slices.Sort(c.rungs)
	c.rungs = slices.Compact(c.rungs)
}

// Free returns how many cells are free.
func (c *Cells) Free() int { return c.nfree }

// take appends n cells to out: the lowest free ones, or the lowest consecutive run if that needs no
// dearer shape group. See [Tree.Take]. n cells must be free.
func (c *Cells) take(out []int32, n, above int, own bool) []int32 {
	free := c.spare(n, 0, c.Size())
	if k := len(c.rungs); k > 0 && nth(free, n) >= c.rungs[k-1] && nth(c.free, n) < c.rungs[k-1] {
		free = c.free // near cells are worth more than another sequence's reservation
	}
	below := freeIn(free, above)
	cheap := c.Rung(nth(free, n) + 1)
	if own {
		cheap = max(cheap, c.Rung(above))
	}
	//rule:G14 TestRowsAscend above => 0
	from := runIn(free, n, above)
	if from < 0 || c.Rung(from+n) > cheap {
		from = runIn(free, n, 0)
	}
	if from >= 0 && c.Rung(from+n) <= cheap {
		for i := range n {
			out = append(out, c.Grab(from+i))
		}
		return out
	}
	skip := 0
	if freeIn(free, c.Size())-below >= n && c.Rung(nth(free, below+n)+1) <= cheap {
		skip = above
	}
	for w := skip / 64; n > 0; w++ {
		v := free[w]
		if w == skip/64 {
			v &= ^uint64(0) << (skip % 64)
		}
		for ; v != 0 && n > 0; v &= v - 1 {
			out = append(out, c.Grab(w*64+bits.TrailingZeros64(v)))
			n--
		}
	}
	return out
}

// Size returns how many cells there are.
func (c *Cells) Size() int { return len(c.state) }

// TakeFrom appends n free cells to out, from cell from on if there are that many, and consecutive
// if possible. n cells must be free.
func (c *Cells) TakeFrom(out []int32, n, from int) []int32 {
	free := c.spare(n, 0, c.Size())
	if at := runIn(free, n, from); at >= 0 {
		for i := range n {
			out = append(out, c.Grab(at+i))
		}
		return out
	}
	for i := from; n > 0; i++ {
		if i == c.Size() {
			i = 0
		}
		if free[i/64]>>(i%64)&1 == 1 {
			out = append(out, c.Grab(i))
			n--
		}
	}
	return out
}

// TakeIn appends n cells of [from, to) to out, the lowest run if there is one, else the lowest
// cells. n of them must be free.
func (c *Cells) TakeIn(out []int32, n, from, to int) []int32 {
	free := c.spare(n, from, to)
	if at := runIn(free, n, from); at >= 0 && at+n <= to {
		for i := range n {
			out = append(out, c.Grab(at+i))
		}
		return out
	}
	for i := from; i < to && n > 0; i++ {
		if free[i/64]>>(i%64)&1 == 1 {
			out = append(out, c.Grab(i))
			n--
		}
	}
	return out
}

// Rung returns the first rung that covers cells [0, top).
func (c *Cells) Rung(top int) int {
	for i, r := range c.rungs {
		if top <= r {
			return i
		}
	}
	return len(c.rungs)
}

// FreeBelow counts the free cells in [0, top).
func (c *Cells) FreeBelow(top int) int { return freeIn(c.free, top) }

// freeIn counts the bits set in [0, top).
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

// nth returns the cell of the n-th bit set, counted from 1. There must be n bits.
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

// Grab takes a free cell.
func (c *Cells) Grab(i int) int32 {
	c.free[i/64] &^= 1 << (i % 64)
	c.nfree--
	c.state[i] = cellTaken
	return int32(i)
}

// Run returns the start of the lowest n consecutive free cells at or above from, or −1.
func (c *Cells) Run(n, from int) int { return runIn(c.free, n, from) }

// runIn is Run for cells given as bits.
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

// Give gives taken cells back.
func (c *Cells) Give(rows ...int32) {
	for _, n := range rows {
		c.state[n] = cellFree
		c.free[n/64] |= 1 << (n % 64)
		c.nfree++
	}
}

// reserve sets whether cells are reserved.
func (c *Cells) reserve(rows []int32, on bool) {
	for _, n := range rows {
		if c.reserved[n/64] &^= 1 << (n % 64); on {
			c.reserved[n/64] |= 1 << (n % 64)
		}
	}
}

// spare returns the free cells as bits: only those that are not reserved, if there are n of them in
// [from, to).
func (c *Cells) spare(n, from, to int) []uint64 {
	for w, v := range c.free {
		c.bits[w] = v &^ c.reserved[w]
	}
	if freeIn(c.bits, to)-freeIn(c.bits, from) >= n {
		return c.bits
	}
	return c.free
}

// Scattered returns the number of runs that the lowest n free, unreserved cells lie in.
func (c *Cells) Scattered(n int) (runs int) {
	bits, last := c.spare(n, 0, c.Size()), -2
	if runIn(bits, n, 0) >= 0 {
		return 1
	}
	for i := 0; i < c.Size() && n > 0; i++ {
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
