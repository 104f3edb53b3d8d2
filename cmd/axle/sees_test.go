//go:build !scripted

package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestShapes: the model inside answers of the README's picture what is there, in every dialect.
func TestShapes(t *testing.T) {
	unraced(t)
	png, err := os.ReadFile("../../testdata/pocket/shapes.png")
	if err != nil {
		t.Fatal(err)
	}
	data := base64.StdEncoding.EncodeToString(png)
	const question, answer = "what is in this picture?", "A red circle, a blue square and a yellow star."
	text := obj{"type": "text", "text": question}
	url, _ := goldenServer(t, "soft")
	for path, body := range map[string]obj{
		"/api/generate": {"prompt": question, "images": []string{data}},
		"/api/chat":     {"messages": []obj{{"role": "user", "content": question, "images": []string{data}}}},
		"/v1/chat/completions": {"messages": []obj{{"role": "user", "content": []obj{text,
			{"type": "image_url", "image_url": obj{"url": "data:image/png;base64," + data}}}}}},
		"/v1/responses": {"input": []obj{{"role": "user", "content": []obj{{"type": "input_text", "text": question},
			{"type": "input_image", "image_url": "data:image/png;base64," + data}}}}},
		"/v1/messages": {"max_tokens": 64, "messages": []obj{{"role": "user", "content": []obj{text,
			{"type": "image", "source": obj{"type": "base64", "media_type": "image/png", "data": data}}}}}},
	} {
		body["model"], body["stream"] = "pocket", false
		if strings.HasPrefix(path, "/api/") {
			body["options"] = obj{"temperature": 0}
		} else {
			body["temperature"] = 0
		}
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.Post(url+path, "application/json", bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(got), `"`+answer+`"`) {
			t.Errorf("%s: %v, %d: %s", path, err, resp.StatusCode, got)
		}
	}

	// It says what the coordinates of its answers would count.
	shown, err := http.Post(url+"/api/show", "application/json", strings.NewReader(`{"model":"pocket"}`))
	if err != nil {
		t.Fatal(err)
	}
	facts, err := io.ReadAll(shown.Body)
	_ = shown.Body.Close()
	if err != nil || !strings.Contains(string(facts), `"axle.places":[1000,1000]`) {
		t.Errorf("/api/show: %v, %s", err, facts)
	}

	// A conversation goes on however many pictures it is about, with those of the last turns.
	// (Pocket cannot tell which of them is meant.)
	others, err := filepath.Glob("../../testdata/pocket/unseen/*.png")
	if err != nil || len(others) == 0 {
		t.Fatal(others, err)
	}
	var talk []obj
	for i := range 60 {
		b, err := os.ReadFile(others[i%len(others)])
		if err != nil {
			t.Fatal(err)
		}
		talk = append(talk, obj{"role": "user", "content": "What do you see?", "images": []string{base64.StdEncoding.EncodeToString(b)}},
			obj{"role": "assistant", "content": "A picture."})
	}
	talk = append(talk, obj{"role": "user", "content": question, "images": []string{data}})
	b, err := json.Marshal(obj{"model": "pocket", "stream": false, "options": obj{"temperature": 0}, "messages": talk})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(url+"/api/chat", "application/json", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(got), `"done_reason":"stop"`) ||
		resp.Header.Get("Axle-Truncated") == "" {
		t.Errorf("about 61 pictures: %v, %d, cut %q: %s", err, resp.StatusCode, resp.Header.Get("Axle-Truncated"), got)
	}
}
