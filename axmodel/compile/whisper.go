package compile

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/graph"
)

// This file compiles Whisper: an encoder, which hears thirty seconds, and a decoder of one token,
// which gives its row of the cache out.

// whisperConfig is what config.json says.
type whisperConfig struct {
	Width         int    `json:"d_model"`
	Mels          int    `json:"num_mel_bins"`
	Vocab         int    `json:"vocab_size"`
	EncoderLayers int    `json:"encoder_layers"`
	DecoderLayers int    `json:"decoder_layers"`
	EncoderHeads  int    `json:"encoder_attention_heads"`
	DecoderHeads  int    `json:"decoder_attention_heads"`
	EncoderInner  int    `json:"encoder_ffn_dim"`
	DecoderInner  int    `json:"decoder_ffn_dim"`
	Heard         int    `json:"max_source_positions"`
	Places        int    `json:"max_target_positions"`
	Activation    string `json:"activation_function"`
	Scaled        bool   `json:"scale_embedding"`
	Start         int    `json:"decoder_start_token_id"`
	End           int    `json:"eos_token_id"`
}

// What the recogniser's part on the host takes for granted.
const (
	whisperHeard  = 1500 // rows that are heard, of two frames of mel each
	whisperPlaces = 448
	whisperStamps = 1501 // tokens of times
	whisperEps    = 1e-5
	whisperHidden = -1e9 // is added to the scores of what a row does not see
)

// isWhisper says whether config.json is a Whisper's.
func isWhisper(config []byte) bool {
	var c struct {
		Type string `json:"model_type"`
	}
	return json.Unmarshal(config, &c) == nil && c.Type == "whisper"
}

func parseWhisper(b []byte) (c whisperConfig, err error) {
	if err := json.Unmarshal(b, &c); err != nil {
		return c, &Error{Path: "config.json", What: err.Error()}
	}
	bad := func(format string, a ...any) (whisperConfig, error) {
		return c, &Error{Path: "config.json", What: fmt.Sprintf(format, a...)}
	}
	for _, n := range []struct {
		name       string
		v, min, to int
	}{{"d_model", c.Width, 1, 4096}, {"num_mel_bins", c.Mels, 1, 512}, {"vocab_size", c.Vocab, whisperStamps + 10, 1 << 17},
		{"encoder_layers", c.EncoderLayers, 1, 64}, {"decoder_layers", c.DecoderLayers, 1, 64},
		{"encoder_attention_heads", c.EncoderHeads, 1, 256}, {"decoder_attention_heads", c.DecoderHeads, 1, 256},
		{"encoder_ffn_dim", c.EncoderInner, 1, 1 << 16}, {"decoder_ffn_dim", c.DecoderInner, 1, 1 << 16},
		{"max_source_positions", c.Heard, whisperHeard, whisperHeard}, {"max_target_positions", c.Places, whisperPlaces, whisperPlaces},
		{"decoder_start_token_id", c.Start, 1, c.Vocab - 1}, {"eos_token_id", c.End, 1, c.Vocab - 1}} {
		if n.v < n.min || n.v > n.to {
			return bad("%s is %d, %d to %d are possible", n.name, n.v, n.min, n.to)
		}
	}
	switch {
	case c.Width%c.EncoderHeads != 0 || c.Width%c.DecoderHeads != 0:
		return bad("%d and %d heads cannot share a width of %d", c.EncoderHeads, c.DecoderHeads, c.Width)
	case c.Mels != 80 && c.Mels != 128:
		return bad("num_mel_bins is %d, 80 and 128 can be compiled", c.Mels)
	case c.Activation != "gelu":
		return bad("activation_function %q cannot be compiled, gelu can", c.Activation)
	case c.Scaled:
		return bad("scale_embedding cannot be compiled")
	}
	return c, nil
}

// whisperJob is one compilation.
type whisperJob struct {
	job
	whisperConfig
	dtype axcl.Type // of matrices

	known map[string]*graph.Weight
	err   error // the first tensor that is missing or wrong
}

// runWhisper compiles a Whisper.
func runWhisper(ctx context.Context, o Options, root *os.Root, config []byte) (*Result, error) {
	c, err := parseWhisper(config)
	if err != nil {
		return nil, within(err, o.From)
	}
	j := &whisperJob{job: job{Options: o, root: root}, whisperConfig: c, dtype: axcl.BF16, known: map[string]*graph.Weight{}}
	def(&j.Tool, "axle compile")
	def(&j.Name, "whisper")
	if err := j.named(); err != nil {
		return nil, err
	}
	switch j.Quant {
	case "", "bf16":
	case "fp32":
		j.dtype = axcl.FP32
	default:
		return nil, fmt.Errorf("compile: quant is %q, bf16 and fp32 are possible for Whisper", j.Quant)
	}
	if j.c, err = openCheckpoint(root); err != nil {
		return nil, err
	}
	defer j.c.close()
	if j.c.weights["model.encoder.conv1.weight"] != nil {
		j.prefix = "model."
	}
	config, err = j.ids()
	if err != nil {
		return nil, err
	}
	tokens, err := j.tokens()
	if err != nil {
		return nil, err
	}
	nets := []struct {
		name string
		g    *graph.Graph
	}{{j.Name + "-encoder.axmodel", j.encoder()}, {j.Name + "-decoder.axmodel", j.decoder()}}
	for _, n := range nets {
		if err := n.g.Err(); j.err == nil && err != nil {
			return nil, &Error{Path: o.From, What: n.name + ": " + err.Error(), Err: err}
		}
	}
	if j.err != nil {
		return nil, j.err
	}
	for _, w := range j.known {
		if j.total += int64(size(w.Dims)) * 4; w.Type == axcl.BF16 {
			j.total -= int64(size(w.Dims)) * 2
		}
		row := w.Row
		w.Row = func(dst []float32, r int) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return row(dst, r)
		}
	}
	if err := j.write(ctx, func(_ context.Context, dir string) error {
		for _, n := range nets {
			if err := j.create(dir, n.name, func(w io.Writer) error {
				return graph.Write(w, axmodel.Header{Tool: j.Tool}, n.g)
			}); err != nil {
				return err
			}
		}
		for name, b := range map[string][]byte{j.Name + "_config.json": config, j.Name + "-tokens.txt": tokens} {
			if err := j.create(dir, name, func(w io.Writer) error { _, err := w.Write(b); return err }); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	return &Result{Dir: j.Out, Layers: j.EncoderLayers + j.DecoderLayers, Hears: true, Bytes: j.done, Notes: j.notes}, nil
}

func size(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// ids makes the package's configuration: the tokens with a meaning, as generation_config.json has
// them. Those that it does not name lie before the token of no times, in a fixed order.
func (j *whisperJob) ids() ([]byte, error) {
	const file = "generation_config.json"
	bad := func(format string, a ...any) ([]byte, error) {
		return nil, &Error{Path: filepath.Join(j.From, file), What: fmt.Sprintf(format, a...)}
	}
	b, err := read(j.root, file, maxText)
	if err != nil {
		return nil, err
	}
	var g struct {
		Languages map[string]int `json:"lang_to_id"`
		Tasks     map[string]int `json:"task_to_id"`
		Untimed   int            `json:"no_timestamps_token_id"`
		Suppress  []int          `json:"suppress_tokens"`
	}
	if err := json.Unmarshal(b, &g); err != nil {
		return bad("%v", err)
	}
	if len(g.Languages) == 0 {
		return bad("has no lang_to_id: a model of English alone has another start, and cannot be compiled; take the one of all languages")
	}
	first := max(j.Start, j.End)
	within := func(id int) bool { return id > first && id < g.Untimed }
	if g.Untimed-5 <= first || g.Untimed+whisperStamps >= j.Vocab {
		return bad("no_timestamps_token_id is %d, which leaves no room in a vocabulary of %d", g.Untimed, j.Vocab)
	}
	var codes []string
	for code, id := range g.Languages {
		if bare := strings.TrimSuffix(strings.TrimPrefix(code, "<|"), "|>"); !within(id) || bare == "" || strings.ContainsAny(bare, ", ") {
			return bad("lang_to_id has %q as %d", code, id)
		}
		codes = append(codes, code)
	}
	slices.SortFunc(codes, func(x, y string) int { return g.Languages[x] - g.Languages[y] })
	var languages, odd []string
	for i, code := range codes {
		languages = append(languages, fmt.Sprint(g.Languages[code]))
		codes[i] = strings.TrimSuffix(strings.TrimPrefix(code, "<|"), "|>")
	}
	for _, task := range []string{"translate", "transcribe"} {
		if !within(g.Tasks[task]) {
			return bad("task_to_id has %q as %d", task, g.Tasks[task])
		}
	}
	for _, id := range g.Suppress {
		if id >= 0 && id < min(j.Start, j.End) {
			odd = append(odd, fmt.Sprint(id))
		}
	}
	return toJSON(map[string]any{"n_mels": j.Mels, "n_vocab": j.Vocab, "n_text_ctx": j.Places, "n_text_state": j.Width,
		"n_text_layer": j.DecoderLayers, "sot": j.Start, "eot": j.End, "no_timestamps": g.Untimed, "no_speech": g.Untimed - 1,
		"sot_prev": g.Untimed - 2, "sot_lm": g.Untimed - 3, "translate": g.Tasks["translate"], "transcribe": g.Tasks["transcribe"],
		"all_language_tokens": strings.Join(languages, ","), "all_language_codes": strings.Join(codes, ","),
		"non_speech_tokens": strings.Join(odd, ",")}), nil
}

// tokens makes the list of the text tokens' bytes from vocab.json, or from tokenizer.json.
func (j *whisperJob) tokens() ([]byte, error) {
	vocab, file := map[string]int{}, "vocab.json"
	b, err := read(j.root, file, maxText)
	switch {
	case err == nil:
		err = json.Unmarshal(b, &vocab)
	case errors.Is(err, os.ErrNotExist):
		file = "tokenizer.json"
		if b, err = read(j.root, file, maxText); err != nil {
			return nil, err
		}
		var t struct {
			Model struct {
				Vocab map[string]int `json:"vocab"`
			} `json:"model"`
		}
		err = json.Unmarshal(b, &t)
		vocab = t.Model.Vocab
	default:
		return nil, err
	}
	bad := func(format string, a ...any) ([]byte, error) {
		return nil, &Error{Path: filepath.Join(j.From, file), What: fmt.Sprintf(format, a...)}
	}
	if err != nil {
		return bad("%v", err)
	}
	bytes := spelled()
	lines, found := make([]string, min(j.End, j.Start)), 0
	for token, id := range vocab {
		if id < 0 || id >= len(lines) {
			continue // a token with a meaning
		}
		var b []byte
		for _, r := range token {
			x, ok := bytes[r]
			if !ok {
				return bad("token %q is not spelled in bytes", token)
			}
			b = append(b, x)
		}
		if lines[id] != "" {
			return bad("has token %d twice", id) // whichever came last would be said
		}
		found++
		lines[id] = base64.StdEncoding.EncodeToString(b) + fmt.Sprintf(" %d\n", id)
	}
	if found < len(lines) {
		return bad("has no token %d of %d", slices.Index(lines, ""), len(lines))
	}
	return []byte(strings.Join(lines, "")), nil
}

// spelled are the bytes of the characters that vocabularies of bytes are written in: visible ones
// stand for themselves, the others come after U+0100 in order.
func spelled() map[rune]byte {
	m, next := map[rune]byte{}, rune(256)
	for b := range 256 {
		if b > 32 && b < 127 || b > 160 && b != 173 {
			m[rune(b)] = byte(b)
			continue
		}
		m[next] = byte(b)
		next++
	}
	return m
}

// weight is a tensor of the checkpoint. Matrices are kept in the type that was asked for, all else
// as numbers. A mistake is kept in err.
func (j *whisperJob) weight(name string, exact bool, dims ...int) *graph.Weight {
	if w := j.known[name]; w != nil {
		return w
	}
	w := &graph.Weight{Type: axcl.FP32, Dims: dims, Row: func([]float32, int) error { return nil }}
	if len(dims) > 1 && !exact {
		w.Type = j.dtype
	}
	j.known[name] = w
	from, err := j.usable(j.prefix + name)
	if err == nil && !slices.Equal(from.shape, dims) {
		err = &Error{Path: from.file, What: fmt.Sprintf("tensor %q has shape %v, config.json asks for %v", j.prefix+name, from.shape, dims)}
	}
	if err != nil {
		if j.err == nil {
			j.err = err
		}
		return w
	}
	rows := *from
	rows.shape = []int{dims[0], size(dims[1:])}
	w.Row = rows.reader(j.prefix + name)
	return w
}

// whisperNet is a net in the making, of a part of the model: "encoder." or "decoder.".
type whisperNet struct {
	*graph.Graph
	j     *whisperJob
	heads int
	inner int
}

func (n whisperNet) weight(name string, dims ...int) graph.Value {
	return n.Const(n.j.weight(name, false, dims...))
}

func (n whisperNet) linear(x graph.Value, name string, out, in int) graph.Value {
	return n.Linear(x, n.weight(name+".weight", out, in), n.weight(name+".bias", out))
}

func (n whisperNet) norm(x graph.Value, name string) graph.Value {
	return n.LayerNorm(x, n.weight(name+".weight", n.j.Width), n.weight(name+".bias", n.j.Width), whisperEps)
}

// keys and values are what rows are to an attention. Keys have no bias.
func (n whisperNet) keys(x graph.Value, name string) graph.Value {
	return n.Linear(x, n.weight(name+".k_proj.weight", n.j.Width, n.j.Width), graph.Value{})
}

func (n whisperNet) values(x graph.Value, name string) graph.Value {
	return n.linear(x, name+".v_proj", n.j.Width, n.j.Width)
}

// attend is the attention of normalised rows to keys and values.
func (n whisperNet) attend(x, k, v, mask graph.Value, name string) graph.Value {
	d := n.j.Width
	x = n.Attention(n.linear(x, name+".q_proj", d, d), k, v, mask, n.heads, float32(1/math.Sqrt(float64(d/n.heads))))
	return n.linear(x, name+".out_proj", d, d)
}

func (n whisperNet) mlp(x graph.Value, name string) graph.Value {
	y := n.GELU(n.linear(n.norm(x, name+".final_layer_norm"), name+".fc1", n.inner, n.j.Width))
	return n.Add(x, n.linear(y, name+".fc2", n.j.Width, n.inner))
}

// all puts the rows of every layer into one value.
func (n whisperNet) all(rows []graph.Value) graph.Value {
	each := make([]graph.Value, len(rows))
	for i, x := range rows {
		d := n.Dims(x)
		if len(d) != 3 {
			return graph.Value{} // after a mistake
		}
		each[i] = n.Reshape(x, 1, 1, d[1], d[2])
	}
	return n.Concat(0, each...)
}

// of takes a layer's rows out of an input of all.
func (n whisperNet) of(all graph.Value, layer, rows int) graph.Value {
	return n.Reshape(n.Slice(all, 0, layer, 1), 1, rows, n.j.Width)
}

// encoder hears: mel [1 mels 3000] gives each layer's keys and values for the decoder.
func (j *whisperJob) encoder() *graph.Graph {
	n := whisperNet{graph.New(), j, j.EncoderHeads, j.EncoderInner}
	d := j.Width
	x := n.Input("mel", axcl.FP32, 1, j.Mels, 2*whisperHeard)
	x = n.GELU(n.Conv1D(x, n.weight("encoder.conv1.weight", d, j.Mels, 3), n.weight("encoder.conv1.bias", d), graph.Conv{Pad: 1}))
	x = n.GELU(n.Conv1D(x, n.weight("encoder.conv2.weight", d, d, 3), n.weight("encoder.conv2.bias", d),
		graph.Conv{Stride: graph.Both(2), Pad: 1}))
	x = n.Add(n.Transpose(x, 0, 2, 1), n.Const(j.weight("encoder.embed_positions.weight", true, whisperHeard, d)))
	for i := range j.EncoderLayers {
		name := fmt.Sprintf("encoder.layers.%d", i)
		y := n.norm(x, name+".self_attn_layer_norm")
		x = n.Add(x, n.attend(y, n.keys(y, name+".self_attn"), n.values(y, name+".self_attn"), graph.Value{}, name+".self_attn"))
		x = n.mlp(x, name)
	}
	x = n.norm(x, "encoder.layer_norm")
	var k, v []graph.Value
	for i := range j.DecoderLayers {
		name := fmt.Sprintf("decoder.layers.%d.encoder_attn", i)
		k, v = append(k, n.keys(x, name)), append(v, n.values(x, name))
	}
	n.Output("cross_k", axcl.FP32, n.all(k))
	n.Output("cross_v", axcl.FP32, n.all(v))
	return n.Graph
}

// decoder says: a token at a place gives the logits of the next one, and its own keys and values.
func (j *whisperJob) decoder() *graph.Graph {
	n := whisperNet{graph.New(), j, j.DecoderHeads, j.DecoderInner}
	d := j.Width
	token := n.Input("tokens", axcl.Int32, 1, 1)
	selfK := n.Input("self_k", axcl.FP32, j.DecoderLayers, 1, whisperPlaces, d)
	selfV := n.Input("self_v", axcl.FP32, j.DecoderLayers, 1, whisperPlaces, d)
	crossK := n.Input("cross_k", axcl.FP32, j.DecoderLayers, 1, whisperHeard, d)
	crossV := n.Input("cross_v", axcl.FP32, j.DecoderLayers, 1, whisperHeard, d)
	place, mask := n.Input("offset", axcl.Int32, 1), n.Input("mask", axcl.Int32, whisperPlaces)
	embed := n.weight("decoder.embed_tokens.weight", j.Vocab, d)
	x := n.Add(n.Gather(embed, n.Reshape(token, 1), 0),
		n.Gather(n.Const(j.weight("decoder.embed_positions.weight", true, whisperPlaces, d)), place, 0))
	x = n.Reshape(x, 1, 1, d)
	hidden := n.Pad(n.Mul(n.Float(mask), n.Scalar(whisperHidden)), 0, []int{0}, []int{1}) // the new row is seen
	var ks, vs []graph.Value
	for i := range j.DecoderLayers {
		name := fmt.Sprintf("decoder.layers.%d", i)
		y := n.norm(x, name+".self_attn_layer_norm")
		k, v := n.keys(y, name+".self_attn"), n.values(y, name+".self_attn")
		ks, vs = append(ks, k), append(vs, v)
		x = n.Add(x, n.attend(y, n.Concat(1, n.of(selfK, i, whisperPlaces), k), n.Concat(1, n.of(selfV, i, whisperPlaces), v), hidden,
			name+".self_attn"))
		y = n.norm(x, name+".encoder_attn_layer_norm")
		x = n.Add(x, n.attend(y, n.of(crossK, i, whisperHeard), n.of(crossV, i, whisperHeard), graph.Value{}, name+".encoder_attn"))
		x = n.mlp(x, name)
	}
	head := embed
	if j.c.weights["proj_out.weight"] != nil {
		head = n.Const(j.untied())
	}
	n.Output("logits", axcl.FP32, n.Linear(n.norm(x, "decoder.layer_norm"), head, graph.Value{}))
	n.Output("this_self_k", axcl.FP32, n.all(ks))
	n.Output("this_self_v", axcl.FP32, n.all(vs))
	return n.Graph
}

// untied is the head's own matrix, which some checkpoints hold beside the embedding table.
func (j *whisperJob) untied() *graph.Weight {
	prefix := j.prefix
	j.prefix = ""
	defer func() { j.prefix = prefix }()
	return j.weight("proj_out.weight", false, j.Vocab, j.Width)
}
