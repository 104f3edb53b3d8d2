//go:build cgo && !fake && linux

package native

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/native/simhook"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	hf "github.com/axle-llm/axle/axmodel/compile"
)

// TestWhole fails every call of a whole decoder's life, once and for good: each fault comes back
// with the call's own name and code, and nothing is left on the card.
func TestWhole(t *testing.T) {
	//proves:G1
	for i, k := range kinds {
		t.Run(string(k), func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			sim := sims[k]
			defer func() {
				if err := sim.Reset(); err != nil {
					t.Error(err)
				}
				revive(k)
			}()
			spec := wholeModel(t, []string{"one", "two"}[i])
			trace := filepath.Join(t.TempDir(), "trace")
			configure(t, sim, "trace="+trace)
			want, err := wholeLife(k, spec)
			if err != nil {
				t.Fatal(err)
			}
			configure(t, sim, "")
			b, err := os.ReadFile(trace)
			if err != nil {
				t.Fatal(err)
			}
			var calls []string
			for _, line := range strings.Split(string(b), "\n") {
				if f := strings.SplitN(line, " ", 4); len(f) == 4 && !strings.HasPrefix(line, "#") && strings.Contains(f[3], "(") {
					name, _, _ := strings.Cut(f[3], "(")
					calls = append(calls, name)
				}
			}
			if len(calls) < 60 {
				t.Fatalf("only %d calls in a life", len(calls))
			}
			for i, c := range calls {
				how := []string{"", ":sticky"}[i%2]
				code := sweepCodes[(i+i/len(sweepCodes))%len(sweepCodes)]
				configure(t, sim, fmt.Sprintf("fault=*:%d:0x%08x%s", i, code, how))
				_, err := wholeLife(k, spec)
				if why := judge(k, sim, traced{c, anyLayer}, i, code, how != "", len(spec.Layers), err); why != "" {
					t.Errorf("call %d, %s, code 0x%08x%s: %s; the error: %v", i, c, code, how, why, err)
				}
				if axcl.Fatal(err) {
					if e := sim.Reset(); e != nil {
						t.Fatal(e)
					}
					revive(k)
				}
			}
			configure(t, sim, "")
			if got, err := wholeLife(k, spec); err != nil || !slices.Equal(got, want) {
				t.Errorf("after all faults the logits are others, or %v", err)
			}
		})
	}
}

// wholeModel compiles a whole decoder of two layers, 31 cells and 4 rows a prefill call.
func wholeModel(t testing.TB, whole string) axcl.LoadSpec {
	t.Helper()
	a, _ := axmodeltest.Find("qwen3")
	a.Layers = 2
	dir := t.TempDir()
	if _, err := axmodeltest.WriteCheckpoint(dir, a, 1); err != nil {
		t.Fatal(err)
	}
	o := hf.Options{From: dir, Out: filepath.Join(dir, "package"), Context: 31, Chunk: 4, Whole: whole, Float32: whole == "two"}
	if _, err := hf.Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	return axcl.LoadSpec{Layers: axmodeltest.WholeFiles(o.Out, whole, o.Chunk)}
}

// wholeLife is a device from open to close with a whole decoder: a load, a prompt, a token, copied
// rows, and cells that are cleared. It gives what the logits were.
func wholeLife(k Kind, spec axcl.LoadSpec) (logits []uint16, err error) {
	d, err := Open(k, 0)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := d.Close(); err == nil {
			err = e
		}
	}()
	m, err := axcl.Load(context.Background(), d, spec)
	if err != nil {
		return nil, err
	}
	s := m.Shape()
	wide := widePass(s, 3, 1, 2)
	wide.Argmax, wide.Timing = make([]int32, 2), &axcl.Timing{}
	if err := m.Run(wide); err != nil {
		return nil, err
	}
	if wide.Timing.Calls < 4*s.Layers {
		return nil, fmt.Errorf("a prompt took %d calls", wide.Timing.Calls)
	}
	one := rowPass(s, 3)
	if err := m.Run(one); err != nil {
		return nil, err
	}
	if err := m.Clear([]uint32{2, 3}); err != nil {
		return nil, err
	}
	return append(wide.Logits, one.Logits...), copyRows(m)
}

// A whole decoder of one layer in two files has more files than layers; what none of its calls
// gives is refused before the card is asked.
func TestWholeShape(t *testing.T) {
	a, _ := axmodeltest.Find("qwen3")
	a.Layers = 1
	dir := t.TempDir()
	if _, err := axmodeltest.WriteCheckpoint(dir, a, 1); err != nil {
		t.Fatal(err)
	}
	o := hf.Options{From: dir, Out: filepath.Join(dir, "package"), Context: 31, Chunk: 4, Whole: "two"}
	if _, err := hf.Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
		d := open(t, k)
		defer closeAll(t, d)
		m, err := axcl.Load(context.Background(), d, axcl.LoadSpec{Layers: axmodeltest.WholeFiles(o.Out, o.Whole, o.Chunk)})
		if err != nil {
			t.Fatal(err)
		}
		s := m.Shape()
		if !s.Whole || s.Layers != 1 || s.Place || s.Argmax || s.Cells != 31 || len(s.Groups) != 2 || s.Out == 0 {
			t.Errorf("%+v", s)
		}
		p := widePass(s, 3)
		p.HiddenOut = make([]uint16, len(p.Hidden))
		calls := sim.Calls("")
		if err := m.Run(p); !errors.Is(err, axcl.ErrPass) || !strings.Contains(err.Error(), "whole decoder") {
			t.Error(err)
		}
		err = m.Head(p.Hidden, make([]uint16, 3*s.Out))
		if !errors.Is(err, axcl.ErrPass) || !strings.Contains(err.Error(), "whole decoder") {
			t.Error(err)
		}
		if n := sim.Calls("") - calls; n > 0 {
			t.Errorf("%d calls for passes that cannot be", n)
		}
	})
}

// Packages of a whole decoder that cannot be run are refused with one error each that names the
// file, and no call into the library.
func TestWholeHostile(t *testing.T) {
	//proves:T1
	spec, other := wholeModel(t, "two"), wholeModel(t, "one")
	layer := write(t, axcltest.DefaultTiny())
	vendor := func(change func(g *axmodeltest.ONNXGroup)) axcl.LoadSpec {
		o := axmodeltest.VendorDecoder(32, 3, 16, 63, 100, false, 1)
		change(&o.Groups[0])
		path := filepath.Join(t.TempDir(), "model.axmodel")
		if err := os.WriteFile(path, o.Marshal(), 0o644); err != nil {
			t.Fatal(err)
		}
		return axcl.LoadSpec{Layers: []string{path}}
	}
	cut := func(n int) axcl.LoadSpec {
		b, err := os.ReadFile(other.Layers[0])
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "model.axmodel")
		if err := os.WriteFile(path, b[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		return axcl.LoadSpec{Layers: []string{path}}
	}
	nothing := func(*axmodeltest.ONNXGroup) {}
	wholeCaches := func(g *axmodeltest.ONNXGroup) { g.Outputs[1].Shape[2], g.Outputs[2].Shape[2] = 63, 63 }
	another := func(g *axmodeltest.ONNXGroup) {
		g.Inputs = append(g.Inputs, axcl.Tensor{Name: "x", Type: axcl.BF16, Shape: []int{1, 1}})
	}
	for name, c := range map[string]struct {
		spec axcl.LoadSpec
		want string
	}{
		"a second head":       {axcl.LoadSpec{Layers: spec.Layers, Head: layer.Head}, "has its own"},
		"local layers":        {axcl.LoadSpec{Layers: spec.Layers, Local: []bool{true, false}}, "local"},
		"prompts alone":       {axcl.LoadSpec{Layers: spec.Layers[1:]}, "prefill.axmodel: a whole decoder that axle cannot run: no group"},
		"then a layer":        {axcl.LoadSpec{Layers: []string{spec.Layers[0], layer.Layers[0]}}, "is not a whole decoder"},
		"after a layer":       {axcl.LoadSpec{Layers: []string{layer.Layers[0], spec.Layers[0]}}, "decode.axmodel: is not a decoder layer"},
		"of another model":    {axcl.LoadSpec{Layers: []string{spec.Layers[0], vendor(nothing).Layers[0]}}, "the other file has"},
		"without a mask":      {vendor(func(g *axmodeltest.ONNXGroup) { g.Inputs = g.Inputs[:4] }), "no positions or no mask"},
		"a mask too short":    {vendor(func(g *axmodeltest.ONNXGroup) { g.Inputs[4].Shape = []int{1, 1, 63} }), `mask "mask"`},
		"caches come whole":   {vendor(wholeCaches), "not which of their rows are new"},
		"rows in fp32":        {vendor(func(g *axmodeltest.ONNXGroup) { g.Inputs[0].Type = axcl.FP32 }), "takes rows of fp32"},
		"logits in fp16":      {vendor(func(g *axmodeltest.ONNXGroup) { g.Outputs[0].Type = axcl.FP16 }), "gives logits in fp16"},
		"one input too many":  {vendor(another), "6 inputs"},
		"cut short":           {cut(400), "cut short"},
		"positions of floats": {vendor(func(g *axmodeltest.ONNXGroup) { g.Inputs[3].Type = axcl.FP32 }), `positions "indices"`},
	} {
		onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
			d := open(t, k)
			defer closeAll(t, d)
			calls := sim.Calls("")
			m, err := axcl.Load(context.Background(), d, c.spec)
			if !errors.Is(err, axcl.ErrModel) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, %v; want %q", name, m, err, c.want)
			}
			if n := sim.Calls("") - calls; n > 0 {
				t.Errorf("%s: %d calls into the library", name, n)
			}
		})
	}
}
