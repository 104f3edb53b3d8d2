package axmodeltest

import (
	"fmt"
	"maps"
	"math"
)

// Sight is what of a small model sees: Qwen3-VL's tower, or SmolVLM2's.
type Sight struct {
	Qwen                        bool
	Width, Blocks, Heads, Inter int
	Patch, Merge                int
	Side                        int   // rows and columns of the table of positions
	Deep                        []int // blocks after which rows are given to be added
	Down, Across                int   // patches of a picture, as it is compiled
}

// SightArchs lists, small, the forms of models that see: with positions read between a table's, and
// rows to add after layers; plain; and with layers that have a state.
func SightArchs() []Arch {
	base := Arch{Hidden: 64, Layers: 3, Heads: 4, KV: 2, HeadDim: 16, Inter: 96, Vocab: Vocab, Eps: 1e-6, Theta: 1e6}
	qwen, smol := base, base
	qwen.Name, qwen.Type, qwen.Section, qwen.Tied = "qwen3_vl", "qwen3_vl_text", []int{2, 3, 3}, true
	qwen.Theta = 30 // so that a position shows, though it is one of three and near to the others
	qwen.Sight = &Sight{Qwen: true, Width: 32, Blocks: 3, Heads: 2, Inter: 48, Patch: 4, Merge: 2, Side: 5, Deep: []int{0, 2}, Down: 4,
		Across: 6}
	smol.Name, smol.Type, smol.Theta, smol.DType = "smolvlm2", "llama", 1e5, "F32"
	smol.Sight = &Sight{Width: 32, Blocks: 2, Heads: 2, Inter: 48, Patch: 4, Merge: 2, Side: 6, Down: 6, Across: 6}
	state := qwen
	state.Name, state.Type, state.Layers, state.Interval, state.HeadDim, state.Partial = "qwen3_5_vl", "qwen3_5_text", 4, 2, 64, 0.25
	state.KeyHeads, state.ValueHeads, state.KeyDim, state.ValueDim = 2, 4, 32, 32
	tower := *qwen.Sight
	tower.Deep = nil
	state.Sight = &tower
	return []Arch{qwen, smol, state}
}

func (c *Checkpoint) addSight(add func(name string, mean, spread float64, shape ...int)) {
	s := c.Sight
	d, wide := s.Width, s.Width*s.Merge*s.Merge
	linear := func(name string, rows, cols int) {
		add(name+".weight", 0, 1/math.Sqrt(float64(cols)), rows, cols)
		add(name+".bias", 0, 0.3, rows)
	}
	norm := func(name string, n int) {
		add(name+".weight", 1, 0.2, n)
		add(name+".bias", 0, 0.2, n)
	}
	if !s.Qwen {
		const p = "model.vision_model."
		add(p+"embeddings.patch_embedding.weight", 0, 1.5/math.Sqrt(float64(3*s.Patch*s.Patch)), d, 3, s.Patch, s.Patch)
		add(p+"embeddings.patch_embedding.bias", 0, 0.3, d)
		add(p+"embeddings.position_embedding.weight", 0, 0.5, s.Side*s.Side, d)
		for b := range s.Blocks {
			l := fmt.Sprintf("%sencoder.layers.%d.", p, b)
			norm(l+"layer_norm1", d)
			norm(l+"layer_norm2", d)
			for _, n := range []string{"q_proj", "k_proj", "v_proj", "out_proj"} {
				linear(l+"self_attn."+n, d, d)
			}
			linear(l+"mlp.fc1", s.Inter, d)
			linear(l+"mlp.fc2", d, s.Inter)
		}
		norm(p+"post_layernorm", d)
		add("model.connector.modality_projection.proj.weight", 0, 1/math.Sqrt(float64(wide)), c.Hidden, wide)
		return
	}
	const p = "model.visual."
	add(p+"patch_embed.proj.weight", 0, 1.5/math.Sqrt(float64(6*s.Patch*s.Patch)), d, 3, 2, s.Patch, s.Patch)
	add(p+"patch_embed.proj.bias", 0, 0.3, d)
	add(p+"pos_embed.weight", 0, 0.5, s.Side*s.Side, d)
	for b := range s.Blocks {
		l := fmt.Sprintf("%sblocks.%d.", p, b)
		norm(l+"norm1", d)
		norm(l+"norm2", d)
		linear(l+"attn.qkv", 3*d, d)
		linear(l+"attn.proj", d, d)
		linear(l+"mlp.linear_fc1", s.Inter, d)
		linear(l+"mlp.linear_fc2", d, s.Inter)
	}
	merger := func(l string, n int) {
		norm(l+"norm", n)
		linear(l+"linear_fc1", wide, wide)
		linear(l+"linear_fc2", c.Hidden, wide)
	}
	merger(p+"merger.", d)
	for i := range s.Deep {
		merger(fmt.Sprintf("%sdeepstack_merger_list.%d.", p, i), wide)
	}
}

// configSight makes the config.json of a model that sees, from its text model's.
func (c *Checkpoint) configSight(text map[string]any) map[string]any {
	s := c.Sight
	if !s.Qwen {
		return map[string]any{"model_type": "smolvlm", "text_config": text, "scale_factor": s.Merge,
			"vision_config": map[string]any{"model_type": "smolvlm_vision", "hidden_size": s.Width, "image_size": s.Side * s.Patch,
				"patch_size": s.Patch, "num_attention_heads": s.Heads, "num_hidden_layers": s.Blocks, "intermediate_size": s.Inter},
			"architectures": []string{"SmolVLMForConditionalGeneration"}}
	}
	vision := map[string]any{"depth": s.Blocks, "hidden_size": s.Width, "hidden_act": "gelu_pytorch_tanh",
		"intermediate_size": s.Inter, "num_heads": s.Heads, "in_channels": 3, "patch_size": s.Patch, "spatial_merge_size": s.Merge,
		"temporal_patch_size": 2, "out_hidden_size": c.Hidden, "num_position_embeddings": s.Side * s.Side}
	all := map[string]any{"model_type": "qwen3_5", "text_config": text, "vision_config": vision, "tie_word_embeddings": c.Tied,
		"architectures": []string{"Qwen3_5ForConditionalGeneration"}}
	if c.Interval == 0 {
		all["model_type"], all["architectures"] = "qwen3_vl", []string{"Qwen3VLForConditionalGeneration"}
		text["rope_scaling"] = map[string]any{"rope_type": "default", "mrope_section": c.Section, "mrope_interleaved": true}
		vision["deepstack_visual_indexes"] = append([]int{}, s.Deep...)
	}
	vision["model_type"] = all["model_type"]
	return all
}

// sightTokens are the control tokens by which pictures stand in a prompt, in the places of
// two-letter words.
func (c *Checkpoint) sightTokens() (tokens []string) {
	if c.Sight.Qwen {
		return []string{"<|vision_start|>", "<|vision_end|>", "<|image_pad|>"}
	}
	tokens = []string{"<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>"}
	for r := range 2 {
		for col := range 2 {
			tokens = append(tokens, fmt.Sprintf("<row_%d_col_%d>", r+1, col+1))
		}
	}
	return tokens
}

// PictureSize is how many pixels the encoder's pictures have across and down.
func (c *Checkpoint) PictureSize() (width, height int) {
	return c.Sight.Across * c.Sight.Patch, c.Sight.Down * c.Sight.Patch
}

// Look computes the encoder for a picture, red, green and blue of each pixel row by row, in
// float64, straight from the weights: its rows, and for each decoder layer that gets some, what is
// added to the rows. It follows Hugging Face's modelling code and shares none with the cards;
// patches stand in the order of their places, which no card has.
func (c *Checkpoint) Look(picture []byte) (rows [][]float64, deep [][][]float64) {
	s := c.Sight
	w := func(name string) []float32 { return c.weights[name] }
	linear := func(name string, x []float64) []float64 {
		y := times(w(name+".weight"), x)
		for i, b := range w(name + ".bias") {
			y[i] += float64(b)
		}
		return y
	}
	frames, embed, table, block, last := 1, "model.vision_model.embeddings.patch_embedding",
		"model.vision_model.embeddings.position_embedding.weight", "model.vision_model.encoder.layers.%d.",
		"model.vision_model.post_layernorm"
	names := map[string]string{"norm1": "layer_norm1", "norm2": "layer_norm2", "o": "self_attn.out_proj", "fc1": "mlp.fc1",
		"fc2": "mlp.fc2"}
	if s.Qwen {
		frames, embed, table, block = 2, "model.visual.patch_embed.proj", "model.visual.pos_embed.weight", "model.visual.blocks.%d."
		names = map[string]string{"norm1": "norm1", "norm2": "norm2", "o": "attn.proj", "fc1": "mlp.linear_fc1", "fc2": "mlp.linear_fc2"}
	}
	n := s.Down * s.Across
	x := make([][]float64, n)
	for i := range x {
		py, px := i/s.Across, i%s.Across
		var pixels []float64 // channel, frame, row, column
		for channel := range 3 {
			for range frames {
				for dy := range s.Patch {
					for dx := range s.Patch {
						at := ((py*s.Patch+dy)*s.Across*s.Patch+px*s.Patch+dx)*3 + channel
						pixels = append(pixels, (float64(picture[at])/255-0.5)/0.5)
					}
				}
			}
		}
		x[i] = linear(embed, pixels)
		fy, fx := between(py, s.Down, s.Side), between(px, s.Across, s.Side)
		for y := range s.Side {
			for col := range s.Side {
				near := max(0, 1-math.Abs(fy-float64(y))) * max(0, 1-math.Abs(fx-float64(col)))
				for k := range x[i] {
					x[i][k] += near * float64(w(table)[(y*s.Side+col)*s.Width+k])
				}
			}
		}
	}
	hd := s.Width / s.Heads
	for b := range s.Blocks {
		p := fmt.Sprintf(block, b)
		q, k, v := make([][]float64, n), make([][]float64, n), make([][]float64, n)
		for i := range x {
			a := c.layerNorm(p+names["norm1"], x[i])
			if s.Qwen {
				all := linear(p+"attn.qkv", a)
				q[i], k[i], v[i] = all[:s.Width], all[s.Width:2*s.Width], all[2*s.Width:]
				for h := range s.Heads {
					c.turnPatch(q[i][h*hd:(h+1)*hd], i/s.Across, i%s.Across)
					c.turnPatch(k[i][h*hd:(h+1)*hd], i/s.Across, i%s.Across)
				}
			} else {
				q[i], k[i], v[i] = linear(p+"self_attn.q_proj", a), linear(p+"self_attn.k_proj", a), linear(p+"self_attn.v_proj", a)
			}
		}
		for i := range x {
			att := make([]float64, s.Width)
			for h := range s.Heads {
				score, total := make([]float64, n), 0.0
				for j := range score {
					for e := h * hd; e < (h+1)*hd; e++ {
						score[j] += q[i][e] * k[j][e]
					}
					score[j] = math.Exp(score[j] / math.Sqrt(float64(hd)))
					total += score[j]
				}
				for j := range score {
					for e := h * hd; e < (h+1)*hd; e++ {
						att[e] += score[j] / total * v[j][e]
					}
				}
			}
			plus(x[i], linear(p+names["o"], att))
		}
		for i := range x {
			m := linear(p+names["fc1"], c.layerNorm(p+names["norm2"], x[i]))
			for e, g := range m {
				m[e] = 0.5 * g * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(g+0.044715*g*g*g)))
			}
			plus(x[i], linear(p+names["fc2"], m))
		}
		for i, at := range s.Deep {
			if at == b {
				deep = append(deep, c.mergePatches(fmt.Sprintf("model.visual.deepstack_merger_list.%d.", i), x, true, linear))
			}
		}
	}
	if s.Qwen {
		return c.mergePatches("model.visual.merger.", x, false, linear), deep
	}
	for i := range x {
		x[i] = c.layerNorm(last, x[i])
	}
	for _, m := range c.gather(x) {
		rows = append(rows, times(w("model.connector.modality_projection.proj.weight"), m))
	}
	return rows, nil
}

// between is the place of i of n among side rows of a table, corners on corners.
func between(i, n, side int) float64 {
	if n == 1 {
		return 0
	}
	return float64(i) * float64(side-1) / float64(n-1)
}

// gather puts merge × merge patches side by side: row by row, and so the rows.
func (c *Checkpoint) gather(x [][]float64) (out [][]float64) {
	s := c.Sight
	for y := 0; y < s.Down; y += s.Merge {
		for col := 0; col < s.Across; col += s.Merge {
			var m []float64
			for dy := range s.Merge {
				for dx := range s.Merge {
					m = append(m, x[(y+dy)*s.Across+col+dx]...)
				}
			}
			out = append(out, m)
		}
	}
	return out
}

func (c *Checkpoint) mergePatches(p string, x [][]float64, after bool, linear func(string, []float64) []float64) [][]float64 {
	if !after {
		normed := make([][]float64, len(x))
		for i := range x {
			normed[i] = c.layerNorm(p+"norm", x[i])
		}
		x = normed
	}
	rows := c.gather(x)
	for i, m := range rows {
		if after {
			m = c.layerNorm(p+"norm", m)
		}
		m = linear(p+"linear_fc1", m)
		for e, v := range m {
			m[e] = v / 2 * (1 + math.Erf(v/math.Sqrt2))
		}
		rows[i] = linear(p+"linear_fc2", m)
	}
	return rows
}

func (c *Checkpoint) layerNorm(name string, x []float64) []float64 {
	mean, square := 0.0, 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		square += (v - mean) * (v - mean) / float64(len(x))
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = (v-mean)/math.Sqrt(square+1e-6)*float64(c.weights[name+".weight"][i]) + float64(c.weights[name+".bias"][i])
	}
	return out
}

// turnPatch rotates a head by a patch's row, in the first half of its frequencies, and its column.
func (c *Checkpoint) turnPatch(x []float64, row, column int) {
	half := len(x) / 2
	for i := range half {
		at := row
		if i >= half/2 {
			at = column
		}
		sin, cos := math.Sincos(float64(at) / math.Pow(10000, 2*float64(i%(half/2))/float64(half)))
		x[i], x[i+half] = x[i]*cos-x[i+half]*sin, x[i+half]*cos+x[i]*sin
	}
}

// positions are a row's place for each frequency: of three, in turns, as far as the sections go; or
// its one.
func (c *Checkpoint) positions(r Row, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(r.Pos)
		if k := i % 3; r.At != nil && k > 0 && i < 3*c.Section[k] {
			out[i] = float64(r.At[k])
		} else if r.At != nil {
			out[i] = float64(r.At[0])
		}
	}
	return out
}

// sightVocabulary gives the tokenizer the tokens of pictures, in place of its last words.
func (c *Checkpoint) sightVocabulary(tokenizer map[string]any) map[string]any {
	tokenizer = maps.Clone(tokenizer)
	model := maps.Clone(tokenizer["model"].(map[string]any))
	vocab, merges := maps.Clone(model["vocab"].(map[string]int)), model["merges"].([]string)
	added := tokenizer["added_tokens"].([]map[string]any)
	tokens := c.sightTokens()
	for word, id := range vocab {
		if id >= Vocab-len(tokens) {
			delete(vocab, word)
		}
	}
	for i, s := range tokens {
		added = append(added, map[string]any{"id": Vocab - len(tokens) + i, "content": s, "special": true, "single_word": false,
			"lstrip": false, "rstrip": false, "normalized": false})
	}
	model["vocab"], model["merges"] = vocab, merges[:len(merges)-len(tokens)]
	tokenizer["model"], tokenizer["added_tokens"] = model, added
	return tokenizer
}
