package models_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/models"
)

// A folder with a whole decoder, in one file or in one for tokens and one for prompts, is
// recognised and read by its tensors.
func TestWholeDecoder(t *testing.T) {
	decode, prefill := axmodeltest.VendorDecoder(8, 3, 4, 31, 20, true, 1), axmodeltest.VendorDecoder(8, 3, 4, 31, 20, false, 8)
	for name, c := range map[string]struct {
		files  map[string]axmodeltest.ONNX
		layers []string
		groups []string
	}{
		"two files": {map[string]axmodeltest.ONNX{"model_decode.axmodel": decode, "model_prefill.axmodel": prefill},
			[]string{"model_decode.axmodel", "model_prefill.axmodel"}, []string{"decode 1+31", "prefill 8+31"}},
		"one file": {map[string]axmodeltest.ONNX{"model.axmodel": axmodeltest.VendorDecoder(8, 3, 4, 31, 20, false, 1, 8)},
			[]string{"model.axmodel"}, []string{"decode 1+31", "prefill 8+31"}},
		"tokens alone": {map[string]axmodeltest.ONNX{"model_decode.axmodel": decode}, []string{"model_decode.axmodel"},
			[]string{"decode 1+31"}},
	} {
		b := newBench(t)
		b.whole(c.files)
		p := b.open()
		var names []string
		for _, l := range p.Facts {
			names = append(names, l.Name)
		}
		i := p.Info()
		if p.Layout != "I" || p.Whole == nil || !slices.Equal(names, c.layers) || !slices.Equal(i.Groups, c.groups) {
			t.Errorf("%s: layout %s, files %v, groups %v", name, p.Layout, names, i.Groups)
			continue
		}
		m := p.Memory()
		if p.Whole.Layers != 3 || i.Layers != 3 || p.Out != 20 || p.Vocab != 20 || p.Context != 31 || p.Family != "qwen3" ||
			p.Embedding || m.Cache != 2*2*3*31*4 || m.Card < m.Layers+m.Cache {
			t.Errorf("%s: %+v, %+v", name, *p.Whole, m)
		}
		if ids, err := p.StopIDs(); err != nil || !slices.Equal(ids, []int32{2}) {
			t.Errorf("%s: stops at %v, %v", name, ids, err)
		}
		sizes := map[string]int64{}
		for _, f := range p.Files() {
			st, err := os.Stat(filepath.Join(b.dir, f))
			b.must(err)
			sizes[f] = st.Size()
		}
		if got, err := models.Select(sizes, os.DirFS(b.dir)); err != nil || !slices.Equal(got, p.Files()) {
			t.Errorf("%s: a hub would fetch %v of %v, %v", name, got, p.Files(), err)
		}
	}
}

// whole writes a package that is a whole decoder: hidden 8, three layers of 4 values, 31 cache
// rows, 20 tokens.
func (b bench) whole(files map[string]axmodeltest.ONNX) {
	b.Helper()
	for name, o := range files {
		b.write(name, o.Marshal())
	}
	b.write("model.embed_tokens.weight.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (20, 8), }", make([]byte, 20*8*4)))
	b.write("config.json", []byte(`{"model_type": "qwen3", "vocab_size": 20, "hidden_size": 8, "num_attention_heads": 4,
		"num_key_value_heads": 2, "head_dim": 2, "intermediate_size": 16, "num_hidden_layers": 3, "eos_token_id": 2}`))
	b.write("tokenizer/tokenizer.json", []byte(`{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []},
		"added_tokens": [{"id": 2, "content": "<|im_end|>", "special": true, "normalized": false}]}`))
}

// What is no whole decoder, or not of one piece, is refused with one error that names the file.
func TestHostileDecoder(t *testing.T) {
	//proves:T1
	decode := axmodeltest.VendorDecoder(8, 3, 4, 31, 20, true, 1)
	for name, c := range map[string]struct {
		files map[string]axmodeltest.ONNX
		spoil func(b bench)
		is    error
		text  string
	}{
		"of other layers": {map[string]axmodeltest.ONNX{"model_decode.axmodel": decode,
			"model_prefill.axmodel": axmodeltest.VendorDecoder(8, 2, 4, 31, 20, true, 8)}, nil, models.ErrMismatch,
			"model_prefill.axmodel: does not belong with model_decode.axmodel"},
		"prompts alone": {map[string]axmodeltest.ONNX{"model_prefill.axmodel": decode}, nil, models.ErrNotPackage, "no layer files"},
		"wide alone": {map[string]axmodeltest.ONNX{"model.axmodel": axmodeltest.VendorDecoder(8, 3, 4, 31, 20, true, 8)}, nil,
			models.ErrMismatch, "no group of one row"},
		"another model": {map[string]axmodeltest.ONNX{"model.axmodel": axmodeltest.VendorHead(8, 20, 8, axcl.BF16, false)}, nil, nil,
			"no layer files"},
		"no table": {map[string]axmodeltest.ONNX{"model.axmodel": decode}, func(b bench) { b.remove("model.embed_tokens.weight.npy") },
			models.ErrNotPackage, "no layer files"},
		"a table of others": {map[string]axmodeltest.ONNX{"model_decode.axmodel": axmodeltest.VendorDecoder(16, 3, 4, 31, 20, true, 1)},
			nil, models.ErrSize, "embed_tokens"},
		"more tokens": {map[string]axmodeltest.ONNX{"model_decode.axmodel": axmodeltest.VendorDecoder(8, 3, 4, 31, 21, true, 1)}, nil,
			models.ErrMismatch, "logits for 21 tokens"},
		"cut short": {map[string]axmodeltest.ONNX{"model_decode.axmodel": decode},
			func(b bench) { b.truncate("model_decode.axmodel", 400) }, models.ErrMalformed, "model_decode.axmodel"},
	} {
		b := newBench(t)
		b.whole(c.files)
		if c.spoil != nil {
			c.spoil(b)
		}
		p, err := models.Open(b.dir)
		var e *models.Error
		if err == nil {
			p.Close()
			t.Errorf("%s: opened", name)
		} else if !errors.As(err, &e) || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %v and %q", name, err, c.is, c.text)
		}
	}
}
