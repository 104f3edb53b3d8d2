package sampler

import (
	"bytes"
	"math"
	"slices"
)

// adjusted is a token whose logit bias, penalties or DRY change.
type adjusted struct {
	id    int32
	count int32 // how often it occurred in the penalties' window
	dry   int32 // length of the longest repeat it would extend
	v     float32
}

// adjust collects the changed logits in s.adj, found by s.adjIndex.
func (s *Sampler) adjust(logits []uint16) {
	s.adj = s.adj[:0]
	s.adjIndex.reset(len(s.p.LogitBias) + len(s.hist))
	for id, bias := range s.p.LogitBias {
		s.touch(logits, id).v += bias
	}
	if s.p.Mirostat != 0 {
		return
	}
	if penalises(&s.p) {
		h := s.hist
		if n := s.p.RepeatLastN; n >= 0 && n < len(h) {
			h = h[len(h)-n:]
		}
		for _, id := range h {
			if int(id) < len(logits) && id >= 0 {
				s.touch(logits, id).count++
			}
		}
	}
	if s.p.DRYMultiplier > 0 {
		s.repeats(logits)
	}
	for i := range s.adj {
		a := &s.adj[i]
		if a.count > 0 {
			if a.v <= 0 {
				a.v *= s.p.RepeatPenalty
			} else {
				a.v /= s.p.RepeatPenalty
			}
			a.v -= float32(a.count)*s.p.FrequencyPenalty + s.p.PresencePenalty
		}
		if a.dry > 0 {
			a.v -= s.p.DRYMultiplier * float32(math.Pow(float64(s.p.DRYBase), float64(int(a.dry)-s.p.DRYAllowedLength)))
		}
		// Huge penalties stay finite: the softmax subtracts logits from each other.
		a.v = min(max(a.v, -math.MaxFloat32/4), math.MaxFloat32/4)
	}
}

func (s *Sampler) touch(logits []uint16, id int32) *adjusted {
	at := s.adjIndex.at(id)
	if *at == 0 {
		s.adj = append(s.adj, adjusted{id: id, v: f32(logits[id])})
		*at = int32(len(s.adj))
	}
	return &s.adj[*at-1]
}

// repeats notes, for every token that would extend a repeat of the history's end, the longest such
// repeat (DRY). Read backwards, the question is how far the history matches itself at each offset:
// the Z function.
func (s *Sampler) repeats(logits []uint16) {
	h := s.hist
	if n := s.p.DRYPenaltyLastN; n >= 0 && n < len(h) {
		h = h[len(h)-n:]
	}
	n := len(h)
	back := func(i int) int32 { return h[n-1-i] }
	limit := n // no repeat reaches across a breaker
	for i := range n {
		if slices.Contains(s.p.DRYBreakers, back(i)) {
			limit = i
			break
		}
	}
	if n <= s.p.DRYAllowedLength || limit < s.p.DRYAllowedLength || limit == 0 {
		return
	}
	s.z = slices.Grow(s.z[:0], n)[:n]
	left, right := 0, 0 // the match found so far that reaches furthest: [left, right)
	for k := 1; k < n; k++ {
		z := 0
		if k < right {
			z = min(right-k, int(s.z[k-left]))
		}
		for k+z < n && back(z) == back(k+z) {
			z++
		}
		s.z[k] = int32(z)
		if k+z > right {
			left, right = k, k+z
		}
		if z = min(z, limit); z >= max(s.p.DRYAllowedLength, 1) {
			if next := back(k - 1); next >= 0 && int(next) < len(logits) && !slices.Contains(s.p.DRYBreakers, next) {
				a := s.touch(logits, next)
				a.dry = max(a.dry, int32(z))
			}
		}
	}
}

// Breakers returns the tokens that hold one of the sequences, for [Params].DRYBreakers. llama.cpp's
// usual sequences are "\n", ":", "\"" and "*".
func Breakers(v interface {
	Vocab() int
	Bytes(id int32) []byte
}, sequences ...string) []int32 {
	var out []int32
	for id := range int32(v.Vocab()) {
		b := v.Bytes(id)
		if slices.ContainsFunc(sequences, func(s string) bool { return s != "" && bytes.Contains(b, []byte(s)) }) {
			out = append(out, id)
		}
	}
	return out
}

// index maps token ids to small numbers, 0 being absent. It is emptied for every token, so it is
// open addressing in two flat slices and not a Go map.
type index struct {
	keys []int32
	vals []int32
	mask uint32
}

// reset empties x and makes room for n ids.
func (x *index) reset(n int) {
	size := 16
	for size < 4*n {
		size *= 2
	}
	if size > len(x.keys) {
		x.keys, x.vals = make([]int32, size), make([]int32, size)
	}
	x.mask = uint32(len(x.keys) - 1)
	clear(x.vals)
	for i := range x.keys {
		x.keys[i] = -1
	}
}

// place is where id stands, or would.
func (x *index) place(id int32) uint32 {
	i := uint32(id) * 0x9e3779b1 >> 7 & x.mask
	for x.keys[i] != id && x.keys[i] != -1 {
		i = (i + 1) & x.mask
	}
	return i
}

// at returns the place of id's number, adding id with 0 if it is new.
func (x *index) at(id int32) *int32 {
	i := x.place(id)
	x.keys[i] = id
	return &x.vals[i]
}

func (x *index) has(id int32) bool { return x.keys[x.place(id)] == id }
