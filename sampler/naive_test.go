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
		if n := naiveDRY(p, hist, id); n > 0 {
			v -= float64(p.DRYMultiplier) * math.Pow(float64(p.DRYBase), float64(n-p.DRYAllowedLength))
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
	if p.TypicalP > 0 && p.TypicalP < 1 {
		ps, h := probs(1), 0.0
		for _, q := range ps {
			h -= q * math.Log(q)
		}
		order := make([]int, len(toks))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int {
			da, db := math.Abs(-math.Log(ps[a])-h), math.Abs(-math.Log(ps[b])-h)
			if da < db {
				return -1
			} else if da > db {
				return 1
			}
			return int(toks[a].id - toks[b].id)
		})
		var kept []tok
		sum := 0.0
		for _, i := range order {
			kept = append(kept, toks[i])
			if sum += ps[i]; sum >= float64(p.TypicalP) {
				break
			}
		}
		toks = kept
		sort()
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

// naiveDRY returns the longest repeat that id would extend, 0 when it is too short to count.
func naiveDRY(p Params, hist []int32, id int32) int {
	if p.DRYMultiplier == 0 || p.DRYPenaltyLastN == 0 || slices.Contains(p.DRYBreakers, id) {
		return 0
	}
	if p.DRYPenaltyLastN > 0 && p.DRYPenaltyLastN < len(hist) {
		hist = hist[len(hist)-p.DRYPenaltyLastN:]
	}
	if len(hist) <= p.DRYAllowedLength {
		return 0
	}
	best := 0
	for at, h := range hist {
		if h != id {
			continue
		}
		n := 0
		for n < at && hist[at-1-n] == hist[len(hist)-1-n] && !slices.Contains(p.DRYBreakers, hist[len(hist)-1-n]) {
			n++
		}
		best = max(best, n)
	}
	if best < max(p.DRYAllowedLength, 1) {
		return 0
	}
	return best
}
