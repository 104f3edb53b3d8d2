package models_test

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestQwenASR: the package is opened by its tensors or by what its configuration says, as a
// recogniser that has a language model, and described as what it is.
func TestQwenASR(t *testing.T) {
	for _, k := range modelstest.Hearers() {
		q, dir := openedAs[*models.QwenASR](t, k)
		h, err := q.Text.Hearing()
		if err != nil {
			t.Fatal(err)
		}
		mask := map[string]axcl.Type{"f32": axcl.FP32, "i32": axcl.Int32}[k.Layout]
		if h.Rows != 390 || h.Mask.Type != mask || h.Placeholder != 261 || h.Text != 262 ||
			h.Front.Path != filepath.Join(dir, "conv_frontend.axmodel") || h.Encoder.Path != filepath.Join(dir, "encoder.axmodel") ||
			h.Between.From.Name != "conv_output" || h.Between.To.Name != "input_features" {
			t.Errorf("%s: %+v", k.Layout, h)
		}
		s := q.Text.Shape
		if s.Pos != 3 || s.Groups[0].Pos != 1 || s.Cells != 2047 || len(q.Text.Layers) != 2 || q.Text.Vocab != 320 ||
			q.Text.Family != "qwen3" {
			t.Errorf("%s: %+v, %d layers, %d tokens, %s", k.Layout, s, len(q.Text.Layers), q.Text.Vocab, q.Text.Family)
		}
		about := q.Info()
		if about.Name != "folder" || about.Kind != "Qwen3-ASR" || about.Says != "" ||
			!slices.Equal(about.Capabilities, []string{"audio"}) ||
			len(about.Languages) != 30 || !slices.Contains(about.Languages, "yue") || about.Vocab != 320 || about.Prefill != 448 ||
			about.Heads != 16 || about.FeedForward != 3072 || about.Memory.Encoder <= 0 ||
			about.Memory.Card <= about.Memory.Encoder+about.Memory.Layers || about.Memory.Load <= about.Memory.Card ||
			about.Digest != q.Text.Digest() || !strings.Contains(about.Encoder, "conv_frontend.axmodel and encoder.axmodel") {
			t.Errorf("%s: %+v", k.Layout, about)
		}
		var b strings.Builder
		if err := about.Write(&b); err != nil || !strings.Contains(b.String(), "390 rows fp32") {
			t.Errorf("%v\n%s", err, &b)
		}
		if err := q.Close(); err != nil {
			t.Error(err)
		}
		if err := q.Close(); !errors.Is(err, models.ErrClosed) {
			t.Errorf("closed again: %v", err)
		}
		if _, err := models.Open(dir); err == nil || !strings.Contains(err.Error(), "(speech recognition): it is no language model") {
			t.Errorf("as a language model: %v", err)
		}
	}
}

// TestQwenASRRows: sounds of any length have the rows that the model was trained with, and the most
// frames that have no more rows are known.
func TestQwenASRRows(t *testing.T) {
	for frames, want := range map[int]int{0: 0, 1: 1, 8: 1, 9: 2, 96: 12, 97: 13, 100: 13, 101: 14, 2999: 390, 3000: 390} {
		if got := models.SoundRows(frames); got != want {
			t.Errorf("%d frames have %d rows, want %d", frames, got, want)
		}
	}
	for rows := range 391 {
		if n := models.SoundFrames(rows); models.SoundRows(n) > rows || models.SoundRows(n+1) <= rows {
			t.Errorf("%d rows: %d frames, which have %d rows, and one more has %d", rows, n, models.SoundRows(n), models.SoundRows(n+1))
		}
	}
}

// TestQwenASRLanguage: languages have ISO codes, with or without a region, and the names that the
// checkpoint's config.json lists as support_languages.
func TestQwenASRLanguage(t *testing.T) {
	want := strings.Fields("Arabic Cantonese Chinese Czech Danish Dutch English Filipino Finnish French German Greek Hindi " +
		"Hungarian Indonesian Italian Japanese Korean Macedonian Malay Persian Polish Portuguese Romanian Russian Spanish Swedish " +
		"Thai Turkish Vietnamese")
	if got := slices.Sorted(maps.Values(models.QwenLanguages)); !slices.Equal(got, want) {
		t.Errorf("it knows %q", got)
	}
	q := &models.QwenASR{}
	for code, want := range map[string]string{"": "", "auto": "", "en": "English", "EN-us": "English", "zh": "Chinese", "tl": "Filipino",
		"fil": "Filipino"} {
		if name, ok := q.Language(code); name != want || !ok {
			t.Errorf("%q is %q, %v", code, name, ok)
		}
	}
	if _, ok := q.Language("tlh"); ok {
		t.Error("it knows Klingon")
	}
}

// TestQwenASRRefused: what is wrong with the folder is said, with the file.
func TestQwenASRRefused(t *testing.T) {
	all := modelstest.Hearers()
	net := func(in, out []axcl.Tensor) []byte {
		return axmodeltest.ONNX{Weights: 9, Groups: []axmodeltest.ONNXGroup{{Inputs: in, Outputs: out}}}.Marshal()
	}
	t32 := func(name string, shape ...int) axcl.Tensor {
		return axcl.Tensor{Name: name, Type: axcl.FP32, Shape: shape}
	}
	front := func(mel, out axcl.Tensor, more ...axcl.Tensor) []byte {
		return net(append([]axcl.Tensor{mel}, more...), []axcl.Tensor{out})
	}
	back := func(in, mask, out axcl.Tensor, more ...axcl.Tensor) []byte {
		return net([]axcl.Tensor{in, mask}, append([]axcl.Tensor{out}, more...))
	}
	mel, conv, mask := t32("input_features", 1, 3000, 128), t32("conv_output", 1, 390, 896), t32("feature_attention_mask", 1, 390)
	in, out := t32("input_features", 1, 390, 896), t32("output", 1, 390, 8)
	half, double := out, mask
	half.Type, double.Type = axcl.FP16, axcl.FP64
	const f, e = "conv_frontend.axmodel", "encoder.axmodel"
	for name, tt := range map[string]struct {
		change func(files map[string][]byte)
		want   string
	}{
		"no front":         {func(m map[string][]byte) { delete(m, f) }, "none of its nets is Qwen3-ASR's conv_frontend"},
		"no encoder":       {func(m map[string][]byte) { delete(m, e) }, "none of its nets is Qwen3-ASR's encoder"},
		"a cut front":      {func(m map[string][]byte) { m[f] = m[f][:500] }, "conv_frontend.axmodel"},
		"two encoders":     {func(m map[string][]byte) { m["z.axmodel"] = m[e] }, "z.axmodel: is of the same use as encoder.axmodel"},
		"80 mels":          {func(m map[string][]byte) { m[f] = front(t32("input_features", 1, 3000, 80), conv) }, "[1 3000 128]"},
		"a mask in front":  {func(m map[string][]byte) { m[f] = front(mel, conv, t32("mask", 1)) }, "another form of Qwen3-ASR"},
		"fewer rows":       {func(m map[string][]byte) { m[f] = front(mel, t32("conv_output", 1, 375, 896)) }, "[1 390 width] is expected"},
		"another width":    {func(m map[string][]byte) { m[e] = back(t32("input_features", 1, 390, 8), mask, out) }, "conv_output is"},
		"a mask of 64 bit": {func(m map[string][]byte) { m[e] = back(in, double, out) }, "[1 390] of numbers is expected"},
		"a short mask":     {func(m map[string][]byte) { m[e] = back(in, t32("feature_attention_mask", 1, 30), out) }, "of numbers"},
		"two outputs":      {func(m map[string][]byte) { m[e] = back(in, mask, out, t32("more", 1)) }, "another form of Qwen3-ASR"},
		"other rows":       {func(m map[string][]byte) { m[e] = back(in, mask, t32("output", 1, 390, 16)) }, "rows of 8 are expected"},
		"rows of half":     {func(m map[string][]byte) { m[e] = back(in, mask, half) }, "fp32 or bf16"},
		"no head":          {func(m map[string][]byte) { delete(m, "qwen3_asr_post.axmodel") }, "qwen3_asr_post.axmodel"},
		"no layers":        {func(m map[string][]byte) { delete(m, "qwen3_asr_p64_l0_together.axmodel") }, "l0_together.axmodel"},
		"no wide groups": {func(m map[string][]byte) {
			for i := range 2 {
				m["qwen3_asr_p64_l"+string(rune('0'+i))+"_together.axmodel"] = axmodeltest.VendorLayer(8, 4, 3, 9,
					axcl.Group{Rows: 1, Cells: 2047}, axcl.Group{Rows: 64}, axcl.Group{Rows: 64, Cells: 64}).Marshal()
			}
		}, "its prefill groups take 128 rows"},
	} {
		refused(t, name, all[0], tt.change, tt.want)
	}
	said := maps.Clone(all[1].Files) // its configuration says what it is, and neither net can be read
	said[f], said[e] = said[f][:500], said[e][:500]
	if _, err := models.OpenAnyFS(mapFS(said), "."); !errors.Is(err, models.ErrMalformed) || !strings.Contains(err.Error(), f) {
		t.Errorf("both nets cut: %v", err)
	}
	for _, word := range []string{"<|audio_pad|>", "<asr_text>", "<|im_start|>"} {
		dir := t.TempDir()
		if err := (modelstest.QwenASR{Seed: 1, Bad: word}).Write(dir); err != nil {
			t.Fatal(err)
		}
		o, err := models.OpenAny(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.(*models.QwenASR).Text.Hearing(); err == nil || !strings.Contains(err.Error(), "has no token "+word) {
			t.Errorf("without %s: %v", word, err)
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}
}
