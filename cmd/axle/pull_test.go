//go:build !scripted

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axle-llm/axle/models/modelstest"
	"github.com/axle-llm/axle/models/store"
)

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

func TestPullAndVerify(t *testing.T) {
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
		"pull llama3.2": "nearest here", "pull ../x": "invalid model name", "pull axle/none": "404", "pull a b": "takes one name", "pull --connections 99 x": "1 to 64", "verify nope": "model not found",
	} {
		if _, _, err := command(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	out, _, err = command(t, "pull")
	if err != nil || !strings.Contains(out, "qwen3:0.6b") || !strings.Contains(out, "unknown") {
		t.Errorf("%v\n%s", err, out)
	}
}

// In a terminal there is one line, drawn anew, no wider than the screen.
func TestPullView(t *testing.T) {
	var b bytes.Buffer
	v := newPullView(&b)
	v.tty, v.width = true, 60
	v.update(store.Progress{Status: "pulling manifest"})
	v.update(store.Progress{Status: "pulling 0123", Digest: "sha256:0", Total: 2_000_000_000, Completed: 500_000_000})
	v.update(store.Progress{Status: "pulling 4567", Digest: "sha256:4", Total: 2_000_000_000})
	v.update(store.Progress{Status: "verifying sha256 digest"})
	v.end()
	want := "pulling manifest\n\r\x1b[Kpulling  25%  500 MB of 2 GB  "
	if !strings.HasPrefix(b.String(), want) || !strings.Contains(b.String(), "pulling  12%  500 MB of 4 GB") || !strings.HasSuffix(b.String(), "\nverifying sha256 digest\n") {
		t.Errorf("%q", b.String())
	}
	for line := range strings.FieldsFuncSeq(b.String(), func(r rune) bool { return r == '\r' || r == '\n' }) {
		if len(strings.TrimPrefix(line, "\x1b[K")) > 60 {
			t.Errorf("%d wide: %q", len(line), line)
		}
	}
}
