package compile_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
)

// What cannot be one call for all layers is told before anything is written.
func TestWholeRefused(t *testing.T) {
	for _, c := range []struct {
		arch string
		o    compile.Options
		want string
	}{
		{"qwen3", compile.Options{Whole: "three"}, `whole is "three", one and two (files) are possible`},
		{"qwen3", compile.Options{Whole: "one", Embedding: true}, "compile an embedding model a file a layer"},
		{"gemma3", compile.Options{Whole: "one", Context: 1025}, "or with a context of at most 1024"},
		{"gemma4", compile.Options{Whole: "one"}, "no layer inputs"},
		{"qwen3_5", compile.Options{Whole: "two"}, "layers that keep a state"},
	} {
		dir := t.TempDir()
		a, ok := axmodeltest.Find(c.arch)
		if !ok {
			a = axmodeltest.StateArchs()[0]
		}
		if _, err := axmodeltest.WriteCheckpoint(dir, a, 1); err != nil {
			t.Fatal(err)
		}
		c.o.From, c.o.Out = dir, filepath.Join(dir, "package")
		if _, err := compile.Run(context.Background(), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.arch, err, c.want)
		}
	}
}
