package modelstest

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/graph"
)

// Whisper says how a recogniser of speech is made: a Whisper of random weights, with all of its
// operations and tensors, narrow and shallow.
type Whisper struct {
	Seed   uint64
	Layout string // "A", "B" or "C"
	Layers int    // 0 means 2, and 4 in layout C, whose encoder is known by its number of outputs
	Turbo  bool   // 128 mels and a language more, as the model of that name; else as tiny has it
	Full   bool   // as many text tokens as the real vocabulary has, so that all ids are the real ones
	Bare   bool   // without configuration, as older packages; for Full alone
}

const (
	whisperState   = 64
	whisperHeads   = 2
	whisperFrames  = 3000 // of mel
	whisperRows    = whisperFrames / 2
	whisperContext = 448
	whisperEps     = 1e-5
	whisperFew     = 256 + 800 // text tokens of a small vocabulary: bytes and words
	whisperAll     = 50257
	whisperStamps  = 1501 // tokens <|0.00|> to <|30.00|>
)

// whisperCodes are the languages in the order of their tokens.
const whisperCodes = "en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta no th ur hr bg lt la mi " +
	"ml cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw gl mr pa si km sn yo so af oc ka be tg sd gu am yi lo uz fo ht " +
	"ps tk nn mt sa lb my bo tl mg as tt haw ln ha ba jw su"

// whisperOdd are characters that are not said.
const whisperOdd = "\"#()*+/:;<=>@[\\]^_`{|}~"

// WhisperIDs are the tokens with a meaning. Text tokens come before EOT, languages from Language
// on, time stamps from Stamp on.
type WhisperIDs struct {
	EOT, SOT, Language, Translate, Transcribe, SOTLM, SOTPrev, NoSpeech, NoTimestamps, Stamp int32
	Vocab                                                                                    int // all tokens
}

// Languages are their codes, in the order of their tokens.
func (e Whisper) Languages() []string {
	codes := strings.Fields(whisperCodes)
	if e.Turbo {
		codes = append(codes, "yue")
	}
	return codes
}

// IDs are the tokens with a meaning.
func (e Whisper) IDs() WhisperIDs {
	eot := int32(whisperFew)
	if e.Full {
		eot = whisperAll
	}
	l := eot + 2
	t := l + int32(len(e.Languages()))
	return WhisperIDs{EOT: eot, SOT: eot + 1, Language: l, Translate: t, Transcribe: t + 1, SOTLM: t + 2, SOTPrev: t + 3, NoSpeech: t + 4,
		NoTimestamps: t + 5, Stamp: t + 6, Vocab: int(t) + 6 + whisperStamps}
}

// Tokens are the bytes of the text tokens, by id: first single bytes, in the order of Whisper's own
// table, and then words, most of them with a space in front. The last of the real ones is empty.
func (e Whisper) Tokens() []string {
	var all []string
	visible := func(b int) bool { return b > 32 && b < 127 || b > 160 && b != 173 }
	for _, want := range []bool{true, false} {
		for b := range 256 {
			if visible(b) == want {
				all = append(all, string([]byte{byte(b)}))
			}
		}
	}
	for i := range int(e.IDs().EOT) - len(all) {
		word := ""
		for n := i; n > 0 || len(word) < 4; n /= 100 {
			word += string("bcdfghjklmnprstvwxyz"[n%20]) + string("aeiou"[n/20%5])
		}
		if i%4 != 0 {
			word = " " + word
		}
		all = append(all, word)
	}
	if e.Full {
		all[len(all)-1] = ""
	}
	return all
}

func (e Whisper) layers() int {
	switch {
	case e.Layers > 0:
		return e.Layers
	case e.Layout == "C":
		return 4
	}
	return 2
}

func (e Whisper) mels() int {
	if e.Turbo {
		return 128
	}
	return 80
}

func (e Whisper) size() string {
	if e.Turbo {
		return "turbo"
	}
	return "tiny"
}

// Path is a net of a package that Write made in dir: "encoder", and in layout A "decoder-main" and
// "decoder-loop", in others "decoder".
func (e Whisper) Path(dir, net string) string {
	return filepath.Join(dir, e.size()+"-"+net+".axmodel")
}

// Write makes a package of random weights, which every software card runs, in the layout's files
// and tensors. Oracle gives what its nets give.
func (e Whisper) Write(dir string) error {
	if err := layout("Whisper", e.Layout, "A", "B", "C"); err != nil {
		return err
	}
	if e.Bare && !e.Full {
		return errors.New("modelstest: nothing tells the ids of a small vocabulary where there is no configuration: set Full")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	w := e.weights()
	nets := map[string]*graph.Graph{"encoder": e.encoder(w)}
	f := &writer{dir: dir}
	if e.Layout == "A" {
		nets["decoder-main"], nets["decoder-loop"] = e.first(w), e.loop(w)
		f.text(e.size()+"-positional_embedding.bin", string(floats(w.get("decoder.positional_embedding").v)))
	} else {
		nets["decoder"] = e.decoder(w)
	}
	for name, g := range nets {
		if err := g.Save(e.Path(dir, name)); err != nil {
			return err
		}
	}
	f.text(e.size()+"-tokens.txt", e.list())
	if !e.Bare {
		f.text(e.size()+"_config.json", text(e.config()))
	}
	return f.err
}

// list is the file of tokens.
func (e Whisper) list() string {
	var list strings.Builder
	for i, token := range e.Tokens() {
		fmt.Fprintf(&list, "%s %d\n", cmp.Or(base64.StdEncoding.EncodeToString([]byte(token)), "="), i)
	}
	return list.String()
}

func (e Whisper) config() map[string]any {
	id := e.IDs()
	languages, odd := []int32{}, []int32{}
	for i := range e.Languages() {
		languages = append(languages, id.Language+int32(i))
	}
	for i, token := range e.Tokens()[:256] {
		if strings.Contains(whisperOdd, token) {
			odd = append(odd, int32(i))
		}
	}
	joined := func(v []int32) string { return strings.ReplaceAll(strings.Trim(fmt.Sprint(v), "[]"), " ", ",") }
	return map[string]any{"n_mels": e.mels(), "n_vocab": id.Vocab, "n_text_ctx": whisperContext, "n_text_state": whisperState,
		"n_text_layer": e.layers(), "sot": id.SOT, "eot": id.EOT, "no_timestamps": id.NoTimestamps, "no_speech": id.NoSpeech,
		"translate": id.Translate, "transcribe": id.Transcribe, "sot_prev": id.SOTPrev, "sot_lm": id.SOTLM,
		"all_language_tokens": joined(languages), "all_language_codes": strings.Join(e.Languages(), ","), "non_speech_tokens": joined(odd)}
}

func (e Whisper) weights() *weights { return draw(e, e.Seed, e.draw) }

func (e Whisper) draw(w *weights) {
	const d = whisperState
	block := func(name string, sharp, loud float64) {
		w.norm(name+"_ln", d)
		w.linear(name+".query", sharp, d, d)
		w.normal(name+".key.weight", 0, sharp/root(d), d, d)
		w.linear(name+".value", 1, d, d)
		w.linear(name+".out", loud, d, d)
	}
	mlp := func(name string) {
		w.norm(name+".mlp_ln", d)
		w.linear(name+".mlp.0", 1, d, 4*d)
		w.linear(name+".mlp.2", 1, 4*d, d)
	}
	w.conv("encoder.conv1", 1.5, d, e.mels(), 3)
	w.conv("encoder.conv2", 1.5, d, d, 3)
	w.set("encoder.positional_embedding", sinusoids(0, whisperRows, d), whisperRows, d)
	for i := range e.layers() {
		block(fmt.Sprintf("encoder.blocks.%d.attn", i), 1, 1)
		mlp(fmt.Sprintf("encoder.blocks.%d", i))
	}
	w.norm("encoder.ln_post", d)
	id := e.IDs()
	w.normal("decoder.token_embedding.weight", 0, 0.3, id.Vocab, d)
	w.normal("decoder.positional_embedding", 0, 0.8, whisperContext, d)
	for i := range e.layers() {
		name := fmt.Sprintf("decoder.blocks.%d", i)
		block(name+".attn", 1.5, 1)
		block(name+".cross_attn", 3, 2) // sharp, so that what is heard decides what is said
		mlp(name)
	}
	w.normal("decoder.ln.weight", 3, 0.3, d)
	w.normal("decoder.ln.bias", 0, 0.4, d)
	e.season(w)
}

// season makes the embedding of tokens and places such that words are more likely than single
// bytes, that time stamps are rare, and that a text ends after some dozens of tokens.
func (e Whisper) season(w *weights) {
	const d = whisperState
	id := e.IDs()
	embed, places := w.get("decoder.token_embedding.weight").v, w.get("decoder.positional_embedding").v
	for i := range embed {
		switch token := i / d; {
		case token < 256:
			embed[i] *= 0.8
		case token > int(id.EOT):
			embed[i] *= 0.6
		}
	}
	end := embed[int(id.EOT)*d : (int(id.EOT)+1)*d]
	for i := range places {
		places[i] += float32(max(0, i/d-24)) * 0.4 * end[i%d]
	}
}

// whisperNet is a net in the making.
type whisperNet struct {
	builder
	e Whisper
}

func (g whisperNet) ln(x graph.Value, name string) graph.Value {
	return g.norm(x, name, whisperEps)
}

// attention is a block's, of x's own normalised rows q to the rows k and v.
func (g whisperNet) attention(q, k, v, mask graph.Value, name string) graph.Value {
	a := g.Attention(g.linear(q, name+".query"), k, v, mask, whisperHeads, float32(1/root(whisperState/whisperHeads)))
	return g.linear(a, name+".out")
}

func (g whisperNet) mlp(x graph.Value, name string) graph.Value {
	return g.Add(x, g.linear(g.GELU(g.linear(g.ln(x, name+".mlp_ln"), name+".mlp.0")), name+".mlp.2"))
}

func (e Whisper) encoder(w *weights) *graph.Graph {
	g := whisperNet{newBuilder(w), e}
	input := "mel"
	if e.Layout == "C" {
		input = e.size() + "-mel"
	}
	x := g.Input(input, axcl.FP32, 1, e.mels(), whisperFrames)
	x = g.GELU(g.conv(x, "encoder.conv1", graph.Conv{Pad: 1}))
	x = g.GELU(g.conv(x, "encoder.conv2", graph.Conv{Stride: graph.Both(2), Pad: 1}))
	x = g.Add(g.Transpose(x, 0, 2, 1), g.weight("encoder.positional_embedding"))
	for i := range e.layers() {
		name := fmt.Sprintf("encoder.blocks.%d", i)
		a := g.ln(x, name+".attn_ln")
		x = g.Add(x, g.attention(a, g.linear(a, name+".attn.key"), g.linear(a, name+".attn.value"), graph.Value{}, name+".attn"))
		x = g.mlp(x, name)
	}
	x = g.ln(x, "encoder.ln_post")
	var k, v []graph.Value
	for i := range e.layers() {
		name := fmt.Sprintf("decoder.blocks.%d.cross_attn", i)
		k, v = append(k, g.linear(x, name+".key")), append(v, g.linear(x, name+".value"))
	}
	switch e.Layout {
	case "A":
		g.Output("n_layer_cross_k", axcl.FP32, g.stack(k))
		g.Output("n_layer_cross_v", axcl.FP32, g.stack(v))
	case "B":
		g.Output("cross_k", axcl.FP32, g.stack(k))
		g.Output("cross_v", axcl.FP32, g.stack(v))
	default:
		for i := range k {
			g.Output(fmt.Sprint("out_cross_k_", i), axcl.FP32, k[i])
			g.Output(fmt.Sprint("out_cross_v_", i), axcl.FP32, v[i])
		}
	}
	return g.Graph
}

// stack puts the rows of all layers into one value, and unstack takes them out.
func (g whisperNet) stack(rows []graph.Value) graph.Value {
	var all []graph.Value
	for _, x := range rows {
		d := g.Dims(x)
		all = append(all, g.Reshape(x, 1, 1, d[1], d[2]))
	}
	return g.Concat(0, all...)
}

func (g whisperNet) unstack(x graph.Value) (rows []graph.Value) {
	d := g.Dims(x)
	for i := range d[0] {
		rows = append(rows, g.Reshape(g.Slice(x, 0, i, 1), 1, d[2], d[3]))
	}
	return rows
}

// stacked is an input of the rows of all layers.
func (g whisperNet) stacked(name string, n int) []graph.Value {
	return g.unstack(g.Input(name, axcl.FP32, g.e.layers(), 1, n, whisperState))
}

// tokens are the embedded tokens of an input, which stand at places.
func (g whisperNet) tokens(tokens, places graph.Value) graph.Value {
	n := g.Dims(tokens)[1]
	x := g.Gather(g.weight("decoder.token_embedding.weight"), g.Reshape(tokens, n), 0)
	return g.Reshape(g.Add(x, places), 1, n, whisperState)
}

// says is the decoder: the logits of all rows of x. seen has the rows that layer i's attention sees
// for the new ones.
func (g whisperNet) says(x, mask graph.Value, crossK, crossV []graph.Value,
	seen func(i int, k, v graph.Value) (_, _ graph.Value)) graph.Value {
	for i := range g.e.layers() {
		name := fmt.Sprintf("decoder.blocks.%d", i)
		a := g.ln(x, name+".attn_ln")
		k, v := seen(i, g.linear(a, name+".attn.key"), g.linear(a, name+".attn.value"))
		x = g.Add(x, g.attention(a, k, v, mask, name+".attn"))
		x = g.Add(x, g.attention(g.ln(x, name+".cross_attn_ln"), crossK[i], crossV[i], graph.Value{}, name+".cross_attn"))
		x = g.mlp(x, name)
	}
	return g.Linear(g.ln(x, "decoder.ln"), g.weight("decoder.token_embedding.weight"), graph.Value{})
}

// first is layout A's decoder of the first four tokens.
func (e Whisper) first(w *weights) *graph.Graph {
	g := whisperNet{newBuilder(w), e}
	const n = 4
	tokens := g.Input("tokens", axcl.Int32, 1, n)
	crossK, crossV := g.stacked("n_layer_cross_k", whisperRows), g.stacked("n_layer_cross_v", whisperRows)
	after := make([]float32, n*n) // a row does not see those after it
	for i := range after {
		if i%n > i/n {
			after[i] = float32(math.Inf(-1))
		}
	}
	var ks, vs []graph.Value
	atEnd := func(x graph.Value) graph.Value {
		return g.Pad(x, 0, []int{0, whisperContext - n, 0}, []int{0, 0, 0})
	}
	x := g.tokens(tokens, g.Slice(g.weight("decoder.positional_embedding"), 0, 0, n))
	logits := g.says(x, g.Const(graph.Float32(after, n, n)), crossK, crossV, func(_ int, k, v graph.Value) (_, _ graph.Value) {
		ks, vs = append(ks, atEnd(k)), append(vs, atEnd(v))
		return k, v
	})
	g.Output("logits", axcl.FP32, logits)
	g.Output("out_n_layer_self_k_cache", axcl.FP32, g.stack(ks))
	g.Output("out_n_layer_self_v_cache", axcl.FP32, g.stack(vs))
	return g.Graph
}

// loop is layout A's decoder of one token more.
func (e Whisper) loop(w *weights) *graph.Graph {
	g := whisperNet{newBuilder(w), e}
	tokens := g.Input("tokens", axcl.Int32, 1, 1)
	oldK, oldV := g.stacked("in_n_layer_self_k_cache", whisperContext), g.stacked("in_n_layer_self_v_cache", whisperContext)
	crossK, crossV := g.stacked("n_layer_cross_k", whisperRows), g.stacked("n_layer_cross_v", whisperRows)
	x := g.tokens(tokens, g.Input("positional_embedding", axcl.FP32, 1, whisperState))
	mask := g.Input("mask", axcl.FP32, whisperContext)
	var ks, vs []graph.Value
	shifted := func(old, x graph.Value) graph.Value {
		return g.Concat(1, g.Slice(old, 1, 1, whisperContext-1), x)
	}
	logits := g.says(x, mask, crossK, crossV, func(i int, k, v graph.Value) (_, _ graph.Value) {
		ks, vs = append(ks, shifted(oldK[i], k)), append(vs, shifted(oldV[i], v))
		return ks[i], vs[i]
	})
	g.Output("logits", axcl.FP32, logits)
	g.Output("out_n_layer_self_k_cache", axcl.FP32, g.stack(ks))
	g.Output("out_n_layer_self_v_cache", axcl.FP32, g.stack(vs))
	return g.Graph
}

// decoder is the decoder of the layouts B and C, of one token: its row is given out, and seen with
// those of the cache that are not hidden.
func (e Whisper) decoder(w *weights) *graph.Graph {
	g := whisperNet{newBuilder(w), e}
	var tokens graph.Value
	var oldK, oldV, crossK, crossV []graph.Value
	if e.Layout == "C" {
		tokens = g.Input("token", axcl.Int32, 1, 1)
		pair := func(of string, n int) (k, v []graph.Value) {
			for i := range e.layers() {
				k = append(k, g.Input(fmt.Sprint(of, "_k_", i), axcl.FP32, 1, n, whisperState))
				v = append(v, g.Input(fmt.Sprint(of, "_v_", i), axcl.FP32, 1, n, whisperState))
			}
			return k, v
		}
		oldK, oldV = pair("self", whisperContext)
		crossK, crossV = pair("cross", whisperRows)
	} else {
		tokens = g.Input("tokens", axcl.Int32, 1, 1)
		oldK, oldV = g.stacked("self_k", whisperContext), g.stacked("self_v", whisperContext)
		crossK, crossV = g.stacked("cross_k", whisperRows), g.stacked("cross_v", whisperRows)
	}
	x := g.tokens(tokens, g.Gather(g.weight("decoder.positional_embedding"), g.Input("offset", axcl.Int32, 1), 0))
	mask := g.Mul(g.Float(g.Input("mask", axcl.Int32, whisperContext)), g.Scalar(-1e9))
	mask = g.Pad(mask, 0, []int{0}, []int{1})
	var ks, vs []graph.Value
	logits := g.says(x, mask, crossK, crossV, func(i int, k, v graph.Value) (_, _ graph.Value) {
		ks, vs = append(ks, k), append(vs, v)
		return g.Concat(1, oldK[i], k), g.Concat(1, oldV[i], v)
	})
	g.Output("logits", axcl.FP32, logits)
	if e.Layout != "C" {
		g.Output("this_self_k", axcl.FP32, g.stack(ks))
		g.Output("this_self_v", axcl.FP32, g.stack(vs))
		return g.Graph
	}
	for i := range ks {
		g.Output(fmt.Sprint("this_self_k_", i), axcl.FP32, ks[i])
		g.Output(fmt.Sprint("this_self_v_", i), axcl.FP32, vs[i])
	}
	return g.Graph
}

// WhisperOracle computes in float64 what a package of Whisper makes of a sound. It belongs to one
// goroutine.
type WhisperOracle struct {
	// CrossK and CrossV are what the encoder gives: of each layer 1500 rows.
	CrossK, CrossV [][][]float64

	e            Whisper
	w            *weights
	selfK, selfV []rows
}

// Oracle computes the encoder, of a mel [mels, 3000].
func (e Whisper) Oracle(mel []float32) *WhisperOracle {
	o := &WhisperOracle{e: e, w: e.weights(), selfK: make([]rows, e.layers()), selfV: make([]rows, e.layers())}
	w := o.w
	x := w.conv64(rowsOf(mel, whisperFrames), "encoder.conv1", walk{pad: 1}).each(gelu64)
	x = w.conv64(x, "encoder.conv2", walk{stride: 2, pad: 1}).each(gelu64).turned()
	x = x.plus(rowsOf(sinusoids(0, whisperRows, whisperState), whisperState))
	for i := range e.layers() {
		name := fmt.Sprintf("encoder.blocks.%d", i)
		a := w.norm64(x, name+".attn_ln", whisperEps)
		k, v := w.linear64(a, name+".attn.key"), w.linear64(a, name+".attn.value")
		x = o.mlp(x.plus(o.attention(a, k, v, name+".attn")), name)
	}
	x = w.norm64(x, "encoder.ln_post", whisperEps)
	for i := range e.layers() {
		name := fmt.Sprintf("decoder.blocks.%d.cross_attn", i)
		o.CrossK, o.CrossV = append(o.CrossK, w.linear64(x, name+".key")), append(o.CrossV, w.linear64(x, name+".value"))
	}
	return o
}

func (o *WhisperOracle) attention(q, k, v rows, name string) rows {
	return o.w.linear64(attend(o.w.linear64(q, name+".query"), k, v, whisperHeads, nil), name+".out")
}

func (o *WhisperOracle) mlp(x rows, name string) rows {
	f := o.w.linear64(o.w.norm64(x, name+".mlp_ln", whisperEps), name+".mlp.0").each(gelu64)
	return x.plus(o.w.linear64(f, name+".mlp.2"))
}

// Next gives the logits after the tokens of all calls so far and this one.
func (o *WhisperOracle) Next(token int32) []float64 {
	w, at := o.w, len(o.selfK[0])
	x := rows{w.get("decoder.token_embedding.weight").row(int(token))}
	x = x.plus(rows{w.get("decoder.positional_embedding").row(at)})
	for i := range o.e.layers() {
		name := fmt.Sprintf("decoder.blocks.%d", i)
		a := w.norm64(x, name+".attn_ln", whisperEps)
		o.selfK[i] = append(o.selfK[i], w.linear64(a, name+".attn.key")...)
		o.selfV[i] = append(o.selfV[i], w.linear64(a, name+".attn.value")...)
		x = x.plus(o.attention(a, o.selfK[i], o.selfV[i], name+".attn"))
		x = x.plus(o.attention(w.norm64(x, name+".cross_attn_ln", whisperEps), o.CrossK[i], o.CrossV[i], name+".cross_attn"))
		x = o.mlp(x, name)
	}
	return w.linear64(w.norm64(x, "decoder.ln", whisperEps), "decoder.token_embedding")[0]
}

// Restart forgets the tokens.
func (o *WhisperOracle) Restart() {
	for i := range o.selfK {
		o.selfK[i], o.selfV[i] = nil, nil
	}
}
