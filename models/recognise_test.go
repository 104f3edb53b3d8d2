package models_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
)

// A package of every kind and layout is recognised by its tensors and configuration: in a folder,
// under any name, and in a listing.
func TestKinds(t *testing.T) {
	said := map[string]bool{}
	for _, k := range modelstest.Kinds() {
		t.Run(strings.TrimSpace(k.Name+" "+k.Layout), func(t *testing.T) {
			var digests []string
			for _, name := range []string{"Model", "qwen3-0.6b-l3", "whisper"} {
				dir := filepath.Join(t.TempDir(), name)
				if err := k.Write(dir); err != nil {
					t.Fatal(err)
				}
				p, err := models.Open(dir)
				if err == nil {
					p.Close()
					t.Fatal("opened as a language model")
				}
				var e *models.Error
				var ke *models.KindError
				if !errors.As(err, &e) || !errors.As(err, &ke) || !errors.Is(err, models.ErrKind) || errors.Is(err, models.ErrNotPackage) {
					t.Fatalf("%T: %v", err, err)
				}
				if ke.Kind != k.Name || !strings.HasPrefix(e.What, "a ") && !strings.HasPrefix(e.What, "an ") ||
					!strings.HasSuffix(e.What, "): axle does not run it yet") || !strings.Contains(e.What, k.Name+" package (") {
					t.Errorf("%s: %s", ke.Kind, e.What)
				}
				i := ke.Info
				total := int64(0)
				for _, data := range k.Files {
					total += int64(len(data))
				}
				if i.Says != e.What || i.Path != dir || i.Size != total || len(i.Digest) != 64 || len(i.Capabilities) > 0 {
					t.Errorf("info %+v, want %d bytes", i, total)
				}
				digests = append(digests, i.Digest)
				said[e.What] = true
				files := sizes(t, dir)
				need, err := models.Select(files, os.DirFS(dir))
				if !errors.Is(err, models.ErrKind) || len(need) != len(files) {
					t.Errorf("a listing gives %q, %v", need, err)
				}
			}
			if slices.ContainsFunc(digests, func(d string) bool { return d != digests[0] }) {
				t.Errorf("renamed, the package has another digest: %q", digests)
			}
		})
	}
	if want := "a FireRedASR package (speech recognition): axle does not run it yet"; !said[want] {
		t.Errorf("no %q", want)
	}
}

// Language models of every layout stay what they are, whatever their folders are called.
func TestNoOtherKind(t *testing.T) {
	//proves:G24
	for _, layout := range modelstest.Layouts {
		dir := filepath.Join(t.TempDir(), "whisper-sensevoice-clip")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := modelstest.Write(dir, layout); err != nil {
			t.Fatal(err)
		}
		p, err := models.Open(dir)
		if err != nil {
			t.Errorf("%s: %v", layout, err)
			continue
		}
		if i := p.Info(); i.Says != "" || !slices.Contains(i.Capabilities, "completion") {
			t.Errorf("%s: %+v", layout, i)
		}
		p.Close()
	}
}

// What only looks like layers, or is nothing that is known, is told with what it is.
func TestNoLayers(t *testing.T) {
	net := axmodeltest.ONNX{Weights: 9, Groups: []axmodeltest.ONNXGroup{{Inputs: []axcl.Tensor{{Name: "pixels", Type: axcl.Uint8,
		Shape: []int{1, 64, 64, 3}}}, Outputs: []axcl.Tensor{{Name: "class", Type: axcl.FP32, Shape: []int{1, 7}}}}}}.Marshal()
	layer := axmodeltest.VendorLayer(8, 4, 1, 9, axcl.Group{Rows: 1, Cells: 31}).Marshal()
	for _, c := range []struct {
		name  string
		files map[string][]byte
		is    error
		text  []string
	}{
		{"a net", map[string][]byte{"resnet_l14.axmodel": net}, models.ErrNotPackage,
			[]string{"no layer files", "resnet_l14.axmodel takes pixels", "[1 64 64 3] and gives class",
				"resnet_l*.axmodel are layers by their name only"}},
		{"layers alone", map[string][]byte{"a_p8_l0_together.axmodel": layer, "a_p8_l1_together.axmodel": layer}, models.ErrNotPackage,
			[]string{"a_p8_l*_together.axmodel are layers by their name only", "axle pull"}},
		{"the first layer missing", map[string][]byte{"a_p8_l1_together.axmodel": layer, "a_post.axmodel": net}, models.ErrMissing,
			[]string{"a_p8_l0_together.axmodel: missing", "layer 1 is there"}},
		{"a pointer", map[string][]byte{"small-encoder.axmodel": []byte("version https://git-lfs.github.com/spec/v1\n" +
			"oid sha256:1\nsize 9\n")}, models.ErrPointer, []string{"small-encoder.axmodel", "git lfs pull"}},
	} {
		b := newBench(t)
		for name, data := range c.files {
			b.write(name, data)
		}
		_, err := models.Open(b.dir)
		if !errors.Is(err, c.is) {
			t.Errorf("%s: %v, want %v", c.name, err, c.is)
		}
		for _, text := range c.text {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v lacks %q", c.name, err, text)
			}
		}
	}
}

// An input that nothing is bound to would hold whatever lies in its buffer: the layer is refused
// before it reaches a card.
func TestUnboundInput(t *testing.T) {
	b := newBench(t)
	b.vendor("", "qwen3_p8_l%d_together.axmodel", 2, "qwen3_post.axmodel")
	l := axmodeltest.VendorLayer(8, 4, 1, 100, axcl.Group{Rows: 1, Cells: 31}, axcl.Group{Rows: 8}, axcl.Group{Rows: 8, Cells: 8})
	for g, suffix := range []string{"", "_1", "_2"} {
		l.Groups[g].Inputs = append(l.Groups[g].Inputs, axcl.Tensor{Name: "bias" + suffix, Type: axcl.BF16, Shape: []int{1, 8}})
	}
	b.write("qwen3_p8_l1_together.axmodel", l.Marshal())
	_, err := models.Open(b.dir)
	if !errors.Is(err, models.ErrMalformed) || !strings.Contains(err.Error(), `l1_together.axmodel: group 0: input "bias"`) {
		t.Errorf("%v", err)
	}
}

// openedAs writes a package into a folder and opens it.
func openedAs[T models.Opened](t *testing.T, k modelstest.Kind) (p T, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "folder")
	if err := k.Write(dir); err != nil {
		t.Fatal(err)
	}
	o, err := models.OpenAny(dir)
	if err != nil {
		t.Fatalf("%s: %v", k.Layout, err)
	}
	p, ok := o.(T)
	if !ok {
		t.Fatalf("%s: a %T", k.Layout, o)
	}
	return p, dir
}

// refused changes the files of a package: it is not opened, and the error says all of want.
func refused(t *testing.T, name string, k modelstest.Kind, change func(files map[string][]byte), want ...string) {
	t.Helper()
	files := maps.Clone(k.Files)
	change(files)
	o, err := models.OpenAnyFS(mapFS(files), ".")
	if o != nil || err == nil || !errors.As(err, new(*models.Error)) || strings.Contains(err.Error(), " .:") {
		t.Errorf("%s: %v", name, err)
		return
	}
	for _, want := range want {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

func mapFS(files map[string][]byte) fstest.MapFS {
	fsys := fstest.MapFS{}
	for n, b := range files {
		fsys[n] = &fstest.MapFile{Data: b}
	}
	return fsys
}
