package cache

import (
	"fmt"
	"slices"

	"github.com/axle-llm/axle/axcl"
)

// RAM is the RAM tier of one model. It keeps copies of rows in this machine's memory, so that an
// evicted text can be restored where that is cheaper than evaluating it. It has a tree like the
// card's, with rows in memory instead of cells. A row may be on the card, in memory, or both. A
// text in memory is there from its first token on. Keys have their own roots here too, so a text of
// one key is never found by another. The least recently used goes first, from its end. A row is
// identified by the tokens from the root to it. Rows with another identity than a token (a
// picture's) are found in the same way.
//
// A snapshot of a state hangs on the row after which it was made, and counts towards the limit as
// rows do.
//
// The tree, rows, back and states belong to the holder of memory's lock, the rest to the card's
// worker. The lock is not held while rows are copied.
type RAM struct {
	In, Out CopyCost // the costs of copies to the card, and from it
	Off     bool     // it failed, so nothing is copied any more; the worker's

	memory *Memory
	card   *Tree
	tree   *Tree
	rows   []byte // of all rows of tree
	bytes  int    // of a row
	stride int    // from one row to the next
	piece  int    // the most rows that one call copies
	buf    []byte // a piece
	free   func()
	copyOf []int32 // of each cell: the row in memory that is its copy, if back agrees; or none
	back   []int32 // of each row: the cell, if copyOf agrees; or none
	ramSnapshots
}

// On reports whether rows may be copied. A nil RAM is off.
func (r *RAM) On() bool { return r != nil && !r.Off }

// row returns the memory of row h.
func (r *RAM) row(h int32) []byte { return r.rows[int(h)*r.stride : (int(h)+1)*r.stride] }

// held returns how many bytes the tier's rows and snapshots take. Memory's lock is held.
func (r *RAM) held() int64 {
	return int64(r.tree.Size()-r.tree.nfree)*int64(r.stride) + r.ramSnapshots.held()
}

// Piece returns the most rows that one call copies.
func (r *RAM) Piece() int { return r.piece }

// Buffer returns the buffer for copying n rows, at most a piece.
func (r *RAM) Buffer(n int) []byte { return r.buf[:n*r.bytes] }

// Size returns the number of rows that fit and that are used, and the bytes of both.
func (r *RAM) Size() (rows, used int, bytes, usedBytes int64) {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	return r.tree.Size(), r.tree.Size() - r.tree.nfree, int64(len(r.rows) + len(r.buf)), r.held()
}

// link makes row h the copy of cell n.
func (r *RAM) link(n, h int32) { r.copyOf[n], r.back[h] = h, n }

// copied reports whether the row of cell n is in memory.
func (r *RAM) copied(n int32) bool { return r.copyOf[n] != none && r.back[r.copyOf[n]] == n }

// onCard reports whether row h is on the card.
func (r *RAM) onCard(h int32) bool { return r.back[h] != none && r.copyOf[r.back[h]] == h }

// Copied returns how many of the rows in cells are in memory.
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

// Relocate says that the row of cell n has moved to cell to.
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

// Forget drops everything: the rows on the card may be wrong, and so may their copies.
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

// Cut drops a text of key's, except what other texts begin with, after an error of its sequence.
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

// locate returns the node of the last row that s stands on, and whether all these rows are in
// memory. ids are the sequence's.
func (r *RAM) locate(s *Seq, ids []int32) (int32, bool) {
	at := r.tree.root(s.Key)
	for _, id := range ids[:len(s.Path)] {
		if at = r.tree.find(at, id); at == none {
			return none, false
		}
	}
	return at, true
}

// Beyond returns how many of a sequence's ids are in memory beyond those that it stands on, at most
// limit, and marks them used.
func (r *RAM) Beyond(s *Seq, ids []int32, limit int) int {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	at, ok := r.locate(s, ids)
	if !ok {
		return 0
	}
	return len(r.tree.match(nil, at, ids[len(s.Path):], limit))
}

// Next returns the sequence's next rows in memory, up to s.RestoreTo and at most a piece; nil if
// there are none. They stay in memory until they are released.
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

// Release releases rows that Next returned.
func (r *RAM) Release(rows []int32) {
	if len(rows) == 0 {
		return
	}
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	r.tree.release(rows[len(rows)-1])
}

// Load copies rows that Next returned into the buffer, and returns it.
func (r *RAM) Load(rows []int32) []byte {
	for i, h := range rows {
		copy(r.buf[i*r.bytes:], r.row(h)[:r.bytes])
	}
	return r.Buffer(len(rows))
}

// Link says that the rows that Next returned are in cells now.
func (r *RAM) Link(cells, rows []int32) {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	for i, c := range cells {
		r.link(c, rows[i])
	}
}

// A Piece is rows that are copied to memory.
type Piece struct {
	Cells []uint32 // where they are on the card
	under int32    // the row in memory before them, held
	to    []int32  // the rows in memory taken for them
}

// Store stores a piece, whose rows are in Buffer, or frees its rows if the call failed.
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

// Choose returns the next piece to copy, of the text that will be evicted next, if worth says that
// it pays. worth gets the number of the piece's rows, the number of their runs, and the text's
// length; its rows [first, length) are not in memory. If there is no piece, Choose reports whether
// another call may find one.
func (r *RAM) Choose(worth func(n, runs, first, length int) bool) (p Piece, ok, again bool) {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	// Texts that no sequence uses are evicted first. But the next sequence may evict a text that is
	// running now, so running texts are copied too.
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
		return p, false, false // it is still growing
	}
	if p = r.next(path[first : first+n]); len(p.Cells) == 0 || !worth(len(p.Cells), axcl.Runs(p.Cells), first, len(path)) {
		c.left[end] = true // not considered again
		return p, false, len(p.Cells) == 0
	}
	if p, ok = r.behind(p, under); !ok {
		c.left[end] = true // longer than the memory: its beginning is kept
	}
	return p, ok, false
}

// walk follows a path of the card in memory as far as it is there, and marks it used. Rows copied
// from other cells count. It returns how far that is, and the last row. there is called for each
// row. Memory's lock is held.
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

// next returns the first piece of rows to copy.
func (r *RAM) next(rows []int32) (p Piece) {
	p.Cells = make([]uint32, min(len(rows), r.piece))
	for i := range p.Cells {
		p.Cells[i] = uint32(rows[i])
	}
	//rule:G17 ./engine TestRAMTierGap r.Out.MostOf(p.Cells, r.piece) =>
	p.Cells = p.Cells[:r.Out.MostOf(p.Cells, r.piece)]
	return p
}

// behind takes rows in memory for as much of a piece as fits, behind the row under. That row is
// held until the piece is stored. Memory's lock is held.
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

// Close frees the tier's memory.
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

// Check returns an error for a row in memory whose account is wrong, or that is no longer a
// copy of its cell.
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
