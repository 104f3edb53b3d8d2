package compile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/models"
)

// A package of Gemma-4 is read again as what was compiled; what of the checkpoint is no text is
// left out, and said.
func TestGemma4(t *testing.T) {
	from, out := t.TempDir(), filepath.Join(t.TempDir(), "package")
	a := axmodeltest.Gemma4Archs()[0]
	ck, err := axmodeltest.WriteCheckpoint(from, a, 1)
	if err != nil {
		t.Fatal(err)
	}
	r, err := compile.Run(context.Background(), compile.Options{From: from, Out: out, Context: 95, Chunk: 16, Quant: "int8"})
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"vision", "audio"} {
		if !strings.Contains(strings.Join(r.Notes, "\n"), "the checkpoint's "+part+" part is left out") {
			t.Errorf("of the %s part is said: %q", part, r.Notes)
		}
	}
	p, err := models.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if p.Family != "gemma4" || p.Shape.LayerInputs != 32 || p.PerLayer == nil || p.Embed.Scale != 8 {
		t.Errorf("family %s, %+v, scale %v", p.Family, p.Shape, p.Embed.Scale)
	}
	for i, src := range a.Sources() {
		if f := p.Facts[i]; f.Shares != (src != i) || f.Shares && f.Source != src || f.Window != map[bool]int{true: 512}[a.Local(i)] {
			t.Errorf("layer %d: %+v, source %d", i, f, src)
		}
	}
	embed, row := make([]uint16, a.Hidden), make([]uint16, a.Layers*a.Gemma4.Width)
	for _, id := range []int{0, 7, axmodeltest.Vocab - 1} {
		if err := p.Embed.Row(embed, int32(id)); err != nil {
			t.Fatal(err)
		}
		if err := p.PerLayer.Row(row, int32(id), embed); err != nil {
			t.Fatal(err)
		}
		if c := cosine(row, ck.LayerInputs(id)); c < 0.9999 {
			t.Errorf("the layer inputs of token %d agree with the formula to %v", id, c)
		}
	}
}

// num_global_key_value_heads counts only together with attention_k_eq_v: without it the number says
// nothing.
func TestGlobalHeads(t *testing.T) {
	from := t.TempDir()
	if _, err := axmodeltest.WriteCheckpoint(from, axmodeltest.Gemma4Archs()[0], 1); err != nil {
		t.Fatal(err)
	}
	var packages []string
	for _, heads := range []int{0, 1, 3} {
		path := filepath.Join(from, "config.json")
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var config map[string]any
		if err := json.Unmarshal(b, &config); err != nil {
			t.Fatal(err)
		}
		text, ok := config["text_config"].(map[string]any)
		if !ok {
			text = config
		}
		text["num_global_key_value_heads"] = heads
		if b, err = json.Marshal(config); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		o := compile.Options{From: from, Out: filepath.Join(t.TempDir(), "package"), Context: 63, Chunk: 16, Name: "m"}
		if _, err := compile.Run(context.Background(), o); err != nil {
			t.Fatalf("%d: %v", heads, err)
		}
		packages = append(packages, o.Out)
	}
	layers, err := filepath.Glob(filepath.Join(packages[0], "*_l*.axmodel"))
	if err != nil || len(layers) == 0 {
		t.Fatal(layers, err)
	}
	for _, layer := range layers {
		want, err := os.ReadFile(layer)
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range packages[1:] {
			if got, err := os.ReadFile(filepath.Join(other, filepath.Base(layer))); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s is another with %s: %v", filepath.Base(layer), other, err)
			}
		}
	}
}

// A checkpoint whose configuration does not add up, or names what is not computed, is refused
// before anything is written.
func TestGemma4Refused(t *testing.T) {
	for name, c := range map[string]struct {
		change map[string]any
		want   string
	}{
		"experts":             {map[string]any{"enable_moe_block": true}, "take E2B or E4B"},
		"no values":           {map[string]any{"attention_k_eq_v": true}, "take E2B or E4B"},
		"no layer inputs":     {map[string]any{"hidden_size_per_layer_input": 0}, "hidden_size_per_layer_input is 0"},
		"a width of others":   {map[string]any{"hidden_size_per_layer_input": 16}, `"model.language_model.layers.0.per_layer_input_gate.weight"`},
		"a table too small":   {map[string]any{"vocab_size_per_layer_input": 100}, "every token must have a row"},
		"all share":           {map[string]any{"num_kv_shared_layers": 6}, "num_kv_shared_layers is 6 of 6"},
		"nothing to share":    {map[string]any{"num_kv_shared_layers": 4}, "layer 2 uses the K and V of an earlier full_attention layer"},
		"a head of no length": {map[string]any{"global_head_dim": -2}, "global_head_dim is -2"},
		"a cap below nothing": {map[string]any{"final_logit_softcapping": -30}, "final_logit_softcapping is -30"},
		"heads do not share":  {map[string]any{"num_key_value_heads": 3}, "cannot share"},
		"turned backwards": {map[string]any{"rope_parameters": map[string]any{"full_attention": map[string]any{"rope_type": "proportional",
			"partial_rotary_factor": -1}}}, "partial_rotary_factor"},
	} {
		from := t.TempDir()
		if _, err := axmodeltest.WriteCheckpoint(from, axmodeltest.Gemma4Archs()[0], 1); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(from, "config.json")
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var config map[string]any
		if err := json.Unmarshal(b, &config); err != nil {
			t.Fatal(err)
		}
		for k, v := range c.change {
			config["text_config"].(map[string]any)[k] = v
		}
		if b, err = json.Marshal(config); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "package")
		_, err = compile.Run(context.Background(), compile.Options{From: from, Out: out})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s: something was written", name)
		}
	}
}

func cosine(got []uint16, want []float64) float64 {
	var dot, a, b float64
	for i, w := range want {
		g := float64(axcl.Float32(got[i]))
		dot, a, b = dot+g*w, a+g*g, b+w*w
	}
	return dot / math.Sqrt(a*b)
}
