//go:build !scripted

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axle-llm/axle/models/hub"
	"github.com/axle-llm/axle/models/modelstest"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/local"
	"github.com/axle-llm/axle/server/scripted"
)

func TestPullAndVerify(t *testing.T) {
	//proves:D12
	h := modelstest.NewHub()
	defer h.Close()
	dir := t.TempDir()
	if err := modelstest.Write(dir, "A"); err != nil {
		t.Fatal(err)
	}
	if err := h.AddDir("axle/one", dir); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "models")
	t.Setenv("AXLE_HOST", "127.0.0.1:1")
	t.Setenv("AXLE_MODELS", folder)
	t.Setenv("AXLE_MODEL_PATH", "")
	t.Setenv("HF_ENDPOINT", h.URL)
	t.Setenv("HF_TOKEN", "")
	out, errs, err := command(t, "pull", "axle/one")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"pulling manifest\n", "pulling 100%  ", "verifying sha256 digest\n", "writing manifest\n", "success\n"} {
		if !strings.Contains(errs, want) {
			t.Errorf("no %q in %q", want, errs)
		}
	}
	if out != "" || strings.Contains(errs, "\x1b") {
		t.Errorf("printed %q and %q", out, errs)
	}
	out, _, err = command(t, "verify", "axle/one")
	if err != nil || !strings.Contains(out, "qwen3_post.axmodel") || !strings.Contains(out, "axle/one\tok\t7 files") {
		t.Errorf("%v\n%s", err, out)
	}
	list, err := filepath.Glob(filepath.Join(folder, "blobs", "sha256-*"))
	if err != nil || len(list) != 7 {
		t.Fatal(list, err)
	}
	if err := os.WriteFile(list[0], []byte("rotten"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, _, err = command(t, "verify")
	if err == nil || !strings.Contains(out, "axle/one:latest\tBAD\t") || !strings.Contains(out, "digest mismatch") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, _, err := command(t, "pull", "axle/one"); err != nil {
		t.Error(err)
	}
	if out, _, err := command(t, "verify", "-q"); err != nil || strings.Count(out, "\n") < 1 {
		t.Errorf("not healed: %v\n%s", err, out)
	}
	for args, want := range map[string]string{
		"pull llama3.2": "nearest here", "pull ../x": "invalid model name", "pull axle/none": "404", "pull a b": "takes one name",
		"pull --connections 99 x": "1 to 64", "pull --list x": "pulls nothing", "verify nope": "model not found",
	} {
		if _, _, err := command(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	// A few lines help to choose; the whole catalogue is a screen or two.
	out, _, err = command(t, "pull")
	if err != nil || !strings.Contains(out, "qwen3:0.6b") || !strings.Contains(out, " GB?") || !strings.Contains(out, "8 or 16 GB") ||
		!strings.Contains(out, "'axle pull --list'") || strings.Count(out, "\n") > 27 {
		t.Errorf("%v\n%s", err, out)
	}
	out, _, err = command(t, "pull", "--list")
	for _, e := range hub.Catalogue {
		if err != nil || !strings.Contains(out, e.Name) || !strings.Contains(out, e.Repo) {
			t.Errorf("%v: %s or its repository is missing in\n%s", err, e.Name, out)
		}
	}
}

// command runs a command as main would and returns what it printed on both streams.
func command(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	root := newRootCmd()
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(args)
	err = root.ExecuteContext(context.Background())
	return out.String(), errs.String(), err
}

// Where a server answers it fetches into its own store; a command with settings of its own does not
// ask it; a server that is named and away is not done without, unless it would be on this machine.
func TestPullThroughServer(t *testing.T) {
	h := modelstest.NewHub()
	defer h.Close()
	dir := t.TempDir()
	if err := modelstest.Write(dir, "A"); err != nil {
		t.Fatal(err)
	}
	if err := h.AddDir("axle/one", dir); err != nil {
		t.Fatal(err)
	}
	theirs, ours := filepath.Join(t.TempDir(), "theirs"), filepath.Join(t.TempDir(), "ours")
	t.Setenv("AXLE_MODELS", ours)
	t.Setenv("AXLE_MODEL_PATH", "")
	t.Setenv("HF_ENDPOINT", h.URL)
	t.Setenv("HF_TOKEN", "")
	st, err := store.Open(store.Options{Dir: theirs})
	if err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte("a-key-of-some-length\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := access.Load(keys)
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(local.New(st, local.Options{}), &scripted.Loader{}, newPuller(st), server.Options{Loopback: true, Keys: k})
	t.Setenv("AXLE_HOST", listening(t, s, st))
	if _, _, err := command(t, "pull", "axle/one"); err == nil || !strings.Contains(err.Error(), "set AXLE_KEY") {
		t.Errorf("without a key: %v", err)
	}
	t.Setenv("AXLE_KEY", "a-key-of-some-length")
	_, errs, err := command(t, "pull", "axle/one")
	if err != nil || !strings.Contains(errs, "pulling 100%") || !strings.HasSuffix(errs, "success\n") {
		t.Errorf("%v %q", err, errs)
	}
	if _, err := st.Get("axle/one"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(ours); err == nil {
		t.Error("the command made a store of its own")
	}
	if _, _, err := command(t, "pull", "axle/none"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("what the server was refused: %v", err)
	}
	if _, _, err := command(t, "pull", "--connections", "2", "axle/one"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(ours, "blobs")); err != nil {
		t.Errorf("with --connections: %v", err)
	}
	t.Setenv("AXLE_HOST", "255.255.255.255:1")
	for _, args := range []string{"pull axle/one", "list", "rm axle/one", "show axle/one", "ps"} {
		if _, _, err := command(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), "names it") {
			t.Errorf("%s of a server that is away: %v", args, err)
		}
	}
}
