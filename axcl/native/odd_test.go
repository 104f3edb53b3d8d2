//go:build cgo && !fake && linux

package native

import (
	"cmp"
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/native/simhook"
	"github.com/axle-llm/axle/axmodel"
)

// TestOddLibrary: what a library says of a model is not believed where it cannot be, and never
// leads to a pass.
func TestOddLibrary(t *testing.T) {
	//proves:T1 the card's own shapes against the package
	oddLibraries(t)
	y := axcltest.Tiny{Seed: 4, Layers: 2, Hidden: 32, Heads: 2, KVHeads: 1, HD: 4, Intermediate: 4, Vocab: 40, ShapeOnly: true,
		Groups: []axmodel.SoftGroup{{Rows: 1, Cells: 12, Cache: 12}}}
	spec := write(t, y)
	spec.Head = ""
	first, second := filepath.Base(spec.Layers[0]), filepath.Base(spec.Layers[1])
	for _, k := range kinds {
		for _, tt := range []struct {
			odd string
			say []string // nil: all is well
		}{
			{"", nil},
			{"taken", nil},
			{"no-groups", []string{first, "groups (0)"}},
			{"groups", []string{first, "groups"}},
			{"no-inputs", []string{first, "tensors"}},
			{"inputs", []string{first, "tensors"}},
			{"no-outputs", []string{first, "tensors"}},
			{"outputs", []string{first, "tensors"}},
			{"named", []string{first, `"more"`, "none that a decoder layer is given"}},
			{"unnamed", map[Kind][]string{AXCL: {first, "48 inputs and 3 outputs", "no execute of more than 50 together", "a file a layer"},
				Engine: {first, `"more"`, "none that a decoder layer is given"}}[k]},
			{"extra", []string{first, `"more"`, "none that a decoder layer is given"}},
			{"dims", []string{first, "on the card"}},
			{"negative", []string{first, "on the card"}},
			{"zero", []string{first, `"mask"`}},
			{"huge", []string{first, `"mask"`}},
			{"size", []string{first, `"mask"`}},
			{"type", []string{first, `"mask"`}},
			{"no-name", []string{first, `""`}},
			{"hidden", []string{first, "the card sees hidden 64", "the file says hidden 32"}},
			{"second-inputs", []string{first, second}},
			{"second-name", []string{first, second, `"mask"`}},
			{"second-type", []string{first, second, `"mask"`}},
			{"second-size", []string{first, second, `"mask"`}},
			{"ragged", []string{first, "AX_ENGINE_GetGroupIOInfo"}},
			{"ragged-outputs", []string{first, "AX_ENGINE_GetGroupIOInfo"}},
		} {
			if k == AXCL && strings.HasPrefix(tt.odd, "ragged") || k == Engine && tt.odd == "negative" {
				continue // the other library has no way to say it
			}
			t.Run(string(k)+"/"+tt.odd, func(t *testing.T) {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				t.Setenv("ODD", tt.odd)
				d := open(t, k)
				defer closeAll(t, d)
				m, err := axcl.Load(context.Background(), d, spec)
				if tt.say == nil {
					if err != nil {
						t.Fatal(err)
					}
					if err := m.Run(rowPass(m.Shape(), 2)); err == nil { // its pass wants logits of a model without a head
						t.Error("a pass that cannot be was made")
					}
					p := rowPass(m.Shape(), 2)
					p.Want, p.Logits = nil, nil
					if err := m.Run(p); err != nil {
						t.Error(err)
					}
					if f := Look(k); f.Simulated {
						t.Error("taken for a simulated card")
					}
					return
				}
				if !errors.Is(err, axcl.ErrModel) || axcl.Fatal(err) {
					t.Fatalf("%v", err)
				}
				for _, s := range tt.say {
					if !strings.Contains(err.Error(), s) {
						t.Errorf("%v does not say %s", err, s)
					}
				}
			})
		}
	}
}

// oddLibraries builds testdata/odd.c under the vendor's names.
func oddLibraries(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	lib := filepath.Join(dir, "libaxcl_rt.so")
	if b, err := exec.Command(compiler(), "-std=c11", "-shared", "-fPIC", "-Wl,-Bsymbolic", "-o", lib, "testdata/odd.c",
		"testdata/odd_stubs.c").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	b, err := os.ReadFile(lib)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"libax_sys.so", "libax_engine.so"} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(EnvAXCL, lib)
	t.Setenv(EnvEngine, dir)
}

// TestOddNet: a general model's tensors may be of types unknown here, and padded; what the library
// says is how many bytes move.
func TestOddNet(t *testing.T) {
	oddLibraries(t)
	path := write(t, axcltest.Tiny{Seed: 4, Layers: 1, Hidden: 32, Heads: 2, KVHeads: 1, HD: 4, Intermediate: 4, Vocab: 40, ShapeOnly: true,
		Groups: []axmodel.SoftGroup{{Rows: 1, Cells: 12, Cache: 12}}}).Layers[0]
	for _, k := range kinds {
		for odd, size := range map[string]int{"": 26, "size": 27, "type": 26, "zero": 0, "no-name": 0, "many-inputs": 0} {
			t.Run(string(k)+"/"+odd, func(t *testing.T) {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				t.Setenv("ODD", odd)
				d := open(t, k)
				defer closeAll(t, d)
				n, err := d.LoadNet(path)
				if size == 0 {
					if !errors.Is(err, axcl.ErrModel) {
						t.Errorf("%v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				in := map[string][]byte{}
				for _, x := range n.Inputs(0) {
					in[x.Name] = make([]byte, x.Size)
				}
				if len(in["mask"]) != size {
					t.Errorf("mask of %d bytes, not %d", len(in["mask"]), size)
				}
				if err := n.Run(0, in, map[string][]byte{"output": make([]byte, 64)}); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestOnBoardNames: on board a library names the tensors of later groups as the file does, with the
// group's number behind, or plainly, as the vendor's own programs want them. Either is the same
// model.
func TestOnBoardNames(t *testing.T) {
	oddLibraries(t)
	y := axcltest.Tiny{Seed: 4, Layers: 1, Hidden: 32, Heads: 2, KVHeads: 1, HD: 4, Intermediate: 4, Vocab: 40, ShapeOnly: true,
		Groups: []axmodel.SoftGroup{{Rows: 1, Cells: 12, Cache: 12}, {Rows: 1, Cells: 12, Cache: 12}}}
	spec := write(t, y)
	spec.Head = ""
	for _, odd := range []string{"plain", "suffixed"} {
		t.Run(odd, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			t.Setenv("ODD", odd)
			d := open(t, Engine)
			defer closeAll(t, d)
			m, err := axcl.Load(context.Background(), d, spec)
			if err != nil {
				t.Fatal(err)
			}
			p := rowPass(m.Shape(), 2)
			p.Want, p.Logits = nil, nil
			if err := m.Run(p); err != nil {
				t.Error(err)
			}
			n, err := d.LoadNet(spec.Layers[0])
			if err != nil {
				t.Fatal(err)
			}
			for g := range 2 {
				if in, out := n.Inputs(g), n.Outputs(g); in[3].Name != "K_cache" || out[0].Name != "K_cache_out" {
					t.Errorf("group %d has %q and %q", g, in[3].Name, out[0].Name)
				}
			}
		})
	}
}

// TestQuietInit: the library is asked for silence in its first call, where it would speak
// otherwise; a level set before does not help.
func TestQuietInit(t *testing.T) {
	oddLibraries(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	closeAll(t, open(t, AXCL))
}

// TestLadders: models without a decode group, or with too few cells to probe, run; what cannot be
// placed is copied.
func TestLadders(t *testing.T) {
	onCard(t, "", func(t *testing.T, k Kind, _ *simhook.Sim) {
		d := open(t, k)
		defer closeAll(t, d)
		for _, groups := range [][]axmodel.SoftGroup{{{Rows: 4, Cells: 12, Cache: 12}, {Rows: 4, Cells: 0, Cache: 1}},
			{{Rows: 1, Cells: 3, Cache: 3}}} {
			y := axcltest.DefaultTiny()
			y.Groups = groups
			m, err := axcl.Load(context.Background(), d, write(t, y))
			if err != nil {
				t.Fatal(err)
			}
			if m.Shape().Place {
				t.Errorf("%v: rows are placed unprobed", groups)
			}
			for past := range 3 {
				if err := m.Run(rowPass(m.Shape(), past)); err != nil {
					t.Error(err)
				}
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestNaN: a NaN stays one on its way from float32 to bf16, and never becomes a number or an
// infinity.
func TestNaN(t *testing.T) {
	//proves:D6
	onCard(t, "", func(t *testing.T, k Kind, _ *simhook.Sim) {
		d := open(t, k)
		defer closeAll(t, d)
		y := axcltest.DefaultTiny()
		y.HeadFlags = axmodel.FlagF32
		m, err := axcl.Load(context.Background(), d, write(t, y))
		if err != nil {
			t.Fatal(err)
		}
		p := rowPass(m.Shape(), 0)
		p.Hidden[3] = 0x7f81 // a signalling NaN whose payload rounding could carry away
		if err := m.Run(p); err != nil {
			t.Fatal(err)
		}
		for i, v := range p.Logits {
			if !math.IsNaN(float64(axcl.Float32(v))) {
				t.Fatalf("logit %d of a NaN row is %v", i, axcl.Float32(v))
			}
		}
	})
}

// compiler is the C compiler of the machine that the tests run on, which under an emulator is not
// the one they are built on.
func compiler() string { return cmp.Or(os.Getenv("CC"), "gcc") }
