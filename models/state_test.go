package models_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// A package whose layers with a state cannot be what they claim is refused with one error that
// names the file, before anything native could see it, and before anything is made as large as it
// says.
func TestHostileStates(t *testing.T) {
	layer := func(i int, change func(o *axmodeltest.ONNX)) func(b bench) {
		return func(b bench) {
			o := stated(false, 1, 8, 8)
			change(&o)
			b.write(fmt.Sprintf(mixedLayers, i), o.Marshal())
		}
	}
	state := func(group int, shape ...int) func(o *axmodeltest.ONNX) {
		return func(o *axmodeltest.ONNX) {
			o.Groups[group].Inputs[1].Shape, o.Groups[group].Outputs[1].Shape = shape, shape
		}
	}
	types := func(n int) map[string]any {
		list := make([]string, n)
		for i := range list {
			list[i] = models.LinearAttention
			if i%4 == 3 {
				list[i] = models.FullAttention
			}
		}
		return map[string]any{"layer_types": list}
	}
	for _, c := range []struct {
		name   string
		config map[string]any
		spoil  func(b bench)
		is     error
		text   string
	}{
		{"in and out differ", nil, layer(5, func(o *axmodeltest.ONNX) { o.Groups[1].Outputs[1].Shape = []int{1, 2, 5, 4} }),
			models.ErrMalformed, `_l5_together.axmodel: group 1: "V_cache" is fp32 [1 2 5 5] of 200 bytes and "V_cache_out" fp32`},
		{"in and out differ, mask unlisted", types(8), func(b bench) {
			o := stated(true, 1, 8)
			o.Groups[0].Outputs[0].Shape = []int{1, 6, 2}
			b.write(fmt.Sprintf(mixedLayers, 1), o.Marshal())
		}, models.ErrMismatch, `"K_cache_out" bf16 [1 6 2] of 24`},
		{"a state of 2 GB", nil, layer(0, func(o *axmodeltest.ONNX) {
			for g := range o.Groups {
				state(g, 1, 32, 4096, 4096)(o)
			}
		}), models.ErrMalformed, `"V_cache" has 2147483648 bytes`},
		{"layer_types too short", types(7), nil, models.ErrMismatch, "layer_types has 7 entries, the model 8 layers"},
		{"layer_types too long", types(9), nil, models.ErrMismatch, "layer_types has 9 entries, the model 8 layers"},
		{"layer_types of others", map[string]any{"full_attention_interval": 2}, nil, models.ErrMismatch,
			"_l1_together.axmodel: is full_attention by the configuration, and is not by its tensors"},
		{"a state that shrinks", nil, layer(2, state(2, 1, 2, 5, 3)), models.ErrMalformed,
			`group 2: "V_cache" is fp32 [1 2 5 3] of 120 bytes, in group 0`},
		{"groups that shrink", nil, layer(0, func(o *axmodeltest.ONNX) {
			g := axmodeltest.VendorState(8, 0, axcl.Tensor{Type: axcl.BF16, Shape: []int{1, 6, 3}},
				axcl.Tensor{Type: axcl.FP32, Shape: []int{1, 2, 5, 5}}, false, 1, 8, 4)
			o.Groups[2] = g.Groups[2]
		}), models.ErrMismatch, "its states (hidden 8"},
		{"groups of other rows in all", nil, func(b bench) {
			for i := range 8 {
				if i%4 != 3 {
					b.write(fmt.Sprintf(mixedLayers, i), stated(false, 1, 4).Marshal())
				}
			}
		}, models.ErrMismatch, "group 1 takes 4 rows, where the layers of attention take 8"},
		{"a history that shrinks", nil, func(b bench) {
			for _, i := range []int{3, 7} {
				b.vendorLayer(fmt.Sprintf(mixedLayers, i), 8, 4, axcl.Group{Rows: 1, Cells: 31}, axcl.Group{Rows: 8, Cells: 8},
					axcl.Group{Rows: 8})
			}
		}, models.ErrMismatch, "groups that do not grow"},
		{"no group to decode with", nil, func(b bench) {
			for i := range 8 {
				if i%4 != 3 {
					b.write(fmt.Sprintf(mixedLayers, i), stated(false, 8, 8).Marshal())
				}
			}
		}, models.ErrMismatch, "no group of one row"},
		{"states of two kinds", nil, func(b bench) {
			b.write(fmt.Sprintf(mixedLayers, 6), axmodeltest.VendorState(8, 64, axcl.Tensor{Type: axcl.BF16, Shape: []int{1, 6, 3}},
				axcl.Tensor{Type: axcl.BF16, Shape: []int{1, 2, 5, 5}}, false, 1, 8, 8).Marshal())
		}, models.ErrMismatch, "_l6_together.axmodel: its states"},
		{"no attention at all", nil, func(b bench) {
			for i := range 8 {
				b.write(fmt.Sprintf(mixedLayers, i), stated(false, 1, 8, 8).Marshal())
			}
		}, models.ErrMismatch, "no layer of the model is attention"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.mixed(8, c.config)
			if c.spoil != nil {
				c.spoil(b)
			}
			p, err := models.Open(b.dir)
			if err == nil {
				p.Close()
				t.Fatal("opened")
			}
			var e *models.Error
			if !errors.As(err, &e) || !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v: want %v and %q", err, c.is, c.text)
			}
		})
	}
	b := newBench(t)
	b.mixed(8, types(8))
	if p := b.open(); p.StateBytes() != 6*(36+200) {
		t.Errorf("six layers have states of %d bytes", p.StateBytes())
	}
}

const mixedLayers = "qwen3_5_text_p128_l%d_together.axmodel"

// stated is a layer with a state beside those of [bench.vendor]: bf16 and fp32, in a decode group
// and prefill groups of 8 rows.
func stated(hidden bool, rows ...int) axmodeltest.ONNX {
	return axmodeltest.VendorState(8, 64, axcl.Tensor{Type: axcl.BF16, Shape: []int{1, 6, 3}},
		axcl.Tensor{Type: axcl.FP32, Shape: []int{1, 2, 5, 5}}, hidden, rows...)
}

// mixed writes a package of n layers; every fourth is attention.
func (b bench) mixed(n int, config map[string]any) {
	b.Helper()
	b.vendor("", mixedLayers, n, "qwen3_5_text_post.axmodel")
	for i := range n {
		if i%4 != 3 {
			b.write(fmt.Sprintf(mixedLayers, i), stated(false, 1, 8, 8).Marshal())
		}
	}
	all := map[string]any{"tokenizer_type": "Qwen3_5", "template_filename_axmodel": mixedLayers, "axmodel_num": n}
	for k, v := range config {
		all[k] = v
	}
	data, err := json.Marshal(all)
	b.must(err)
	b.write("config.json", data)
}

// What states take is counted, and said: slots for sequences and snapshots of them, of all layers
// that have one.
func TestStateMemory(t *testing.T) {
	b := newBench(t)
	b.mixed(8, nil)
	for i := range 8 { // 0.8B's states, in fp32
		if i%4 != 3 {
			b.write(fmt.Sprintf(mixedLayers, i), axmodeltest.VendorState(8, 64, axcl.Tensor{Type: axcl.FP32, Shape: []int{1, 6144, 3}},
				axcl.Tensor{Type: axcl.FP32, Shape: []int{1, 16, 128, 128}}, false, 1, 8, 8).Marshal())
		}
	}
	p := b.open()
	const one = 6 * (6144*3*4 + 1<<20)
	i, m := p.Info(), p.Memory()
	if p.StateBytes() != one || i.StateBytes != one || p.Slots() != 64 || i.Slots != 64 || m.States != 65*one ||
		m.Cache != 2*2*2*31*4 || m.Card != m.Layers+m.Head+m.Cache+m.States+m.IO {
		t.Errorf("%+v, %d slots of %d bytes", m, p.Slots(), p.StateBytes())
	}
	var out strings.Builder
	if err := i.Write(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2 full, 6 linear", "states 437 MB",
		"fp32 [1 6144 3] and fp32 [1 16 128 128] a layer, 6.7 MB a sequence or snapshot, room for 64"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("inspect does not say %q:\n%s", want, out.String())
		}
	}
	for i := range 8 { // what is far larger has fewer slots, but never none to spare
		if i%4 != 3 {
			b.write(fmt.Sprintf(mixedLayers, i), axmodeltest.VendorState(8, 64, axcl.Tensor{Type: axcl.FP32, Shape: []int{1, 8192, 3}},
				axcl.Tensor{Type: axcl.FP32, Shape: []int{1, 512, 128, 128}}, false, 1, 8, 8).Marshal())
		}
	}
	if p := b.open(); p.Slots() != 4 {
		t.Errorf("%d slots of %d bytes", p.Slots(), p.StateBytes())
	}
}

// A build for long contexts has many prefill groups and several decode groups; all are read, and
// inspect says them in a line.
func TestDeepLadder(t *testing.T) {
	b := newBench(t)
	b.vendor("", "qwen3_p8_l%d_together.axmodel", 2, "qwen3_post.axmodel")
	groups := []axcl.Group{{Rows: 1, Cells: 127}, {Rows: 1, Cells: 255}, {Rows: 1, Cells: 511}, {Rows: 1, Cells: 1087}}
	for h := range 56 {
		groups = append(groups, axcl.Group{Rows: 16, Cells: 16 * h})
	}
	for i := range 2 {
		b.vendorLayer(fmt.Sprintf("qwen3_p8_l%d_together.axmodel", i), 8, 4, groups...)
	}
	p := b.open()
	if len(p.Shape.Groups) != 60 || p.Shape.Cells != 1087 || p.Context != 1087 {
		t.Errorf("%d groups, %d cells, context %d", len(p.Shape.Groups), p.Shape.Cells, p.Context)
	}
	s := p.Shape.Shape()
	for _, c := range []struct{ rows, reach, want int }{{1, 127, 127}, {1, 128, 255}, {1, 512, 1087}, {2, 0, 0}, {16, 17, 32},
		{16, 880, 880}} {
		if g := s.GroupFor(c.rows, c.reach); g < 0 || s.Groups[g].Cells != c.want {
			t.Errorf("%d rows that reach %d run in group %d, want the one of %d", c.rows, c.reach, g, c.want)
		}
	}
	var out strings.Builder
	if err := p.Info().Write(&out); err != nil || !strings.Contains(out.String(), "decode 1+127 to 1087 (4), prefill 16+0 to 880 (56)\n") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// What Qwen3.5's makers say where a package does not: both tokens that end an answer, no thinking
// unless it is asked for, how to sample. What the package says itself comes first.
func TestQwen35Defaults(t *testing.T) {
	b := newBench(t)
	b.mixed(4, map[string]any{"url_tokenizer_model": "tokenizer"})
	token := func(id int, content string, special bool) map[string]any {
		return map[string]any{"id": id, "content": content, "special": special, "normalized": false}
	}
	bpe := map[string]any{"type": "BPE", "vocab": map[string]int{"a": 0, "b": 1}, "merges": []string{}}
	words, err := json.Marshal(map[string]any{"model": bpe,
		"added_tokens": []any{token(2, "<|endoftext|>", true), token(3, "<|im_start|>", true), token(4, "<|im_end|>", true)}})
	b.must(err)
	b.write("tokenizer/tokenizer.json", words)
	b.write("tokenizer/tokenizer_config.json", []byte(`{"eos_token": "<|im_end|>"}`))
	p := b.open()
	ids, err := p.StopIDs()
	if err != nil || len(ids) != 2 || ids[0] != 2 || ids[1] != 4 {
		t.Errorf("stops at %v, %v", ids, err)
	}
	if s := p.Sampling; s.Temperature == nil || *s.Temperature != 0.7 || *s.TopK != 20 || *s.TopP != 0.8 || *s.RepetitionPenalty != 1 {
		t.Errorf("sampling %+v", s)
	}
	if p.Thinking() != chat.ThinkOff {
		t.Errorf("thinks %q unless asked", p.Thinking())
	}
	if tmpl, err := p.Template(); err != nil || tmpl.Family() != "qwen3-coder" || !tmpl.Capabilities().Thinking {
		t.Errorf("template %v, %v", tmpl, err)
	}
	b.mixed(4, map[string]any{"thinking_mode": "think"})
	b.write("post_config.json", []byte(`{"enable_temperature": true, "temperature": 0.2, "enable_top_k_sampling": true, "top_k": 10}`))
	p = b.open()
	if s := p.Sampling; p.Thinking() != chat.ThinkOn || *s.Temperature != 0.2 || *s.TopK != 10 {
		t.Errorf("thinks %q, sampling %+v", p.Thinking(), s)
	}
}
