//go:build !scripted

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axle-llm/axle/cmd/internal/client"
	"github.com/axle-llm/axle/models/modelstest"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/local"
	"github.com/axle-llm/axle/server/scripted"
)

// What was pulled through a server is found by every command that reads files itself, in the
// server's store; a store of one's own that AXLE_MODELS names goes before it.
func TestWhoseStore(t *testing.T) {
	h := modelstest.NewHub()
	defer h.Close()
	dir := t.TempDir()
	if err := modelstest.Write(dir, "A"); err != nil {
		t.Fatal(err)
	}
	if err := h.AddDir("axle/one", dir); err != nil {
		t.Fatal(err)
	}
	lying := filepath.Join(t.TempDir(), "lying")
	if err := os.Mkdir(lying, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := modelstest.Write(lying, "A"); err != nil {
		t.Fatal(err)
	}
	home, theirs := t.TempDir(), filepath.Join(t.TempDir(), "theirs")
	for k, v := range map[string]string{"HOME": home, "AXLE_MODELS": "", "OLLAMA_MODELS": "", "AXLE_MODEL_PATH": "", "HF_ENDPOINT": h.URL,
		"HF_TOKEN": ""} {
		t.Setenv(k, v)
	}
	st, err := store.Open(store.Options{Dir: theirs, Paths: []string{lying}})
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(local.New(st, local.Options{}), &scripted.Loader{}, newPuller(st), server.Options{Loopback: true})
	t.Setenv("AXLE_HOST", listening(t, s, st))
	if _, _, err := command(t, "pull", "axle/one"); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"inspect", "axle/one"}, {"plan", "axle/one"}, {"inspect", "lying"}, {"tokenize", "axle/one"}} {
		root := newRootCmd()
		var out strings.Builder
		root.SetOut(&out)
		root.SetErr(io.Discard)
		root.SetIn(strings.NewReader("hello"))
		root.SetArgs(args)
		if err := root.ExecuteContext(t.Context()); err != nil || out.Len() == 0 {
			t.Errorf("%v: %v %s", args, err, out.String())
		}
	}
	out, _, err := command(t, "inspect", "axle/one", "--json")
	var told struct{ Name, Path string }
	if err != nil || json.Unmarshal([]byte(out), &told) != nil {
		t.Errorf("%v: %s", err, out)
	}
	for _, args := range [][]string{{"inspect", "axle/none"}, {"bench", "axle/none"}, {"plan", "axle/none"}, {"tokenize", "axle/none"}} {
		if _, _, err := command(t, args...); err == nil || !strings.Contains(err.Error(), "'axle pull axle/none' fetches it") {
			t.Errorf("%v: %v", args, err)
		}
	}
	// One of the user's own, of another kind.
	ours := filepath.Join(t.TempDir(), "ours")
	t.Setenv("AXLE_MODELS", ours)
	own, err := store.Open(storeOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if err := own.Create(t.Context(), store.CreateRequest{Name: "axle/one", From: "pocket"}, nil); err != nil {
		t.Fatal(err)
	}
	if out, _, err := command(t, "inspect", "axle/one"); err != nil || !strings.Contains(out, "pocket") {
		t.Errorf("%v: %s", err, out)
	}
	if out, _, err := command(t, "inspect", "lying"); err != nil || strings.Contains(out, "pocket") {
		t.Errorf("%v: %s", err, out)
	}
}

// Where a server's store cannot be read, the error has the command line that works; where the
// server does not tell, it says what to do.
func TestLockedStore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a file, no folder")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var where *client.Where
	keyed := false
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case keyed && r.URL.Path != "/":
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"this server wants a key"}`)
		case r.URL.Path == "/api/axle/store" && where != nil:
			_ = json.NewEncoder(w).Encode(where)
		case r.URL.Path == "/api/axle/store":
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"error":"not told here"}`)
		case r.URL.Path == "/api/show":
			if b, _ := io.ReadAll(r.Body); !strings.Contains(string(b), "theirs") {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			fmt.Fprint(w, `{}`)
		}
	}))
	defer ts.Close()
	for k, v := range map[string]string{"HOME": t.TempDir(), "AXLE_MODELS": "", "OLLAMA_MODELS": "", "AXLE_MODEL_PATH": "",
		"AXLE_HOST": ts.URL} {
		t.Setenv(k, v)
	}
	for _, c := range []struct {
		where *client.Where
		want  []string
	}{
		{nil, []string{"not told here", "on the server's machine", "AXLE_MODELS"}},
		{&client.Where{Folder: file, User: "axle"}, []string{"may not read", "sudo -u axle 'AXLE_MODELS=" + file + "' axle "}},
		{&client.Where{Folder: file, Paths: []string{"/opt/a", "/opt/b"}},
			[]string{"sudo 'AXLE_MODELS=" + file + "' AXLE_MODEL_PATH=/opt/a:/opt/b axle "}},
		{&client.Where{Folder: "/nowhere/at/all"}, []string{"in a container"}},
	} {
		where = c.where
		for _, args := range [][]string{{"plan", "theirs"}, {"inspect", "theirs"}, {"bench", "theirs", "--device", "soft"}} {
			_, _, err := command(t, args...)
			for _, w := range append(c.want, ts.URL) {
				if err == nil || !strings.Contains(err.Error(), w) {
					t.Errorf("%v: %v, want %q", args, err, w)
				}
			}
		}
		if _, _, err := command(t, "inspect", "pocket"); err != nil { // which every axle has
			t.Error(err)
		}
		if _, _, err := command(t, "plan", "qwen3:4b"); err != nil {
			t.Error(err)
		}
	}
	// One of the user's own under the same name is told of; made of what every axle has, it is
	// meant.
	h := modelstest.NewHub()
	defer h.Close()
	dir := t.TempDir()
	if err := errors.Join(modelstest.Write(dir, "A"), h.AddDir("axle/theirs", dir)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HF_ENDPOINT", h.URL)
	own, err := store.Open(storeOptions())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(own.Create(t.Context(), store.CreateRequest{Name: "theirs", From: "pocket"}, nil),
		own.Pull(t.Context(), "axle/theirs", nil, nil), own.Close()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := command(t, "plan", "theirs"); err != nil {
		t.Error(err)
	}
	if _, _, err := command(t, "plan", "axle/theirs"); err == nil || !strings.Contains(err.Error(), "in a container") ||
		!strings.HasSuffix(err.Error(), "; your own axle/theirs is meant with AXLE_MODELS="+store.DefaultDir()) {
		t.Error(err)
	}
	// What writes in a store as a whole does so in its own user's alone.
	for _, user := range []string{"somebody-else", me()} {
		where = &client.Where{Folder: t.TempDir(), User: user}
		for _, args := range [][]string{{"verify"}, {"cache"}, {"cache", "clear"}} {
			_, _, err := command(t, args...)
			told := err != nil && strings.Contains(err.Error(), "sudo -u somebody-else AXLE_MODELS="+where.Folder+" axle ") &&
				strings.Contains(err.Error(), "AXLE_MODELS="+store.DefaultDir())
			if mine := user == me(); mine && err != nil || !mine && !told {
				t.Errorf("%v of %s: %v", args, user, err)
			}
		}
		t.Setenv("AXLE_MODELS", t.TempDir())
		if _, _, err := command(t, "verify"); err != nil {
			t.Errorf("one's own: %v", err)
		}
		t.Setenv("AXLE_MODELS", "")
	}
	// A server that tells nothing without a key may have what is not here, and its store is not
	// taken for the user's own.
	keyed = true
	for _, args := range [][]string{{"verify"}, {"cache"}, {"tokenize", "axle/none"}} {
		if _, _, err := command(t, args...); err == nil || !strings.Contains(err.Error(), ts.URL) ||
			!strings.Contains(err.Error(), "set AXLE_KEY") {
			t.Errorf("%v: %v", args, err)
		}
	}
	if _, _, err := command(t, "plan", "qwen3:4b"); err != nil {
		t.Error(err)
	}
	// Nor is that of one that takes no work now, as where its card was lost.
	ending := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer ending.Close()
	t.Setenv("AXLE_HOST", ending.URL)
	if _, _, err := command(t, "verify"); err == nil || !strings.Contains(err.Error(), ending.URL+" takes no requests now") ||
		!strings.HasSuffix(err.Error(), "AXLE_MODELS="+store.DefaultDir()) {
		t.Error(err)
	}
	for in, want := range map[string]string{"a-b/c:d": "a-b/c:d", "": "''", "it's": `'it'\''s'`, "a b": "'a b'", "$(x)": "'$(x)'"} {
		if got := shellWord(in); got != want {
			t.Errorf("%q is %s, want %s", in, got, want)
		}
	}
}

// Names of the catalogue are known to plan and inspect before they are pulled, however they are
// written; what has to be here says how to get it.
func TestNamesNotPulled(t *testing.T) {
	for k, v := range map[string]string{"HOME": t.TempDir(), "AXLE_MODELS": "", "OLLAMA_MODELS": "", "AXLE_MODEL_PATH": "",
		"AXLE_HOST": "127.0.0.1:1"} {
		t.Setenv(k, v)
	}
	for _, name := range []string{"qwen3:4b", "QWEN3:4B", "AXERA-TECH/Qwen3-4B", "axera-tech/qwen3-4b", "hf.co/AXERA-TECH/Qwen3-4B"} {
		out, _, err := command(t, "plan", name)
		if err != nil || !strings.Contains(out, "card memory  6.3 GB") || !strings.Contains(out, "'axle pull qwen3:4b'") ||
			!strings.Contains(out, "8 or 16 GB holds it") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		out, _, err = command(t, "inspect", name)
		if err != nil || !strings.Contains(out, "'axle pull qwen3:4b'") || !strings.Contains(out, "about 6.3 GB") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		for _, cmd := range []string{"bench", "tokenize"} {
			if _, _, err := command(t, cmd, name); err == nil ||
				!strings.Contains(err.Error(), "'axle pull "+name+"' fetches it, an estimated") {
				t.Errorf("%s %s: %v", cmd, name, err)
			}
		}
	}
	out, _, err := command(t, "inspect", "qwen3.5:2b", "--json")
	var listed struct {
		Here         bool
		Repositories []string
		Context      int
		Cards        []int `json:"cards_gb"`
	}
	if err != nil || json.Unmarshal([]byte(out), &listed) != nil || listed.Here || len(listed.Repositories) != 2 ||
		listed.Context != 2047 || len(listed.Cards) != 3 {
		t.Errorf("%v: %s", err, out)
	}
	for _, name := range []string{"qwen33:4b", "llama3.2"} {
		if _, _, err := command(t, "inspect", name); err == nil || !strings.Contains(err.Error(), "'axle pull --list'") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
