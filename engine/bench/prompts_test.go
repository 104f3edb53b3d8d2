package bench

import (
	"slices"
	"testing"

	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/pocket"
)

// TestWords: prompts have as many tokens as were asked for, and none is asked twice: not by another
// client, in another turn, nor by a benchmark that was run before on the same server, which keeps
// rows in memory and on disk.
func TestWords(t *testing.T) {
	dir, err := models.Materialize(pocket.FS(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m, err := engine.Open(t.Context(), dir, engine.OpenOptions{Device: "soft"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var seen [][]int32
	for range 2 {
		words := Words(m)
		for client := range 2 {
			for turn := range 2 {
				p, err := words(60, client, turn)
				if err != nil {
					t.Fatal(err)
				}
				if again, err := words(60, client, turn); err != nil || !slices.Equal(again.IDs, p.IDs) {
					t.Errorf("client %d, turn %d: another prompt when asked again, %v", client, turn, err)
				}
				if len(p.IDs) != 60 || slices.ContainsFunc(seen, func(ids []int32) bool { return slices.Equal(ids, p.IDs) }) {
					t.Errorf("client %d, turn %d: %d tokens, or a prompt that was there before", client, turn, len(p.IDs))
				}
				seen = append(seen, p.IDs)
			}
		}
	}
}
