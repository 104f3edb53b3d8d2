package engine

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/tokenizer"
)

// TestEmbedNothing: an empty text's vector is that of the token its tokenizer puts behind a text,
// alone and as a document to rank; where it puts none there, the vector is zeros.
func TestEmbedNothing(t *testing.T) {
	dir := t.TempDir()
	if _, err := axmodeltest.RandomCheckpoint(dir, "qwen3", 9); err != nil {
		t.Fatal(err)
	}
	r, err := compile.Run(context.Background(), compile.Options{From: dir, Out: filepath.Join(dir, "package"), Context: 95, Chunk: 16,
		Name: "m", Embedding: true})
	if err != nil {
		t.Fatal(err)
	}
	m, b := load(t, r.Dir, openSoft, OpenOptions{CardOptions: still})
	for _, ends := range [][]int32{nil, {7}, {7, 9}} {
		b.ends = ends
		got, err := m.Embed(context.Background(), EmbedRequest{Input: []string{"", "THE FOX"}})
		if err != nil {
			t.Fatal(err)
		}
		want, err := b.Embed(context.Background(), [][]int32{ends}, "")
		if err != nil {
			t.Fatal(err)
		}
		normalise(want[0])
		zeros := !slices.ContainsFunc(got.Vectors[0], func(v float32) bool { return v != 0 })
		if !slices.Equal(got.Vectors[0], want[0]) || zeros != (ends == nil) {
			t.Errorf("ends %v: %v, want %v", ends, got.Vectors[0][:4], want[0][:4])
		}
		ranked, err := m.Rerank(context.Background(), RerankRequest{Query: "WHO", Documents: []string{"", "THE FOX"}})
		if err != nil || (ranked.Scores[0] != 0) != (ends != nil) {
			t.Errorf("ends %v: scores %v, %v", ends, ranked.Scores, err)
		}
	}
}

// TestEmbedWithoutHead: a model whose head gives logits gives what its last layer says of the
// text's last token, as long as a hidden row, beside answers in the same passes; dimensions cuts
// and normalises anew, and a smaller context counts.
func TestEmbedWithoutHead(t *testing.T) {
	dir := t.TempDir()
	ck, err := axmodeltest.RandomCheckpoint(dir, "qwen3", 9)
	if err != nil {
		t.Fatal(err)
	}
	r, err := compile.Run(context.Background(), compile.Options{From: dir, Out: filepath.Join(dir, "package"), Context: 95, Chunk: 16,
		History: []int{0, 16, 64}, Name: "m"})
	if err != nil {
		t.Fatal(err)
	}
	m, b := load(t, r.Dir, openSoft, OpenOptions{CardOptions: still})
	if i := m.Info(); i.Embedding || i.Hidden != ck.Hidden || b.m.shape.Out == ck.Hidden {
		t.Fatalf("%+v, a head of %d", i, b.m.shape.Out)
	}
	said, _, err := run(b, greedy([]int32{3, 1, 4, 1, 5}, 12))
	if err != nil {
		t.Fatal(err)
	}
	inputs := []string{"THE QUICK", "THE QUICK BROWN FOX JUMPS OVER", "X", "THE QUICK BROWN"}
	var wg sync.WaitGroup
	release := hold(b)
	wg.Go(func() {
		job := greedy([]int32{3, 1, 4, 1, 5}, 12)
		job.Key = "other" // nothing is cached for it
		if again, _, err := run(b, job); err != nil || !slices.Equal(again, said) {
			t.Errorf("beside vectors: %v %v, alone %v", again, err, said)
		}
	})
	var got, cut Embeddings
	wg.Go(func() {
		var e1, e2 error
		got, e1 = m.Embed(context.Background(), EmbedRequest{Input: inputs})
		cut, e2 = m.Embed(context.Background(), EmbedRequest{Input: inputs, Dimensions: 7})
		if err := errors.Join(e1, e2); err != nil {
			t.Error(err)
		}
	})
	for b.Stats().Queued < 1+len(inputs) {
		runtime.Gosched()
	}
	release()
	wg.Wait()
	cosine := func(a []float32, b []float64) float64 {
		var ab, aa, bb float64
		for k, v := range a {
			ab, aa, bb = ab+float64(v)*b[k], aa+float64(v)*float64(v), bb+b[k]*b[k]
		}
		if math.Abs(aa-1) > 1e-3 {
			t.Errorf("a vector's length is %g", math.Sqrt(aa))
		}
		return ab / math.Sqrt(aa*bb)
	}
	for i, text := range inputs {
		ids, err := m.Tokenize(text)
		if err != nil {
			t.Fatal(err)
		}
		rows := ck.LastLayer(axmodeltest.Causal(ids))
		want := rows[len(rows)-1]
		if v := got.Vectors[i]; len(v) != ck.Hidden {
			t.Fatalf("%d values, embedding_length is %d", len(v), ck.Hidden)
		} else if c := cosine(v, want); c < 0.999 {
			t.Errorf("input %d: cosine %.5f with the oracle", i, c)
		}
		if v := cut.Vectors[i]; len(v) != 7 {
			t.Fatalf("%d values, 7 asked for", len(v))
		} else if c := cosine(v, want[:7]); c < 0.999 {
			t.Errorf("input %d: cosine %.5f with the oracle's first seven", i, c)
		}
	}
	short, err := m.Embed(context.Background(), EmbedRequest{Input: []string{inputs[1]}, NumCtx: 9, Truncate: true})
	if err != nil || short.Prompt != 9 {
		t.Errorf("in a context of 9: %d tokens, %v", short.Prompt, err)
	} else if v := short.Vectors[0]; !slices.Equal(v, got.Vectors[0]) && cosine(v, floats(got.Vectors[0])) < 0.9999 {
		// "THE QUICK" has nine
		t.Error("the first nine tokens' vector is another than theirs alone")
	}
	var ce *ContextError
	if _, err := m.Embed(context.Background(), EmbedRequest{Input: []string{inputs[1]}, NumCtx: 9}); !errors.As(err, &ce) || ce.Max != 9 {
		t.Errorf("too long for a context of 9: %v", err)
	}
	clean(t, b)
}

func floats(v []float32) (out []float64) {
	for _, x := range v {
		out = append(out, float64(x))
	}
	return out
}

// TestEmbedEnd: texts for an embedding model of Qwen3's whose tokenizer is the vendor's text file
// end with the token that its runtime puts there, cut ones too, and are read at it.
func TestEmbedEnd(t *testing.T) {
	dir := t.TempDir()
	ck, err := axmodeltest.RandomCheckpoint(dir, "qwen3", 9)
	if err != nil {
		t.Fatal(err)
	}
	r, err := compile.Run(context.Background(), compile.Options{From: dir, Out: filepath.Join(dir, "package"), Context: 95, Chunk: 16,
		History: []int{0, 16, 64}, Name: "m", Embedding: true})
	if err != nil {
		t.Fatal(err)
	}
	words, err := tokenizer.Open(filepath.Join(r.Dir, "m_tokenizer"))
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("430 1\n1 1 0\n%d %d\n%d\n", axmodeltest.IDEnd, axmodeltest.IDStop, words.Vocab())
	for id := range int32(words.Vocab()) {
		text += base64.StdEncoding.EncodeToString(words.Bytes(id)) + "\n"
	}
	config, err := os.ReadFile(filepath.Join(r.Dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	config = bytes.Replace(config, []byte(`"m_tokenizer"`), []byte(`"m_tokenizer.txt"`), 1)
	for name, b := range map[string][]byte{"m_tokenizer.txt": []byte(text), "config.json": config} {
		if err := os.WriteFile(filepath.Join(r.Dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m, _ := load(t, r.Dir, openSoft, OpenOptions{CardOptions: still})
	got, err := m.Embed(context.Background(), EmbedRequest{Input: []string{"HELLO", "HELLO, WORLD"}, NumCtx: 6, Truncate: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range got.Vectors {
		ids := append([]int32{'H', 'E', 'L', 'L', 'O'}, axmodeltest.IDEnd)
		rows := ck.Hiddens(axmodeltest.Causal(ids))
		want := rows[len(rows)-1]
		var ab, aa, bb float64
		for k, x := range v {
			ab, aa, bb = ab+float64(x)*want[k], aa+float64(x)*float64(x), bb+want[k]*want[k]
		}
		if cos := ab / math.Sqrt(aa*bb); cos < 0.999 {
			t.Errorf("input %d: cosine %.5f with the oracle's row of the end", i, cos)
		}
	}
	if got.Prompt != 12 {
		t.Errorf("%d tokens, want 6 of each", got.Prompt)
	}
}

// TestEmbed holds vectors against the oracle, each way of pooling, many inputs through a short
// queue.
func TestEmbed(t *testing.T) {
	dir := t.TempDir()
	ck, err := axmodeltest.RandomCheckpoint(dir, "qwen3", 9)
	if err != nil {
		t.Fatal(err)
	}
	r, err := compile.Run(context.Background(), compile.Options{From: dir, Out: filepath.Join(dir, "package"), Context: 95, Chunk: 16,
		History: []int{0, 16, 64}, Name: "m", Embedding: true})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(2, 3))
	var inputs []string
	for range 12 {
		text := ""
		for range 1 + rng.IntN(30) {
			text += string(rune('A' + rng.IntN(26)))
		}
		inputs = append(inputs, text)
	}
	inputs = append(inputs, inputs[3]+"MORE", inputs[3], "")
	for _, pooling := range []string{"last", "mean", "first"} {
		t.Run(pooling, func(t *testing.T) {
			m, b := load(t, r.Dir, openSoft, OpenOptions{MaxQueue: 5, Parallel: 4, CardOptions: still})
			b.pooling = pooling
			if !m.Info().Embedding {
				t.Error("Info does not say that it gives vectors")
			}
			got, err := m.Embed(context.Background(), EmbedRequest{Input: inputs})
			if err != nil {
				t.Fatal(err)
			}
			tokens := 0
			for i, text := range inputs {
				if text == "" {
					for _, v := range got.Vectors[i] {
						if v != 0 {
							t.Fatal("an empty text's vector is not zero")
						}
					}
					continue
				}
				ids, err := m.Tokenize(text)
				if err != nil {
					t.Fatal(err)
				}
				tokens += len(ids)
				rows := ck.Hiddens(axmodeltest.Causal(ids))
				want := make([]float64, ck.Hidden)
				switch pooling {
				case "last":
					want = rows[len(rows)-1]
				case "first":
					want = rows[0]
				default:
					for _, row := range rows {
						for k, v := range row {
							want[k] += v
						}
					}
				}
				var ab, aa, bb float64
				for k, v := range got.Vectors[i] {
					ab, aa, bb = ab+float64(v)*want[k], aa+float64(v)*float64(v), bb+want[k]*want[k]
				}
				if cos := ab / math.Sqrt(aa*bb); cos < 0.999 || math.Abs(aa-1) > 1e-3 {
					t.Errorf("input %d: cosine %.5f with the oracle, length %.4f", i, cos, math.Sqrt(aa))
				}
			}
			if got.Prompt != tokens {
				t.Errorf("%d tokens counted, %d sent", got.Prompt, tokens)
			}
			if st := b.Stats(); st.Passes["prefill"]+st.Passes["mixed"] == 0 {
				t.Errorf("every row went alone: %v", st.Passes)
			}
			clean(t, b)
		})
	}
	t.Run("too little room for all", func(t *testing.T) {
		_, b := load(t, r.Dir, openSoft, OpenOptions{CardOptions: still})
		b.pooling = "mean"
		var want [][]float32
		inputs := make([][]int32, 6)
		for i := range inputs {
			for range 40 {
				inputs[i] = append(inputs[i], int32(rng.IntN(axmodeltest.Vocab)))
			}
			v, err := b.Embed(context.Background(), inputs[i:i+1], "")
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, v[0])
		}
		got, err := b.Embed(context.Background(), inputs, "")
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			for k := range got[i] {
				if math.Abs(float64(got[i][k]-want[i][k])) > 1e-4 {
					t.Fatalf("input %d differs among others: %v, alone %v", i, got[i][:4], want[i][:4])
				}
			}
		}
		clean(t, b)
	})
	m, _ := load(t, r.Dir, openSoft, OpenOptions{})
	long := fmt.Sprintf("%0120d", 7)
	var ce *ContextError
	if _, err := m.Embed(context.Background(), EmbedRequest{Input: []string{long}}); !errors.As(err, &ce) || ce.Have != 120 {
		t.Errorf("too long: %v", err)
	}
	cut, err := m.Embed(context.Background(), EmbedRequest{Input: []string{long}, Truncate: true, Dimensions: 10})
	if err != nil || cut.Prompt != 95 || len(cut.Vectors[0]) != 10 {
		t.Errorf("cut: %d tokens, %v", cut.Prompt, err)
	}
	if _, err := m.Embed(context.Background(), EmbedRequest{Input: []string{"x"}, Dimensions: 1e6}); !errors.Is(err, ErrRequest) {
		t.Errorf("dimensions: %v", err)
	}
	for _, err := range m.Chat(context.Background(), Request{Sampling: m.Sampling()}) {
		if !errors.Is(err, ErrUnsupported) {
			t.Errorf("chat with an embedding model: %v", err)
		}
	}
}
