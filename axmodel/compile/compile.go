// Package compile turns a Hugging Face checkpoint into a package of models for the software cards:
// a language model in the vendor's layout A, Whisper in the layout B of its packages.
//
// [Run] may be called from any goroutine, for different outputs at once. Nothing is kept between
// calls. A package appears under its name only when it is whole: it is written into a folder beside
// it and renamed.
package compile

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/axle-llm/axle/axmodel"
)

// Error is a checkpoint that cannot be compiled: what is wrong with which file.
type Error struct {
	Path string
	What string
	Err  error // the cause, where there is one
}

func (e *Error) Error() string { return "compile: " + e.Path + ": " + e.What }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Options say what to compile, and how. Zero values stand for the defaults named. Whisper has From,
// Out, Quant, which may be "fp32" for it, Name ("whisper"), Tool and Progress alone.
type Options struct {
	From string // a folder with config.json and *.safetensors
	Out  string // the package's folder; it must not exist, or be empty

	Context   int    // the decode group's cache rows; 0 means 2047
	Chunk     int    // rows of the prefill groups; 0 means 128, 1 means no prefill group
	History   []int  // cells of the prefill groups; nil means those of 0, 256, 512, 1024, 1536, 2048 that are below Context
	Quant     string // "bf16" (the default), "int8" or "int4", for matrices; norms and biases stay float32, and int4's head has eight bits
	Group     int    // how many values of a row share a scale in int8 and int4: 32 (0 means it) or 128
	Name      string // prefix of the files; empty means the checkpoint's model_type
	Embedding bool   // the package gives vectors: a head that only normalises. Set too where the checkpoint says so.
	Float32   bool   // the head gives float32 logits
	NoArgmax  bool   // the head does not give the largest logit's index
	Plain     bool   // tensor names do not carry the group
	State     string // type of the states of layers that have them: "fp32" (the default), "fp16" or "bf16"
	Width     int    // pixels of the encoder's pictures, of models that see; 0, both, means 384 × 384, or what the checkpoint was made for
	Height    int
	TextOnly  bool // leaves the encoder of pictures out
	HeadTable bool // also writes the matrix of a head that is not the embedding table, for the host
	Warm      int  // prefill groups of layers with a state; 0 means as many as other layers have
	// Whole makes a whole decoder instead of one file a layer: "one" file with a group for tokens
	// and one for prompts, or "two" files. The file for prompts then gives the logits of a call's
	// last row alone. Both look back on all cells: History is not looked at. Layers with a state or
	// a window, and embedding models, cannot be in one.
	Whole string
	Tool  string // recorded in the files; empty means "axle compile"

	Progress func(Progress) // called now and then, from the goroutine that called Run
}

// Progress is how far a compilation is.
type Progress struct {
	File        string
	Done, Total int64 // bytes of the package
}

// Result is what was made.
type Result struct {
	Dir    string
	Layers int
	Hears  bool // it writes speech down
	Bytes  int64
	Notes  []string // what the user should know
}

// DefaultHistory is the ladder of prefill groups, as far as the context reaches.
var DefaultHistory = []int{0, 256, 512, 1024, 1536, 2048}

// Run compiles. Errors: *Error names the file or tensor that is missing or wrong; a full disk is
// found before anything is written; ctx's error. After an error Out is as it was before.
func Run(ctx context.Context, o Options) (*Result, error) {
	root, err := os.OpenRoot(o.From)
	if err != nil {
		return nil, &Error{Path: o.From, What: "cannot be opened: " + reason(err), Err: err}
	}
	defer root.Close()
	b, err := read(root, "config.json", maxText)
	if err != nil {
		return nil, err
	}
	if isWhisper(b) {
		return runWhisper(ctx, o, root, b)
	}
	a, err := parseConfig(b)
	if err != nil {
		return nil, within(err, o.From)
	}
	c, err := openCheckpoint(root)
	if err != nil {
		return nil, err
	}
	defer c.close()
	j := &job{Options: o, a: a, c: c, root: root}
	if err := j.settle(); err != nil {
		return nil, err
	}
	if err := j.plan(); err != nil {
		return nil, err
	}
	if err := j.write(ctx, j.fill); err != nil {
		return nil, err
	}
	return &Result{Dir: j.Out, Layers: j.a.Layers, Bytes: j.done, Notes: j.notes}, nil
}

// job is one compilation.
type job struct {
	Options
	a      *architecture
	c      *checkpoint
	root   *os.Root
	groups []axmodel.SoftGroup
	dtype  axmodel.DType
	state  axmodel.State
	prefix string // of the text model's tensors, e.g. "model."
	files  []file
	total  int64
	done   int64
	notes  []string
	vocab  int
}

// file is one .axmodel to write.
type file struct {
	name    string
	header  axmodel.Header
	groups  []axmodel.SoftGroup
	tensors []axmodel.Tensor
	parts   []axmodel.SoftPart // of a whole decoder, in place of tensors
}

func (f *file) size() int64 {
	if f.parts != nil {
		return axmodel.DecoderSize(f.groups, f.parts)
	}
	return axmodel.Size(f.groups, f.tensors)
}

func (f *file) write(w io.Writer) error {
	if f.parts != nil {
		return axmodel.WriteDecoder(w, f.header, f.groups, f.parts)
	}
	return axmodel.Write(w, f.header, f.groups, f.tensors)
}

// settle fills in defaults and checks the options.
func (j *job) settle() error {
	a := j.a
	if a.context > 0 && j.Context > a.context {
		j.notes = append(j.notes, fmt.Sprintf("the context of %d is longer than the %d positions the model was made for", j.Context,
			a.context))
	}
	def(&j.Context, 2047)
	if most := a.ropes[0].most; most > 0 && j.Context > most {
		return &Error{Path: j.From, What: fmt.Sprintf("longrope turns texts of more than %d positions by other frequencies from their "+
			"first row on, and a package has one set of them: compile it with a context of at most %[1]d", most)}
	}
	def(&j.Chunk, 128)
	def(&j.Quant, "bf16")
	def(&j.Tool, "axle compile")
	j.settleSight()
	if j.Name == "" {
		j.Name = a.ModelType
		if a.tower != nil && !a.tower.qwen {
			j.Name = "smolvlm2"
		}
	}
	if err := j.settleSizes(); err != nil {
		return err
	}
	types := map[string]axmodel.DType{"bf16": axmodel.BF16Fours, "int8": axmodel.Int8Groups, "int4": axmodel.Int4Groups}
	var ok bool
	if j.dtype, ok = types[j.Quant]; !ok {
		return fmt.Errorf("compile: quant is %q, bf16, int8 and int4 are possible", j.Quant)
	}
	if err := j.settleStates(); err != nil {
		return err
	}
	if j.Group != 0 && j.Group != 32 && j.Group != 128 {
		return fmt.Errorf("compile: groups of %d values: 32 and 128 are possible", j.Group)
	}
	if err := j.named(); err != nil {
		return err
	}
	_, err := j.root.Stat("modules.json")
	j.Embedding = j.Embedding || a.hfConfig.Embedding || err == nil
	j.groups = axmodel.Ladder(j.Context, j.Chunk, j.History)
	return j.settleWhole()
}

// named checks what the files' names begin with.
func (j *job) named() error {
	if strings.ContainsAny(j.Name, "/\\%\x00") || strings.HasPrefix(j.Name, ".") || len(j.Name) > 100 {
		return fmt.Errorf("compile: %q cannot be part of a file's name", j.Name)
	}
	return nil
}

// settleSizes checks the context and the chunk, and chooses the histories of the prefill groups
// where none are given.
func (j *job) settleSizes() error {
	if j.Context < 1 || j.Context > 1<<20 {
		return fmt.Errorf("compile: context is %d, 1 to %d are possible", j.Context, 1<<20)
	}
	if j.Chunk < 1 || j.Chunk > 4096 {
		return fmt.Errorf("compile: chunk is %d, 1 to 4096 are possible", j.Chunk)
	}
	if j.History == nil {
		for _, h := range DefaultHistory {
			if h < j.Context {
				j.History = append(j.History, h)
			}
		}
	}
	if len(j.History) > 60 || j.Chunk > 1 && len(j.History) == 0 {
		return fmt.Errorf("compile: a history of %d groups, 1 to 60 are possible", len(j.History))
	}
	for i, h := range j.History {
		if h < 0 || i > 0 && h <= j.History[i-1] || h > j.Context {
			return fmt.Errorf("compile: history %v must ascend from 0 or more to at most the context, %d", j.History, j.Context)
		}
	}
	return nil
}

// usable gives a tensor of a type that can be compiled.
func (j *job) usable(name string) (*weight, error) {
	w := j.c.weights[name]
	if w == nil {
		return nil, &Error{Path: j.From, What: fmt.Sprintf("the checkpoint has no tensor %q", name)}
	}
	if w.dtype != "F32" && w.dtype != "F16" && w.dtype != "BF16" {
		return nil, &Error{Path: w.file, What: fmt.Sprintf("tensor %q is %s: F32, F16 and BF16 can be compiled", name, w.dtype)}
	}
	return w, nil
}

// find gives a tensor of the text model. Its shape must be rows × cols, a vector's cols alone.
func (j *job) find(name string, rows, cols int) (*weight, error) {
	w, err := j.usable(name)
	if err != nil {
		return nil, err
	}
	// Three dimensions are a convolution of each channel alone.
	flat := len(w.shape) == 1 || len(w.shape) == 2 || len(w.shape) == 3 && w.shape[1] == 1
	if !flat || w.rows() != rows || w.cols() != cols {
		return nil, &Error{Path: w.file, What: fmt.Sprintf("tensor %q has shape %v, config.json asks for %d × %d", name, w.shape, rows,
			cols)}
	}
	return w, nil
}

// when is the flag where it is on.
func when(on bool, flag uint32) uint32 {
	if on {
		return flag
	}
	return 0
}

// plan lists every file with every tensor, so that what is missing or too large is found before
// anything is written.
func (j *job) plan() error {
	a := j.a
	for _, p := range []string{"model.", "model.language_model.", "language_model.model.", "model.text_model.", ""} {
		if j.c.weights[p+"embed_tokens.weight"] != nil {
			j.prefix = p
			break
		}
	}
	embed := j.c.weights[j.prefix+"embed_tokens.weight"]
	if embed == nil {
		return &Error{Path: j.From, What: `the checkpoint has no tensor "model.embed_tokens.weight"`}
	}
	j.vocab = embed.rows() // some checkpoints pad the table past vocab_size
	if _, err := j.find(j.prefix+"embed_tokens.weight", max(j.vocab, 1), a.Hidden); err != nil {
		return err
	}
	if j.vocab < a.Vocab {
		return &Error{Path: embed.file, What: fmt.Sprintf("tensor %q has %d rows, config.json says %d tokens",
			j.prefix+"embed_tokens.weight", j.vocab, a.Vocab)}
	}
	flags := when(!j.Plain, axmodel.FlagSuffix) | when(a.normOne, axmodel.FlagNormOne)
	layers, head := axmodel.Files("", j.Name, j.Chunk, a.Layers)
	for i, name := range layers {
		f, groups := file{}, j.groups
		var err error
		if a.linear != nil && a.linear[i] {
			f, err = j.linear(i, flags)
			groups = j.linearGroups()
		} else {
			f, err = j.layer(i, flags)
		}
		if err != nil {
			return err
		}
		if f.header.Flags&axmodel.FlagShares != 0 {
			groups = sharing(groups)
		}
		f.name, f.groups = name, groups
		j.files = append(j.files, f)
	}
	if a.tower != nil {
		f, err := j.encoder()
		if err != nil {
			return err
		}
		f.name = j.encoderName()
		j.files = append(j.files, f)
	}
	f, err := j.head(flags &^ axmodel.FlagSuffix)
	if err != nil {
		return err
	}
	f.name, f.groups = head, []axmodel.SoftGroup{{Rows: 1}}
	j.files = append(j.files, f)
	if j.Whole != "" {
		j.files = j.wholeFiles()
	}
	for _, f := range j.files {
		j.total += f.size()
	}
	j.total += int64(j.vocab) * int64(a.Hidden) * j.embedWidth()
	if j.headTable() != "" {
		j.total += int64(j.vocab) * int64(a.Hidden) * 2
	}
	if a.LayerInputs > 0 {
		return j.layerInputs()
	}
	return nil
}

// tensor plans one tensor of a model.
func (j *job) tensor(to *[]axmodel.Tensor, as, name string, t axmodel.DType, rows, cols int) error {
	w, err := j.find(name, rows, cols)
	if err != nil {
		return err
	}
	*to = append(*to, axmodel.Tensor{Name: as, Type: t, Rows: rows, Cols: cols, Group: j.Group, Row: w.reader(name)})
	return nil
}

func (j *job) layer(i int, flags uint32) (f file, err error) {
	a := j.a
	p := fmt.Sprintf("%slayers.%d.", j.prefix, i)
	heads, dim, shares := a.heads(i)
	q, kv, inner := a.Heads*dim, heads*dim, a.inner(i)
	has := func(name string) bool { return j.c.weights[p+name] != nil }
	for _, name := range []string{"self_attn.o_proj.bias", "mlp.gate_proj.bias", "mlp.up_proj.bias", "mlp.down_proj.bias"} {
		if has(name) {
			return f, &Error{Path: j.From, What: fmt.Sprintf("tensor %q: a layer with this bias cannot be compiled", p+name)}
		}
	}
	normed := a.gemma || a.family == "qwen3" || a.family == "qwen3_5" || has("self_attn.q_norm.weight")
	flags |= when(a.family == "qwen2" || has("self_attn.q_proj.bias"), axmodel.FlagQKVBias) | when(normed, axmodel.FlagQKNorm) |
		when(a.gemma, axmodel.FlagGemma) | when(a.family == "gemma4", axmodel.FlagGemma4) | when(shares, axmodel.FlagShares) |
		when(a.gate, axmodel.FlagGate)
	queries := q
	if a.gate {
		queries *= 2
	}
	rope := a.ropes[0]
	if a.local[i] {
		rope = a.ropes[1]
	}
	scale := 1 / math.Sqrt(float64(dim))
	if a.gemma {
		scale = 1 / math.Sqrt(a.QueryScalar)
	}
	f.header = axmodel.Header{Kind: axmodel.Layer, Flags: flags, Hidden: a.Hidden, Heads: a.Heads, KVHeads: heads, HeadDim: dim,
		Intermediate: inner, Out: a.LayerInputs,
		Eps: float32(*a.Eps), Scale: float32(scale), Rotary: 2 * len(rope.freq), Magnitude: float32(rope.magnitude),
		Rope: rope.kind, Pos: 1, Theta: rope.theta, Index: i, Tool: j.Tool}
	if rope.axis != nil {
		f.header.Pos = 3
		if j.Chunk > 1 { // as the vendor's: a decode group is given text, whose three positions are alike
			f.header.Flags |= axmodel.FlagOnePos
		}
	}
	if a.gemma {
		f.header.Activation = axmodel.GELU
	}
	parts := []part{{"input_norm", "input_layernorm.weight", axmodel.F32, 1, a.Hidden},
		{"q", "self_attn.q_proj.weight", j.dtype, queries, a.Hidden}}
	if !shares {
		parts = append(parts, part{"k", "self_attn.k_proj.weight", j.dtype, kv, a.Hidden},
			part{"v", "self_attn.v_proj.weight", j.dtype, kv, a.Hidden})
	}
	parts = append(parts, []part{{"o", "self_attn.o_proj.weight", j.dtype, a.Hidden, q},
		{"post_norm", "post_attention_layernorm.weight", axmodel.F32, 1, a.Hidden},
		{"gate", "mlp.gate_proj.weight", j.dtype, inner, a.Hidden}, {"up", "mlp.up_proj.weight", j.dtype, inner, a.Hidden},
		{"down", "mlp.down_proj.weight", j.dtype, a.Hidden, inner}}...)
	if flags&axmodel.FlagQKVBias != 0 {
		parts = append(parts, part{"q_bias", "self_attn.q_proj.bias", axmodel.F32, 1, q},
			part{"k_bias", "self_attn.k_proj.bias", axmodel.F32, 1, kv}, part{"v_bias", "self_attn.v_proj.bias", axmodel.F32, 1, kv})
	}
	if flags&axmodel.FlagQKNorm != 0 {
		if parts = append(parts, part{"q_norm", "self_attn.q_norm.weight", axmodel.F32, 1, dim}); !shares {
			parts = append(parts, part{"k_norm", "self_attn.k_norm.weight", axmodel.F32, 1, dim})
		}
	}
	if a.gemma {
		parts = append(parts, part{"pre_mlp_norm", "pre_feedforward_layernorm.weight", axmodel.F32, 1, a.Hidden},
			part{"post_mlp_norm", "post_feedforward_layernorm.weight", axmodel.F32, 1, a.Hidden})
	}
	if a.LayerInputs > 0 {
		parts = append(parts, j.layerInputParts()...)
		if err := j.scalar(&f, p+"layer_scalar"); err != nil {
			return f, err
		}
	}
	if err := j.parts(&f.tensors, p, parts); err != nil {
		return f, err
	}
	f.tensors = append(f.tensors, axmodel.Vector("inv_freq", axmodel.F32, rope.freq))
	if rope.axis != nil {
		f.tensors = append(f.tensors, axmodel.Vector("rope_axis", axmodel.F32, rope.axis))
	}
	return f, nil
}

// part is a tensor of a layer: its name in the file and in the checkpoint, after the layer's.
type part struct {
	as, name   string
	t          axmodel.DType
	rows, cols int
}

func (j *job) parts(to *[]axmodel.Tensor, prefix string, parts []part) error {
	for _, t := range parts {
		if err := j.tensor(to, t.as, prefix+t.name, t.t, t.rows, t.cols); err != nil {
			return err
		}
	}
	return nil
}

func (j *job) head(flags uint32) (f file, err error) {
	a := j.a
	f.header = axmodel.Header{Kind: axmodel.EmbeddingHead, Flags: flags, Hidden: a.Hidden, Eps: float32(*a.Eps), Pos: 1, Tool: j.Tool}
	if err := j.tensor(&f.tensors, "norm", j.prefix+"norm.weight", axmodel.F32, 1, a.Hidden); err != nil || j.Embedding {
		return f, err
	}
	f.header.Kind, f.header.Out = axmodel.Head, j.vocab
	if a.FinalCap != nil {
		f.header.Scale = float32(*a.FinalCap)
	}
	f.header.Flags |= when(j.Float32, axmodel.FlagF32) | when(!j.NoArgmax, axmodel.FlagArgmax)
	name := j.headName()
	t := j.dtype
	if t == axmodel.Int4Groups {
		t = axmodel.Int8Groups // what chooses the token errs least
	}
	return f, j.tensor(&f.tensors, "weight", name, t, j.vocab, a.Hidden)
}

// headName is the head's tensor.
func (j *job) headName() string {
	name := "lm_head.weight"
	if j.c.weights[name] == nil && j.c.weights["language_model.lm_head.weight"] != nil {
		name = "language_model.lm_head.weight"
	}
	if j.a.tied && j.c.weights[name] == nil || j.a.gemma && j.a.tied {
		name = j.prefix + "embed_tokens.weight"
	}
	return name
}

// headTable is the tensor of the head's table; empty: none is to be written.
func (j *job) headTable() string {
	if name := j.headName(); j.HeadTable && !j.Embedding && j.Whole == "" && name != j.prefix+"embed_tokens.weight" {
		return name
	}
	return ""
}
