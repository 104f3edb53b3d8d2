package bench

import (
	"os"
	"strconv"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/pocket"
	"github.com/axle-llm/axle/sampler"
)

// TestTokens makes AXLE_BENCH_TOKENS tokens with the model that ships inside, on the software card
// with one thread, and no reader: a load whose instructions testdata/profile/run.sh counts,
// with profiling's hooks and without.
func TestTokens(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("AXLE_BENCH_TOKENS"))
	if err != nil || n < 1 {
		t.Skip("SKIPPED, not run: a load for testdata/profile/run.sh")
	}
	dir, err := models.Materialize(pocket.FS(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p, err := models.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	card, err := engine.OpenCard(func() (axcl.Device, string, error) {
		d, err := soft.Open(soft.Options{Threads: 1})
		return d, "", err
	}, engine.CardOptions{Check: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer card.Close()
	m, err := engine.OpenPackage(t.Context(), p,
		engine.OpenOptions{Card: card, Proven: &engine.Proven{Chunk: true, Mixed: true, Scatter: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := sampler.Defaults()
	s.Temperature = 0
	off, got := false, 0
	for token, err := range m.Backend().Complete(t.Context(), engine.Job{IDs: []int32{1, 2, 3, 4}, Sampling: s, Limit: n, Speculate: &off,
		IgnoreStop: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if token.Final == "" {
			got++
		}
	}
	if got != n {
		t.Errorf("%d tokens, want %d", got, n)
	}
}
