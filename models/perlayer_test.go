package models_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// Gemma-4's layers differ in the width of K and V, the last use others', and each has inputs made
// of the token and its embedding.
func TestGemma4(t *testing.T) {
	//proves:D3 a cache that layers share, once
	b := newBench(t)
	b.gemma4(nil, nil)
	p := b.open()
	if p.Family != "gemma4" || p.Shape.LayerInputs != 4 || p.PerLayer == nil || p.PerLayer.Layers != 6 || p.PerLayer.Width != 4 {
		t.Fatalf("family %s, shape %+v, %+v", p.Family, p.Shape, p.PerLayer)
	}
	if f := p.Facts; !f[4].Shares || f[4].Source != 2 || f[5].Source != 3 || f[2].Shape.KV != 8 || f[3].Shape.KV != 4 || f[3].Shares {
		t.Errorf("%+v", f)
	}
	// A cache each for the four that have their own, once; and behind those of layers 2 and 3,
	// which others use, a row.
	if m := p.Memory(); m.Cache != 2*2*(31*(4+4+8+4)+8+4) || m.Host != int64(20*8*2+20*24*2+4*(6*4*8+4)) {
		t.Errorf("%+v", m)
	}
	var said strings.Builder
	i := p.Info()
	if err := i.Write(&said); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2 full, 4 sliding\n", "31 rows of 4 in 3 layers and 8 in 1\n",
		"of 16 rows, 4 layers\n", "layer 4 uses those of layer 2, layer 5 those of layer 3\n",
		"4 values a layer and token, which the host makes of a table of 960 B and a matrix of 768 B\n"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("%q is missing in\n%s", want, said.String())
		}
	}
	if want := (models.LayerInfo{Kind: models.FullAttention, KV: 8, Source: 2, Shares: true}); i.Each[4] != want {
		t.Errorf("layer 4 is told as %+v", i.Each[4])
	}
	sizes := map[string]int64{"README.md": 1, "per_layer_of_others.bin": 1}
	files, err := os.ReadDir(b.dir)
	b.must(err)
	for _, f := range files {
		st, err := f.Info()
		b.must(err)
		sizes[f.Name()] = st.Size()
	}
	if got, err := models.Select(sizes, os.DirFS(b.dir)); err != nil || len(got) != len(files) || !slices.Contains(got, "per_layer.bin") ||
		!slices.Contains(got, "project.npy") || !slices.Contains(got, "norm.npy") {
		t.Errorf("a pull fetches %v of %d files, %v", got, len(files), err)
	}
	// An embedding of ones: value v of the projection is (v+1)·8/√8, its norm (v+1)/√7.5, times 2;
	// the table adds the token's number.
	embed := make([]uint16, 8)
	for i := range embed {
		embed[i] = 0x3f80
	}
	row := make([]uint16, 24)
	if err := p.PerLayer.Row(row, 3, embed); err != nil {
		t.Fatal(err)
	}
	for i, got := range row {
		want := (2*float64(i%4+1)/math.Sqrt(7.5) + 3) / math.Sqrt2
		if x := float64(math.Float32frombits(uint32(got) << 16)); math.Abs(x-want) > 0.01*want {
			t.Errorf("value %d is %v, want %v", i, x, want)
		}
	}
	if p.PerLayer.Row(row, 20, embed) == nil || p.PerLayer.Row(row[:4], 3, embed) == nil {
		t.Error("a row of no token, or of another length, is made")
	}
}

const gemma4Layers = "gemma4_text_p128_l%d_together.axmodel"

// gemma4 writes a small package with the keys of Gemma-4: six layers, each third of full attention
// with K and V twice as wide; the last two use others' K and V. Every layer has four values of
// layer inputs. change spoils layer i.
func (b bench) gemma4(config map[string]any, change func(i int, o *axmodeltest.ONNX)) {
	b.Helper()
	b.vendor("", gemma4Layers, 6, "gemma4_text_post.axmodel")
	const s, f = models.SlidingAttention, models.FullAttention
	kinds := []string{s, s, f, s, f, s}
	for i, kind := range kinds {
		kv := 4
		if kind == "full_attention" {
			kv = 8
		}
		o := axmodeltest.VendorLayer(8, kv, 1, 64, axcl.Group{Rows: 1, Cells: 31}, axcl.Group{Rows: 8}, axcl.Group{Rows: 8, Cells: 8})
		for g, rows := range []int{1, 8, 8} {
			suffix := ""
			if g > 0 {
				suffix = fmt.Sprintf("_%d", g)
			}
			in := &o.Groups[g].Inputs
			*in = append(*in, axcl.Tensor{Name: "per_layer_input" + suffix, Type: axcl.BF16, Shape: []int{1, rows, 4}})
			if cells := []int{31, 0, 8}[g]; i >= 4 {
				(*in)[0].Shape, (*in)[1].Shape = []int{1, cells + rows, kv}, []int{1, cells + rows, kv}
			}
		}
		if change != nil {
			change(i, &o)
		}
		b.write(fmt.Sprintf(gemma4Layers, i), o.Marshal())
	}
	floats := func(name, shape string, n int, at func(i int) float32) {
		data := make([]byte, 4*n)
		for i := range n {
			binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(at(i)))
		}
		b.write(name, npy("{'descr': '<f4', 'fortran_order': False, 'shape': "+shape+", }", data))
	}
	rows := make([]byte, 20*24*2)
	for i := range 20 * 24 {
		binary.LittleEndian.PutUint16(rows[2*i:], uint16(math.Float32bits(float32(i/24)/2)>>16))
	}
	b.write("per_layer.bin", rows)
	floats("project.npy", "(6, 4, 8)", 6*4*8, func(i int) float32 { return float32(i/8%4) + 1 }) // value v of a layer: v+1 times the sum
	floats("norm.npy", "(4,)", 4, func(int) float32 { return 2 })
	all := map[string]any{"tokenizer_type": "Gemma4", "template_filename_axmodel": gemma4Layers, "axmodel_num": 6, "layer_types": kinds,
		"sliding_window": 16, "num_kv_shared_layers": 2, "filename_tokens_embed_per_layer": "per_layer.bin",
		"filename_per_layer_model_projection": "project.npy", "filename_per_layer_projection_norm": "norm.npy"}
	for k, v := range config {
		if all[k] = v; v == nil {
			delete(all, k)
		}
	}
	data, err := json.Marshal(all)
	b.must(err)
	b.write("config.json", data)
}

// A Gemma-4 package that does not add up is refused with one error that names the file.
func TestHostileGemma4(t *testing.T) {
	//proves:T1
	for name, c := range map[string]struct {
		config map[string]any
		change func(i int, o *axmodeltest.ONNX)
		spoil  func(b bench)
		is     error
		text   string
	}{
		"no table": {map[string]any{"filename_tokens_embed_per_layer": nil}, nil, nil, models.ErrMissing,
			"filename_tokens_embed_per_layer names no file"},
		"a table that is not there": {map[string]any{"filename_tokens_embed_per_layer": "x.bin"}, nil, nil, models.ErrMissing, "x.bin"},
		"a short table":             {nil, nil, func(b bench) { b.truncate("per_layer.bin", 100) }, models.ErrSize, "per_layer.bin"},
		"a projection of others": {nil, nil, func(b bench) {
			b.write("project.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (5, 4, 8), }", make([]byte, 5*4*8*4)))
		}, models.ErrSize, "project.npy"},
		"a projection too large to be": {nil, nil, func(b bench) {
			b.write("project.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4, 8), }", nil))
		}, models.ErrSize, "project.npy"},
		"a norm of NaN": {nil, nil, func(b bench) {
			b.write("norm.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }", []byte(strings.Repeat("\xff", 16))))
		}, models.ErrMalformed, "norm.npy"},
		"all share":      {map[string]any{"num_kv_shared_layers": 6}, nil, nil, models.ErrMalformed, "_l0_together.axmodel"},
		"no room behind": {map[string]any{"num_kv_shared_layers": 3}, nil, nil, models.ErrMalformed, "the cache has 31 where 32 belong"},
		"another's width": {nil, func(i int, o *axmodeltest.ONNX) {
			if i != 4 {
				return
			}
			for g, in := range o.Groups {
				for j := range 2 {
					in.Inputs[j].Shape[2], o.Groups[g].Outputs[j].Shape[2] = 4, 4
				}
			}
		}, nil, models.ErrMismatch, "_l4_together.axmodel: takes K and V of 4 values"},
		"rows of others": {nil, func(i int, o *axmodeltest.ONNX) {
			if i == 1 {
				o.Groups[1].Inputs[5].Shape = []int{1, 7, 4}
			}
		}, nil, models.ErrMalformed, `"per_layer_input"`},
	} {
		b := newBench(t)
		b.gemma4(c.config, c.change)
		if c.spoil != nil {
			c.spoil(b)
		}
		p, err := models.Open(b.dir)
		var e *models.Error
		if err == nil {
			p.Close()
			t.Errorf("%s: opened", name)
		} else if !errors.As(err, &e) || !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %v and %q", name, err, c.is, c.text)
		}
	}
}

// TestGemma4Words: what Gemma-4's makers say where a package does not: how a conversation is
// written, all three tokens that end an answer, one of them where a tool is to answer, and no
// thinking unless it is asked for.
func TestGemma4Words(t *testing.T) {
	b := newBench(t)
	b.gemma4(map[string]any{"tokenizer_type": "Gemma4VL", "url_tokenizer_model": "tokenizer"}, nil)
	b.must(os.RemoveAll(filepath.Join(b.dir, "gemma4_tokenizer.txt")))
	var added []any
	for i, s := range []string{"<pad>", "<eos>", "<bos>", "<|turn>", "<turn|>", "<|tool_response>", "<|think|>"} {
		added = append(added, map[string]any{"id": i, "content": s, "special": true, "normalized": false})
	}
	words, err := json.Marshal(map[string]any{"model": map[string]any{"type": "BPE", "vocab": map[string]int{"a": 7}, "merges": []string{}},
		"added_tokens": added})
	b.must(err)
	b.write("tokenizer/tokenizer.json", words)
	b.write("tokenizer/tokenizer_config.json", []byte(`{"eos_token": "<eos>"}`))
	p := b.open()
	if ids, err := p.StopIDs(); err != nil || !slices.Equal(ids, []int32{1, 4, 5}) {
		t.Errorf("stops at %v, %v", ids, err)
	}
	if p.Thinking() != chat.ThinkOff {
		t.Errorf("thinks %q unless asked", p.Thinking())
	}
	tmpl, err := p.Template()
	if err != nil {
		t.Fatal(err)
	}
	for think, want := range map[chat.Think]string{
		chat.ThinkOff: "<bos><|turn>user\na<turn|>\n<|turn>model\n",
		chat.ThinkOn:  "<bos><|turn>system\n<|think|>\n<turn|>\n<|turn>user\na<turn|>\n<|turn>model\n"} {
		pieces, err := tmpl.Render(t.Context(), chat.Conversation{Messages: []chat.Message{{Role: "user", Content: "a"}}, Think: think})
		var said strings.Builder
		for _, x := range pieces {
			said.WriteString(x.Text)
		}
		if err != nil || said.String() != want {
			t.Errorf("thinking %q: %q, %v", think, said.String(), err)
		}
	}
}
