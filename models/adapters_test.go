package models_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestAdapters: a package whose layers take adapters is a language model with those that it has;
// they are files of the package, and their memory is counted.
func TestAdapters(t *testing.T) {
	k, dir := adaptedFiles(t)
	p, err := models.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	i := p.Info()
	if !slices.Equal(i.Adapters, []string{"chart", "design-2"}) || i.Kind != "" || i.Layers != 2 || p.Adapters[0].Rank != 4 ||
		p.Adapters[0].Digest == p.Adapters[1].Digest {
		t.Errorf("%+v", i)
	}
	// Hidden 32, K and V of 16, 64 in between: 2·4·(32+32 + 2·(32+16) + 32+32 + 2·(32+64) + 64+32)
	// bytes a layer.
	const layer = 2 * 4 * (64 + 96 + 64 + 192 + 96)
	b, err := p.Adapters[1].Layer(1)
	if err != nil || len(b) != layer {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	file := k.Files["lora/design-2/layer_01.bf16.bin"]
	if string(b[:4*32*2]) != string(file[len(file)-2*4*(32+32):][:4*32*2]) { // q's A is the last but one of the file
		t.Error("the inputs are not in the layers' order")
	}
	for _, name := range []string{"lora/chart/manifest.json", "lora/design-2/layer_01.bf16.bin"} {
		if !slices.Contains(p.Files(), name) {
			t.Errorf("%s is no file of the package", name)
		}
	}
	var out strings.Builder
	if err := i.Write(&out); err != nil || !strings.Contains(out.String(), "chart, design-2") ||
		!strings.Contains(out.String(), ", adapters ") {
		t.Errorf("%v\n%s", err, &out)
	}
	for name := range k.Files {
		if strings.HasPrefix(name, "lora/") {
			delete(k.Files, name)
		}
	}
	o, err := models.OpenAnyFS(mapFS(k.Files), ".")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	bare := o.Info()
	if more := i.Memory.Card - bare.Memory.Card; i.Memory.Adapters < 4*layer || more < 4*layer || more > 4*(layer+2*4096) ||
		bare.Memory.Adapters != 0 || len(bare.Adapters) > 0 || bare.Digest == i.Digest {
		t.Errorf("with adapters %+v, without %+v", i.Memory, bare.Memory)
	}
}

// TestAdaptersRefused: what a manifest says wrong is told with its file; nothing outside its folder
// is read; a file that is another than the manifest's is refused when it is read.
func TestAdaptersRefused(t *testing.T) {
	k, _ := adaptedFiles(t)
	var about map[string]any
	if err := json.Unmarshal(k.Files["lora/chart/manifest.json"], &about); err != nil {
		t.Fatal(err)
	}
	files := about["files"].(map[string]any)
	file := func(name string, v any) map[string]any {
		own := maps.Clone(files)
		if own[name] = v; v == nil {
			delete(own, name)
		}
		return own
	}
	const first = "layer_00.bf16.bin"
	size, sum := files[first].(map[string]any)["size"], files[first].(map[string]any)["sha256"]
	order := about["tensor_order"].([]any)
	for name, tt := range map[string]struct {
		key  string
		v    any
		want string
	}{
		"rank":          {"rank", 8, "rank is 8, the layers take adapters of rank 4"},
		"no rank":       {"rank", "wide", "rank is"},
		"layers":        {"num_layers", 3, "num_layers is 3, the model has 2 layers"},
		"type":          {"packed_dtype", "F32", `packed_dtype is "F32"`},
		"scale":         {"scale_folded_into_b", false, "scale_folded_into_b is not true"},
		"few tensors":   {"tensor_order", order[1:], "tensor_order names 13 tensors, a layer takes 14"},
		"a tensor less": {"tensor_order", append([]any{"x_A"}, order[1:]...), "tensor_order does not name down_proj_A"},
		"shapes":        {"ab_shapes", map[string]any{"q_proj": [][]int{{4, 16}, {32, 4}}}, "ab_shapes says [4 16] of q_proj_A"},
		"no files":      {"files", 3, "files does not name layer_00.bf16.bin"},
		"a file less":   {"files", file(first, nil), "files does not name layer_00.bf16.bin"},
		"another size":  {"files", file(first, map[string]any{"size": 3, "sha256": sum}), "has 3 bytes, a layer takes 4096"},
		"no sum":        {"files", file(first, map[string]any{"size": size, "sha256": "abc"}), "has no sha256 of layer_00.bf16.bin"},
	} {
		refused(t, name, k, func(m map[string][]byte) {
			own := maps.Clone(about)
			own[tt.key] = tt.v
			m["lora/chart/manifest.json"], _ = json.Marshal(own)
		}, tt.want, "manifest.json")
	}
	refused(t, "a cut file", k, func(m map[string][]byte) { m["lora/chart/"+first] = m["lora/chart/"+first][2:] }, "has 4094 bytes")
	refused(t, "no JSON", k, func(m map[string][]byte) { m["lora/chart/manifest.json"] = []byte("{") }, "manifest.json")
	refused(t, "a hostile name", k, func(m map[string][]byte) {
		m["lora/a b/manifest.json"] = m["lora/chart/manifest.json"]
	}, "letters, digits")
	refused(t, "twice", k, func(m map[string][]byte) {
		for name, b := range maps.Clone(m) {
			if rest, ok := strings.CutPrefix(name, "lora/chart/"); ok {
				m["more/lora/Chart/"+rest] = b
			}
		}
	}, "is the second adapter called")
	changed := maps.Clone(k.Files)
	changed["lora/chart/"+first] = slices.Clone(changed["lora/chart/"+first])
	changed["lora/chart/"+first][7] ^= 1
	o, err := models.OpenAnyFS(mapFS(changed), ".")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	p := o.(*models.Package)
	if _, err := p.Adapters[0].Layer(0); !errors.Is(err, models.ErrMismatch) || !strings.Contains(err.Error(), first) {
		t.Errorf("another file: %v", err)
	}
	if _, err := p.Adapters[0].Layer(1); err != nil {
		t.Errorf("the other layer's: %v", err)
	}
}

// TestAdaptersUnused: adapters beside layers that take none are left out, with a note.
func TestAdaptersUnused(t *testing.T) {
	k, _ := adaptedFiles(t)
	dir := t.TempDir()
	if err := modelstest.Write(dir, "A"); err != nil {
		t.Fatal(err)
	}
	for name, b := range filesIn(t, dir).Files {
		k.Files[name] = b
	}
	if err := k.Write(dir); err != nil {
		t.Fatal(err)
	}
	p, err := models.OpenFS(os.DirFS(dir), ".")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if len(p.Adapters) > 0 || !slices.ContainsFunc(p.Notes, func(n string) bool { return strings.Contains(n, "the layers take none") }) {
		t.Errorf("%d adapters, notes %q", len(p.Adapters), p.Notes)
	}
}

// adaptedFiles are the files of a package with two adapters.
func adaptedFiles(t *testing.T) (k modelstest.Kind, dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := modelstest.Write(dir, "A"); err != nil {
		t.Fatal(err)
	}
	if _, err := modelstest.AddAdapters(dir, 4, 1, "chart", "design-2"); err != nil {
		t.Fatal(err)
	}
	return filesIn(t, dir), dir
}
