package axmodeltest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/x448/float16"

	"github.com/axle-llm/axle/axcl"
)

// Arch is a small model of one architecture. Its weights are random; see [RandomCheckpoint].
type Arch struct {
	Name                                             string
	Type                                             string // config.json's model_type
	Hidden, Layers, Heads, KV, HeadDim, Inter, Vocab int
	Tied                                             bool
	Eps, Theta                                       float64
	Scaling                                          map[string]any // rope_scaling
	Window, Pattern                                  int            // Gemma-3's sliding window, and that each Pattern-th layer sees all
	LocalTheta, QueryScalar                          float64
	DType                                            string // BF16 (when empty), F16, F32
	Shards                                           int    // files; 0: one, without an index
	// the text model's parameters under text_config, its tensors under language_model.
	Nested bool

	// Of Qwen3.5: each Interval-th layer has full attention, the others a state. ByType:
	// config.json lists the layers' types instead.
	Interval                               int
	ByType                                 bool
	KeyHeads, ValueHeads, KeyDim, ValueDim int
	Partial                                float64 // part of a head that is rotated; 0: all

	Gemma4 *Gemma4 // nil for others

	// Of models that see.
	Section []int // frequencies that take each of three positions; nil: there is one
	Sight   *Sight
}

// Archs lists every supported architecture, and every form of checkpoint and of RoPE scaling,
// small.
func Archs() []Arch {
	base := Arch{Hidden: 64, Layers: 3, Heads: 4, KV: 2, HeadDim: 16, Inter: 96, Vocab: Vocab, Eps: 1e-6, Theta: 10_000}
	with := func(name, typ string, f func(*Arch)) Arch {
		a := base
		a.Name, a.Type = name, typ
		if f != nil {
			f(&a)
		}
		return a
	}
	return []Arch{
		with("qwen2", "qwen2", func(a *Arch) { a.Theta = 1e6 }),
		with("qwen2-tied", "qwen2", func(a *Arch) { a.Tied, a.Heads, a.KV = true, 6, 1 }),
		with("qwen3", "qwen3", func(a *Arch) { a.HeadDim, a.Theta = 32, 1e6 }),
		with("qwen3-sharded", "qwen3", func(a *Arch) { a.Shards, a.Tied, a.KV = 3, true, 4 }),
		with("llama", "llama", func(a *Arch) { a.Eps, a.DType = 1e-5, "F16" }),
		with("llama-llama3", "llama", func(a *Arch) {
			a.Theta, a.Tied = 500_000, true
			a.Scaling = map[string]any{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
				"original_max_position_embeddings": 64}
		}),
		with("llama-linear", "llama", func(a *Arch) { a.DType, a.Scaling = "F32", map[string]any{"type": "linear", "factor": 4.0} }),
		with("qwen2-yarn", "qwen2", func(a *Arch) {
			a.Scaling = map[string]any{"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
		}),
		with("gemma3", "gemma3_text", func(a *Arch) {
			a.Layers, a.Tied, a.Theta, a.LocalTheta, a.QueryScalar, a.Window, a.Pattern, a.KV, a.Hidden = 4, true, 1e6, 10_000, 24, 1024, 3,
				1, 48
		}),
		with("gemma3-nested", "gemma3_text", func(a *Arch) {
			a.Tied, a.Theta, a.LocalTheta, a.QueryScalar, a.Window, a.Pattern, a.Nested = true, 1e6, 10_000, 16, 512, 2, true
			a.Scaling = map[string]any{"rope_type": "linear", "factor": 8.0}
		}),
	}
}

// Find is the architecture of Archs, StateArchs, Gemma4Archs or SightArchs with that name.
func Find(name string) (Arch, bool) {
	all := slices.Concat(Archs(), StateArchs(), Gemma4Archs(), SightArchs())
	i := slices.IndexFunc(all, func(a Arch) bool { return a.Name == name })
	if i < 0 {
		return Arch{}, false
	}
	return all[i], true
}

// Checkpoint is a random model as it was written, with its weights at hand. It is not changed by
// its methods.
type Checkpoint struct {
	Arch
	Dir     string
	weights map[string][]float32 // by their names in the file
}

// RandomCheckpoint writes a checkpoint in Hugging Face's format into dir, which must exist:
// config.json, safetensors, generation_config.json and a byte-level tokenizer with a chat template.
// The same architecture and seed give the same weights. arch is a name of [Archs].
func RandomCheckpoint(dir, arch string, seed uint64) (*Checkpoint, error) {
	a, ok := Find(arch)
	if !ok {
		return nil, fmt.Errorf("axmodeltest: no architecture %q", arch)
	}
	return WriteCheckpoint(dir, a, seed)
}

// WriteCheckpoint is RandomCheckpoint for any architecture.
func WriteCheckpoint(dir string, a Arch, seed uint64) (*Checkpoint, error) {
	c := &Checkpoint{Arch: a, Dir: dir, weights: map[string][]float32{}}
	shapes := map[string][]int{}
	r := rand.New(rand.NewPCG(seed, 0x5eed))
	c.DType = a.DType
	if c.DType == "" {
		c.DType = "BF16"
	}
	add := func(name string, mean, spread float64, shape ...int) {
		n := 1
		for _, d := range shape {
			n *= d
		}
		v := make([]float32, n)
		for i := range v {
			v[i] = round(float32(mean+spread*r.NormFloat64()), c.dtype(name))
		}
		c.weights[name], shapes[name] = v, shape
	}
	gemma := a.Type == "gemma3_text" || a.Gemma4 != nil
	one := 1.0 // what a norm's weight is about
	if c.normOne() {
		one = 0
	}
	matrix := func(name string, rows, cols int) { add(name, 0, 1/math.Sqrt(float64(cols)), rows, cols) }
	p := c.prefix()
	for i := range a.Layers {
		l := fmt.Sprintf("%slayers.%d.", p, i)
		q, kv, inner := a.Heads*a.dim(i), a.KV*a.dim(i), a.inner(i)
		shares := a.Gemma4 != nil && i >= a.Layers-a.Gemma4.Shared
		add(l+"input_layernorm.weight", one, 0.2, a.Hidden)
		add(l+"post_attention_layernorm.weight", one, 0.2, a.Hidden)
		if a.Linear(i) {
			c.addLinear(l+"linear_attn.", add)
		} else {
			queries := q
			if a.Interval > 0 {
				queries *= 2 // and as many of a gate
			}
			matrix(l+"self_attn.q_proj.weight", queries, a.Hidden)
			if !shares {
				matrix(l+"self_attn.k_proj.weight", kv, a.Hidden)
				matrix(l+"self_attn.v_proj.weight", kv, a.Hidden)
			}
			matrix(l+"self_attn.o_proj.weight", a.Hidden, q)
		}
		matrix(l+"mlp.gate_proj.weight", inner, a.Hidden)
		matrix(l+"mlp.up_proj.weight", inner, a.Hidden)
		matrix(l+"mlp.down_proj.weight", a.Hidden, inner)
		if a.Type == "qwen2" {
			add(l+"self_attn.q_proj.bias", 0, 0.5, q)
			add(l+"self_attn.k_proj.bias", 0, 0.5, kv)
			add(l+"self_attn.v_proj.bias", 0, 0.5, kv)
		}
		if strings.HasPrefix(a.Type, "qwen3") && a.Interval == 0 || gemma || a.Interval > 0 && !a.Linear(i) {
			size, spread := one, 0.2
			if a.Gemma4 != nil { // whose scores are not scaled
				size, spread = 0.1, 0.03
			}
			add(l+"self_attn.q_norm.weight", size, spread, a.dim(i))
			if !shares {
				add(l+"self_attn.k_norm.weight", one, 0.2, a.dim(i))
			}
		}
		if gemma {
			add(l+"pre_feedforward_layernorm.weight", one, 0.2, a.Hidden)
			add(l+"post_feedforward_layernorm.weight", one, 0.2, a.Hidden)
		}
		if a.Gemma4 != nil {
			c.addLayerInputs(l, add)
		}
	}
	spread := 1.0
	if gemma {
		spread = 1 / math.Sqrt(float64(a.Hidden)) // scaled by √hidden at look-up
	}
	add(p+"norm.weight", one, 0.2, a.Hidden)
	add(p+"embed_tokens.weight", 0, spread, a.Vocab, a.Hidden)
	if !a.Tied {
		matrix("lm_head.weight", a.Vocab, a.Hidden)
	}
	if a.Interval > 0 && a.Nested { // what a text model has no use for
		add("model.visual.patch_embed.proj.weight", 0, 1, 4, 3, 2, 2, 2)
		add("mtp.fc.weight", 0, 1, a.Hidden, 2*a.Hidden)
	}
	if a.Gemma4 != nil {
		c.addTable(p, add)
	}
	if a.Sight != nil {
		c.addSight(add)
	}
	if err := c.writeWeights(shapes); err != nil {
		return nil, err
	}
	words := tokenizerJSON()
	if a.Sight != nil {
		words = c.sightVocabulary(words)
	}
	return c, c.writeFiles(words)
}

// writeFiles writes what lies beside the weights.
func (c *Checkpoint) writeFiles(words any) error {
	for name, v := range map[string]any{"config.json": c.config(), "generation_config.json": map[string]any{"do_sample": true,
		"temperature": 0.6, "top_k": 20, "top_p": 0.95, "eos_token_id": []int{IDEnd, IDStop}},
		"tokenizer.json": words, "tokenizer_config.json": map[string]any{"eos_token": "<|im_end|>",
			"chat_template": chatTemplate}} {
		b, err := json.MarshalIndent(v, "", " ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(c.Dir, name), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (c *Checkpoint) prefix() string {
	switch {
	case c.Sight == nil:
	case c.Sight.Qwen:
		return "model.language_model."
	default:
		return "model.text_model."
	}
	if c.Nested && (c.Interval > 0 || c.Gemma4 != nil) {
		return "model.language_model."
	}
	if c.Nested {
		return "language_model.model."
	}
	return "model."
}

func (c *Checkpoint) config() map[string]any {
	m := map[string]any{"model_type": c.Type, "hidden_size": c.Hidden, "num_hidden_layers": c.Layers, "num_attention_heads": c.Heads,
		"num_key_value_heads": c.KV, "head_dim": c.HeadDim,
		"intermediate_size": c.Inter, "vocab_size": c.Vocab, "rms_norm_eps": c.Eps, "rope_theta": c.Theta, "tie_word_embeddings": c.Tied,
		"max_position_embeddings": 4096,
		"eos_token_id":            IDEnd, "torch_dtype": "bfloat16"}
	if c.Scaling != nil {
		m["rope_scaling"] = c.Scaling
	}
	if c.Type == "gemma3_text" {
		maps.Copy(m, map[string]any{"rope_local_base_freq": c.LocalTheta, "query_pre_attn_scalar": c.QueryScalar,
			"sliding_window": c.Window, "sliding_window_pattern": c.Pattern,
			"hidden_activation": "gelu_pytorch_tanh"})
	} else {
		m["hidden_act"] = "silu"
	}
	if c.Gemma4 != nil {
		return c.configGemma4(m)
	}
	if c.Interval > 0 {
		return c.configLinear(m)
	}
	if c.Sight != nil {
		return c.configSight(m)
	}
	if c.Nested {
		return map[string]any{"model_type": "gemma3", "text_config": m, "eos_token_id": []int{IDEnd, IDStop},
			"architectures": []string{"Gemma3ForConditionalGeneration"}}
	}
	return m
}

func (c *Checkpoint) writeWeights(shapes map[string][]int) error {
	names := slices.Sorted(maps.Keys(c.weights))
	if c.Shards == 0 {
		return c.writeFile("model.safetensors", names, shapes)
	}
	index := map[string]string{}
	for i := range c.Shards {
		file := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, c.Shards)
		part := names[i*len(names)/c.Shards : (i+1)*len(names)/c.Shards]
		for _, n := range part {
			index[n] = file
		}
		if err := c.writeFile(file, part, shapes); err != nil {
			return err
		}
	}
	b, err := json.Marshal(map[string]any{"weight_map": index})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.Dir, "model.safetensors.index.json"), b, 0o644)
}

func (c *Checkpoint) writeFile(file string, names []string, shapes map[string][]int) error {
	header := map[string]any{"__metadata__": map[string]string{"format": "pt"}}
	var data []byte
	for _, n := range names {
		from, dtype := len(data), c.dtype(n)
		for _, v := range c.weights[n] {
			switch dtype {
			case "BF16":
				data = binary.LittleEndian.AppendUint16(data, axcl.BFloat16(v))
			case "F16":
				data = binary.LittleEndian.AppendUint16(data, float16.Fromfloat32(v).Bits())
			default:
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
			}
		}
		header[n] = map[string]any{"dtype": dtype, "shape": shapes[n], "data_offsets": []int{from, len(data)}}
	}
	return os.WriteFile(filepath.Join(c.Dir, file), Safetensors(header, data), 0o644)
}

// Safetensors puts a header before data.
func Safetensors(header any, data []byte) []byte {
	h, err := json.Marshal(header)
	if err != nil {
		panic(err)
	}
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(h)))
	return append(append(b, h...), data...)
}

func round(v float32, dtype string) float32 {
	switch dtype {
	case "BF16":
		return axcl.Float32(axcl.BFloat16(v))
	case "F16":
		return float16.Fromfloat32(v).Float32()
	}
	return v
}

// The small tokenizer: a token a byte, then four control tokens, then words up to Vocab.
const (
	Vocab   = 320
	IDEnd   = 256 // <|endoftext|>
	IDStart = 257 // <|im_start|>
	IDStop  = 258 // <|im_end|>
)

const chatTemplate = `{% for message in messages %}<|im_start|>{{ message['role'] }}
{{ message['content'] }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

// tokenizerJSON is a byte-level BPE of all bytes, with no merges but those that make the words.
func tokenizerJSON() map[string]any {
	vocab := map[string]int{}
	for b := range 256 {
		vocab[string(byteRune(b))] = b
	}
	var merges []string
	for i := IDStop + 2; i < Vocab; i++ { // two letters each: "aa", "ab" …
		n := i - IDStop - 2
		a, b := string(rune('a'+n/26)), string(rune('a'+n%26))
		vocab[a+b] = i
		merges = append(merges, a+" "+b)
	}
	var added []map[string]any
	for i, s := range []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"} {
		added = append(added, map[string]any{"id": IDEnd + i, "content": s, "special": true, "single_word": false, "lstrip": false,
			"rstrip": false, "normalized": false})
	}
	level := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false}
	return map[string]any{"version": "1.0", "added_tokens": added, "normalizer": nil, "pre_tokenizer": level, "post_processor": nil,
		"decoder": level,
		"model":   map[string]any{"type": "BPE", "vocab": vocab, "merges": merges, "byte_fallback": false}}
}

// byteRune is GPT-2's printable alphabet for bytes.
func byteRune(b int) rune {
	printable := func(b int) bool { return b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae }
	if printable(b) {
		return rune(b)
	}
	n := 256
	for i := range b {
		if !printable(i) {
			n++
		}
	}
	return rune(n)
}

// Weight gives a tensor's values by its name in the checkpoint; nil when there is none. They are
// not to be changed.
func (c *Checkpoint) Weight(name string) []float32 { return c.weights[name] }
