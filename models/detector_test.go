package models_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
	"github.com/axle-llm/axle/vision"
)

// TestDetector: a detector is opened by its tensors, in both families, and described as what it is.
func TestDetector(t *testing.T) {
	for i, k := range modelstest.Detectors() {
		d, dir := openedAs[*models.Detector](t, k)
		side, net := []int{640, 320}[i], []string{"yolo11s", "frigate-yolov9-tiny"}[i]
		if d.Net.Path != filepath.Join(dir, net+".axmodel") || d.RGB || d.Form.Classes != 80 || len(d.Outputs) != []int{3, 1}[i] ||
			d.Layout != (vision.Layout{Kind: vision.Rows, Type: vision.U8, Width: side, Height: side}) {
			t.Errorf("%s: %+v", k.Layout, d)
		}
		if l := d.Labels; len(l) != 80 || l[0] != "person" || l[2] != "car" || l[7] != "truck" || l[79] != "toothbrush" {
			t.Errorf("labels %q", l)
		}
		about := d.Info()
		if about.Name != "folder" || about.Kind != "YOLO" || about.Says != "" || !slices.Equal(about.Capabilities, []string{"detection"}) ||
			about.Memory.Card <= 0 || about.Memory.Load < about.Memory.Card || about.Digest == "" {
			t.Errorf("%s: %+v", k.Layout, about)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if _, err := models.Open(dir); err == nil || !strings.Contains(err.Error(), "(object detection): it is no language model") {
			t.Errorf("as a language model: %v", err)
		}
	}
}

// TestDetectorRandom: random packages say what their classes are called and how they take a
// picture.
func TestDetectorRandom(t *testing.T) {
	for _, e := range []modelstest.Detector{{Seed: 1, Layout: "heads"}, {Seed: 2, Layout: "numbers", Width: 192, Classes: 5},
		{Seed: 3, Layout: "boxes", Height: 224, Classes: 3, Floats: true}} {
		dir := t.TempDir()
		if err := e.Write(dir); err != nil {
			t.Fatal(err)
		}
		o, err := models.OpenAny(dir)
		if err != nil {
			t.Fatal(err)
		}
		d := o.(*models.Detector)
		want := vision.Layout{Kind: vision.Rows, Type: vision.U8, Width: max(e.Width, 160), Height: max(e.Height, 160)}
		if e.Floats {
			want.Kind, want.Type = vision.Planes, vision.F32
		}
		if d.Layout != want || d.Form.Classes != len(d.Labels) ||
			e.Classes > 0 && d.Labels[2] != "thing 2" {
			t.Errorf("%s: %+v, %q", e.Layout, d.Layout, d.Labels)
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestDetectorFiles: labels and the order of colours are read where the package has them, and what
// is wrong is said, with the file.
func TestDetectorFiles(t *testing.T) {
	all := modelstest.Detectors()
	var plain, numbered []byte
	for i := range 80 {
		plain = fmt.Appendf(plain, "label %c\r\n", 'a'+i%26)
		numbered = fmt.Appendf(numbered, "%d  label %c\n", i, 'a'+i%26)
	}
	for name, labels := range map[string][]byte{"labels.txt": plain, "labelmap.txt": numbered, "coco.names": plain} {
		k := all[0]
		k.Files = maps.Clone(k.Files)
		k.Files[name], k.Files["config.json"] = labels, []byte(`{"input_pixel_format":"RGB"}`)
		if d, _ := openedAs[*models.Detector](t, k); d.Labels[1] != "label b" || d.Labels[79] != "label b" || !d.RGB {
			t.Errorf("%s: %q, RGB %v", name, d.Labels, d.RGB)
		}
	}
	net := func(in, out string) func(f map[string][]byte) {
		return func(f map[string][]byte) {
			clear(f)
			f["yolo.axmodel"] = modelstest.Net(in, out)
		}
	}
	for name, tt := range map[string]struct {
		change func(files map[string][]byte)
		want   string
	}{
		"too few labels":     {func(f map[string][]byte) { f["labels.txt"] = []byte("a\nb\n") }, "has 2 labels, the net knows 80 classes"},
		"an empty label":     {func(f map[string][]byte) { f["labels.txt"] = []byte("a\n\nb\n") }, "line 2 has 0 bytes"},
		"a long label":       {func(f map[string][]byte) { f["labels.txt"] = []byte(strings.Repeat("a", 65)) }, "line 1 has 65 bytes"},
		"no UTF-8":           {func(f map[string][]byte) { f["labels.txt"] = []byte("\xff\n") }, "is not UTF-8"},
		"a huge list":        {func(f map[string][]byte) { f["labels.txt"] = make([]byte, 1<<17) }, "limit"},
		"colours":            {func(f map[string][]byte) { f["config.json"] = []byte(`{"input_pixel_format":"yuv"}`) }, `is "yuv"`},
		"two nets":           {func(f map[string][]byte) { f["other/net.axmodel"] = f["yolo11s.axmodel"] }, "is of the same use as"},
		"classes of no name": {net("x u8 1,320,320,3", "a f32 1,10,2100"), "the net's 6 classes"},
		"anchors": {net("x u8 1,320,320,3", "a f32 1,40,40,255; b f32 1,20,20,255; c f32 1,10,10,255"),
			"the net's 191 classes"},
		"heads of planes":     {net("x u8 1,320,320,3", "a f32 1,144,40,40; b f32 1,144,20,20; c f32 1,144,10,10"), "three raw heads"},
		"boxes chosen by it":  {net("x u8 1,320,320,3", "a f32 1,20,6"), "three raw heads"},
		"outputs of integers": {net("x u8 1,320,320,3", "a u8 1,84,2100"), "fp32 is expected"},
		"an input of ids":     {net("x i32 1,320,320,3", "a f32 1,84,2100"), "uint8 or fp32"},
		"a huge picture":      {net("x u8 1,160,4096,3", "a f32 1,84,13440"), "up to 2048×2048"},
		"two pictures":        {net("x u8 2,320,320,3", "a f32 1,84,2100"), "one picture"},
	} {
		refused(t, name, all[0], tt.change, tt.want)
	}
}
