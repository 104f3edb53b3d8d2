package hub_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/hub"
)

// What a model is said to take of a card is never less than somebody has seen, nor less than its
// compiled weights and its cache. A model that no card holds is not in the catalogue.
func TestTakes(t *testing.T) {
	want := map[string]struct {
		from, to float64
		cards    string
	}{
		"qwen3:0.6b": {1.0e9, 1.2e9, "4, 8 or 16 GB"}, "qwen3:4b": {6.3e9, 6.4e9, "8 or 16 GB"},
		"qwen3:4b-instruct": {6.0e9, 6.3e9, "8 or 16 GB"}, "qwen3-vl:8b": {11e9, 12e9, "16 GB"},
		"qwen3.5:4b-32k": {11e9, 13e9, "16 GB"}, "locateanything:3b": {3.1e9, 3.4e9, "8 or 16 GB"},
		"qwen3-asr:0.6b": {1.2e9, 1.4e9, "4, 8 or 16 GB"}, "kokoro:82m": {237e6, 237e6, "4, 8 or 16 GB"},
		"whisper:small": {1.1e9, 1.11e9, "4, 8 or 16 GB"},
	}
	for _, e := range hub.Catalogue {
		need, told := e.CardMemory()
		if need < e.Card || need < 90e6 || e.Kind == "" && need < 200e6 || told && need != e.Card {
			t.Errorf("%s takes %d, told %v; somebody has seen %d", e.Name, need, told, e.Card)
		}
		if h, ok := e.Shape(); ok {
			weights := h.HeadBytes
			for i := range h.Layers {
				if h.StateBytes(i) > 0 {
					weights += h.Linear.Bytes
				} else {
					weights += h.LayerBytes + int64(h.Context*h.KVHeads*h.HeadDim*4)
				}
			}
			if need < weights {
				t.Errorf("%s takes %d, its weights and caches %d", e.Name, need, weights)
			}
		}
		if len(models.CardsFor(need)) == 0 {
			t.Errorf("no card holds %s, which takes %s", e.Name, models.HumanBytes(need))
		}
		w, ok := want[e.Name]
		if ok && (float64(need) < w.from || float64(need) > w.to || models.CardWords(need) != w.cards) {
			t.Errorf("%s takes %d: a card of %s", e.Name, need, models.CardWords(need))
		}
		delete(want, e.Name)
	}
	if len(want) > 0 {
		t.Errorf("not in the catalogue: %v", want)
	}
}

// A repository's name tells what the package was compiled for.
func TestBuild(t *testing.T) {
	usual := hub.Build{Chunk: 128, Prompt: 1152, Context: 2047}
	for _, c := range []struct {
		repo string
		want hub.Build
		ok   bool
	}{
		{"o/Qwen3.5-0.8B-AX650-C128-P1152-CTX2047", usual, true},
		{"o/Qwen3.5-4B-AX650-GPTQ-Int4-C512-P30k-CTX32k", hub.Build{Chunk: 512, Prompt: 30720, Context: 32767}, true},
		{"o/QwenPaw-AX650-C256-P14336-CTX17408", hub.Build{Chunk: 256, Prompt: 14336, Context: 17407}, true},
		{"o/Embedding-C128_P1280_CTX1407", hub.Build{Chunk: 128, Prompt: 1280, Context: 1407}, true},
		{"o/Qwen3-0.6B", usual, false},
		{"o/x-C128-P99999999999999999999-CTX2047", usual, false},
		{"o/x-C512-P128-CTX2047", usual, false},
	} {
		e := hub.Entry{Repo: c.repo}
		if got, ok := e.Build(); got != c.want || ok != c.ok {
			t.Errorf("%s: %+v, %v", c.repo, got, ok)
		}
	}
}

// Each spelling of a repository leads to its entry, in any case of letters, and no two entries
// share one.
func TestSpellings(t *testing.T) {
	seen := map[string]bool{}
	for i := range hub.Catalogue {
		e := &hub.Catalogue[i]
		for _, repo := range append([]string{e.Repo}, e.Also...) {
			if seen[repo] || hub.Of(strings.ToLower(repo)) != e {
				t.Errorf("%s leads to %v", repo, hub.Of(repo))
			}
			seen[repo] = true
		}
	}
	if hub.Of("axera-tech/none") != nil {
		t.Error("a repository that the catalogue has not leads to an entry")
	}
	n, err := models.ParseName("qwen3.5:2b")
	if err != nil {
		t.Fatal(err)
	}
	if s, err := hub.Locate(n); err != nil || !slices.Equal(s.Also, s.Entry.Also) || len(s.Also) == 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// The model to begin with fits with room to spare, is quick enough to read along, and grows with
// the card.
func TestFirst(t *testing.T) {
	for i, want := range []string{"qwen3:0.6b", "qwen3:1.7b", "qwen3:1.7b"} {
		if e := hub.First(models.CardSizes[i]); e == nil || e.Name != want {
			t.Errorf("%d GB: %+v, want %s", models.CardSizes[i].GB, e, want)
		}
	}
	if e := hub.First(models.CardSize{GB: 1, Room: 100 << 20}); e != nil {
		t.Errorf("a card of 100 MiB: %s", e.Name)
	}
}
