//go:build !scripted

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
)

// TestSees: a package that sees, served: every dialect and axle run give the same answer about a picture, and another about another one;
// what cannot be read is said in Ollama's words, and the server goes on.
func TestSees(t *testing.T) {
	unraced(t)
	dir := t.TempDir()
	a := axmodeltest.SightArchs()[1] // its head is no table of embeddings, so it does not repeat what it heard
	c, err := axmodeltest.WriteCheckpoint(dir, a, 5)
	if err != nil {
		t.Fatal(err)
	}
	o := compile.Options{From: dir, Out: filepath.Join(dir, "sees"), Context: 255, Chunk: 16, History: []int{0, 16, 64, 192}, Name: "sees"}
	p, err := compile.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	url, _ := goldenServer(t, "soft", "AXLE_MODEL_PATH="+p.Dir)
	send := func(path string, body any, answer any) (int, string) {
		t.Helper()
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.Post(url+path, "application/json", bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		said, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		if answer != nil && r.StatusCode == 200 {
			if err := json.Unmarshal(said, answer); err != nil {
				t.Fatalf("%s: %s: %v", path, said, err)
			}
		}
		return r.StatusCode, string(said)
	}
	var show struct{ Capabilities []string }
	name := filepath.Base(p.Dir)
	if code, said := send("/api/show", obj{"model": name}, &show); code != 200 || !slices.Contains(show.Capabilities, "vision") {
		t.Fatalf("show: %d %s", code, said)
	}
	const words, most = "what is it", 6
	zero := obj{"temperature": 0, "num_predict": most}
	asks := map[string]func(b64 string) string{
		"chat": func(b64 string) string {
			var a struct {
				Message struct{ Content string }
				N       int `json:"prompt_eval_count"`
			}
			code, said := send("/api/chat", obj{"model": name, "stream": false, "options": zero, "think": false,
				"messages": []obj{{"role": "user", "content": words, "images": []string{b64}}}}, &a)
			if code != 200 || a.N < rowsOf(c) {
				t.Errorf("chat: %d %s", code, said)
			}
			return a.Message.Content
		},
		"completions": func(b64 string) string {
			var a struct {
				Choices []struct{ Message struct{ Content string } }
				Usage   struct {
					N int `json:"prompt_tokens"`
				}
			}
			code, said := send("/v1/chat/completions", obj{"model": name, "temperature": 0, "max_tokens": most, "reasoning_effort": "none",
				"messages": []obj{{"role": "user", "content": []obj{
					{"type": "image_url", "image_url": obj{"url": "data:image/png;base64," + b64}}, {"type": "text", "text": words}}}}}, &a)
			if code != 200 || len(a.Choices) != 1 || a.Usage.N < rowsOf(c) {
				t.Errorf("completions: %d %s", code, said)
				return ""
			}
			return a.Choices[0].Message.Content
		},
		"responses": func(b64 string) string {
			var a struct {
				Output []struct{ Content []struct{ Text string } }
			}
			code, said := send("/v1/responses", obj{"model": name, "temperature": 0, "max_output_tokens": most,
				"reasoning": obj{"effort": "none"},
				"input": []obj{{"type": "message", "role": "user", "content": []obj{
					{"type": "input_image", "image_url": "data:image/png;base64," + b64}, {"type": "input_text", "text": words}}}}}, &a)
			if code != 200 || len(a.Output) != 1 || len(a.Output[0].Content) != 1 {
				t.Errorf("responses: %d %s", code, said)
				return ""
			}
			return a.Output[0].Content[0].Text
		},
		"messages": func(b64 string) string {
			var a struct{ Content []struct{ Text string } }
			code, said := send("/v1/messages", obj{"model": name, "temperature": 0, "max_tokens": most,
				"messages": []obj{{"role": "user", "content": []obj{
					{"type": "image", "source": obj{"type": "base64", "media_type": "image/png", "data": b64}},
					{"type": "text", "text": words}}}}}, &a)
			if code != 200 || len(a.Content) != 1 {
				t.Errorf("messages: %d %s", code, said)
				return ""
			}
			return a.Content[0].Text
		},
	}
	answers := map[string]bool{}
	for seed := range uint64(3) {
		file := noise(t, seed)
		b64 := base64.StdEncoding.EncodeToString(file)
		want := asks["chat"](b64)
		answers[want] = want != ""
		for name, ask := range asks {
			if got := ask(b64); got != want {
				t.Errorf("picture %d, %s: %q, want %q", seed, name, got, want)
			}
		}
		var g struct{ Response string }
		if code, said := send("/api/generate", obj{"model": name, "prompt": words, "images": []string{b64}, "stream": false, "think": false,
			"options": zero}, &g); code != 200 || g.Response != want {
			t.Errorf("picture %d, generate: %d %s, want %q", seed, code, said, want)
		}
		path := filepath.Join(t.TempDir(), "it.png")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("AXLE_HOST", url)
		if _, errOut, err := axle(t, "", "run", name, words, path); err != nil || !strings.Contains(errOut, "Added image '"+path+"'") {
			t.Errorf("run: %q, %v", errOut, err)
		}
	}
	if len(answers) < 2 || answers[""] {
		t.Errorf("three pictures, and all that was said of them is %v", answers)
	}
	for what, tt := range map[string]struct {
		image string
		code  int
		text  string
	}{
		"no picture": {"AAAA", 400, "Failed to load image or audio file: picture 1"},
		"half a png": {base64.StdEncoding.EncodeToString(noise(t, 3)[:60]), 400, "Failed to load image or audio file: picture 1"},
		"a broken webp": {base64.StdEncoding.EncodeToString([]byte("RIFF\x10\x00\x00\x00WEBPVP8 \x00\x00\x00\x00")), 500,
			"decode WebP image: "},
	} {
		code, said := send("/api/chat", obj{"model": name, "stream": false,
			"messages": []obj{{"role": "user", "content": words, "images": []string{tt.image}}}}, nil)
		if code != tt.code || !strings.Contains(said, tt.text) {
			t.Errorf("%s: %d %s", what, code, said)
		}
	}
}

// rowsOf is how many rows a picture has: in four parts, and whole.
func rowsOf(c *axmodeltest.Checkpoint) int {
	return 5 * c.Sight.Across * c.Sight.Down / c.Sight.Merge / c.Sight.Merge
}

// noise is a png of its seed: squares of any colours.
func noise(t *testing.T, seed uint64) []byte {
	t.Helper()
	m := image.NewNRGBA(image.Rect(0, 0, 40, 40))
	for i := range m.Pix {
		at := uint64(i/4%40/10 + i/160/10*4)
		m.Pix[i] = byte(255 * rand.New(rand.NewPCG(seed, at*4+uint64(i%4))).IntN(2))
		if i%4 == 3 {
			m.Pix[i] = 255
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(fmt.Errorf("a picture: %w", err))
	}
	return b.Bytes()
}
