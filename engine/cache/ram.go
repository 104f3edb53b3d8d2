package cache

import (
	"fmt"
	"slices"

	"github.com/axle-llm/axle/axcl"
)

// RAM is the RAM tier of one model: copies of rows in this machine's memory, so that a text that
// had to leave the card comes back over the link where that is cheaper than evaluating it. It is
// the card's tree once more, with rows in memory instead of cells: a node is on the card, in
// memory, or both, and a text that is in memory is there from its first token on. Roots are keys'
// here too, so that text of one key is never found by another. The longest unused goes first, from
// its end. A node's row is known by what spells it, its tokens from the root on; who gives nodes
// another identity than a token (a picture's row, a state) finds them here like any other.
//
// A snapshot of a state hangs on the row that it was after, and counts against the limit as rows
// do.
//
// The tree, the rows, back and states belong to the holder of memory's lock, all else to the card's
// worker. The lock is not held while rows are copied.
type RAM struct {
	In, Out CopyCost // to the card, and from there
	Off     bool     // it failed: nothing goes in or out any more; the worker's

	memory *Memory
	card   *Tree
	tree   *Tree
	rows   []byte // a row of tree each
	bytes  int    // of a row
	stride int    // from one row to the next
	piece  int    // rows that are copied in one call
	buf    []byte // a piece
	free   func()
	copyOf []int32 // of each cell: the row in memory with its copy, if back agrees; or none
	back   []int32 // of each row: the cell, if that says so too; or none
	ramSnapshots
}

// On reports whether rows may go in and out. A nil RAM is off.
func (r *RAM) On() bool { return r != nil && !r.Off }

// row is where row h lies.
func (r *RAM) row(h int32) []byte { return r.rows[int(h)*r.stride : (int(h)+1)*r.stride] }

// held is what the tier's rows take, and its snapshots. Memory's lock is held.
func (r *RAM) held() int64 {
	return int64(r.tree.Size()-r.tree.nfree)*int64(r.stride) + r.ramSnapshots.held()
}

// Piece is how many rows are copied in one call at most.
func (r *RAM) Piece() int { return r.piece }

// Buffer is where n rows wait on their way, at most a piece.
func (r *RAM) Buffer(n int) []byte { return r.buf[:n*r.bytes] }

// Size is how many rows there may be, how many there are, and the bytes that are taken for all and
// for those.
func (r *RAM) Size() (rows, used int, bytes, usedBytes int64) {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	return r.tree.Size(), r.tree.Size() - r.tree.nfree, int64(len(r.rows) + len(r.buf)), r.held()
}

// link makes row h the copy of cell n's.
func (r *RAM) link(n, h int32) { r.copyOf[n], r.back[h] = h, n }

// copied reports whether the row of cell n is in memory.
func (r *RAM) copied(n int32) bool { return r.copyOf[n] != none && r.back[r.copyOf[n]] == n }

// onCard reports whether row h is on the card.
func (r *RAM) onCard(h int32) bool { return r.back[h] != none && r.copyOf[r.back[h]] == h }

// Copied is how many of the rows in cells are in memory.
func (r *RAM) Copied(cells ...int32) (n int) {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	for _, c := range cells {
		if r.copied(c) {
			n++
		}
	}
	return n
}

// Relocate says that what cell n held is in cell to.
func (r *RAM) Relocate(n, to int32) {
	if r == nil {
		return
	}
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	if r.copied(n) {
		r.link(to, r.copyOf[n])
	}
	r.copyOf[n] = none
}

// Forget drops everything: what lies on the card may be wrong, and so may what was copied of it.
func (r *RAM) Forget() {
	if r == nil {
		return
	}
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	r.tree.Forget()
	clear(r.states)
	r.pending = nil
}

// Cut drops what there is of a text of key's beyond what others begin with: its sequence met an
// error.
func (r *RAM) Cut(key string, ids []int32) {
	if r == nil {
		return
	}
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	path := r.tree.Match(key, ids, len(ids))
	if len(path) > 0 {
		r.tree.Prune(path[len(path)-1], len(path))
	}
}

// locate is the node of the last row that s stands on, of its ids, and whether all of them are
// there.
func (r *RAM) locate(s *Seq, ids []int32) (int32, bool) {
	at := r.tree.root(s.Key)
	for _, id := range ids[:len(s.Path)] {
		if at = r.tree.find(at, id); at == none {
			return none, false
		}
	}
	return at, true
}

// Beyond is how many of a sequence's ids are there beyond what it stands on, at most limit of them,
// used now.
func (r *RAM) Beyond(s *Seq, ids []int32, limit int) int {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	at, ok := r.locate(s, ids)
	if !ok {
		return 0
	}
	return len(r.tree.match(nil, at, ids[len(s.Path):], limit))
}

// Next is where the next rows of a sequence are, up to s.Bring and at most a piece; nil where there
// are none. They stay there until they are released.
func (r *RAM) Next(s *Seq, ids []int32) []int32 {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	at, ok := r.locate(s, ids)
	if !ok {
		return nil
	}
	from := r.tree.match(nil, at, ids[len(s.Path):], min(s.RestoreTo-len(s.Path), r.piece))
	if len(from) > 0 {
		r.tree.hold(from[len(from)-1])
	}
	return from
}

// Release lets rows go again that Next gave.
func (r *RAM) Release(rows []int32) {
	if len(rows) == 0 {
		return
	}
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	r.tree.release(rows[len(rows)-1])
}

// Load copies rows that Next gave to where they begin their way, and gives it.
func (r *RAM) Load(rows []int32) []byte {
	for i, h := range rows {
		copy(r.buf[i*r.bytes:], r.row(h)[:r.bytes])
	}
	return r.Buffer(len(rows))
}

// Link says that the rows that Next gave are in cells now.
func (r *RAM) Link(cells, rows []int32) {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	for i, c := range cells {
		r.link(c, rows[i])
	}
}

// A Piece is rows that are to go to memory.
type Piece struct {
	Cells []uint32 // where they lie
	under int32    // the row in memory that they go behind, held
	to    []int32  // the rows that are taken for them
}

// Store ends a piece's way: its rows are in Buffer, or the call failed.
func (r *RAM) Store(p Piece, failed bool) {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	under := p.under
	if under >= 0 {
		defer r.tree.release(under)
	}
	for i, h := range p.to {
		if failed {
			r.tree.Give(h)
			continue
		}
		copy(r.row(h), r.buf[i*r.bytes:(i+1)*r.bytes])
		r.tree.attach(h, under, r.card.token[p.Cells[i]])
		r.link(int32(p.Cells[i]), h)
		under = h
	}
}

// Choose gives the next piece that is to be copied, of the text that has to leave the card next, if
// worth says that it pays: it is told of how many rows the piece is and in how many runs they lie,
// and that it belongs to a text of which rows [first, length) are not in memory. Where there is no
// piece Choose reports whether another look may find one.
func (r *RAM) Choose(worth func(n, runs, first, length int) bool) (p Piece, ok, again bool) {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	// What no sequence stands on may go first; but what is running now may be what the next one
	// pushes out at once.
	c := r.card
	end, own := none, false
	for i, st := range c.state {
		if st != cellNode || c.child[i] != none || c.left[i] || r.copied(int32(i)) {
			continue
		}
		if stands := c.refs[i] > 0; end == none || own && !stands || own == stands && c.used[i] < c.used[end] {
			end, own = int32(i), stands
		}
	}
	if end == none {
		return p, false, false
	}
	path, root := c.pathTo(end)
	first, under := r.walk(path, root, func(int32, int) {})
	n := min(len(path)-first, r.piece)
	if own && n < r.piece {
		return p, false, false // it grows
	}
	if p = r.next(path[first : first+n]); len(p.Cells) == 0 || !worth(len(p.Cells), axcl.Runs(p.Cells), first, len(path)) {
		c.left[end] = true // not looked at again
		return p, false, len(p.Cells) == 0
	}
	if p, ok = r.behind(p, under); !ok {
		c.left[end] = true // longer than all there is: its beginning is kept
	}
	return p, ok, false
}

// walk follows a path of the card's in memory, as far as it is there, by whatever cells it was
// copied from, and marks that used. It gives how far that is, and the last row. there is told of
// each. Memory's lock is held.
func (r *RAM) walk(path []int32, root int32, there func(h int32, length int)) (first int, under int32) {
	//rule:T17 ./engine TestStatesInMemoryKeys r.card.names[^root] => ""
	//rule:T17 ./engine TestRAMTierKeys r.card.names[^root] => ""
	under = r.tree.root(r.card.names[^root])
	r.tree.touch()
	for ; first < len(path); first++ {
		h := r.tree.find(under, r.card.token[path[first]])
		if h == none {
			break
		}
		r.tree.used[h] = r.tree.tick
		if !r.copied(path[first]) && !r.onCard(h) {
			r.link(path[first], h)
		}
		under = h
		there(h, first+1)
	}
	return first, under
}

// next is the piece that goes first of rows, at most a piece of them.
func (r *RAM) next(rows []int32) (p Piece) {
	p.Cells = make([]uint32, min(len(rows), r.piece))
	for i := range p.Cells {
		p.Cells[i] = uint32(rows[i])
	}
	//rule:G17 ./engine TestRAMTierGap r.Out.MostOf(p.Cells, r.piece) =>
	p.Cells = p.Cells[:r.Out.MostOf(p.Cells, r.piece)]
	return p
}

// behind takes rows for as much of a piece as there is room for, behind a row that is held until
// the piece is stored. Memory's lock is held.
func (r *RAM) behind(p Piece, under int32) (Piece, bool) {
	r.tree.hold(under)
	n := r.memory.room(r, len(p.Cells))
	if n == 0 {
		r.tree.release(under)
		return p, false
	}
	p.Cells, p.under = p.Cells[:n], under
	p.to, _ = r.tree.Take(nil, n, 0, false)
	return p, true
}

// Close gives the tier's memory back.
func (r *RAM) Close() {
	if r == nil || r.free == nil {
		return
	}
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	r.memory.tiers = slices.DeleteFunc(r.memory.tiers, func(o *RAM) bool { return o == r })
	r.free()
	r.rows, r.free, r.states, r.pending = nil, nil, nil, nil
}

// Check reports a row in memory whose account is wrong, or that is not the row of the cell that it
// is said to be a copy of.
func (r *RAM) Check() error {
	if r == nil {
		return nil
	}
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	if _, err := Check(r.tree, make([]int32, r.tree.Size())); err != nil {
		return err
	}
	if used := r.memory.used(); used > r.memory.limit {
		return fmt.Errorf("rows in memory take %d bytes of %d", used, r.memory.limit)
	}
	c, t := r.card, r.tree
	for n, h := range r.copyOf {
		if !r.copied(int32(n)) {
			continue
		}
		if c.state[n] != cellNode || t.state[h] != cellNode {
			return fmt.Errorf("cell %d is kept as row %d, which is of cell %d; states %d and %d", n, h, r.back[h], c.state[n], t.state[h])
		}
		// The whole text is the same, from the root on, and so is the key.
		p, q := int32(n), h
		for p >= 0 && q >= 0 && c.token[p] == t.token[q] {
			p, q = c.parent[p], t.parent[q]
		}
		if p >= 0 || q >= 0 || c.names[^p] != t.names[^q] {
			return fmt.Errorf("cell %d is kept as row %d, which spells another text", n, h)
		}
	}
	return nil
}
