package modelstest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/axle-llm/axle/audio/features"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/graph"
)

// Zipformer says how a recogniser of speech that comes is made: a streaming Zipformer transducer
// of random weights, with the tensors of the vendor's packages. All states have their meaning, so
// the text changes where one is lost: cached_len and cached_avg are the mean of all rows so far,
// key, val and val2 are rows that two attentions see, which share their scores, and conv1 and
// conv2 are what two causal convolutions see. Simplified are the parts between them: there are no
// feed-forward blocks, bypasses and gates, places are biases of the scores, and rows are joined by
// their mean.
type Zipformer struct {
	Seed   uint64
	Layout string // "Axera" or "HY"
	Full   bool   // 6,254 symbols, as the packages have, not 500
}

const (
	zipBins    = 80
	zipState   = 256
	zipKeys    = 192
	zipValues  = 96
	zipHeads   = 4
	zipPast    = 30 // rows that a convolution sees before its own
	zipKernel  = 11 // frames that a row of the first convolution sees
	zipOut     = 512
	zipAhead   = 7
	zipEps     = 1e-5
	zipShift   = 8. // what makes features values around 0
	zipScale   = 0.25
	zipSilence = 40. // the logit of the blank where nothing is said, compared with where something is
)

// zipStage is a stage's layers, the rows that they see back, and how many rows it joins in one.
type zipStage struct{ layers, left, joins int }

func (e Zipformer) stages() (all []zipStage) {
	layers, left := []int{2, 2, 2, 2, 2}, []int{192, 96, 48, 24, 96}
	if e.Layout == "HY" {
		layers, left = []int{2, 4, 3, 2, 4}, []int{64, 32, 16, 8, 32}
	}
	for i := range layers {
		all = append(all, zipStage{layers[i], left[i], left[0] / left[i]})
	}
	return all
}

// Step is how many frames are new in a call, and Frames how many it takes. A call gives a row for
// each four of the new ones.
func (e Zipformer) Step() int {
	if e.Layout == "HY" {
		return 32
	}
	return 96
}

// Frames: see Step.
func (e Zipformer) Frames() int { return e.Step() + zipAhead }

// Symbols are the vocabulary, by id. Symbol 0 is the blank; ▁ begins a word.
func (e Zipformer) Symbols() []string {
	all := []string{"<blk>", "<sos/eos>", "<unk>"}
	n := 500
	if e.Full {
		n = 6254
	}
	for i := len(all); i < n; i++ {
		word := ""
		for k := i; k > 0; k /= 100 {
			word += string("BCDFGHJKLMNPRSTVWXYZ"[k%20]) + string("AEIOU"[k/20%5])
		}
		switch i % 4 {
		case 0:
			word = "▁" + word
		case 1:
			word = string(rune(0x4e00 + i))
		}
		all = append(all, word)
	}
	return all
}

func (e Zipformer) folder() string {
	if e.Layout == "HY" {
		return "models"
	}
	return "inputs/axmodels_650N"
}

// Path is a net of a package that Write made in dir: "encoder", "decoder" or "joiner".
func (e Zipformer) Path(dir, net string) string {
	return filepath.Join(dir, e.folder(), net+".axmodel")
}

// Write makes a package of random weights, which every software card runs. Oracle and Logits give
// what its nets give.
func (e Zipformer) Write(dir string) error {
	if err := layout("Zipformer", e.Layout, "Axera", "HY"); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, e.folder()), 0o755); err != nil {
		return err
	}
	w := e.weights()
	for name, g := range map[string]*graph.Graph{"encoder": e.encoder(w), "decoder": e.decoder(w), "joiner": e.joiner(w)} {
		if err := g.Save(e.Path(dir, name)); err != nil {
			return err
		}
	}
	f := &writer{dir: dir}
	f.text(e.tokens(), e.list())
	return f.err
}

// tokens is the name of the file of symbols, and list the file. The last is none of the net's.
func (e Zipformer) tokens() string {
	if e.Layout == "HY" {
		return "tokens.txt"
	}
	return "inputs/lang_char_bpe/tokens.txt"
}

func (e Zipformer) list() string {
	var list strings.Builder
	all := e.Symbols()
	for i, symbol := range all {
		fmt.Fprintf(&list, "%s %d\n", symbol, i)
	}
	fmt.Fprintf(&list, "#0 %d\n", len(all))
	return list.String()
}

func (e Zipformer) weights() *weights { return draw(e, e.Seed, e.draw) }

// zipName is the name of a layer's weights.
func zipName(stage, layer int) string { return fmt.Sprintf("encoders.%d.layers.%d", stage, layer) }

func (e Zipformer) draw(w *weights) {
	const d = zipState
	w.conv("embed", 2, d, zipBins, zipKernel)
	for i, s := range e.stages() {
		for l := range s.layers {
			name := zipName(i, l)
			w.normal(name+".pool", 0, 0.7, d)
			w.norm(name+".norm1", d)
			w.linear(name+".query", 1.4, d, zipKeys)
			w.linear(name+".key", 1.4, d, zipKeys)
			for _, k := range []string{"1", "2"} {
				w.linear(name+".value"+k, 1.5, d, zipValues)
				w.linear(name+".out"+k, 1.5, zipValues, d)
				w.conv(name+".conv"+k, 1, d, 1, zipPast+1)
			}
			w.norm(name+".norm2", d)
			w.norm(name+".norm3", d)
		}
	}
	w.norm("norm", d)
	w.linear("encoder_proj", 1, d, zipOut)
	n := len(e.Symbols())
	w.normal("decoder.embedding", 0, 1, n, zipOut)
	w.linear("decoder.conv", 1, 2*zipOut, zipOut)
	w.linear("decoder_proj", 0.7, zipOut, zipOut)
	w.linear("joiner", 6, zipOut, n)
	e.teach(w)
}

// teach has the blank come out in silence, also behind speech, and in about half of the rows of
// speech: the blank's weights point from what the joiner makes of speech to what it makes of
// silence.
func (e Zipformer) teach(w *weights) {
	const second = 16000
	sound := make([]float32, 9*second)
	pitch, loud := 0., 0.
	for i := range sound[:6*second] {
		if i%2000 == 0 {
			pitch, loud = 120+300*w.rng.Float64(), 0.3*w.rng.Float64()
		}
		for h := 1.; h < 6; h++ {
			sound[i] += float32(loud / h * math.Sin(2*math.Pi*pitch*h*float64(i)/second))
		}
	}
	bank := features.NewFbank(features.Zipformer)
	x := bank.Append(nil, sound)
	o := e.oracle(w)
	size := len(e.Symbols())
	rng := rand.New(rand.NewPCG(e.Seed, 5))
	var heard, silence rows
	for at := 0; len(x) >= zipBins*e.Frames(); at += e.Step() {
		last := [2]int32{int32(rng.IntN(size)), int32(rng.IntN(size))}
		for i, row := range o.Hear(x[:zipBins*e.Frames()]) {
			h := e.joined(w, row, last)
			switch f := at + 4*i; {
			case f < 580:
				heard = append(heard, h)
			case f > 650:
				silence = append(silence, h)
			}
		}
		x = x[zipBins*e.Step():]
	}
	speech, quiet := heard.mean(), silence.mean()
	far := 0.0
	for c := range speech {
		far += (quiet[c] - speech[c]) * (quiet[c] - speech[c])
	}
	weight, bias := w.get("joiner.weight").v, w.get("joiner.bias").v
	for i := range size {
		of := weight[i*zipOut:][:zipOut]
		bias[i] = 0
		for c := range of {
			if i == 0 {
				of[c] = float32(zipSilence / far * (quiet[c] - speech[c]))
			}
			bias[i] -= of[c] * float32(speech[c])
		}
	}
	above := make([]float64, len(heard))
	for r, logits := range w.linear64(heard, "joiner") {
		above[r] = slices.Max(logits[1:]) - logits[0]
	}
	slices.Sort(above)
	bias[0] += float32(above[len(above)/2])
}

// zipNet is the encoder in the making.
type zipNet struct {
	builder
	e    Zipformer
	news map[string][]graph.Value // new states of the layers, by their kind and stage
}

// state is a layer's part of a state, in the dimensions given.
func (g zipNet) state(in graph.Value, layer int, dims ...int) graph.Value {
	return g.Reshape(g.Slice(in, 0, layer, 1), dims...)
}

// turned swaps places and channels.
func (g zipNet) turned(x graph.Value) graph.Value { return g.Transpose(x, 0, 2, 1) }

func (e Zipformer) encoder(w *weights) *graph.Graph {
	g := zipNet{newBuilder(w), e, map[string][]graph.Value{}}
	const d = zipState
	x := g.Input("x", axcl.FP32, 1, e.Frames(), zipBins)
	states := map[string]graph.Value{}
	for _, kind := range zipKinds {
		for i, s := range e.stages() {
			name := fmt.Sprintf("%s_%d", kind.name, i)
			states[name] = g.Input("cached_"+name, kind.typ, kind.dims(s)...)
		}
	}
	x = g.Mul(g.Add(x, g.Scalar(zipShift)), g.Scalar(zipScale))
	x = g.turned(g.SiLU(g.conv(g.turned(x), "embed", graph.Conv{Stride: graph.Both(4)})))
	for i, s := range e.stages() {
		n := e.Step() / 4 / s.joins
		y := g.Reshape(g.Mean(g.Reshape(x, 1, n, s.joins, d), 2), 1, n, d)
		for l := range s.layers {
			y = g.layer(y, states, i, l, s)
		}
		y = g.Expand(g.Reshape(y, 1, n, 1, d), 1, n, s.joins, d)
		x = g.Add(x, g.Reshape(y, 1, n*s.joins, d))
	}
	g.Output("encoder_out", axcl.FP32, g.linear(g.norm(x, "norm", zipEps), "encoder_proj"))
	for _, kind := range zipKinds {
		for i := range e.stages() {
			name := fmt.Sprintf("%s_%d", kind.name, i)
			g.Output("new_cached_"+name, kind.typ, g.Concat(0, g.news[name]...))
		}
	}
	return g.Graph
}

// zipKinds are the states of a stage.
var zipKinds = []struct {
	name string
	typ  axcl.Type
	dims func(s zipStage) []int
}{
	{"len", axcl.Int32, func(s zipStage) []int { return []int{s.layers, 1} }},
	{"avg", axcl.FP32, func(s zipStage) []int { return []int{s.layers, 1, zipState} }},
	{"key", axcl.FP32, func(s zipStage) []int { return []int{s.layers, s.left, 1, zipKeys} }},
	{"val", axcl.FP32, func(s zipStage) []int { return []int{s.layers, s.left, 1, zipValues} }},
	{"val2", axcl.FP32, func(s zipStage) []int { return []int{s.layers, s.left, 1, zipValues} }},
	{"conv1", axcl.FP32, func(s zipStage) []int { return []int{s.layers, 1, zipState, zipPast} }},
	{"conv2", axcl.FP32, func(s zipStage) []int { return []int{s.layers, 1, zipState, zipPast} }},
}

// layer is one layer of a stage, which takes its part of the states and keeps the new ones.
func (g zipNet) layer(y graph.Value, states map[string]graph.Value, stage, l int, s zipStage) graph.Value {
	const d = zipState
	n, name := g.Dims(y)[1], zipName(stage, l)
	of := func(kind string) string { return fmt.Sprintf("%s_%d", kind, stage) }
	keep := func(kind string, x graph.Value, dims ...int) {
		g.news[of(kind)] = append(g.news[of(kind)], g.Reshape(x, dims...))
	}
	// The mean of all rows so far.
	length := g.Float(g.state(states[of("len")], l, 1, 1, 1))
	until := make([]float32, n*n)
	places := make([]float32, n)
	for r := range n {
		places[r] = float32(r + 1)
		for k := range r + 1 {
			until[r*n+k] = 1
		}
	}
	sum := g.Add(g.MatMul(g.Const(graph.Float32(until, 1, n, n)), y), g.Mul(g.state(states[of("avg")], l, 1, 1, d), length))
	mean := g.Div(sum, g.Add(g.Const(graph.Float32(places, 1, n, 1)), length))
	keep("len", g.Int(g.Add(length, g.Scalar(float32(n)))), 1, 1)
	keep("avg", g.Slice(mean, 1, n-1, 1), 1, 1, d)
	y = g.Add(y, g.Mul(mean, g.weight(name+".pool")))

	a := g.norm(y, name+".norm1", zipEps)
	q := g.linear(a, name+".query")
	rows := func(kind string, x graph.Value, width int) graph.Value {
		all := g.Concat(1, g.state(states[of(kind)], l, 1, s.left, width), x)
		keep(kind, g.Slice(all, 1, n, s.left), 1, s.left, 1, width)
		return all
	}
	keys := rows("key", g.linear(a, name+".key"), zipKeys)
	bias := g.Const(graph.Float32(zipBias(n, s.left), 1, 1, n, s.left+n))
	for k, at := range []struct{ values, past string }{{"val", "conv1"}, {"val2", "conv2"}} {
		part := fmt.Sprint(k + 1)
		values := rows(at.values, g.linear(a, name+".value"+part), zipValues)
		seen := g.Attention(q, keys, values, bias, zipHeads, float32(1/root(zipKeys/zipHeads)))
		y = g.Add(y, g.linear(seen, name+".out"+part))
		a = g.norm(y, name+".norm2", zipEps)
		all := g.Concat(2, g.state(states[of(at.past)], l, 1, d, zipPast), g.turned(a))
		keep(at.past, g.Slice(all, 2, n, zipPast), 1, 1, d, zipPast)
		y = g.Add(y, g.turned(g.SiLU(g.conv(all, name+".conv"+part, graph.Conv{Groups: d}))))
	}
	return g.norm(y, name+".norm3", zipEps)
}

// zipBias is what is added to the scores: rows that are farther away count less.
func zipBias(n, left int) (all []float32) {
	for r := range n {
		for k := range left + n {
			all = append(all, float32(-4*math.Abs(float64(left+r-k))/float64(left)))
		}
	}
	return all
}

func (e Zipformer) decoder(w *weights) *graph.Graph {
	g := newBuilder(w)
	x := g.Gather(g.weight("decoder.embedding"), g.Reshape(g.Input("y", axcl.Int32, 1, 2), 2), 0)
	x = g.ReLU(g.linear(g.Reshape(x, 1, 2*zipOut), "decoder.conv"))
	g.Output("decoder_out", axcl.FP32, g.linear(x, "decoder_proj"))
	return g.Graph
}

func (e Zipformer) joiner(w *weights) *graph.Graph {
	g := newBuilder(w)
	x := g.Add(g.Input("encoder_out", axcl.FP32, 1, zipOut), g.Input("decoder_out", axcl.FP32, 1, zipOut))
	g.Output("logits", axcl.FP32, g.linear(g.Tanh(x), "joiner"))
	return g.Graph
}
