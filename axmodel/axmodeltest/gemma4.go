package axmodeltest

import (
	"fmt"
	"maps"
	"math"

	"github.com/axle-llm/axle/axcl"
)

// Gemma4 is what Gemma-4's architecture has beyond the others': layer inputs, shared K and V, and
// heads of two lengths. Its KV and HeadDim are those of layers that see a window.
type Gemma4 struct {
	Width     int     // values of a row of layer inputs
	Shared    int     // layers at the end that use the K and V of the last one of their kind before them
	Dim       int     // a head's length where layers see all
	Double    bool    // layers that share have an MLP twice as wide
	Cap       float64 // of logits
	NoScalars bool    // the checkpoint does not say what a layer's result is multiplied by
	Parts     bool    // tensors of vision and audio are there, too
}

// Gemma4Archs lists, small, the forms of Gemma-4: the last layers twice as wide and not, the text
// model alone and within one that sees and hears.
func Gemma4Archs() []Arch {
	base := Arch{Type: "gemma4_text", Hidden: 64, Layers: 6, Heads: 4, KV: 1, HeadDim: 16, Inter: 80, Vocab: Vocab, Eps: 1e-6, Tied: true,
		Theta: 1e6, LocalTheta: 10_000, Window: 512, Pattern: 3}
	one, two := base, base
	one.Name, one.Nested = "gemma4", true
	one.Gemma4 = &Gemma4{Width: 32, Shared: 2, Dim: 32, Double: true, Cap: 30, Parts: true}
	two.Name, two.KV, two.Layers, two.Pattern = "gemma4-plain", 2, 5, 2
	two.Gemma4 = &Gemma4{Width: 24, Shared: 3, Dim: 16, NoScalars: true}
	return []Arch{one, two}
}

// Local says whether layer i sees a window alone.
func (a Arch) Local(i int) bool { return a.Window > 0 && (i+1)%a.Pattern != 0 }

// Sources says of each layer whose K and V it uses; nil where all use their own.
func (a Arch) Sources() []int {
	if a.Gemma4 == nil || a.Gemma4.Shared == 0 {
		return nil
	}
	var out []int
	for i := range a.Layers {
		out = append(out, i)
		if own := a.Layers - a.Gemma4.Shared; i >= own {
			for j := range own {
				if a.Local(j) == a.Local(i) {
					out[i] = j
				}
			}
		}
	}
	return out
}

func (a Arch) dim(i int) int {
	if a.Gemma4 != nil && !a.Local(i) {
		return a.Gemma4.Dim
	}
	return a.HeadDim
}

func (a Arch) inner(i int) int {
	if a.Gemma4 != nil && a.Gemma4.Double && i >= a.Layers-a.Gemma4.Shared {
		return 2 * a.Inter
	}
	return a.Inter
}

func (c *Checkpoint) configGemma4(m map[string]any) map[string]any {
	g := c.Gemma4
	maps.Copy(m, map[string]any{"hidden_activation": "gelu_pytorch_tanh", "sliding_window": c.Window,
		"hidden_size_per_layer_input": g.Width,
		"vocab_size_per_layer_input":  c.Vocab, "num_kv_shared_layers": g.Shared, "global_head_dim": g.Dim, "use_double_wide_mlp": g.Double,
		"rope_parameters": map[string]any{
			"full_attention":    map[string]any{"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": c.Theta},
			"sliding_attention": map[string]any{"rope_type": "default", "rope_theta": c.LocalTheta}}})
	if g.Cap > 0 {
		m["final_logit_softcapping"] = g.Cap
	}
	var kinds []string
	for i := range c.Layers {
		kinds = append(kinds, map[bool]string{false: "full_attention", true: "sliding_attention"}[c.Local(i)])
	}
	m["layer_types"] = kinds
	if c.Nested {
		return map[string]any{"model_type": "gemma4", "text_config": m, "vision_config": map[string]any{}, "audio_config": map[string]any{},
			"architectures": []string{"Gemma4ForConditionalGeneration"}}
	}
	return m
}

// addLayerInputs adds the tensors that a layer has for its layer inputs.
func (c *Checkpoint) addLayerInputs(p string, add func(name string, mean, spread float64, shape ...int)) {
	g := c.Gemma4
	add(p+"per_layer_input_gate.weight", 0, 1/math.Sqrt(float64(c.Hidden)), g.Width, c.Hidden)
	add(p+"per_layer_projection.weight", 0, 1/math.Sqrt(float64(g.Width)), c.Hidden, g.Width)
	add(p+"post_per_layer_input_norm.weight", 1, 0.2, c.Hidden)
	if !g.NoScalars {
		add(p+"layer_scalar", 0.8, 0.1, 1)
	}
}

// addTable adds what the layer inputs are made with.
func (c *Checkpoint) addTable(p string, add func(name string, mean, spread float64, shape ...int)) {
	g, all := c.Gemma4, c.Layers*c.Gemma4.Width
	add(p+"embed_tokens_per_layer.weight", 0, 1/math.Sqrt(float64(g.Width)), c.Vocab, all)
	add(p+"per_layer_model_projection.weight", 0, 1/math.Sqrt(float64(c.Hidden)), all, c.Hidden)
	add(p+"per_layer_projection_norm.weight", 1, 0.2, g.Width)
	if g.Parts { // what a text model has no use for
		add("model.vision_tower.patch_embedder.input_proj.weight", 0, 1, 4, 12)
		add("model.audio_tower.output_proj.weight", 0, 1, 4, 4)
		add("model.embed_vision.embedding_projection.weight", 0, 1, c.Hidden, 4)
	}
}

// LayerInputs are a token's values that layers take beyond the hidden state, layer by layer, by the
// formula.
func (c *Checkpoint) LayerInputs(token int) []float64 {
	g, p := c.Gemma4, c.prefix()
	scale := float64(axcl.Float32(axcl.BFloat16(float32(math.Sqrt(float64(c.Hidden))))))
	e := make([]float64, c.Hidden)
	for j := range e {
		e[j] = float64(c.weights[p+"embed_tokens.weight"][token*c.Hidden+j]) * scale / math.Sqrt(float64(c.Hidden))
	}
	out := times(c.weights[p+"per_layer_model_projection.weight"], e)
	all := c.Layers * g.Width
	table := c.weights[p+"embed_tokens_per_layer.weight"][token*all:][:all]
	for l := range c.Layers {
		part := out[l*g.Width:][:g.Width]
		for i, v := range c.norm(p+"per_layer_projection_norm.weight", part, false) {
			part[i] = (v + float64(table[l*g.Width+i])*math.Sqrt(float64(g.Width))) / math.Sqrt2
		}
	}
	return out
}

// past is K and V of all rows in one layer.
type past struct{ k, v [][]float64 }

// layerGemma4 computes layer l for all rows; inputs are the layer inputs of each, and kept has K
// and V of the layers before it.
func (c *Checkpoint) layerGemma4(l int, x [][]float64, rows []Row, inputs [][]float64, kept []past) past {
	p := fmt.Sprintf("%slayers.%d.", c.prefix(), l)
	hd, local := c.dim(l), c.Local(l)
	plain := func(x []float64) []float64 { // a norm without weights
		mean := 0.0
		for _, v := range x {
			mean += v * v / float64(len(x))
		}
		out := make([]float64, len(x))
		for i, v := range x {
			out[i] = v / math.Sqrt(mean+c.Eps)
		}
		return out
	}
	freq := make([]float64, hd/2)
	for i := range freq {
		switch {
		case local:
			freq[i] = math.Pow(c.LocalTheta, -2*float64(i)/float64(hd))
		case i < hd/8: // a quarter of the pairs turn
			freq[i] = math.Pow(c.Theta, -2*float64(i)/float64(hd))
		}
	}
	heads := func(x []float64, norm string, pos int) {
		for h := 0; h < len(x); h += hd {
			head := x[h : h+hd]
			if norm == "" {
				copy(head, plain(head))
				continue
			}
			copy(head, c.norm(p+"self_attn."+norm+".weight", head, false))
			at := make([]float64, len(freq))
			for i := range at {
				at[i] = float64(pos)
			}
			turn(head, freq, at, 1)
		}
	}
	n := len(rows)
	q, own := make([][]float64, n), past{make([][]float64, n), make([][]float64, n)}
	for i := range rows {
		a := c.norm(p+"input_layernorm.weight", x[i], false)
		q[i] = times(c.weights[p+"self_attn.q_proj.weight"], a)
		heads(q[i], "q_norm", rows[i].Pos)
		if src := c.Sources(); src != nil && src[l] != l {
			own.k[i], own.v[i] = kept[src[l]].k[i], kept[src[l]].v[i]
			continue
		}
		own.k[i], own.v[i] = times(c.weights[p+"self_attn.k_proj.weight"], a), times(c.weights[p+"self_attn.v_proj.weight"], a)
		heads(own.k[i], "k_norm", rows[i].Pos)
		heads(own.v[i], "", 0)
	}
	for i, r := range rows {
		att := make([]float64, c.Heads*hd)
		for h := range c.Heads {
			at := h / (c.Heads / c.KV) * hd
			var score []float64
			var seen []int
			total := 0.0
			for _, j := range append(append([]int(nil), r.See...), i) {
				if local && rows[j].Pos <= r.Pos-c.Window {
					continue
				}
				s := 0.0
				for d := range hd {
					s += q[i][h*hd+d] * own.k[j][at+d]
				}
				seen, score = append(seen, j), append(score, math.Exp(s)) // heads of length one: no score is large
				total += score[len(score)-1]
			}
			for m, j := range seen {
				for d := range hd {
					att[h*hd+d] += score[m] / total * own.v[j][at+d]
				}
			}
		}
		plus(x[i], c.norm(p+"post_attention_layernorm.weight", times(c.weights[p+"self_attn.o_proj.weight"], att), false))
		a := c.norm(p+"pre_feedforward_layernorm.weight", x[i], false)
		gate, up := times(c.weights[p+"mlp.gate_proj.weight"], a), times(c.weights[p+"mlp.up_proj.weight"], a)
		for j, g := range gate {
			gate[j] = tanhGELU(g) * up[j]
		}
		plus(x[i], c.norm(p+"post_feedforward_layernorm.weight", times(c.weights[p+"mlp.down_proj.weight"], gate), false))
		values := inputs[i][l*c.Gemma4.Width:][:c.Gemma4.Width]
		gate = times(c.weights[p+"per_layer_input_gate.weight"], x[i])
		for j, g := range gate {
			gate[j] = tanhGELU(g) * values[j]
		}
		plus(x[i], c.norm(p+"post_per_layer_input_norm.weight", times(c.weights[p+"per_layer_projection.weight"], gate), false))
		if s := c.weights[p+"layer_scalar"]; s != nil {
			for j := range x[i] {
				x[i][j] *= float64(s[0])
			}
		}
	}
	return own
}

func tanhGELU(g float64) float64 {
	return 0.5 * g * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(g+0.044715*g*g*g)))
}
