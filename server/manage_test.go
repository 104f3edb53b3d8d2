package server_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
)

// Create, show, copy, delete and blobs, as Ollama's clients use them.
func TestManage(t *testing.T) {
	r := newRig(t)
	a := r.post("/api/create", `{"model":"mine","from":"scripted-chat","system":"be brief","parameters":{"num_predict":2}}`)
	lines := a.lines(t)
	if lines[len(lines)-1]["status"] != "success" || !strings.Contains(a.body, `{"status":"writing manifest"}`) || !strings.Contains(a.body, `"creating new layer sha256:`) {
		t.Errorf("create: %s", a.body)
	}
	if a := r.post("/api/create", `{"name":"mine2","from":"mine","stream":false,"license":["a","b"]}`); a.body != `{"status":"success"}` {
		t.Errorf("create, whole: %s", a.body)
	}
	if m := r.post("/api/show", `{"model":"mine2"}`).object(t); m["license"] != "a\nb" || m["system"] != "be brief" || m["parameters"] != "num_predict                    2" || m["details"].(map[string]any)["parent_model"] != "mine:latest" {
		t.Errorf("show: %v", m)
	}
	m := r.post("/api/show", `{"name":"mine"}`, "User-Agent", "GitHubCopilotChat/0.30").object(t)
	if info := m["model_info"].(map[string]any); info["general.basename"] != "mine" || info["general.architecture"] != "scripted" {
		t.Errorf("show for Copilot: %v", info)
	}
	// What is made from a model shares what is loaded of it, and brings its own settings.
	if m := r.post("/api/chat", chatBody("scripted-chat", "[[say:a|b|c]]", `,"stream":false`)).object(t); m["eval_count"] != 3.0 {
		t.Errorf("parent: %v", m)
	}
	if m := r.post("/api/chat", chatBody("mine", "[[say:a|b|c]]", `,"stream":false`)).object(t); m["eval_count"] != 2.0 || m["done_reason"] != "length" {
		t.Errorf("derived: %v", m)
	}
	if n := len(r.loader.Backends()); n != 1 {
		t.Errorf("%d models were loaded", n)
	}
	if a := r.post("/api/chat", chatBody("mine", "x", `,"_debug_render_only":true`)); !strings.Contains(a.body, "be brief") {
		t.Errorf("its system message: %s", a.body)
	}
	if a := r.post("/api/copy", `{"source":"mine","destination":"ns/other:v1"}`); a.code != 200 || a.body != "" {
		t.Errorf("copy: %d %s", a.code, a.body)
	}
	if a := r.do("GET", "/api/tags", ""); !strings.Contains(a.body, `"name":"ns/other:v1","model":"ns/other:v1"`) {
		t.Errorf("tags: %s", a.body)
	}
	// A model in the cloud is not the model here that has the rest of its name.
	if a := r.do("DELETE", "/api/delete", `{"model":"mine:cloud"}`); a.code != 404 {
		t.Errorf("delete of a cloud model: %d %s", a.code, a.body)
	}
	if a := r.post("/api/show", `{"model":"mine"}`); a.code != 200 {
		t.Errorf("a cloud model's deletion took the one here: %d", a.code)
	}
	for _, name := range []string{"mine", "mine2", "ns/other:v1"} {
		if a := r.do("DELETE", "/api/delete", `{"model":"`+name+`"}`); a.code != 200 || a.body != "" || len(a.header.Values("Content-Type")) != 0 {
			t.Errorf("delete: %d %s", a.code, a.body)
		}
	}
	if a := r.do("DELETE", "/api/delete", `{"name":"mine"}`); a.code != 404 {
		t.Errorf("delete again: %d", a.code)
	}
	if a := r.do("DELETE", "/api/delete", `{"model":"scripted"}`); a.code != 403 {
		t.Errorf("delete of what ships inside: %d %s", a.code, a.body)
	}
	blob := "a layer"
	path := fmt.Sprintf("/api/blobs/sha256:%x", sha256.Sum256([]byte(blob)))
	for i, step := range []struct {
		method string
		code   int
	}{{"HEAD", 404}, {"POST", 201}, {"HEAD", 200}, {"POST", 200}} {
		body := ""
		if step.method == "POST" {
			body = blob
		}
		if a := r.do(step.method, path, body); a.code != step.code || a.body != "" {
			t.Errorf("blob step %d: %d %s, want %d", i, a.code, a.body, step.code)
		}
	}
	if a := r.post("/api/push", `{"model":"nope"}`); a.code != 200 || !strings.HasSuffix(a.body, ": no such file or directory\"}\n") {
		t.Errorf("push: %d %s", a.code, a.body)
	}
	if a := r.post("/api/pull", `{"model":"nope"}`); a.code != 403 {
		t.Errorf("pull where there is nothing to pull with: %d %s", a.code, a.body)
	}
}

// keep_alive in its forms loads, keeps and unloads.
func TestKeepAlive(t *testing.T) {
	r := newRig(t)
	loaded := func() int { return len(r.Host().Loaded()) }
	for _, tt := range []struct {
		path, body, reason string
		loaded             int
	}{
		{"/api/generate", `{"model":"scripted"}`, "load", 1},
		{"/api/generate", `{"model":"scripted","keep_alive":0}`, "unload", 0},
		{"/api/generate", `{"model":"scripted","keep_alive":"0s"}`, "unload", 0},
		{"/api/chat", `{"model":"scripted","keep_alive":-1}`, "load", 1},
		{"/api/chat", `{"model":"scripted","messages":[],"keep_alive":"1h30m"}`, "load", 1},
		{"/api/chat", `{"model":"scripted","keep_alive":1.5}`, "load", 1},
		{"/api/chat", `{"model":"scripted","keep_alive":0}`, "unload", 0},
		{"/api/chat", `{"model":"scripted","keep_alive":null}`, "load", 1},
	} {
		a := r.post(tt.path, tt.body)
		m := a.object(t)
		if m["done_reason"] != tt.reason || m["done"] != true || a.header.Get("Content-Length") == "" || loaded() != tt.loaded {
			t.Errorf("%s: %s, %d loaded", tt.body, a.body, loaded())
		}
	}
	r.post("/api/generate", `{"model":"scripted","keep_alive":-1}`)
	if a := r.do("GET", "/api/ps", ""); !strings.Contains(a.body, `"expires_at":"23`) {
		t.Errorf("for ever: %s", a.body)
	}
	r.post("/api/generate", `{"model":"scripted","prompt":"[[say:x]]","options":{"num_ctx":2048}}`)
	if a := r.do("GET", "/api/ps", ""); !strings.Contains(a.body, `"context_length":2048`) || !strings.Contains(a.body, `"size_vram":536870912`) {
		t.Errorf("ps: %s", a.body)
	}
}
