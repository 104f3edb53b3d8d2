//go:build !scripted

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/modelstest"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/local"
)

// TestAdaptersServed: each LoRA adapter of a package is a model of its own, which is listed, shown
// and asked by name, from the hub and in place; the model and its adapters are loaded once.
func TestAdaptersServed(t *testing.T) {
	lane.NoRace(t)
	h := modelstest.NewHub()
	defer h.Close()
	place := t.TempDir()
	if _, err := axmodeltest.RandomCheckpoint(place, "qwen3", 5); err != nil {
		t.Fatal(err)
	}
	place = filepath.Join(place, "models")
	dir := filepath.Join(place, "tuned")
	if _, err := compile.Run(t.Context(), compile.Options{From: filepath.Dir(place), Out: dir, Context: 255, Chunk: 64,
		History: []int{0, 64, 128}, Name: "m"}); err != nil {
		t.Fatal(err)
	}
	_, err := modelstest.AddAdapters(dir, 4, 7, "chart", "design-2")
	if err = errors.Join(err, h.AddDir("axle/tuned", dir)); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "models")
	t.Setenv("AXLE_MODELS", folder)
	t.Setenv("AXLE_MODEL_PATH", place)
	t.Setenv("HF_ENDPOINT", h.URL)
	t.Setenv("HF_TOKEN", "")
	st, err := store.Open(store.Options{Dir: folder, Paths: []string{place}})
	if err != nil {
		t.Fatal(err)
	}
	loads := make(chan string, 10)
	loader := local.NewLoader(local.LoaderOptions{Device: "soft", Loaded: func(name string, _ engine.Stats) { loads <- name }})
	defer loader.Close()
	s := server.New(local.New(st, local.Options{}), loader, newPuller(st), server.Options{Loopback: true, KeepAlive: time.Minute})
	defer s.Close(context.Background())
	host := listening(t, s, st)
	t.Setenv("AXLE_HOST", host)
	for _, args := range [][]string{{"pull", "axle/tuned"}, {"cp", "axle/tuned", "axle/tuned:small"}} {
		if _, errs, err := command(t, args...); err != nil {
			t.Fatal(args, err, errs)
		}
	}
	ask := func(path, body string) (int, string) {
		resp, err := http.Post(host+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		all, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(all)
	}
	out, _, err := command(t, "list")
	for _, name := range []string{"tuned:latest", "tuned:chart", "tuned:design-2", "axle/tuned:chart", "axle/tuned:small-design-2"} {
		if err != nil || !strings.Contains(out, name+" ") {
			t.Errorf("list, without %s: %v\n%s", name, err, out)
		}
	}
	for _, args := range [][]string{{"show", "tuned"}, {"show", "tuned:chart"}, {"inspect", dir}} {
		if out, _, err := command(t, args...); err != nil || !strings.Contains(out, "chart, design-2") {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	answers := map[string]string{}
	for _, base := range []string{"tuned:", "axle/tuned:", "axle/tuned:small-"} {
		for _, adapter := range []string{"chart", "latest", "design-2"} { // the first is not the package's own
			if base == "axle/tuned:small-" && adapter == "latest" {
				continue
			}
			code, text := ask("/api/generate", fmt.Sprintf(
				`{"model":%q,"prompt":"THE FOX","raw":true,"stream":false,"options":{"temperature":0,"num_predict":12}}`, base+adapter))
			var got struct {
				Model, Response string
				Context         []int
			}
			if err := json.Unmarshal([]byte(text), &got); code != 200 || err != nil || got.Model != base+adapter {
				t.Fatalf("%s: %d %s", base+adapter, code, text)
			}
			told := fmt.Sprint(got.Response, got.Context)
			if was, ok := answers[adapter]; ok && was != told {
				t.Errorf("%s answers %s, another package of the same files %s", base+adapter, told, was)
			}
			answers[adapter] = told
		}
		if out, _, err := command(t, "ps"); err != nil || strings.Count(out, base[:len(base)-1]) < 1 || !strings.Contains(out, "design-2") {
			t.Errorf("ps: %v\n%s", err, out)
		}
	}
	if answers["latest"] == answers["chart"] || answers["chart"] == answers["design-2"] {
		t.Errorf("adapters change nothing: %q", answers)
	}
	if out, _, err := command(t, "ps"); err != nil || strings.Count(out, "tuned") != 2 {
		t.Errorf("of two packages %d models are loaded: %v\n%s", strings.Count(out, "tuned"), err, out)
	}
	if len(loads) != 2 {
		t.Errorf("%d models were loaded", len(loads))
	} else if a, b := <-loads, <-loads; a != "tuned:latest" || b != "axle/tuned:latest" {
		t.Errorf("loaded as %s and %s", a, b)
	}
	if code, text := ask("/api/generate", `{"model":"tuned:none","prompt":"x"}`); code != 404 {
		t.Errorf("an adapter that is not there: %d %s", code, text)
	}
}
