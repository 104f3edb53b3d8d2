package compile_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/models"
)

// Every architecture compiles to a package that models opens and whose files are what was asked for.
func TestCompile(t *testing.T) {
	for _, a := range axmodeltest.Archs() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			from := t.TempDir()
			if _, err := axmodeltest.WriteCheckpoint(from, a, 1); err != nil {
				t.Fatal(err)
			}
			out := filepath.Join(t.TempDir(), "package")
			r, err := compile.Run(context.Background(), compile.Options{From: from, Out: out, Context: 95, Chunk: 16, History: []int{0, 16, 64}})
			if err != nil {
				t.Fatal(err)
			}
			p, err := models.Open(out)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if len(p.Layers) != a.Layers || p.Hidden != a.Hidden || p.Vocab != a.Vocab || r.Layers != a.Layers {
				t.Errorf("package %+v", p)
			}
			m, err := axmodel.ReadFile(p.Layers[0])
			if err != nil {
				t.Fatal(err)
			}
			l, err := m.Layer()
			if err != nil {
				t.Fatal(err)
			}
			if l.Cells != 95 || len(l.Groups) != 4 || l.KV != a.KV*a.HeadDim || m.Groups[2].RawInputs[2] != "mask_2" {
				t.Errorf("layer %+v", l)
			}
		})
	}
}
