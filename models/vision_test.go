package models_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
	"github.com/axle-llm/axle/vision"
)

// TestVision: what packages as they are shipped say of their encoders, by their tensors, and of how
// their family writes a picture.
func TestVision(t *testing.T) {
	const u8, f32, bf16 = axcl.Uint8, axcl.FP32, axcl.BF16
	for _, tt := range []struct {
		name, prefix, config string
		hidden, pos          int
		file                 string
		encoder              axmodeltest.ONNX
		tokens               []string
		family               string
		layout               vision.Layout
		norm                 vision.Norm
		rows, across         int
		deep                 []string
		mark                 string // of the second of two pictures, with the row's token for all rows
	}{
		{"Qwen3-VL-2B, an empty config.json", "qwen3_vl_text", "", 2048, 3, "Qwen3-VL-2B-Instruct_vision.axmodel",
			encoder(u8, []int{1, 576, 512, 3}, f32, rows("hidden_states_out", 144, 2048), rows("deepstack_feature_2", 144, 2048),
				rows("deepstack_feature_0", 144, 2048), rows("deepstack_feature_1", 144, 2048)), qwenWords, "Qwen3VL",
			vision.Layout{Kind: vision.Qwen, Type: vision.U8, Width: 384, Height: 384, Patch: 16}, vision.Own, 144, 12,
			[]string{"deepstack_feature_0", "deepstack_feature_1", "deepstack_feature_2"},
			"<|vision_start|><|image_pad|><|vision_end|>"},
		{"Qwen2.5-VL-3B, keys that lie", "qwen2.5_vl", `{"vlm_type": "qwen2_5vl", "tokenizer_type": "Qwen3VL", "vision_patch_size": 14,
			"vision_width": 999, "filename_image_encoder_axmodel": "qwen2_5_vl_vision_nchw448.axmodel", %s}`, 2048, 3,
			"qwen2_5_vl_vision_nchw448.axmodel",
			encoder(u8, []int{1, 1024, 392, 3}, f32, rows("hidden_states_out", 256, 2048)), qwenWords, "Qwen2_5VL",
			vision.Layout{Kind: vision.Qwen, Type: vision.U8, Width: 448, Height: 448, Patch: 14}, vision.Own, 256, 16, nil,
			"<|vision_start|><|image_pad|><|vision_end|>"},
		{"Qwen3.5, a number for a type", "qwen3_5_text", `{"VLM_TYPE": 2, "tokenizer_type": "Qwen3_5VL",
			"filename_vpm_resampler_axmodedl": "./enc/some.axmodel", %s}`, 1024, 3, "enc/some.axmodel",
			encoder(u8, []int{1, 576, 512, 3}, bf16, rows("hidden_states_out", 144, 1024)), qwenWords, "Qwen3VL",
			vision.Layout{Kind: vision.Qwen, Type: vision.U8, Width: 384, Height: 384, Patch: 16}, vision.Own, 144, 12, nil,
			"<|vision_start|><|image_pad|><|vision_end|>"},
		{"InternVL3-1B", "qwen2", `{"vlm_type": "InternVL3", "tokenizer_type": "InternVL3", %s}`, 896, 1,
			"vit-models/internvl_vit_model_1x448x448x3.axmodel", encoder(f32, []int{1, 3, 448, 448}, f32, rows("output", 1, 256, 896)),
			[]string{"<IMG_CONTEXT>", "<img>", "</img>"}, "InternVL3", vision.Layout{Kind: vision.Planes, Type: vision.F32, Width: 448,
				Height: 448}, vision.ImageNet, 256, 0, nil, "Image-2: <img><IMG_CONTEXT></img>\n"},
		{"FastVLM-0.5B", "llava_qwen2", `{"vlm_type": "4", "tokenizer_type": "FastVLM", %s}`, 896, 1,
			"image_encoder_512x512_0.5b.axmodel", encoder(f32, []int{1, 3, 512, 512}, f32, rows("output", 1, 64, 896)), []string{"<image>"},
			"FastVLM", vision.Layout{Kind: vision.Planes, Type: vision.F32, Width: 512, Height: 512}, vision.Unit, 64, 0, nil, "<image>\n"},
		{"SmolVLM2-500M", "smolvlm2", `{"vlm_type": "SMOLVLM2", "tokenizer_type": "SmolVLM2", %s}`, 960, 1, "smolvlm2_vision.axmodel",
			encoder(u8, []int{1, 512, 512, 3}, f32, rows("output", 1, 64, 960)), smolWords, "SmolVLM2",
			vision.Layout{Kind: vision.Rows, Type: vision.U8, Width: 512, Height: 512}, vision.Own, 320, 0, nil,
			"<fake_token_around_image><row_1_col_1><image><fake_token_around_image><row_1_col_2><image>\n" +
				"<fake_token_around_image><row_2_col_1><image><fake_token_around_image><row_2_col_2><image>\n" +
				"\n<fake_token_around_image><global-img><image><fake_token_around_image>"},
		{"PaddleOCR-VL", "paddleocr_vl", `{"vlm_type": 6, "tokenizer_type": "PaddleOCRVL", %s}`, 1024, 1, "vit_576x768.axmodel",
			encoder(f32, []int{1, 2268, 3, 14, 14}, f32, rows("feature", 567, 1024)),
			[]string{"<|IMAGE_PLACEHOLDER|>", "<|IMAGE_START|>", "<|IMAGE_END|>"}, "PaddleOCRVL",
			vision.Layout{Kind: vision.Patches, Type: vision.F32, Width: 756, Height: 588, Patch: 14}, vision.Signed, 567, 0, nil,
			"<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>"},
		{"MiniCPM-V-4.6", "minicpmv4_6", `{"vlm_type": "MiniCPMV46VL", "tokenizer_type": "MiniCPMV46", %s}`, 1024, 1,
			"minicpmv4_6_vision_448.axmodel", encoder(f32, []int{1, 3, 14, 14336}, f32, rows("image_features", 1, 64, 1024)),
			[]string{"<|image_pad|>", "<image>", "</image>", "<image_id>", "</image_id>"}, "MiniCPMV46VL",
			vision.Layout{Kind: vision.Strip, Type: vision.F32, Width: 448, Height: 448, Patch: 14}, vision.Signed, 64, 0, nil,
			"<image_id>1</image_id><image><|image_pad|></image>\n"},
		{"Gemma-4-E2B", "gemma4", `{"vlm_type": "gemma4vl", "tokenizer_type": "Gemma4", %s}`, 1536, 1, "gemma4_h480_w672_t140.axmodel",
			encoder(f32, []int{1260, 768}, f32, rows("output", 140, 1536)), []string{"<|image|>", "<|image>", "<image|>"}, "Gemma4VL",
			vision.Layout{Kind: vision.Flat, Type: vision.F32, Width: 672, Height: 480, Patch: 16}, vision.Unit, 140, 0, nil,
			"\n\n<|image><|image|><image|>\n"},
		{"Qwen3-Omni", "qwen3_omni", `{"vlm_type": "Qwen3Omni", "tokenizer_type": "Qwen3Omni", %s}`, 2048, 1, "qwen3_omni_vision.axmodel",
			encoder(f32, []int{1, 576, 512, 3}, f32, rows("output", 144, 2048)), qwenWords, "Qwen3Omni",
			vision.Layout{Kind: vision.Qwen, Type: vision.F32, Width: 384, Height: 384, Patch: 16}, vision.Signed, 144, 0, nil,
			"<|vision_start|><|image_pad|><|vision_end|>"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.seeing(tt.prefix, tt.hidden, tt.pos, tt.file, tt.encoder, tt.tokens...)
			if tt.config = strings.Replace(tt.config, "%s", `"template_filename_axmodel": "`+tt.prefix+
				`_p128_l%d_together.axmodel", "axmodel_num": 3`, 1); tt.config != "" {
				tt.config = strings.ReplaceAll(tt.config, "\n", " ")
			}
			b.write("config.json", []byte(tt.config))
			p := b.open()
			v, err := p.Vision()
			if err != nil || v == nil {
				t.Fatalf("%v, %v; notes %q", v, err, p.Notes)
			}
			if v.Family != tt.family || v.File != tt.file || v.Layout != tt.layout || v.Norm != tt.norm || v.Rows != tt.rows ||
				v.Across != tt.across || v.Down != tt.across || v.MRope != (tt.across > 0) {
				t.Errorf("%+v", v)
			}
			// What an answer's coordinates count.
			places := map[string][2]int{"Qwen3VL": {1000, 1000}, "Qwen2_5VL": {448, 448}}[tt.family]
			if v.Places != places || len(p.Info().Places) != 2*min(places[0], 1) {
				t.Errorf("places in %v parts, %v", v.Places, p.Info().Places)
			}
			var deep []string
			for _, d := range v.Deep {
				deep = append(deep, d.Name)
			}
			if !slices.Equal(deep, tt.deep) {
				t.Errorf("rows to add: %q", deep)
			}
			words, err := p.Tokenizer()
			if err != nil {
				t.Fatal(err)
			}
			mark := v.Mark(1, 2)
			if n := slices.Index(tt.tokens, string(words.Bytes(v.Placeholder))); n < 0 ||
				strings.Count(mark, tt.tokens[n]) != v.Rows || strings.ReplaceAll(mark, strings.Repeat(tt.tokens[n], v.PerCall),
				tt.tokens[n]) != tt.mark {
				t.Errorf("placeholder %d, written as\n%.500q, want\n%q", v.Placeholder, mark, tt.mark)
			}
			ids, n := words.Encode(nil, mark, true), 0
			for _, id := range ids {
				if id == v.Placeholder {
					n++
				}
			}
			if n != v.Rows {
				t.Errorf("%d of the ids are a row's, %d rows", n, v.Rows)
			}
			if !slices.Contains(p.Files(), tt.file) || !slices.Contains(p.Capabilities(), "vision") {
				t.Errorf("files %q, capabilities %q", p.Files(), p.Capabilities())
			}
			m, i := p.Memory(), p.Info()
			if m.Encoder < 5000+int64(v.Layout.Bytes()) || m.Encoder%4096 != 0 {
				t.Errorf("the encoder is predicted to take %d bytes", m.Encoder)
			}
			if !strings.Contains(i.Encoder, fmt.Sprintf("%d×%d pixels", tt.layout.Width, tt.layout.Height)) ||
				!strings.Contains(i.Pictures, fmt.Sprintf("%s, %d rows each", tt.family, tt.rows)) {
				t.Errorf("%q, %q", i.Encoder, i.Pictures)
			}
		})
	}
}

// seeing makes a package whose rows are hidden long, whose layers take pos positions a row and keep
// 1300 of them.
func (b bench) seeing(prefix string, hidden, pos int, encoder string, o axmodeltest.ONNX, tokens ...string) {
	b.Helper()
	name := prefix + "_p128_l%d_together.axmodel"
	for i := range 3 {
		b.write(fmt.Sprintf(name, i), axmodeltest.VendorLayer(hidden, 4, pos, 64, axcl.Group{Rows: 1, Cells: 1300}, axcl.Group{Rows: 128},
			axcl.Group{Rows: 128, Cells: 1024}).Marshal())
	}
	b.write(prefix+"_post.axmodel", axmodeltest.VendorHead(hidden, 400, 8, axcl.BF16, true).Marshal())
	b.write(table, make([]byte, 400*hidden*2))
	if encoder != "" {
		b.write(encoder, o.Marshal())
	}
	b.words(tokens...)
}

// words makes a tokenizer of bytes and of such tokens.
func (b bench) words(tokens ...string) {
	b.Helper()
	vocab := map[string]int{"Ċ": 0, "Ġ": 1, "a": 2, "ĊĊ": 3}
	var added []map[string]any
	for i, s := range tokens {
		added = append(added, map[string]any{"id": 300 + i, "content": s, "special": true, "normalized": false})
	}
	data, err := json.Marshal(map[string]any{"version": "1.0", "added_tokens": added,
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false}, "decoder": map[string]any{"type": "ByteLevel"},
		"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{"Ċ Ċ"}}})
	b.must(err)
	b.write("tokenizer.json", data)
}

func encoder(typ axcl.Type, shape []int, out axcl.Type, rows ...axcl.Tensor) axmodeltest.ONNX {
	for i := range rows {
		rows[i].Type = out
	}
	return axmodeltest.ONNX{Weights: 5000, Groups: []axmodeltest.ONNXGroup{{
		Inputs: []axcl.Tensor{{Name: "image", Type: typ, Shape: shape}}, Outputs: rows}}}
}

func rows(name string, shape ...int) axcl.Tensor { return axcl.Tensor{Name: name, Shape: shape} }

var (
	qwenWords = []string{"<|vision_start|>", "<|image_pad|>", "<|vision_end|>"}
	smolWords = []string{"<image>", "<fake_token_around_image>", "<global-img>", "<row_1_col_1>", "<row_1_col_2>", "<row_2_col_1>",
		"<row_2_col_2>"}
)

// TestVisionRefused: a package whose pictures cannot be read says why in one line, and its text can
// be read all the same.
func TestVisionRefused(t *testing.T) {
	const u8, f32 = axcl.Uint8, axcl.FP32
	good := func() axmodeltest.ONNX {
		return encoder(u8, []int{1, 576, 512, 3}, f32, rows("hidden_states_out", 144, 64))
	}
	for _, tt := range []struct {
		name  string
		spoil func(b bench)
		is    error
		want  string
	}{
		{"a Git LFS pointer", func(b bench) {
			b.write("qwen3_vl_vision.axmodel", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"))
		}, models.ErrPointer, "qwen3_vl_vision.axmodel: is a Git LFS pointer"},
		{"not there", func(b bench) {
			b.remove("qwen3_vl_vision.axmodel")
			b.write("config.json", []byte(`{"vlm_type": "Qwen3VL", "template_filename_axmodel": "qwen3_vl_p128_l%d_together.axmodel"}`))
		}, models.ErrMissing, "filename_image_encoder_axmodel"},
		{"cut off", func(b bench) { b.truncate("qwen3_vl_vision.axmodel", 3000) }, models.ErrMalformed, "qwen3_vl_vision.axmodel"},
		{"rows of another model", func(b bench) {
			b.write("qwen3_vl_vision.axmodel", encoder(u8, []int{1, 576, 512, 3}, f32, rows("out", 144, 96)).Marshal())
		}, models.ErrMismatch, "has shape [144 96], the model's rows are 64 long"},
		{"rows of another type", func(b bench) {
			b.write("qwen3_vl_vision.axmodel", encoder(u8, []int{1, 576, 512, 3}, axcl.FP16, rows("out", 144, 64)).Marshal())
		}, models.ErrMismatch, "rows are fp32 or bf16"},
		{"values of another type", func(b bench) {
			b.write("qwen3_vl_vision.axmodel", encoder(axcl.BF16, []int{1, 576, 512, 3}, f32, rows("out", 144, 64)).Marshal())
		}, models.ErrMismatch, "pictures are written as uint8 or fp32"},
		{"an unknown layout", func(b bench) {
			b.write("qwen3_vl_vision.axmodel", encoder(u8, []int{1, 7, 5, 2}, f32, rows("out", 144, 64)).Marshal())
		}, models.ErrMismatch, "[1 7 5 2] u8"},
		{"patches embedded on the host", func(b bench) {
			b.write("config.json", []byte(`{"vlm_type": "SmolVLM2", "template_filename_axmodel": "qwen3_vl_p128_l%d_together.axmodel"}`))
			b.write("qwen3_vl_vision.axmodel", encoder(f32, []int{17, 1024, 768}, f32, rows("out", 17, 64, 64)).Marshal())
		}, models.ErrMismatch, "embeddings of patches"},
		{"two inputs", func(b bench) {
			o := good()
			o.Groups[0].Inputs = append(o.Groups[0].Inputs, axcl.Tensor{Name: "more", Type: f32, Shape: []int{1}})
			b.write("qwen3_vl_vision.axmodel", o.Marshal())
		}, models.ErrMismatch, "2 inputs"},
		{"no placeholder", func(b bench) { b.words("<|vision_start|>", "<|vision_end|>") }, models.ErrMismatch,
			"has no token <|image_pad|>"},
		{"no bracket", func(b bench) { b.words("<|vision_start|>", "<|image_pad|>") }, models.ErrMismatch, "has no token <|vision_end|>"},
		{"no tokenizer", func(b bench) { b.remove("tokenizer.json") }, models.ErrMissing, "no tokenizer"},
		{"an unknown type", func(b bench) {
			b.write("config.json", []byte(`{"vlm_type": "EagleEye", "template_filename_axmodel": "qwen3_vl_p128_l%d_together.axmodel"}`))
		}, models.ErrMismatch, `vlm_type is "EagleEye"; known are Qwen2_5VL`},
		{"one position a row", func(b bench) { b.seeing("qwen3_vl", 64, 1, "", axmodeltest.ONNX{}, qwenWords...) }, models.ErrMismatch,
			"needs positions in three components, the layers take 1"},
		{"no prefill group", func(b bench) {
			for i := range 3 {
				b.write(fmt.Sprintf("qwen3_vl_p128_l%d_together.axmodel", i),
					axmodeltest.VendorLayer(64, 4, 3, 64, axcl.Group{Rows: 1, Cells: 1300}).Marshal())
			}
		}, models.ErrMismatch, "prefill groups only"},
		{"more rows than cells", func(b bench) {
			b.write("qwen3_vl_vision.axmodel", encoder(u8, []int{1, 6400, 512, 3}, f32, rows("out", 1600, 64)).Marshal())
		}, models.ErrMismatch, "a picture takes 1600 rows, the model keeps 1300"},
		{"rows for more layers than there are", func(b bench) {
			b.write("qwen3_vl_vision.axmodel", encoder(u8, []int{1, 576, 512, 3}, f32, rows("out", 144, 64), rows("deepstack_0", 144, 64),
				rows("deepstack_1", 144, 64), rows("deepstack_2", 144, 64), rows("deepstack_3", 144, 64)).Marshal())
		}, models.ErrMismatch, "rows to add after 4 layers, the model has 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.seeing("qwen3_vl", 64, 3, "qwen3_vl_vision.axmodel", good(), qwenWords...)
			b.write("config.json", nil)
			if p := b.open(); func() bool { v, err := p.Vision(); return err != nil || v == nil }() {
				t.Fatal("the good one does not see")
			}
			tt.spoil(b)
			p := b.open()
			v, err := p.Vision()
			var e *models.Error
			if v != nil || !errors.Is(err, tt.is) || !errors.As(err, &e) || !strings.Contains(err.Error(), tt.want) || e.Fix == "" {
				t.Fatalf("%v, %v; want %q and a way out", v, err, tt.want)
			}
			if i := p.Info(); !strings.Contains(i.Pictures, tt.want) {
				t.Errorf("inspect says %q", i.Pictures)
			}
		})
	}
	t.Run("named and not there", func(t *testing.T) {
		b := newBench(t)
		b.seeing("qwen3_vl", 64, 3, "", axmodeltest.ONNX{}, qwenWords...)
		b.write("config.json",
			[]byte(`{"filename_image_encoder_axmodel": "none.axmodel", "template_filename_axmodel": "qwen3_vl_p128_l%d_together.axmodel"}`))
		if _, err := models.Open(b.dir); !errors.Is(err, models.ErrMissing) {
			t.Errorf("%v", err)
		}
	})
}

// TestBlind: vlm_type None, or 0, makes a package one that does not see; so does having no encoder.
func TestBlind(t *testing.T) {
	for _, config := range []string{`{"vlm_type": "None", %s}`, `{"vlm_type": 0, %s}`} {
		b := newBench(t)
		b.seeing("qwen3_vl", 64, 3, "qwen3_vl_vision.axmodel",
			encoder(axcl.Uint8, []int{1, 576, 512, 3}, axcl.FP32, rows("out", 144, 64)), qwenWords...)
		b.write("config.json", []byte(strings.Replace(config, "%s",
			`"template_filename_axmodel": "qwen3_vl_p128_l%d_together.axmodel"`, 1)))
		p := b.open()
		if v, err := p.Vision(); v != nil || err != nil || p.Memory().Encoder != 0 {
			t.Errorf("%s: %v, %v", config, v, err)
		}
	}
	dir := t.TempDir()
	if err := modelstest.Write(dir, "A"); err != nil {
		t.Fatal(err)
	}
	p, err := models.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if v, err := p.Vision(); v != nil || err != nil || p.Info().Pictures != "" {
		t.Errorf("%v, %v", v, err)
	}
}

// TestEncoders: of several the one beside the layers, of stills and the smallest is used, and
// fetched; the note names the others.
func TestEncoders(t *testing.T) {
	b := newBench(t)
	still := encoder(axcl.Uint8, []int{1, 576, 512, 3}, axcl.FP32, rows("out", 144, 64))
	b.seeing("qwen3_vl", 64, 3, "x_vision.axmodel", still, qwenWords...)
	b.write("config.json", nil)
	b.write("a_vision_video.axmodel", encoder(axcl.Uint8, []int{1, 144, 512, 3}, axcl.FP32, rows("out", 36, 64)).Marshal())
	b.write("elsewhere/vit.axmodel", still.Marshal())
	b.write("ax630c/y_vision.axmodel", still.Marshal())
	p := b.open()
	v, err := p.Vision()
	if err != nil || v.File != "x_vision.axmodel" || !noted(p, "there are others") || slices.Contains(p.Files(), "elsewhere/vit.axmodel") {
		t.Errorf("%+v, %v, files %q, notes %q", v, err, p.Files(), p.Notes)
	}
}

// TestVisionScript: the oldest packages say the picture's size in their run scripts, and have one
// for videos beside.
func TestVisionScript(t *testing.T) {
	b := newBench(t)
	// 1680 patches of 16 are 30 by 56 as well as 40 by 42.
	b.seeing("w/qwen3_vl", 64, 3, "w/enc_vision.axmodel",
		encoder(axcl.Uint8, []int{1, 1680, 512, 3}, axcl.FP32, rows("out", 420, 64)), qwenWords...)
	b.rename(table, "w/"+table)
	for _, what := range []string{"video", "image"} {
		width := map[string]string{"video": "640", "image": "896"}[what]
		b.write("run_"+what+"_axcl_x86.sh", []byte("DIR=./w\n./main_axcl_x86 \\\n"+
			"--template_filename_axmodel \"${DIR}/qwen3_vl_p128_l%d_together.axmodel\" \\\n"+
			"--axmodel_num 3 --filename_image_encoder_axmodedl \"${DIR}/enc_vision.axmodel\" \\\n"+
			"--filename_post_axmodel \"${DIR}/qwen3_vl_post.axmodel\" \\\n"+
			"--patch_size 16 --img_width "+width+" --img_height 480 --vision_start_token_id 151652\n"))
	}
	b.write("config.json", nil)
	v, err := b.open().Vision()
	if err != nil || v.Layout.Width != 896 || v.Layout.Height != 480 || v.Across != 28 || v.Down != 15 {
		t.Errorf("%+v, %v", v, err)
	}
}

// LocateAnything's pictures are named by a number in plain text, and their rows have plain
// positions.
func TestLocateAnything(t *testing.T) {
	b := newBench(t)
	const f32 = axcl.FP32
	b.seeing("qwen2", 64, 1, "image_encoder_mlp.axmodel", encoder(f32, []int{1600, 3, 14, 14}, f32, rows("out", 1, 400, 64)),
		"<|im_start|>", "<|im_end|>", "<img>", "</img>", "<IMG_CONTEXT>")
	b.write("qwen2_post.axmodel", axmodeltest.VendorHead(64, 1400, 8, axcl.BF16, true).Marshal())
	b.write(table, make([]byte, 1400*64*2))
	b.write("config.json", []byte(`{"vlm_type": "LocateAnythingVL", "tokenizer_type": "LocateAnything", "model_name": "LocateAnything-3B",
		"filename_image_encoder_axmodel": "image_encoder_mlp.axmodel", "filename_post_axmodel": "qwen2_post.axmodel",
		"template_filename_axmodel": "qwen2_p128_l%d_together.axmodel", "axmodel_num": 3}`))
	// Answers tell places by tokens of their own. Where the tokenizer has not all of them in order,
	// its ids are another model's.
	words := []string{"<|im_start|>", "<|im_end|>", "<img>", "</img>", "<IMG_CONTEXT>"}
	places := words
	for i := range 1001 {
		places = append(places, fmt.Sprintf("<%d>", i))
	}
	swapped := slices.Clone(places)
	swapped[500], swapped[501] = swapped[501], swapped[500]
	for missing, list := range map[string][]string{"<0>": words, "<1000>": places[:len(places)-1], "<495>": swapped} {
		b.words(list...)
		if v, err := b.open().Vision(); err == nil || !strings.Contains(err.Error(), "no token "+missing+" ") ||
			!strings.Contains(err.Error(), "tokenizer of the same model") {
			t.Errorf("%+v, %v: want %s missing", v, err, missing)
		}
	}
	b.words(places...)
	p := b.open()
	if tok, err := p.Tokenizer(); err != nil || tok.Decode([]int32{305 + 12, 305 + 1000}, true) != "<12><1000>" {
		t.Error(err)
	}
	v, err := p.Vision()
	if err != nil || v == nil || v.Rows != 400 || v.MRope || v.Family != "LocateAnythingVL" || p.Family != "locateanything" {
		t.Fatalf("%+v, %v, family %s", v, err, p.Family)
	}
	if tpl, err := p.Template(); err != nil || !strings.Contains(tpl.Source(), "system\\nYou are a helpful assistant.") {
		t.Errorf("template %v, %v", tpl, err)
	}
	if s := p.Sampling; s.Temperature == nil || *s.Temperature != 0 || s.RepetitionPenalty == nil || *s.RepetitionPenalty != 1 ||
		v.Most != 1 {
		t.Errorf("sampling %+v, %d pictures a request", s, v.Most)
	}
	// The first packages say nothing of pictures: the patches and the tokenizer tell. Without the
	// places it is any encoder.
	bare := []byte(`{"template_filename_axmodel": "qwen2_p128_l%d_together.axmodel", "axmodel_num": 3}`)
	b.write("config.json", bare)
	p = b.open()
	if v, err = p.Vision(); err != nil || v == nil || v.Family != "LocateAnythingVL" || v.Most != 1 || p.Family != "locateanything" ||
		p.Sampling.Temperature == nil || *p.Sampling.Temperature != 0 || !noted(p, "by its patches") ||
		p.TokenizerType != "LocateAnything" {
		t.Errorf("%+v, %v, family %s, sampling %+v, notes %q", v, err, p.Family, p.Sampling, p.Notes)
	}
	// So it is where the package says that it is another.
	b.write("config.json", bytes.Replace(bare, []byte("{"), []byte(`{"tokenizer_type": "SmolLM3", `), 1))
	if p = b.open(); p.Family != "smollm3" {
		t.Errorf("family %s", p.Family)
	}
	if v, err := p.Vision(); err == nil || !strings.Contains(err.Error(), "nothing tells which family") {
		t.Errorf("%+v, %v, family %s", v, err, p.Family)
	}
	b.write("config.json", bare)
	b.words(places[:len(places)-1]...)
	p = b.open()
	if v, err := p.Vision(); err == nil || !strings.Contains(err.Error(), "nothing tells which family") || p.Family != "qwen2" {
		t.Errorf("%+v, %v, family %s", v, err, p.Family)
	}
}
