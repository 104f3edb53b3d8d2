//go:build cgo && !fake && linux

package native

import (
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/native/simhook"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	hf "github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/internal/lane"
)

// TestOracle: the native path over the simulated card gives what a float64 computation of the
// checkpoint gives, for every architecture, and token for token what the software card gives.
func TestOracle(t *testing.T) {
	//proves:G13
	lane.Slow(t)
	lane.NoRace(t)
	for i, a := range axmodeltest.Archs() {
		t.Run(a.Name, func(t *testing.T) {
			odd := i%2 == 1
			o := hf.Options{Float32: odd, Plain: odd, NoArgmax: odd}
			onCard(t, "", func(t *testing.T, k Kind, _ *simhook.Sim) {
				exact(t, k, func(d axcl.Device) (axmodeltest.Report, error) {
					return axmodeltest.Against(d, t.TempDir(), a.Name, 0, o)
				}, 0)
			})
		})
	}
}

// Quantised weights are computed in float32 by the simulated card, and by the software card with
// inputs of 16 bits for weights of eight and of eight bits for weights of four: they agree but for
// that.
func TestOracleQuantised(t *testing.T) {
	lane.Slow(t)
	for _, c := range []struct {
		o   hf.Options
		cos float64
	}{{hf.Options{Quant: "int8"}, 0.9999}, {hf.Options{Quant: "int4", Group: 128}, 0.999}} {
		onCard(t, "", func(t *testing.T, k Kind, _ *simhook.Sim) {
			f := func(d axcl.Device) (axmodeltest.Report, error) {
				return axmodeltest.Against(d, t.TempDir(), "qwen3", 0, c.o)
			}
			if _, cos := onSim(t, k, f).Compare(onSoft(t, f)); cos < c.cos {
				t.Errorf("%s: the cards agree to a cosine of %v", c.o.Quant, cos)
			}
		})
	}
}

// TestOracleStates: layers with a state give the formulas' results on the simulated card too, in
// passes from slot to slot and called by tensor name, with each type of state, and token for token
// what the software card gives.
func TestOracleStates(t *testing.T) {
	lane.Slow(t)
	for i, a := range axmodeltest.StateArchs() {
		t.Run(a.Name, func(t *testing.T) {
			o := hf.Options{State: []string{"bf16", "fp16", "fp32", "bf16"}[i], Warm: i % 3, Plain: i%2 == 1}
			onCard(t, "", func(t *testing.T, k Kind, _ *simhook.Sim) {
				differ := 0
				if o.State != "fp32" { // rounded by both, each its own way: two tokens may be too near to each other
					differ = 1
				}
				exact(t, k, func(d axcl.Device) (axmodeltest.Report, error) {
					return axmodeltest.AgainstArch(d, t.TempDir(), a, 0, o)
				}, differ)
				n := onSim(t, k, func(d axcl.Device) (axmodeltest.Report, error) {
					return axmodeltest.AgainstNets(d, t.TempDir(), a, 0, o)
				})
				if n.Cosine < 0.9999 || n.Wrong > 0 || n.Decided < n.Rows/2 {
					t.Errorf("layer by layer: %v", n)
				}
			})
		})
	}
}

// TestOracleWhole: a whole decoder, in one file and in two, gives the same on the simulated card,
// token for token what the software card gives.
func TestOracleWhole(t *testing.T) {
	//proves:G13
	lane.Slow(t)
	for i, whole := range []string{"one", "two"} {
		o := hf.Options{Whole: whole, Float32: i == 1, Plain: i == 0}
		onCard(t, "", func(t *testing.T, k Kind, _ *simhook.Sim) {
			exact(t, k, func(d axcl.Device) (axmodeltest.Report, error) {
				return axmodeltest.Against(d, t.TempDir(), "qwen3", 0, o)
			}, 0)
		})
	}
}

// TestOracleLayerInputs: layers with layer inputs and shared K and V give the formulas' results on
// the simulated card too, in passes that cross chunks and mix sequences, and token for token what
// the software card gives.
func TestOracleLayerInputs(t *testing.T) {
	//proves:G13
	lane.Slow(t)
	for i, a := range axmodeltest.Gemma4Archs() {
		if a.Window = 512; i == 0 {
			a.Window = 20
		}
		t.Run(a.Name, func(t *testing.T) {
			o := hf.Options{Float32: i == 1, Plain: i == 1}
			onCard(t, "", func(t *testing.T, k Kind, _ *simhook.Sim) {
				exact(t, k, func(d axcl.Device) (axmodeltest.Report, error) {
					return axmodeltest.AgainstArch(d, t.TempDir(), a, uint64(i), o)
				}, 0)
			})
		})
	}
}

// against computes a checkpoint on a card and says how near that is to what its formulas give.
type against func(axcl.Device) (axmodeltest.Report, error)

// onSim is the report of a simulated card, onSoft that of the software card.
func onSim(t *testing.T, k Kind, f against) axmodeltest.Report {
	t.Helper()
	return reported(t, open(t, k), f)
}

func onSoft(t *testing.T, f against) axmodeltest.Report {
	t.Helper()
	d, err := soft.Open(soft.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return reported(t, d, f)
}

func reported(t *testing.T, d axcl.Device, f against) axmodeltest.Report {
	t.Helper()
	defer closeAll(t, d)
	r, err := f(d)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// exact: the simulated card gives what the formulas give, and what the software card gives but for
// this many tokens.
func exact(t *testing.T, k Kind, f against, differ int) {
	t.Helper()
	r, other := onSim(t, k, f), onSoft(t, f)
	t.Log(r, other)
	if r.Cosine < 0.9999 || r.Wrong > 0 || r.Decided < r.Rows/2 {
		t.Error(r)
	}
	if n, cos := r.Compare(other); n > differ || cos < 0.9999 {
		t.Errorf("the software card gives %d other tokens of %d, lowest cosine %v", n, r.Rows, cos)
	}
}
