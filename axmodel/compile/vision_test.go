package compile_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/vision"
)

// A model that sees compiles to the vendor's names, keys and tensors: models finds the encoder, how
// a picture is written to it, its rows and those that are added after layers.
func TestCompileVision(t *testing.T) {
	for _, c := range []struct {
		arch                     string
		input, output            axcl.Tensor
		layout                   vision.Kind
		family, tokens           string
		deep, rows, across, down int
	}{
		{"qwen3_vl", axcl.Tensor{Name: "hidden_states", Shape: []int{1, 24, 32, 3}}, axcl.Tensor{Name: "hidden_states_out",
			Shape: []int{6, 64}}, vision.Qwen, "Qwen3VL", "Qwen3VL", 2, 6, 3, 2},
		{"qwen3_5_vl", axcl.Tensor{Name: "hidden_states", Shape: []int{1, 24, 32, 3}}, axcl.Tensor{Name: "hidden_states_out",
			Shape: []int{6, 64}}, vision.Qwen, "Qwen3VL", "Qwen3_5VL", 0, 6, 3, 2},
		{"smolvlm2", axcl.Tensor{Name: "pixel_values", Shape: []int{1, 24, 24, 3}}, axcl.Tensor{Name: "output", Shape: []int{1, 9, 64}},
			vision.Rows, "SmolVLM2", "SmolVLM2", 0, 5 * 9, 0, 0},
	} {
		t.Run(c.arch, func(t *testing.T) {
			a := sightArch(c.arch)
			from := t.TempDir()
			k, err := axmodeltest.WriteCheckpoint(from, a, 1)
			if err != nil {
				t.Fatal(err)
			}
			o := compile.Options{From: from, Out: filepath.Join(t.TempDir(), "package"), Context: 95, Chunk: 16, History: []int{0, 64},
				Quant: "int8"}
			if a.Sight.Qwen {
				o.Width, o.Height = k.PictureSize()
			}
			if _, err := compile.Run(context.Background(), o); err != nil {
				t.Fatal(err)
			}
			p, err := models.Open(o.Out)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			v, err := p.Vision()
			if err != nil || v == nil {
				t.Fatalf("%v, %v", v, err)
			}
			if v.Input.Name != c.input.Name || !slices.Equal(v.Input.Shape, c.input.Shape) || v.Input.Type != axcl.Uint8 {
				t.Errorf("input %+v", v.Input)
			}
			if v.Output.Name != c.output.Name || !slices.Equal(v.Output.Shape, c.output.Shape) || v.Output.Type != axcl.FP32 {
				t.Errorf("output %+v", v.Output)
			}
			for i, d := range v.Deep {
				if want := "deepstack_feature_" + string(rune('0'+i)); d.Name != want {
					t.Errorf("output %q, want %q", d.Name, want)
				}
			}
			if v.Layout.Kind != c.layout || v.Family != c.family || p.TokenizerType != c.tokens || len(v.Deep) != c.deep ||
				v.Rows != c.rows || v.Across != c.across || v.Down != c.down || v.MRope != (c.across > 0) {
				t.Errorf("%+v, tokenizer %s", v, p.TokenizerType)
			}
			if !strings.HasSuffix(v.File, "_vision.axmodel") {
				t.Errorf("file %s", v.File)
			}
			m, err := axmodel.ReadFile(filepath.Join(o.Out, v.File))
			if err != nil {
				t.Fatal(err)
			}
			if e, _ := m.Soft.Entry("qkv"); e.Type != axmodel.BF16 {
				t.Errorf("the encoder's qkv is %v", e.Type)
			}
			for i, path := range p.Layers {
				// A layer with a state sees no positions.
				if l, err := axmodel.ReadFile(path); err != nil || l.Soft.Pos != map[bool]int{true: 3, false: 1}[v.MRope && !a.Linear(i)] {
					t.Errorf("layer %d has %d position rows, %v", i, l.Soft.Pos, err)
				}
			}
		})
	}
}

// The text alone of a model that sees is a package that takes text: where that is asked for, where
// the checkpoint has no tower, and where its configuration does not describe the one that it has.
func TestCompileTextOnly(t *testing.T) {
	for _, c := range []struct {
		name, arch string
		o          compile.Options
		edit       func(c map[string]any)
		pos        int
		note       string
	}{
		{"Qwen3-VL", "qwen3_vl", compile.Options{TextOnly: true}, nil, 3, ""},
		{"Qwen3.5", "qwen3_5_vl", compile.Options{TextOnly: true}, nil, 1, ""},
		{"not described", "qwen3_5_vl", compile.Options{}, func(c map[string]any) { delete(c, "vision_config") }, 1,
			"has no vision_config"},
		{"described and not there", "qwen3_5-text", compile.Options{}, func(c map[string]any) {
			c["text_config"], c["model_type"] = maps.Clone(c), "qwen3_5"
			c["vision_config"] = map[string]any{"hidden_size": 32, "num_heads": 2, "out_hidden_size": 64}
		}, 1, "has no vision part"},
	} {
		t.Run(c.name, func(t *testing.T) {
			from := t.TempDir()
			a, _ := axmodeltest.Find(c.arch)
			if _, err := axmodeltest.WriteCheckpoint(from, a, 1); err != nil {
				t.Fatal(err)
			}
			if c.edit != nil {
				edited(t, from, c.edit)
			}
			c.o.From, c.o.Out, c.o.Context, c.o.Chunk = from, filepath.Join(t.TempDir(), "p"), 95, 16
			r, err := compile.Run(context.Background(), c.o)
			if err != nil {
				t.Fatal(err)
			}
			if notes := strings.Join(r.Notes, " "); c.note == "" && notes != "" || !strings.Contains(notes, c.note) {
				t.Errorf("notes %q, want %q", notes, c.note)
			}
			p, err := models.Open(c.o.Out)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if v, err := p.Vision(); v != nil || err != nil || p.Shape.Pos != c.pos {
				t.Errorf("%v, %v, %d positions", v, err, p.Shape.Pos)
			}
		})
	}
}

// edited changes a checkpoint's config.json.
func edited(t *testing.T, dir string, edit func(c map[string]any)) {
	t.Helper()
	path := filepath.Join(dir, "config.json")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	edit(all)
	if b, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// What cannot be compiled of a model that sees is refused in words that name it, before anything is
// written.
func TestVisionErrors(t *testing.T) {
	type config = map[string]any
	dirs, configs := map[string]string{}, map[string][]byte{}
	for _, a := range axmodeltest.SightArchs() {
		dirs[a.Name] = t.TempDir()
		if _, err := axmodeltest.WriteCheckpoint(dirs[a.Name], a, 1); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(dirs[a.Name], "config.json"))
		if err != nil {
			t.Fatal(err)
		}
		configs[a.Name] = b
	}
	set := func(key string, v any) func(_, sight config) {
		return func(_, sight config) { sight[key] = v }
	}
	nothing := func(_, _ config) {}
	rope := func(section []int) func(c, _ config) {
		return func(c, _ config) {
			c["text_config"].(config)["rope_scaling"] = config{"rope_type": "default", "mrope_section": section}
		}
	}
	size := func(w, h int) compile.Options { return compile.Options{Width: w, Height: h} }
	for name, c := range map[string]struct {
		arch string
		edit func(c, sight config)
		o    compile.Options
		want string
	}{
		"no vision_config":       {"qwen3_vl", func(c, _ config) { delete(c, "vision_config") }, size(24, 16), "without a vision_config"},
		"words for numbers":      {"qwen3_vl", set("depth", "three"), size(24, 16), "vision_config"},
		"blocks without end":     {"qwen3_vl", set("depth", 1<<30), size(24, 16), "depth is 1073741824"},
		"an odd width":           {"qwen3_vl", set("hidden_size", 30), size(24, 16), "2 heads cannot share a width of 30"},
		"another activation":     {"qwen3_vl", set("hidden_act", "relu"), size(24, 16), `"relu" cannot be compiled`},
		"rows of another length": {"qwen3_vl", set("out_hidden_size", 32), size(24, 16), "the text model's rows have 64"},
		"positions of no square": {"qwen3_vl", set("num_position_embeddings", 24), size(24, 16), "make no square"},
		"three frames":           {"qwen3_vl", set("temporal_patch_size", 3), size(24, 16), "temporal_patch_size is 3"},
		"after a block too far":  {"qwen3_vl", set("deepstack_visual_indexes", []int{0, 3}), size(24, 16), "must ascend within 3"},
		"more rows than layers":  {"qwen3_vl", set("deepstack_visual_indexes", []int{0, 1, 2, 2}), size(24, 16), "after 4 layers"},
		"a tensor of another shape": {"qwen3_vl", set("intermediate_size", 40), size(24, 16),
			"config.json asks for [40 32]"},
		"a tensor too few":         {"qwen3_vl", set("depth", 4), size(24, 16), `no tensor "model.visual.blocks.3.norm1.weight"`},
		"half a block of patches":  {"qwen3_vl", nothing, size(20, 16), "must be multiples of 8"},
		"one side":                 {"qwen3_vl", nothing, size(16, 0), "must be multiples of 8"},
		"a picture without end":    {"qwen3_vl", nothing, size(1<<20, 8), "must be multiples of 8"},
		"rows to add, with states": {"qwen3_5_vl", set("deepstack_visual_indexes", []int{0}), size(24, 16), "that adds rows"},
		"sections beside states": {"qwen3_5_vl", func(c, _ config) {
			c["text_config"].(config)["rope_parameters"].(config)["mrope_section"] = []int{2, 1, 1}
		}, size(24, 16), "does not share out 8 frequencies"},
		"sections":               {"qwen3_vl", rope([]int{4, 2, 1}), size(24, 16), "does not share out 8 frequencies"},
		"two sections":           {"qwen3_vl", rope([]int{4, 4}), size(24, 16), "does not share out 8 frequencies"},
		"a size that it has not": {"smolvlm2", nothing, size(32, 32), "this model takes 24×24"},
		"a factor too large":     {"smolvlm2", func(c, _ config) { c["scale_factor"] = 9 }, size(0, 0), "is 9, 1 to 8 are possible"},
	} {
		dir := dirs[c.arch]
		var all config
		if err := json.Unmarshal(configs[c.arch], &all); err != nil {
			t.Fatal(err)
		}
		c.edit(all, all["vision_config"].(config))
		b, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "config.json"), b, 0o644); err != nil {
			t.Fatal(err)
		}
		c.o.From, c.o.Out, c.o.Context = dir, filepath.Join(t.TempDir(), "p"), 95
		_, err = compile.Run(context.Background(), c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error that says %q", name, err, c.want)
		}
		if _, err := os.Stat(c.o.Out); err == nil {
			t.Errorf("%s: something was written", name)
		}
	}
}

func sightArch(name string) axmodeltest.Arch {
	a, _ := axmodeltest.Find(name)
	sight := *a.Sight
	a.Sight = &sight
	return a
}
