package tokenizer

import (
	"slices"
	"unicode/utf8"
)

// model turns one word, as pre-tokenization left it, into ids.
type model interface {
	encode(dst []int32, word string, sc *scratch) []int32
}

// linearMax is the longest word merged by looking at all its pairs each time. Beyond it a heap is
// faster.
const linearMax = 48

// bpe is byte-pair encoding. A word starts as its bytes (byte-level) or its characters; then, as
// long as there is one, the pair of neighbours with the lowest rank is merged, the leftmost first.
type bpe struct {
	v      *vocab
	merges *pairs

	raw      bool             // symbols are bytes, not characters
	byteID   [256]int32       // raw: the id of each byte; with fallback: the id of <0xXX>; -1 where there is none
	suffix   string           // raw: what the last byte of a word has in addition (end_of_word_suffix)
	endID    [256]int32       // raw: byteID of the last one
	ascii    [128]int32       // the id of each character, or -1
	wide     map[rune]int32   // the same for the others
	fallback bool             // all 256 <0xXX> may stand for characters that have no id
	unk      int32            // -1: unknown symbols are dropped
	fuseUnk  bool             // a run of unknown symbols is one unk
	whole    bool             // a word that is a token is that token (ignore_merges, tiktoken)
	special  func(int32) bool // ids no word may become; nil before the added tokens are known

	// Where no token that a merge makes holds the characters x and y side by side, no merge crosses
	// from x to y, and the text may be cut there. That turns the one long word of SentencePiece
	// vocabularies into short ones without changing an id. It is known for y = ▁ and for ASCII.
	touch [128][2]uint64 // ASCII pairs that stand in one token
	join  map[rune]bool  // characters that stand before ▁ in one token
}

const spaceRune = '▁' // U+2581, SentencePiece's visible space

const spaceMark = "▁"

// symbolTables fills the tables that map single bytes or characters to ids, and learns where words
// may be cut.
func (m *bpe) symbolTables() {
	for i := range m.byteID {
		m.byteID[i] = -1
	}
	for i := range m.ascii {
		m.ascii[i] = -1
	}
	if m.raw {
		for i := range m.byteID {
			m.byteID[i] = m.usable(m.v.findBytes([]byte{byte(i)}))
			m.endID[i] = m.usable(m.v.findBytes(append([]byte{byte(i)}, m.suffix...)))
		}
		return
	}
	if m.fallback {
		for i := range m.byteID {
			m.byteID[i] = m.v.findBytes(byteName(byte(i)))
		}
	}
	m.wide = make(map[rune]int32)
	for id := range int32(m.v.size()) {
		t := m.v.bytes(id)
		if len(t) == 0 || len(t) > utf8.UTFMax {
			continue
		}
		r, n := utf8.DecodeRune(t)
		if n != len(t) || r == utf8.RuneError && n == 1 || m.v.findBytes(t) != id || m.usable(id) < 0 {
			continue
		}
		if r < 128 {
			m.ascii[r] = id
		} else {
			m.wide[r] = id
		}
	}
	m.findCuts()
}

func (m *bpe) usable(id int32) int32 {
	if id >= 0 && m.special != nil && m.special(id) {
		return -1
	}
	return id
}

// findCuts learns where words may be cut.
func (m *bpe) findCuts() {
	m.join = make(map[rune]bool)
	seen := make([]bool, m.v.size())
	for i := range m.merges.slots {
		s := &m.merges.slots[i]
		if s.a < 0 || seen[s.id] {
			continue
		}
		seen[s.id] = true
		last := rune(-1)
		for _, r := range string(m.v.bytes(s.id)) {
			switch {
			case r == spaceRune && last >= 0:
				m.join[last] = true
			case r < 128 && last >= 0 && last < 128:
				m.touch[last][r>>6] |= 1 << (r & 63)
			}
			last = r
		}
	}
}

// mayCut reports whether no merge crosses from a to b.
func (m *bpe) mayCut(a, b rune) bool {
	if b < 128 {
		return a < 128 && m.touch[a][b>>6]&(1<<(b&63)) == 0
	}
	return b == spaceRune && !m.join[a]
}

func (m *bpe) encode(dst []int32, word string, sc *scratch) []int32 {
	if word == "" {
		return dst
	}
	if m.whole {
		if id := m.v.find(word); id >= 0 && m.usable(id) >= 0 {
			return append(dst, id)
		}
	}
	if m.raw {
		return m.encodeBytes(dst, word, sc)
	}
	from, last := 0, rune(-1)
	unk := false // neighbouring unknown characters may be one: do not cut there
	for i, r := range word {
		if i > from && !unk && m.mayCut(last, r) {
			dst = m.merge(dst, m.symbols(sc.syms[:0], word[from:i]), sc)
			from = i
		}
		unk = r < 128 && m.ascii[r] < 0 || r == utf8.RuneError
		last = r
	}
	return m.merge(dst, m.symbols(sc.syms[:0], word[from:]), sc)
}

func (m *bpe) encodeBytes(dst []int32, word string, sc *scratch) []int32 {
	if len(word) == 1 {
		if id := m.endID[word[0]]; id >= 0 {
			return append(dst, id)
		}
	}
	if len(word) > wordMost {
		return m.mergeBytes(dst, word, sc)
	}
	k := keyOf(word)
	cached := sc.cache.slot(k.hash(len(word)))
	if int(cached.n) == len(word) && cached.key == k {
		return append(dst, cached.ids[:cached.k]...)
	}
	from := len(dst)
	dst = m.mergeBytes(dst, word, sc)
	cached.put(k, len(word), dst[from:])
	return dst
}

func (m *bpe) mergeBytes(dst []int32, word string, sc *scratch) []int32 {
	syms := sc.syms[:0]
	for i := 0; i < len(word); i++ {
		id := m.byteID[word[i]]
		if i == len(word)-1 {
			id = m.endID[word[i]]
		}
		if id >= 0 {
			syms = append(syms, id)
		} else if m.unk >= 0 {
			syms = append(syms, m.unk)
		}
	}
	return m.merge(dst, syms, sc)
}

// symbols splits a word into the ids its merging starts from.
func (m *bpe) symbols(syms []int32, word string) []int32 {
	unk := false // an unk waits to be written: the next may fuse with it
	for i := 0; i < len(word); {
		r, n := rune(word[i]), 1
		if r >= 128 {
			r, n = utf8.DecodeRuneInString(word[i:])
		}
		id := int32(-1)
		switch {
		case r < 128:
			id = m.ascii[r]
		case r == utf8.RuneError && n == 1: // a stray byte is no character
		default:
			if w, ok := m.wide[r]; ok {
				id = w
			}
		}
		from := i
		i += n
		if id >= 0 {
			if unk {
				syms, unk = append(syms, m.unk), false
			}
			syms = append(syms, id)
			continue
		}
		if m.fallback {
			start := len(syms)
			for _, c := range []byte(word[from:i]) {
				syms = append(syms, m.byteID[c])
			}
			if !slices.Contains(syms[start:], -1) {
				continue
			}
			syms = syms[:start]
		}
		if m.unk >= 0 {
			if unk && !m.fuseUnk {
				syms = append(syms, m.unk)
			}
			unk = true
		}
	}
	if unk {
		syms = append(syms, m.unk)
	}
	return syms
}

// merge runs the merges over syms, which it uses up, and appends what remains.
func (m *bpe) merge(dst, syms []int32, sc *scratch) []int32 {
	sc.syms = syms // keep what append grew
	if len(syms) > linearMax {
		return m.mergeHeap(dst, syms, sc)
	}
	if len(syms) < 2 {
		return append(dst, syms...)
	}
	var rank, made [linearMax]int32
	n := len(syms) - 1 // pairs
	for i := range n {
		rank[i], made[i] = m.merges.get(syms[i], syms[i+1])
	}
	for n > 0 {
		best, at := int32(noRank), 0
		for i, r := range rank[:n] {
			if r < best {
				best, at = r, i
			}
		}
		if best == noRank {
			break
		}
		syms[at] = made[at]
		copy(syms[at+1:], syms[at+2:n+1])
		n--
		copy(rank[at:n], rank[at+1:n+1])
		copy(made[at:n], made[at+1:n+1])
		if at > 0 {
			rank[at-1], made[at-1] = m.merges.get(syms[at-1], syms[at])
		}
		if at < n {
			rank[at], made[at] = m.merges.get(syms[at], syms[at+1])
		}
	}
	return append(dst, syms[:n+1]...)
}

// mergeHeap does the same for long words: symbols in a linked list, candidate pairs in a heap by
// rank, then by place. An entry whose pair has changed since is dropped when it comes up.
func (m *bpe) mergeHeap(dst, syms []int32, sc *scratch) []int32 {
	n := int32(len(syms))
	next, prev, heap := resize(&sc.next, len(syms)), resize(&sc.prev, len(syms)), sc.heap[:0]
	for i := range n {
		next[i], prev[i] = i+1, i-1
		if i+1 < n {
			if r, _ := m.merges.get(syms[i], syms[i+1]); r != noRank {
				heap = append(heap, uint64(r)<<32|uint64(i))
			}
		}
	}
	for i := len(heap)/2 - 1; i >= 0; i-- {
		siftDown(heap, i)
	}
	for len(heap) > 0 {
		top := heap[0]
		heap[0] = heap[len(heap)-1]
		heap = heap[:len(heap)-1]
		if len(heap) > 1 {
			siftDown(heap, 0)
		}
		at := int32(top & 0xFFFFFFFF)
		if syms[at] < 0 || next[at] == n {
			continue
		}
		r, id := m.merges.get(syms[at], syms[next[at]])
		if r == noRank || uint64(r) != top>>32 {
			continue
		}
		gone := next[at]
		syms[at], syms[gone] = id, -1
		next[at] = next[gone]
		if next[at] < n {
			prev[next[at]] = at
			if r, _ := m.merges.get(id, syms[next[at]]); r != noRank {
				heap = siftUp(append(heap, uint64(r)<<32|uint64(at)))
			}
		}
		if p := prev[at]; p >= 0 {
			if r, _ := m.merges.get(syms[p], id); r != noRank {
				heap = siftUp(append(heap, uint64(r)<<32|uint64(p)))
			}
		}
	}
	sc.heap = heap
	for i := int32(0); i < n; i = next[i] {
		dst = append(dst, syms[i])
	}
	return dst
}

func siftUp(h []uint64) []uint64 {
	for i := len(h) - 1; i > 0; {
		p := (i - 1) / 2
		if h[p] <= h[i] {
			break
		}
		h[p], h[i] = h[i], h[p]
		i = p
	}
	return h
}

func siftDown(h []uint64, i int) {
	for {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && h[c+1] < h[c] {
			c++
		}
		if h[i] <= h[c] {
			return
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
}

// scratch is what one Encode works in. It comes from a pool, so a long prompt's memory is reused
// and then let go by the collector.
type scratch struct {
	syms, next, prev []int32
	heap             []uint64
	nodes            []node // unigram
	buf              []byte
	cache            wordCache
	room             room
}

func resize(p *[]int32, n int) []int32 {
	if cap(*p) < n {
		*p = make([]int32, n+n/4)
	}
	return (*p)[:n]
}

// wordCache remembers the ids of short words: text repeats itself, and a look-up here is cheaper
// than five merges. It is direct-mapped, belongs to one tokenizer (its scratch pool does), and is
// lost whenever the collector likes.
type wordCache struct{ slots []cachedWord }

const (
	cacheBits = 13
	cacheIDs  = 4
)

type cachedWord struct {
	key wordKey
	ids [cacheIDs]int32
	n   uint8 // bytes of the word; 0: empty
	k   uint8
}

func (c *wordCache) slot(hash uint64) *cachedWord {
	if c.slots == nil {
		c.slots = make([]cachedWord, 1<<cacheBits)
	}
	return &c.slots[hash>>(64-cacheBits)]
}

func (c *cachedWord) put(k wordKey, n int, ids []int32) {
	if len(ids) > cacheIDs {
		return
	}
	c.key, c.n = k, uint8(n)
	c.k = uint8(copy(c.ids[:], ids))
}
