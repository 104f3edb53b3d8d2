package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
)

// TestWhole: a whole decoder in one file, or in two, gives the tokens that the same checkpoint
// gives a file a layer, among others as alone, with prompts that cross chunks.
func TestWhole(t *testing.T) {
	//proves:G12
	testWhole(t, func(*testing.T) func() (axcl.Device, string, error) { return openSoft })
}

// TestWholeWindow: a model with sliding windows no shorter than the context gives the same tokens
// as a whole decoder and a file a layer.
func TestWholeWindow(t *testing.T) {
	dir := compiled(t, "gemma3")
	_, alone := load(t, dir, openSoft, OpenOptions{Parallel: 1, Proven: &Proven{}})
	jobs, want := edits(80, 15, axmodeltest.Vocab, 95, truthOn(t, alone))
	for _, whole := range []string{"one", "two"} {
		out := filepath.Join(t.TempDir(), "package")
		if _, err := compile.Run(context.Background(), compile.Options{From: filepath.Dir(dir), Out: out, Context: 95, Chunk: 16,
			Whole: whole}); err != nil {
			t.Fatal(err)
		}
		_, b := load(t, out, openSoft, OpenOptions{CardOptions: still})
		if !b.m.shape.Whole || b.m.shape.Local {
			t.Errorf("%s: %+v", whole, b.m.shape)
		}
		sameEverywhere(t, b, jobs, want, 4)
	}
}

func testWhole(t *testing.T, card func(t *testing.T) func() (axcl.Device, string, error)) {
	dir := compiled(t, "qwen3")
	var jobs []Job
	var want [][]int32
	t.Run("a file a layer", func(t *testing.T) {
		_, alone := load(t, dir, card(t), OpenOptions{Parallel: 1, Proven: &Proven{}})
		jobs, want = edits(78, 30, axmodeltest.Vocab, 95, truthOn(t, alone))
	})
	for _, whole := range []string{"one", "two"} {
		out := filepath.Join(t.TempDir(), "package")
		if _, err := compile.Run(context.Background(), compile.Options{From: filepath.Dir(dir), Out: out, Context: 95, Chunk: 16,
			Whole: whole}); err != nil {
			t.Fatal(err)
		}
		t.Run(whole, func(t *testing.T) {
			m, b := load(t, out, card(t), OpenOptions{CardOptions: still})
			if !b.m.shape.Whole || b.m.wide != 16 || !b.m.proven.Chunk || !b.m.proven.Mixed || !b.m.proven.Scatter {
				t.Errorf("%+v, proven %+v", b.m.shape, b.m.proven)
			}
			if i := b.Info(); i.Layers != b.m.shape.Layers || i.Context != 95 {
				t.Errorf("%+v", i)
			}
			sameEverywhere(t, b, jobs, want, 4)
			if _, err := m.Embed(context.Background(), EmbedRequest{Input: []string{"A"}}); !errors.Is(err, ErrUnsupported) {
				t.Errorf("a vector: %v", err)
			}
			if b.m.canary.row.hidden == nil || b.m.canary.sample == nil {
				t.Error("nothing is known to hold the card against")
			}
		})
	}
}

// A whole decoder that leaves too much to be guessed is refused by name before a card is
// opened.
func TestWholeRefused(t *testing.T) {
	out := filepath.Join(t.TempDir(), "package")
	if _, err := compile.Run(context.Background(), compile.Options{From: filepath.Dir(compiled(t, "qwen3")), Out: out, Context: 95,
		Chunk: 16, Whole: "one"}); err != nil {
		t.Fatal(err)
	}
	m, err := axmodel.ReadFile(filepath.Join(out, axmodel.WholeFile))
	if err != nil {
		t.Fatal(err)
	}
	d, err := m.Decoder()
	if err != nil {
		t.Fatal(err)
	}
	blind := axmodeltest.VendorDecoder(d.Hidden, d.Layers, d.KV, d.Cells, d.Out, false, 1)
	blind.Groups[0].Inputs = blind.Groups[0].Inputs[:3]
	if err := os.WriteFile(filepath.Join(out, axmodel.WholeFile), blind.Marshal(), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = Open(context.Background(), out, OpenOptions{Device: "soft"})
	if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "lists no positions or no mask") {
		t.Error(err)
	}
}
