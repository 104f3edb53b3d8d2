//go:build !scripted

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axle-llm/axle/models/modelstest"
)

// TestPlanFolder: a folder is planned with what it has, however short its context is; where it is
// broken the error speaks of it alone.
func TestPlanFolder(t *testing.T) {
	dir := t.TempDir()
	if err := modelstest.Write(dir, "A"); err != nil {
		t.Fatal(err)
	}
	plan := func(args ...string) (string, error) {
		var out strings.Builder
		root := newRootCmd()
		root.SetOut(&out)
		root.SetArgs(append([]string{"plan"}, args...))
		err := root.ExecuteContext(t.Context())
		return out.String(), err
	}
	if out, err := plan(dir); err != nil || !strings.Contains(out, "card memory") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := plan(dir, "--clients-context", "1000000"); err == nil || !strings.Contains(err.Error(), "--clients-context") {
		t.Error(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*l0*.axmodel"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.Truncate(files[0], 100); err != nil {
		t.Fatal(err)
	}
	if _, err := plan(dir); err == nil || !strings.Contains(err.Error(), filepath.Base(files[0])) ||
		strings.Contains(err.Error(), "shapes") {
		t.Error(err)
	}
	if _, err := plan(filepath.Join(dir, "none")); err == nil || !strings.Contains(err.Error(), "shapes") {
		t.Error(err)
	}
}

// TestPlanWith: several models are planned together, and one that is not known is said.
func TestPlanWith(t *testing.T) {
	t.Setenv("AXLE_MODELS", t.TempDir())
	out, _, err := command(t, "plan", "qwen3-0.6b", "--with", "qwen3-1.7b,qwen3-0.6b", "--memory", "6000")
	if err != nil || !strings.Contains(out, "fits\n\naxle serve --preload ") || strings.Count(out, "qwen3-0.6b  ") != 2 {
		t.Errorf("%v\n%s", err, out)
	}
	out, _, err = command(t, "plan", "qwen3-4b", "--with", "qwen3-1.7b", "--memory", "3000", "--json")
	if err != nil || !strings.Contains(out, `"fits": false`) {
		t.Errorf("%v\n%s", err, out)
	}
	if _, _, err := command(t, "plan", "qwen3-4b", "--with", "nope"); err == nil || !strings.Contains(err.Error(), "nope") {
		t.Errorf("unknown: %v", err)
	}
}
