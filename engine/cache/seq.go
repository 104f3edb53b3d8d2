package cache

import "math/bits"

// Seq is a sequence's place in the cache. The zero Seq stands nowhere; [NewSeq] makes one that can
// stand on a tree.
type Seq struct {
	Key      string   // whose texts it may share rows with
	Path     []int32  // the cells of its rows on the card, in the text's order
	See      []uint64 // the cells of Path as bits
	Near     []uint64 // what layers see that see a window only: those of Path[far:]; nil where there are none
	far      int
	Reserved []int32 // cells where its next rows are to lie: see place.go

	State     uint32 // the slot with the state after Path: see snapshots.go; 0: there is none
	Own       bool   // which the next pass may replace
	RestoreTo int    // its rows up to here come back from memory, piece by piece
	Restored  int    // this many bytes of its state came from memory
}

// NewSeq is a sequence of key's on a tree of this many cells, of a model that has layers with a
// window or not.
func NewSeq(key string, cells int, window bool) Seq {
	s := Seq{Key: key, See: make([]uint64, (cells+63)/64)}
	if window {
		s.Near = make([]uint64, len(s.See))
	}
	return s
}

// Reach is one more than the highest cell the sequence sees.
func (s *Seq) Reach() int {
	for w := len(s.See) - 1; w >= 0; w-- {
		if v := s.See[w]; v != 0 {
			return w*64 + bits.Len64(v)
		}
	}
	return 0
}

// Window moves the window of the layers that have one so that it begins at Path[from].
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

// Relocate puts a sequence where its rows are now: those of the cells of now have gone to others.
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

// Tip is the node of the sequence's last row on the card; of one without rows, the root of its
// key's texts.
func (t *Tree) Tip(s *Seq) int32 {
	if len(s.Path) == 0 {
		return t.root(s.Key)
	}
	return s.Path[len(s.Path)-1]
}

// Stand puts the sequence on path, holding its last node.
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

// Step moves the sequence one node on.
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

// Commit makes a cell that was taken the sequence's next row, which holds token.
func (t *Tree) Commit(s *Seq, n, token int32) {
	t.attach(n, t.Tip(s), token)
	t.Step(s, n)
}

// leave takes the sequence off its cells; they stay as a cache.
func (t *Tree) leave(s *Seq) {
	t.Places().Unreserve(s)
	t.release(t.Tip(s))
	s.Path = nil
	clear(s.See)
	clear(s.Near)
	s.far = 0
}
