package axmodeltest

import (
	"fmt"
	"maps"
	"math"
	"strings"
)

// StateArchs lists, small, the forms of models whose layers have a state: key heads with a value
// head each and with several, tied and not, the text model alone and within one that sees.
func StateArchs() []Arch {
	base := Arch{Hidden: 64, Layers: 4, Heads: 4, KV: 2, HeadDim: 32, Inter: 96, Vocab: Vocab, Eps: 1e-6, Theta: 1e7, Interval: 4,
		Partial: 0.25, KeyHeads: 4, ValueHeads: 4, KeyDim: 32, ValueDim: 32, Type: "qwen3_5_text"}
	with := func(name string, f func(*Arch)) Arch {
		a := base
		a.Name = name
		f(&a)
		return a
	}
	return []Arch{
		with("qwen3_5", func(a *Arch) { a.Nested, a.Tied = true, true }),
		with("qwen3_5-text", func(a *Arch) { a.ByType, a.Interval, a.Layers = true, 2, 3 }),
		with("qwen3_5-grouped", func(a *Arch) { a.Tied, a.KeyHeads, a.ValueHeads, a.Shards, a.KV = true, 2, 4, 2, 1 }),
		with("qwen3_5-untied", func(a *Arch) {
			a.Nested, a.ByType, a.KeyHeads, a.ValueHeads, a.KeyDim, a.ValueDim, a.Hidden = true, true, 2, 6, 32, 24, 48
		}),
	}
}

// Linear says whether layer i has a state instead of a cache.
func (a Arch) Linear(i int) bool { return a.Interval > 0 && (i+1)%a.Interval != 0 }

// convolution is how many rows the convolution of a layer with a state sees.
const convolution = 4

// normOne says whether norms multiply by 1 + weight.
func (c *Checkpoint) normOne() bool { return c.Type == "gemma3_text" || c.Interval > 0 }

// dtype is a tensor's type in the file: two of a layer with a state are always F32.
func (c *Checkpoint) dtype(name string) string {
	if strings.HasSuffix(name, "linear_attn.A_log") || strings.HasSuffix(name, "linear_attn.norm.weight") {
		return "F32"
	}
	return c.DType
}

func (c *Checkpoint) addLinear(p string, add func(name string, mean, spread float64, shape ...int)) {
	values := c.ValueHeads * c.ValueDim
	channels := 2*c.KeyHeads*c.KeyDim + values
	spread := 1 / math.Sqrt(float64(c.Hidden))
	add(p+"in_proj_qkv.weight", 0, spread, channels, c.Hidden)
	add(p+"in_proj_z.weight", 0, spread, values, c.Hidden)
	add(p+"in_proj_b.weight", 0, spread, c.ValueHeads, c.Hidden)
	add(p+"in_proj_a.weight", 0, spread, c.ValueHeads, c.Hidden)
	add(p+"out_proj.weight", 0, 1/math.Sqrt(float64(values)), c.Hidden, values)
	add(p+"conv1d.weight", 0, 0.5, channels, 1, convolution)
	add(p+"dt_bias", 0, 1, c.ValueHeads)
	add(p+"A_log", -3, 0.7, c.ValueHeads) // a head remembers ten to a hundred rows
	add(p+"norm.weight", 1, 0.2, c.ValueDim)
}

// configLinear makes the config.json of a model whose layers have a state, from what all have.
func (c *Checkpoint) configLinear(m map[string]any) map[string]any {
	delete(m, "rope_theta")
	section := c.Section
	if section == nil { // a text model has no use for it
		section = []int{2, 1, 1}
	}
	maps.Copy(m, map[string]any{"linear_num_key_heads": c.KeyHeads, "linear_num_value_heads": c.ValueHeads,
		"linear_key_head_dim": c.KeyDim, "linear_value_head_dim": c.ValueDim, "linear_conv_kernel_dim": convolution,
		"attn_output_gate": true,
		"rope_parameters": map[string]any{"rope_type": "default", "rope_theta": c.Theta, "partial_rotary_factor": c.Partial,
			"mrope_section": section, "mrope_interleaved": true}})
	if c.ByType {
		var types []string
		for i := range c.Layers {
			types = append(types, map[bool]string{true: "linear_attention", false: "full_attention"}[c.Linear(i)])
		}
		m["layer_types"] = types
	} else {
		m["full_attention_interval"] = c.Interval
	}
	if c.Sight != nil {
		return c.configSight(m)
	}
	if c.Nested {
		return map[string]any{"model_type": "qwen3_5", "text_config": m, "tie_word_embeddings": c.Tied,
			"architectures": []string{"Qwen3_5ForConditionalGeneration"}}
	}
	return m
}

// memory is what a layer with a state knows after a row: the state matrix of every value head, key
// by value, and the row's own input of the convolution.
type memory struct {
	s [][]float64
	u []float64
}

// mixLinear computes a gated delta-net for all rows from their normalised hidden values: each row
// goes on from what is known after the last of the rows it sees, and nothing else of them.
func (c *Checkpoint) mixLinear(p string, normed [][]float64, rows []Row) [][]float64 {
	w := func(name string) []float32 { return c.weights[p+name] }
	known, before := make([]memory, len(rows)), make([]int, len(rows))
	keys := c.KeyHeads * c.KeyDim
	out := make([][]float64, len(rows))
	for t, r := range rows {
		before[t] = -1
		for _, j := range r.See {
			if before[t] < 0 || rows[j].Pos >= rows[before[t]].Pos { // a picture's rows have the same
				before[t] = j
			}
		}
		h := normed[t]
		u := times(w("in_proj_qkv.weight"), h)
		c1 := make([]float64, len(u))
		conv := w("conv1d.weight")
		for ch := range u {
			sum := float64(conv[ch*convolution+convolution-1]) * u[ch]
			for back, j := 1, before[t]; back < convolution && j >= 0; back, j = back+1, before[j] {
				sum += float64(conv[ch*convolution+convolution-1-back]) * known[j].u[ch]
			}
			c1[ch] = silu(sum)
		}
		z, b, a := times(w("in_proj_z.weight"), h), times(w("in_proj_b.weight"), h), times(w("in_proj_a.weight"), h)
		mem := memory{u: u}
		var y []float64
		for head := range c.ValueHeads {
			kh := head / (c.ValueHeads / c.KeyHeads)
			q := unit(c1[kh*c.KeyDim:(kh+1)*c.KeyDim], 1/math.Sqrt(float64(c.KeyDim)))
			k := unit(c1[keys+kh*c.KeyDim:keys+(kh+1)*c.KeyDim], 1)
			v := c1[2*keys+head*c.ValueDim : 2*keys+(head+1)*c.ValueDim]
			beta := 1 / (1 + math.Exp(-b[head]))
			decay := math.Exp(-math.Exp(float64(w("A_log")[head])) * math.Log1p(math.Exp(a[head]+float64(w("dt_bias")[head]))))
			s := make([]float64, c.KeyDim*c.ValueDim)
			if before[t] >= 0 {
				for i, old := range known[before[t]].s[head] {
					s[i] = decay * old
				}
			}
			o := make([]float64, c.ValueDim)
			for e := range o {
				recalled := 0.0
				for i := range k {
					recalled += s[i*c.ValueDim+e] * k[i]
				}
				for i := range k {
					s[i*c.ValueDim+e] += k[i] * beta * (v[e] - recalled)
					o[e] += s[i*c.ValueDim+e] * q[i]
				}
			}
			mem.s = append(mem.s, s)
			o = c.norm(p+"norm.weight", o, false)
			for e := range o {
				o[e] *= silu(z[head*c.ValueDim+e])
			}
			y = append(y, o...)
		}
		known[t] = mem
		out[t] = times(w("out_proj.weight"), y)
	}
	return out
}

func silu(x float64) float64 { return x / (1 + math.Exp(-x)) }

// unit is x of length m.
func unit(x []float64, m float64) []float64 {
	sum := 1e-6
	for _, v := range x {
		sum += v * v
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v / math.Sqrt(sum) * m
	}
	return out
}

// layerLinear adds a whole layer with a state to x.
func (c *Checkpoint) layerLinear(l int, x [][]float64, rows []Row) {
	p := fmt.Sprintf("%slayers.%d.", c.prefix(), l)
	a := make([][]float64, len(rows))
	for i := range rows {
		a[i] = c.norm(p+"input_layernorm.weight", x[i], true)
	}
	for i, y := range c.mixLinear(p+"linear_attn.", a, rows) {
		plus(x[i], y)
		a := c.norm(p+"post_attention_layernorm.weight", x[i], true)
		gate, up := times(c.weights[p+"mlp.gate_proj.weight"], a), times(c.weights[p+"mlp.up_proj.weight"], a)
		for j, g := range gate {
			gate[j] = silu(g) * up[j]
		}
		plus(x[i], times(c.weights[p+"mlp.down_proj.weight"], gate))
	}
}

// runStates is run for models whose layers keep a state: three sequences turn about between slots,
// chunk by chunk, row by row, in place and from one slot to another; the second goes on from a
// state of the first that is kept while the first goes on.
func (w *walk) runStates() error {
	cells := w.cells()
	var a, b, c []int
	next := func(s *[]int, n int, from, to uint32) error {
		first := len(w.rows)
		for range n {
			w.rows = append(w.rows, Row{Token: w.rand.IntN(w.c.Vocab), Pos: len(*s), See: append([]int(nil), *s...)})
			*s = append(*s, len(w.rows)-1)
		}
		w.from, w.to = from, to
		return w.pass(first, cells[first:len(w.rows)])
	}
	for i, p := range []struct {
		s        *[]int
		n        int
		from, to uint32
	}{{&a, 16, 0, 1}, {&a, 16, 1, 2}, {&a, 8, 2, 1}, {&c, 5, 0, 4}, {&b, 9, 2, 3}, {&c, 12, 4, 4}, {&a, 3, 1, 1}, {&b, 1, 3, 3},
		{&a, 1, 1, 4}, {&b, 1, 3, 1}, {&b, 1, 1, 3}, {&a, 1, 4, 4}} {
		if i == 4 {
			b = append(b, a[:32]...)
		}
		if err := next(p.s, p.n, p.from, p.to); err != nil {
			return err
		}
	}
	return nil
}
