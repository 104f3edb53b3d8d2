package sampler

import (
	"math"
	"math/bits"
	"unsafe"
)

// A row of 151,936 logits is scanned for every token, so the scans look at four bf16 values a step,
// in one 64-bit word. Lanes never carry into each other: every addend and subtrahend leaves room in
// the lane's own top bit.
const (
	ones  = 0x0001_0001_0001_0001
	signs = 0x8000_8000_8000_8000
	// wide added to a lane's magnitude sets its top bit when the exponent is all ones: NaN or
	// infinity.
	wide = 0x0080 * ones
)

func f32(x uint16) float32 { return math.Float32frombits(uint32(x) << 16) }

// word reads logits[i:i+4]; the caller has checked that they exist. Both ports allow unaligned
// loads.
func word(logits []uint16, i int) uint64 {
	return *(*uint64)(unsafe.Pointer(&logits[i]))
}

// threshold finds lanes that are at least some value. The zero threshold passes every lane with a
// clear sign bit.
type threshold struct {
	lanes    uint64 // the magnitude, in every lane
	negative bool
}

// atLeast returns the threshold for logits ≥ v, or for logits > v where strict is set and v is
// itself a bf16 value.
func atLeast(v float32, strict bool) threshold {
	b := math.Float32bits(v)
	m := uint64(b >> 16 & 0x7fff)
	exact := b&0xffff == 0
	if b>>31 == 0 {
		// Rounding towards zero may let a few smaller values through: the caller compares exactly.
		if strict && exact {
			m++
		}
		return threshold{m * ones, false}
	}
	if strict && exact {
		if m == 0 {
			return threshold{} // above −0: no sign bit
		}
		m--
	}
	return threshold{m * ones, true}
}

// hits returns the lanes of w that pass, as their top bits.
func (t threshold) hits(w uint64) uint64 {
	if t.negative {
		return (^w | ((t.lanes | signs) - w&^signs)) & signs
	}
	return ((w | signs) - t.lanes) & ^w & signs
}

// bad reports whether logits hold a NaN or an infinity, or are all equal.
func bad(logits []uint16) bool {
	var inf, diff uint64
	first := uint64(logits[0]) * ones
	i := 0
	for ; i+4 <= len(logits); i += 4 {
		w := word(logits, i)
		inf |= w&^signs + wide
		diff |= w ^ first
	}
	for ; i < len(logits); i++ {
		w := uint64(logits[i])
		inf |= w&^signs + wide
		diff |= w ^ uint64(logits[0])
	}
	return inf&signs != 0 || diff == 0
}

// Argmax returns the id of the largest logit, the lowest such id, or -1 where there are no logits.
// NaNs are not looked for.
func Argmax(logits []uint16) int32 {
	if len(logits) == 0 {
		return -1
	}
	best, t := 0, atLeast(f32(logits[0]), true)
	i := 1
	for ; i+4 <= len(logits); i += 4 {
		if t.hits(word(logits, i)) == 0 {
			continue
		}
		for j := i; j < i+4; j++ {
			if f32(logits[j]) > f32(logits[best]) {
				best, t = j, atLeast(f32(logits[j]), true)
			}
		}
	}
	for ; i < len(logits); i++ {
		if f32(logits[i]) > f32(logits[best]) {
			best = i
		}
	}
	return int32(best)
}

// largest appends to h the k largest logits as a heap, the least of them first. With adjusted set
// it looks at the logits after [Sampler.adjust]. ok is false when the logits are bad; under a mask
// that is not looked for.
func (s *Sampler) largest(h []cand, k int, logits []uint16, allowed []uint64, adjusted bool) (_ []cand, ok bool) {
	if adjusted {
		for i := range s.adj {
			a := &s.adj[i]
			if allowed == nil || allowed[a.id>>6]>>(a.id&63)&1 == 1 {
				h = push(h, k, cand{v: a.v, id: a.id})
			}
		}
	}
	adjusted = adjusted && len(s.adj) > 0
	consider := func(id int) {
		c := cand{v: f32(logits[id]), id: int32(id)}
		if (len(h) < k || c.before(h[0])) && !(adjusted && s.adjIndex.has(c.id)) {
			h = push(h, k, c)
		}
	}
	if allowed != nil {
		each(allowed, len(logits), consider)
		return h, true
	}
	// Until the heap is full every logit is a hit; none has a magnitude above the lanes'.
	t := threshold{0x7fff * ones, true}
	if len(h) == k {
		t = atLeast(h[0].v, false)
	}
	var inf, diff uint64
	first := uint64(logits[0]) * ones
	i := 0
	for ; i+4 <= len(logits); i += 4 {
		w := word(logits, i)
		inf |= w&^signs + wide
		diff |= w ^ first
		if t.hits(w) == 0 {
			continue
		}
		for j := i; j < i+4; j++ {
			consider(j)
		}
		if len(h) == k {
			// What comes has a higher id: it needs a larger logit than a least one with a lower id.
			t = atLeast(h[0].v, h[0].id < int32(i+4))
		}
	}
	for ; i < len(logits); i++ {
		w := uint64(logits[i])
		inf |= w&^signs + wide
		diff |= w ^ uint64(logits[0])
		consider(i)
	}
	return h, inf&signs == 0 && diff != 0
}

// each calls f with every id below n that is in a set.
func each(set []uint64, n int, f func(id int)) {
	for i, w := range set {
		for ; w != 0; w &= w - 1 {
			if id := i<<6 + bits.TrailingZeros64(w); id < n {
				f(id)
			}
		}
	}
}

// push puts c into the heap of the k best, whose first is the last in order.
func push(h []cand, k int, c cand) []cand {
	if len(h) < k {
		h = append(h, c)
		for i := len(h) - 1; i > 0; {
			up := (i - 1) / 2
			if !h[up].before(h[i]) {
				break
			}
			h[up], h[i] = h[i], h[up]
			i = up
		}
		return h
	}
	if !c.before(h[0]) {
		return h
	}
	i := 0
	for {
		down := 2*i + 1
		if down >= len(h) {
			break
		}
		if down+1 < len(h) && h[down].before(h[down+1]) {
			down++
		}
		if !c.before(h[down]) {
			break
		}
		h[i] = h[down]
		i = down
	}
	h[i] = c
	return h
}

// gather puts every allowed token into s.cands, in no order.
func (s *Sampler) gather(logits []uint16, allowed []uint64) {
	if cap(s.cands) < s.vocab {
		s.cands = make([]cand, 0, s.vocab)
	}
	s.cands = s.cands[:0]
	if allowed == nil {
		for i, x := range logits {
			s.cands = append(s.cands, cand{v: f32(x), id: int32(i)})
		}
		for i := range s.adj {
			s.cands[s.adj[i].id].v = s.adj[i].v
		}
		return
	}
	each(allowed, len(logits), func(id int) {
		v := f32(logits[id])
		if len(s.adj) > 0 && s.adjIndex.has(int32(id)) {
			v = s.adj[*s.adjIndex.at(int32(id))-1].v
		}
		s.cands = append(s.cands, cand{v: v, id: int32(id)})
	})
}

// partition moves the k best of c to its front, in no order. Pivots are medians of three, so sorted
// input is no trap.
func partition(c []cand, k int) {
	for len(c) > 1 && k > 0 && k < len(c) {
		a, b, m := 0, len(c)-1, len(c)/2
		if c[m].before(c[a]) {
			c[m], c[a] = c[a], c[m]
		}
		if c[b].before(c[a]) {
			c[b], c[a] = c[a], c[b]
		}
		if c[b].before(c[m]) {
			c[b], c[m] = c[m], c[b]
		}
		pivot := c[m]
		i, j := 0, len(c)-1
		for i <= j {
			for c[i].before(pivot) {
				i++
			}
			for pivot.before(c[j]) {
				j--
			}
			if i <= j {
				c[i], c[j] = c[j], c[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			c = c[:j+1]
		case k >= i:
			c, k = c[i:], k-i
		default:
			return
		}
	}
}
