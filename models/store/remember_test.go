package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestRemember: a model that Get found is given again without a look at its manifest, and each
// change of what it was found by is seen at the next request: changed, replaced, copied over,
// removed, its small files damaged, hidden by another, and one that came and went.
func TestRemember(t *testing.T) {
	dir, place := t.TempDir(), t.TempDir()
	small := fstest.MapFS{}
	pkg := t.TempDir()
	if err := modelstest.Write(pkg, "A"); err != nil {
		t.Fatal(err)
	}
	_ = fs.WalkDir(os.DirFS(pkg), ".", func(p string, d fs.DirEntry, _ error) error {
		if !d.IsDir() {
			b, _ := os.ReadFile(filepath.Join(pkg, p))
			small[p] = &fstest.MapFile{Data: b}
		}
		return nil
	})
	s, err := Open(Options{Dir: dir, Paths: []string{place}, Builtin: map[string]fs.FS{"small": small}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	create := func(name, system string) {
		t.Helper()
		if err := s.Create(t.Context(), CreateRequest{Name: name, From: "small", System: &system}, func(string) {}); err != nil {
			t.Fatal(err)
		}
	}
	create("mine", "one")
	create("other", "two")
	// What changed a moment ago is not remembered. So that this test need not wait, Get is done as
	// if much later.
	get := func(name string) (*Model, error) {
		m, err := s.Get(name)
		if err == nil {
			n, _ := models.ParseName(name)
			s.remember(n, m, time.Now().Add(time.Hour))
		}
		return m, err
	}
	same := func(name string) *Model {
		t.Helper()
		a, err := get(name)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := s.Get(name); err != nil || a != b {
			t.Errorf("%s is read again though nothing changed: %v", name, err)
		}
		return a
	}
	manifest := func(name string) string { return filepath.Join(dir, same(name).path) }
	system := func(want string) {
		t.Helper()
		if m, err := get("mine"); err != nil || m.System != want {
			t.Errorf("%+v, %v, want %q", m, err, want)
		}
	}
	same("mine")
	system("one")
	create("mine", "new") // replaced
	system("new")
	same("mine")
	if err := s.Copy("other", "mine"); err != nil { // copied over
		t.Fatal(err)
	}
	system("two")

	// Another program writes over it, and keeps size and time.
	path := manifest("mine")
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	old, _ := os.ReadFile(path)
	bad := append([]byte(nil), old...)
	bad[0] = 'x'
	if err := errors.Join(os.WriteFile(path, bad, 0o644), os.Chtimes(path, st.ModTime(), st.ModTime())); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get("mine"); err == nil {
		t.Error("a damaged manifest is given from memory")
	}
	if err := os.WriteFile(path, old, 0o644); err != nil {
		t.Fatal(err)
	}
	m := same("mine")
	for _, l := range m.m.Layers { // a small file goes
		if err := os.Remove(filepath.Join(dir, blobPath(l))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Get("mine"); err == nil {
		t.Error("a model without its system prompt is given from memory")
	}
	create("mine", "two")

	same("mine")
	if err := s.Delete("mine"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get("mine"); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v of a model that was removed", err)
	}
	create("mine", "again")
	system("again")

	// A built-in model is hidden by a manifest of any spelling, and by a package in place, and
	// comes back.
	if m := same("small"); !m.Builtin || m.path != "" {
		t.Errorf("%+v", m)
	}
	if err := s.Copy("other", "SMALL"); err != nil {
		t.Fatal(err)
	}
	if m, err := get("small"); err != nil || m.path == "" {
		t.Errorf("%+v, %v: the built-in model is given though another has its name", m, err)
	}
	if err := s.Delete("SMALL"); err != nil {
		t.Fatal(err)
	}
	same("small")
	if err := errors.Join(os.Mkdir(filepath.Join(place, "small"), 0o755), modelstest.Write(filepath.Join(place, "small"), "A")); err !=
		nil {
		t.Fatal(err)
	}
	if m, err := get("small"); err != nil || m.Folder == "" {
		t.Errorf("%+v, %v: the built-in model is given though a package in place has its name", m, err)
	}
	if err := os.RemoveAll(filepath.Join(place, "small")); err != nil {
		t.Fatal(err)
	}
	same("small")

	// A change of a moment ago is told from none only by what it is, so nothing is remembered on
	// it.
	create("mine", "fresh")
	age(t, dir) // anyone can say that a file is old, but not that it was not touched now
	a, _ := s.Get("mine")
	if b, _ := s.Get("mine"); a == b {
		t.Error("a manifest that has just changed is remembered")
	}
}
