package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
)

// TestEmbed holds vectors against the oracle, each way of pooling, many inputs through a short queue.
func TestEmbed(t *testing.T) {
	dir := t.TempDir()
	ck, err := axmodeltest.RandomCheckpoint(dir, "qwen3", 9)
	if err != nil {
		t.Fatal(err)
	}
	r, err := compile.Run(context.Background(), compile.Options{From: dir, Out: filepath.Join(dir, "package"), Context: 95, Chunk: 16, History: []int{0, 16, 64}, Name: "m", Embedding: true})
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
