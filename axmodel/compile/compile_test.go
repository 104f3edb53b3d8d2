package compile_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models"
)

// Every architecture compiles to a package that models opens and whose files are what was asked
// for.
func TestCompile(t *testing.T) {
	for _, a := range axmodeltest.Archs() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			from := t.TempDir()
			if _, err := axmodeltest.WriteCheckpoint(from, a, 1); err != nil {
				t.Fatal(err)
			}
			out := filepath.Join(t.TempDir(), "package")
			r, err := compile.Run(context.Background(), compile.Options{From: from, Out: out, Context: 95, Chunk: 16,
				History: []int{0, 16, 64}})
			if err != nil {
				t.Fatal(err)
			}
			p, err := models.Open(out)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if len(p.Layers) != a.Layers || p.Hidden != a.Hidden || p.Vocab != a.Vocab || r.Layers != a.Layers {
				t.Errorf("package %+v", p)
			}
			m, err := axmodel.ReadFile(p.Layers[0])
			if err != nil {
				t.Fatal(err)
			}
			l, err := m.Layer()
			if err != nil {
				t.Fatal(err)
			}
			if l.Cells != 95 || len(l.Groups) != 4 || l.KV != a.KV*a.HeadDim || m.Groups[2].RawInputs[2] != "mask_2" {
				t.Errorf("layer %+v", l)
			}
		})
	}
}

func checkpoint(t *testing.T, arch string, change func(*axmodeltest.Arch)) string {
	t.Helper()
	a, ok := axmodeltest.Find(arch)
	if !ok {
		t.Fatal(arch)
	}
	if change != nil {
		change(&a)
	}
	dir := t.TempDir()
	if _, err := axmodeltest.WriteCheckpoint(dir, a, 1); err != nil {
		t.Fatal(err)
	}
	return dir
}

func object(t *testing.T, path string) map[string]any {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// The defaults are the vendor's names, a ladder below the context, and the checkpoint's own
// sampling and tokenizer.
func TestDefaults(t *testing.T) {
	out := filepath.Join(t.TempDir(), "deep", "tiny-qwen")
	var last compile.Progress
	r, err := compile.Run(context.Background(), compile.Options{From: checkpoint(t, "qwen3", nil), Out: out,
		Progress: func(p compile.Progress) { last = p }})
	if err != nil {
		t.Fatal(err)
	}
	if last.Done != last.Total || last.Done != r.Bytes || r.Bytes == 0 || len(r.Notes) != 0 {
		t.Errorf("progress %+v, result %+v", last, r)
	}
	m, err := axmodel.ReadFile(filepath.Join(out, "qwen3_p128_l2_together.axmodel"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := m.Layer()
	if err != nil {
		t.Fatal(err)
	}
	var cells []int
	for _, g := range l.Groups {
		cells = append(cells, g.Group.Cells)
	}
	if want := []int{2047, 0, 256, 512, 1024, 1536}; l.Cells != 2047 || len(cells) != len(want) || cells[5] != 1536 ||
		l.Groups[1].Rows != 128 || l.Groups[1].Cache != 1 {
		t.Errorf("groups %+v, want %v", l.Groups, want)
	}
	config := object(t, filepath.Join(out, "config.json"))
	for key, want := range map[string]any{"model_name": "tiny-qwen", "tokenizer_type": "Qwen3",
		"template_filename_axmodel": "qwen3_p128_l%d_together.axmodel", "axmodel_num": 3.0,
		"filename_post_axmodel": "qwen3_post.axmodel", "filename_tokens_embed": "model.embed_tokens.weight.bfloat16.bin",
		"tokens_embed_num": 320.0, "tokens_embed_size": 64.0,
		"post_config_path": "post_config.json", "url_tokenizer_model": "qwen3_tokenizer"} {
		if config[key] != want {
			t.Errorf("config.json: %s is %v, want %v", key, config[key], want)
		}
	}
	post := object(t, filepath.Join(out, "post_config.json"))
	for key, want := range map[string]any{"enable_temperature": true, "temperature": 0.6, "enable_top_k_sampling": true, "top_k": 20.0,
		"enable_top_p_sampling": true, "top_p": 0.95, "enable_repetition_penalty": false} {
		if post[key] != want {
			t.Errorf("post_config.json: %s is %v, want %v", key, post[key], want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(out), ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A model with a sliding window keeps its window and its kinds of layers in config.json.
func TestWindow(t *testing.T) {
	lane.NoRace(t)
	out := filepath.Join(t.TempDir(), "p")
	r, err := compile.Run(context.Background(), compile.Options{From: checkpoint(t, "gemma3", nil), Out: out, Context: 5000})
	if err != nil {
		t.Fatal(err)
	}
	p, err := models.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if p.Shape.Cells != 5000 || p.Config.SlidingWindow != 1024 || len(p.Config.LayerTypes) != 4 {
		t.Errorf("cells %d, config %+v", p.Shape.Cells, p.Config)
	}
	// It also says what its embeddings are multiplied by; one compiled before it did is multiplied
	// all the same.
	want := axcl.Float32(axcl.BFloat16(float32(math.Sqrt(float64(p.Hidden)))))
	if p.Config.EmbedScale != float64(want) || p.Embed.Scale != want {
		t.Errorf("scale %v said, %v used, want %v", p.Config.EmbedScale, p.Embed.Scale, want)
	}
	b, err := os.ReadFile(filepath.Join(out, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	b = regexp.MustCompile(`"tokens_embed_scale": [^,]*,`).ReplaceAll(b, nil)
	if err := os.WriteFile(filepath.Join(out, "config.json"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	old, err := models.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if old.Config.EmbedScale != 0 || old.Embed.Scale != want ||
		!slices.ContainsFunc(old.Notes, func(n string) bool { return strings.Contains(n, "multiplied") }) {
		t.Errorf("scale %v said, %v used, want %v; notes %q", old.Config.EmbedScale, old.Embed.Scale, want, old.Notes)
	}
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "4096 positions") {
		t.Errorf("notes %q", r.Notes)
	}
}

// A sentence-transformers folder makes an embedding package, tensors without a prefix and all.
func TestEmbedding(t *testing.T) {
	from := checkpoint(t, "qwen3", nil)
	if err := os.Mkdir(filepath.Join(from, "1_Pooling"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]string{"modules.json": "[]", "1_Pooling/config.json": `{"pooling_mode_lasttoken":true}`} {
		if err := os.WriteFile(filepath.Join(from, name), []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(filepath.Join(from, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	b = []byte(strings.ReplaceAll(string(b), `"model.`, `      "`)) // as long as before
	if err := os.WriteFile(filepath.Join(from, "model.safetensors"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "p")
	if _, err := compile.Run(context.Background(), compile.Options{From: from, Out: out, Context: 63, Chunk: 8}); err != nil {
		t.Fatal(err)
	}
	p, err := models.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if !p.Embedding || p.Out != p.Hidden || p.Pooling != "last" {
		t.Errorf("embedding %v, out %d, pooling %q", p.Embedding, p.Out, p.Pooling)
	}
}

// What cannot be compiled leaves the output as it was, and the error names what is wrong.
func TestErrors(t *testing.T) {
	good := checkpoint(t, "llama", nil)
	cut := checkpoint(t, "llama", nil)
	if err := os.Truncate(filepath.Join(cut, "model.safetensors"), 5000); err != nil {
		t.Fatal(err)
	}
	fewer := checkpoint(t, "llama", nil)
	edit := func(dir, old, new string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, "config.json"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(b), old) {
			t.Fatalf("%s: no %s", dir, old)
		}
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(strings.Replace(string(b), old, new, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "x"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		o    compile.Options
		want string
	}{
		"no folder":   {nil, compile.Options{From: filepath.Join(good, "none")}, "none: cannot be opened"},
		"no config":   {nil, compile.Options{From: t.TempDir()}, "config.json: cannot be opened"},
		"cut weights": {nil, compile.Options{From: cut}, "model.safetensors"},
		"a layer more": {nil,
			compile.Options{From: edit(checkpoint(t, "llama", nil), `"num_hidden_layers": 3`, `"num_hidden_layers": 4`)},
			"model.layers.3.input_layernorm.weight"},
		"another hidden": {nil, compile.Options{From: edit(checkpoint(t, "llama", nil), `"hidden_size": 64`, `"hidden_size": 128`)},
			"model.embed_tokens.weight"},
		"another inter": {nil, compile.Options{From: edit(fewer, `"intermediate_size": 96`, `"intermediate_size": 95`)},
			"model.layers.0.mlp.gate_proj.weight"},
		"more tokens": {nil, compile.Options{From: edit(checkpoint(t, "llama", nil), `"vocab_size": 320`, `"vocab_size": 321`)},
			"321 tokens"},
		"not empty":     {nil, compile.Options{From: good, Out: full}, "not empty"},
		"quant":         {nil, compile.Options{From: good, Quant: "int5"}, "bf16, int8 and int4"},
		"history":       {nil, compile.Options{From: good, Context: 100, History: []int{0, 128}}, "at most the context, 100"},
		"history falls": {nil, compile.Options{From: good, History: []int{64, 0}}, "ascend"},
		"context":       {nil, compile.Options{From: good, Context: -1}, "context is -1"},
		"chunk":         {nil, compile.Options{From: good, Chunk: 1 << 20}, "chunk is"},
		"name":          {nil, compile.Options{From: good, Name: "../x"}, "file's name"},
		"cancelled":     {cancelled, compile.Options{From: good}, "canceled"},
	} {
		parent := t.TempDir()
		if c.o.Out == "" {
			c.o.Out = filepath.Join(parent, "p")
		}
		if c.ctx == nil {
			c.ctx = context.Background()
		}
		_, err := compile.Run(c.ctx, c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error that says %q", name, err, c.want)
		}
		if name == "cancelled" && !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if left, _ := os.ReadDir(parent); len(left) > 0 {
			t.Errorf("%s: left behind: %v", name, left)
		}
	}
}
