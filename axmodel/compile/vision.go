package compile

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/axle-llm/axle/axmodel"
)

// visionConfig is Hugging Face's vision_config, of both families.
type visionConfig struct {
	Hidden       int      `json:"hidden_size"`
	Intermediate int      `json:"intermediate_size"`
	Patch        int      `json:"patch_size"`
	Activation   string   `json:"hidden_act"`
	Channels     *int     `json:"in_channels"`
	Eps          *float64 `json:"layer_norm_eps"`

	// Qwen3-VL's names.
	Depth     int   `json:"depth"`
	Heads     int   `json:"num_heads"`
	Merge     int   `json:"spatial_merge_size"`
	Frames    int   `json:"temporal_patch_size"`
	Positions int   `json:"num_position_embeddings"`
	Out       int   `json:"out_hidden_size"`
	Deep      []int `json:"deepstack_visual_indexes"`

	// SmolVLM2's.
	Layers  int `json:"num_hidden_layers"`
	HeadsOf int `json:"num_attention_heads"`
	Side    int `json:"image_size"`
}

// tower is a checkpoint's vision part, checked.
type tower struct {
	visionConfig
	qwen bool
}

// sees reads vision_config, for the families whose pictures can be compiled.
func (a *architecture) sees(outer string) error {
	if outer != "qwen3_vl" && outer != "smolvlm" && outer != "qwen3_5" {
		return nil
	}
	if len(a.Vision) == 0 || string(a.Vision) == "null" {
		if outer == "qwen3_5" { // many are the text model alone
			return nil
		}
		return fmt.Errorf("%s without a vision_config", outer)
	}
	t := &tower{qwen: outer != "smolvlm"}
	v := &t.visionConfig
	if t.qwen {
		// What Hugging Face's configuration classes assume where the file is silent.
		*v = visionConfig{Depth: 27, Hidden: 1152, Intermediate: 4304, Heads: 16, Patch: 16, Merge: 2, Frames: 2, Positions: 2304,
			Deep: []int{8, 16, 24}, Out: 3584}
		if outer == "qwen3_5" {
			v.Deep = nil
		}
	} else {
		*v = visionConfig{Layers: 12, Hidden: 1152, Intermediate: 3072, HeadsOf: 16, Patch: 32, Side: 224}
	}
	if err := json.Unmarshal(a.Vision, v); err != nil {
		return fmt.Errorf("vision_config: %w", err)
	}
	if !t.qwen {
		v.Depth, v.Heads, v.Merge, v.Frames, v.Out = v.Layers, v.HeadsOf, a.ScaleFactor, 1, a.Hidden
		def(&v.Merge, 2)
		v.Positions = v.Side / max(v.Patch, 1) * (v.Side / max(v.Patch, 1))
	}
	def(&v.Activation, "gelu_pytorch_tanh")
	def(&v.Eps, new(1e-6))
	if err := a.checkTower(t); err != nil {
		return err
	}
	a.tower = t
	return nil
}

// checkTower reports the first thing about a vision tower that cannot be compiled.
func (a *architecture) checkTower(t *tower) error {
	v := &t.visionConfig
	for _, n := range []struct {
		name string
		v    int
		most int
	}{{"depth", v.Depth, 256}, {"hidden_size", v.Hidden, 1 << 16}, {"intermediate_size", v.Intermediate, 1 << 18},
		{"heads", v.Heads, 1 << 10}, {"patch_size", v.Patch, 256}, {"patches that make a row", v.Merge, 8},
		{"num_position_embeddings", v.Positions, 1 << 16}} {
		if n.v < 1 || n.v > n.most {
			return fmt.Errorf("vision_config: %s is %d, 1 to %d are possible", n.name, n.v, n.most)
		}
	}
	switch {
	case v.Hidden%v.Heads != 0 || t.qwen && v.Hidden/v.Heads%4 != 0:
		return fmt.Errorf("vision_config: %d heads cannot share a width of %d", v.Heads, v.Hidden)
	case v.Channels != nil && *v.Channels != 3:
		return fmt.Errorf("vision_config: in_channels is %d, pictures have 3", *v.Channels)
	case t.qwen && v.Frames != 2:
		return fmt.Errorf("vision_config: temporal_patch_size is %d, 2 can be compiled", v.Frames)
	case v.Activation != "gelu_pytorch_tanh":
		return fmt.Errorf("vision_config: activation %q cannot be compiled, gelu_pytorch_tanh can", v.Activation)
	case v.Out != a.Hidden:
		return fmt.Errorf("vision_config: out_hidden_size is %d, the text model's rows have %d values", v.Out, a.Hidden)
	case square(v.Positions) == 0:
		return fmt.Errorf("vision_config: %d position embeddings make no square", v.Positions)
	case !(*v.Eps >= 0 && *v.Eps < 1):
		return fmt.Errorf("vision_config: layer_norm_eps is %v", *v.Eps)
	case len(v.Deep) > 0 && a.family == "qwen3_5":
		return fmt.Errorf("vision_config: deepstack_visual_indexes is %v, and a tower of %s that adds rows cannot be compiled", v.Deep,
			a.family)
	case len(v.Deep) > 8:
		return fmt.Errorf("vision_config: deepstack_visual_indexes has %d entries, 8 are possible", len(v.Deep))
	case len(v.Deep) > a.Layers:
		return fmt.Errorf("vision_config: rows to add after %d layers, the model has %d", len(v.Deep), a.Layers)
	}
	for i, at := range v.Deep {
		if at < 0 || at >= v.Depth || i > 0 && at <= v.Deep[i-1] {
			return fmt.Errorf("vision_config: deepstack_visual_indexes %v must ascend within %d blocks", v.Deep, v.Depth)
		}
	}
	return nil
}

// square is the whole root of n; 0 where it has none.
func square(n int) int {
	r := int(math.Round(math.Sqrt(float64(n))))
	if r*r != n {
		return 0
	}
	return r
}

// axes says which of three positions each frequency takes: Qwen's models lay time, height and width
// out in turns, as far as the sections of height and width go.
func axes(half int, section []int, inTurns bool) ([]float32, error) {
	sum := 0
	for _, n := range section {
		if n < 0 || n > half {
			return nil, fmt.Errorf("mrope_section is %v", section)
		}
		sum += n
	}
	if len(section) != 3 || sum != half {
		return nil, fmt.Errorf("mrope_section %v does not share out %d frequencies", section, half)
	}
	out := make([]float32, half)
	if !inTurns {
		one, two := slices.Repeat([]float32{1}, section[1]), slices.Repeat([]float32{2}, section[2])
		return slices.Concat(out[:section[0]], one, two), nil
	}
	for k := 1; k < 3; k++ {
		for i := k; i < min(3*section[k], half); i += 3 {
			out[i] = float32(k)
		}
	}
	return out, nil
}

// picture settles the size of the encoder's pictures.
func (j *job) picture() (width, height int, err error) {
	t := j.a.tower
	width, height = j.Width, j.Height
	if width == 0 && height == 0 {
		if width, height = 384, 384; !t.qwen {
			width, height = t.Side, t.Side
		}
	}
	unit := t.Patch * t.Merge
	if width < unit || height < unit || width%unit != 0 || height%unit != 0 || width > 1<<14 || height > 1<<14 ||
		width/t.Patch*(height/t.Patch) > 1<<16 {
		return 0, 0, fmt.Errorf("compile: pictures of %d×%d pixels: both sides must be multiples of %d", width, height, unit)
	}
	if !t.qwen && (width != t.Side || height != t.Side) {
		return 0, 0, fmt.Errorf("compile: pictures of %d×%d pixels: this model takes %d×%d", width, height, t.Side, t.Side)
	}
	return width, height, nil
}

// encoder plans the encoder of pictures. Its matrices are kept in bf16 whatever the layers' are: a
// picture is read once, and integers cost it more than they cost text.
func (j *job) encoder() (f file, err error) {
	t := j.a.tower
	width, height, err := j.picture()
	if err != nil {
		return f, err
	}
	h := axmodel.Header{Kind: axmodel.Encoder, Hidden: t.Hidden, Heads: t.Heads, HeadDim: t.Hidden / t.Heads,
		Intermediate: t.Intermediate, Out: j.a.Hidden, Activation: axmodel.GELU, Eps: float32(*t.Eps), Magnitude: 1, Pos: 1,
		Scale: float32(1 / math.Sqrt(float64(t.Hidden/t.Heads))), Patch: t.Patch, Merge: t.Merge, Blocks: t.Depth, Deep: len(t.Deep),
		Down: height / t.Patch, Across: width / t.Patch, Tool: j.Tool}
	e := &easel{job: j, f: &f, h: &h}
	if t.qwen {
		h.Flags, h.Rotary, h.Rope, h.Theta = axmodel.FlagMerger, h.HeadDim, axmodel.RopeDefault, 10_000
		e.qwen()
	} else {
		h.Order = axmodel.InRows
		e.smol()
	}
	f.header, f.groups = h, []axmodel.SoftGroup{h.EncoderGroup()}
	return f, e.err
}

// easel is an encoder in the making; the first error stays.
type easel struct {
	*job
	f   *file
	h   *axmodel.Header
	err error
}

// get is find for a tensor of any number of dimensions.
func (e *easel) get(name string, shape ...int) *weight {
	w, err := e.usable(name)
	if err == nil && !slices.Equal(w.shape, shape) {
		err = &Error{Path: w.file, What: fmt.Sprintf("tensor %q has shape %v, config.json asks for %v", name, w.shape, shape)}
	}
	if e.err == nil {
		e.err = err
	}
	if err != nil {
		return nil
	}
	return w
}

func (e *easel) add(t axmodel.Tensor) { e.f.tensors = append(e.f.tensors, t) }

// matrices stacks matrices of rows × cols.
func (e *easel) matrices(as string, rows, cols int, names ...string) {
	for _, n := range names {
		e.get(n, rows, cols)
	}
	var row func([]float32, int) error // of one of them at a time, which is what is kept in memory
	e.add(axmodel.Tensor{Name: as, Type: axmodel.BF16, Rows: len(names) * rows, Cols: cols, Row: func(dst []float32, r int) error {
		if name := names[r/rows]; r%rows == 0 {
			row = e.c.weights[name].reader(name)
		}
		return row(dst, r%rows)
	}})
}

// vectors stacks vectors, this many of them side by side in a row.
func (e *easel) vectors(as string, side, length int, names ...string) {
	for _, n := range names {
		e.get(n, length)
	}
	e.add(axmodel.Tensor{Name: as, Type: axmodel.F32, Rows: len(names) / side, Cols: side * length,
		Row: func(dst []float32, r int) error {
			for i, name := range names[r*side : (r+1)*side] {
				if err := e.c.weights[name].reader(name)(dst[i*length:(i+1)*length], 0); err != nil {
					return err
				}
			}
			return nil
		}})
}

// norm stacks the weights of layers that normalise rows of this length, and their biases.
func (e *easel) norm(as string, length int, names ...string) {
	e.vectors(as, 1, length, suffixed(names, ".weight")...)
	e.vectors(as+"_bias", 1, length, suffixed(names, ".bias")...)
}

// linear stacks matrices of rows × cols and their biases.
func (e *easel) linear(as string, rows, cols int, names ...string) {
	e.matrices(as, rows, cols, suffixed(names, ".weight")...)
	e.vectors(as+"_bias", 1, rows, suffixed(names, ".bias")...)
}

func suffixed(names []string, end string) (out []string) {
	for _, n := range names {
		out = append(out, n+end)
	}
	return out
}

// each is a name for every block.
func (e *easel) each(format string) (names []string) {
	for b := range e.h.Blocks {
		names = append(names, fmt.Sprintf(format, b))
	}
	return names
}

// patch is the convolution that patches go through: channel first in the checkpoint, channel last
// here, as bytes come in.
func (e *easel) patch(name string, frames int) {
	p, t := e.h.Patch, e.a.tower
	shape := []int{t.Hidden, 3, p, p}
	if t.qwen {
		shape = []int{t.Hidden, 3, frames, p, p}
	}
	w := e.get(name+".weight", shape...)
	if w == nil {
		return
	}
	row, line := w.reader(name+".weight"), make([]float32, p)
	e.add(axmodel.Tensor{Name: "patch", Type: axmodel.BF16, Rows: t.Hidden, Cols: frames * p * p * 3,
		Row: func(dst []float32, r int) error {
			for i := range 3 * frames * p {
				if err := row(line, r*3*frames*p+i); err != nil {
					return err
				}
				channel, fy := i/(frames*p), i%(frames*p)
				for x, v := range line {
					dst[(fy*p+x)*3+channel] = v
				}
			}
			return nil
		}})
	e.vectors("patch_bias", 1, t.Hidden, name+".bias")
}

// positions are the rows of a square table, read between its rows where the picture's grid is
// another: in line, corners on corners.
func (e *easel) positions(name string) {
	t, d := e.a.tower, e.a.tower.Hidden
	w := e.get(name, t.Positions, d)
	if w == nil {
		return
	}
	down, across, side := e.h.Down, e.h.Across, square(t.Positions)
	var table []float32
	at := func(i, n int) (low, high int, part float32) {
		if n < 2 {
			return 0, 0, 0
		}
		v := float64(i) * float64(side-1) / float64(n-1)
		low = min(int(v), side-1)
		return low, min(low+1, side-1), float32(v - float64(low))
	}
	e.add(axmodel.Tensor{Name: "pos", Type: axmodel.F32, Rows: down * across, Cols: d, Row: func(dst []float32, r int) error {
		if table == nil {
			table = make([]float32, t.Positions*d)
			row := w.reader(name)
			for i := range t.Positions {
				if err := row(table[i*d:(i+1)*d], i); err != nil {
					return err
				}
			}
		}
		m := t.Merge
		block, in := r/(m*m), r%(m*m)
		y0, y1, fy := at(block/(across/m)*m+in/m, down)
		x0, x1, fx := at(block%(across/m)*m+in%m, across)
		for i := range dst {
			v := func(y, x int) float32 { return table[(y*side+x)*d+i] }
			dst[i] = (1-fy)*((1-fx)*v(y0, x0)+fx*v(y0, x1)) + fy*((1-fx)*v(y1, x0)+fx*v(y1, x1))
		}
		return nil
	}})
}

// qwen plans Qwen3-VL's tower, and Qwen3.5's, which is the same without rows to add.
func (e *easel) qwen() {
	t, d, in, m := e.a.tower, e.h.Hidden, e.h.Intermediate, e.h.Merged()
	p := "model.visual."
	if e.c.weights[p+"patch_embed.proj.weight"] == nil && e.c.weights["visual.patch_embed.proj.weight"] != nil {
		p = "visual."
	}
	e.patch(p+"patch_embed.proj", 2)
	e.positions(p + "pos_embed.weight")
	b := p + "blocks.%d."
	e.norm("norm1", d, e.each(b+"norm1")...)
	e.norm("norm2", d, e.each(b+"norm2")...)
	e.linear("qkv", 3*d, d, e.each(b+"attn.qkv")...)
	e.linear("o", d, d, e.each(b+"attn.proj")...)
	e.linear("fc1", in, d, e.each(b+"mlp.linear_fc1")...)
	e.linear("fc2", d, in, e.each(b+"mlp.linear_fc2")...)
	mergers := func(as string, norm int, prefixes ...string) {
		e.norm(as+"_norm", norm, suffixed(prefixes, "norm")...)
		e.linear(as+"_fc1", m, m, suffixed(prefixes, "linear_fc1")...)
		e.linear(as+"_fc2", e.h.Out, m, suffixed(prefixes, "linear_fc2")...)
	}
	mergers("merge", d, p+"merger.")
	// The first half of the frequencies turns by a patch's row, the second by its column.
	half := e.h.HeadDim / 2
	freq, axis := make([]float32, half), make([]float32, half)
	for i := range half {
		freq[i] = float32(math.Pow(e.h.Theta, -float64(2*(i%(half/2)))/float64(half)))
		axis[i] = float32(1 + i/(half/2))
	}
	e.add(axmodel.Vector("inv_freq", axmodel.F32, freq))
	e.add(axmodel.Vector("rope_axis", axmodel.F32, axis))
	if len(t.Deep) == 0 {
		return
	}
	var after []float32
	var prefixes []string
	for i, at := range t.Deep {
		after, prefixes = append(after, float32(at)), append(prefixes, fmt.Sprintf("%sdeepstack_merger_list.%d.", p, i))
	}
	e.add(axmodel.Vector("deep_at", axmodel.F32, after))
	mergers("deep", m, prefixes...)
}

// smol plans SmolVLM2's: a SigLIP tower and one matrix.
func (e *easel) smol() {
	d, in := e.h.Hidden, e.h.Intermediate
	const p = "model.vision_model."
	e.patch(p+"embeddings.patch_embedding", 1)
	e.positions(p + "embeddings.position_embedding.weight")
	b := p + "encoder.layers.%d."
	var parts []string
	for i := range e.h.Blocks {
		for _, l := range []string{"q_proj", "k_proj", "v_proj"} {
			parts = append(parts, fmt.Sprintf(b+"self_attn."+l, i))
		}
	}
	e.norm("norm1", d, e.each(b+"layer_norm1")...)
	e.norm("norm2", d, e.each(b+"layer_norm2")...)
	e.matrices("qkv", d, d, suffixed(parts, ".weight")...)
	e.vectors("qkv_bias", 3, d, suffixed(parts, ".bias")...)
	e.linear("o", d, d, e.each(b+"self_attn.out_proj")...)
	e.linear("fc1", in, d, e.each(b+"mlp.fc1")...)
	e.linear("fc2", d, in, e.each(b+"mlp.fc2")...)
	e.norm("merge_norm", d, p+"post_layernorm")
	e.matrices("merge_fc2", e.h.Out, e.h.Merged(), "model.connector.modality_projection.proj.weight")
}

// settleSight leaves the encoder of pictures out where it is not wanted, or not there.
func (j *job) settleSight() {
	a := j.a
	left := a.family == "qwen3_5" && j.c.holds("model.visual.")
	switch {
	case a.tower == nil && left:
		j.notes = append(j.notes, "the checkpoint's vision part is left out: config.json has no vision_config")
	case a.tower != nil && a.family == "qwen3_5" && !left && !j.c.holds("visual."):
		j.notes = append(j.notes, "the checkpoint has no vision part, which config.json describes: the package takes text")
		a.tower = nil
	case j.TextOnly:
		a.tower = nil
	}
	if a.tower == nil && a.family == "qwen3_5" { // a text's positions are alike
		a.ropes[0].axis, a.ropes[1].axis = nil, nil
	}
}

// describeVision adds what config.json says of pictures.
func (j *job) describeVision(config map[string]any) {
	t := j.a.tower
	if t == nil {
		return
	}
	width, height, _ := j.picture()
	config["filename_image_encoder_axmodel"] = j.encoderName()
	config["vlm_type"] = "SmolVLM2"
	if t.qwen {
		config["vlm_type"] = "Qwen3VL"
	}
	config["vision_width"], config["vision_height"], config["vision_patch_size"] = width, height, t.Patch
	config["vision_spatial_merge_size"], config["vision_temporal_patch_size"] = t.Merge, t.Frames
}

// encoderName is what the vendor calls the encoder's file.
func (j *job) encoderName() string { return j.Name + "_vision.axmodel" }
