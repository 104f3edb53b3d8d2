package sampler

import (
	"math"
	"slices"
)

// naive is the chain written down plainly: float64, a full sort, no shortcuts.
func naive(p Params, hist []int32, logits []uint16, mask Mask) map[int32]float64 {
	type tok struct {
		id int32
		v  float64
	}
	var toks []tok
	window := hist
	if p.RepeatLastN >= 0 && p.RepeatLastN < len(window) {
		window = window[len(window)-p.RepeatLastN:]
	}
	for i, x := range logits {
		id, v := int32(i), float64(f32(x))
		if mask != nil && !mask.Allowed(id) {
			continue
		}
		v += float64(p.LogitBias[id])
		count := 0
		for _, h := range window {
			if h == id {
				count++
			}
		}
		if count > 0 {
			if v <= 0 {
				v *= float64(p.RepeatPenalty)
			} else {
				v /= float64(p.RepeatPenalty)
			}
			v -= float64(count)*float64(p.FrequencyPenalty) + float64(p.PresencePenalty)
		}
		toks = append(toks, tok{id, v})
	}
	sort := func() {
		slices.SortFunc(toks, func(a, b tok) int {
			if a.v != b.v {
				return -int(math.Copysign(1, a.v-b.v))
			}
			return int(a.id - b.id)
		})
	}
	probs := func(t float64) []float64 {
		out, sum := make([]float64, len(toks)), 0.0
		for i := range toks {
			out[i] = math.Exp((toks[i].v - toks[0].v) / t)
			sum += out[i]
		}
		for i := range out {
			out[i] /= sum
		}
		return out
	}
	sort()
	if p.Temperature == 0 {
		return map[int32]float64{toks[0].id: 1}
	}
	if p.TopK > 0 && p.TopK < len(toks) {
		toks = toks[:p.TopK]
	}
	if p.TopP < 1 {
		ps, sum := probs(1), 0.0
		for i := range ps {
			if sum += ps[i]; sum >= float64(p.TopP) {
				toks = toks[:i+1]
				break
			}
		}
	}
	if p.MinP > 0 {
		ps := probs(1)
		for i := range ps {
			if ps[i] < float64(p.MinP)*ps[0] {
				toks = toks[:i]
				break
			}
		}
	}
	out := map[int32]float64{}
	for i, q := range probs(float64(p.Temperature)) {
		out[toks[i].id] = q
	}
	return out
}
