package models_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/models"
)

// TestMemoryWhileLoading: a load takes a file's size on top of what is loaded, the largest file
// first; what is more, that or the loaded model with its caches, is what has to be free.
func TestMemoryWhileLoading(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct {
		name        string
		layer, head int64
		context     int
		want        int64 // 0: Card
	}{
		{"a head that outweighs the layers", mib, 64 * mib, 127, 128 * mib},
		{"layers alike, a small head", 32 * mib, mib, 127, 32*3*mib + 32*mib},
		{"a head somewhat larger", 32 * mib, 40 * mib, 127, 40*mib + 32*3*mib + 32*mib},
		{"caches larger than any file", mib, 2 * mib, 1 << 16, 0},
	} {
		dir := t.TempDir()
		if err := axmodel.WriteShape(dir, axmodel.Shape{Name: "qwen3", Layers: 3, Hidden: 64, Heads: 4, KVHeads: 2, HeadDim: 16,
			Intermediate: 96, Vocab: 1000,
			Context: tt.context, Chunk: 16, History: []int{0, 32}, LayerBytes: tt.layer, HeadBytes: tt.head}); err != nil {
			t.Fatal(err)
		}
		p, err := models.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		m := p.Memory()
		if tt.want == 0 {
			tt.want = m.Card
		}
		if m.Load != tt.want || m.Load < m.Card {
			t.Errorf("%s: %d bytes while it is loaded, want %d (%+v)", tt.name, m.Load, tt.want, m)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestMemoryOfEncoder: the encoder of pictures is loaded last, its file beside it, and what cannot
// be used is not counted.
func TestMemoryOfEncoder(t *testing.T) {
	const mib = 1 << 20
	s := axmodel.Shape{Name: "qwen3", Layers: 3, Hidden: 64, Heads: 4, KVHeads: 2, HeadDim: 16, Intermediate: 96, Vocab: 1000,
		Context: 127, Chunk: 16, History: []int{0, 32}, LayerBytes: mib, HeadBytes: mib, Sight: &axmodel.ShapeEncoder{Width: 32, Blocks: 2,
			Heads: 2, Intermediate: 48, Patch: 4, Merge: 2, Down: 4, Across: 4, Deep: 1, Bytes: 8 * mib}}
	dir := t.TempDir()
	if err := axmodel.WriteShape(dir, s); err != nil {
		t.Fatal(err)
	}
	memory := func(want bool) (all, text models.Memory) {
		p, err := models.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if v, err := p.Vision(); (v != nil) != want || (err == nil) != want {
			t.Fatalf("it sees: %v, %v", v, err)
		}
		return p.Memory(), p.TextMemory()
	}
	all, text := memory(true)
	// Its weights, a picture of 16 patches of two frames, four rows, and as many to add.
	encoder := int64(8*mib) + 4096 + 4096 + 4096
	if all.Encoder != encoder || all.Card != text.Card+encoder || all.Load != all.Card+8*mib || text.Encoder != 0 ||
		text.Load != max(text.Card, 4*mib+mib) {
		t.Errorf("%+v, and without it %+v", all, text)
	}
	file := filepath.Join(dir, "config.json")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.Replace(b, []byte(`"Qwen3VL"`), []byte(`"InternVL3"`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if all, text := memory(false); all != text || all.Encoder != 0 {
		t.Errorf("an encoder that cannot be used is counted: %+v", all)
	}
}
