package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/hub"
	"github.com/axle-llm/axle/models/modelstest"
)

func TestPull(t *testing.T) {
	h, c := testHub(t)
	h.Page = 3
	h.SetToken("hf_secret")
	c.Token = "hf_secret"
	s := openStore(t)
	var lines []Progress
	if err := s.Pull(context.Background(), "axle/one", c, func(p Progress) { lines = append(lines, p) }); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	totals := map[string]Progress{}
	for _, p := range lines {
		kind := p.Status
		if p.Digest != "" {
			kind = "pulling"
			d, err := models.ParseDigest(p.Digest)
			if err != nil || p.Status != "pulling "+d.Short() || p.Total <= 0 || p.Completed < totals[p.Digest].Completed ||
				p.Completed > p.Total {
				t.Errorf("line %+v after %+v", p, totals[p.Digest])
			}
			totals[p.Digest] = p
		}
		if len(kinds) == 0 || kinds[len(kinds)-1] != kind {
			kinds = append(kinds, kind)
		}
	}
	if want := []string{"pulling manifest", "pulling", "verifying sha256 digest", "writing manifest", "success"}; !slices.Equal(kinds,
		want) {
		t.Errorf("lines %q, want %q", kinds, want)
	}
	for d, p := range totals {
		if p.Completed != p.Total {
			t.Errorf("%s ends at %d of %d", d, p.Completed, p.Total)
		}
	}
	if leaks := h.Leaks(); len(leaks) > 0 {
		t.Errorf("the token went to the storage host: %v", leaks)
	}
	m, err := s.Get("AXLE/One")
	if err != nil {
		t.Fatal(err)
	}
	if m.Name.String() != "axle/one:latest" || len(m.Digest) != 64 || m.Size < 20000 || !slices.Equal(m.License, []string{"Apache-2.0"}) ||
		!strings.HasPrefix(m.Hub, "axle/one@0123") || time.Since(m.ModifiedAt) > time.Minute || m.path == "" {
		t.Errorf("model %+v", m)
	}
	p, err := m.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if p.Layout != "A" || p.Vocab != 320 || len(p.Layers) != 2 {
		t.Errorf("package %+v", p)
	}
	for _, l := range append(slices.Clone(p.Layers), p.Head) {
		if _, err := os.Stat(l); err != nil || !filepath.IsAbs(l) {
			t.Errorf("layer %q: %v", l, err)
		}
	}
	if err := s.Verify(context.Background(), "axle/one", nil); err != nil {
		t.Error(err)
	}
	list, err := s.List(context.Background())
	if err != nil || len(list) != 1 {
		t.Errorf("list %v, %v", list, err)
	}
	if err := s.Delete("axle/one"); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(s.Dir(), "blobs")); err != nil || len(left) > 0 {
		t.Errorf("left after delete: %v, %v", left, err)
	}
}

func openStore(t testing.TB) *Store {
	t.Helper()
	s, err := Open(Options{Dir: filepath.Join(t.TempDir(), "store")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func bigHub(t testing.TB, layers, weights int) (*modelstest.Hub, *hub.Client) {
	t.Helper()
	h := modelstest.NewHub()
	t.Cleanup(h.Close)
	h.Add("axle/big", modelstest.Big(layers, weights, 1))
	return h, &hub.Client{Endpoints: []string{h.URL}, Backoff: time.Millisecond, Stall: 250 * time.Millisecond, Retries: 12,
		Part: 256 << 10}
}

// Only what this machine needs is fetched.
func TestPullChooses(t *testing.T) {
	h, c := bigHub(t, 2, 1000)
	s := openStore(t)
	if err := s.Pull(context.Background(), "axle/big", c, nil); err != nil {
		t.Fatal(err)
	}
	for _, r := range h.Requests() {
		if strings.Contains(r, "main_ax650") || strings.Contains(r, "ax630c") || strings.Contains(r, "README") {
			t.Errorf("asked for %s", r)
		}
	}
}

// Random faults, one request in three: the right bytes arrive all the same.
func TestPullFaults(t *testing.T) {
	layers, weights, runs := 4, 4<<20, uint64(3)
	switch {
	case os.Getenv("AXLE_TEST_BIG") != "": // 1 GB
		layers, weights, runs = 16, 60<<20, 1
	case lane.Race:
		weights, runs = 1<<20, 1
	}
	for seed := range runs {
		h, c := bigHub(t, layers, weights)
		c.Part = int64(weights / 8)
		r := rand.New(rand.NewPCG(seed, 9))
		var mu sync.Mutex
		left, byKind := 30, map[modelstest.Fault]int{}
		h.SetFault(func(string, int) modelstest.Fault {
			mu.Lock()
			defer mu.Unlock()
			if left == 0 || r.IntN(3) > 0 {
				return modelstest.None
			}
			f := modelstest.Fault(1 + r.IntN(int(modelstest.Away)))
			if f == modelstest.Flip && byKind[f] == 2 { // each costs a whole file
				f = modelstest.Cut
			}
			left--
			byKind[f]++
			return f
		})
		s := openStore(t)
		if err := s.Pull(context.Background(), "axle/big", c, nil); err != nil {
			t.Fatalf("seed %d, faults %v: %v", seed, byKind, err)
		}
		if err := s.Verify(context.Background(), "axle/big", nil); err != nil {
			t.Fatal(err)
		}
		h.SetFault(nil)
		asListed(t, s, c, "axle/big")
		if left > 10 {
			t.Errorf("only %d faults happened", 30-left)
		}
	}
}

// asListed: what the store has of a model is what the hub lists, by the hub's own hashes.
func asListed(t *testing.T, s *Store, c *hub.Client, name string) {
	t.Helper()
	snap, err := c.Snapshot(t.Context(), name, "main")
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, f := range snap.Files {
		if i := slices.IndexFunc(m.Files, func(o FileInfo) bool { return o.Name == f.Path }); i >= 0 && !f.Digest.IsZero() {
			if compared++; m.Files[i].Digest != f.Digest {
				t.Errorf("%s is %s, the hub lists %s", f.Path, m.Files[i].Digest, f.Digest)
			}
		}
	}
	if compared == 0 {
		t.Error("the hub lists no hash")
	}
}

// A pull that was interrupted goes on where it stopped, and one that was tampered with meanwhile
// starts that file anew.
func TestPullResumes(t *testing.T) {
	//proves:T10
	for _, tamper := range []bool{false, true} {
		h, c := bigHub(t, 2, 2<<20)
		s := openStore(t)
		ctx, cancel := context.WithCancel(context.Background())
		var mu sync.Mutex
		done := map[string]int64{}
		err := s.Pull(ctx, "axle/big", c, func(p Progress) {
			mu.Lock()
			defer mu.Unlock()
			done[p.Digest] = p.Completed
			var sum int64
			for _, n := range done {
				sum += n
			}
			if sum > 2<<20 {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled: %v", err)
		}
		if _, err := s.Get("axle/big"); !errors.Is(err, ErrNotFound) {
			t.Errorf("half a model is visible: %v", err)
		}
		partials, err := filepath.Glob(filepath.Join(s.Dir(), "blobs", "*-partial"))
		if err != nil || len(partials) == 0 {
			t.Fatalf("nothing stayed for resuming: %v", err)
		}
		if tamper {
			for _, p := range partials {
				f, err := os.OpenFile(p, os.O_WRONLY, 0)
				if err != nil {
					t.Fatal(err)
				}
				for at := int64(0); at < 2<<20; at += 64 << 10 {
					_, _ = f.WriteAt([]byte("tampered"), at)
				}
				f.Close()
			}
		}
		var before int64
		for _, n := range done {
			before += n
		}
		var fetched int64
		for range h.Requests() {
			fetched++
		}
		if err := s.Pull(context.Background(), "axle/big", c, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.Verify(context.Background(), "axle/big", nil); err != nil {
			t.Error(err)
		}
		again := len(h.Requests()) - int(fetched)
		if err := openStore(t).Pull(context.Background(), "axle/big", c, nil); err != nil {
			t.Fatal(err)
		}
		if whole := len(h.Requests()) - int(fetched) - again; !tamper && again >= whole {
			t.Errorf("%d requests after %d, and %d for all of it: nothing was resumed", again, fetched, whole)
		}
	}
}

// A blob that rotted on disk is found when the model is pulled again, and replaced; verify names
// it.
func TestRottenBlob(t *testing.T) {
	//proves:T10
	//proves:D12
	_, c := bigHub(t, 2, 100<<10)
	s := openStore(t)
	ctx := context.Background()
	if err := s.Pull(ctx, "axle/big", c, nil); err != nil {
		t.Fatal(err)
	}
	m, err := s.Get("axle/big")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range m.Files {
		if !strings.HasSuffix(f.Name, "l1_together.axmodel") {
			continue
		}
		name := filepath.Join(s.Dir(), "blobs", f.Digest.File())
		w, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.WriteAt([]byte("rot"), 5000)
		w.Close()
		bad := 0
		err = s.Verify(ctx, "axle/big", func(file string, _ int64, err error) {
			if err != nil {
				bad++
				if file != f.Name || !strings.Contains(err.Error(), name) {
					t.Errorf("%s: %v", file, err)
				}
			}
		})
		if !errors.Is(err, ErrMismatch) || bad != 1 {
			t.Errorf("verify: %v, %d bad", err, bad)
		}
		if err := s.Pull(ctx, "axle/big", c, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.Verify(ctx, "axle/big", nil); err != nil {
			t.Error(err)
		}
		// Short and missing ones are seen before anything is opened.
		if err := os.Truncate(name, 10); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Open(); !errors.Is(err, models.ErrSize) || !strings.Contains(err.Error(), f.Name) {
			t.Errorf("short: %v", err)
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Open(); !errors.Is(err, models.ErrMissing) || !strings.Contains(err.Error(), f.Name) {
			t.Errorf("missing: %v", err)
		}
	}
}

func TestPullErrors(t *testing.T) {
	pointer := []byte("version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("ab", 32) + "\nsize 9\n")
	table := func(edit func(map[string]modelstest.Content)) map[string]modelstest.Content {
		files := modelstest.Big(2, 1000, 7)
		edit(files)
		return files
	}
	h := modelstest.NewHub()
	defer h.Close()
	h.Add("x/gguf", map[string]modelstest.Content{"qwen3-4b-q4_k_m.gguf": modelstest.Noise{Seed: 1, N: 5000},
		"config.json": bytes.NewReader([]byte("{}"))})
	h.Add("x/checkpoint", map[string]modelstest.Content{"model.safetensors": modelstest.Noise{Seed: 1, N: 5000}})
	h.Add("x/nothing", map[string]modelstest.Content{"README.md": bytes.NewReader([]byte("hi"))})
	h.Add("x/pointer", table(func(f map[string]modelstest.Content) { f["qwen3_p16_l1_together.axmodel"] = bytes.NewReader(pointer) }))
	h.Add("x/missing", table(func(f map[string]modelstest.Content) { delete(f, "qwen3_p16_l1_together.axmodel") }))
	h.Add("x/misfit", table(func(f map[string]modelstest.Content) {
		f["model.embed_tokens.weight.bfloat16.bin"] = modelstest.Noise{Seed: 3, N: 2000}
	}))
	h.Add("x/escape", table(func(f map[string]modelstest.Content) {
		f["config.json"] = bytes.NewReader([]byte(`{"template_filename_axmodel": "../../../l%d.axmodel", "axmodel_num": 1}`))
	}))
	h.Add("x/lies", modelstest.Big(3, 1000, 8))
	h.SetFault(func(path string, _ int) modelstest.Fault {
		if strings.Contains(path, "l2") {
			return modelstest.Flip
		}
		return modelstest.None
	})
	for _, c := range []struct {
		name string
		is   error
		text string
	}{
		{"../x", models.ErrName, "invalid model name"},
		{"llama3.2", hub.ErrNotFound, "GGUF"},
		{"llama3.2", nil, "nearest here: "},
		{"ghcr.io/a/b", hub.ErrNotFound, "registry protocol is not spoken"},
		{"x/unknown", hub.ErrNotFound, "404"},
		{"x/gguf:other", hub.ErrNotFound, "404"},
		{"x/gguf", models.ErrNotPackage, "GGUF files, which this chip cannot run; nearest in the catalogue"},
		{"x/checkpoint", models.ErrNotPackage, "axle compile"},
		{"x/nothing", models.ErrNotPackage, "x/nothing at 0123"},
		{"x/pointer", models.ErrPointer, "qwen3_p16_l1_together.axmodel"},
		{"x/missing", models.ErrMissing, "qwen3_p16_l1_together.axmodel"},
		{"x/misfit", models.ErrSize, "does not fit together"},
		{"x/escape", models.ErrEscape, "outside"},
		{"x/lies", ErrMismatch, "three times"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openStore(t)
			err := s.Pull(context.Background(), c.name, &hub.Client{Endpoints: []string{h.URL}, Backoff: time.Millisecond, Retries: 2}, nil)
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v: want %v, %q", err, c.is, c.text)
			}
			if list, err := s.List(context.Background()); err != nil || len(list) != 0 {
				t.Errorf("visible: %v, %v", list, err)
			}
		})
	}
	t.Run("no hub", func(t *testing.T) {
		err := openStore(t).Pull(context.Background(), "x/y", &hub.Client{Endpoints: []string{"http://127.0.0.1:1"},
			Backoff: time.Microsecond, Retries: 2}, nil)
		var e *hub.Error
		if !errors.As(err, &e) || e.Host != "127.0.0.1:1" {
			t.Errorf("%v", err)
		}
	})
	t.Run("needs a token", func(t *testing.T) {
		h.SetToken("hf_x")
		defer h.SetToken("")
		err := openStore(t).Pull(context.Background(), "x/lies", &hub.Client{Endpoints: []string{h.URL}}, nil)
		if !errors.Is(err, hub.ErrDenied) || !strings.Contains(err.Error(), "HF_TOKEN") || strings.Contains(err.Error(), "hf_x") {
			t.Errorf("%v", err)
		}
	})
	t.Run("no room", func(t *testing.T) {
		d := newMemDisk()
		d.free = 1000
		s, err := Open(Options{Disk: d})
		if err != nil {
			t.Fatal(err)
		}
		before := len(h.Requests())
		err = s.Pull(context.Background(), "x/misfit", &hub.Client{Endpoints: []string{h.URL}}, nil)
		if !errors.Is(err, ErrSpace) || !strings.Contains(err.Error(), "AXLE_MODELS") {
			t.Errorf("%v", err)
		}
		for _, r := range h.Requests()[before:] {
			if strings.Contains(r, "store") {
				t.Errorf("fetched all the same: %s", r)
			}
		}
	})
}

// Two pulls of one model at once, beside deletes and lists: each succeeds, and what is left is
// whole.
func TestPullConcurrent(t *testing.T) {
	_, c := bigHub(t, 2, 256<<10)
	s := openStore(t)
	ctx := context.Background()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			if err := s.Pull(ctx, "axle/big", c, nil); err != nil {
				t.Error(err)
			}
			name := fmt.Sprintf("copy%d", i)
			if err := s.Copy("axle/big", name); err != nil && !errors.Is(err, ErrNotFound) {
				t.Error(err)
			}
			if _, err := s.List(ctx); err != nil {
				t.Error(err)
			}
			if i%2 == 0 {
				if err := s.Delete(name); err != nil && !errors.Is(err, ErrNotFound) {
					t.Error(err)
				}
				if err := s.Delete("axle/big"); err != nil && !errors.Is(err, ErrNotFound) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	list, err := s.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		if err := s.Verify(ctx, m.Name.String(), nil); err != nil {
			t.Error(err)
		}
	}
}

// Where a repository is known under several names, a pull tries one after the other, and tells of
// all where there is none.
func TestPullSpellings(t *testing.T) {
	n, err := models.ParseName("qwen3.5:2b")
	if err != nil {
		t.Fatal(err)
	}
	src, err := hub.Locate(n)
	if err != nil || len(src.Also) == 0 {
		t.Fatalf("%+v, %v", src, err)
	}
	h, c := testHub(t)
	s := openStore(t)
	err = s.Pull(t.Context(), "qwen3.5:2b", c, nil)
	if err == nil || !errors.Is(err, hub.ErrNotFound) || !strings.Contains(err.Error(), src.Repo) ||
		!strings.Contains(err.Error(), src.Also[0]) {
		t.Errorf("%v", err)
	}
	dir := t.TempDir()
	if err := modelstest.Write(dir, "A"); err != nil {
		t.Fatal(err)
	}
	if err := h.AddDir(src.Also[0], dir); err != nil {
		t.Fatal(err)
	}
	if err := s.Pull(t.Context(), "qwen3.5:2b", c, nil); err != nil {
		t.Fatal(err)
	}
	m, err := s.Get("qwen3.5:2b")
	if err != nil || !strings.HasPrefix(m.Hub, src.Also[0]+"@") {
		t.Fatalf("%+v, %v", m, err)
	}
	if err := h.AddDir(src.Repo, dir); err != nil { // once there, the first goes before
		t.Fatal(err)
	}
	if err := s.Pull(t.Context(), "qwen3.5:2b", c, nil); err != nil {
		t.Fatal(err)
	}
	if m, err := s.Get("qwen3.5:2b"); err != nil || !strings.HasPrefix(m.Hub, src.Repo+"@") {
		t.Fatalf("%+v, %v", m, err)
	}
}

// Names of the catalogue are valid, unique, in Ollama's form, and every alias leads to one.
func TestCatalogue(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range hub.Catalogue {
		n, err := models.ParseName(e.Name)
		if err != nil || n.String() != e.Name || seen[e.Name] || !strings.Contains(e.Name, ":") ||
			e.Parameters == "" && e.Kind != "audio" {
			t.Errorf("%+v: %v", e, err)
		}
		seen[e.Name] = true
		src, err := hub.Locate(n)
		if err != nil || src.Repo != e.Repo || src.Entry == nil {
			t.Errorf("%s leads to %+v, %v", e.Name, src, err)
		}
		family, _, _ := strings.Cut(e.Name, ":")
		bare, err := models.ParseName(family)
		if err != nil {
			t.Fatal(err)
		}
		if src, err := hub.Locate(bare); err != nil || src.Entry == nil || !strings.HasPrefix(src.Entry.Name, family+":") {
			t.Errorf("%s leads to %+v, %v", family, src, err)
		}
	}
	for _, must := range []string{"qwen3:0.6b", "qwen3:4b", "qwen2.5:1.5b", "smollm2:360m"} {
		if !seen[must] {
			t.Errorf("no %s", must)
		}
	}
	repo, _ := models.ParseName("hf.co/AXERA-TECH/Qwen3-0.6B:v1")
	if src, err := hub.Locate(repo); err != nil || src.Repo != "AXERA-TECH/Qwen3-0.6B" || src.Revision != "v1" {
		t.Errorf("%+v, %v", src, err)
	}
}

// A model that was made here, lies in place or ships inside is there already: a pull
// says so, and no hub is asked. One that came from a hub is asked for again.
func TestPullOfWhatIsHere(t *testing.T) {
	_, c := testHub(t)
	s := openStore(t)
	ctx := context.Background()
	if err := s.Pull(ctx, "axle/one", c, nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mine", "me/mine:v2", "example.com/me/mine"} {
		if err := s.Create(ctx, CreateRequest{Name: name, From: "axle/one"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	unreachable := []string{"http://127.0.0.1:1"}
	for name, want := range map[string]bool{"mine": true, "MINE:latest": true, "me/mine:v2": true, "example.com/me/mine": true,
		"axle/one": false, "other": false} {
		var lines []string
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		err := s.Pull(ctx, name, &hub.Client{Endpoints: unreachable, Retries: 1, Backoff: time.Millisecond},
			func(p Progress) { lines = append(lines, p.Status) })
		cancel()
		if (err == nil) != want || want && !slices.Equal(lines, []string{"pulling manifest", "success"}) {
			t.Errorf("%s: %v %q", name, err, lines)
		}
	}
}
