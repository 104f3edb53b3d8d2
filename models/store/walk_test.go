package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/axle-llm/axle/models/modelstest"
)

// TestWalk: folders of packages are looked through once, and again when something in them changed;
// each change is seen at the next request.
func TestWalk(t *testing.T) {
	dir, away := t.TempDir(), t.TempDir()
	add := func(dir, layout string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(dir, 0o755), modelstest.Write(dir, layout)); err != nil {
			t.Fatal(err)
		}
	}
	add(filepath.Join(dir, "One"), "A")
	add(filepath.Join(dir, "org", "Two"), "B")
	add(filepath.Join(away, "Far"), "C")
	s, err := Open(Options{Dir: t.TempDir(), Paths: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	names := func() (out []string) {
		t.Helper()
		list, err := s.List(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list {
			out = append(out, m.Name.String())
			if _, err := s.Get(m.Name.String()); err != nil {
				t.Error(err)
			}
		}
		slices.Sort(out)
		return out
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	steps := []struct {
		what string
		do   func()
		want []string
	}{
		{"at first", func() {}, []string{"One:latest", "org/Two:latest"}},
		{"one more", func() { add(filepath.Join(dir, "org", "Three"), "D") }, []string{"One:latest", "org/Three:latest", "org/Two:latest"}},
		{"one less", func() { do(os.RemoveAll(filepath.Join(dir, "One"))) }, []string{"org/Three:latest", "org/Two:latest"}},
		{"renamed", func() { do(os.Rename(filepath.Join(dir, "org", "Two"), filepath.Join(dir, "org", "Zwei"))) },
			[]string{"org/Three:latest", "org/Zwei:latest"}},
		{"a link", func() { do(os.Symlink(filepath.Join(away, "Far"), filepath.Join(dir, "Linked"))) },
			[]string{"Linked:latest", "org/Three:latest", "org/Zwei:latest"}},
		{"a link to nothing", func() { do(os.Rename(filepath.Join(away, "Far"), filepath.Join(away, "Gone"))) },
			[]string{"org/Three:latest", "org/Zwei:latest"}},
		{"a link that leads somewhere again", func() { do(os.Rename(filepath.Join(away, "Gone"), filepath.Join(away, "Far"))) },
			[]string{"Linked:latest", "org/Three:latest", "org/Zwei:latest"}},
		{"a package in the folder itself", func() { add(dir, "G") }, []string{filepath.Base(dir) + ":latest"}},
	}
	for _, step := range steps {
		step.do()
		if got := names(); !slices.Equal(got, step.want) {
			t.Errorf("%s: %q, want %q", step.what, got, step.want)
		}
		age(t, dir)
		age(t, away)
		if _, walked := s.packages(dir); !walked {
			t.Errorf("%s: times that changed were not seen", step.what)
		}
		if _, walked := s.packages(dir); walked {
			t.Errorf("%s: looked through again for nothing", step.what)
		}
		if got := names(); !slices.Equal(got, step.want) {
			t.Errorf("%s, once more: %q, want %q", step.what, got, step.want)
		}
	}
	// A file that is replaced changes its model, though no folder's time.
	m, err := s.Get(filepath.Base(dir))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	do(os.Chtimes(filepath.Join(dir, "qwen3_post.axmodel"), now, now))
	if again, err := s.Get(filepath.Base(dir)); err != nil || again.Digest == m.Digest {
		t.Errorf("the same digest after a change, %v", err)
	}
}

// age gives all below dir times of an hour ago, as unused files have.
func age(t testing.TB, dir string) {
	t.Helper()
	past := time.Now().Add(-time.Hour)
	err := filepath.WalkDir(dir, func(name string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err = os.Chtimes(name, past, past); errors.Is(err, os.ErrNotExist) { // a link to nothing
			err = nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// BenchmarkGetInPlace is what finding a model costs beside a hundred packages.
func BenchmarkGetInPlace(b *testing.B) {
	dir := b.TempDir()
	for i := range 100 {
		at := filepath.Join(dir, "Model-"+string(rune('a'+i/10))+string(rune('a'+i%10)))
		if err := errors.Join(os.Mkdir(at, 0o755), modelstest.Write(at, "A")); err != nil {
			b.Fatal(err)
		}
	}
	age(b, dir)
	s, err := Open(Options{Dir: b.TempDir(), Paths: []string{dir}})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for b.Loop() {
		if _, err := s.Get("Model-ee"); err != nil {
			b.Fatal(err)
		}
	}
}
