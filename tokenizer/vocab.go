package tokenizer

import (
	"encoding/binary"
	"hash/maphash"
)

// Bounds on what a tokenizer file may ask for. The largest vocabularies served today have 262,144
// entries and 514,906 merges.
const (
	maxFile   = 192 << 20 // bytes of one tokenizer file
	maxID     = 1<<22 - 1 // largest token id
	maxToken  = 1 << 16   // bytes of one token
	maxMerges = 1 << 23
)

// vocab maps ids to the text they stand for, and text back to ids. The text is one block in id
// order, so that a vocabulary of 150,000 tokens is four allocations.
type vocab struct {
	seed  maphash.Seed
	text  []byte
	off   []uint32 // token id is text[off[id]:off[id+1]]; empty: no such token
	slots []uint32 // open-addressed: id+1, or 0
	mask  uint32
}

// entry is one token on its way into a vocab.
type entry struct {
	off, n uint32 // in the builder's arena
	id     int32
	hidden bool // keep the text, but never find the token by it
}

// vocabBuilder collects tokens in any order.
type vocabBuilder struct {
	arena   []byte
	entries []entry
	top     int32 // largest id + 1
}

func (b *vocabBuilder) add(text []byte, id int64, hidden bool) error {
	switch {
	case id < 0 || id > maxID:
		return badf("token id %d is outside 0..%d", id, maxID)
	case len(text) > maxToken:
		return badf("token %d has %d bytes, more than the %d allowed", id, len(text), maxToken)
	}
	b.entries = append(b.entries, entry{uint32(len(b.arena)), uint32(len(text)), int32(id), hidden})
	b.arena = append(b.arena, text...)
	b.top = max(b.top, int32(id)+1)
	return nil
}

// maxSparse is how far ids may run ahead of the number of tokens: memory is taken by the largest
// id.
const maxSparse = 1 << 16

// build lays the tokens out. Where two tokens share an id the later one wins, where two ids share a
// text the earlier id is found.
func (b *vocabBuilder) build() (*vocab, error) {
	if int(b.top) > 16*len(b.entries)+maxSparse {
		return nil, badf("%d tokens have ids up to %d", len(b.entries), b.top-1)
	}
	v := &vocab{seed: maphash.MakeSeed(), off: make([]uint32, b.top+1)}
	at := make([]int32, b.top) // entry index + 1
	for i, e := range b.entries {
		at[e.id] = int32(i) + 1
	}
	v.text = make([]byte, 0, len(b.arena))
	for id, i := range at {
		v.off[id] = uint32(len(v.text))
		if i > 0 {
			e := b.entries[i-1]
			v.text = append(v.text, b.arena[e.off:e.off+e.n]...)
		}
	}
	v.off[b.top] = uint32(len(v.text))

	size := uint32(16)
	for size < uint32(len(b.entries))*3/2 {
		size *= 2
	}
	v.slots, v.mask = make([]uint32, size), size-1
	for id, i := range at {
		if i == 0 || b.entries[i-1].hidden || b.entries[i-1].n == 0 {
			continue
		}
		if slot, known := v.look(v.bytes(int32(id))); known < 0 {
			v.slots[slot] = uint32(id) + 1
		}
	}
	return v, nil
}

// look returns the slot of a token's text, and its id, or -1 and the slot where it belongs.
func (v *vocab) look(t []byte) (slot uint32, id int32) {
	for h := uint32(maphash.Bytes(v.seed, t)) & v.mask; ; h = (h + 1) & v.mask {
		id := int32(v.slots[h]) - 1
		if id < 0 || string(v.bytes(id)) == string(t) {
			return h, id
		}
	}
}

func (v *vocab) size() int { return len(v.off) - 1 }

func (v *vocab) bytes(id int32) []byte {
	if id < 0 || int(id) >= len(v.off)-1 {
		return nil
	}
	a, b := v.off[id], v.off[id+1]
	return v.text[a:b:b]
}

// find and findBytes return the id of a token by its text, or -1.
func (v *vocab) find(t string) int32 { return v.findBytes([]byte(t)) }

func (v *vocab) findBytes(t []byte) int32 {
	_, id := v.look(t)
	return id
}

// pairs maps two adjacent token ids to the rank of their merge and the token it makes. It is
// open-addressed and probed linearly. The merge loop asks it about every pair of neighbours, and
// most have no merge: a filter of eight bits a slot, small enough for a processor's second cache,
// answers that without touching the table.
type pairs struct {
	slots  []pairSlot
	filter []uint64
	shift  uint
	n      int
}

type pairSlot struct {
	a, b int32 // a is -1 in an empty slot
	rank int32
	id   int32
}

func newPairs(n int) *pairs {
	size, bits := 16, uint(4)
	for size*5 < n*8 { // at most 5/8 full
		size, bits = size*2, bits+1
	}
	p := &pairs{slots: make([]pairSlot, size), filter: make([]uint64, size/8), shift: 64 - bits}
	for i := range p.slots {
		p.slots[i].a = -1
	}
	return p
}

func pairHash(a, b int32) uint64 {
	return (uint64(uint32(a))<<32 | uint64(uint32(b))) * 0x9E3779B97F4A7C15
}

// put records a merge. A later one for the same pair wins, as in the Rust library, which collects
// them in a map.
func (p *pairs) put(a, b, rank, id int32) {
	if (p.n+1)*8 > len(p.slots)*7 {
		old := *p
		*p = *newPairs(len(old.slots))
		for _, s := range old.slots {
			if s.a >= 0 {
				p.put(s.a, s.b, s.rank, s.id)
			}
		}
	}
	mask, h := uint64(len(p.slots)-1), pairHash(a, b)
	bit := h >> (p.shift - 3)
	p.filter[bit>>6] |= 1 << (bit & 63)
	for h >>= p.shift; ; h = (h + 1) & mask {
		s := &p.slots[h]
		if s.a < 0 {
			*s = pairSlot{a, b, rank, id}
			p.n++
			return
		}
		if s.a == a && s.b == b {
			s.rank, s.id = rank, id
			return
		}
	}
}

// get returns the rank of a pair's merge and the token it makes, or noRank.
func (p *pairs) get(a, b int32) (rank, id int32) {
	h := pairHash(a, b)
	bit := h >> ((p.shift - 3) & 63)
	if p.filter[bit>>6]>>(bit&63)&1 == 0 {
		return noRank, -1
	}
	return p.find(a, b, h>>(p.shift&63))
}

func (p *pairs) find(a, b int32, h uint64) (rank, id int32) {
	slots := p.slots
	mask := uint64(len(slots) - 1)
	for ; ; h++ {
		s := &slots[h&mask]
		if s.a == a && s.b == b {
			return s.rank, s.id
		}
		if s.a < 0 {
			return noRank, -1
		}
	}
}

const noRank = 1<<31 - 1

// wordKey is a short word in two machine words: with its length they determine it.
type wordKey struct{ lo, hi uint64 }

const wordMost = 16 // bytes of a word with a key

func keyOf(w string) (k wordKey) {
	n := len(w)
	switch b := []byte(w); {
	case n >= 8:
		k.lo, k.hi = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[n-8:])
	case n >= 4:
		k.lo = uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint32(b[n-4:]))<<32
	case n > 0:
		k.lo = uint64(w[0]) | uint64(w[n/2])<<8 | uint64(w[n-1])<<16
	}
	return k
}

func (k wordKey) hash(n int) uint64 {
	h := (k.lo ^ uint64(n)*0xFF51AFD7ED558CCD) * 0x9E3779B97F4A7C15
	return (h ^ h>>29 ^ k.hi) * 0xBF58476D1CE4E5B9
}
