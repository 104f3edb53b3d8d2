package soft_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/axcl/soft/kernel"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/graph"
	"github.com/axle-llm/axle/internal/lane"
)

// Nets of random operations give what float64 gives, with each kind of kernels.
func TestGraphs(t *testing.T) {
	lane.NoRace(t)
	seeds := 12
	if testing.Short() {
		seeds = 3
	}
	for k, set := range kernel.Available() {
		d := open(t, soft.Options{Threads: 1 + k%3, Kernels: set.String()})
		dir, worst := t.TempDir(), 0.0
		for _, op := range axmodeltest.GraphOps {
			for seed := range uint64(seeds) {
				c, err := axmodeltest.RandomGraph(op, seed)
				if err != nil {
					t.Fatalf("%s, seed %d: %v", op, seed, err)
				}
				off, err := axmodeltest.AgainstGraph(d, dir, c)
				if err != nil {
					t.Errorf("%v, %s, seed %d, %v: %v", set, op, seed, c.Ops, err)
				}
				worst = max(worst, off)
			}
		}
		t.Logf("%v: the worst is %.3f of what is allowed", set, worst)
	}
}

// What is easily mistaken is as the libraries have it that nets come from.
func TestGraphGoldens(t *testing.T) {
	for _, set := range kernel.Available() {
		if err := axmodeltest.GraphGoldens(open(t, soft.Options{Threads: 2, Kernels: set.String()}), t.TempDir()); err != nil {
			t.Errorf("%v: %v", set, err)
		}
	}
}

// The same inputs give the same bits on any number of threads.
func TestGraphSameBits(t *testing.T) {
	dir := t.TempDir()
	for _, op := range axmodeltest.GraphOps {
		c, err := axmodeltest.RandomGraph(op, 99)
		if err != nil {
			t.Fatal(err)
		}
		var first string
		for _, threads := range []int{1, 2, 5} {
			got, err := axmodeltest.GraphBits(open(t, soft.Options{Threads: threads}), dir, c)
			if err != nil {
				t.Fatal(err)
			}
			if threads == 1 {
				first = fmt.Sprint(got)
			} else if fmt.Sprint(got) != first {
				t.Errorf("%s: %d threads give other bits", op, threads)
			}
		}
	}
}

// A net whose tensors are called as a layer's, or a whole decoder's, is not loaded as one.
func TestGraphInDisguise(t *testing.T) {
	d := open(t, soft.Options{Threads: 1})
	layer := func(g *graph.Graph) {
		x := g.Input("input", axcl.BF16, 1, 1, 8)
		g.Input("indices", axcl.Uint32, 1, 1)
		g.Input("mask", axcl.BF16, 1, 1, 5)
		k, v := g.Input("K_cache", axcl.BF16, 1, 4, 8), g.Input("V_cache", axcl.BF16, 1, 4, 8)
		g.Output("K_cache_out", axcl.BF16, g.Slice(k, 1, 0, 1))
		g.Output("V_cache_out", axcl.BF16, g.Slice(v, 1, 0, 1))
		g.Output("output", axcl.BF16, x)
	}
	whole := func(g *graph.Graph) {
		x := g.Input("input_embeds", axcl.BF16, 1, 1, 8)
		g.Input("indices", axcl.Uint32, 1, 1)
		g.Input("mask", axcl.BF16, 1, 1, 5)
		k, v := g.Input("k_caches", axcl.BF16, 1, 2, 4, 8), g.Input("v_caches", axcl.BF16, 1, 2, 4, 8)
		g.Output("k_cache", axcl.BF16, g.Slice(k, 2, 0, 1))
		g.Output("v_cache", axcl.BF16, g.Slice(v, 2, 0, 1))
		g.Output("logits", axcl.BF16, x)
	}
	for name, make := range map[string]func(*graph.Graph){"layer": layer, "whole": whole} {
		g, path := graph.New(), filepath.Join(t.TempDir(), "net.axmodel")
		make(g)
		if err := g.Save(path); err != nil {
			t.Fatal(err)
		}
		_, err := axcl.Load(t.Context(), d, axcl.LoadSpec{Layers: []string{path}})
		if !errors.Is(err, axcl.ErrModel) || !strings.Contains(err.Error(), "is a net") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A speech recogniser's encoder is as float64 has it, on a small one, through all of its layers.
func TestGraphWhisper(t *testing.T) {
	c := axmodeltest.WhisperCase(axmodeltest.WhisperSize{Mels: 8, Frames: 40, Layers: 2, State: 24, Heads: 3})
	worst, err := axmodeltest.AgainstGraph(open(t, soft.Options{Threads: 2}), t.TempDir(), c)
	if err != nil {
		t.Error(err)
	}
	t.Logf("the worst is %.3f of what is allowed", worst)
}

// BenchmarkGraphWhisper is the encoder of Whisper tiny on 30 s of sound.
func BenchmarkGraphWhisper(b *testing.B) {
	d, err := soft.Open(soft.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
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
	b.ReportAllocs()
	for b.Loop() {
		if err := n.Run(0, c.In[0], out); err != nil {
			b.Fatal(err)
		}
	}
}
