package models_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
)

var update = flag.Bool("update", false, "write testdata/packages anew")

const packages = "../testdata/packages"

// Every layout has a small package in testdata that opens, with the same facts however they are
// told.
func TestLayouts(t *testing.T) {
	//proves:G21
	digests := map[string]string{}
	for _, layout := range modelstest.Layouts {
		t.Run(layout, func(t *testing.T) {
			dir := filepath.Join(packages, layout)
			if *update {
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := modelstest.Write(dir, layout); err != nil {
					t.Fatal(err)
				}
			}
			p, err := models.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if p.Layout != layout {
				t.Errorf("layout %s, want %s", p.Layout, layout)
			}
			if p.Vocab != 320 || p.Hidden != 32 || p.Out != 320 || len(p.Layers) != 2 || p.Shape.Cells != 64 || p.Context != 64 {
				t.Errorf("vocab %d hidden %d out %d layers %d cells %d context %d", p.Vocab, p.Hidden, p.Out, len(p.Layers), p.Shape.Cells,
					p.Context)
			}
			if p.Family != "qwen3" || p.Architecture != "qwen3" || p.TokenizerType != "Qwen3" || p.Embedding {
				t.Errorf("family %q architecture %q tokenizer %q embedding %v", p.Family, p.Architecture, p.TokenizerType, p.Embedding)
			}
			for _, l := range append(slices.Clone(p.Layers), p.Head) {
				if st, err := os.Stat(l); err != nil || st.Size() == 0 || !filepath.IsAbs(l) {
					t.Errorf("layer path %q: %v", l, err)
				}
			}
			row := make([]uint16, 32)
			if err := p.Embed.Row(row, 5); err != nil || row[0] != 0xbf80 || row[1] != 0x3f80 || row[2] != 0xbf80 {
				t.Errorf("row 5 begins %x %x %x, %v", row[0], row[1], row[2], err)
			}
			if wantSampling := slices.Contains([]string{"A", "B", "E"}, layout); (p.Sampling.Temperature != nil) != wantSampling {
				t.Errorf("sampling %+v", p.Sampling)
			} else if wantSampling && (*p.Sampling.Temperature != 0.6 || *p.Sampling.TopK != 20 || *p.Sampling.TopP != 0.95 ||
				p.Sampling.RepetitionPenalty != nil) {
				t.Errorf("sampling %+v", p.Sampling)
			}
			if len(p.Digest()) != 64 {
				t.Errorf("digest %q", p.Digest())
			}
			if other, dup := digests[p.Digest()]; dup {
				t.Errorf("same digest as %s", other)
			}
			digests[p.Digest()] = layout
			inferred := layout == "E" || layout == "G"
			if inferred && len(p.Notes) == 0 {
				t.Error("nothing is said about what was inferred")
			}
			m := p.Memory()
			if m.Layers != 2*20480 || m.Head != 10240 || m.Cache != 2*2*2*64*16 || m.Card != m.Layers+m.Head+m.Cache+m.IO || m.IO <= 0 {
				t.Errorf("memory %+v", m)
			}
			var out strings.Builder
			if err := p.Info().Write(&out); err != nil || !strings.Contains(out.String(), "card memory") {
				t.Errorf("info: %v\n%s", err, out.String())
			}
			need, err := models.Select(sizes(t, dir), os.DirFS(dir))
			if err != nil || !slices.Equal(need, p.Files()) {
				t.Errorf("a listing selects %v, %v; the package is %v", need, err, p.Files())
			}
		})
	}
}

func sizes(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		st, err := d.Info()
		rel, _ := filepath.Rel(dir, p)
		out[filepath.ToSlash(rel)] = st.Size()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
