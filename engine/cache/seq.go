package cache

import "math/bits"

// Seq is a sequence's place in the cache. The zero Seq has no rows. [NewSeq] makes one that can
// stand on a tree.
type Seq struct {
	Key      string   // it shares rows only with texts of this key
	Path     []int32  // the cells of its rows on the card, in the text's order
	See      []uint64 // the cells of Path as bits
	Near     []uint64 // the cells that layers with a window see, those of Path[far:]; nil: there are no such layers
	far      int
	Reserved []int32 // the cells for its next rows: see place.go

	State     uint32 // the slot with the state after Path: see snapshots.go; 0: there is none
	Own       bool   // the next pass may replace this state
	RestoreTo int    // its rows up to here are being restored from memory, piece by piece
	Restored  int    // bytes of its state restored from memory
}

// NewSeq returns a sequence of key's on a tree of this many cells. window says whether the model
// has layers with a window.
func NewSeq(key string, cells int, window bool) Seq {
	s := Seq{Key: key, See: make([]uint64, (cells+63)/64)}
	if window {
		s.Near = make([]uint64, len(s.See))
	}
	return s
}

// Reach returns one more than the highest cell that the sequence sees.
func (s *Seq) Reach() int {
	for w := len(s.See) - 1; w >= 0; w-- {
		if v := s.See[w]; v != 0 {
			return w*64 + bits.Len64(v)
		}
	}
	return 0
}

// Window sets the beginning of the layers' window to Path[from].
func (s *Seq) Window(from int) {
	from = max(0, min(from, len(s.Path)))
	for ; s.far < from; s.far++ {
		n := s.Path[s.far]
		s.Near[n/64] &^= 1 << (n % 64)
	}
	for s.far > from {
		s.far--
		n := s.Path[s.far]
		s.Near[n/64] |= 1 << (n % 64)
	}
}

// Relocate updates a sequence after rows have moved. now maps old cells to new ones.
func (s *Seq) Relocate(now map[int32]int32) {
	any := false
	for i, n := range s.Path {
		to, ok := now[n]
		if !ok {
			continue
		}
		any = true
		s.Path[i] = to
		s.See[n/64] &^= 1 << (n % 64)
		if s.Near != nil {
			s.Near[n/64] &^= 1 << (n % 64)
		}
	}
	if !any {
		return
	}
	for i, n := range s.Path {
		s.See[n/64] |= 1 << (n % 64)
		if s.Near != nil && i >= s.far {
			s.Near[n/64] |= 1 << (n % 64)
		}
	}
}

// Tip returns the node of the sequence's last row on the card, or, without rows, the root of its
// key's texts.
func (t *Tree) Tip(s *Seq) int32 {
	if len(s.Path) == 0 {
		return t.root(s.Key)
	}
	return s.Path[len(s.Path)-1]
}

// Stand puts the sequence on path, and holds its last node.
func (t *Tree) Stand(s *Seq, path []int32) {
	t.release(t.Tip(s))
	s.Path = path
	t.hold(t.Tip(s))
	clear(s.See)
	for _, n := range path {
		s.See[n/64] |= 1 << (n % 64)
	}
	copy(s.Near, s.See)
	s.far = 0
}

// Step moves the sequence on to node n.
func (t *Tree) Step(s *Seq, n int32) {
	t.release(t.Tip(s))
	s.Path = append(s.Path, n)
	t.hold(n)
	//rule:G12 ./engine TestSameTokens$ drop
	s.See[n/64] |= 1 << (n % 64)
	if s.Near != nil {
		s.Near[n/64] |= 1 << (n % 64)
	}
}

// Commit makes a taken cell the sequence's next row, which holds token.
func (t *Tree) Commit(s *Seq, n, token int32) {
	t.attach(n, t.Tip(s), token)
	t.Step(s, n)
}

// leave takes the sequence off its cells. They stay as a cache.
func (t *Tree) leave(s *Seq) {
	t.Places().Unreserve(s)
	t.release(t.Tip(s))
	s.Path = nil
	clear(s.See)
	clear(s.Near)
	s.far = 0
}
