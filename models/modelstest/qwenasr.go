package modelstest

import (
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/axmodel/graph"
)

// QwenASR says how a recogniser of speech is made: a Qwen3-ASR of random weights, whose encoder of
// sound has all of its operations, narrow and shallow, before a language model of three layers.
type QwenASR struct {
	Seed uint64
	Mask axcl.Type // of the encoder's feature_attention_mask: FP32 (0 stands for it) or Int32
	Bad  string    // a token that the tokenizer lacks; empty: none
}

const (
	hearerChannels = 4  // of the convolutions
	hearerWidth    = 32 // of the encoder's rows
	hearerHeads    = 2
	hearerFrames   = 3000
	hearerMels     = 128
	hearerChunk    = 100 // frames that are convolved together
	hearerRows     = 13  // of a chunk
	hearerAll      = hearerFrames / hearerChunk * hearerRows
	hearerEps      = 1e-5
	hearerVocab    = axmodeltest.Vocab
)

// hearerWords are the tokens after those of the bytes.
var hearerWords = []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|audio_start|>", "<|audio_end|>", "<|audio_pad|>",
	"<asr_text>", "language", " English", " Chinese", " None"}

// hearerTokens is a tokenizer in the vendor's form: bytes, words, and words that say their number.
func hearerTokens() string {
	var b strings.Builder
	special := ""
	for i := range 7 {
		special += fmt.Sprintf("%d ", 256+i)
	}
	fmt.Fprintf(&b, "430 1\n7 1 0\n%s258\n%d\n", special, hearerVocab)
	for id := range hearerVocab {
		text := []byte{byte(id)}
		switch {
		case id >= 256+len(hearerWords):
			text = fmt.Appendf(nil, " w%d", id)
		case id >= 256:
			text = []byte(hearerWords[id-256])
		}
		fmt.Fprintln(&b, base64.StdEncoding.EncodeToString(text))
	}
	return b.String()
}

// Paths are the two nets of the encoder of a package that Write made in dir.
func (e QwenASR) Paths(dir string) (front, encoder string) {
	return filepath.Join(dir, "conv_frontend.axmodel"), filepath.Join(dir, "encoder.axmodel")
}

// Write makes a package of random weights, which every software card runs, with the vendor's files
// and tensors.
func (e QwenASR) Write(dir string) error {
	_, err := e.WriteChecked(dir)
	return err
}

// WriteChecked is Write. It returns the language model's checkpoint, from which an oracle computes
// what the model says: its rows of sound are those of Rows.
func (e QwenASR) WriteChecked(dir string) (*axmodeltest.Checkpoint, error) {
	arch, ok := axmodeltest.Find("qwen3_vl")
	if !ok {
		return nil, fmt.Errorf("modelstest: there is no qwen3_vl")
	}
	from, err := os.MkdirTemp("", "qwenasr")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(from)
	c, err := axmodeltest.WriteCheckpoint(from, arch, e.Seed)
	if err != nil {
		return nil, err
	}
	history := []int{}
	for cells := 0; cells < 448; cells += 64 {
		history = append(history, cells)
	}
	out := filepath.Join(from, "package")
	if _, err := compile.Run(context.Background(), compile.Options{From: from, Out: out, Context: 1023, Chunk: 64, History: history,
		Name: "qwen3_asr", TextOnly: true}); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	layers, head := axmodel.Files(out, "qwen3_asr", 64, arch.Layers)
	for _, file := range append(layers, head, filepath.Join(out, axmodel.EmbedFile)) {
		if err := os.Rename(file, filepath.Join(dir, filepath.Base(file))); err != nil {
			return nil, err
		}
	}
	w := e.weights()
	front, encoder := e.Paths(dir)
	if err := e.front(w).Save(front); err != nil {
		return nil, err
	}
	if err := e.encoder(w).Save(encoder); err != nil {
		return nil, err
	}
	f := &writer{dir: dir}
	tokens := hearerTokens()
	if e.Bad != "" {
		tokens = strings.ReplaceAll(tokens, base64.StdEncoding.EncodeToString([]byte(e.Bad)),
			base64.StdEncoding.EncodeToString([]byte(" other")))
	}
	f.text("qwen3_tokenizer.txt", tokens)
	f.text("post_config.json", "{}")
	f.json("config.json", map[string]any{"model_type": "qwen3_asr", "thinker_config": map[string]any{"text_config": map[string]any{
		"max_position_embeddings": 65536, "num_attention_heads": arch.Heads}}})
	return c, f.err
}

func (e QwenASR) weights() *weights { return draw(e, e.Seed, e.draw) }

func (e QwenASR) draw(w *weights) {
	const d = hearerWidth
	in := 1
	for i := range 3 {
		name := fmt.Sprintf("conv2d%d", i+1)
		w.normal(name+".weight", 0, 1.5/math.Sqrt(float64(9*in)), hearerChannels, in, 3, 3)
		w.normal(name+".bias", 0, 0.1, hearerChannels)
		in = hearerChannels
	}
	w.linear("conv_out", 1.5, hearerChannels*hearerMels/8, d)
	w.set("positions", sinusoids(0, hearerRows, d), 1, hearerRows, d)
	w.norm("layer.norm1", d)
	for _, name := range []string{"q", "k", "v", "o"} {
		w.linear("layer."+name, 1.5, d, d)
	}
	w.norm("layer.norm2", d)
	w.linear("layer.fc1", 1, d, 2*d)
	w.linear("layer.fc2", 1, 2*d, d)
	w.norm("ln_post", d)
	w.linear("proj1", 1, d, d)
	hidden, _ := axmodeltest.Find("qwen3_vl")
	w.linear("proj2", 1, d, hidden.Hidden)
}

// front is the first net: three convolutions of stride 2, over 100 frames at a time.
func (e QwenASR) front(w *weights) *graph.Graph {
	g := newBuilder(w)
	const chunks = hearerFrames / hearerChunk
	x := g.Input("input_features", axcl.FP32, 1, hearerFrames, hearerMels)
	x = g.Reshape(x, chunks, 1, hearerChunk, hearerMels)
	for i := range 3 {
		name := fmt.Sprintf("conv2d%d", i+1)
		x = g.GELU(g.Conv2D(x, g.weight(name+".weight"), g.weight(name+".bias"), graph.Conv{Stride: graph.Both(2), Pad: 1}))
	}
	x = g.Reshape(g.Transpose(x, 0, 2, 1, 3), chunks, hearerRows, hearerChannels*hearerMels/8)
	x = g.Add(g.linear(x, "conv_out"), g.weight("positions"))
	g.Output("conv_output", axcl.FP32, g.Reshape(x, 1, hearerAll, hearerWidth))
	return g.Graph
}

// encoder is the second: a layer whose rows see those that count.
func (e QwenASR) encoder(w *weights) *graph.Graph {
	g := newBuilder(w)
	x := g.Input("input_features", axcl.FP32, 1, hearerAll, hearerWidth)
	mask := g.Input("feature_attention_mask", e.mask(), 1, hearerAll)
	if e.mask() == axcl.Int32 {
		mask = g.Float(mask)
	}
	hidden := g.Reshape(g.Mul(g.Sub(mask, g.Scalar(1)), g.Scalar(1e9)), 1, 1, 1, hearerAll)
	a := g.norm(x, "layer.norm1", hearerEps)
	a = g.Attention(g.linear(a, "layer.q"), g.linear(a, "layer.k"), g.linear(a, "layer.v"), hidden, hearerHeads,
		float32(1/math.Sqrt(hearerWidth/hearerHeads)))
	x = g.Add(x, g.linear(a, "layer.o"))
	x = g.Add(x, g.linear(g.GELU(g.linear(g.norm(x, "layer.norm2", hearerEps), "layer.fc1")), "layer.fc2"))
	x = g.linear(g.GELU(g.linear(g.norm(x, "ln_post", hearerEps), "proj1")), "proj2")
	g.Output("output", axcl.FP32, x)
	return g.Graph
}

func (e QwenASR) mask() axcl.Type {
	if e.Mask == axcl.TypeNone {
		return axcl.FP32
	}
	return e.Mask
}

// Rows computes the encoder's first n rows for features, 128 of each of 3,000 frames, in float64:
// what stands in a prompt in the places of sound.
func (e QwenASR) Rows(features []float32, n int) [][]float64 {
	w := e.weights()
	frames := rowsOf(features, hearerMels)
	var x rows
	for at := 0; len(x) < n; at += hearerChunk {
		x = append(x, e.chunk64(w, frames[at:at+hearerChunk])...)
	}
	x = x[:n]
	a := w.norm64(x, "layer.norm1", hearerEps)
	a = attend(w.linear64(a, "layer.q"), w.linear64(a, "layer.k"), w.linear64(a, "layer.v"), hearerHeads,
		func(int, int) bool { return true })
	x = x.plus(w.linear64(a, "layer.o"))
	x = x.plus(w.linear64(w.linear64(w.norm64(x, "layer.norm2", hearerEps), "layer.fc1").each(gelu64), "layer.fc2"))
	return w.linear64(w.linear64(w.norm64(x, "ln_post", hearerEps), "proj1").each(gelu64), "proj2")
}

// chunk64 is the first net for one chunk.
func (e QwenASR) chunk64(w *weights, frames rows) rows {
	planes := []rows{frames}
	for i := range 3 {
		name := fmt.Sprintf("conv2d%d", i+1)
		planes = w.planes64(planes, name)
	}
	x := newRows(hearerRows, hearerChannels*hearerMels/8)
	for t := range x {
		for c, p := range planes {
			copy(x[t][c*hearerMels/8:], p[t])
		}
	}
	return w.linear64(x, "conv_out").plus(rowsOf(w.get("positions").v, hearerWidth))
}

// planes64 convolves planes with squares of three, at every second place, and bends what comes out.
func (w *weights) planes64(in []rows, name string) (out []rows) {
	weight, bias := w.get(name+".weight").v, w.get(name+".bias").v
	down, across := (len(in[0])+1)/2, (len(in[0][0])+1)/2
	for o := range bias {
		p := newRows(down, across)
		for y := range p {
			for x := range p[y] {
				sum := float64(bias[o])
				for c, plane := range in {
					for dy := range 3 {
						for dx := range 3 {
							at, col := 2*y+dy-1, 2*x+dx-1
							if at >= 0 && at < len(plane) && col >= 0 && col < len(plane[0]) {
								sum += float64(weight[((o*len(in)+c)*3+dy)*3+dx]) * plane[at][col]
							}
						}
					}
				}
				p[y][x] = gelu64(sum)
			}
		}
		out = append(out, p)
	}
	return out
}
