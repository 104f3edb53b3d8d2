package modelstest_test

import (
	"path/filepath"
	"testing"

	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
)

// The small package of every layout loads: tokenizer, template, layers and head on the software
// card.
func TestLoad(t *testing.T) {
	for _, layout := range modelstest.Layouts {
		dir := filepath.Join("../../testdata/packages", layout)
		m, err := engine.Open(t.Context(), dir, engine.OpenOptions{Device: "soft"})
		if err != nil {
			t.Errorf("%s: %v", layout, err)
			continue
		}
		if i := m.Info(); i.Vocab != 320 || i.Layers != 2 || i.Family != "qwen3" {
			t.Errorf("%s: %+v", layout, i)
		}
		if err := m.Close(); err != nil {
			t.Errorf("%s: %v", layout, err)
		}
		p, err := models.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		tok, err := p.Tokenizer()
		if err != nil {
			t.Fatal(err)
		}
		if ids, err := p.StopIDs(); err != nil || len(ids) != 1 || ids[0] != 319 {
			t.Errorf("%s: stop ids %v, %v", layout, ids, err)
		}
		if again, err := p.Tokenizer(); again != tok || err != nil || tok.Vocab() != 320 {
			t.Errorf("%s: the tokenizer is loaded twice, or has %d ids", layout, tok.Vocab())
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}
