//go:build !scripted

package main

import (
	"bytes"
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

	"github.com/axle-llm/axle/models/modelstest"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/local"
	"github.com/axle-llm/axle/server/scripted"
)

// A package of any kind and layout is told with one sentence, and never as a model that completes
// texts: by inspect, plan, pull, list and show, and by the server, which refuses to ask it.
func TestKindsAreTold(t *testing.T) {
	h := modelstest.NewHub()
	defer h.Close()
	folder := filepath.Join(t.TempDir(), "models")
	t.Setenv("AXLE_MODELS", folder)
	t.Setenv("AXLE_MODEL_PATH", "")
	t.Setenv("HF_ENDPOINT", h.URL)
	t.Setenv("HF_TOKEN", "")
	st, err := store.Open(store.Options{Dir: folder})
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(local.New(st, local.Options{}), &scripted.Loader{}, newPuller(st), server.Options{Loopback: true})
	host := listening(t, s, st)
	t.Setenv("AXLE_HOST", host)
	for i, k := range modelstest.Kinds() {
		name := "axle/k" + fmt.Sprint(i)
		dir := filepath.Join(t.TempDir(), "qwen3-chat")
		if err := k.Write(dir); err != nil {
			t.Fatal(err)
		}
		if err := h.AddDir(name, dir); err != nil {
			t.Fatal(err)
		}
		sentence := " " + k.Name + " package ("
		check := func(what, out string, err error) {
			t.Helper()
			if err != nil || !strings.Contains(out, sentence) || !strings.Contains(out, "): axle does not run it yet") ||
				strings.Contains(out, "completion") {
				t.Errorf("%s %s, %s: %v\n%.600s", k.Name, k.Layout, what, err, out)
			}
		}
		_, errs, err := command(t, "pull", name)
		check("pull", errs, err)
		for _, args := range [][]string{{"inspect", dir}, {"inspect", name}, {"inspect", name, "--json"}, {"list", name}, {"show", name}} {
			out, _, err := command(t, args...)
			check(strings.Join(args, " "), out, err)
		}
		for _, model := range []string{dir, name} {
			if _, _, err = command(t, "plan", model); err == nil {
				t.Errorf("%s: plan of %s", k.Name, model)
			} else if check("plan "+model, err.Error(), nil); strings.Contains(err.Error(), "shapes") {
				t.Error(err)
			}
		}
		ask := func(path string, body map[string]any) (int, string) {
			b, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.Post(host+path, "application/json", bytes.NewReader(b))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			all, _ := io.ReadAll(resp.Body)
			return resp.StatusCode, strings.ReplaceAll(string(all), `\"`, `"`)
		}
		code, show := ask("/api/show", map[string]any{"model": name})
		if check("/api/show", show, nil); code != 200 || !strings.Contains(show, `"capabilities":[]`) && strings.Contains(show, `"capabilities"`) {
			t.Errorf("%s: show %d %s", k.Name, code, show)
		}
		for path, body := range map[string]map[string]any{
			"/api/chat":            {"model": name, "messages": []any{map[string]any{"role": "user", "content": "x"}}},
			"/api/generate":        {"model": name},
			"/api/embed":           {"model": name, "input": "x"},
			"/v1/chat/completions": {"model": name, "messages": []any{map[string]any{"role": "user", "content": "x"}}},
			"/v1/messages":         {"model": name, "max_tokens": 1, "messages": []any{map[string]any{"role": "user", "content": "x"}}},
			"/v1/embeddings":       {"model": name, "input": "x"},
		} {
			code, text := ask(path, body)
			if check(path, text, nil); code != 400 {
				t.Errorf("%s: %s answers %d", k.Name, path, code)
			}
		}
	}
	resp, err := http.Get(host + "/api/tags")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var list struct {
		Models []struct {
			Name, Says   string
			Capabilities []string
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil || len(list.Models) != len(modelstest.Kinds()) {
		t.Fatal(err, len(list.Models))
	}
	for _, m := range list.Models {
		if len(m.Capabilities) > 0 || !strings.HasSuffix(m.Says, "does not run it yet") {
			t.Errorf("listed %+v", m)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestFacesTold: a package for faces is told as one by every command, and refused where it cannot
// do what is asked.
func TestFacesTold(t *testing.T) {
	place := t.TempDir()
	dir := filepath.Join(place, "buffalo")
	if err := (modelstest.Faces{Seed: 1, Layout: "rows"}).Write(dir); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AXLE_MODELS", t.TempDir())
	t.Setenv("AXLE_MODEL_PATH", place)
	t.Setenv("AXLE_HOST", "127.0.0.1:1")
	for _, c := range []struct{ args, want string }{
		{"inspect " + dir, "pictures of 160×160 pixels, a vector of 512 values for each face"},
		{"list", "buffalo"},
		{"show buffalo", "faces"},
		{"plan " + dir, "a call of its nets"},
		{"plan " + dir + " --with qwen3-0.6b", "together"},
		{"run buffalo hello", "does not support generate: it finds faces in pictures"},
		{"detect -m buffalo ../../docs/ui.png", "does not find things in pictures"},
	} {
		got, _, err := command(t, strings.Fields(c.args)...)
		if err != nil {
			got += err.Error()
		}
		if !strings.Contains(got, c.want) || strings.Contains(got, "a detection by") {
			t.Errorf("%s: %s, want %q", c.args, got, c.want)
		}
	}
}

// TestTextEncoderServed: a text encoder is pulled, listed and shown as an embedding model, and its
// vectors come over Ollama's and OpenAI's API, from the hub's package and from a folder in place.
func TestTextEncoderServed(t *testing.T) {
	h := modelstest.NewHub()
	defer h.Close()
	place := t.TempDir()
	dir := filepath.Join(place, "texts")
	if err := (modelstest.TextEncoder{Seed: 7, Length: 128, Dims: 32, Layers: 1}).Write(dir); err != nil {
		t.Fatal(err)
	}
	gemma := modelstest.EmbeddingGemma{Seed: 1}
	if err := errors.Join(h.AddDir("axle/encoder", dir), gemma.Write(filepath.Join(place, "gemma")),
		modelstest.Jina{Seed: 1}.Write(filepath.Join(place, "jina"))); err != nil {
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
	loader := local.NewLoader(local.LoaderOptions{Device: "soft"})
	defer loader.Close()
	s := server.New(local.New(st, local.Options{}), loader, newPuller(st), server.Options{Loopback: true, KeepAlive: time.Minute})
	defer s.Close(context.Background())
	host := listening(t, s, st)
	t.Setenv("AXLE_HOST", host)
	if _, errs, err := command(t, "pull", "axle/encoder"); err != nil || strings.Contains(errs, "does not run") {
		t.Fatal(err, errs)
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
	var vectors []string
	for _, name := range []string{"axle/encoder", "texts"} {
		for _, args := range [][]string{{"list"}, {"show", name}, {"inspect", name}, {"plan", name}} {
			out, _, err := command(t, args...)
			want := map[string]string{"list": name, "show": "embedding", "inspect": "text encoder", "plan": "a call of its nets"}[args[0]]
			if err != nil || !strings.Contains(out, want) || strings.Contains(out, "does not run") || strings.Contains(out, "completion") {
				t.Errorf("%v: %v\n%s", args, err, out)
			}
		}
		code, text := ask("/api/embed", `{"model":"`+name+`","input":["the cat sat","dogs"]}`)
		var got struct{ Embeddings [][]float32 }
		if err := json.Unmarshal([]byte(text), &got); code != 200 || err != nil || len(got.Embeddings) != 2 ||
			len(got.Embeddings[0]) != 32 {
			t.Fatalf("%s: %d %s", name, code, text)
		}
		vectors = append(vectors, fmt.Sprint(got.Embeddings))
		if code, text = ask("/v1/embeddings", `{"model":"`+name+`","input":"x","dimensions":4}`); code != 200 ||
			!strings.Contains(text, `"prompt_tokens":3`) {
			t.Errorf("%s: %d %s", name, code, text)
		}
		if code, text = ask("/api/chat", `{"model":"`+name+`","messages":[{"role":"user","content":"x"}]}`); code != 400 ||
			!strings.Contains(text, "does not support chat") {
			t.Errorf("%s: %d %s", name, code, text)
		}
		if out, _, err := command(t, "ps"); err != nil || !strings.Contains(out, name) {
			t.Errorf("ps: %v %s", err, out)
		}
	}
	for _, args := range [][]string{{"list"}, {"show", "gemma"}, {"inspect", "gemma"}, {"plan", "gemma"}} {
		out, _, err := command(t, args...)
		want := map[string]string{"list": "gemma", "show": "document, none, query", "inspect": "document, none, query",
			"plan": "a call of its nets"}[args[0]]
		if err != nil || !strings.Contains(out, want) || strings.Contains(out, "does not run") || strings.Contains(out, "completion") {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	for _, args := range [][]string{{"list"}, {"show", "jina"}, {"inspect", "jina"}, {"plan", "jina"}} {
		out, _, err := command(t, args...)
		want := map[string]string{"list": "jina:retrieval", "show": "document, query", "inspect": "clustering, retrieval",
			"plan": "a call of its nets"}[args[0]]
		if err != nil || !strings.Contains(out, want) || strings.Contains(out, "does not run") || strings.Contains(out, "completion") {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	var same []string
	for _, name := range []string{"jina", "jina:retrieval", "jina"} {
		code, text := ask("/v1/embeddings", `{"model":"`+name+`","input":"the cat","input_type":"query"}`)
		if code != 200 {
			t.Errorf("%s: %d %s", name, code, text)
		}
		same = append(same, text[:strings.LastIndex(text, `"model"`)+1])
	}
	if same[0] == same[1] || same[0] != same[2] {
		t.Errorf("with and without an adapter: %.300q", same)
	}
	if code, text := ask("/api/embed", `{"model":"gemma","input":"the cat sat","dimensions":16}`); code != 200 ||
		strings.Count(text, ",") < 15 {
		t.Errorf("%d %s", code, text)
	}
	if code, text := ask("/v1/embeddings", `{"model":"gemma","input":"x","dimensions":4}`); code != 400 ||
		!strings.Contains(text, "dimensions must be one of 24, 16, 8") {
		t.Errorf("%d %s", code, text)
	}
	if vectors[0] != vectors[1] {
		t.Error("the package from the hub and its folder give different vectors")
	}
}
