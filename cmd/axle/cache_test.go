//go:build !scripted

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/engine/hosthead"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
	"github.com/axle-llm/axle/models/rows"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server/local"
)

// TestCache: what conversations left is shown and cleared by model, or all of it; names that left
// nothing are told.
func TestCache(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("AXLE_MODELS", dir)
	out := shown(t, "cache")
	if !strings.HasPrefix(out, "NAME") || strings.Count(out, "\n") != 1 {
		t.Errorf("nothing is shown as %q", out)
	}
	keep := func() {
		d, err := rows.Open(rows.Options{Dir: filepath.Join(dir, "rows"), Size: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"one:latest", "two:1b"} {
			s := d.Space(rows.Owner{Package: name, Model: name, Row: 4})
			if err := s.Save(s.Keys(make([]int32, d.Block()))[0], make([]byte, 4*d.Block())); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	keep()
	if out = shown(t, "cache"); !strings.Contains(out, "one:latest") || !strings.Contains(out, "two:1b") || strings.Count(out, "\n") != 3 {
		t.Errorf("two models are shown as %q", out)
	}
	if out = shown(t, "cache", "clear", "one"); !strings.HasPrefix(out, "removed ") {
		t.Errorf("%q", out)
	}
	if out = shown(t, "cache"); strings.Contains(out, "one:latest") || !strings.Contains(out, "two:1b") {
		t.Errorf("after one is cleared: %q", out)
	}
	if out, err := cacheRun(t, "cache", "clear", "one"); err == nil || !strings.Contains(err.Error(), "one has left nothing") {
		t.Errorf("cleared twice: %q, %v", out, err)
	}
	keep()
	head := filepath.Join(provenDir(dir), "head-0123456789abcdef-11223344-55667788.axmodel")
	if err := errors.Join(os.MkdirAll(provenDir(dir), 0o755), os.WriteFile(head, make([]byte, 2_000_000), 0o644)); err != nil {
		t.Fatal(err)
	}
	if out = shown(t, "cache"); !strings.Contains(out, "LM heads for this machine's processor: 1, 2 MB") {
		t.Errorf("a head is shown as %q", out)
	}
	shown(t, "cache", "clear", "one")
	if _, err := os.Stat(head); err != nil {
		t.Errorf("a head went with another model's conversations: %v", err)
	}
	shown(t, "cache", "clear")
	if out = shown(t, "cache"); strings.Count(out, "\n") != 1 {
		t.Errorf("after all is cleared: %q", out)
	}
	if _, err := os.Stat(filepath.Join(dir, "rows", "secret")); err != nil {
		t.Errorf("the secret went too: %v", err)
	}
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{"0": 0, "1": 1, "20GB": 20e9, "20 gb": 20e9, "1.5G": 15e8, "512MiB": 512 << 20, "2tib": 2 << 40,
		" 7k ": 7000, "9B": 9} {
		if got, err := parseSize(in); err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "GB", "-1", "1X", "1GBG", "NaN", "Inf", "1e30", "20,5GB", "0x10G"} {
		if got, err := parseSize(in); err == nil || !strings.Contains(err.Error(), "20GB") {
			t.Errorf("%q is %d, %v", in, got, err)
		}
	}
}

// cacheRun runs axle cache; shown is what it prints where it must work.
func cacheRun(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, _, err := command(t, args...)
	return out, err
}

func shown(t *testing.T, args ...string) string {
	t.Helper()
	out, err := cacheRun(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRowsRemoved: what conversations left of a package, and its LM head, go with the last model
// that has it.
func TestRowsRemoved(t *testing.T) {
	h := modelstest.NewHub()
	defer h.Close()
	pack, dir := t.TempDir(), t.TempDir()
	if err := modelstest.Write(pack, "A"); err != nil {
		t.Fatal(err)
	}
	if err := h.AddDir("axle/one", pack); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AXLE_HOST", "127.0.0.1:1")
	t.Setenv("AXLE_MODELS", dir)
	t.Setenv("AXLE_MODEL_PATH", "")
	t.Setenv("HF_ENDPOINT", h.URL)
	shown(t, "pull", "axle/one")
	st, err := store.Open(storeOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	m, err := st.Get("axle/one")
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.Open()
	if err != nil {
		t.Fatal(err)
	}
	digest := p.Digest()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := rows.Open(rows.Options{Dir: rowsDir(dir), Size: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, of := range []string{digest, "another"} {
		s := d.Space(rows.Owner{Package: of, Model: "axle/one:latest", Row: 4})
		if err := s.Save(s.Keys(make([]int32, d.Block()))[0], make([]byte, 4*d.Block())); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.Copy("axle/one", "other"); err != nil {
		t.Fatal(err)
	}
	head := filepath.Join(provenDir(dir), "head-"+hosthead.Of(digest)+"11223344-55667788.axmodel")
	if err := errors.Join(os.MkdirAll(provenDir(dir), 0o755), os.WriteFile(head, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	lm := local.New(st, local.Options{Rows: rowsDir(dir), Heads: provenDir(dir)})
	for i, name := range []string{"axle/one", "other"} {
		n, err := models.ParseName(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := lm.Delete(n); err != nil {
			t.Fatal(err)
		}
		if left, err := rows.Look(rowsDir(dir)); err != nil || len(left) != 2-i {
			t.Errorf("after %s is deleted: %+v, %v", name, left, err)
		}
		if left := hosthead.Look(provenDir(dir), ""); len(left) != 1-i {
			t.Errorf("after %s is deleted: heads %+v", name, left)
		}
	}
}

// TestDiskCacheReused: a loader with a disk cache stores there what a model evaluated, and the next
// one gives the same answer with it.
func TestDiskCacheReused(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("AXLE_MODELS", dir)
	t.Setenv("AXLE_MODEL_PATH", "")
	st, err := store.Open(storeOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	n, err := models.ParseName("pocket")
	if err != nil {
		t.Fatal(err)
	}
	e, err := local.New(st, local.Options{}).Get(n)
	if err != nil {
		t.Fatal(err)
	}
	var said [2]string
	for i := range said {
		d, err := rows.Open(rows.Options{Dir: rowsDir(dir), Size: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		l := local.NewLoader(local.LoaderOptions{Device: "soft", Rows: d})
		m, err := l.Load(context.Background(), e)
		if err != nil {
			t.Fatal(err)
		}
		r := engine.Request{Prompt: strings.Repeat("What is the capital of France? ", 20), Raw: true, Limit: 8, Sampling: m.Sampling()}
		r.Sampling.Temperature = 0
		for ev, err := range m.Generate(context.Background(), r) {
			if err != nil {
				t.Fatal(err)
			}
			said[i] += ev.Text
		}
		for i == 0 && d.Stats().Saved == 0 && !d.Stats().Off {
			runtime.Gosched()
		}
		if d.Stats().Off || d.Stats().Damaged > 0 {
			t.Errorf("%+v", d.Stats())
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if said[0] != said[1] || said[0] == "" {
		t.Errorf("%q, then %q", said[0], said[1])
	}
	u, err := rows.Look(rowsDir(dir))
	if err != nil || len(u) != 1 || u[0].Model != e.Name.String() {
		t.Errorf("%+v, %v", u, err)
	}
}
