package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/models"
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

func names(k modelstest.Kind) (all []string) {
	for n := range k.Files {
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}
