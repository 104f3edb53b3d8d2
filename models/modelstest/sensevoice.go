package modelstest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/graph"
)

// SenseVoice says how a recogniser of speech is made: a SenseVoiceSmall of random weights, with all
// of its operations, narrow and shallow.
type SenseVoice struct {
	Seed   uint64
	Layout string // "Axera" or "sherpa"
	N      int    // rows of features in a call; 0 means 64
}

const (
	senseWidth  = 560 // of a row: seven frames of 80 bins
	senseState  = 64
	senseHeads  = 4
	senseKernel = 11 // rows that the memory block sees
	senseExtra  = 4  // rows before those of speech
	senseEps    = 1e-12
)

// SenseVoiceLanguages are the numbers of the languages, and what row 0 of the output says for each.
var SenseVoiceLanguages = map[int32]string{3: "<|zh|>", 4: "<|en|>", 7: "<|yue|>", 11: "<|ja|>", 12: "<|ko|>", 13: "<|nospeech|>"}

// senseSpecials are the tokens of rows 0 to 3: of which row, and for which number in the prompt.
var senseSpecials = []struct {
	token string
	row   int
	id    int32
}{{"<|zh|>", 0, 3}, {"<|en|>", 0, 4}, {"<|yue|>", 0, 7}, {"<|ja|>", 0, 11}, {"<|ko|>", 0, 12}, {"<|nospeech|>", 0, 13},
	{"<|NEUTRAL|>", 1, 1}, {"<|Speech|>", 2, 2}, {"<|withitn|>", 3, 14}, {"<|woitn|>", 3, 15}}

// Tokens are the vocabulary, by id. Token 0 is the blank; ▁ begins a word.
func (e SenseVoice) Tokens() []string {
	all := []string{"<blank>", "<s>", "</s>"}
	for _, s := range senseSpecials {
		all = append(all, s.token)
	}
	return append(all, strings.Fields("▁the ▁a ▁cat ▁dog ▁sat ▁on ▁mat ▁card ▁is ▁fast ▁slow ▁red ▁blue ▁house ▁speech ▁model ▁runs ▁here"+
		" s ing ed er ly t n o e i . , ? 你 好 我 们 今 天 气 の は 。 ， 가 나 ▁ ▁one ▁two ▁ten")...)
}

// n is how many rows of features a call takes.
func (e SenseVoice) n() int {
	if e.N == 0 {
		return 64
	}
	return e.N
}

// Path is the net of a package that Write made in dir.
func (e SenseVoice) Path(dir string) string {
	if e.Layout == "sherpa" {
		return filepath.Join(dir, "model-10-seconds.axmodel")
	}
	return filepath.Join(dir, "sensevoice.axmodel")
}

// Write makes a package of random weights, which every software card runs, in the layout's files
// and tensors. Logits gives what its net gives.
func (e SenseVoice) Write(dir string) error {
	if err := layout("SenseVoice", e.Layout, "Axera", "sherpa"); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	w := e.weights()
	if err := e.graph(w).Save(e.Path(dir)); err != nil {
		return err
	}
	f := &writer{dir: dir}
	var list strings.Builder
	for i, token := range e.Tokens() {
		if e.Layout == "sherpa" {
			fmt.Fprintf(&list, "%s %d\n", token, i)
		} else {
			fmt.Fprintln(&list, token)
		}
	}
	f.text("tokens.txt", list.String())
	if e.Layout != "sherpa" {
		numbers := func(name string) string { return strings.Trim(fmt.Sprint(w.get(name).v), "[]") }
		f.text("am.mvn", fmt.Sprintf("<Nnet> \n<Splice> %d %d \n[ 0 ]\n<AddShift> %[1]d %[1]d \n<LearnRateCoef> 0 [ %[3]s ]\n"+
			"<Rescale> %[1]d %[1]d \n<LearnRateCoef> 0 [ %[4]s ]\n</Nnet> \n", senseWidth, senseWidth, numbers("shift"), numbers("scale")))
	}
	return f.err
}

// senseLayers are the blocks: the first changes the width, and the last has norms of its own.
var senseLayers = []string{"encoders0.0", "encoders.0", "tp_encoders.0"}

func (e SenseVoice) weights() *weights { return draw(e, e.Seed, e.draw) }

func (e SenseVoice) draw(w *weights) {
	const d = senseState
	w.normal("shift", -12, 1.5, senseWidth)
	w.normal("scale", 0.17, 0.01, senseWidth)
	w.normal("embed.weight", 0, 1, 16, senseWidth)
	for i, name := range senseLayers {
		in := d
		if i == 0 {
			in = senseWidth
		}
		w.norm(name+".norm1", in)
		w.linear(name+".self_attn.linear_q_k_v", 1.4, in, 3*d)
		w.normal(name+".self_attn.fsmn_block.weight", 0, 0.12, d, 1, senseKernel)
		w.linear(name+".self_attn.linear_out", 0.6, d, d)
		w.norm(name+".norm2", d)
		w.linear(name+".feed_forward.w_1", 1, d, 4*d)
		w.linear(name+".feed_forward.w_2", 1, 4*d, d)
	}
	w.norm("after_norm", d)
	w.norm("tp_norm", d)
	w.linear("ctc.ctc_lo", 3, d, len(e.Tokens()))
	e.teach(w)
}

// teach has the special tokens come out where they belong, and about every second row of speech
// give none: a special token's weights point from what the encoder makes of speech to what it makes
// of the token's own row, and the blank is above half of what the other tokens reach.
func (e SenseVoice) teach(w *weights) {
	const d = senseState
	in := SenseVoice{Layout: "Axera", N: 16}
	var heard rows
	own := map[string]rows{}
	for i := range 18 {
		speech := make([]float32, in.N*senseWidth)
		for k := range speech {
			speech[k] = float32(w.rng.NormFloat64())
		}
		prompt := [4]int32{senseSpecials[i%6].id, 1, 2, 14 + int32(i/9)}
		h := in.encoded(w, speech, nil, prompt)
		for _, s := range senseSpecials {
			if prompt[s.row] == s.id {
				own[s.token] = append(own[s.token], h[s.row])
			}
		}
		heard = append(heard, h[senseExtra:]...)
	}
	mean := heard.mean()
	tops := make([]float64, len(heard))
	weight, bias := w.get("ctc.ctc_lo.weight").v, w.get("ctc.ctc_lo.bias").v
	for i, token := range e.Tokens() {
		of := weight[i*d : (i+1)*d]
		if own, ok := own[token]; ok {
			h := own.mean()
			// 35 where the row is its own, −65 where it is as speech is.
			far := 0.0
			for c := range h {
				far += (h[c] - mean[c]) * (h[c] - mean[c])
			}
			bias[i] = -65
			for c := range h {
				of[c] = float32(100 / far * (h[c] - mean[c]))
				bias[i] -= of[c] * float32(mean[c])
			}
			continue
		}
		for c := range of {
			if i == 0 {
				of[c] /= 10
			}
			bias[i] -= of[c] * float32(mean[c])
		}
		for r, row := range heard {
			logit := float64(bias[i])
			for c := range of {
				logit += float64(of[c]) * row[c]
			}
			tops[r] = max(tops[r], logit)
		}
	}
	slices.Sort(tops)
	bias[0] += float32(tops[len(tops)/2])
}

func (e SenseVoice) graph(w *weights) *graph.Graph {
	g, n := newBuilder(w), e.n()
	const d = senseState
	total := n + senseExtra
	var x, prompt, hidden, real graph.Value
	if e.Layout == "sherpa" {
		x = g.Input("x", axcl.FP32, 1, n, senseWidth)
		x = g.Mul(g.Add(x, g.weight("shift")), g.weight("scale"))
		prompt = g.Input("prompt", axcl.Int32, 4)
	} else {
		x = g.Input("speech", axcl.FP32, 1, n, senseWidth)
		mask := g.Float(g.Input("mask", axcl.Int32, 1, 1, total))
		// 0 where a row counts, and what leaves nothing of a score where it does not.
		hidden = g.Reshape(g.Mul(g.Sub(mask, g.Scalar(1)), g.Scalar(1e9)), 1, 1, 1, total)
		real = g.Reshape(mask, 1, total, 1)
		prompt = g.Concat(0, g.Input("language", axcl.Int32, 1), g.Const(graph.Ints([]int32{1, 2, 14}, 3)))
	}
	x = g.Concat(1, g.Reshape(g.Gather(g.weight("embed.weight"), prompt, 0), 1, senseExtra, senseWidth), x)
	x = g.Add(g.Mul(x, g.Scalar(8)), g.Const(graph.Float32(sinusoids(1, total, senseWidth), total, senseWidth)))
	counted := func(v graph.Value) graph.Value {
		if e.Layout == "sherpa" {
			return v
		}
		return g.Mul(v, real)
	}
	for i, name := range senseLayers {
		qkv := g.Split(g.linear(g.norm(x, name+".norm1", senseEps), name+".self_attn.linear_q_k_v"), 2, d, d, d)
		v := counted(qkv[2])
		memory := g.conv(g.Transpose(v, 0, 2, 1), name+".self_attn.fsmn_block", graph.Conv{Pad: senseKernel / 2, Groups: d})
		memory = counted(g.Add(g.Transpose(memory, 0, 2, 1), v))
		a := g.Attention(qkv[0], qkv[1], qkv[2], hidden, senseHeads, float32(1/root(d/senseHeads)))
		a = g.Add(g.linear(a, name+".self_attn.linear_out"), memory)
		if i > 0 {
			a = g.Add(x, a)
		}
		f := g.ReLU(g.linear(g.norm(a, name+".norm2", senseEps), name+".feed_forward.w_1"))
		x = g.Add(a, g.linear(f, name+".feed_forward.w_2"))
		if i == len(senseLayers)-2 {
			x = g.norm(x, "after_norm", senseEps)
		}
	}
	logits := g.linear(g.norm(x, "tp_norm", senseEps), "ctc.ctc_lo")
	if e.Layout == "sherpa" {
		g.Output("logits", axcl.FP32, logits)
	} else {
		g.Output("ctc_logits", axcl.FP32, logits)
		g.Output("encoder_out_lens", axcl.Int32, g.Int(g.Reshape(g.Sum(real, 1), 1)))
	}
	return g.Graph
}

// Logits is what the net of the package gives, in float64: a row for each of the prompt and of x,
// N rows of 560. In the layout Axera x is shifted and scaled as am.mvn says, mask has a 1 for each
// row that counts, the prompt's included, or is nil where all count, and of the prompt the net has
// the last three itself: 1, 2 and 14. In the layout sherpa x is as it was computed, and mask is
// nil.
func (e SenseVoice) Logits(x []float32, mask []int32, prompt [4]int32) [][]float64 {
	w := e.weights()
	if e.Layout == "sherpa" {
		shift, scale := w.get("shift").v, w.get("scale").v
		y := make([]float32, len(x))
		for i, v := range x {
			y[i] = (v + shift[i%senseWidth]) * scale[i%senseWidth]
		}
		x = y
	}
	return w.linear64(e.encoded(w, x, mask, prompt), "ctc.ctc_lo")
}

// encoded is what the last norm gives.
func (e SenseVoice) encoded(w *weights, speech []float32, mask []int32, prompt [4]int32) rows {
	const d = senseState
	embed := w.get("embed.weight").rows()
	var x rows
	for _, id := range prompt {
		x = append(x, embed[id])
	}
	x = append(x, rowsOf(speech, senseWidth)...)
	x = x.each(func(v float64) float64 { return v * root(d) }).plus(rowsOf(sinusoids(1, len(x), senseWidth), senseWidth))
	counts := func(i int) bool { return mask == nil || mask[i] != 0 }
	only := func(x rows) rows {
		y := newRows(len(x), len(x[0]))
		for i := range x {
			if counts(i) {
				copy(y[i], x[i])
			}
		}
		return y
	}
	for i, name := range senseLayers {
		qkv := w.linear64(w.norm64(x, name+".norm1", senseEps), name+".self_attn.linear_q_k_v")
		v := qkv.columns(2*d, 3*d)
		memory := w.conv64(only(v).turned(), name+".self_attn.fsmn_block", walk{pad: senseKernel / 2, groups: d}).turned()
		memory = only(memory.plus(only(v)))
		a := attend(qkv.columns(0, d), qkv.columns(d, 2*d), v, senseHeads, func(_, j int) bool { return counts(j) })
		a = w.linear64(a, name+".self_attn.linear_out").plus(memory)
		if i > 0 {
			a = x.plus(a)
		}
		f := w.linear64(w.norm64(a, name+".norm2", senseEps), name+".feed_forward.w_1").each(relu64)
		x = a.plus(w.linear64(f, name+".feed_forward.w_2"))
		if name == "encoders.0" {
			x = w.norm64(x, "after_norm", senseEps)
		}
	}
	return w.norm64(x, "tp_norm", senseEps)
}
