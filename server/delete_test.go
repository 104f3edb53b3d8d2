package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDeleteBroken: a model whose manifest or package cannot be read can be deleted; Ollama's own
// and what is not there cannot be found.
func TestDeleteBroken(t *testing.T) {
	r := newRig(t)
	digest := "sha256:" + strings.Repeat("7", 64)
	for _, tt := range []struct {
		name, manifest string
		code           int
	}{
		{"damaged", `{"schemaVersion":2,"axle":{"from":"x"},"lay`, 200},
		{"missing", `{"schemaVersion":2,"layers":[{"mediaType":"application/vnd.axle.file","digest":"` + digest +
			`","size":5,"name":"config.json"}],"axle":{}}`, 200},
		{"no-system", `{"schemaVersion":2,"layers":[{"mediaType":"application/vnd.ollama.image.system","digest":"` + digest +
			`","size":5}],"axle":{}}`, 200},
		{"gguf", `{"schemaVersion":2,"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"` + digest + `","size":5}]}`,
			404},
		{"cloud", `{"schemaVersion":2,"layers":[]}`, 404},
		{"nowhere", "", 404},
	} {
		at := filepath.Join(r.store.Dir(), "manifests/registry.ollama.ai/library", tt.name, "latest")
		if tt.manifest != "" {
			err := os.MkdirAll(filepath.Dir(at), 0o755)
			if err == nil {
				err = os.WriteFile(at, []byte(tt.manifest), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if a := r.do("DELETE", "/api/delete", `{"model":"`+tt.name+`"}`); a.code != tt.code {
			t.Errorf("%s: %d %s, want %d", tt.name, a.code, a.body, tt.code)
		}
		if _, err := os.Stat(at); (err == nil) != (tt.code == 404 && tt.manifest != "") {
			t.Errorf("%s: the manifest afterwards: %v", tt.name, err)
		}
	}
	// What Ollama has is not written over either.
	for _, step := range [][2]string{{"/api/copy", `{"source":"scripted","destination":"gguf"}`},
		{"/api/create", `{"model":"gguf","from":"scripted","stream":false}`}} {
		if a := r.post(step[0], step[1]); a.code != 400 || !strings.Contains(a.errText(t), "choose another name") {
			t.Errorf("%s: %d %s", step[0], a.code, a.body)
		}
	}
}

// TestCreateFromCloud: a model in the cloud is not the one here that has the rest of its name.
func TestCreateFromCloud(t *testing.T) {
	r := newRig(t)
	if a := r.post("/api/create", `{"model":"mine","from":"scripted:cloud"}`); a.code != 403 ||
		!strings.Contains(a.errText(t), "cloud is disabled") {
		t.Errorf("%d %s", a.code, a.body)
	}
	if a := r.post("/api/show", `{"model":"mine"}`); a.code != 404 {
		t.Errorf("it was made: %d", a.code)
	}
}
