package models_test

import (
	"testing"

	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/models"
)

// TestMemoryWhileLoading: a load takes a file's size besides what is loaded, the largest file first; what is more, that or the loaded model
// with its caches, is what has to be free.
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
		if err := axmodel.WriteHollow(dir, axmodel.HollowShape{Name: "qwen3", Layers: 3, Hidden: 64, Heads: 4, KVHeads: 2, HeadDim: 16,
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
