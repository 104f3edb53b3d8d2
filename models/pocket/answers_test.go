package pocket_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/pocket"
	"github.com/axle-llm/axle/models/store"
)

// TestReferenceAnswers (D6): the program ships what a sound card answers with pocket, under both of
// pocket's digests, so a card is compared with it at its first load: models/answers.json is as the
// weights in the tree.
func TestReferenceAnswers(t *testing.T) {
	//proves:D6
	dir, err := models.Materialize(pocket.FS(), filepath.Join(t.TempDir(), pocket.Name))
	if err != nil {
		t.Fatal(err)
	}
	p, err := models.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	digests := []string{p.Digest()}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(store.Options{Dir: t.TempDir(), Builtin: map[string]fs.FS{pocket.Name: pocket.FS()}})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	n, err := models.ParseName(pocket.Name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := st.Get(n.Full())
	if err != nil {
		t.Fatal(err)
	}
	if p, err = m.Open(); err != nil {
		t.Fatal(err)
	}
	digests = append(digests, p.Digest())
	_ = p.Close()

	kept := t.TempDir()
	load := func() (tokens []int32, with engine.Compared, err error) {
		m, err := engine.Open(t.Context(), dir, engine.OpenOptions{Device: "soft", Remember: kept})
		if err != nil {
			return nil, "", err
		}
		with = m.Stats().Compared
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		files, _ := filepath.Glob(filepath.Join(kept, "proven-*.json"))
		if len(files) != 1 {
			t.Fatal(files)
		}
		b, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		var found struct{ Tokens []int32 }
		if err := json.Unmarshal(b, &found); err != nil {
			t.Fatal(err)
		}
		return found.Tokens, with, nil
	}
	tokens, with, err := load()
	if *update && (err == nil || errors.Is(err, engine.ErrWrong)) {
		if err != nil {
			t.Fatal("empty models/answers.json ([]) first: it has other weights' answers")
		}
		slices.Sort(digests)
		b, err := json.MarshalIndent([]models.Answers{{Name: pocket.Name, Digests: slices.Compact(digests), Tokens: tokens}}, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("../answers.json", append(b, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err != nil || with != engine.ComparedKnown {
		t.Errorf("the first load was compared with %q: %v (make pocket-goldens)", with, err)
	}
	for _, d := range digests {
		if !slices.Equal(models.KnownAnswers(d), tokens) {
			t.Errorf("%s: %v, the card says %v (make pocket-goldens)", d, models.KnownAnswers(d), tokens)
		}
	}
	if _, with, err := load(); err != nil || with != engine.ComparedKnown {
		t.Errorf("the second load was compared with %q: %v", with, err)
	}
}
