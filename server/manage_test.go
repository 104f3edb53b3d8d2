package server_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/hub"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/local"
	"github.com/axle-llm/axle/server/scripted"
)

// Create, show, copy, delete and blobs, as Ollama's clients use them.
func TestManage(t *testing.T) {
	r := newRig(t)
	a := r.post("/api/create", `{"model":"mine","from":"scripted-chat","system":"be brief","parameters":{"num_predict":2}}`)
	lines := a.lines(t)
	if lines[len(lines)-1]["status"] != "success" || !strings.Contains(a.body, `{"status":"writing manifest"}`) ||
		!strings.Contains(a.body, `"creating new layer sha256:`) {
		t.Errorf("create: %s", a.body)
	}
	if a := r.post("/api/create", `{"name":"mine2","from":"mine","stream":false,"license":["a","b"]}`); a.body != `{"status":"success"}` {
		t.Errorf("create, whole: %s", a.body)
	}
	if m := r.post("/api/show", `{"model":"mine2"}`).object(t); m["license"] != "a\nb" || m["system"] != "be brief" ||
		m["parameters"] != "num_predict                    2" || m["details"].(map[string]any)["parent_model"] != "mine:latest" {
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
	if m := r.post("/api/chat", chatBody("mine", "[[say:a|b|c]]", `,"stream":false`)).object(t); m["eval_count"] != 2.0 ||
		m["done_reason"] != "length" {
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
		if a := r.do("DELETE", "/api/delete", `{"model":"`+name+`"}`); a.code != 200 || a.body != "" ||
			len(a.header.Values("Content-Type")) != 0 {
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
	loaded := func() int { return len(r.Loaded()) }
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
	if a := r.do("GET", "/api/ps", ""); !strings.Contains(a.body, `"context_length":2048`) ||
		!strings.Contains(a.body, `"size_vram":536870912`) {
		t.Errorf("ps: %s", a.body)
	}
}

// refusing is a puller that fails so.
type refusing struct{ err error }

func (p refusing) Pull(_ context.Context, _ string, status func(catalog.Progress)) error {
	return fmt.Errorf("pull model manifest: %w", p.err)
}

// What the client got wrong is told as its mistake, whether it asks for a stream or not, so that it
// does not try the same again; and the text says what to do.
func TestMistakes(t *testing.T) {
	old := newRig(t)
	unknown := &hub.UnknownError{Name: "nope:latest", Nearest: []string{"qwen3:0.6b"}}
	gguf := fmt.Errorf("models: x/y holds GGUF files, which this chip cannot run: %w", models.ErrNotPackage)
	missing := "sha256:" + strings.Repeat("ab", 32)
	blob := "GGUF and more"
	have := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(blob)))
	if a := old.post("/api/blobs/"+have, blob); a.code != 201 {
		t.Fatal(a.code, a.body)
	}
	old.post("/api/create", `{"model":"mine","from":"scripted"}`)
	for _, tt := range []struct {
		name, path, body string
		pull             error
		code             int
		says             string
	}{
		{"pull of an unknown name", "/api/pull", `{"model":"nope"`, unknown, 404, "qwen3:0.6b"},
		{"pull of a repository that is not there", "/api/pull", `{"model":"x/y"`, &hub.Error{What: "x/y", Err: hub.ErrNotFound}, 404,
			"x/y"},
		{"pull of one that is not open", "/api/pull", `{"model":"x/y"`, &hub.Error{What: "x/y", Err: hub.ErrDenied}, 403, "x/y"},
		{"pull of GGUF", "/api/pull", `{"model":"x/y"`, gguf, 400, "GGUF"},
		{"pull onto a full disk", "/api/pull", `{"model":"x/y"`, store.ErrSpace, 507, "disk"},
		{"pull where the hub is ill", "/api/pull", `{"model":"x/y"`, errors.New("502"), 500, "502"},
		{"create from an unknown name", "/api/create", `{"model":"a","from":"nope"`, unknown, 404, "qwen3:0.6b"},
		{"create with a blob that is not there", "/api/create", `{"model":"a","files":{"a.axmodel":"` + missing + `"}`, nil, 400,
			"/api/blobs/" + missing},
		{"create with a path that is none", "/api/create", `{"model":"a","files":{"../a":"` + have + `"}`, nil, 400, "../a"},
		{"create of GGUF", "/api/create", `{"model":"a","files":{"a.gguf":"` + have + `"}`, nil, 400, "GGUF"},
		{"create of no package", "/api/create", `{"model":"a","files":{"a.txt":"` + have + `"}`, nil, 400, "package"},
		{"create with another's RENDERER", "/api/create", `{"model":"a","from":"scripted-chat","renderer":"gemma4"`, nil, 400,
			`renderer "gemma4" is not that of `},
		{"create with another's PARSER", "/api/create", `{"model":"a","from":"scripted-chat","renderer":"qwen3","parser":"harmony"`, nil, 400,
			`parser "harmony" is not that of `},
		{"create with a RENDERER and files", "/api/create", `{"model":"a","renderer":"qwen3","files":{"a.txt":"` + have + `"}`, nil, 400,
			"renderer and parser say nothing of a package that is uploaded"},
		{"create with a REQUIRES", "/api/create", `{"model":"a","from":"scripted","requires":"0.14.0"`, nil, 400, "requires means nothing"},
		{"create with a DRAFT", "/api/create", `{"model":"a","from":"scripted","draft_files":{"a":"` + have + `"}`, nil, 400,
			"draft_files means nothing"},
	} {
		s := server.New(local.New(old.store, local.Options{Describe: scripted.Describe}), &scripted.Loader{}, refusing{tt.pull},
			server.Options{Loopback: true})
		ts := httptest.NewServer(s.Handler())
		r := &rig{s, t, ts.URL, old.loader, old.store}
		for _, stream := range []string{`,"stream":false}`, `,"stream":true}`} {
			if a := r.post(tt.path, tt.body+stream); a.code != tt.code || !strings.Contains(a.errText(t), tt.says) {
				t.Errorf("%s%s: %d %s, want %d %s", tt.name, stream, a.code, a.body, tt.code, tt.says)
			}
		}
		ts.Close()
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	for _, own := range []string{`"renderer":"qwen3"`, `"renderer":"Qwen3-thinking","parser":"qwen3-thinking"`, `"parser":"qwen3_instruct"`} {
		if a := old.post("/api/create", `{"model":"own","from":"scripted-chat","stream":false,`+own+`}`); a.code != 200 {
			t.Errorf("create with %s, which is its own: %d %s", own, a.code, a.body)
		}
	}
	if a := old.post("/api/create", `{"model":"a","from":"nope","stream":false}`); a.code != 404 ||
		a.errText(t) != "model 'nope' not found" {
		t.Errorf("create from a name that nothing could fetch: %d %s", a.code, a.body)
	}
}
