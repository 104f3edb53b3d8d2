package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/hub"
	"github.com/axle-llm/axle/models/modelstest"
)

// A package of any kind is fetched whole, is told apart before and after, and is listed, described
// and deleted as any model; so it is where a hub serves no parts of files: then what it is is seen
// when it has come.
func TestPullKinds(t *testing.T) {
	for i, k := range modelstest.Kinds() {
		for _, parts := range []bool{true, false} {
			h, c := testHub(t)
			if !parts {
				h.SetFault(func(string, int) modelstest.Fault { return modelstest.NoRanges })
				c.Retries = 1
			}
			dir := t.TempDir()
			if err := k.Write(dir); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "LICENSE"), []byte("MIT"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := h.AddDir("axle/kind", dir); err != nil {
				t.Fatal(err)
			}
			s := openStore(t)
			var told []string
			err := s.Pull(context.Background(), "axle/kind", c, func(p Progress) { told = append(told, p.Status) })
			if err != nil {
				t.Errorf("%d %s %s: %v", i, k.Name, k.Layout, err)
				continue
			}
			m, err := s.Get("axle/kind")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range m.Files {
				got = append(got, f.Name)
			}
			if slices.Sort(got); !slices.Equal(got, names(k)) || !slices.Equal(m.License, []string{"MIT"}) {
				t.Errorf("%s: fetched %q and license %q, the package is %q", k.Name, got, m.License, names(k))
			}
			info, err := m.Info()
			if err != nil || info.Kind != k.Name ||
				info.Name != "axle/kind:latest" && info.Name != "axle/Small-VLM" ||
				!slices.Contains(told, info.Says) || told[len(told)-1] != "success" {
				t.Errorf("%s: %s %q, %v; told %q", k.Name, info.Name, info.Says, err, told)
			}
			if _, err := m.Open(); !errors.Is(err, models.ErrKind) || strings.Contains(err.Error(), " .:") {
				t.Errorf("%s: open gives %v", k.Name, err)
			}
			if err := s.Verify(context.Background(), "axle/kind", nil); err != nil {
				t.Errorf("%s: %v", k.Name, err)
			}
			if err := s.Delete("axle/kind"); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestSpeakers: a speaker is one model, pulled and in place, also where its nets lie in one folder
// and the rest in another.
func TestSpeakers(t *testing.T) {
	h, c := testHub(t)
	c.Dictionaries = []hub.File{} // none anywhere
	place := t.TempDir()
	for _, k := range modelstest.Speakers() {
		dir := filepath.Join(place, "speaker-"+k.Layout)
		if err := errors.Join(k.Write(dir), h.AddDir("axle/pulled-speaker-"+k.Layout, dir)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(Options{Dir: t.TempDir(), Paths: []string{place}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, k := range modelstest.Speakers() {
		if err := s.Pull(t.Context(), "axle/pulled-speaker-"+k.Layout, c, func(Progress) {}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, m := range list {
		if !strings.Contains(m.Name.String(), "speaker") {
			continue
		}
		found++
		if info, err := m.Info(); err != nil || info.Kind != "Kokoro" || info.Says != "" || len(info.Voices) != 2 {
			t.Errorf("%s: %+v, %v", m.Name, info, err)
		}
	}
	if found != 4 {
		t.Errorf("%d speakers of 4", found)
	}
	m, err := s.Get("axle/pulled-speaker-A")
	if err != nil {
		t.Fatal(err)
	}
	o, err := m.OpenAny()
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	k := o.(*models.Kokoro)
	if _, err := k.Row("none", 1); k.Name != m.Name.String() || err == nil || !strings.Contains(err.Error(), k.Name+" has no row") {
		t.Errorf("it is called %q: %v", k.Name, err)
	}
}

// TestPullDictionaries: a speaker's dictionaries come with it, those of its voices' languages
// alone, from their own address, to which no token goes. What has another hash is refused and
// named, what does not come is named with the way out, and the next pull fetches no more than is
// missing.
func TestPullDictionaries(t *testing.T) {
	words := map[string]string{"us_gold.json": `{"hello":"həlˈO"}`, "us_silver.json": `{"there":"ðˈɛɹ"}`,
		"gb_gold.json": `{"hello":"həlˈQ"}`, "gb_silver.json": `{"there":"ðˈɛː"}`}
	var mu sync.Mutex // of all that a request reads or notes
	var asked []string
	status := http.StatusOK
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		name := path.Base(r.URL.Path)
		asked = append(asked, name+r.Header.Get("Authorization"))
		if status != http.StatusOK {
			w.WriteHeader(status)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(words[name]))
	}))
	t.Cleanup(at.Close)
	mu.Lock()
	defer mu.Unlock()
	for _, parts := range []bool{true, false} { // of files; else the kind is seen when it has come
		h, c := testHub(t)
		if c.Token = "hf_secret"; !parts {
			h.SetFault(func(string, int) modelstest.Fault { return modelstest.NoRanges })
			c.Retries = 1
		}
		c.Transport = nil // by sockets: the dictionaries come from another host
		for name, text := range words {
			c.Dictionaries = append(c.Dictionaries, hub.File{Path: "dictionaries/" + name, Size: int64(len(text)),
				Digest: sum([]byte(text)), URL: at.URL + "/data/" + name})
		}
		american := modelstest.Speakers()[0]
		british := modelstest.Speakers()[1]
		british.Files["checkpoints/voices_npy/bf_emma.npy"] = british.Files["checkpoints/voices_npy/am_adam.npy"]
		british.Files["dictionaries/us_silver.json"] = []byte(`{}`)
		for name, k := range map[string]modelstest.Kind{"axle/american": american, "axle/british": british} {
			dir := t.TempDir()
			if err := errors.Join(k.Write(dir), h.AddDir(name, dir)); err != nil {
				t.Fatal(err)
			}
		}
		s := openStore(t)
		pull := func(name string) error {
			mu.Unlock()
			defer mu.Lock()
			return s.Pull(t.Context(), name, c, nil)
		}

		status = http.StatusNotFound
		err := pull("axle/american")
		if !errors.Is(err, hub.ErrNotFound) || !strings.Contains(err.Error(), "dictionaries/us_") ||
			!strings.HasSuffix(err.Error(), hub.AnotherAddress) {
			t.Errorf("not there: %v", err)
		}
		status = http.StatusOK
		good := words["us_gold.json"]
		words["us_gold.json"] = strings.Replace(good, "h", "j", 1)
		err = pull("axle/american")
		if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "dictionaries/us_gold.json") ||
			!strings.HasSuffix(err.Error(), hub.AnotherAddress) {
			t.Errorf("another file: %v", err)
		}
		if _, err := s.Get("axle/american"); !errors.Is(err, ErrNotFound) {
			t.Errorf("it is there: %v", err)
		}
		words["us_gold.json"], asked = good, nil
		if err := pull("axle/american"); err != nil {
			t.Fatal(err)
		}
		if slices.Sort(asked); !slices.Contains(asked, "us_gold.json") || !strings.HasPrefix(asked[0], "us_") ||
			strings.Contains(strings.Join(asked, " "), "hf_secret") {
			t.Errorf("asked for %q", asked)
		}
		asked = nil
		if err := errors.Join(pull("axle/american"), pull("axle/british")); err != nil {
			t.Fatal(err)
		}
		if slices.Sort(asked); !slices.Equal(asked, []string{"gb_gold.json", "gb_silver.json"}) {
			t.Errorf("asked for %q once more", asked)
		}
		m, err := s.Get("axle/british")
		if err != nil {
			t.Fatal(err)
		}
		o, err := m.OpenAny()
		if err != nil {
			t.Fatal(err)
		}
		for language, want := range map[string]string{"en-US": "həlˈO ", "en-GB": "həlˈQ ðˈɛː."} {
			l, err := o.(*models.Kokoro).Lexicon(language)
			if err != nil {
				t.Fatal(err)
			}
			for piece := range l.Pieces("Hello there.") {
				if !strings.HasPrefix(piece, want) {
					t.Errorf("%s sounds %s", language, piece)
				}
			}
		}
		if err := errors.Join(o.Close(), s.Verify(t.Context(), "axle/british", nil)); err != nil {
			t.Error(err)
		}
	}
}

// TestPullSeveral: a repository with several recognisers is refused before they are fetched.
func TestPullSeveral(t *testing.T) {
	h, c := testHub(t)
	dir := t.TempDir()
	for i, k := range modelstest.Whispers()[1:] {
		if err := k.Write(filepath.Join(dir, "models-ax650", []string{"turbo", "tiny"}[i])); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.AddDir("axle/whispers", dir); err != nil {
		t.Fatal(err)
	}
	s := openStore(t)
	err := s.Pull(t.Context(), "axle/whispers", c, nil)
	if !errors.Is(err, models.ErrMismatch) || !strings.Contains(err.Error(), "turbo-decoder.axmodel: is of the same use as ") ||
		!strings.Contains(err.Error(), "these are several models: download the files of one") {
		t.Errorf("%v", err)
	}
	if list, err := os.ReadDir(filepath.Join(s.Dir(), "blobs")); err == nil && len(list) > 0 {
		t.Errorf("%d files were fetched", len(list))
	}
}

// TestDetectors: a detector is one model, pulled and in place, also where its net lies in a folder
// and its labels beside that.
func TestDetectors(t *testing.T) {
	h, c := testHub(t)
	place := t.TempDir()
	for _, layout := range []string{"heads", "numbers"} {
		dir := filepath.Join(place, "detector-"+layout)
		if err := errors.Join(modelstest.Detector{Seed: 1, Layout: layout, Classes: 3}.Write(dir),
			h.AddDir("axle/pulled-detector-"+layout, dir)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(Options{Dir: t.TempDir(), Paths: []string{place}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, layout := range []string{"heads", "numbers"} {
		for _, name := range []string{"axle/pulled-detector-", "detector-"} {
			if strings.HasPrefix(name, "axle/") {
				if err := s.Pull(t.Context(), name+layout, c, func(Progress) {}); err != nil {
					t.Fatal(err)
				}
			}
			m, err := s.Get(name + layout)
			if err != nil {
				t.Fatal(err)
			}
			o, err := m.OpenAny()
			if err != nil {
				t.Fatal(err)
			}
			if d := o.(*models.Detector); d.Labels[2] != "thing 2" || d.Name != m.Name.String() && strings.HasPrefix(name, "axle/") {
				t.Errorf("%s: %q, %q", m.Name, d.Name, d.Labels)
			}
			if err := o.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestPairs: a pair of encoders is one model, pulled and in place, also where each has a folder
// with a configuration, as Immich keeps them.
func TestPairs(t *testing.T) {
	h, c := testHub(t)
	place := t.TempDir()
	layouts := map[string]string{"CLIP": "clip", "CN-CLIP": "cn", "Immich": "ViT-L-14-336__axera"}
	for layout, name := range layouts {
		dir := filepath.Join(place, name)
		if err := errors.Join(modelstest.CLIP{Seed: 1, Layout: layout}.Write(dir), h.AddDir("axle/pulled-"+name, dir)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(Options{Dir: t.TempDir(), Paths: []string{place}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for layout, name := range layouts {
		if err := s.Pull(t.Context(), "axle/pulled-"+name, c, func(Progress) {}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"axle/pulled-" + name, name} {
			m, err := s.Get(name)
			if err != nil {
				t.Fatal(err)
			}
			o, err := m.OpenAny()
			if err != nil {
				t.Fatalf("%s: %v", layout, err)
			}
			p := o.(*models.CLIP)
			if p.Text == nil || p.Picture == nil || !slices.Equal(p.Info().Capabilities, []string{"embedding", "vision"}) {
				t.Errorf("%s: %+v", m.Name, p)
			}
			if err := o.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if list, err := s.List(t.Context()); err != nil || len(list) != 2*len(layouts) {
		t.Errorf("%d models, %v", len(list), err)
	}
}

// TestFaces: a package for faces is one model, pulled and in place; pulled also where each of its
// nets has a folder.
func TestFaces(t *testing.T) {
	h, c := testHub(t)
	place := t.TempDir()
	one, two := filepath.Join(place, "faces-one"), t.TempDir()
	if err := errors.Join(modelstest.Faces{Seed: 1, Layout: "rows"}.Write(one), modelstest.FaceTellers()[1].Write(two),
		h.AddDir("axle/pulled-faces-one", one), h.AddDir("axle/pulled-faces-two", two)); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{Dir: t.TempDir(), Paths: []string{place}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, name := range []string{"axle/pulled-faces-one", "axle/pulled-faces-two", "faces-one"} {
		if strings.HasPrefix(name, "axle/") {
			if err := s.Pull(t.Context(), name, c, func(Progress) {}); err != nil {
				t.Fatal(err)
			}
		}
		m, err := s.Get(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		o, err := m.OpenAny()
		if err != nil {
			t.Fatal(err)
		}
		if f := o.(*models.Faces); len(f.Outputs) != 9 || f.Vector.Shape[1] != 512 {
			t.Errorf("%s: %+v", m.Name, f)
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestEmbeddingGemma: an EmbeddingGemma 2 with all its nets is one model, pulled and in place.
func TestEmbeddingGemma(t *testing.T) {
	h, c := testHub(t)
	place := t.TempDir()
	dir := filepath.Join(place, "vectors")
	if err := errors.Join(modelstest.EmbeddingGemma{Seed: 1}.Write(dir), h.AddDir("axle/pulled-vectors", dir)); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{Dir: t.TempDir(), Paths: []string{place}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Pull(t.Context(), "axle/pulled-vectors", c, func(Progress) {}); err != nil {
		t.Fatal(err)
	}
	list, err := s.List(t.Context())
	if err != nil || len(list) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	for _, m := range list {
		o, err := m.OpenAny()
		if err != nil {
			t.Fatal(err)
		}
		if g := o.(*models.EmbeddingGemma); len(g.Nets) != 3 || g.Prompts.Named["query"] != "Q: " || g.Embed.Rows != 259 {
			t.Errorf("%s: %+v", m.Name, g)
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestJina: a jina-embeddings-v5-omni with its adapters is one model, pulled and in place.
func TestJina(t *testing.T) {
	h, c := testHub(t)
	place := t.TempDir()
	dir := filepath.Join(place, "jina")
	if err := errors.Join(modelstest.Jina{Seed: 1}.Write(dir), h.AddDir("axle/pulled-jina", dir)); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{Dir: t.TempDir(), Paths: []string{place}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Pull(t.Context(), "axle/pulled-jina", c, func(Progress) {}); err != nil {
		t.Fatal(err)
	}
	list, err := s.List(t.Context())
	if err != nil || len(list) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	for _, m := range list {
		o, err := m.OpenAny()
		if err != nil {
			t.Fatal(err)
		}
		j := o.(*models.Jina)
		if _, err := j.Text.Adapters[1].Layer(1); err != nil || j.Rows != modelstest.JinaRows {
			t.Errorf("%s: %v", m.Name, err)
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestBuiltinKind: a package inside the program that is no language model has its own name, not
// that of the folder that it is written to.
func TestBuiltinKind(t *testing.T) {
	dir := t.TempDir()
	if err := (modelstest.SenseVoice{Seed: 1, Layout: "Axera"}).Write(dir); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{Dir: t.TempDir(), Builtin: map[string]fs.FS{"ears": os.DirFS(dir)}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	o, err := get(t, s, "ears").OpenAny()
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if v := o.(*models.SenseVoice); v.Name != "ears:latest" || v.Info().Name != "ears:latest" {
		t.Errorf("it is called %q and %q", v.Name, v.Info().Name)
	}
}

// TestDiffusions: a model that draws is one model, pulled and in place, in each packing; of several
// sizes another name is another size.
func TestDiffusions(t *testing.T) {
	h, c := testHub(t)
	place := t.TempDir()
	for i, k := range modelstest.Diffusions() {
		dir := filepath.Join(place, fmt.Sprint("painter-", i))
		if err := errors.Join(k.Write(dir), h.AddDir(fmt.Sprint("axle/pulled-painter-", i), dir)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(Options{Dir: t.TempDir(), Paths: []string{place}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i, k := range modelstest.Diffusions() {
		if err := s.Pull(t.Context(), fmt.Sprint("axle/pulled-painter-", i), c, func(Progress) {}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"axle/pulled-painter-", "painter-"} {
			m, err := s.Get(fmt.Sprint(name, i))
			if err != nil {
				t.Fatal(err)
			}
			o, err := m.OpenAny()
			if err != nil {
				t.Fatal(err)
			}
			if d := o.(*models.Diffusion); d.Steps != []int{4, 20, 30}[i] || d.Info().Capabilities[0] != "image" {
				t.Errorf("%s: %+v", k.Layout, d)
			}
			if err := o.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := s.Copy("axle/pulled-painter-0", "painter-768x1024"); err != nil {
		t.Fatal(err)
	}
	m, err := s.Get("painter-768x1024")
	if err != nil {
		t.Fatal(err)
	}
	o, err := m.OpenAny()
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if d := o.(*models.Diffusion); d.Width != 768 || d.Height != 1024 {
		t.Errorf("the other size: %d×%d", d.Width, d.Height)
	}
}

func names(k modelstest.Kind) (all []string) {
	for n := range k.Files {
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}
