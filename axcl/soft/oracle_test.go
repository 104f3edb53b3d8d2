package soft_test

import (
	"testing"

	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/internal/lane"
)

// The software card gives what a float64 computation of the checkpoint gives, for every
// architecture.
func TestOracle(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	for _, a := range axmodeltest.Archs() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(2) {
				d := open(t, soft.Options{Threads: 1 + int(seed)})
				r, err := axmodeltest.Against(d, t.TempDir(), a.Name, seed, compile.Options{Float32: seed == 1, Plain: seed == 1,
					NoArgmax: seed == 1})
				if err != nil {
					t.Fatal(err)
				}
				t.Log(r)
				if r.Cosine < 0.9999 || r.Wrong > 0 || r.Decided < r.Rows/2 {
					t.Errorf("seed %d: %v", seed, r)
				}
			}
		})
	}
}

// Local layers see their window and no more. Windows of a few rows are left out: where a row sees
// so little, bf16 between the layers alone can take the cosine to 0.9998.
func TestOracleWindow(t *testing.T) {
	for _, window := range []int{12, 20} {
		a, _ := axmodeltest.Find("gemma3")
		a.Window = window
		r, err := axmodeltest.AgainstArch(open(t, soft.Options{}), t.TempDir(), a, 2, compile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Cosine < 0.9999 || r.Wrong > 0 || r.Decided < r.Rows/2 {
			t.Errorf("window %d: %v", window, r)
		}
	}
}

// Layers with a state, each form of them, give what the formulas give, with each type of state: in
// chunks, in chunks with padding, and row by row. A state of 16 bits is rounded at every call, and
// still near enough.
func TestOracleStates(t *testing.T) {
	//proves:G13
	lane.Slow(t)
	for i, a := range axmodeltest.StateArchs() {
		for k, state := range []string{"fp32", "fp16", "bf16"} {
			t.Run(a.Name+"/"+state, func(t *testing.T) {
				t.Parallel()
				odd := (i + k) % 2
				r, err := axmodeltest.AgainstNets(open(t, soft.Options{Threads: 1 + odd}), t.TempDir(), a, uint64(odd),
					compile.Options{State: state, Warm: odd, Float32: odd == 1, Plain: odd == 1})
				if err != nil {
					t.Fatal(err)
				}
				t.Log(r)
				if r.Cosine < 0.9999 || r.Wrong > 0 || r.Decided < r.Rows/2 {
					t.Error(r)
				}
			})
		}
	}
}

// The same through passes and slots: sequences turn about, and one goes on from a state of another
// that was kept.
func TestOracleSlots(t *testing.T) {
	for i, a := range axmodeltest.StateArchs() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			r, err := axmodeltest.AgainstArch(open(t, soft.Options{}), t.TempDir(), a, uint64(i%2),
				compile.Options{State: []string{"fp32", "fp16", "bf16", "fp32"}[i], Warm: i % 3})
			if err != nil {
				t.Fatal(err)
			}
			t.Log(r)
			if r.Cosine < 0.9999 || r.Wrong > 0 || r.Decided < r.Rows/2 {
				t.Error(r)
			}
		})
	}
}

// Pictures: the encoder's rows, and those that are added after layers, are what the formulas give,
// and so is what the layers make of them.
func TestOraclePictures(t *testing.T) {
	//proves:G21
	lane.Slow(t)
	for _, a := range axmodeltest.SightArchs() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(2) {
				eyes, r, err := axmodeltest.AgainstPicture(open(t, soft.Options{Threads: 1 + int(seed)}), t.TempDir(), a, seed,
					compile.Options{Float32: seed == 1})
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("the encoder's lowest cosine is %.7f; %v", eyes, r)
				if eyes < 0.9999 || r.Cosine < 0.9999 || r.Wrong > 0 || r.Decided < r.Rows/2 {
					t.Errorf("seed %d: the encoder's lowest cosine is %v; %v", seed, eyes, r)
				}
			}
		})
	}
}

// A whole decoder in one file, or in one for tokens and one for prompts, gives what the same
// checkpoint gives a file a layer.
func TestOracleWhole(t *testing.T) {
	lane.Slow(t)
	for i, whole := range []string{"one", "two"} {
		for k, arch := range []string{"qwen3", "qwen2"} {
			r, err := axmodeltest.Against(open(t, soft.Options{}), t.TempDir(), arch, uint64(k),
				compile.Options{Whole: whole, Float32: i == k, Plain: i == 1})
			if err != nil {
				t.Fatal(err)
			}
			t.Log(r)
			if r.Cosine < 0.9999 || r.Wrong > 0 || r.Decided < r.Rows/2 {
				t.Errorf("%s files of %s: %v", whole, arch, r)
			}
		}
	}
}

// Layers with layer inputs and shared K and V give what the formulas give: in passes that cross
// chunks and mix sequences, with cells out of order, and called by tensor name; with a window and
// without, quantised and not.
func TestOracleLayerInputs(t *testing.T) {
	lane.Slow(t)
	for i, a := range axmodeltest.Gemma4Archs() {
		for _, window := range []int{512, 20} {
			a.Window = window
			r, err := axmodeltest.AgainstArch(open(t, soft.Options{Threads: 1 + i}), t.TempDir(), a, uint64(i),
				compile.Options{Float32: i == 1, Plain: i == 1})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s, window %d: %v", a.Name, window, r)
			if r.Cosine < 0.9999 || r.Wrong > 0 || r.Decided < r.Rows/2 {
				t.Errorf("%s, window %d: %v", a.Name, window, r)
			}
		}
		a.Window = 512
		n, err := axmodeltest.AgainstNets(open(t, soft.Options{}), t.TempDir(), a, uint64(i), compile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if n.Cosine < 0.9999 || n.Wrong > 0 || n.Decided < n.Rows/2 {
			t.Errorf("%s, layer by layer: %v", a.Name, n)
		}
	}
}
