//go:build cgo && !fake && linux

package native

import (
	"testing"

	"github.com/axle-llm/axle/axcl/native/simhook"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	hf "github.com/axle-llm/axle/axmodel/compile"
)

// TestOracle: the native path over the simulated card gives what a float64 computation of the checkpoint gives, for every
// architecture, and token for token what the software card gives.
func TestOracle(t *testing.T) {
	for i, a := range axmodeltest.Archs() {
		t.Run(a.Name, func(t *testing.T) {
			onCard(t, "", func(t *testing.T, k Kind, _ *simhook.Sim) {
				d := open(t, k)
				defer closeAll(t, d)
				odd := i%2 == 1
				o := hf.Options{Float32: odd, Plain: odd, NoArgmax: odd}
				r, err := axmodeltest.Against(d, t.TempDir(), a.Name, 0, o)
				if err != nil {
					t.Fatal(err)
				}
				if r.Cosine < 0.9999 || r.Wrong > 0 || r.Decided < r.Rows/2 {
					t.Error(r)
				}
				s, err := soft.Open(soft.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer closeAll(t, s)
				other, err := axmodeltest.Against(s, t.TempDir(), a.Name, 0, o)
				if err != nil {
					t.Fatal(err)
				}
				if n, cos := r.Compare(other); n > 0 || cos < 0.9999 {
					t.Errorf("the software card gives %d other tokens of %d, lowest cosine %v", n, r.Rows, cos)
				}
			})
		})
	}
}

// Quantised weights are computed in float32 by the simulated card, and by the software card with inputs of eight bits: they agree but for
// that.
func TestOracleQuantised(t *testing.T) {
	for _, o := range []hf.Options{{Quant: "int8"}, {Quant: "int4", Group: 128}} {
		onCard(t, "", func(t *testing.T, k Kind, _ *simhook.Sim) {
			d := open(t, k)
			defer closeAll(t, d)
			r, err := axmodeltest.Against(d, t.TempDir(), "qwen3", 0, o)
			if err != nil {
				t.Fatal(err)
			}
			s, err := soft.Open(soft.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer closeAll(t, s)
			other, err := axmodeltest.Against(s, t.TempDir(), "qwen3", 0, o)
			if err != nil {
				t.Fatal(err)
			}
			if _, cos := r.Compare(other); cos < 0.999 {
				t.Errorf("%s: the cards agree to a cosine of %v", o.Quant, cos)
			}
		})
	}
}

// TestOracleStates: layers with a state give the formulas' results on the simulated card too, in passes from slot to slot and called by
// tensor name, with each type of state, and token for token what the software card gives.
func TestOracleStates(t *testing.T) {
	for i, a := range axmodeltest.StateArchs() {
		t.Run(a.Name, func(t *testing.T) {
			onCard(t, "", func(t *testing.T, k Kind, _ *simhook.Sim) {
				d := open(t, k)
				defer closeAll(t, d)
				o := hf.Options{State: []string{"bf16", "fp16", "fp32", "bf16"}[i], Warm: i % 3, Plain: i%2 == 1}
				r, err := axmodeltest.AgainstArch(d, t.TempDir(), a, 0, o)
				if err != nil {
					t.Fatal(err)
				}
				if r.Cosine < 0.9999 || r.Wrong > 0 || r.Decided < r.Rows/2 {
					t.Errorf("in passes: %v", r)
				}
				if n, err := axmodeltest.AgainstNets(d, t.TempDir(), a, 0, o); err != nil {
					t.Fatal(err)
				} else if n.Cosine < 0.9999 || n.Wrong > 0 || n.Decided < n.Rows/2 {
					t.Errorf("layer by layer: %v", n)
				}
				s, err := soft.Open(soft.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer closeAll(t, s)
				other, err := axmodeltest.AgainstArch(s, t.TempDir(), a, 0, o)
				if err != nil {
					t.Fatal(err)
				}
				t.Log(r, other)
				differ := 0
				if o.State != "fp32" { // rounded by both, each its own way: two tokens may be too near to each other
					differ = 1
				}
				if n, cos := r.Compare(other); n > differ || cos < 0.9999 {
					t.Errorf("the software card gives %d other tokens of %d, lowest cosine %v", n, r.Rows, cos)
				}
			})
		})
	}
}

// TestOracleWhole: a whole decoder, in one file and in two, gives the same on the simulated card, token for token what the software card
// gives.
func TestOracleWhole(t *testing.T) {
	for i, whole := range []string{"one", "two"} {
		onCard(t, "", func(t *testing.T, k Kind, _ *simhook.Sim) {
			d := open(t, k)
			defer closeAll(t, d)
			o := hf.Options{Whole: whole, Float32: i == 1, Plain: i == 0}
			r, err := axmodeltest.Against(d, t.TempDir(), "qwen3", 0, o)
			if err != nil {
				t.Fatal(err)
			}
			if r.Cosine < 0.9999 || r.Wrong > 0 || r.Decided < r.Rows/2 {
				t.Errorf("%s: %v", whole, r)
			}
			s, err := soft.Open(soft.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer closeAll(t, s)
			other, err := axmodeltest.Against(s, t.TempDir(), "qwen3", 0, o)
			if err != nil {
				t.Fatal(err)
			}
			if n, cos := r.Compare(other); n > 0 || cos < 0.9999 {
				t.Errorf("%s: the software card gives %d other tokens of %d, lowest cosine %v", whole, n, r.Rows, cos)
			}
		})
	}
}

// TestOracleGiven: layers that are given rows besides, and use the K and V of others, give the formulas' results on the simulated card too,
// in passes that cross chunks and mix sequences, and token for token what the software card gives.
func TestOracleGiven(t *testing.T) {
	for i, a := range axmodeltest.GivenArchs() {
		if a.Window = 512; i == 0 {
			a.Window = 20
		}
		t.Run(a.Name, func(t *testing.T) {
			onCard(t, "", func(t *testing.T, k Kind, _ *simhook.Sim) {
				d := open(t, k)
				defer closeAll(t, d)
				o := hf.Options{Float32: i == 1, Plain: i == 1}
				r, err := axmodeltest.AgainstArch(d, t.TempDir(), a, uint64(i), o)
				if err != nil {
					t.Fatal(err)
				}
				if r.Cosine < 0.9999 || r.Wrong > 0 || r.Decided < r.Rows/2 {
					t.Error(r)
				}
				s, err := soft.Open(soft.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer closeAll(t, s)
				other, err := axmodeltest.AgainstArch(s, t.TempDir(), a, uint64(i), o)
				if err != nil {
					t.Fatal(err)
				}
				t.Log(r, other)
				if n, cos := r.Compare(other); n > 0 || cos < 0.9999 {
					t.Errorf("the software card gives %d other tokens of %d, lowest cosine %v", n, r.Rows, cos)
				}
			})
		})
	}
}
