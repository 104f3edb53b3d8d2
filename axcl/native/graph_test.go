//go:build cgo && !fake && linux

package native

import (
	"path/filepath"
	"runtime"
	"testing"

	"github.com/axle-llm/axle/axcl/native/simhook"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
)

// TestOracleGraphs: nets of random operations give on the simulated card what float64 gives, over both tables, and what is easily mistaken
// is as the libraries have it that nets come from.
func TestOracleGraphs(t *testing.T) {
	seeds := 12
	if testing.Short() {
		seeds = 2
	}
	onCard(t, "", func(t *testing.T, k Kind, _ *simhook.Sim) {
		d := open(t, k)
		defer closeAll(t, d)
		dir, worst := t.TempDir(), 0.0
		if err := axmodeltest.GraphGoldens(d, dir); err != nil {
			t.Error(err)
		}
		for _, op := range axmodeltest.GraphOps {
			for seed := range uint64(seeds) {
				c, err := axmodeltest.RandomGraph(op, seed)
				if err != nil {
					t.Fatalf("%s, seed %d: %v", op, seed, err)
				}
				off, err := axmodeltest.AgainstGraph(d, dir, c)
				if err != nil {
					t.Errorf("%s, seed %d, %v: %v", op, seed, c.Ops, err)
				}
				worst = max(worst, off)
			}
		}
		t.Logf("the worst is %.3f of what is allowed", worst)
	})
}

// BenchmarkGraphWhisper is the encoder of Whisper tiny on 30 s of sound, on the simulated card.
func BenchmarkGraphWhisper(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	d := open(b, AXCL)
	defer closeAll(b, d)
	c, path := axmodeltest.WhisperCase(axmodeltest.WhisperTiny), filepath.Join(b.TempDir(), "tiny.axmodel")
	if err := c.Graphs[0].Save(path); err != nil {
		b.Fatal(err)
	}
	n, err := d.LoadNet(path)
	if err != nil {
		b.Fatal(err)
	}
	out := map[string][]byte{}
	for _, t := range n.Outputs(0) {
		out[t.Name] = make([]byte, t.Size)
	}
	for b.Loop() {
		if err := n.Run(0, c.In[0], out); err != nil {
			b.Fatal(err)
		}
	}
}
