package modelstest

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/graph"
	"github.com/axle-llm/axle/internal/bf16"
)

// EmbeddingGemma says how an EmbeddingGemma 2 is made: layers of random weights that see the whole
// text, narrow and shallow, in a net for each length.
type EmbeddingGemma struct {
	Seed    uint64
	Unnamed bool // the configuration lists no nets: their tensors tell what they are
}

const (
	gemmaWidth  = 32
	gemmaHeads  = 4
	gemmaInner  = 48
	gemmaLayers = 2
	gemmaVector = 24
	gemmaScale  = 5.75
	gemmaEps    = 1e-6
	gemmaTheta  = 10000
)

// Ids of the package's tokenizer. Bytes follow.
const (
	GemmaPad = iota
	GemmaEOS
	GemmaBOS
	GemmaBytes
)

const gemmaVocab = GemmaBytes + 256

// GemmaLengths are the rows that its nets take.
func GemmaLengths() []int { return []int{16, 32, 64} }

// Dims is how many values its vectors have.
func (e EmbeddingGemma) Dims() int { return gemmaVector }

// Path is the net of a length, in a package that Write made in dir.
func (e EmbeddingGemma) Path(dir string, length int) string {
	return filepath.Join(dir, fmt.Sprintf("encoder_%d.axmodel", length))
}

// Config is the package's configuration.
func (e EmbeddingGemma) Config() map[string]any {
	c := map[string]any{
		"model_type": "embedding_gemma2", "model_name": "axle/embeddinggemma-small", "tokenizer_type": "Gemma4",
		"url_tokenizer_model": "gemma_tokenizer.txt", "filename_tokens_embed": "model.embed_tokens.weight.bfloat16.bin",
		"tokens_embed_num": gemmaVocab, "tokens_embed_size": gemmaWidth, "embed_scale": gemmaScale, "embedding_dim": gemmaVector,
		"matryoshka_dims": []int{24, 16, 8}, "bos_token_id": GemmaBOS, "eos_token_id": GemmaEOS, "pad_token_id": GemmaPad,
		"prompts": map[string]string{"query": "Q: ", "document": "D: ", "none": ""}, "default_prompt": "",
	}
	if !e.Unnamed {
		names := []string{}
		for _, n := range GemmaLengths() {
			names = append(names, filepath.Base(e.Path("", n)))
		}
		c["encoder_axmodels"] = names
	}
	return c
}

// Write makes a package of random weights, which every software card runs. Oracle gives what its
// nets give.
func (e EmbeddingGemma) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	w := e.weights()
	for _, n := range GemmaLengths() {
		if err := e.graph(w, n).Save(e.Path(dir, n)); err != nil {
			return err
		}
	}
	f := &writer{dir: dir}
	f.json("config.json", e.Config())
	var table strings.Builder
	for _, v := range w.get("embed").v {
		table.Write(binary.LittleEndian.AppendUint16(nil, bf16.Round(v)))
	}
	f.text("model.embed_tokens.weight.bfloat16.bin", table.String())
	f.text("gemma_tokenizer.txt", gemmaTokenizer())
	return f.err
}

// gemmaTokenizer has a token for each byte, in the vendor's form.
func gemmaTokenizer() string {
	var b strings.Builder
	fmt.Fprintf(&b, "430 1\n3 1 1\n%d %d %d %d %d\n%d\n", GemmaPad, GemmaEOS, GemmaBOS, GemmaEOS, GemmaBOS, gemmaVocab)
	for id := range gemmaVocab {
		word := []byte{byte(id - GemmaBytes)}
		if id < GemmaBytes {
			word = []byte([]string{"<pad>", "<eos>", "<bos>"}[id])
		}
		fmt.Fprintln(&b, base64.StdEncoding.EncodeToString(word))
	}
	return b.String()
}

func (e EmbeddingGemma) weights() *weights {
	return draw(EmbeddingGemma{Seed: e.Seed}, e.Seed, func(w *weights) {
		w.normal("embed", 0, 0.3, gemmaVocab, gemmaWidth)
		for i, v := range w.get("embed").v {
			w.get("embed").v[i] = bf16.Float32(bf16.Round(v))
		}
		plain := func(name string, in, out int) { w.normal(name+".weight", 0, 1.5/root(in), out, in) }
		scale := func(name string, n int) { w.normal(name+".weight", 1, 0.2, n) }
		for i := range gemmaLayers {
			at := fmt.Sprintf("layers.%d.", i)
			for _, p := range []string{"q", "k", "v", "o"} {
				plain(at+p, gemmaWidth, gemmaWidth)
			}
			plain(at+"gate", gemmaWidth, gemmaInner)
			plain(at+"up", gemmaWidth, gemmaInner)
			plain(at+"down", gemmaInner, gemmaWidth)
			for _, n := range []string{"before", "after", "inner", "outer"} {
				scale(at+n, gemmaWidth)
			}
			scale(at+"q_norm", gemmaWidth/gemmaHeads)
			scale(at+"k_norm", gemmaWidth/gemmaHeads)
		}
		scale("norm", gemmaWidth)
		plain("project", gemmaWidth, gemmaVector)
	})
}

// turns are the cosines and sines of each place's angles.
func gemmaTurns(n int) (cos, sin []float32) {
	half := gemmaWidth / gemmaHeads / 2
	for i := range n {
		for k := range half {
			a := float64(i) * math.Pow(gemmaTheta, -float64(k)/float64(half))
			cos, sin = append(cos, float32(math.Cos(a))), append(sin, float32(math.Sin(a)))
		}
	}
	return cos, sin
}

func (e EmbeddingGemma) graph(w *weights, n int) *graph.Graph {
	g := newBuilder(w)
	d := gemmaWidth / gemmaHeads
	x := g.Input("inputs_embeds", axcl.FP32, 1, n, gemmaWidth)
	valid := g.Input("valid", axcl.FP32, 1, n)
	mask := g.Reshape(g.Mul(g.Sub(valid, g.Scalar(1)), g.Scalar(10000)), 1, 1, 1, n)
	norm := func(x graph.Value, name string) graph.Value { return g.RMSNorm(x, g.weight(name+".weight"), gemmaEps) }
	c, s := gemmaTurns(n)
	cos, sin := g.Const(graph.Float32(c, 1, n, 1, d/2)), g.Const(graph.Float32(s, 1, n, 1, d/2))
	turned := func(x graph.Value, name string) graph.Value {
		x = norm(g.Reshape(x, 1, n, gemmaHeads, d), name)
		a, b := g.Slice(x, 3, 0, d/2), g.Slice(x, 3, d/2, d/2)
		x = g.Concat(3, g.Sub(g.Mul(a, cos), g.Mul(b, sin)), g.Add(g.Mul(b, cos), g.Mul(a, sin)))
		return g.Reshape(x, 1, n, gemmaWidth)
	}
	for i := range gemmaLayers {
		at := fmt.Sprintf("layers.%d.", i)
		y := norm(x, at+"before")
		y = g.Attention(turned(g.linear(y, at+"q"), at+"q_norm"), turned(g.linear(y, at+"k"), at+"k_norm"), g.linear(y, at+"v"), mask,
			gemmaHeads, float32(1/root(d)))
		x = g.Add(x, norm(g.linear(y, at+"o"), at+"after"))
		y = norm(x, at+"inner")
		y = g.linear(g.Mul(g.GELUTanh(g.linear(y, at+"gate")), g.linear(y, at+"up")), at+"down")
		x = g.Add(x, norm(y, at+"outer"))
	}
	x = g.linear(norm(x, "norm"), "project")
	sum := g.Reshape(g.Sum(g.Mul(x, g.Reshape(valid, 1, n, 1)), 1), 1, gemmaVector)
	g.Output("embedding", axcl.FP32, g.Div(sum, g.Reshape(g.Sum(valid, 1), 1, 1)))
	return g.Graph
}

// Oracle is the vector of a text's ids, in float64: the mean of all rows, not normalised. No row
// that fills up takes part.
func (e EmbeddingGemma) Oracle(ids []int32) []float64 {
	w := e.weights()
	table := w.get("embed")
	x := make(rows, len(ids))
	for i, id := range ids {
		x[i] = table.row(int(id))
		for k := range x[i] {
			x[i][k] *= gemmaScale
		}
	}
	d := gemmaWidth / gemmaHeads
	norm := func(x rows, name string) rows {
		by := w.get(name + ".weight").v
		y := newRows(len(x), len(x[0]))
		for i := range x {
			for from := 0; from < len(x[i]); from += len(by) {
				square := 0.0
				for _, v := range x[i][from : from+len(by)] {
					square += v * v / float64(len(by))
				}
				for k, f := range by {
					y[i][from+k] = x[i][from+k] / math.Sqrt(square+gemmaEps) * float64(f)
				}
			}
		}
		return y
	}
	turned := func(x rows, name string) rows {
		x = norm(x, name) // of each head
		for i := range x {
			for from := 0; from < gemmaWidth; from += d {
				for k := range d / 2 {
					angle := float64(i) * math.Pow(gemmaTheta, -2*float64(k)/float64(d))
					a, b := x[i][from+k], x[i][from+k+d/2]
					x[i][from+k] = a*math.Cos(angle) - b*math.Sin(angle)
					x[i][from+k+d/2] = b*math.Cos(angle) + a*math.Sin(angle)
				}
			}
		}
		return x
	}
	gelu := func(x float64) float64 {
		return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}
	for i := range gemmaLayers {
		at := fmt.Sprintf("layers.%d.", i)
		y := norm(x, at+"before")
		y = attend(turned(w.linear64(y, at+"q"), at+"q_norm"), turned(w.linear64(y, at+"k"), at+"k_norm"), w.linear64(y, at+"v"),
			gemmaHeads, nil)
		x = x.plus(norm(w.linear64(y, at+"o"), at+"after"))
		y = norm(x, at+"inner")
		gate, up := w.linear64(y, at+"gate").each(gelu), w.linear64(y, at+"up")
		for r := range gate {
			for k := range gate[r] {
				gate[r][k] *= up[r][k]
			}
		}
		x = x.plus(norm(w.linear64(gate, at+"down"), at+"outer"))
	}
	return w.linear64(norm(x, "norm"), "project").mean()
}
