package soft_test

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
)

// TestHead: hidden rows of a pass go through each kind of head alone to the pass's own bits, more
// of them too than go through it together; after the first call nothing is allocated.
func TestHead(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options compile.Options
		post    *axmodel.Header // in place of the head that was compiled
	}{
		{"bf16", compile.Options{}, nil},
		{"int8", compile.Options{Quant: "int8"}, nil},
		{"int4", compile.Options{Quant: "int4"}, nil},
		{"embedding", compile.Options{Embedding: true}, nil},
		{"capped", compile.Options{}, &axmodel.Header{Scale: 0.5}},
		{"capped, float32", compile.Options{}, &axmodel.Header{Scale: 0.5, Flags: axmodel.FlagF32}},
		{"shape only", compile.Options{}, &axmodel.Header{Flags: axmodel.FlagShapeOnly}},
	} {
		spec, c := compiled(t, "qwen3", tt.options)
		m := load(t, open(t, soft.Options{Threads: 2}), spec)
		if h := tt.post; h != nil {
			s := m.Shape()
			h.Kind, h.Hidden, h.Out, h.Eps, h.Pos, h.Tool = axmodel.Head, s.Hidden, s.Out, 1e-6, 1, "test"
			spec.Head = filepath.Join(t.TempDir(), "post.axmodel")
			if err := axmodel.WriteFile(spec.Head, *h, []axmodel.SoftGroup{{Rows: 1}}, headTensors(*h)); err != nil {
				t.Fatal(err)
			}
			m = load(t, open(t, soft.Options{Threads: 2}), spec)
		}
		s := m.Shape()
		p := rows(s, c, []int{3, 141, 59, 26, 53, 58, 97}, 0, nil, 0)
		if err := m.Run(p); err != nil {
			t.Fatal(err)
		}
		past := func(v uint16) bool { return axcl.Float32(v&0x7fff) > 0.5 }
		if tt.post != nil && tt.post.Scale > 0 && slices.ContainsFunc(p.Logits, past) {
			t.Errorf("%s: logits past the cap", tt.name)
		}
		for _, n := range []int{axcl.HeadRows, 1, 33} {
			var in, want []uint16
			for i := range n {
				r := i * 3 % p.Rows()
				in, want = append(in, p.HiddenOut[r*s.Hidden:][:s.Hidden]...), append(want, p.Logits[r*s.Out:][:s.Out]...)
			}
			got := make([]uint16, len(want))
			if err := m.Head(in, got); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %d rows through the head alone differ from the pass's (%v)", tt.name, n, err)
			}
			if allocs := testing.AllocsPerRun(4, func() { _ = m.Head(in, got) }); allocs > 0 {
				t.Errorf("%s: %v allocations for %d rows", tt.name, allocs, n)
			}
		}
	}
}

// headTensors are a head's norm and weight, of random values.
func headTensors(h axmodel.Header) []axmodel.Tensor {
	if h.Flags&axmodel.FlagShapeOnly != 0 {
		return nil
	}
	rng := rand.New(rand.NewPCG(9, 9))
	norm, weight := make([]float32, h.Hidden), make([]float32, h.Out*h.Hidden)
	for i := range norm {
		norm[i] = float32(0.8 + 0.4*rng.Float64())
	}
	for i := range weight {
		weight[i] = float32(rng.NormFloat64() / 4)
	}
	return []axmodel.Tensor{axmodel.Vector("norm", axmodel.F32, norm), axmodel.Matrix("weight", axmodel.BF16Fours, h.Out, h.Hidden, weight)}
}

// TestHeadOfWhole: the head of a whole decoder in one file is not run alone.
func TestHeadOfWhole(t *testing.T) {
	spec, _ := compiled(t, "qwen3", compile.Options{Whole: "one"})
	spec.Layers, spec.Head = axmodeltest.WholeFiles(filepath.Dir(spec.Layers[0]), "one", 16), ""
	m := load(t, open(t, soft.Options{}), spec)
	s := m.Shape()
	if err := m.Head(make([]uint16, s.Hidden), make([]uint16, s.Out)); !s.Whole || !errors.Is(err, axcl.ErrPass) {
		t.Errorf("whole %t: %v", s.Whole, err)
	}
}
