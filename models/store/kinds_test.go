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

func names(k modelstest.Kind) (all []string) {
	for n := range k.Files {
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}
