package engine

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestJina: vectors are those of the model in float64, whose rows see each other in both
// directions; with an adapter those of its weights with B·A added, also where adapters alternate.
func TestJina(t *testing.T) {
	lane.NoRace(t)
	testJina(t, softCard)
}

func testJina(t *testing.T, open func() (axcl.Device, string, error)) {
	var ck *axmodeltest.Checkpoint
	var deltas map[string][][]modelstest.Delta
	m, _, _ := onCard(t, func(dir string) (err error) {
		ck, deltas, err = modelstest.Jina{Seed: 5}.Make(dir)
		return err
	}, open, OpenOptions{})
	if i := m.Info(); !i.Embedding || i.Context != modelstest.JinaRows || i.CardBytes <= 0 || i.Memory.Adapters <= 0 ||
		i.Memory.Host == 0 || !slices.Equal(i.Prompts, []string{"document", "query"}) {
		t.Errorf("%+v", i)
	}
	texts := []string{"A FOX", "THE DOG AND THE FOX", "X", strings.Repeat("WHO IS IT? ", 40)}
	type form struct{ adapter, prompt string }
	forms := []form{{"", ""}, {"", "query"}, {"retrieval", "query"}, {"clustering", "document"}}
	want := map[form][][]float32{}
	for _, f := range forms {
		before := map[string]string{"query": "Query: ", "": "Document: ", "document": "Document: "}[f.prompt]
		modelstest.JinaMerge(ck, deltas[f.adapter], 1)
		for _, text := range texts {
			ids, err := m.Tokenize(before + text)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids[:min(len(ids), modelstest.JinaRows-len(m.b.Ends()))], m.b.Ends()...)
			v := make([]float32, m.Info().Hidden)
			for i, x := range modelstest.JinaOracle(ck, ids) {
				v[i] = float32(x)
			}
			normalise(v)
			want[f] = append(want[f], v)
		}
		modelstest.JinaMerge(ck, deltas[f.adapter], -1)
	}
	if c := cosine(want[forms[1]][0], want[forms[2]][0]); c > 0.95 {
		t.Fatalf("the adapter changes little: cosine %g", c)
	}
	for range 2 {
		for _, f := range forms {
			as := m
			if f.adapter != "" {
				as = Adapted(m, f.adapter, "jina:"+f.adapter)
			}
			got, err := as.Embed(t.Context(), EmbedRequest{Input: texts, PromptName: f.prompt, Truncate: true})
			if err != nil {
				t.Fatal(err)
			}
			for i := range texts {
				if c := cosine(got.Vectors[i], want[f][i]); !(c >= 0.9999) {
					t.Errorf("%+v, %.20q: cosine %g", f, texts[i], c)
				}
			}
			if len(got.Cuts) != 1 || got.Cuts[0].Kept != modelstest.JinaRows {
				t.Errorf("cut %+v", got.Cuts)
			}
		}
	}
	if st := m.Stats(); st.Passes["encode"] != uint64(2*len(forms)*len(texts)) {
		t.Errorf("%d calls", st.Passes["encode"])
	}
	one := EmbedRequest{Input: texts[:1]}
	if _, err := Adapted(m, "none", "jina:none").Embed(t.Context(), one); !errors.Is(err, ErrRequest) ||
		!strings.Contains(err.Error(), `no adapter "none"`) {
		t.Errorf("an adapter that is not there: %v", err)
	}
	if _, err := m.Embed(t.Context(), EmbedRequest{Input: texts[:1], PromptName: "quarry"}); !errors.Is(err, ErrRequest) {
		t.Errorf("a prompt that is not there: %v", err)
	}
	var ce *ContextError
	if _, err := m.Embed(t.Context(), EmbedRequest{Input: texts[3:]}); !errors.As(err, &ce) || ce.Max != modelstest.JinaRows {
		t.Errorf("too long, and not to be cut: %v", err)
	}
}

// TestJinaFaults: a call that fails ends its request, and the next one has its vector, unless the
// card is lost.
func TestJinaFaults(t *testing.T) {
	var d *nonsense
	m, c, _ := onCard(t, modelstest.Jina{Seed: 6, Float32: true}.Write, func() (axcl.Device, string, error) {
		soft, why, err := softCard()
		d = &nonsense{Device: soft}
		return d, why, err
	}, OpenOptions{})
	one := EmbedRequest{Input: []string{"THE FOX"}}
	want, err := m.Embed(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	d.put.Store(math.Float32bits(float32(math.NaN())))
	if _, err := m.Embed(t.Context(), one); !errors.Is(err, ErrNonsense) {
		t.Errorf("NaN: %v", err)
	}
	d.put.Store(0)
	broken := fmt.Errorf("broken")
	fail := func() error { return broken }
	d.fail.Store(&fail)
	if _, err := Adapted(m, "retrieval", "x").Embed(t.Context(), one); !errors.Is(err, broken) {
		t.Errorf("a failed call: %v", err)
	}
	d.fail.Store(nil)
	if got, err := m.Embed(t.Context(), one); err != nil || !slices.Equal(got.Vectors[0], want.Vectors[0]) {
		t.Errorf("the next: %v", err)
	}
	c.Lose(&axcl.Error{Op: "test", Layer: axcl.NoLayer, Kind: axcl.ErrLost})
	if _, err := m.Embed(t.Context(), one); !errors.Is(err, axcl.ErrLost) || m.Stats().State != "lost" {
		t.Errorf("after the card's loss: %v", err)
	}
}
