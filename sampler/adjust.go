package sampler

import (
	"math"
)

// adjusted is a token whose logit bias or penalties change.
type adjusted struct {
	id    int32
	count int32 // how often it occurred in the penalties' window
	v     float32
}

// adjust collects the changed logits in s.adj, found by s.adjIndex.
func (s *Sampler) adjust(logits []uint16) {
	s.adj = s.adj[:0]
	s.adjIndex.reset(len(s.p.LogitBias) + len(s.hist))
	for id, bias := range s.p.LogitBias {
		s.touch(logits, id).v += bias
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
