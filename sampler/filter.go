package sampler

import (
	"math"
	"slices"
)

// The filters below shrink s.cands. A filter that wants an order sorts as little of it as it needs:
// the first few hundred nearly always decide.

// highest is the largest logit of the candidates.
func (s *Sampler) highest() float32 {
	top := s.cands[0].v
	for _, c := range s.cands {
		top = max(top, c.v)
	}
	return top
}

// weigh sets every candidate's weight to exp((v − max)/t) and returns their sum.
func (s *Sampler) weigh(t float32) float64 {
	s.exp.reset(s.highest(), 1/t)
	var sum float64
	memo := len(s.cands) > 4096
	for i := range s.cands {
		c := &s.cands[i]
		if memo {
			c.w = s.exp.of(c.v)
		} else {
			c.w = s.exp.compute(c.v)
		}
		sum += float64(c.w)
	}
	return sum
}

// softmax turns the logits at temperature t into weights that sum to 1.
func (s *Sampler) softmax(t float32) {
	scale := 1 / s.weigh(t)
	for i := range s.cands {
		s.cands[i].w = float32(float64(s.cands[i].w) * scale)
	}
}

// takeMass keeps the first candidates, in the order of compare, whose weights reach mass, at least
// one.
func (s *Sampler) takeMass(mass float64) {
	var sum float64
	for done, step := 0, 256; ; step *= 8 {
		rest := s.cands[done:]
		n := min(step, len(rest))
		partition(rest, n)
		slices.SortFunc(rest[:n], compare)
		for i, c := range rest[:n] {
			if sum += float64(c.w); sum >= mass {
				s.cands = s.cands[:done+i+1]
				return
			}
		}
		if done += n; done == len(s.cands) {
			return
		}
	}
}

func (s *Sampler) topP(p float32) { s.takeMass(s.weigh(1) * float64(p)) }

// minP drops what is less likely than p times the likeliest; that one stays.
func (s *Sampler) minP(p float32) {
	low := s.highest() + float32(math.Log(float64(p)))
	s.cands = slices.DeleteFunc(s.cands, func(c cand) bool { return c.v < low })
}

// typical keeps the tokens whose surprise is nearest to the distribution's entropy, up to mass p.
func (s *Sampler) typical(p float32) {
	s.softmax(1)
	var entropy float64
	for _, c := range s.cands {
		if c.w > 0 {
			entropy -= float64(c.w) * math.Log(float64(c.w))
		}
	}
	// Order by distance: put it where takeMass looks, then put the logits back.
	top, mass := s.exp.base, 0.0
	for _, c := range s.cands {
		mass += math.Exp(float64(c.v - top))
	}
	norm := float64(top) + math.Log(mass)
	for i := range s.cands {
		c := &s.cands[i]
		c.v = float32(-math.Abs(norm - float64(c.v) - entropy))
	}
	s.takeMass(float64(p))
	for i := range s.cands {
		c := &s.cands[i]
		c.v = float32(math.Log(float64(c.w)))
	}
}

// mirostat leaves the candidates mirostat draws from, weights summing to 1.
func (s *Sampler) mirostat() {
	s.softmax(s.p.Temperature)
	if s.p.Mirostat == 2 {
		// Drop what is more surprising than mu, but never everything.
		best := slices.MinFunc(s.cands, compare)
		low := math.Exp2(-float64(s.mu))
		s.cands = slices.DeleteFunc(s.cands, func(c cand) bool { return float64(c.w) < low && c.id != best.id })
	} else {
		const m = 100
		head := min(m, len(s.cands))
		partition(s.cands, head)
		slices.SortFunc(s.cands[:head], compare)
		var tb, tt float64
		for i := range head - 1 {
			if s.cands[i+1].w == 0 {
				break
			}
			t := math.Log(float64(i+2) / float64(i+1))
			tb += t * math.Log(float64(s.cands[i].w)/float64(s.cands[i+1].w))
			tt += t * t
		}
		k := float64(len(s.cands))
		if tt > 0 {
			zipf := tb / tt
			eps := zipf - 1
			k = math.Pow(eps*math.Exp2(float64(s.mu))/(1-math.Pow(float64(s.vocab), -eps)), 1/zipf)
		}
		if !(k >= 1) { // NaN too
			k = 1
		}
		if n := int(min(k, float64(len(s.cands)))); n < len(s.cands) {
			partition(s.cands, n)
			s.cands = s.cands[:n]
		}
	}
	var sum float64
	for _, c := range s.cands {
		sum += float64(c.w)
	}
	for i := range s.cands {
		s.cands[i].w = float32(float64(s.cands[i].w) / sum)
	}
}

// expMemo is exp((v − base)·scale) with the values for bf16 v remembered: a row has few distinct
// logits.
type expMemo struct {
	base, scale float32
	at          []float32 // −1: not computed yet
}

func (e *expMemo) reset(base, scale float32) {
	if base == e.base && scale == e.scale {
		return
	}
	e.base, e.scale = base, scale
	for i := range e.at {
		e.at[i] = -1
	}
}

func (e *expMemo) compute(v float32) float32 {
	return float32(math.Exp(float64(v-e.base) * float64(e.scale)))
}

func (e *expMemo) of(v float32) float32 {
	b := math.Float32bits(v)
	if b&0xffff != 0 {
		return e.compute(v)
	}
	if e.at == nil {
		e.at = slices.Repeat([]float32{-1}, 1<<16)
	}
	if w := e.at[b>>16]; w >= 0 {
		return w
	}
	w := e.compute(v)
	e.at[b>>16] = w
	return w
}
