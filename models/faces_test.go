package models_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
	"github.com/axle-llm/axle/vision"
)

// TestFaces: a package for faces is opened by its tensors, with nets that are not used beside them
// or in a folder each, and described as what it is.
func TestFaces(t *testing.T) {
	for i, k := range modelstest.FaceTellers() {
		f, dir := openedAs[*models.Faces](t, k)
		kind := []vision.Kind{vision.Rows, vision.Planes}[i]
		names := [][2]string{{"det_10g", "w600k_r50"}, {"detection/model", "recognition/model"}}[i]
		if f.Finder.Path != filepath.Join(dir, names[0]+".axmodel") || f.Teller.Path != filepath.Join(dir, names[1]+".axmodel") || !f.RGB ||
			len(f.Outputs) != 9 || f.Layout != (vision.Layout{Kind: kind, Type: vision.U8, Width: 640, Height: 640}) ||
			f.Small != (vision.Layout{Kind: kind, Type: vision.U8, Width: 112, Height: 112}) {
			t.Errorf("%s: %+v", k.Layout, f)
		}
		for at, name := range map[int]string{0: "448", 1: "451", 2: "454", 3: "471", 8: "500"} {
			if f.Outputs[at].Name != name {
				t.Errorf("%s: output %d is %s, want %s", k.Layout, at, f.Outputs[at].Name, name)
			}
		}
		about := f.Info()
		if about.Name != "folder" || about.Kind != "Insightface" || about.Says != "" ||
			!slices.Equal(about.Capabilities, []string{"faces"}) || about.Memory.Card <= 0 ||
			about.Memory.Load < about.Memory.Card || about.Digest == "" {
			t.Errorf("%s: %+v", k.Layout, about)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if _, err := models.Open(dir); err == nil || !strings.Contains(err.Error(), "(faces): it is no language model") {
			t.Errorf("as a language model: %v", err)
		}
	}
}

// TestFacesFiles: what is wrong with a package for faces is said, with the file.
func TestFacesFiles(t *testing.T) {
	k := modelstest.FaceTellers()[0]
	k.Files["config.json"] = []byte(`{"input_pixel_format":"BGR"}`)
	if f, _ := openedAs[*models.Faces](t, k); f.RGB {
		t.Error("blue comes first, and is not taken so")
	}
	delete(k.Files, "config.json")
	net := func(name, in, out string) func(f map[string][]byte) {
		return func(f map[string][]byte) { f[name+".axmodel"] = modelstest.Net(in, out) }
	}
	small := "a f32 1,32,1; b f32 1,32,4; c f32 1,32,10; d f32 1,8,1; e f32 1,8,4; f f32 1,8,10; g f32 1,2,1; h f32 1,2,4; i f32 1,2,10"
	for name, tt := range map[string]struct {
		change func(files map[string][]byte)
		want   string
	}{
		"no finder":            {func(f map[string][]byte) { delete(f, "det_10g.axmodel") }, "none of its nets is one that finds faces"},
		"a finder of floats":   {net("det_10g", "x f32 1,32,32,3", small), "none of its nets is one that finds faces"},
		"a finder of integers": {net("det_10g", "x u8 1,32,32,3", strings.ReplaceAll(small, "f32", "i32")), "fp32 is expected"},
		"a huge picture":       {net("det_10g", "x u8 1,4096,32,3", small), "none of its nets is one that finds faces"},
		"two finders":          {net("det_500m", "x u8 1,32,32,3", small), "is of the same use as"},
		"two tellers":          {net("w600k_mbf", "x u8 1,112,112,3", "y f32 1,512"), "is of the same use as"},
		"a flat face":          {net("w600k_r50", "x u8 1,1,336,112", "y f32 1,512"), "a face of 112×112 pixels is expected"},
		"colours":              {func(f map[string][]byte) { f["config.json"] = []byte(`{"input_pixel_format":"yuv"}`) }, `is "yuv"`},
	} {
		refused(t, name, k, tt.change, tt.want)
	}
}
