package models_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
	"github.com/axle-llm/axle/vision"
)

// TestCLIP: a pair of encoders is opened by its tensors in each family, with the tokens around its
// texts and the form of its pictures.
func TestCLIP(t *testing.T) {
	for i, k := range modelstest.Pairs() {
		c, dir := openedAs[*models.CLIP](t, k)
		want := []struct {
			most, dims, side int
			begin, ends      []int32
			pad              int32
			filter           vision.Filter
			norm             vision.Norm
		}{
			{77, 768, 336, []int32{515}, []int32{516}, 0, vision.Bilinear, vision.CLIP},
			{52, 768, 336, []int32{101}, []int32{102}, 0, vision.Bilinear, vision.CLIP},
			{50, 1024, 512, []int32{0}, []int32{2}, 1, vision.Lanczos, vision.CLIP},
			{64, 768, 224, nil, []int32{1}, 0, vision.Bilinear, vision.Signed},
			{77, 768, 336, []int32{515}, []int32{516}, 0, vision.Bilinear, vision.CLIP},
		}[i]
		if c.Most() != want.most || c.Dims != want.dims || !slices.Equal(c.Begin, want.begin) || !slices.Equal(c.Ends, want.ends) ||
			c.Pad != want.pad || c.Filter != want.filter || c.Norm != want.norm || c.Lower != (k.Layout == "SigLIP2") ||
			c.Layout != (vision.Layout{Kind: vision.Planes, Type: vision.F32, Width: want.side, Height: want.side}) {
			t.Errorf("%s: %+v", k.Layout, c)
		}
		if !strings.HasPrefix(c.Text.Net.Path, dir) || c.Text.Net.Path == c.Picture.Net.Path ||
			filepath.Ext(c.Picture.Net.Path) != ".axmodel" ||
			len(c.Picture.Output.Shape) != 2 {
			t.Errorf("%s: %+v %+v", k.Layout, c.Text, c.Picture)
		}
		about := c.Info()
		if about.Name != "folder" || about.Kind != "CLIP" || about.Says != "" ||
			!slices.Equal(about.Capabilities, []string{"embedding", "vision"}) ||
			about.Context != want.most || about.Hidden != want.dims || about.Memory.Card <= 0 || about.Memory.Load < about.Memory.Card ||
			about.Digest == "" || len(about.Groups) != 2 || len(about.Notes) != 0 {
			t.Errorf("%s: %+v", k.Layout, about)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if _, err := models.Open(dir); err == nil ||
			!strings.Contains(err.Error(), "(search by pictures and texts): it is no language model") {
			t.Errorf("as a language model: %v", err)
		}
	}
}

// TestCLIPParts: of a package with one of the two nets that one is there, and the note names the
// other; of two builds of a net the smaller one is taken, and the note names that.
func TestCLIPParts(t *testing.T) {
	const text, picture = "cnclip_vit_l14_336px_text_u16.axmodel", "cnclip_vit_l14_336px_vision_u16.axmodel"
	k := modelstest.Pairs()[1]
	for name, tt := range map[string]struct {
		change        func(f map[string][]byte)
		text, picture bool
		note          string
	}{
		"texts alone":    {func(f map[string][]byte) { delete(f, picture) }, true, false, "no encoder of a picture"},
		"pictures alone": {func(f map[string][]byte) { delete(f, text); delete(f, "cn_vocab.txt") }, false, true, "no encoder of a text"},
		"two builds": {func(f map[string][]byte) {
			f["cnclip_vit_l14_336px_vision_u16u8.axmodel"] = f[picture]
			f[picture] = modelstest.Net("image f32 1,3,336,336", "features f32 1,768; a_long_name_of_no_use f32 1,1,1,768")
		}, true, true, "the smallest is used, cnclip_vit_l14_336px_vision_u16u8.axmodel: not cnclip_vit_l14_336px_vision_u16.axmodel"},
	} {
		one := k
		one.Files = maps.Clone(k.Files)
		tt.change(one.Files)
		c, _ := openedAs[*models.CLIP](t, one)
		if (c.Text != nil) != tt.text || (c.Picture != nil) != tt.picture || len(c.Info().Notes) != 1 ||
			!strings.Contains(c.Info().Notes[0], tt.note) {
			t.Errorf("%s: %+v, notes %q", name, c, c.Info().Notes)
		}
		if caps := c.Info().Capabilities; slices.Contains(caps, "vision") != tt.picture || c.Most() > 0 != tt.text || c.Dims != 768 {
			t.Errorf("%s: %q, %d tokens, %d values", name, caps, c.Most(), c.Dims)
		}
		if tt.picture && (c.Norm != vision.CLIP || c.Filter != vision.Bilinear) {
			t.Errorf("%s: %+v", name, c)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCLIPPictures: without a net of texts, the sizes of vectors and pictures tell the family, and
// bytes are written as they are.
func TestCLIPPictures(t *testing.T) {
	for _, tt := range []struct {
		image, vector string
		filter        vision.Filter
		norm          vision.Norm
	}{
		{"image f32 1,3,336,336", "vector f32 1,768", vision.Bilinear, vision.CLIP},
		{"image f32 1,3,512,512", "vector f32 1,1024", vision.Lanczos, vision.CLIP},
		{"image f32 1,3,224,224", "vector f32 1,1024", vision.Bilinear, vision.CLIP},
		{"image f32 1,3,384,384", "vector f32 1,1152", vision.Bilinear, vision.Signed},
		{"image u8 1,512,512,3", "vector f32 1,1024", vision.Lanczos, vision.Own},
	} {
		k := modelstest.Pairs()[0]
		k.Files = map[string][]byte{"picture.axmodel": modelstest.Net(tt.image, tt.vector)}
		c, _ := openedAs[*models.CLIP](t, k)
		if c.Filter != tt.filter || c.Norm != tt.norm {
			t.Errorf("%s: filter %v, norm %v", tt.image, c.Filter, c.Norm)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCLIPFiles: a preprocessor_config.json says how pictures are made, and what is wrong is said,
// with the file.
func TestCLIPFiles(t *testing.T) {
	all := modelstest.Pairs()
	other := func(config string) modelstest.Kind {
		k := all[3]
		k.Files = maps.Clone(k.Files)
		clear(k.Files)
		k.Files["text.axmodel"] = modelstest.Net("text i32 1,24", "vector f32 1,64")
		k.Files["picture.axmodel"] = modelstest.Net("image f32 1,3,64,64", "vector f32 1,64")
		k.Files["tokenizer.json"] = all[3].Files["tokenizer.json"]
		if config != "" {
			k.Files["preprocessor_config.json"] = []byte(config)
		}
		return k
	}
	for config, want := range map[string]struct {
		filter vision.Filter
		norm   vision.Norm
	}{
		`{"image_mean":[0.5,0.5,0.5],"image_std":[0.5,0.5,0.5],"resample":2}`:                                          {vision.Bilinear, vision.Signed},
		`{"image_mean":[0.485,0.456,0.406],"image_std":[0.229,0.224,0.225]}`:                                           {vision.Bicubic, vision.ImageNet},
		`{"image_mean":[0.48145466,0.4578275,0.40821073],"image_std":[0.26862954,0.26130258,0.27577711],"resample":1}`: {vision.Lanczos, vision.CLIP},
		`{"image_mean":[0,0,0],"image_std":[1,1,1],"resample":3}`:                                                      {vision.Bicubic, vision.Unit},
	} {
		c, _ := openedAs[*models.CLIP](t, other(config))
		if c.Filter != want.filter || c.Norm != want.norm || !slices.Equal(c.Begin, []int32{2}) || !slices.Equal(c.Ends, []int32{1}) {
			t.Errorf("%s: %+v", config, c)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	set := func(name, text string) func(f map[string][]byte) {
		return func(f map[string][]byte) { f[name] = []byte(text) }
	}
	nets := func(name, in, out string) func(f map[string][]byte) {
		return func(f map[string][]byte) { f[name] = modelstest.Net(in, out) }
	}
	const cn, vision = "cnclip_vit_l14_336px_text_u16.axmodel", "cnclip_vit_l14_336px_vision_u16.axmodel"
	for name, tt := range map[string]struct {
		k      modelstest.Kind
		change func(files map[string][]byte)
		want   string
	}{
		"nothing tells": {other(""), func(map[string][]byte) {}, "put its preprocessor_config.json into the folder"},
		"another mean": {other(`{"image_mean":[0.1,0.5,0.5],"image_std":[0.5,0.5,0.5]}`), func(map[string][]byte) {},
			"preprocessor_config.json: image_mean"},
		"half a mean": {other(`{"image_mean":[0.5]}`), func(map[string][]byte) {}, "image_mean"},
		"another filter": {other(`{"image_mean":[0.5,0.5,0.5],"image_std":[0.5,0.5,0.5],"resample":0}`), func(map[string][]byte) {},
			"resample is 0"},
		"no filter": {other(`{"image_mean":[0.5,0.5,0.5],"image_std":[0.5,0.5,0.5],"resample":"x"}`), func(map[string][]byte) {},
			"resample"},
		"broken": {other(`{`), func(map[string][]byte) {}, "preprocessor_config.json"},
		"no words": {all[1], func(f map[string][]byte) { delete(f, "cn_vocab.txt") },
			"none of cn_vocab.txt, vocab.txt and tokenizer.json"},
		"other words": {all[1], set("cn_vocab.txt", "x"), "cn_vocab.txt: "},
		"no <eos>":    {all[3], set("tokenizer.json", string(all[2].Files["tokenizer.json"])), "has no <eos>"},
		"no <pad>": {all[2], set("tokenizer.json", strings.ReplaceAll(string(all[2].Files["tokenizer.json"]), "pad", "dap")),
			"neither <pad>"},
		"two nets of texts": {all[1], nets("other.axmodel", "text i32 1,52", "features f32 1,768"), "is of the same use as"},
		"bytes in planes":   {all[1], nets(vision, "image bf16 1,3,336,336", "features f32 1,768"), "uint8 or fp32"},
		"a huge picture":    {all[1], nets(vision, "image f32 1,3,4096,4096", "features f32 1,768"), "16×16 to 2048×2048"},
		"vectors of bf16":   {all[1], nets(cn, "text i32 1,52", "features bf16 1,768"), "fp32 is expected"},
	} {
		refused(t, name, tt.k, tt.change, tt.want)
	}
	// A net is named by its place in the package.
	k := all[4]
	k.Files = maps.Clone(k.Files)
	k.Files["visual/model.axmodel"] = modelstest.Net("image bf16 1,3,336,336", "features f32 1,768")
	dir := t.TempDir()
	if err := k.Write(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := models.OpenAny(dir); err == nil ||
		!strings.Contains(err.Error(), " "+filepath.Join(dir, "visual/model.axmodel")+": image is bf16") {
		t.Errorf("%v", err)
	}
}
