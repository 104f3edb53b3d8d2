package main

import (
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/ollama/ollama/api"
	"github.com/ollama/ollama/parser"

	"github.com/axle-llm/axle/models/pocket"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/local"
	"github.com/axle-llm/axle/server/scripted"
)

// What show --modelfile prints can be fed to create, whatever the model was made of: a package with
// its own template, one of a Modelfile, values with quotes, and values that no Modelfile can hold.
func TestModelfileAgain(t *testing.T) {
	st, err := store.Open(store.Options{Dir: t.TempDir(), Builtin: map[string]fs.FS{"pocket": pocket.FS()}})
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(local.New(st, local.Options{}), &scripted.Loader{}, nil, server.Options{Loopback: true})
	url := listening(t, s, st)
	t.Setenv("AXLE_HOST", url)
	t.Setenv("HOME", t.TempDir())
	t.Chdir(t.TempDir()) // a FROM that names a folder here would be that folder
	post := func(path string, body any, out any) (code int, text string) {
		t.Helper()
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.Post(url+path, "application/json", strings.NewReader(string(b)))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ = io.ReadAll(resp.Body)
		if out != nil {
			if err := json.Unmarshal(b, out); err != nil {
				t.Fatalf("%v in %s", err, b)
			}
		}
		return resp.StatusCode, string(b)
	}
	whole := false
	for name, r := range map[string]api.CreateRequest{
		"pocket": {},
		"mine": {System: "be\nbrief", License: []string{"MIT", "and \"more\"\nof it"},
			Parameters: map[string]any{"temperature": 0.5, "seed": 123456789, "stop": []string{"<END>", "x y"}, "speculate": false,
				"use_mmap": true, "repeatable": true}},
		"quotes": {System: `"quoted"`, Template: "{{ range .Messages }}\"{{ .Role }}\": {{ .Content }}\n{{ end }}",
			Parameters: map[string]any{"stop": []string{`"`, `""`, "\t", "\r", " a ", `"""`, "#", "FROM x"}, "num_ctx": 1048576.0}},
		"talks": {Messages: []api.Message{{Role: "user", Content: "say \"hi\"\n"}, {Role: "assistant", Content: " hi: there "}}},
		"worse": {System: "no end: \"\"\"\nhere, a\u00a0space, 👩‍💻", License: `"""` + "\n" + `"""`,
			Parameters: map[string]any{"unheard_of": []any{1.5, "x"}, "stop": []string{"a\u200bb"}},
			Messages:   []api.Message{{Role: "tool", Content: "x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "pocket" {
				r.Model, r.From, r.Stream = name, "pocket", &whole
				if code, text := post("/api/create", r, nil); code != 200 {
					t.Fatal(code, text)
				}
			}
			mf, _, err := axle(t, "", "show", name, "--modelfile")
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(mf, "left out") != (name == "worse") {
				t.Errorf("the Modelfile:\n%s", mf)
			}
			if _, errOut, err := axle(t, mf, "create", "again-"+name, "-f", "-"); err != nil {
				t.Fatalf("%v %s of\n%s", err, errOut, mf)
			}
			var old, again api.ShowResponse
			post("/api/show", api.ShowRequest{Model: name}, &old)
			post("/api/show", api.ShowRequest{Model: "again-" + name}, &again)
			if old.System != again.System || old.Template != again.Template || old.Parameters != again.Parameters ||
				old.License != again.License || !reflect.DeepEqual(old.Messages, again.Messages) {
				t.Errorf("made again:\n%+v\nfirst:\n%+v\nof\n%s", again, old, mf)
			}
		})
	}
	// Who sends the package's own template back, as /api/show gave it, means the package's own
	// template.
	var shown api.ShowResponse
	post("/api/show", api.ShowRequest{Model: "pocket"}, &shown)
	if shown.Template == "" {
		t.Fatal("pocket shows no template")
	}
	if code, text := post("/api/create", api.CreateRequest{Model: "same", From: "pocket", Template: shown.Template + "\n", Stream: &whole},
		nil); code != 200 {
		t.Errorf("its own template: %d %s", code, text)
	}
	if code, text := post("/api/create", api.CreateRequest{Model: "same", From: "pocket", Template: shown.Template + "{{", Stream: &whole},
		nil); code != 400 {
		t.Errorf("another: %d %s", code, text)
	}
	if list, err := os.ReadDir("."); err != nil || len(list) != 0 {
		t.Errorf("%v %v", list, err)
	}
}

// A RENDERER and a PARSER go to the server, which knows the package's own; what means nothing to
// any package is refused here.
func TestModelfileFormats(t *testing.T) {
	for text, want := range map[string]string{
		"RENDERER qwen3\nPARSER qwen3-thinking": "qwen3 qwen3-thinking",
		"ADAPTER x":                             "create: ADAPTER means nothing to a compiled model: take it out of the Modelfile",
		"REQUIRES 0.14.0":                       "create: REQUIRES means nothing to a compiled model: take it out of the Modelfile",
	} {
		mf, err := parser.ParseFile(strings.NewReader("FROM pocket\n" + text + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if req, err := createBody(t.Context(), nil, mf, t.TempDir()); err != nil {
			got = err.Error()
		} else {
			got = req.Renderer + " " + req.Parser
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
