package engine

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestEmbeddingGemma: vectors are those of the model in float64, for texts of every net's lengths
// and at their ends; what is too long loses its end and not its EOS; prompts stand before a text.
func TestEmbeddingGemma(t *testing.T) {
	lane.NoRace(t)
	testEmbeddingGemma(t, softCard)
}

func testEmbeddingGemma(t *testing.T, open func() (axcl.Device, string, error)) {
	e := modelstest.EmbeddingGemma{Seed: 1}
	m, _, _ := onCard(t, e.Write, open, OpenOptions{})
	i := m.Info()
	if !i.Embedding || i.Hidden != 24 || i.Context != 64 || i.CardBytes <= 0 || i.Memory.Host == 0 ||
		!slices.Equal(i.Prompts, []string{"document", "none", "query"}) {
		t.Errorf("%+v", i)
	}
	var texts []string
	for _, n := range []int{0, 1, 13, 14, 15, 29, 30, 31, 61, 62, 63, 200} {
		text := ""
		for k := range n {
			text += string(rune('a' + (k*k+n)%26))
		}
		texts = append(texts, text)
	}
	for _, tt := range []struct{ name, before string }{{"", ""}, {"query", "Q: "}, {"document", "D: "}, {"none", ""}} {
		got, err := m.Embed(t.Context(), EmbedRequest{Input: texts, Truncate: true, PromptName: tt.name})
		if err != nil {
			t.Fatal(err)
		}
		cuts := 0
		for k, text := range texts {
			text = tt.before + text
			if len(text) > 62 {
				text, cuts = text[:62], cuts+1
			}
			if far := distance(got.Vectors[k], gemmaTruth(e, text, 24)); far > 1e-4 {
				t.Errorf("%q, %d bytes: %g from the model's", tt.name, len(text), far)
			}
		}
		if len(got.Cuts) != cuts || got.Cuts[cuts-1].Kept != 64 || got.Cuts[cuts-1].Prompt != 202+len(tt.before) {
			t.Errorf("%q: cut %+v", tt.name, got.Cuts)
		}
	}
	// What fills up a longer net is not seen: the same text through each net.
	nets := m.b.(*gemmaEncoder).nets
	if st := m.Stats(); st.Passes["encode"] != uint64(4*len(texts)) || len(nets) != 3 {
		t.Errorf("%d calls of %d nets", st.Passes["encode"], len(nets))
	}
	for _, n := range []int{8, 16} {
		got, err := m.Embed(t.Context(), EmbedRequest{Input: texts[2:3], Dimensions: n})
		if err != nil || distance(got.Vectors[0], gemmaTruth(e, texts[2], n)) > 1e-4 {
			t.Errorf("%d dimensions: %v", n, err)
		}
	}
	for _, tt := range []struct {
		r    EmbedRequest
		want string
	}{
		{EmbedRequest{Dimensions: 12}, "dimensions must be one of 24, 16, 8"},
		{EmbedRequest{PromptName: "quarry"}, `has no prompt called "quarry": take one of document, none, query`},
		{EmbedRequest{Instruction: "find it"}, "takes no instruction"},
		{EmbedRequest{PromptName: "query", Instruction: "find it"}, "takes no instruction"},
	} {
		tt.r.Input = []string{"x"}
		if _, err := m.Embed(t.Context(), tt.r); !errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v", tt.r, err)
		}
	}
	var ce *ContextError
	if _, err := m.Embed(t.Context(), EmbedRequest{Input: texts[11:]}); !errors.As(err, &ce) || ce.Max != 64 || ce.Have != 202 {
		t.Errorf("too long, and not to be cut: %v", err)
	}
	r, err := m.Rerank(t.Context(), RerankRequest{Query: "ab", Documents: []string{"cd", "ab"}})
	if err != nil || r.Scoring != ScoringCosine {
		t.Fatal(err)
	}
	query := gemmaTruth(e, "Q: ab", 24)
	for k, d := range []string{"D: cd", "D: ab"} {
		if math.Abs(r.Scores[k]-cosine(query, gemmaTruth(e, d, 24))) > 1e-4 {
			t.Errorf("rerank: %q has %g", d, r.Scores[k])
		}
	}
}

// TestEmbeddingGemmaFaults: a call that fails ends its request, and the next one has its vector,
// unless the card is lost.
func TestEmbeddingGemmaFaults(t *testing.T) {
	e := modelstest.EmbeddingGemma{Seed: 2, Unnamed: true}
	var d *nonsense
	m, c, _ := onCard(t, e.Write, func() (axcl.Device, string, error) {
		soft, why, err := softCard()
		d = &nonsense{Device: soft}
		return d, why, err
	}, OpenOptions{})
	one := EmbedRequest{Input: []string{"cat"}}
	want := gemmaTruth(e, "cat", 24)
	d.put.Store(math.Float32bits(float32(math.NaN())))
	if _, err := m.Embed(t.Context(), one); !errors.Is(err, ErrNonsense) {
		t.Errorf("NaN: %v", err)
	}
	d.put.Store(0)
	broken := fmt.Errorf("broken")
	fail := func() error { return broken }
	d.fail.Store(&fail)
	if _, err := m.Embed(t.Context(), one); !errors.Is(err, broken) {
		t.Errorf("a failed call: %v", err)
	}
	d.fail.Store(nil)
	if got, err := m.Embed(t.Context(), one); err != nil || distance(got.Vectors[0], want) > 1e-4 {
		t.Errorf("the next: %v", err)
	}
	c.Lose(&axcl.Error{Op: "test", Layer: axcl.NoLayer, Kind: axcl.ErrLost})
	if _, err := m.Embed(t.Context(), EmbedRequest{Input: []string{"x"}}); !errors.Is(err, axcl.ErrLost) || m.Stats().State != "lost" {
		t.Errorf("after the card's loss: %v", err)
	}
}

// gemmaTruth is a text's vector in float64: its first values, made a vector of length one.
func gemmaTruth(e modelstest.EmbeddingGemma, text string, size int) []float32 {
	ids := []int32{modelstest.GemmaBOS}
	for _, b := range []byte(text) {
		ids = append(ids, modelstest.GemmaBytes+int32(b))
	}
	all := e.Oracle(append(ids, modelstest.GemmaEOS))
	sum := 0.0
	for _, x := range all[:size] {
		sum += x * x
	}
	v := make([]float32, size)
	for i := range v {
		v[i] = float32(all[i] / math.Sqrt(sum))
	}
	return v
}

// distance is the largest difference; infinite where the vectors are not as long.
func distance(a, b []float32) (far float64) {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	for i := range a {
		if far = max(far, math.Abs(float64(a[i])-float64(b[i]))); math.IsNaN(float64(a[i])) {
			return math.Inf(1)
		}
	}
	return far
}
