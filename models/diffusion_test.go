package models_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
	"github.com/axle-llm/axle/vision/diffusion"
)

// TestDiffusion: a model that draws is opened by its tensors, in each packing, and described as
// what it is.
func TestDiffusion(t *testing.T) {
	for i, k := range modelstest.Diffusions() {
		d, dir := openedAs[*models.Diffusion](t, k)
		if d.Width != []int{512, 320, 512}[i] || d.Height != []int{512, 480, 512}[i] || d.Steps != []int{4, 20, 30}[i] ||
			len(d.Rows) != []int{4, 20, 0}[i] || d.Guided != (i > 0) || d.Guidance != []float64{0, 7, 7.5}[i] || d.Brain {
			t.Errorf("%s: %+v", k.Layout, d)
		}
		want := diffusion.Setting{Method: []diffusion.Method{diffusion.LCM, diffusion.DPM, diffusion.Euler}[i]}
		folder := "models"
		if i == 2 {
			want.Spacing, want.Offset, folder = diffusion.Leading, 1, ""
		}
		if d.Setting != want {
			t.Errorf("%s: %+v", k.Layout, d.Setting)
		}
		var names []string
		for _, f := range d.Files() {
			name, err := filepath.Rel(filepath.Join(dir, folder), f.Path)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, filepath.Base(name))
		}
		all := []string{"sd15_text_encoder_sim.axmodel", "unet.axmodel", "vae_decoder.axmodel", "vae_encoder.axmodel"}
		if !slices.Equal(names, all[:[]int{4, 3, 4}[i]]) || (d.Encoder.Path == "") != (i == 1) {
			t.Errorf("%s: nets %q", k.Layout, names)
		}
		if in := d.Denoiser.In; in[0].Name != "sample" || in[2].Name != "encoder_hidden_states" || len(in) != 3 {
			t.Errorf("%s: %v", k.Layout, in)
		}
		about := d.Info()
		if about.Name != "folder" || about.Kind != "Stable Diffusion 1.5" || about.Says != "" ||
			!slices.Equal(about.Capabilities, []string{"image"}) || about.Memory.Card <= 0 || about.Memory.Load < about.Memory.Card ||
			about.Digest == "" ||
			!strings.HasPrefix(about.Groups[0], fmt.Sprintf("pictures of %d×%d pixels, %v", d.Width, d.Height, want.Method)) {
			t.Errorf("%s: %+v", k.Layout, about)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if _, err := models.Open(dir); err == nil || !strings.Contains(err.Error(), "(image generation): it is no language model") {
			t.Errorf("as a language model: %v", err)
		}
	}
}

// TestDiffusionSizes: of several sizes the name chooses one.
func TestDiffusionSizes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "folder")
	if err := modelstest.Diffusions()[0].Write(dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]int{
		"lcm": {512, 512}, "lcm-512x512": {512, 512}, "lcm-768x1024": {768, 1024}, "lcm-64x64": {512, 512},
	} {
		o, err := models.OpenAnyAs(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		d := o.(*models.Diffusion)
		other := map[int]string{512: "768×1024 pixels too, under a name that ends in -768x1024",
			768: "512×512 pixels too, under a name that ends in -512x512"}
		if d.Width != want[0] || d.Height != want[1] || d.Name != name || d.Info().Groups[1] != other[d.Width] ||
			(d.Encoder.Path == "") != (d.Width == 768) ||
			slices.ContainsFunc(d.Files(), func(f models.NetFile) bool {
				return strings.Contains(f.Path, "1024x768") != (d.Width == 768)
			}) {
			t.Errorf("%s: %d×%d, %q, %+v", name, d.Width, d.Height, d.Info().Groups, d.Files())
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestDiffusionFiles: what is wrong is said, with the file.
func TestDiffusionFiles(t *testing.T) {
	all := modelstest.Diffusions()
	one := all[0]
	one.Files = maps.Clone(one.Files)
	maps.DeleteFunc(one.Files, func(name string, _ []byte) bool { return strings.HasPrefix(name, "models_") })
	known := maps.Clone(one.Files)
	const rows = "models/time_input_txt2img.npy"
	const states = "encoder_hidden_states f32 1,77,768"
	unet := func(in, out string) func(f map[string][]byte) {
		return func(f map[string][]byte) { f["models/unet.axmodel"] = modelstest.Net(in, out) }
	}
	for name, tt := range map[string]struct {
		change func(files map[string][]byte)
		want   string
	}{
		"no decoder": {func(f map[string][]byte) { delete(f, "models/vae_decoder.axmodel") },
			"none of its nets is the decoder of latents for pictures of 512×512"},
		"a decoder of another size": {func(f map[string][]byte) {
			f["models/vae_decoder.axmodel"] = modelstest.Net("x f32 1,4,32,32", "image f32 1,3,256,256")
		}, "none of its nets is the decoder of latents for pictures of 512×512"},
		"two decoders": {func(f map[string][]byte) { f["models/vae_other.axmodel"] = f["models/vae_decoder.axmodel"] },
			"is of the same use as"},
		"two denoisers": {func(f map[string][]byte) { f["models_b/unet.axmodel"] = f["models/unet.axmodel"] }, "is of the same use as"},
		"no encoder of prompts": {func(f map[string][]byte) { delete(f, "models/text_encoder/sd15_text_encoder_sim.axmodel") },
			"none of its nets is the encoder of prompts"},
		"another input":    {unet("sample f32 1,4,64,64; t f32 1,1280; more f32 1,4; "+states, "noise f32 1,4,64,64"), "has 4 inputs"},
		"no noise":         {unet("sample f32 1,4,64,64; t f32 1,1280; "+states, "noise f32 1,8,64,64"), "[1 4 64 64] is expected"},
		"no time":          {unet("sample f32 1,4,64,64; t i32 1,2; "+states, "noise f32 1,4,64,64"), "a timestep or its embedding"},
		"a huge size":      {unet("sample f32 1,4,512,64; t f32 1,1280; "+states, "noise f32 1,4,512,64"), "up to 2048×2048"},
		"bytes":            {unet("sample u8 1,4,64,64; t f32 1,1280; "+states, "noise f32 1,4,64,64"), "two or four each"},
		"no times":         {func(f map[string][]byte) { delete(f, rows) }, "time_input_txt2img.npy: missing"},
		"cut times":        {func(f map[string][]byte) { f[rows] = f[rows][:400] }, "take 20480 bytes"},
		"other times":      {func(f map[string][]byte) { f[rows] = bent(f[rows], "(4, 1280,)", "(5, 1024,)") }, "rows of 1280 of <f4"},
		"times as doubles": {func(f map[string][]byte) { f[rows] = bent(f[rows][:128+4*5120], "<f4", "<i4") }, "rows of 1280 of <f4"},
		"a NaN": {func(f map[string][]byte) {
			f[rows] = slices.Clone(f[rows])
			binary.LittleEndian.PutUint32(f[rows][128:], math.Float32bits(float32(math.NaN())))
		}, "row 0 holds a NaN"},
		"a pointer": {func(f map[string][]byte) {
			f[rows] = []byte("version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 20608\n")
		}, "Git LFS pointer"},
		"no tokenizer": {func(f map[string][]byte) { delete(f, "models/tokenizer/vocab.json") }, "vocab.json: missing"},
		"no merges":    {func(f map[string][]byte) { delete(f, "models/tokenizer/merges.txt") }, "merges.txt"},
		"another tokenizer": {func(f map[string][]byte) { f["models/tokenizer/vocab.json"] = []byte(`{"a": 1}`) },
			"which is not CLIP's"},
	} {
		refused(t, name, one, tt.change, tt.want)
	}
	for name, config := range map[string]string{`prediction_type is v_prediction`: `{"prediction_type": "v_prediction"}`,
		`beta_schedule is linear`: `{"beta_schedule": "linear"}`, `beta_end is 0.02`: `{"beta_end": 0.02}`,
		`timestep_spacing is wide`: `{"timestep_spacing": "wide"}`, `steps_offset`: `{"steps_offset": 99}`, `not a JSON object`: `[`} {
		refused(t, name, all[2], func(f map[string][]byte) { f["scheduler/scheduler_config.json"] = []byte(config) }, name)
	}
	refused(t, "one row of DPM++", all[1], func(f map[string][]byte) {
		const at = "models/time_input_dpmpp_20steps.npy"
		f[at] = bent(f[at][:128+4*1280], "(20, 1280,)", "(1, 1280,) ")
	}, "DPM++ takes 2 to 1000")
	// The vendor's smaller chip.
	refused(t, "another chip", one, func(f map[string][]byte) {
		for name, b := range one.Files {
			delete(f, name)
			f["ax620e_"+name] = b
		}
	}, "is built for the AX620E", "take the package's build for the AX650")
	refused(t, "another chip's size", one, func(f map[string][]byte) {
		clear(f)
		f["models_320x320/unet.axmodel"] = modelstest.Net("sample f32 1,4,40,40; t f32 1,1280; "+states, "noise f32 1,4,40,40")
	}, "is built for the AX620E")
	// The one package whose rows are known.
	if o, err := models.OpenAnyFS(mapFS(known), "."); err != nil {
		t.Errorf("rows of another package: %v", err)
	} else {
		o.Close()
	}
	if o, err := models.OpenAs(mapFS(known), "axera-tech/lcm-lora-sdv1-5"); err == nil ||
		!strings.Contains(err.Error(), "row 0 sums up to 0.00000, that of lcm-lora-sdv1-5 to 19.93497") {
		t.Errorf("rows of other weights: %v, %v", o, err)
	}
	known[rows] = slices.Clone(known[rows])
	binary.LittleEndian.PutUint32(known[rows][128:], math.Float32bits(19.93497))
	if _, err := models.OpenAs(mapFS(known), "axera-tech/lcm-lora-sdv1-5"); err == nil ||
		!strings.Contains(err.Error(), "row 3 sums up to 0") {
		t.Errorf("another last row: %v", err)
	}
	// A net beside the configuration is nearer to the denoiser's folder than one of another folder.
	near := one
	near.Files = maps.Clone(one.Files)
	const text = "models/text_encoder/sd15_text_encoder_sim.axmodel"
	near.Files["text.axmodel"], near.Files["other/text.axmodel"] = near.Files[text], near.Files[text]
	delete(near.Files, text)
	if d, dir := openedAs[*models.Diffusion](t, near); d.Text.Path != filepath.Join(dir, "text.axmodel") {
		t.Errorf("the nearest net: %s", d.Text.Path)
	}
	// Half floats, by their bytes, and bfloat16 where the text encoder says so.
	half := func(typ string, config string) *models.Diffusion {
		k := all[2]
		k.Files = maps.Clone(k.Files)
		k.Files["sd15_text_encoder_sim.axmodel"] = modelstest.Net("input_ids i32 1,77", "last_hidden_state "+typ+" 1,77,768")
		if config != "" {
			k.Files["text_encoder/config.json"] = []byte(config)
		}
		d, _ := openedAs[*models.Diffusion](t, k)
		return d
	}
	if d := half("bf16", ""); !d.Brain {
		t.Error("bf16 by its type")
	}
	if d := half("f32", `{"torch_dtype": "bfloat16"}`); !d.Brain {
		t.Error("bf16 by its configuration")
	}
	if d := half("bf16", `{"torch_dtype": "float16"}`); d.Brain {
		t.Error("half floats by their configuration")
	}
}

// bent has other text in its header, as long.
func bent(b []byte, old, new string) []byte {
	return []byte(strings.Replace(string(b), old, new, 1))
}
