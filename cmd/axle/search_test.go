//go:build !scripted

package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/models/modelstest"
	"github.com/axle-llm/axle/models/search"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/local"
)

// TestSearchServed: pairs of encoders, the one inside the program and one from a hub, are listed,
// described, planned and asked as models that give vectors of texts and of pictures, and a text's
// vector is nearest to that of the picture it is about.
func TestSearchServed(t *testing.T) {
	h := modelstest.NewHub()
	defer h.Close()
	dir := t.TempDir()
	if err := (modelstest.CLIP{Seed: 7, Layout: "Immich"}).Write(dir); err != nil {
		t.Fatal(err)
	}
	if err := h.AddDir("axle/pair", dir); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "models")
	t.Setenv("AXLE_MODELS", folder)
	t.Setenv("AXLE_MODEL_PATH", "")
	t.Setenv("HF_ENDPOINT", h.URL)
	t.Setenv("HF_TOKEN", "")
	st, err := store.Open(store.Options{Dir: folder, Builtin: map[string]fs.FS{search.Name: search.FS()}})
	if err != nil {
		t.Fatal(err)
	}
	loader := local.NewLoader(local.LoaderOptions{Device: "soft"})
	defer loader.Close()
	s := server.New(local.New(st, local.Options{}), loader, newPuller(st), server.Options{Loopback: true, KeepAlive: time.Minute})
	defer s.Close(context.Background())
	host := listening(t, s, st)
	t.Setenv("AXLE_HOST", host)
	if _, errs, err := command(t, "pull", "axle/pair"); err != nil || strings.Contains(errs, "does not run") {
		t.Fatal(err, errs)
	}
	vectors := func(name, body string) [][]float64 {
		t.Helper()
		resp, err := http.Post(host+"/api/embed", "application/json", strings.NewReader(`{"model":"`+name+`",`+body+`}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		all, _ := io.ReadAll(resp.Body)
		var got struct{ Embeddings [][]float64 }
		if err := json.Unmarshal(all, &got); resp.StatusCode != 200 || err != nil || len(got.Embeddings) == 0 {
			t.Fatalf("%s: %d %.300s", name, resp.StatusCode, all)
		}
		return got.Embeddings
	}
	var pictures []string
	for _, name := range []string{"04", "09"} { // a yellow triangle, and a black star
		b, err := os.ReadFile("../../models/search/testdata/" + name + ".png")
		if err != nil {
			t.Fatal(err)
		}
		pictures = append(pictures, base64.StdEncoding.EncodeToString(b))
	}
	for name, dims := range map[string]int{"pocket-search": 64, "axle/pair": 24} {
		for _, args := range [][]string{{"list"}, {"show", name}, {"inspect", name}, {"plan", name}} {
			out, _, err := command(t, args...)
			want := map[string]string{"list": name, "show": "vision", "inspect": "CLIP", "plan": "a call of its nets"}[args[0]]
			if err != nil || !strings.Contains(out, want) || strings.Contains(out, "does not run") || strings.Contains(out, "completion") {
				t.Errorf("%v: %v\n%s", args, err, out)
			}
		}
		seen := vectors(name, fmt.Sprintf(`"input":["",""],"images":[%q,%q]`, pictures[0], pictures[1]))
		said := vectors(name, `"input":["a yellow triangle","a black star"]`)
		if len(seen) != 2 || len(said) != 2 || len(seen[1]) != dims || len(said[0]) != dims {
			t.Fatalf("%s: %d and %d vectors", name, len(seen), len(said))
		}
		near := func(i, k int) (sum float64) {
			for d, v := range said[i] {
				sum += v * seen[k][d]
			}
			return sum
		}
		if name == "pocket-search" && (near(0, 0) <= near(0, 1) || near(1, 1) <= near(1, 0)) {
			t.Errorf("%.2f %.2f %.2f %.2f", near(0, 0), near(0, 1), near(1, 0), near(1, 1))
		}
		if out, _, err := command(t, "ps"); err != nil || !strings.Contains(out, name) {
			t.Errorf("ps: %v %s", err, out)
		}
	}
}
