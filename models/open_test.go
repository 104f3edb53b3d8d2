package models_test

import (
	"bytes"
	"embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// The repository of Qwen3-0.6B as people cloned it in 2025: an empty config.json, scripts for four
// machines, weights for two chips, the tokenizer folder of another model beside its own.
func TestLegacyRepository(t *testing.T) {
	b := newBench(t)
	b.write("config.json", nil)
	b.vendor("qwen3-0.6b-ax650/", "qwen3_p128_l%d_together.axmodel", 3, "qwen3_post.axmodel")
	b.vendor("qwen3-0.6b-ax630c/", "qwen3_p128_l%d_together.axmodel", 4, "qwen3_post.axmodel")
	for _, m := range []string{"axcl_aarch64", "axcl_x86", "ax650", "ax630c"} {
		chip := "ax650"
		if m == "ax630c" {
			chip = m
		}
		b.write("run_qwen3_0.6b_int8_ctx_"+m+".sh", []byte("./main_"+m+" \\\n--template_filename_axmodel \"qwen3-0.6b-"+chip+
			"/qwen3_p128_l%d_together.axmodel\" \\\n--axmodel_num 3 \\\n"+
			"--tokenizer_type 2 \\\n--url_tokenizer_model \"http://127.0.0.1:12345\" \\\n--filename_post_axmodel \"qwen3-0.6b-"+chip+
			"/qwen3_post.axmodel\" \\\n"+
			"--filename_tokens_embed \"qwen3-0.6b-"+chip+
			"/model.embed_tokens.weight.bfloat16.bin\" \\\n--tokens_embed_num 20 \\\n--tokens_embed_size 8 \\\n--use_mmap_load_embed 1\n"))
	}
	for _, tok := range []string{"qwen2.5", "qwen3"} {
		b.write(tok+"_tokenizer/tokenizer.json", []byte(`{"model": {"type": "BPE"}}`))
		b.write(tok+"_tokenizer/tokenizer_config.json", []byte(`{}`))
		b.write(tok+"_tokenizer/config.json",
			[]byte(`{"model_type": "`+strings.Replace(tok, ".5", "", 1)+
				`", "num_attention_heads": 4, "num_key_value_heads": 2, "eos_token_id": 7, "max_position_embeddings": 24}`))
	}
	b.write("main_axcl_aarch64", make([]byte, 5000))
	b.write("README.md", []byte("# Qwen3"))
	b.write("demo/web/config.json", []byte("// not JSON, and nothing to do with the model"))
	b.write("post_config.json",
		[]byte(`{"enable_temperature": false, "enable_top_k_sampling": true, "top_k": 1, "enable_top_p_sampling": false, "top_p": 0.8}`))
	p := b.open()
	if p.Layout != "E" || !strings.Contains(p.Source, "axcl") || p.TokenizerType != "Qwen3" || p.Family != "qwen3" {
		t.Errorf("layout %s from %s, tokenizer type %s, family %s", p.Layout, p.Source, p.TokenizerType, p.Family)
	}
	var names []string
	for _, l := range p.Facts {
		names = append(names, l.Name)
	}
	if len(names) != 3 || names[0] != "qwen3-0.6b-ax650/qwen3_p128_l0_together.axmodel" {
		t.Errorf("layers %v", names)
	}
	if !slices.Equal(p.Stops, []int32{7}) || p.Context != 24 {
		t.Errorf("stops %v, context %d", p.Stops, p.Context)
	}
	if s := p.Sampling; *s.TopK != 1 || *s.Temperature != 1 || *s.TopP != 1 {
		t.Errorf("sampling %+v", s)
	}
	i := p.Info()
	if i.Heads != 4 || i.KVHeads != 2 || i.Quantization != "W8A16" || i.ParameterSize != "600M" || !i.Estimated {
		t.Errorf("info %+v", i)
	}
	files := p.Files()
	if slices.Contains(files, "main_axcl_aarch64") ||
		slices.ContainsFunc(files, func(f string) bool { return strings.Contains(f, "630") || strings.Contains(f, "qwen2.5") }) ||
		!slices.Contains(files, "qwen3_tokenizer/tokenizer.json") {
		t.Errorf("files %v", files)
	}
	if !noted(p, "config.json is empty") || !noted(p, "was a service") {
		t.Errorf("notes %q", p.Notes)
	}
}

// vendor writes layers, head and embeddings as the vendor's compiler does: hidden 8, K and V of 4,
// vocabulary 20, cache 31, chunks of 8.
func (b bench) vendor(dir, layers string, n int, headName string) {
	b.Helper()
	for i := range n {
		b.vendorLayer(fmt.Sprintf(dir+layers, i), 8, 4, axcl.Group{Rows: 1, Cells: 31}, axcl.Group{Rows: 8}, axcl.Group{Rows: 8, Cells: 8})
	}
	b.write(dir+headName, axmodeltest.VendorHead(8, 20, 8, axcl.BF16, true).Marshal())
	b.write(dir+table, make([]byte, 20*8*2))
}

func newBench(t *testing.T) bench {
	dir := filepath.Join(t.TempDir(), "Model")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return bench{t, dir}
}

func (b bench) open() *models.Package {
	b.Helper()
	p, err := models.Open(b.dir)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = p.Close() })
	return p
}

func noted(p *models.Package, text string) bool {
	return slices.ContainsFunc(p.Notes, func(n string) bool { return strings.Contains(n, text) })
}

// Repositories with two builds, whose layers bear the name of an architecture and whose folders
// that of the model.
func TestTwoBuilds(t *testing.T) {
	b := newBench(t)
	b.write("config.json", []byte("\n"))
	for _, q := range []string{"", "-int4"} {
		b.vendor("smollm2-360m"+q+"-ax650/", "llama_p128_l%d_together.axmodel", 2, "llama_post.axmodel")
		b.write("run_smollm2_360m"+strings.ReplaceAll(q, "-", "_")+"_axcl_aarch64.sh",
			[]byte("./main_axcl_aarch64 --template_filename_axmodel 'smollm2-360m"+q+
				"-ax650/llama_p128_l%d_together.axmodel' --axmodel_num 2 "+
				"--filename_post_axmodel smollm2-360m"+q+
				"-ax650/llama_post.axmodel --tokens_embed_num 20 --tokens_embed_size 8 --url_tokenizer_model http://127.0.0.1:12345"))
	}
	b.write("smollm2_tokenizer/tokenizer.json", []byte("{}"))
	b.write("smollm2_tokenizer/chat_template.jinja", []byte("{{ messages }}"))
	b.write("smollm2_tokenizer/config.json", []byte(`{"model_type": "llama", "num_attention_heads": 4, "eos_token_id": 2}`))
	p := b.open()
	if p.Family != "smollm2" || p.Architecture != "llama" || p.TokenizerType != "SmolLM2" || !slices.Equal(p.Stops, []int32{2}) {
		t.Errorf("family %s, architecture %s, tokenizer %s, stops %v", p.Family, p.Architecture, p.TokenizerType, p.Stops)
	}
	if strings.Contains(p.Facts[0].Name, "int4") || !noted(p, "another build of the weights") {
		t.Errorf("%s, notes %q", p.Facts[0].Name, p.Notes)
	}
	if !slices.Contains(p.Files(), "smollm2_tokenizer/chat_template.jinja") ||
		slices.ContainsFunc(p.Files(), func(f string) bool { return strings.Contains(f, "int4") }) {
		t.Errorf("files %v", p.Files())
	}
}

// Keys have aliases, booleans may be numbers, paths may begin in the folder above.
func TestAliases(t *testing.T) {
	b := newBench(t)
	b.vendor("", "minicpm_p128_l%d_together.axmodel", 2, "minicpm_post.axmodel")
	b.write("vit.axmodel", []byte(strings.Repeat("x", 2000)))
	b.write("tokenizer.model", []byte("not opened here"))
	b.write("config.json",
		[]byte(`{"model_name": "m", "tokenizer_type": "Mini-CPM_4", "filename_tokenizer_model": "tokenizer.model", "template_filename_axmodel": "./Model/minicpm_p128_l%d_together.axmodel",
		"axmodel_num": "2", "filename_post_axmodel": "Model/minicpm_post.axmodel", "filename_tokens_embed": "./model.embed_tokens.weight.bfloat16.bin", "tokens_embed_num": 20, "tokens_embed_size": 8,
		"b_use_mmap_load_embed": 1, "b_use_mmap_load_layer": 0, "VLM_TYPE": "InternVL3", "filename_image_encoder_axmodedl": "vit.axmodel", "bos": 1, "eos": "0", "thinking_mode": "no_think",
		"vision_width": 448, "devices": "0,1", "pad_token_id": 3, "kv_cache_slots": 4, "mem_guard_enable": 0, "system_prompt": "Be kind.", "unknown_key": {"a": [1]}}`))
	p := b.open()
	c := p.Config
	type facts struct {
		Type, Tokenizer, VLM, Think string
		Width                       int
	}
	got := facts{p.TokenizerType, c.Tokenizer, c.VisionType, string(c.Think), c.VisionWidth}
	want := facts{"Mini-CPM_4", "tokenizer.model", "InternVL3", "false", 448}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if !slices.Equal(p.Encoders, []string{"vit.axmodel"}) || slices.Contains(p.Capabilities(), "vision") {
		t.Errorf("encoders %v, capabilities %v", p.Encoders, p.Capabilities())
	}
}

// Layers that are not all alike: Qwen3.5's linear attention by interval, by types under
// text_config, by tensors alone; Gemma's windows.
func TestMixedFamilies(t *testing.T) {
	linear := func(b bench, name string) {
		o := axmodeltest.VendorState(8, 64, axcl.Tensor{Type: axcl.BF16, Shape: []int{1, 6, 3}},
			axcl.Tensor{Type: axcl.FP32, Shape: []int{1, 2, 5, 5}}, true, 1, 8)
		b.write(name, o.Marshal())
	}
	kinds := func(p *models.Package) (out []string) {
		for _, l := range p.Facts {
			out = append(out, l.Kind)
		}
		return out
	}
	const tpl = "qwen3_5_text_p128_l%d_together.axmodel"
	l, f, s := models.LinearAttention, models.FullAttention, models.SlidingAttention
	for _, c := range []struct {
		name, config string
		want         []string
	}{
		{"interval", `{"model_name": "q", "tokenizer_type": "Qwen3_5", "template_filename_axmodel": "` + tpl +
			`", "axmodel_num": 4, "full_attention_interval": 2}`, []string{l, f, l, f}},
		{"types", `{"tokenizer_type": "Qwen3_5", "template_filename_axmodel": "` + tpl +
			`", "text_config": {"layer_types": ["linear_attention", "full_attention", "linear_attention", "full_attention"]}}`,
			[]string{l, f, l, f}},
		{"tensors", `{"tokenizer_type": "Qwen3_5", "template_filename_axmodel": "` + tpl + `"}`, []string{l, f, l, f}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.vendor("", tpl, 4, "qwen3_5_text_post.axmodel")
			linear(b, fmt.Sprintf(tpl, 0))
			linear(b, fmt.Sprintf(tpl, 2))
			b.write("config.json", []byte(c.config))
			p := b.open()
			if d := cmp.Diff(c.want, kinds(p)); d != "" {
				t.Error(d)
			}
			if p.Family != "qwen35" || p.Shape.Cells != 31 || p.Info().Mixed != "2 full, 2 linear" {
				t.Errorf("family %s, cells %d, %s", p.Family, p.Shape.Cells, p.Info().Mixed)
			}
			if c.name == "tensors" != noted(p, "inferred from their tensors") || !noted(p, "1 of 2 prefill groups") ||
				!noted(p, "do not list positions") {
				t.Errorf("notes %q", p.Notes)
			}
			if s := p.Facts[2].State; p.StateBytes() != 2*(36+200) || s.V.Type != axcl.FP32 || s.Listed || p.Facts[1].State.Bytes() != 0 {
				t.Errorf("states of %d bytes, %+v", p.StateBytes(), s)
			}
		})
	}
	t.Run("windows and scale", func(t *testing.T) {
		b := newBench(t)
		b.vendor("", "gemma3_text_p128_l%d_together.axmodel", 3, "gemma3_text_post.axmodel")
		row := make([]byte, 20*8*2)
		for i := 0; i < len(row); i += 2 {
			binary.LittleEndian.PutUint16(row[i:], 0x3f80)
		}
		b.write(table, row)
		// The tokenizer folder's config.json holds what the vendor's leaves out.
		b.write("tok/tokenizer.json", []byte("{}"))
		b.write("tok/config.json",
			[]byte(`{"model_type": "gemma3", "text_config": {"layer_types": ["sliding_attention", "full_attention", "full_attention"],
				"sliding_window": 16, "num_kv_shared_layers": 1}}`))
		p := b.open()
		if d := cmp.Diff([]string{s, f, f}, kinds(p)); d != "" {
			t.Error(d)
		}
		if p.Facts[0].Window != 16 || p.Facts[1].Window != 0 || p.Facts[1].Shares || !p.Facts[2].Shares || p.Facts[2].Source != 1 {
			t.Errorf("facts %+v", p.Facts)
		}
		if m := p.Memory(); m.Cache != 2*2*(31+31+1)*4 {
			t.Errorf("a layer that shares its K and V has none of its own, and a token's row lies behind what it sees: %d", m.Cache)
		}
		first := func(p *models.Package) float32 {
			got := make([]uint16, 8)
			if err := p.Embed.Row(got, 3); err != nil {
				t.Fatal(err)
			}
			return math.Float32frombits(uint32(got[0]) << 16)
		}
		// The vendor's runtime takes its Gemma-3 tables as they are; a package may say otherwise.
		if f := first(p); f != 1 {
			t.Errorf("an embedding of 1 became %g in a package of the vendor's", f)
		}
		b.write("config.json",
			[]byte(`{"template_filename_axmodel": "gemma3_text_p128_l%d_together.axmodel", "tokens_embed_scale": 2.828125}`))
		if f := first(b.open()); f != 2.828125 {
			t.Errorf("an embedding of 1 became %g, want 2.828125", f)
		}
		b.write("tok/config.json", []byte(`{"model_type": "gemma4"}`))
		b.write("config.json", []byte(`{"template_filename_axmodel": "gemma3_text_p128_l%d_together.axmodel", "tokenizer_type": "Gemma4"}`))
		if f := first(b.open()); f != 2.828125 { // √8 in bf16
			t.Errorf("an embedding of 1 became %g in a Gemma-4 of the vendor's", f)
		}
	})
}

// TestEmbeddingPackageSees: an embedding package of Qwen3-VL's layers takes turns of a chat, and
// pictures if it has an encoder.
func TestEmbeddingPackageSees(t *testing.T) {
	b := newBench(t)
	b.seeing("qwen3_vl_text", 64, 3, "m_vision_384x384.axmodel",
		encoder(axcl.Uint8, []int{1, 576, 512, 3}, axcl.FP32, rows("out", 144, 64)), qwenWords...)
	b.write("config.json", []byte(`{"is_embedding": true, "template_filename_axmodel": "qwen3_vl_text_p128_l%d_together.axmodel"}`))
	b.write("qwen3_vl_text_post.axmodel", axmodeltest.VendorHead(64, 64, 8, axcl.BF16, false).Marshal())
	p := b.open()
	if all := p.Capabilities(); !p.Embedding || !slices.Equal(all, []string{"embedding", "vision"}) ||
		!slices.Equal(p.Info().Capabilities, all) || p.Memory().Encoder == 0 {
		t.Errorf("%v %v %+v", p.Embedding, all, p.Memory())
	}
	for _, tt := range []struct{ name, task, want string }{
		{"", "", "Represent the user's input."}, {"", "Find it.", "Find it."}, {"document", "", "Represent the user's input."},
		{"query", "", "Retrieve images or text relevant to the user's query."}, {"query", "Find it.", "Find it."},
	} {
		if got, err := p.Prompts().Before(tt.name, tt.task); got != tt.want || err != nil || !p.Prompts().Turns {
			t.Errorf("prompt %q, task %q: %q (%v)", tt.name, tt.task, got, err)
		}
	}
	b.remove("m_vision_384x384.axmodel")
	if p := b.open(); !slices.Equal(p.Capabilities(), []string{"embedding"}) || !p.Prompts().Turns {
		t.Errorf("without an encoder: %v", p.Capabilities())
	}
}

func TestEmbeddingPackage(t *testing.T) {
	b := newBench(t)
	b.vendor("", "qwen3_p128_l%d_together.axmodel", 2, "qwen3_post.axmodel")
	b.write("qwen3_post.axmodel", axmodeltest.VendorHead(8, 8, 8, axcl.BF16, false).Marshal())
	p := b.open()
	if !p.Embedding || p.Pooling != "last" || !slices.Equal(p.Capabilities(), []string{"embedding"}) || !noted(p, "an embedding package") ||
		!noted(p, "pooling is not given") {
		t.Errorf("%v %s %v %q", p.Embedding, p.Pooling, p.Capabilities(), p.Notes)
	}
	b.write("1_Pooling/config.json",
		[]byte(`{"word_embedding_dimension": 8, "pooling_mode_mean_tokens": true, "pooling_mode_lasttoken": false}`))
	if q := b.open(); q.Pooling != "mean" {
		t.Errorf("pooling %s", q.Pooling)
	}
}

func TestSampling(t *testing.T) {
	b := newBench(t)
	b.vendor("", "l%d.axmodel", 1, "post.axmodel")
	text := func(p *models.Package) string {
		data, err := json.Marshal(p.Sampling)
		b.must(err)
		return string(data)
	}
	for _, c := range []struct{ post, gen, want string }{
		{`{"enable_temperature": true, "temperature": 0.9, "enable_top_p_sampling": false, "top_p": 0.8, "enable_top_k_sampling": false, "top_k": 10, "enable_repetition_penalty": true, "repetition_penalty": 1.2, "penalty_window": 20}`,
			``,
			`{"Temperature":0.9,"TopK":0,"TopP":1,"MinP":null,"RepetitionPenalty":1.2,"PenaltyWindow":20,"FrequencyPenalty":null,"PresencePenalty":null,"Source":["post_config.json"]}`},
		{`{"enable_temperature": false, "temperature": 0.9, "enable_top_p_sampling": false, "enable_top_k_sampling": false}`, ``,
			`{"Temperature":0,"TopK":0,"TopP":1,"MinP":null,"RepetitionPenalty":null,"PenaltyWindow":null,"FrequencyPenalty":null,"PresencePenalty":null,"Source":["post_config.json"]}`},
		{``, `{"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "eos_token_id": [5, 6]}`,
			`{"Temperature":0.6,"TopK":20,"TopP":0.95,"MinP":null,"RepetitionPenalty":null,"PenaltyWindow":null,"FrequencyPenalty":null,"PresencePenalty":null,"Source":["generation_config.json"]}`},
		{`{"temperature": 0.3, "frequency_penalty": 0.5}`, `{"do_sample": false, "top_k": 7, "min_p": 0.05, "repetition_penalty": 1.1}`,
			`{"Temperature":0.3,"TopK":7,"TopP":null,"MinP":0.05,"RepetitionPenalty":1.1,"PenaltyWindow":null,"FrequencyPenalty":0.5,"PresencePenalty":null,"Source":["post_config.json","generation_config.json"]}`},
		{``, ``, `{"Temperature":null,"TopK":null,"TopP":null,"MinP":null,"RepetitionPenalty":null,"PenaltyWindow":null,"FrequencyPenalty":null,"PresencePenalty":null,"Source":null}`},
	} {
		b.write("post_config.json", []byte(c.post))
		b.write("generation_config.json", []byte(c.gen))
		p := b.open()
		if d := cmp.Diff(c.want, text(p)); d != "" {
			t.Errorf("%s\n%s\n%s", c.post, c.gen, d)
		}
		if strings.Contains(c.gen, "eos") && !slices.Equal(p.Stops, []int32{5, 6}) {
			t.Errorf("stops %v", p.Stops)
		}
	}
}

// The template is found in each place that packages keep it, with the tokens it may print.
func TestTemplates(t *testing.T) {
	const src = "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
	quoted, err := json.Marshal(src)
	if err != nil {
		t.Fatal(err)
	}
	for name, files := range map[string]map[string]string{
		"a file": {"chat_template.jinja": src, "tokenizer_config.json": `{"bos_token": "<s>", "chat_template": "not this"}`},
		"a JSON file": {"chat_template.json": `{"chat_template": ` + string(quoted) + `}`,
			"special_tokens_map.json": `{"bos_token": "<s>"}`},
		"tokenizer_config": {"tokenizer_config.json": `{"bos_token": {"content": "<s>", "lstrip": false}, "chat_template": ` +
			string(quoted) + `}`},
		"one of several": {"tokenizer_config.json": `{"bos_token": "<s>", "chat_template": [{"name": "tool_use", "template": "not this"}, {"name": "default", "template": ` +
			string(quoted) + `}]}`},
		"no default at all": {"tokenizer_config.json": `{"bos_token": "<s>", "chat_template": [{"name": "rag", "template": ` +
			string(quoted) + `}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.vendor("", "qwen3_p128_l%d_together.axmodel", 1, "qwen3_post.axmodel")
			b.write("tok/tokenizer.json", []byte("{}"))
			for f, text := range files {
				b.write("tok/"+f, []byte(text))
			}
			p := b.open()
			tpl, err := p.Template()
			if err != nil {
				t.Fatal(err)
			}
			pieces, err := tpl.Render(t.Context(), chat.Conversation{Messages: []chat.Message{{Role: "user", Content: "hi"}}})
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			for _, q := range pieces {
				text.WriteString(q.Text)
			}
			if text.String() != "<s>[user]hi" || tpl.Source() != src {
				t.Errorf("%q from %q", text.String(), tpl.Source())
			}
			for f := range files {
				if !slices.Contains(p.Files(), "tok/"+f) {
					t.Errorf("%s is not one of the package's files %v", f, p.Files())
				}
			}
		})
	}
	for prefix, want := range map[string]string{"qwen3_p128_": "<|im_start|>user\nhi<|im_end|>", "mystery_p128_": "hi"} {
		t.Run("none, "+prefix, func(t *testing.T) {
			b := newBench(t)
			b.vendor("", prefix+"l%d_together.axmodel", 1, "x_post.axmodel")
			b.write("tokenizer.json", []byte("{}"))
			p := b.open()
			tpl, err := p.Template()
			if err != nil {
				t.Fatal(err)
			}
			pieces, err := tpl.Render(t.Context(), chat.Conversation{Messages: []chat.Message{{Role: "user", Content: "hi"}}})
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			for _, q := range pieces {
				text.WriteString(q.Text)
			}
			if !strings.Contains(text.String(), want) || noted(p, "no chat template is known") != (want == "hi") {
				t.Errorf("%q, notes %q", text.String(), p.Notes)
			}
			if got := p.Capabilities(); slices.Contains(got, "tools") != (want != "hi") ||
				slices.Contains(got, "thinking") != (want != "hi") {
				t.Errorf("capabilities %v", got)
			}
		})
	}
	t.Run("bad", func(t *testing.T) {
		b := newBench(t)
		b.vendor("", "qwen3_p128_l%d_together.axmodel", 1, "qwen3_post.axmodel")
		b.write("tokenizer.json", []byte("{}"))
		b.write("chat_template.jinja", []byte("{% for x in %}"))
		p := b.open()
		var e *models.Error
		if _, err := p.Template(); !errors.As(err, &e) || !strings.Contains(err.Error(), "chat_template.jinja") {
			t.Errorf("%v", err)
		}
		if !slices.Equal(p.Capabilities(), []string{"completion"}) {
			t.Errorf("capabilities %v", p.Capabilities())
		}
	})
}

// A folder of a Hugging Face cache, where files are links beside the snapshot, opens at the
// repository's level.
func TestHubCache(t *testing.T) {
	b := newBench(t)
	b.must(modelstest.Write(b.dir, "A"))
	list, err := os.ReadDir(b.dir)
	b.must(err)
	b.must(os.MkdirAll(b.path("snapshots/0123"), 0o755))
	b.must(os.MkdirAll(b.path("blobs"), 0o755))
	for i, e := range list {
		b.rename(e.Name(), fmt.Sprintf("blobs/%040d", i))
		b.link(fmt.Sprintf("../../blobs/%040d", i), "snapshots/0123/"+e.Name())
	}
	p := b.open()
	if p.Layout != "B" || p.Vocab != 320 {
		t.Errorf("layout %s", p.Layout)
	}
	if real, err := os.Stat(p.Layers[0]); err != nil || !real.Mode().IsRegular() || !strings.Contains(p.Layers[0], "blobs") {
		t.Errorf("layer %q, %v", p.Layers[0], err)
	}
}

// A copy is the same package.
func TestCopy(t *testing.T) {
	b := newBench(t)
	b.must(modelstest.Write(b.dir, "A"))
	p := b.open()
	other := newBench(t)
	b.must(os.CopyFS(filepath.Join(other.dir, "copy"), os.DirFS(b.dir)))
	q, err := models.Open(filepath.Join(other.dir, "copy"))
	b.must(err)
	defer q.Close()
	if p.Digest() != q.Digest() {
		t.Errorf("%s and %s", p.Digest(), q.Digest())
	}
}

//go:embed doc.go
var embedded embed.FS

func TestMaterialize(t *testing.T) {
	if _, err := models.Materialize(fstest.MapFS{}, t.TempDir()); !errors.Is(err, models.ErrNotPackage) {
		t.Errorf("no files: %v, want ErrNotPackage", err)
	}
	cache := filepath.Join(t.TempDir(), "cache")
	var dirs [8]string
	var wg sync.WaitGroup
	for i := range dirs {
		wg.Go(func() {
			var err error
			if dirs[i], err = models.Materialize(embedded, cache); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, d := range dirs {
		if d != dirs[0] {
			t.Errorf("%s and %s", d, dirs[0])
		}
	}
	file := filepath.Join(dirs[0], "doc.go")
	want, err := embedded.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("rotten"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := models.Materialize(embedded, cache); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("a rotten file was not replaced: %q, %v", got, err)
	}
	left, err := os.ReadDir(cache)
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestOpenFS(t *testing.T) {
	p, err := models.OpenFS(os.DirFS("../testdata"), "packages/C")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if p.Layout != "C" || p.Dir != "" || p.Layers[0] != "qwen3-0.1b-ax650/qwen3_p16_l0_together.axmodel" {
		t.Errorf("%s %q %q", p.Layout, p.Dir, p.Layers[0])
	}
	for _, bad := range []string{"packages/nope", "../x", "/etc"} {
		if _, err := models.OpenFS(os.DirFS("../testdata"), bad); !errors.Is(err, models.ErrNotPackage) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestHumanBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1 KB", 1234567: "1.2 MB", 12345678: "12 MB",
		1_200_000_000: "1.2 GB", 5e12: "5 TB"} {
		if got := models.HumanBytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// What is in a folder, without a card: layers, shapes, the memory they will take, and what had to
// be inferred.
func ExampleOpen() {
	p, err := models.Open("../testdata/packages/E")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	fmt.Println(p.Family, len(p.Layers), "layers,", p.Vocab, "tokens, context", p.Context)
	fmt.Println(p.Notes[0][:24])
	m := p.Memory()
	fmt.Println(m.Card == m.Layers+m.Head+m.Cache+m.IO, m.Host == int64(p.Vocab*p.Hidden*2))
	fmt.Println(p.Embed.Row(make([]uint16, p.Hidden), 320))
	// Output:
	// qwen3 2 layers, 320 tokens, context 64
	// config.json is empty: th
	// true true
	// models: token 320 has no embedding: the table has 320 rows
}
