package modelstest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/graph"
	"github.com/axle-llm/axle/internal/npy"
)

// Kokoro says how a package that speaks is made: a Kokoro of random weights, in three parts, with
// all of its operations and tensors. What is within the nets is narrow and shallow, and where a
// tensor is wider than what gives it, one more linear layer widens it.
type Kokoro struct {
	Seed   uint64
	Layout string // "A": vocab.txt and voices/NAME.bin; "B": nets in models, the rest in checkpoints
}

// The outer sizes of the nets are those of the real ones.
const (
	kokoroIDs    = 96
	kokoroFrames = 192
	kokoroWave   = 23041 // places of the spectrum: 120 a frame, and one
	kokoroTokens = 178
	kokoroText   = 512 // values of a symbol
	kokoroStyle  = 128 // values of a voice for the sound, and as many for the melody
	kokoroVoices = 510 // rows of a voice
	kokoroBins   = 22  // eleven magnitudes and eleven phases
	kokoroDim    = 32  // within the nets
	kokoroSmall  = 16
	kokoroEps    = 1e-5
)

// KokoroVoices are the names of a package's voices.
var KokoroVoices = []string{"af_heart", "am_adam", "zf_xiaoyi"}

// kokoroSymbols are the vocabulary: an id, and the symbols from there on.
var kokoroSymbols = []struct {
	id      int
	symbols string
}{{1, ";:,.!?"}, {9, "—…\"()“” \u0303ʣʥʦʨᵝꭧAI"}, {31, "O"}, {33, "Q"}, {35, "ST"}, {39, "W"}, {41, "Yᵊabcdef"},
	{50, "hijklmnopqrstuvwxyzɑɐɒæ"}, {75, "βɔɕç"}, {80, "ɖðʤə"}, {85, "ɚɛɜ"}, {90, "ɟ"}, {92, "ɡ"}, {99, "ɥ"},
	{101, "ɨɪʝ"}, {110, "ɯɰŋɳɲɴø"}, {118, "ɸθœ"}, {123, "ɹ"}, {125, "ɾɻ"}, {128, "ʁɽʂʃʈʧ"}, {135, "ʊʋ"},
	{138, "ʌɣɤ"}, {142, "χʎ"}, {147, "ʒʔ"}, {156, "ˈˌː"}, {162, "ʰ"},
	{164, "ʲ"}, {169, "↓"}, {171, "→↗↘"}, {177, "ᵻ"}}

// Vocabulary are the ids of the symbols, as the real package has them.
func (e Kokoro) Vocabulary() map[string]int {
	all := map[string]int{}
	for _, run := range kokoroSymbols {
		for i, r := range []rune(run.symbols) {
			all[string(r)] = run.id + i
		}
	}
	return all
}

// Voice is a voice of the package: 510 rows of 256 values, the one for a text by its symbols. Rows
// differ a little from each other, and voices much.
func (e Kokoro) Voice(name string) []float32 {
	const width = 2 * kokoroStyle
	which := slices.Index(KokoroVoices, name)
	if which < 0 {
		panic("modelstest: there is no voice " + name)
	}
	rng := rand.New(rand.NewPCG(e.Seed, uint64(4+which)))
	v := make([]float32, kokoroVoices*width)
	for i := range v {
		if i < width {
			v[i] = float32(rng.NormFloat64() * 0.3)
		} else {
			v[i] = v[i%width] + float32(rng.NormFloat64()*0.03)
		}
	}
	return v
}

// Harmonics are the ten numbers of the source of sound: the weights of nine harmonics, and the
// bias.
func (e Kokoro) Harmonics() (weights []float32, bias float32) {
	rng := rand.New(rand.NewPCG(e.Seed, 2))
	for range 9 {
		weights = append(weights, float32(rng.NormFloat64()/3))
	}
	return weights, float32(rng.NormFloat64() / 100)
}

// Path is part 1, 2 or 3 of a package that Write made in dir.
func (e Kokoro) Path(dir string, part int) string {
	return filepath.Join(dir, filepath.FromSlash(e.beside(fmt.Sprintf("kokoro_part%d_96.axmodel", part))))
}

// beside is a file beside the nets.
func (e Kokoro) beside(name string) string {
	if e.Layout == "B" {
		return "models/" + name
	}
	return name
}

// Write makes a package of random weights, which every software card runs, in the layout's files
// and tensors. Part1, Part2 and Part3 give what its nets give.
func (e Kokoro) Write(dir string) error {
	if err := layout("Kokoro", e.Layout, "A", "B"); err != nil {
		return err
	}
	w, f := e.weights(), &writer{dir: dir}
	if err := os.MkdirAll(filepath.Dir(e.Path(dir, 1)), 0o755); err != nil {
		return err
	}
	for i, g := range []*graph.Graph{e.part1(w), e.part2(w), e.part3(w)} {
		if err := g.Save(e.Path(dir, i+1)); err != nil {
			return err
		}
	}
	for name, data := range e.texts() {
		f.text(name, data)
	}
	return f.err
}

// texts are the files beside the nets, by their names.
func (e Kokoro) texts() map[string]string {
	all := map[string]string{e.beside("model4_har_sim.onnx"): string(e.source())}
	if e.Layout == "B" {
		all["checkpoints/config.json"] = text(map[string]any{"n_token": kokoroTokens, "vocab": e.Vocabulary()})
	} else {
		var list strings.Builder
		for _, run := range kokoroSymbols {
			for i, r := range []rune(run.symbols) {
				fmt.Fprintf(&list, "%c\t%d\n", r, run.id+i)
			}
		}
		all["vocab.txt"] = list.String()
	}
	for _, name := range KokoroVoices {
		b := floats(e.Voice(name))
		if e.Layout != "B" {
			all["voices/"+name+".bin"] = string(b)
			continue
		}
		var file bytes.Buffer
		if err := npy.Write(&file, &npy.Array{Type: "<f4", Dims: []int{kokoroVoices, 1, 2 * kokoroStyle}, Data: b}); err != nil {
			panic(err)
		}
		all["checkpoints/voices_npy/"+name+".npy"] = file.String()
	}
	return all
}

// source is the net that makes harmonics of F0, as far as it is read: an ONNX graph whose tensors
// are the numbers of the sum, a window, and nothing more.
func (e Kokoro) source() []byte {
	field := func(number int, b []byte) []byte {
		out := binary.AppendUvarint(nil, uint64(number)<<3|2)
		return append(binary.AppendUvarint(out, uint64(len(b))), b...)
	}
	number := func(number, v int) []byte {
		return binary.AppendUvarint(binary.AppendUvarint(nil, uint64(number)<<3), uint64(v))
	}
	tensor := func(name string, v []float32, dims ...int) (b []byte) {
		for _, d := range dims {
			b = append(b, number(1, d)...)
		}
		b = append(append(b, number(2, 1)...), field(8, []byte(name))...)
		return field(5, append(b, field(9, floats(v))...))
	}
	node := func(op, out string, in ...string) (b []byte) {
		for _, name := range in {
			b = append(b, field(1, []byte(name))...)
		}
		b = append(append(b, field(2, []byte(out))...), field(4, []byte(op))...)
		return field(1, b)
	}
	weights, bias := e.Harmonics()
	window := make([]float32, 20)
	for i := range window {
		window[i] = float32(0.5 - 0.5*math.Cos(2*math.Pi*float64(i)/20))
	}
	var graph []byte
	for _, part := range [][]byte{node("MatMul", "/l_linear/MatMul_output_0", "/l_sin_gen/Add_output_0", "onnx::MatMul_97"),
		node("Add", "/l_linear/Add_output_0", "l_linear.bias", "/l_linear/MatMul_output_0"),
		node("Tanh", "/l_tanh/Tanh_output_0", "/l_linear/Add_output_0"), field(2, []byte("main_graph")),
		tensor("stft.window", window, 1, 20), tensor("l_linear.bias", []float32{bias}, 1), tensor("onnx::MatMul_97", weights, 9, 1)} {
		graph = append(graph, part...)
	}
	return append(number(1, 8), field(7, graph)...)
}

func (e Kokoro) weights() *weights { return draw(e, e.Seed, e.draw) }

func (e Kokoro) draw(w *weights) {
	const d, s = kokoroDim, kokoroSmall
	w.normal("bert.embed", 0, 1, kokoroTokens, d)
	w.normal("bert.places", 0, 0.5, kokoroIDs, d)
	w.norm("bert.norm", d)
	for _, name := range []string{"bert.query", "bert.key", "bert.value", "bert.dense"} {
		w.linear(name, 1, d, d)
	}
	w.norm("bert.attention_norm", d)
	w.linear("bert.ffn", 1, d, 4*d)
	w.linear("bert.ffn_output", 1, 4*d, d)
	w.norm("bert.full_norm", d)
	w.linear("bert_encoder", 1, d, kokoroText)
	for i := range 2 {
		w.lstm(fmt.Sprint("text.lstm", i), kokoroText+kokoroStyle, d)
		w.linear(fmt.Sprint("text.wide", i), 2, 2*d, kokoroText)
		w.linear(fmt.Sprint("text.ada", i), 0.3, kokoroStyle, 2*kokoroText)
	}
	w.lstm("duration.lstm", kokoroText+kokoroStyle, d)
	w.normal("duration.weight", 0, 0.3, 50, 2*d)
	w.normal("duration.bias", -3.5, 0.3, 50)
	e.pace(w)

	w.lstm("shared", kokoroText+kokoroStyle, d)
	for _, name := range []string{"F0", "N"} {
		w.residual(name+".0", 2*d, 2*d, false)
		w.residual(name+".1", 2*d, d, true)
		w.residual(name+".2", d, d, false)
	}
	w.normal("F0.proj.weight", 0, 120/root(d), 1, d, 1)
	w.normal("F0.proj.bias", 140, 0, 1)
	w.conv("N.proj", 1, 1, d, 1)
	w.normal("encoder.embed", 0, 1, kokoroTokens, d)
	for i := range 3 {
		w.conv(fmt.Sprint("encoder.conv", i), 1.5, d, d, 5)
		w.norm(fmt.Sprint("encoder.norm", i), d)
	}
	w.lstm("encoder.lstm", d, d)
	w.linear("encoder.wide", 2, 2*d, kokoroText)

	w.normal("decoder.F0_conv.weight", 0, 0.005, 1, 1, 3)
	w.normal("decoder.F0_conv.bias", 0, 0.1, 1)
	w.conv("decoder.N_conv", 1, 1, 1, 3)
	w.residual("decoder.encode", kokoroText+2, d, false)
	w.conv("decoder.asr_res", 1, 4, kokoroText, 1)
	w.residual("decoder.decode0", d+4+2, d, false)
	w.residual("decoder.decode1", d+4+2, s, true)
	w.normal("generator.up0.weight", 0, 0.5/root(s), s, s/2, 20)
	w.normal("generator.up0.bias", 0, 0.1, s/2)
	w.normal("generator.up1.weight", 0, 0.5/root(s/2), s/2, s/4, 12)
	w.normal("generator.up1.bias", 0, 0.1, s/4)
	w.conv("generator.noise0", 1, s/2, kokoroBins, 12)
	w.conv("generator.noise1", 1, s/4, kokoroBins, 1)
	w.snakes("generator.noise_res0", s/2, 7)
	w.snakes("generator.noise_res1", s/4, 11)
	for i, channels := range []int{s / 2, s / 4} {
		for _, k := range kokoroKernels {
			w.snakes(fmt.Sprintf("generator.res%d.%d", i, k), channels, k)
		}
	}
	w.conv("generator.post", 0.6, kokoroBins, s/4, 7)
	for i := range kokoroBins / 2 {
		w.get("generator.post.bias").v[i] -= 3 // magnitudes are logarithms
	}
}

// pace has symbols last about two frames each, some of them longer and some shorter: what the 50
// values of a symbol have in common is drawn by how much it differs from symbol to symbol.
func (e Kokoro) pace(w *weights) {
	const d = 2 * kokoroDim
	var h rows
	ids, padding := make([]int32, kokoroIDs), make([]byte, kokoroIDs)
	for _, voice := range KokoroVoices {
		for i := range ids {
			ids[i], padding[i] = w.rng.Int32N(kokoroTokens), byte(i/(kokoroIDs/2))
		}
		x := e.symbols(w, ids, e.Voice(voice)[:2*kokoroStyle], padding)
		h = append(h, w.lstm64(x, "duration.lstm")[:kokoroIDs/2]...)
	}
	mean, common, spread := h.mean(), make([]float64, d), 0.0
	for c := range common {
		common[c] = w.rng.NormFloat64()
	}
	for _, row := range h {
		by := 0.0
		for c, v := range row {
			by += common[c] * (v - mean[c])
		}
		spread += by * by / float64(len(h))
	}
	weight, bias := w.get("duration.weight").v, w.get("duration.bias").v
	for i := range weight {
		weight[i] += float32(0.7 / math.Sqrt(spread) * common[i%d])
		bias[i/d] -= weight[i] * float32(mean[i%d])
	}
}

// kokoroKernels are the widths of the generator's convolutions, and kokoroDilations those of each.
var kokoroKernels, kokoroDilations = []int{3, 7}, []int{1, 3}

// lstm draws one that goes both ways.
func (w *weights) lstm(name string, in, hidden int) {
	w.normal(name+".w", 0, 1/root(in), 2, 4*hidden, in)
	w.normal(name+".r", 0, 1/root(hidden), 2, 4*hidden, hidden)
	w.normal(name+".b", 0, 0.1, 2, 4*hidden)
	for i, b := 0, w.get(name+".b").v; i < len(b); i++ {
		if i/hidden%4 == 1 {
			b[i]-- // it forgets soon, so that what is near counts
		}
	}
}

// adain draws an instance norm whose factors come from a voice.
func (w *weights) adain(name string, channels int) {
	w.norm(name, channels)
	w.linear(name+".fc", 0.5, kokoroStyle, 2*channels)
}

// residual draws a block of two convolutions, between norms by voice.
func (w *weights) residual(name string, in, out int, twice bool) {
	w.adain(name+".norm1", in)
	w.conv(name+".conv1", 1, out, in, 3)
	w.adain(name+".norm2", out)
	w.conv(name+".conv2", 1, out, out, 3)
	if in != out {
		w.normal(name+".short.weight", 0, 1/root(in), out, in, 1)
	}
	if twice {
		w.normal(name+".pool.weight", 0, 0.7, in, 1, 3)
		w.normal(name+".pool.bias", 0, 0.1, in)
	}
}

// snakes draws a generator's block.
func (w *weights) snakes(name string, channels, k int) {
	for i := range kokoroDilations {
		at := fmt.Sprint(name, ".", i)
		for _, half := range []string{".1", ".2"} {
			w.adain(at+half, channels)
			w.normal(at+half+".alpha", 1, 0.1, 1, channels, 1)
			w.conv(at+half+".conv", 1, channels, channels, k)
		}
	}
}

// kokoroNet is a part in the making.
type kokoroNet struct{ builder }

func (g kokoroNet) lstm(x graph.Value, name string) graph.Value {
	y, _, _ := g.LSTM(x, g.weight(name+".w"), g.weight(name+".r"), g.weight(name+".b"), graph.Value{}, graph.Value{}, true)
	return y
}

// style is half of a voice: the first is for the sound, the second for the melody.
func (g kokoroNet) style(which int) graph.Value {
	return g.Slice(g.Input("ref_s", axcl.FP32, 1, 2*kokoroStyle), 1, which*kokoroStyle, kokoroStyle)
}

// scaled makes (1 + γ)·x + β, γ and β from a voice, of shape dims.
func (g kokoroNet) scaled(x, style graph.Value, name string, dims ...int) graph.Value {
	h := g.linear(style, name)
	n := g.Dims(h)
	both := g.Split(h, 1, n[1]/2, n[1]/2)
	return g.Add(g.Mul(g.Add(g.Reshape(both[0], dims...), g.Scalar(1)), x), g.Reshape(both[1], dims...))
}

func (g kokoroNet) adain(x, style graph.Value, name string) graph.Value {
	c := g.w.get(name + ".weight").dims[0]
	n := g.GroupNorm(x, g.weight(name+".weight"), g.weight(name+".bias"), c, kokoroEps)
	return g.scaled(n, style, name+".fc", 1, c, 1)
}

func (g kokoroNet) residual(x, style graph.Value, name string) graph.Value {
	width := g.Dims(x)[2]
	y, short := g.LeakyReLU(g.adain(x, style, name+".norm1"), 0.2), x
	if g.w.has(name + ".pool.weight") {
		by := graph.Conv{Stride: graph.Both(2), Pad: 1, More: graph.Both(1), Groups: g.Dims(y)[1]}
		y = g.ConvTranspose1D(y, g.weight(name+".pool.weight"), g.weight(name+".pool.bias"), by)
		short = g.Nearest(short, 1, 2*width)
	}
	y = g.conv(y, name+".conv1", graph.Conv{Pad: 1})
	y = g.conv(g.LeakyReLU(g.adain(y, style, name+".norm2"), 0.2), name+".conv2", graph.Conv{Pad: 1})
	if g.w.has(name + ".short.weight") {
		short = g.conv(short, name+".short", graph.Conv{})
	}
	return g.Mul(g.Add(y, short), g.Scalar(float32(1/math.Sqrt2)))
}

// snake is x + sin(αx)² / α.
func (g kokoroNet) snake(x graph.Value, name string) graph.Value {
	a := g.weight(name)
	s := g.Sin(g.Mul(x, a))
	return g.Add(x, g.Div(g.Mul(s, s), a))
}

func (g kokoroNet) snakes(x, style graph.Value, name string) graph.Value {
	for i, dilation := range kokoroDilations {
		y := x
		for half, dilation := range []int{dilation, 1} {
			at := fmt.Sprintf("%s.%d.%d", name, i, half+1)
			y = g.snake(g.adain(y, style, at), at+".alpha")
			k := g.w.get(at + ".conv.weight").dims[2]
			y = g.conv(y, at+".conv", graph.Conv{Pad: dilation * (k - 1) / 2, Dilation: graph.Both(dilation)})
		}
		x = g.Add(x, y)
	}
	return x
}

// part1 gives durations, and what they are made of.
func (e Kokoro) part1(w *weights) *graph.Graph {
	g := kokoroNet{newBuilder(w)}
	const n = kokoroIDs
	ids := g.Reshape(g.Input("input_ids", axcl.Int32, 1, n), n)
	style := g.style(1)
	padding := g.Float(g.Input("text_mask", axcl.Uint8, 1, n))
	x := g.Add(g.Gather(g.weight("bert.embed"), ids, 0), g.weight("bert.places"))
	x = g.norm(g.Reshape(x, 1, n, kokoroDim), "bert.norm", kokoroEps)
	hidden := g.Reshape(g.Mul(padding, g.Scalar(-1e4)), 1, 1, 1, n)
	for range 2 { // one layer, twice
		a := g.Attention(g.linear(x, "bert.query"), g.linear(x, "bert.key"), g.linear(x, "bert.value"), hidden, 2,
			float32(1/root(kokoroDim/2)))
		x = g.norm(g.Add(x, g.linear(a, "bert.dense")), "bert.attention_norm", kokoroEps)
		x = g.norm(g.Add(x, g.linear(g.GELUTanh(g.linear(x, "bert.ffn")), "bert.ffn_output")), "bert.full_norm", kokoroEps)
	}
	real := g.Reshape(g.Sub(g.Scalar(1), padding), 1, n, 1)
	voice := g.Expand(g.Reshape(style, 1, 1, kokoroStyle), 1, n, kokoroStyle)
	with := func(x graph.Value) graph.Value { return g.Mul(g.Concat(2, x, voice), real) }
	x = with(g.linear(x, "bert_encoder"))
	for i := range 2 {
		y := g.linear(g.lstm(x, fmt.Sprint("text.lstm", i)), fmt.Sprint("text.wide", i))
		y = g.LayerNorm(y, graph.Value{}, graph.Value{}, kokoroEps)
		x = with(g.scaled(y, style, fmt.Sprint("text.ada", i), 1, 1, kokoroText))
	}
	g.Output("duration", axcl.FP32, g.linear(g.lstm(x, "duration.lstm"), "duration"))
	g.Output("d", axcl.FP32, x)
	return g.Graph
}

// part2 gives the melody, and the symbols stretched to frames.
func (e Kokoro) part2(w *weights) *graph.Graph {
	g := kokoroNet{newBuilder(w)}
	const n = kokoroIDs
	en := g.Input("en", axcl.FP32, 1, kokoroText+kokoroStyle, kokoroFrames)
	style := g.style(1)
	ids := g.Reshape(g.Input("input_ids", axcl.Int32, 1, n), n)
	real := g.Sub(g.Scalar(1), g.Reshape(g.Input("text_mask", axcl.FP32, 1, n), 1, 1, n))
	frames := g.Input("pred_aln_trg", axcl.FP32, 1, n, kokoroFrames)
	shared := g.Transpose(g.lstm(g.Transpose(en, 0, 2, 1), "shared"), 0, 2, 1)
	for _, name := range []string{"F0", "N"} {
		x := shared
		for i := range 3 {
			x = g.residual(x, style, fmt.Sprint(name, ".", i))
		}
		g.Output(name+"_pred", axcl.FP32, g.Reshape(g.conv(x, name+".proj", graph.Conv{}), 1, 2*kokoroFrames))
	}
	x := g.Reshape(g.Gather(g.weight("encoder.embed"), ids, 0), 1, n, kokoroDim)
	x = g.Mul(g.Transpose(x, 0, 2, 1), real)
	for i := range 3 {
		x = g.conv(x, fmt.Sprint("encoder.conv", i), graph.Conv{Pad: 2})
		x = g.Transpose(g.norm(g.Transpose(x, 0, 2, 1), fmt.Sprint("encoder.norm", i), kokoroEps), 0, 2, 1)
		x = g.Mul(g.LeakyReLU(x, 0.2), real)
	}
	x = g.linear(g.lstm(g.Transpose(x, 0, 2, 1), "encoder.lstm"), "encoder.wide")
	x = g.Mul(g.Transpose(x, 0, 2, 1), real)
	g.Output("asr", axcl.FP32, g.MatMul(x, frames))
	return g.Graph
}

// part3 gives the spectrum.
func (e Kokoro) part3(w *weights) *graph.Graph {
	g := kokoroNet{newBuilder(w)}
	asr := g.Input("asr", axcl.FP32, 1, kokoroText, kokoroFrames)
	curve := func(name, conv string) graph.Value {
		x := g.Reshape(g.Input(name, axcl.FP32, 1, 2*kokoroFrames), 1, 1, 2*kokoroFrames)
		return g.conv(x, conv, graph.Conv{Stride: graph.Both(2), Pad: 1})
	}
	f0, energy := curve("F0_pred", "decoder.F0_conv"), curve("N_pred", "decoder.N_conv")
	style := g.style(0)
	har := g.Input("har", axcl.FP32, 1, kokoroBins, kokoroWave)
	x := g.residual(g.Concat(1, asr, f0, energy), style, "decoder.encode")
	rest := g.conv(asr, "decoder.asr_res", graph.Conv{})
	for i := range 2 {
		x = g.residual(g.Concat(1, x, rest, f0, energy), style, fmt.Sprint("decoder.decode", i))
	}
	for i, up := range kokoroUps {
		x = g.LeakyReLU(x, 0.1)
		source := g.conv(har, fmt.Sprint("generator.noise", i), graph.Conv{Stride: graph.Both(up.noise), Pad: up.noise / 2})
		source = g.snakes(source, style, fmt.Sprint("generator.noise_res", i))
		name := fmt.Sprint("generator.up", i)
		x = g.ConvTranspose1D(x, g.weight(name+".weight"), g.weight(name+".bias"),
			graph.Conv{Stride: graph.Both(up.rate), Pad: up.rate / 2})
		if i == len(kokoroUps)-1 {
			x = g.Reflect(x, []int{0, 0, 1}, []int{0, 0, 0})
		}
		x = g.Add(x, source)
		var sum graph.Value
		for _, k := range kokoroKernels {
			y := g.snakes(x, style, fmt.Sprintf("generator.res%d.%d", i, k))
			if sum == (graph.Value{}) {
				sum = y
			} else {
				sum = g.Add(sum, y)
			}
		}
		x = g.Mul(sum, g.Scalar(1/float32(len(kokoroKernels))))
	}
	g.Output("x", axcl.FP32, g.conv(g.LeakyReLU(x, 0.01), "generator.post", graph.Conv{Pad: 3}))
	return g.Graph
}

// kokoroUps are the generator's steps: how much longer each makes its input, and the stride by
// which the harmonics become as long, 1 where they are.
var kokoroUps = []struct{ rate, noise int }{{10, 6}, {6, 1}}
