package compile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/axle-llm/axle/axmodel"
)

// ropeConfig is Hugging Face's rope_scaling, or one entry of its newer rope_parameters.
type ropeConfig struct {
	Type         string    `json:"rope_type"`
	OldType      string    `json:"type"`
	Theta        float64   `json:"rope_theta"`
	Factor       float64   `json:"factor"`
	Low          float64   `json:"low_freq_factor"`
	High         float64   `json:"high_freq_factor"`
	Original     float64   `json:"original_max_position_embeddings"`
	BetaFast     float64   `json:"beta_fast"`
	BetaSlow     float64   `json:"beta_slow"`
	Attention    *float64  `json:"attention_factor"`
	MScale       float64   `json:"mscale"`
	MScaleAllDim float64   `json:"mscale_all_dim"`
	Truncate     *bool     `json:"truncate"`
	Short        []float64 `json:"short_factor"`
	Partial      *float64  `json:"partial_rotary_factor"`
	Section      []int     `json:"mrope_section"`
	InTurns      *bool     `json:"mrope_interleaved"`
}

// hfConfig is what of a checkpoint's config.json decides on the computation.
type hfConfig struct {
	ModelType     string          `json:"model_type"`
	Text          json.RawMessage `json:"text_config"`
	Vision        json.RawMessage `json:"vision_config"`
	ScaleFactor   int             `json:"scale_factor"`
	Architectures []string        `json:"architectures"`

	Hidden       int             `json:"hidden_size"`
	Layers       int             `json:"num_hidden_layers"`
	Heads        int             `json:"num_attention_heads"`
	KVHeads      int             `json:"num_key_value_heads"`
	HeadDim      int             `json:"head_dim"`
	Intermediate int             `json:"intermediate_size"`
	Vocab        int             `json:"vocab_size"`
	Eps          *float64        `json:"rms_norm_eps"`
	Theta        float64         `json:"rope_theta"`
	Original     float64         `json:"original_max_position_embeddings"`
	LocalTheta   float64         `json:"rope_local_base_freq"`
	Scaling      *ropeConfig     `json:"rope_scaling"`
	Parameters   json.RawMessage `json:"rope_parameters"`
	Partial      *float64        `json:"partial_rotary_factor"`
	MaxPositions float64         `json:"max_position_embeddings"`
	Tied         *bool           `json:"tie_word_embeddings"`
	Act          string          `json:"hidden_act"`
	Activation   string          `json:"hidden_activation"`
	QueryScalar  float64         `json:"query_pre_attn_scalar"`
	Window       *int            `json:"sliding_window"`
	UseWindow    *bool           `json:"use_sliding_window"`
	WindowFrom   *int            `json:"max_window_layers"`
	Pattern      int             `json:"sliding_window_pattern"`
	LayerTypes   []string        `json:"layer_types"`
	FinalCap     *float64        `json:"final_logit_softcapping"`
	AttnCap      *float64        `json:"attn_logit_softcapping"`
	BOS          json.RawMessage `json:"bos_token_id"`
	EOS          json.RawMessage `json:"eos_token_id"`
	Embedding    bool            `json:"is_embedding"`

	// Of models that have layers with a state.
	Interval    int   `json:"full_attention_interval"`
	OutputGate  *bool `json:"attn_output_gate"`
	KeyHeads    int   `json:"linear_num_key_heads"`
	ValueHeads  int   `json:"linear_num_value_heads"`
	KeyDim      int   `json:"linear_key_head_dim"`
	ValueDim    int   `json:"linear_value_head_dim"`
	Convolution int   `json:"linear_conv_kernel_dim"`

	// Of Gemma-4.
	LayerInputs     int  `json:"hidden_size_per_layer_input"`
	LayerInputVocab int  `json:"vocab_size_per_layer_input"`
	Shared          int  `json:"num_kv_shared_layers"`
	GlobalDim       int  `json:"global_head_dim"`
	Double          bool `json:"use_double_wide_mlp"`
	// With it num_global_key_value_heads counts, and only with it. No such model is compiled.
	KIsV    bool `json:"attention_k_eq_v"`
	Experts bool `json:"enable_moe_block"`
}

// architecture is what the checkpoint is, checked.
type architecture struct {
	hfConfig
	family   string // qwen2, qwen3, qwen3_5, llama, gemma3, gemma4
	gemma    bool
	normOne  bool // norms multiply by 1 + weight
	gate     bool // the attention's output is multiplied by a gate
	tied     bool
	local    []bool // layers that see a window only
	linear   []bool // layers with a state; nil where the family has none
	ropes    [2]rotation
	context  int
	bos, eos []int
	tower    *tower // of models that see; nil for others
}

// rotation is a layer's rotary embedding: global layers use the first, Gemma's local ones the
// second.
type rotation struct {
	freq      []float32
	magnitude float64
	theta     float64
	kind      uint32
	most      int       // positions that it holds for; 0: any
	axis      []float32 // which of three positions each frequency takes; nil: there is one
}

func parseConfig(b []byte) (*architecture, error) {
	a := &architecture{}
	bad := func(format string, v ...any) error {
		return &Error{Path: "config.json", What: fmt.Sprintf(format, v...)}
	}
	if err := json.Unmarshal(b, &a.hfConfig); err != nil {
		return nil, bad("%v", err)
	}
	outer := a.ModelType
	if len(a.Text) > 0 && string(a.Text) != "null" {
		if err := json.Unmarshal(a.Text, &a.hfConfig); err != nil {
			return nil, bad("text_config: %v", err)
		}
		if a.ModelType == outer && (outer == "gemma3" || outer == "gemma4" || outer == "qwen3_5" || outer == "qwen3_vl") {
			a.ModelType += "_text"
		}
	}
	switch a.ModelType {
	case "qwen2", "qwen3", "llama":
		a.family = a.ModelType
	case "qwen3_vl_text":
		a.family = "qwen3"
		def(&a.HeadDim, 128)
		def(&a.Theta, 5_000_000)
	case "gemma3", "gemma3_text":
		a.family, a.gemma, a.normOne = "gemma3", true, true
	case "gemma4", "gemma4_text":
		a.family, a.gemma = "gemma4", true
		if err := a.fourth(); err != nil {
			return nil, bad("%v", err)
		}
	case "qwen3_5", "qwen3_5_text":
		a.family, a.normOne = "qwen3_5", true
		def(&a.OutputGate, new(true))
		a.gate = *a.OutputGate
		def(&a.HeadDim, 256)
		def(&a.Interval, 4)
		def(&a.KeyDim, 128)
		def(&a.ValueDim, 128)
		def(&a.Convolution, 4)
		def(&a.Theta, 10_000_000)
	default:
		return nil, bad("model_type %q cannot be compiled: qwen2, qwen3, qwen3_5, qwen3_vl, llama, smolvlm, gemma3, gemma4 and whisper can",
			a.ModelType)
	}
	if a.gemma { // what Hugging Face's Gemma3TextConfig assumes where the file is silent
		def(&a.HeadDim, 256)
		def(&a.Heads, 8)
		def(&a.KVHeads, 4)
		def(&a.Hidden, 2304)
		def(&a.Intermediate, 9216)
		def(&a.Layers, 26)
		def(&a.Vocab, 262208)
		def(&a.Theta, 1_000_000)
		def(&a.LocalTheta, 10_000)
		def(&a.QueryScalar, 256)
		def(&a.Pattern, 6)
		def(&a.Window, new(4096))
	}
	if a.family != "gemma4" { // whatever their config.json says
		a.LayerInputs, a.Shared, a.Double = 0, 0, false
	}
	def(&a.Theta, 10_000)
	def(&a.KVHeads, a.Heads)
	for name, v := range map[string]int{"hidden_size": a.Hidden, "num_hidden_layers": a.Layers, "num_attention_heads": a.Heads,
		"num_key_value_heads": a.KVHeads,
		"intermediate_size":   a.Intermediate, "vocab_size": a.Vocab} {
		if v < 1 || v > 1<<24 {
			return nil, bad("%s is %d", name, v)
		}
	}
	def(&a.HeadDim, a.Hidden/a.Heads)
	switch {
	case a.Layers > 1000 || a.Hidden > 1<<17 || a.Intermediate > 1<<20 || a.Heads > 1024:
		return nil, bad("%d layers of hidden %d, intermediate %d and %d heads are too many", a.Layers, a.Hidden, a.Intermediate, a.Heads)
	case a.Heads%a.KVHeads != 0:
		return nil, bad("%d heads cannot share %d kv heads", a.Heads, a.KVHeads)
	case a.HeadDim < 2 || a.HeadDim > 1<<12 || a.HeadDim%2 != 0:
		return nil, bad("head_dim is %d", a.HeadDim)
	case a.FinalCap != nil && a.family != "gemma4" || a.AttnCap != nil:
		return nil, bad("soft-capped logits cannot be compiled")
	case a.MaxPositions < 0 || a.MaxPositions > 1<<30:
		return nil, bad("max_position_embeddings is %v", a.MaxPositions)
	}
	act, want := a.Act, "silu"
	if a.gemma {
		act, want = a.Activation, "gelu_pytorch_tanh"
	}
	if def(&act, want); act != want {
		return nil, bad("activation %q cannot be compiled, %s has %q", act, a.family, want)
	}
	def(&a.Eps, new(1e-6))
	if !(*a.Eps >= 0 && *a.Eps < 1) {
		return nil, bad("rms_norm_eps is %v", *a.Eps)
	}
	def(&a.Tied, new(a.gemma))
	a.tied = *a.Tied
	a.context = int(a.MaxPositions)
	var err error
	if a.bos, err = ids(a.BOS); err == nil {
		a.eos, err = ids(a.EOS)
	}
	if err != nil {
		return nil, bad("bos_token_id or eos_token_id: %v", err)
	}
	sees := func() error { return a.sees(outer) }
	for _, settle := range []func() error{a.windows, a.sources, a.states, sees, a.rotations} {
		if err := settle(); err != nil {
			return nil, bad("%v", err)
		}
	}
	return a, nil
}

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// ids reads a token id, a list of them, or nothing.
func ids(b json.RawMessage) ([]int, error) {
	if len(b) == 0 || string(b) == "null" {
		return nil, nil
	}
	var one int
	if json.Unmarshal(b, &one) == nil {
		return []int{one}, nil
	}
	var many []int
	err := json.Unmarshal(b, &many)
	return many, err
}

// layersOf says of each layer whether it is of a kind: as layer_types has it, or else all but each
// n-th, n being the value of a keyword.
func (a *architecture) layersOf(kind, keyword string, n int) ([]bool, error) {
	of := make([]bool, a.Layers)
	if len(a.LayerTypes) == 0 {
		if n < 1 {
			return nil, fmt.Errorf("%s is %d", keyword, n)
		}
		for i := range of {
			of[i] = (i+1)%n != 0
		}
		return of, nil
	}
	if len(a.LayerTypes) != a.Layers {
		return nil, fmt.Errorf("layer_types has %d entries for %d layers", len(a.LayerTypes), a.Layers)
	}
	for i, t := range a.LayerTypes {
		if t != "full_attention" && t != kind {
			return nil, fmt.Errorf("layer %d is %q, which cannot be compiled", i, t)
		}
		of[i] = t == kind
	}
	return of, nil
}

// windows settles which layers see a window only.
func (a *architecture) windows() (err error) {
	a.local = make([]bool, a.Layers)
	def(&a.Window, new(0))
	def(&a.WindowFrom, new(0))
	switch {
	case a.family == "qwen3_5": // see states
	case len(a.LayerTypes) > 0 || a.gemma:
		if a.local, err = a.layersOf("sliding_attention", "sliding_window_pattern", a.Pattern); err != nil {
			return err
		}
	case a.UseWindow != nil && *a.UseWindow && *a.Window > 0:
		for i := range a.local {
			a.local[i] = i >= *a.WindowFrom
		}
	}
	if slices.Contains(a.local, true) && (*a.Window < 1 || *a.Window > 1<<30) {
		return fmt.Errorf("sliding_window is %d", *a.Window)
	}
	return nil
}

// window is the sliding layers' window, 0 where no layer has one.
func (a *architecture) window() int {
	if slices.Contains(a.local, true) {
		return *a.Window
	}
	return 0
}

func (a *architecture) layerTypes() []string {
	var out []string
	for i, l := range a.local {
		kind := map[bool]string{false: "full_attention", true: "sliding_attention"}[l]
		if a.linear != nil && a.linear[i] {
			kind = "linear_attention"
		}
		out = append(out, kind)
	}
	return out
}

func (a *architecture) rotations() (err error) {
	def(&a.Scaling, new(ropeConfig))
	global := *a.Scaling
	local := ropeConfig{Theta: a.LocalTheta}
	if len(a.Parameters) > 0 && string(a.Parameters) != "null" {
		var kinds struct {
			Full  *ropeConfig `json:"full_attention"`
			Local *ropeConfig `json:"sliding_attention"`
		}
		if err := json.Unmarshal(a.Parameters, &kinds); err != nil {
			return fmt.Errorf("rope_parameters: %w", err)
		}
		if kinds.Full != nil {
			global = *kinds.Full
			if kinds.Local != nil {
				local = *kinds.Local
			}
		} else if err := json.Unmarshal(a.Parameters, &global); err != nil {
			return fmt.Errorf("rope_parameters: %w", err)
		}
	}
	def(&global.Theta, a.Theta)
	dim := a.HeadDim
	if a.family == "gemma4" {
		dim = a.GlobalDim
		def(&global.Type, "proportional")
	}
	if a.ropes[0], err = a.rotation(global, dim); err != nil {
		return err
	}
	a.ropes[1] = a.ropes[0]
	if a.gemma {
		def(&local.Theta, 10_000)
		a.ropes[1], err = a.rotation(local, a.HeadDim)
	}
	return err
}

// rotation computes the inverse frequencies and the magnitude as Hugging Face's modeling_rope_utils
// does.
func (a *architecture) rotation(c ropeConfig, dim int) (rotation, error) {
	partial := cmp.Or(c.Partial, a.Partial)
	if a.family == "qwen3_5" {
		def(&partial, new(0.25))
		if !(*partial > 0 && *partial <= 1) {
			return rotation{}, fmt.Errorf("partial_rotary_factor is %v", *partial)
		}
		if dim = int(float64(dim) * *partial); dim < 2 || dim%2 != 0 {
			return rotation{}, fmt.Errorf("partial_rotary_factor %v of heads of %d turns %d values", *partial, a.HeadDim, dim)
		}
	} else if partial != nil && *partial != 1 && c.Type != "proportional" {
		return rotation{}, fmt.Errorf("partial_rotary_factor %v cannot be compiled", *partial)
	}
	if !(c.Theta >= 1 && c.Theta < 1e15) {
		return rotation{}, fmt.Errorf("rope_theta is %v", c.Theta)
	}
	kind := cmp.Or(c.Type, c.OldType, "default")
	if kind == "proportional" {
		def(&c.Factor, 1)
	}
	if kind != "default" && kind != "longrope" && !(c.Factor >= 1 && c.Factor < 1e6) {
		return rotation{}, fmt.Errorf("rope scaling %q has factor %v", kind, c.Factor)
	}
	base := make([]float64, dim/2)
	for i := range base {
		base[i] = math.Pow(c.Theta, -float64(2*i)/float64(dim))
	}
	r := rotation{magnitude: 1, theta: c.Theta}
	out := slices.Clone(base)
	switch kind {
	case "default":
		r.kind = axmodel.RopeDefault
	case "linear":
		r.kind = axmodel.RopeLinear
		for i := range out {
			out[i] /= c.Factor
		}
	case "proportional": // pairs as far apart as of a head that turns whole, the first of them turned
		r.kind = axmodel.RopeDefault
		turned, err := proportion(partial, dim)
		if err != nil {
			return r, err
		}
		for i := range out {
			if out[i] /= c.Factor; i >= turned {
				out[i] = 0
			}
		}
	case "llama3":
		r.kind = axmodel.RopeLlama3
		if !(c.Low > 0 && c.High > c.Low && c.Original > 0) {
			return r, fmt.Errorf("llama3 rope scaling has factors %v and %v over %v positions", c.Low, c.High, c.Original)
		}
		for i, f := range base {
			length := 2 * math.Pi / f
			switch {
			case length < c.Original/c.High:
			case length > c.Original/c.Low:
				out[i] = f / c.Factor
			default:
				smooth := (c.Original/length - c.Low) / (c.High - c.Low)
				out[i] = (1-smooth)*f/c.Factor + smooth*f
			}
		}
	case "yarn":
		r.kind = axmodel.RopeYarn
		original := cmp.Or(c.Original, a.MaxPositions)
		if !(original > 0) {
			return r, fmt.Errorf("yarn rope scaling has no original_max_position_embeddings")
		}
		def(&c.BetaFast, 32)
		def(&c.BetaSlow, 1)
		correction := func(rotations float64) float64 {
			return float64(dim) * math.Log(original/(rotations*2*math.Pi)) / (2 * math.Log(c.Theta))
		}
		low, high := correction(c.BetaFast), correction(c.BetaSlow)
		if c.Truncate == nil || *c.Truncate {
			low, high = math.Floor(low), math.Ceil(high)
		}
		low, high = max(low, 0), min(high, float64(dim-1))
		if low == high {
			high += 0.001
		}
		for i, f := range base {
			ramp := min(max((float64(i)-low)/(high-low), 0), 1)
			out[i] = f/c.Factor*ramp + f*(1-ramp)
		}
		mscale := func(m float64) float64 {
			if c.Factor <= 1 {
				return 1
			}
			return 0.1*m*math.Log(c.Factor) + 1
		}
		switch {
		case c.Attention != nil:
			r.magnitude = *c.Attention
		case c.MScale != 0 && c.MScaleAllDim != 0:
			r.magnitude = mscale(c.MScale) / mscale(c.MScaleAllDim)
		default:
			r.magnitude = mscale(1)
		}
	case "longrope":
		// The positions that the model was first made for turn by short_factor; texts that are
		// longer turn by long_factor from their first row on. Rows in the cache would have to turn
		// again, so a package is made of the first and reaches no further.
		r.kind = axmodel.RopeDefault
		original := a.Original // which Hugging Face takes before anything else
		if def(&original, c.Original); a.Original > 0 || c.Factor == 0 && original > 0 {
			c.Factor = a.MaxPositions / original
		}
		def(&original, a.MaxPositions)
		if !(original > 1) || len(c.Short) != dim/2 {
			return r, fmt.Errorf("longrope has %d short factors for %d pairs, and original_max_position_embeddings of %v", len(c.Short),
				dim/2, original)
		}
		for i, f := range c.Short {
			if !(f > 0) {
				return r, fmt.Errorf("longrope has the short factor %v", f)
			}
			out[i] /= f
		}
		r.most = int(min(original, 1<<30))
		if c.Attention != nil {
			r.magnitude = *c.Attention
		} else if c.Factor > 1 {
			r.magnitude = math.Sqrt(1 + math.Log(c.Factor)/math.Log(original))
		}
	default:
		return r, fmt.Errorf("rope scaling %q cannot be compiled: linear, llama3, longrope, yarn and proportional can", kind)
	}
	for _, f := range out {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return r, fmt.Errorf("rope scaling %q gives no numbers", kind)
		}
		r.freq = append(r.freq, float32(f))
	}
	if a.ModelType == "qwen3_vl_text" || a.family == "qwen3_5" && a.tower != nil {
		if len(c.Section) == 0 {
			c.Section = map[bool][]int{true: {11, 11, 10}, false: {24, 20, 20}}[a.family == "qwen3_5"]
		}
		var err error
		if r.axis, err = axes(len(out), c.Section, c.InTurns == nil || *c.InTurns); err != nil {
			return r, err
		}
	}
	if math.IsNaN(r.magnitude) || math.IsInf(r.magnitude, 0) {
		return r, fmt.Errorf("rope scaling %q has magnitude %v", kind, r.magnitude)
	}
	return r, nil
}

// tokenizerType is the vendor's name for the family's tokenizer.
func (a *architecture) tokenizerType(name string) string {
	n := strings.ToLower(name)
	switch {
	case a.tower == nil:
	case a.family == "qwen3_5":
		return "Qwen3_5VL"
	case a.tower.qwen:
		return "Qwen3VL"
	default:
		return "SmolVLM2"
	}
	switch {
	case strings.Contains(n, "smollm3"):
		return "SmolLM3"
	case strings.Contains(n, "smollm"):
		return "SmolLM2"
	case strings.Contains(n, "minicpm"):
		return "MiniCPM4"
	}
	return map[string]string{"qwen2": "Qwen2_5", "qwen3": "Qwen3", "qwen3_5": "Qwen3_5", "llama": "LLaMa3",
		"gemma3": "Gemma3", "gemma4": "Gemma4"}[a.family]
}
