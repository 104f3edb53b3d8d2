package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models"
)

// TestForeign: in a folder shared with Ollama its models are not listed, not deleted and not
// written over, whatever kind they are, and all that their manifests name stays.
func TestForeign(t *testing.T) {
	lane.Slow(t)
	ctx := context.Background()
	_, c := testHub(t)
	for _, tt := range []struct {
		name, layers, more string
		want               error
	}{
		{"gguf", "application/vnd.ollama.image.model", "", ErrGGUF},
		{"safetensors", "application/vnd.ollama.image.tensor", "", ErrForeign},
		{"a stub of the cloud", "", "", ErrForeign},
		{"with what we do not know", "application/vnd.ollama.image.tensor", `,"mediaType":7`, ErrForeign},
		{"too long to be ours", "application/vnd.ollama.image.tensor", `,"x":"` + strings.Repeat("x", maxManifest) + `"`, ErrForeign},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := openStore(t)
			if err := s.Pull(ctx, "axle/two", c, nil); err != nil {
				t.Fatal(err)
			}
			config, weights := []byte("{}"), []byte("weights")
			for _, b := range [][]byte{config, weights} {
				if _, err := s.PutBlob(ctx, sum(b), bytes.NewReader(b)); err != nil {
					t.Fatal(err)
				}
			}
			layers := ""
			if tt.layers != "" {
				layers = fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":7}`, tt.layers, sum(weights))
			}
			manifest := fmt.Sprintf(
				`{"schemaVersion":2,"config":{"mediaType":"application/vnd.docker.container.image.v1+json","digest":%q,"size":2},"layers":[%s]%s}`,
				sum(config), layers, tt.more)
			for _, name := range []string{"library/theirs", "axle/one"} {
				at := filepath.Join(s.Dir(), "manifests/registry.ollama.ai", name, "latest")
				err := os.MkdirAll(filepath.Dir(at), 0o755)
				if err == nil {
					err = os.WriteFile(at, []byte(manifest), 0o644)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			theirs, err := models.ParseName("theirs")
			if err != nil {
				t.Fatal(err)
			}
			two := get(t, s, "axle/two").m
			before := blobs(t, s)
			for what, err := range map[string]error{
				"pull":          s.Pull(ctx, "axle/one", c, nil),
				"create":        s.Create(ctx, CreateRequest{Name: "theirs", From: "axle/two", License: []string{"a new blob"}}, nil),
				"copy":          s.Copy("axle/two", "theirs"),
				"another case":  s.Copy("axle/two", "Theirs"),
				"commit itself": s.locked(func() error { return s.commit(theirs, two) }),
			} {
				if !errors.Is(err, ErrTaken) || errors.Is(err, tt.want) || !strings.Contains(strings.ToLower(err.Error()), "theirs") &&
					!strings.Contains(err.Error(), "axle/one") ||
					!strings.Contains(err.Error(), "choose another name") {
					t.Errorf("%s: %v", what, err)
				}
			}
			if _, err := s.Get("theirs"); !errors.Is(err, tt.want) {
				t.Errorf("Get: %v", err)
			}
			if err := s.Delete("theirs"); !errors.Is(err, tt.want) {
				t.Errorf("Delete: %v", err)
			}
			if list, err := s.List(ctx); err != nil || len(list) != 1 {
				t.Errorf("listed: %v, %v", list, err)
			}
			if err := s.Delete("axle/two"); err != nil {
				t.Error(err)
			}
			if _, err := s.Prune(-1); err != nil {
				t.Error(err)
			}
			for _, b := range [][]byte{config, weights} {
				if !slices.Contains(blobs(t, s), sum(b).File()) && (tt.layers != "" || bytes.Equal(b, config)) {
					t.Errorf("%s is gone; before: %v", sum(b).File(), before)
				}
			}
			if got, err := os.ReadFile(filepath.Join(s.Dir(), "manifests/registry.ollama.ai/library/theirs/latest")); err != nil ||
				string(got) != manifest {
				t.Errorf("their manifest: %.100s, %v", got, err)
			}
		})
	}
}
