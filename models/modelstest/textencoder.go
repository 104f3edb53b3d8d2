package modelstest

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/graph"
)

// TextEncoder says how a text encoder is made.
type TextEncoder struct {
	Seed     uint64
	Length   int  // tokens that a text may have
	Dims     int  // of a vector, a multiple of 4
	Layers   int  // of attention and a feed-forward net each
	PerToken bool // the net gives a row for each token, and no vector of its own
}

// Words are those of the encoder's vocabulary, behind [PAD], [UNK], [CLS] and [SEP].
var Words = []string{"the", "cat", "dog", "sat", "on", "mat", "card", "fast", "slow", "red", "blue", "house", "##s", "##ing", ".", "?"}

// Write makes a package of a BERT with random weights, which both software cards run: its net has
// the tensors that bge's nets have, and its tokenizer.json BERT's form.
func (e TextEncoder) Write(dir string) error {
	name := filepath.Join(dir, "model", "encoder_u16_npu3.axmodel")
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := e.graph().Save(name); err != nil {
		return err
	}
	b, err := json.Marshal(bertTokenizer())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "tokenizer.json"), b, 0o644)
}

// graph is the net.
func (e TextEncoder) graph() *graph.Graph {
	r := rand.New(rand.NewPCG(e.Seed, 1))
	g, d, n := graph.New(), e.Dims, e.Length
	weight := func(scale float64, dims ...int) graph.Value {
		size := 1
		for _, k := range dims {
			size *= k
		}
		v := make([]float32, size)
		for i := range v {
			v[i] = float32(r.NormFloat64() * scale)
		}
		return g.Const(graph.Float32(v, dims...))
	}
	ones := make([]float32, d)
	for i := range ones {
		ones[i] = 1
	}
	norm := func(x graph.Value) graph.Value {
		return g.LayerNorm(x, g.Const(graph.Float32(ones, d)), weight(0.1, d), 1e-5)
	}
	linear := func(x graph.Value, in, out int) graph.Value {
		return g.Linear(x, weight(1/math.Sqrt(float64(in)), out, in), weight(0.1, out))
	}
	ids := g.Input("input_ids", axcl.Int32, 1, n)
	// 0 where a token is, −10000 where it only fills up: [PAD] is id 0.
	there := g.Min(g.Float(ids), g.Scalar(1))
	mask := g.Reshape(g.Mul(g.Sub(there, g.Scalar(1)), g.Scalar(10000)), 1, 1, 1, n)
	x := g.Gather(weight(1, 4+len(Words), d), g.Reshape(ids, n), 0)
	x = norm(g.Add(g.Reshape(x, 1, n, d), weight(0.3, 1, n, d)))
	for range e.Layers {
		a := g.Attention(linear(x, d, d), linear(x, d, d), linear(x, d, d), mask, 4, float32(1/math.Sqrt(float64(d/4))))
		x = norm(g.Add(x, linear(a, d, d)))
		x = norm(g.Add(x, linear(g.GELU(linear(x, d, 2*d)), 2*d, d)))
	}
	if e.PerToken {
		g.Output("last_hidden_state", axcl.FP32, x)
		return g
	}
	first := g.Reshape(g.Slice(x, 1, 0, 1), 1, d)
	length := g.Sqrt(g.Reshape(g.Sum(g.Mul(first, first), 1), 1, 1))
	g.Output("dense_vecs", axcl.FP32, g.Div(first, length))
	g.Output("sparse_vecs", axcl.FP32, linear(x, d, 1))
	g.Output("colbert_vecs", axcl.FP32, g.Slice(linear(x, d, d), 1, 1, n-1))
	return g
}

// bertTokenizer is a tokenizer.json of BERT's form.
func bertTokenizer() map[string]any {
	vocab := map[string]int{"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3}
	var added []map[string]any
	for i, word := range []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]"} {
		added = append(added, map[string]any{"id": i, "content": word, "special": true, "single_word": false, "lstrip": false,
			"rstrip": false, "normalized": false})
	}
	for i, word := range Words {
		vocab[word] = 4 + i
	}
	special := func(word string) map[string]any {
		return map[string]any{"SpecialToken": map[string]any{"id": word, "type_id": 0}}
	}
	return map[string]any{
		"version": "1.0", "added_tokens": added,
		"normalizer":    map[string]any{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "lowercase": true},
		"pre_tokenizer": map[string]any{"type": "BertPreTokenizer"},
		"post_processor": map[string]any{"type": "TemplateProcessing",
			"single": []any{special("[CLS]"), map[string]any{"Sequence": map[string]any{"id": "A", "type_id": 0}}, special("[SEP]")},
			"special_tokens": map[string]any{
				"[CLS]": map[string]any{"id": "[CLS]", "ids": []int{2}, "tokens": []string{"[CLS]"}},
				"[SEP]": map[string]any{"id": "[SEP]", "ids": []int{3}, "tokens": []string{"[SEP]"}}}},
		"decoder": map[string]any{"type": "WordPiece", "prefix": "##", "cleanup": true},
		"model": map[string]any{"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
			"max_input_chars_per_word": 100, "vocab": vocab},
	}
}

// Path is the net of a package that Write made in dir.
func (e TextEncoder) Path(dir string) string {
	return filepath.Join(dir, "model", "encoder_u16_npu3.axmodel")
}
