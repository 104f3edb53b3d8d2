package axmodeltest

import (
	"fmt"
	"math"
)

// Row is one row of a computation: a token at a position, and the earlier rows it sees.
type Row struct {
	Token, Pos int
	See        []int
	At         []int // three positions in place of Pos; nil: there is one, or they are alike
	Seen       *Seen // a picture's row, in place of Token
}

// Causal is the rows of one text: each sees all before it.
func Causal(tokens []int32) []Row {
	var rows []Row
	for i, t := range tokens {
		r := Row{Token: int(t), Pos: i}
		for j := range i {
			r.See = append(r.See, j)
		}
		rows = append(rows, r)
	}
	return rows
}

// Oracle computes the checkpoint for all rows at once, in float64, straight from the weights and
// without a cache, and gives each row's logits. It follows Hugging Face's modelling code and shares
// none with the cards. Sliding windows hide what lies window positions or more back.
func (c *Checkpoint) Oracle(rows []Row) [][]float64 {
	name := "lm_head.weight"
	if c.Tied {
		name = c.prefix() + "embed_tokens.weight"
	}
	out := c.Hiddens(rows)
	for i, h := range out {
		out[i] = times(c.weights[name], h)
		if c.Gemma4 != nil && c.Gemma4.Cap > 0 {
			for j, v := range out[i] {
				out[i][j] = c.Gemma4.Cap * math.Tanh(v/c.Gemma4.Cap)
			}
		}
	}
	return out
}

// Hiddens is Oracle without the head: each row after the final norm, which is what an embedding
// package gives.
func (c *Checkpoint) Hiddens(rows []Row) [][]float64 {
	x := c.LastLayer(rows)
	for i := range x {
		x[i] = c.norm(c.prefix()+"norm.weight", x[i], c.normOne())
	}
	return x
}

// LastLayer is Hiddens before the final norm: what a card's last layer gives.
func (c *Checkpoint) LastLayer(rows []Row) [][]float64 {
	gemma := c.Type == "gemma3_text" || c.Gemma4 != nil
	p := c.prefix()
	embed := c.weights[p+"embed_tokens.weight"]
	x := make([][]float64, len(rows))
	for i, r := range rows {
		x[i] = make([]float64, c.Hidden)
		if r.Seen != nil {
			copy(x[i], r.Seen.Row)
			continue
		}
		for j := range x[i] {
			x[i][j] = float64(embed[r.Token*c.Hidden+j])
			if gemma {
				x[i][j] *= math.Sqrt(float64(c.Hidden))
			}
		}
	}
	var kept []past
	var inputs [][]float64
	for i := 0; c.Gemma4 != nil && i < len(rows); i++ {
		inputs = append(inputs, c.LayerInputs(rows[i].Token))
	}
	for l := range c.Layers {
		if c.Gemma4 != nil {
			kept = append(kept, c.layerGemma4(l, x, rows, inputs, kept))
			continue
		}
		if c.Linear(l) {
			c.layerLinear(l, x, rows)
			continue
		}
		c.layer(l, x, rows, gemma)
		for i, r := range rows {
			if r.Seen != nil && l < len(r.Seen.Deep) {
				plus(x[i], r.Seen.Deep[l])
			}
		}
	}
	return x
}

func (c *Checkpoint) layer(l int, x [][]float64, rows []Row, gemma bool) {
	p := fmt.Sprintf("%slayers.%d.", c.prefix(), l)
	w := func(name string) []float32 { return c.weights[p+name] }
	local, normOne := gemma && (l+1)%c.Pattern != 0, c.normOne()
	gates := make([][]float64, len(rows))
	freq, magnitude := c.frequencies(local)
	n := len(rows)
	q, k, v := make([][]float64, n), make([][]float64, n), make([][]float64, n)
	for i := range rows {
		a := c.norm(p+"input_layernorm.weight", x[i], normOne)
		for _, t := range []struct {
			to   *[]float64
			name string
			norm string
		}{{&q[i], "q_proj", "q_norm"}, {&k[i], "k_proj", "k_norm"}, {&v[i], "v_proj", ""}} {
			*t.to = times(w("self_attn."+t.name+".weight"), a)
			for j, b := range w("self_attn." + t.name + ".bias") {
				(*t.to)[j] += float64(b)
			}
			if t.norm == "" {
				continue
			}
			if t.norm == "q_norm" && c.Interval > 0 {
				*t.to, gates[i] = c.part(*t.to)
			}
			for h := 0; h < len(*t.to); h += c.HeadDim {
				head := (*t.to)[h : h+c.HeadDim]
				if w("self_attn."+t.norm+".weight") != nil {
					copy(head, c.norm(p+"self_attn."+t.norm+".weight", head, normOne))
				}
				turn(head, freq, c.positions(rows[i], len(freq)), magnitude)
			}
		}
	}
	scale := 1 / math.Sqrt(float64(c.HeadDim))
	if gemma {
		scale = 1 / math.Sqrt(c.QueryScalar)
	}
	for i, r := range rows {
		att := make([]float64, c.Heads*c.HeadDim)
		var seen []int
		for _, j := range append(append([]int(nil), r.See...), i) {
			if !local || rows[j].Pos > r.Pos-c.Window {
				seen = append(seen, j)
			}
		}
		for h := range c.Heads {
			g := h / (c.Heads / c.KV)
			score, total := make([]float64, len(seen)), 0.0
			top := math.Inf(-1)
			for m, j := range seen {
				for d := range c.HeadDim {
					score[m] += q[i][h*c.HeadDim+d] * k[j][g*c.HeadDim+d]
				}
				score[m] *= scale
				top = max(top, score[m])
			}
			for m := range score {
				score[m] = math.Exp(score[m] - top)
				total += score[m]
			}
			for m, j := range seen {
				for d := range c.HeadDim {
					att[h*c.HeadDim+d] += score[m] / total * v[j][g*c.HeadDim+d]
				}
			}
		}
		for j, g := range gates[i] {
			att[j] /= 1 + math.Exp(-g)
		}
		o := times(w("self_attn.o_proj.weight"), att)
		if gemma {
			o = c.norm(p+"post_attention_layernorm.weight", o, true)
		}
		plus(x[i], o)
		before := "post_attention_layernorm.weight"
		if gemma {
			before = "pre_feedforward_layernorm.weight"
		}
		a := c.norm(p+before, x[i], normOne)
		gate, up := times(w("mlp.gate_proj.weight"), a), times(w("mlp.up_proj.weight"), a)
		for j, g := range gate {
			if gemma {
				gate[j] = 0.5 * g * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(g+0.044715*g*g*g))) * up[j]
			} else {
				gate[j] = g / (1 + math.Exp(-g)) * up[j]
			}
		}
		m := times(w("mlp.down_proj.weight"), gate)
		if gemma {
			m = c.norm(p+"post_feedforward_layernorm.weight", m, true)
		}
		plus(x[i], m)
	}
}

// part takes a gated query apart: each head's values of the query lie before as many of its gate.
func (c *Checkpoint) part(x []float64) (q, gate []float64) {
	for h := 0; h < len(x); h += 2 * c.HeadDim {
		q, gate = append(q, x[h:h+c.HeadDim]...), append(gate, x[h+c.HeadDim:h+2*c.HeadDim]...)
	}
	return q, gate
}

func times(w []float32, x []float64) []float64 {
	out := make([]float64, len(w)/len(x))
	for r := range out {
		for i, v := range x {
			out[r] += float64(w[r*len(x)+i]) * v
		}
	}
	return out
}

func plus(x, y []float64) {
	for i, v := range y {
		x[i] += v
	}
}

func (c *Checkpoint) norm(name string, x []float64, gemma bool) []float64 {
	mean := 0.0
	for _, v := range x {
		mean += v * v / float64(len(x))
	}
	out := make([]float64, len(x))
	for i, v := range x {
		f := float64(c.weights[name][i])
		if gemma {
			f++
		}
		out[i] = v / math.Sqrt(mean+c.Eps) * f
	}
	return out
}

func turn(x, freq, pos []float64, magnitude float64) {
	half := len(freq)
	for i, f := range freq {
		s, c := math.Sincos(pos[i] * f)
		a, b := x[i], x[i+half]
		x[i], x[i+half] = magnitude*(a*c-b*s), magnitude*(b*c+a*s)
	}
}

// frequencies are RoPE's, by the published definitions of each scaling.
func (c *Checkpoint) frequencies(local bool) (freq []float64, magnitude float64) {
	num := func(key string, d float64) float64 {
		switch v := c.Scaling[key].(type) {
		case float64:
			return v
		case int:
			return float64(v)
		}
		return d
	}
	theta, kind := c.Theta, "default"
	for _, key := range []string{"type", "rope_type"} {
		if s, ok := c.Scaling[key].(string); ok {
			kind = s
		}
	}
	if local {
		theta, kind = c.LocalTheta, "default"
	}
	width := c.HeadDim
	if c.Partial > 0 {
		width = int(float64(width) * c.Partial)
	}
	dim, factor, original := float64(width), num("factor", 1), num("original_max_position_embeddings", 4096)
	magnitude = 1
	for i := range width / 2 {
		f := 1 / math.Pow(theta, 2*float64(i)/dim)
		switch kind {
		case "linear":
			f /= factor
		case "llama3":
			// Wavelengths the model saw many times in training stay, those it saw less than once
			// stretch, between is a blend.
			turns := original * f / (2 * math.Pi)
			low, high := num("low_freq_factor", 1), num("high_freq_factor", 4)
			blend := min(max((turns-low)/(high-low), 0), 1)
			f = f*blend + f/factor*(1-blend)
		case "yarn":
			at := func(turns float64) float64 { return dim * math.Log(original/(turns*2*math.Pi)) / (2 * math.Log(theta)) }
			low, high := max(math.Floor(at(num("beta_fast", 32))), 0), min(math.Ceil(at(num("beta_slow", 1))), dim-1)
			ramp := min(max((float64(i)-low)/(high-low), 0), 1)
			f = f/factor*ramp + f*(1-ramp)
			magnitude = 0.1*math.Log(factor) + 1
		}
		freq = append(freq, f)
	}
	return freq, magnitude
}
