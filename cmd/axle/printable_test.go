package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/models/modelstest"
)

// Whatever a package, a file or a server says, no command prints what a terminal would obey: names,
// tools, licences, progress, errors.
func TestPrintable(t *testing.T) {
	const evil = "x\x1b]0;mine\x07\x1b[2J\u009b31m\u202ey\r"
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		model := map[string]any{"name": evil, "model": evil, "digest": evil + "0123456789abcdef", "size": 5, "size_vram": 5,
			"modified_at": "2026-01-01T00:00:00Z",
			"expires_at":  "2026-01-01T00:00:00Z", "details": map[string]any{"family": evil}}
		switch r.URL.Path {
		case "/api/tags", "/api/ps":
			_ = json.NewEncoder(w).Encode(map[string]any{"models": []any{model}})
		case "/api/show":
			_ = json.NewEncoder(w).Encode(map[string]any{"license": evil + "\n" + evil, "system": evil, "template": evil,
				"parameters": evil + " " + evil, "modelfile": evil,
				"capabilities": []string{evil}, "details": map[string]any{"parameter_size": evil, "quantization_level": evil},
				"model_info": map[string]any{"general.architecture": evil, "general." + evil: evil}})
		case "/api/pull", "/api/create":
			e := json.NewEncoder(w)
			_ = e.Encode(map[string]string{"status": "pulling " + evil})
			_ = e.Encode(map[string]string{"error": evil})
		case "/api/version":
			_, _ = io.WriteString(w, `{"version":"0.34.4"}`)
		case "/":
		default:
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": evil})
		}
	}))
	defer ts.Close()
	t.Setenv("AXLE_HOST", strings.TrimPrefix(ts.URL, "http://"))
	t.Setenv("HOME", t.TempDir())

	dir := filepath.Join(t.TempDir(), "pack\x1b[31mage")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := modelstest.Write(dir, "A"); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "config.json")
	b, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	var c map[string]any
	if err := json.Unmarshal(b, &c); err != nil {
		t.Fatal(err)
	}
	c["model_name"], c["model_type"] = evil, evil
	if b, err = json.Marshal(c); err == nil {
		err = os.WriteFile(config, b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := modelstest.Shape()
	file := filepath.Join(dir, "l.axmodel")
	h := axmodel.Header{Kind: axmodel.Layer, Weights: 20480, Flags: axmodel.FlagShapeOnly, Hidden: s.Hidden, Heads: s.Heads,
		KVHeads: s.KVHeads, HeadDim: s.HeadDim,
		Intermediate: s.Intermediate, Scale: 1, Magnitude: 1, Pos: 1, Tool: evil + "\nsize  0 B"}
	if err := axmodel.WriteFile(file, h, []axmodel.SoftGroup{{Rows: 16, Cache: 1}}, nil); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"list"}, {"ps"}, {"show", "m"}, {"show", "m", "--verbose"}, {"pull", "m"}, {"rm", "m"}, {"cp", "a", "b"}, {"stop", "m"},
		{"run", "m", "hi"}, {"inspect", dir}, {"inspect", file}, {"inspect", "--json", file}, {"inspect", dir + "/none"}, {"verify", "m"},
		{"plan", dir}, {"tokenize", dir, evil},
	} {
		root := newRootCmd()
		var o, e strings.Builder
		root.SetOut(&o)
		root.SetErr(&e)
		root.SetArgs(args)
		err := root.ExecuteContext(t.Context())
		if err != nil {
			complain(&e, err)
		}
		out := o.String() + e.String()
		if i := strings.IndexFunc(out, func(r rune) bool {
			return unicode.IsControl(r) && r != '\n' && r != '\t' ||
				r == '\u202e'
		}); i >= 0 {
			t.Errorf("axle %q prints %q", args, out[max(0, i-20):min(len(out), i+20)])
		}
		if args[0] == "inspect" && err == nil && !strings.Contains(out, `\u001b`) {
			t.Errorf("axle %q: what is quoted is not there:\n%s", args, out)
		}
		if strings.Contains(out, "\nsize  0 B") {
			t.Errorf("axle %q: a tool's name made a line of its own:\n%s", args, out)
		}
	}
}
