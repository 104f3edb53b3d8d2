package compile_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/models"
)

// A model whose layers have a state compiles to the vendor's names and tensors: models finds which
// layers those are, what they keep, in the type that was asked for, and how many groups they have.
func TestCompileStates(t *testing.T) {
	types := map[string]axcl.Type{"": axcl.FP32, "fp32": axcl.FP32, "fp16": axcl.FP16, "bf16": axcl.BF16}
	states := []string{"", "fp16", "bf16", "fp32"}
	for i, a := range axmodeltest.StateArchs() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			from := t.TempDir()
			if _, err := axmodeltest.WriteCheckpoint(from, a, 1); err != nil {
				t.Fatal(err)
			}
			state, warm := states[i], i%3
			out := filepath.Join(t.TempDir(), "package")
			r, err := compile.Run(context.Background(), compile.Options{From: from, Out: out, Context: 95, Chunk: 16,
				History: []int{0, 16, 64}, State: state, Warm: warm, Quant: "int8"})
			if err != nil {
				t.Fatal(err)
			}
			if note := strings.Contains(strings.Join(r.Notes, " "), "vision part"); note != a.Nested {
				t.Errorf("notes %q", r.Notes)
			}
			p, err := models.Open(out)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if len(p.Layers) != a.Layers || filepath.Base(p.Layers[0]) != "qwen3_5_text_p16_l0_together.axmodel" {
				t.Errorf("layers %v", p.Layers)
			}
			groups := 4
			if warm > 0 {
				groups = 1 + warm
			}
			width := map[axcl.Type]int{axcl.FP32: 4, axcl.FP16: 2, axcl.BF16: 2}[types[state]]
			for l, path := range p.Layers {
				m, err := axmodel.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				s, ok, err := m.Linear()
				if err != nil || ok != a.Linear(l) || (p.Facts[l].Kind == models.LinearAttention) != ok {
					t.Fatalf("layer %d: linear %v, %v; package says %q", l, ok, err, p.Facts[l].Kind)
				}
				if !ok {
					if m.Soft.Flags&axmodel.FlagGate == 0 || m.Soft.Rotary != a.HeadDim/4 {
						t.Errorf("layer %d: header %+v", l, m.Soft.Header)
					}
					continue
				}
				channels := 2*a.KeyHeads*a.KeyDim + a.ValueHeads*a.ValueDim
				if s.K.Type != types[state] || s.V.Type != types[state] || s.K.Size != channels*3*width ||
					s.V.Size != a.ValueHeads*a.KeyDim*a.ValueDim*width || len(s.Rows) != groups {
					t.Errorf("layer %d: %+v", l, s)
				}
				if e, _ := m.Soft.Entry("qkv"); e.Type != axmodel.Int8Groups {
					t.Errorf("layer %d: qkv is %v", l, e.Type)
				}
				if e, _ := m.Soft.Entry("a"); e.Type != axmodel.BF16Fours {
					t.Errorf("layer %d: a is %v", l, e.Type)
				}
			}
		})
	}
}

func TestStateErrors(t *testing.T) {
	good := checkpoint(t, "qwen3_5", nil)
	for name, c := range map[string]struct {
		o    compile.Options
		want string
	}{
		"a state of 8 bits": {compile.Options{From: good, State: "int8"}, "bf16, fp16 and fp32 are possible"},
		"a group too many":  {compile.Options{From: good, Warm: 7}, "0 to 5"},
		"groups below 0":    {compile.Options{From: good, Warm: -1}, "0 to 5"},
		"a layer of no tensor": {compile.Options{From: checkpoint(t, "qwen3", func(a *axmodeltest.Arch) { a.Type = "qwen3_5_text" })},
			"none of 3 layers has full attention"},
	} {
		c.o.Out = filepath.Join(t.TempDir(), "p")
		if _, err := compile.Run(context.Background(), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error that says %q", name, err, c.want)
		}
	}
}
