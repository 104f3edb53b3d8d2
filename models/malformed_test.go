package models_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
)

// Each is refused with a typed error that names the file, before anything native could see it; none
// panics.
func TestMalformed(t *testing.T) {
	if len(malformed) < 40 {
		t.Fatalf("%d malformed packages", len(malformed))
	}
	for _, m := range malformed {
		t.Run(m.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "package")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := modelstest.Write(dir, "A"); err != nil {
				t.Fatal(err)
			}
			m.spoil(bench{t, dir})
			p, err := models.Open(dir)
			if err == nil {
				p.Close()
				t.Fatal("opened")
			}
			var e *models.Error
			if !errors.As(err, &e) {
				t.Fatalf("%T is no *models.Error: %v", err, err)
			}
			if !errors.Is(err, m.is) || !strings.Contains(err.Error(), m.text) {
				t.Errorf("%v: want %v and %q", err, m.is, m.text)
			}
			if !strings.HasPrefix(err.Error(), "models: ") || e.What == "" {
				t.Errorf("an error without prefix or text: %v", err)
			}
		})
	}
}

const (
	layer0 = "qwen3_p16_l0_together.axmodel"
	layer1 = "qwen3_p16_l1_together.axmodel"
	head   = "qwen3_post.axmodel"
	table  = "model.embed_tokens.weight.bfloat16.bin"
)

// bench is a package being broken.
type bench struct {
	*testing.T
	dir string
}

func (b bench) path(name string) string { return filepath.Join(b.dir, filepath.FromSlash(name)) }

func (b bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b bench) write(name string, data []byte) {
	b.Helper()
	b.must(os.MkdirAll(filepath.Dir(b.path(name)), 0o755))
	b.must(os.WriteFile(b.path(name), data, 0o644))
}

func (b bench) read(name string) []byte {
	b.Helper()
	data, err := os.ReadFile(b.path(name))
	b.must(err)
	return data
}

func (b bench) remove(name string) { b.Helper(); b.must(os.Remove(b.path(name))) }

func (b bench) rename(from, to string) { b.Helper(); b.must(os.Rename(b.path(from), b.path(to))) }

func (b bench) truncate(name string, n int64) { b.Helper(); b.must(os.Truncate(b.path(name), n)) }

func (b bench) link(target, name string) {
	b.Helper()
	_ = os.Remove(b.path(name))
	b.must(os.Symlink(target, b.path(name)))
}

// config changes keys of config.json; nil removes one.
func (b bench) config(kv ...any) {
	b.Helper()
	c := map[string]any{}
	b.must(json.Unmarshal(b.read("config.json"), &c))
	for i := 0; i < len(kv); i += 2 {
		if kv[i+1] == nil {
			delete(c, kv[i].(string))
		} else {
			c[kv[i].(string)] = kv[i+1]
		}
	}
	data, err := json.Marshal(c)
	b.must(err)
	b.write("config.json", data)
}

func (b bench) vendorLayer(name string, hidden, kv int, groups ...axcl.Group) {
	b.write(name, axmodeltest.VendorLayer(hidden, kv, 1, 64, groups...).Marshal())
}

func npy(header string, data []byte) []byte {
	out := append([]byte("\x93NUMPY\x01\x00"), 0, 0)
	binary.LittleEndian.PutUint16(out[8:], uint16(len(header)))
	return append(append(out, header...), data...)
}

const pointer = "version https://git-lfs.github.com/spec/v1\noid " +
	"sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"

// malformed are packages of layout A, each broken in one way, with the sentinel and a part of the
// text that Open must give.
var malformed = []struct {
	name  string
	spoil func(b bench)
	is    error
	text  string
}{
	{"no files", func(b bench) { b.must(os.RemoveAll(b.dir)); b.must(os.Mkdir(b.dir, 0o755)) }, models.ErrNotPackage, "no layer files"},
	{"only GGUF", func(b bench) {
		b.must(os.RemoveAll(b.dir))
		b.must(os.Mkdir(b.dir, 0o755))
		b.write("model.gguf", []byte("GGUF"))
	}, models.ErrNotPackage, "GGUF"},
	{"only a checkpoint", func(b bench) {
		b.must(os.RemoveAll(b.dir))
		b.must(os.Mkdir(b.dir, 0o755))
		b.write("model.safetensors", make([]byte, 100))
		b.write("config.json", []byte(`{"model_type": "qwen3", "hidden_size": 8}`))
	}, models.ErrNotPackage, "axle compile"},
	{"a file, not a folder", func(b bench) { b.must(os.RemoveAll(b.dir)); b.must(os.WriteFile(b.dir, nil, 0o644)) }, models.ErrNotPackage,
		""},
	{"too many entries", func(b bench) {
		for i := range 20001 {
			b.write(fmt.Sprintf("junk/%d", i), nil)
		}
	}, models.ErrNotPackage, "entries"},

	{"config is not JSON", func(b bench) { b.write("config.json", []byte("{")) }, models.ErrMalformed, "config.json"},
	{"config below is not JSON", func(b bench) {
		b.must(os.Mkdir(b.path("sub"), 0o755))
		b.rename("config.json", "sub/config.json")
		b.truncate("sub/config.json", 20)
	}, models.ErrMalformed, "sub/config.json"},
	{"config is an array", func(b bench) { b.write("config.json", []byte(`[1]`)) }, models.ErrMalformed, "config.json"},
	{"config nested too deep", func(b bench) {
		b.write("config.json", []byte(`{"a":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)+`}`))
	}, models.ErrMalformed, "nested"},
	{"config too large", func(b bench) { b.truncate("config.json", 17<<20) }, models.ErrMalformed, "limit"},
	{"config is a pointer", func(b bench) { b.write("config.json", []byte(pointer)) }, models.ErrPointer, "git lfs pull"},
	{"layer count negative", func(b bench) { b.config("axmodel_num", -1) }, models.ErrMalformed, "axmodel_num"},
	{"layer count huge", func(b bench) { b.config("axmodel_num", 1<<40) }, models.ErrMalformed, "axmodel_num"},
	{"layer count no number", func(b bench) { b.config("axmodel_num", "many") }, models.ErrMalformed, "axmodel_num"},
	{"layer count a fraction", func(b bench) { b.config("axmodel_num", 1.5) }, models.ErrMalformed, "axmodel_num"},
	{"vocabulary overflows", func(b bench) { b.config("tokens_embed_num", int64(1)<<62) }, models.ErrMalformed, "tokens_embed_num"},
	{"hidden size overflows", func(b bench) { b.config("tokens_embed_size", int64(1)<<62) }, models.ErrMalformed, "tokens_embed_size"},
	{"embedding scale no number", func(b bench) { b.config("tokens_embed_scale", "sqrt") }, models.ErrMalformed, "tokens_embed_scale"},
	{"embedding scale zero", func(b bench) { b.config("tokens_embed_scale", 0) }, models.ErrMalformed, "tokens_embed_scale"},
	{"embedding scale negative", func(b bench) { b.config("tokens_embed_scale", -2) }, models.ErrMalformed, "tokens_embed_scale"},
	{"embedding scale huge", func(b bench) { b.config("tokens_embed_scale", 1e300) }, models.ErrMalformed, "tokens_embed_scale"},
	{"embedding scale not finite", func(b bench) { b.config("tokens_embed_scale", "Inf") }, models.ErrMalformed, "tokens_embed_scale"},
	{"layer types too few", func(b bench) { b.config("layer_types", []string{"full_attention"}) }, models.ErrMismatch, "layer_types"},
	{"layer types too many", func(b bench) { b.config("layer_types", make([]string, 5000)) }, models.ErrMalformed, "layer_types"},
	{"more shared than layers", func(b bench) { b.config("num_kv_shared_layers", 3) }, models.ErrMismatch, "num_kv_shared_layers"},
	{"attention interval leaves none", func(b bench) { b.config("full_attention_interval", 5) }, models.ErrMismatch,
		"is linear_attention by the configuration, and is not by its tensors"},

	{"template without number", func(b bench) { b.config("template_filename_axmodel", "layer.axmodel") }, models.ErrMalformed, "%d"},
	{"template with two numbers", func(b bench) { b.config("template_filename_axmodel", "l%d_%d.axmodel") }, models.ErrMalformed, "%d"},
	{"template with other verbs", func(b bench) { b.config("template_filename_axmodel", "%s%d%n") }, models.ErrMalformed, "%d"},
	{"template leaves the package", func(b bench) { b.config("template_filename_axmodel", "../../../../etc/l%d.axmodel") },
		models.ErrEscape, "outside"},
	{"template is absolute", func(b bench) { b.config("template_filename_axmodel", "/opt/l%d.axmodel") }, models.ErrEscape, "/opt"},
	{"head leaves the package", func(b bench) { b.config("filename_post_axmodel", "../../../head.axmodel") }, models.ErrEscape, "outside"},
	{"head is absolute", func(b bench) { b.config("filename_post_axmodel", "/etc/passwd") }, models.ErrEscape, "/etc/passwd"},
	{"embeddings leave the package", func(b bench) { b.config("filename_tokens_embed", "../../../../etc/passwd") }, models.ErrEscape,
		"outside"},
	{"tokenizer leaves the package", func(b bench) { b.config("url_tokenizer_model", "../../../../etc/passwd") }, models.ErrEscape,
		"outside"},
	{"a drive of Windows", func(b bench) { b.config("filename_post_axmodel", `C:\models\post.axmodel`) }, models.ErrEscape, "inside"},
	{"post_config leaves the package", func(b bench) { b.config("post_config_path", "../../../../etc/passwd") }, models.ErrEscape,
		"outside"},
	{"layer is a link out", func(b bench) {
		out := filepath.Join(b.TempDir(), "layer")
		b.must(os.WriteFile(out, b.read(layer1), 0o644))
		b.link(out, layer1)
	}, models.ErrEscape, layer1},
	{"head is a link out", func(b bench) { b.link("/etc/passwd", head) }, models.ErrEscape, head},
	{"embeddings are a link out", func(b bench) { b.link("../../../../../etc/passwd", table) }, models.ErrEscape, table},
	{"layer is a dangling link", func(b bench) { b.link("nowhere", layer1) }, models.ErrMissing, layer1},

	{"first layer missing", func(b bench) { b.remove(layer0) }, models.ErrMissing, layer0},
	{"last layer missing", func(b bench) { b.remove(layer1) }, models.ErrMissing, "1 of 2"},
	{"middle layer missing, nothing configured", func(b bench) {
		b.remove("config.json")
		b.rename(layer1, "qwen3_p16_l2_together.axmodel")
	}, models.ErrMissing, layer1},
	{"head missing", func(b bench) { b.remove(head) }, models.ErrMissing, head},
	{"head missing, nothing configured", func(b bench) { b.remove("config.json"); b.remove(head) }, models.ErrMissing, head},
	{"embeddings missing", func(b bench) { b.remove(table) }, models.ErrMissing, table},
	{"embeddings missing, nothing configured", func(b bench) { b.remove("config.json"); b.remove(table) }, models.ErrMissing, table},
	{"vision encoder missing", func(b bench) { b.config("filename_image_encoder_axmodedl", "vit.axmodel") }, models.ErrMissing,
		"vit.axmodel"},

	{"layer is a pointer", func(b bench) { b.write(layer1, []byte(pointer)) }, models.ErrPointer, layer1},
	{"head is a pointer", func(b bench) { b.write(head, []byte(pointer)) }, models.ErrPointer, head},
	{"embeddings are a pointer", func(b bench) { b.write(table, []byte(pointer)) }, models.ErrPointer, table},
	{"tokenizer is a pointer", func(b bench) { b.write("qwen3_tokenizer.txt", []byte(pointer)) }, models.ErrPointer, "qwen3_tokenizer.txt"},

	{"layer empty", func(b bench) { b.truncate(layer0, 0) }, models.ErrMalformed, layer0},
	{"layer cut short", func(b bench) { b.truncate(layer0, 100) }, models.ErrMalformed, layer0},
	{"layer is noise", func(b bench) { b.write(layer1, []byte(strings.Repeat("noise ", 100))) }, models.ErrMalformed, layer1},
	{"layer is a head", func(b bench) { b.write(layer1, b.read(head)) }, models.ErrMalformed, layer1},
	{"head is a layer", func(b bench) { b.write(head, b.read(layer0)) }, models.ErrMalformed, head},
	{"head cut short", func(b bench) { b.truncate(head, 50) }, models.ErrMalformed, head},
	{"layers of different hidden size", func(b bench) {
		b.vendorLayer(layer0, 32, 16, axcl.Group{Rows: 1, Cells: 63})
		b.vendorLayer(layer1, 64, 16, axcl.Group{Rows: 1, Cells: 63})
	}, models.ErrMismatch, layer1},
	{"layers of different cache length", func(b bench) {
		b.vendorLayer(layer0, 32, 16, axcl.Group{Rows: 1, Cells: 63})
		b.vendorLayer(layer1, 32, 16, axcl.Group{Rows: 1, Cells: 64})
	}, models.ErrMismatch, layer1},
	{"layers of different ladders", func(b bench) {
		b.vendorLayer(layer0, 32, 16, axcl.Group{Rows: 1, Cells: 63}, axcl.Group{Rows: 16})
		b.vendorLayer(layer1, 32, 16, axcl.Group{Rows: 1, Cells: 63}, axcl.Group{Rows: 32})
	}, models.ErrMismatch, layer1},
	{"head of another hidden size", func(b bench) { b.write(head, axmodeltest.VendorHead(48, 320, 8, axcl.BF16, false).Marshal()) },
		models.ErrMismatch, head},
	{"head of more tokens than embeddings", func(b bench) { b.write(head, axmodeltest.VendorHead(32, 321, 8, axcl.BF16, false).Marshal()) },
		models.ErrMismatch, head},
	{"configured hidden size is wrong", func(b bench) { b.config("tokens_embed_size", 16) }, models.ErrMismatch, "tokens_embed_size"},

	{"embeddings a row short", func(b bench) { b.truncate(table, 319*64) }, models.ErrSize, table},
	{"embeddings a byte long", func(b bench) { b.truncate(table, 320*64+1) }, models.ErrSize, table},
	{"embeddings no whole row, nothing configured", func(b bench) { b.remove("config.json"); b.truncate(table, 320*64+2) }, models.ErrSize,
		table},
	{"embeddings empty", func(b bench) { b.truncate(table, 0) }, models.ErrSize, table},
	{"configured vocabulary is wrong", func(b bench) { b.config("tokens_embed_num", 321) }, models.ErrSize, table},
	{"npy of another shape", func(b bench) {
		b.config("filename_tokens_embed", "e.npy")
		b.write("e.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (320, 31), }", make([]byte, 320*31*4)))
	}, models.ErrSize, "e.npy"},
	{"npy cut short", func(b bench) {
		b.config("filename_tokens_embed", "e.npy")
		b.write("e.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (320, 32), }", make([]byte, 100)))
	}, models.ErrSize, "e.npy"},
	{"npy of objects", func(b bench) {
		b.config("filename_tokens_embed", "e.npy")
		b.write("e.npy", npy("{'descr': '|O', 'fortran_order': False, 'shape': (320, 32), }", nil))
	}, models.ErrSize, "|O"},
	{"npy in columns", func(b bench) {
		b.config("filename_tokens_embed", "e.npy")
		b.write("e.npy", npy("{'descr': '<f4', 'fortran_order': True, 'shape': (320, 32), }", make([]byte, 320*32*4)))
	}, models.ErrSize, "column order"},
	{"npy of overflowing shape", func(b bench) {
		b.config("filename_tokens_embed", "e.npy")
		b.write("e.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 8), }", nil))
	}, models.ErrSize, "e.npy"},
	{"npy of a header longer than the file", func(b bench) {
		b.config("filename_tokens_embed", "e.npy")
		b.write("e.npy", []byte("\x93NUMPY\x01\x00\xff\xff{"))
	}, models.ErrSize, "header"},
	{"sampling is not JSON", func(b bench) { b.write("post_config.json", []byte("temperature=1")) }, models.ErrMalformed,
		"post_config.json"},
	{"generation_config is not JSON", func(b bench) { b.write("generation_config.json", []byte("]")) }, models.ErrMalformed,
		"generation_config.json"},
}

// A package cut off at any byte of any file, or with any byte of a small file changed, opens or is
// refused, and never panics.
func TestTruncated(t *testing.T) {
	//proves:T1
	dir := t.TempDir()
	if err := modelstest.Write(dir, "A"); err != nil {
		t.Fatal(err)
	}
	b := bench{t, dir}
	for _, name := range []string{"config.json", layer1, head, "post_config.json"} {
		whole := b.read(name)
		for n := 0; n < len(whole); n += 7 {
			b.write(name, whole[:n])
			p, err := models.Open(dir)
			if err == nil {
				if strings.HasSuffix(name, ".axmodel") {
					t.Errorf("%s of %d of %d bytes opened", name, n, len(whole))
				}
				p.Close()
			}
		}
		for n := 0; n < len(whole); n += 13 {
			bad := append([]byte(nil), whole...)
			bad[n] ^= 0xff
			b.write(name, bad)
			if p, err := models.Open(dir); err == nil {
				p.Close()
			}
		}
		b.write(name, whole)
	}
	p, err := models.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	if p.Close() != models.ErrClosed {
		t.Error("a second Close is not ErrClosed")
	}
	if err := p.Embed.Row(make([]uint16, 32), 1); err == nil {
		t.Error("a row after Close")
	}
}
