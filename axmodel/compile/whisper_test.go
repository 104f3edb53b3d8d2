package compile_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestWhisper: a checkpoint becomes a package that models opens. Matrices take two bytes a value,
// unless four are asked for, and what the encoder hears differs by that rounding.
func TestWhisper(t *testing.T) {
	e := modelstest.Whisper{Seed: 1, Layout: "B"}
	from := t.TempDir()
	if err := e.Checkpoint(from); err != nil {
		t.Fatal(err)
	}
	heard, bytes := map[string][]float32{}, map[string]int64{}
	for _, quant := range []string{"", "fp32"} {
		out := filepath.Join(t.TempDir(), "package")
		var last compile.Progress
		r, err := compile.Run(context.Background(), compile.Options{From: from, Out: out, Quant: quant,
			Progress: func(p compile.Progress) { last = p }})
		if err != nil {
			t.Fatal(err)
		}
		if r.Layers != 4 || last.Done != r.Bytes || last.Total < r.Bytes || last.Total > r.Bytes*5/4 {
			t.Errorf("%+v, %+v", r, last)
		}
		o, err := models.OpenAny(out)
		if err != nil {
			t.Fatal(err)
		}
		w, ok := o.(*models.Whisper)
		if !ok || w.Mels != 80 || w.Layers != 2 || w.Vocab != e.IDs().Vocab || len(w.Languages) != len(e.Languages()) ||
			w.Tokens[300] != e.Tokens()[300] {
			t.Errorf("%T %+v", o, o.Info())
		}
		heard[quant], bytes[quant] = crossKeys(t, w), r.Bytes
		o.Close()
	}
	off, power := 0.0, 0.0
	for i, x := range heard["fp32"] {
		off += math.Pow(float64(x-heard[""][i]), 2)
		power += float64(x) * float64(x)
	}
	if share := math.Sqrt(off / power); !(share > 1e-5 && share < 0.02) {
		t.Errorf("bf16 is off by %g", share)
	}
	if bytes["fp32"] < bytes[""]*3/2 {
		t.Errorf("%d bytes in bf16, %d in fp32", bytes[""], bytes["fp32"])
	}
}

// TestWhisperUntied: a head of its own is taken where the checkpoint has one.
func TestWhisperUntied(t *testing.T) {
	e := modelstest.Whisper{Seed: 1, Layout: "B", Layers: 1}
	logits := func(untied bool) []float32 {
		from := t.TempDir()
		if err := e.Checkpoint(from); err != nil {
			t.Fatal(err)
		}
		if untied {
			addTensor(t, from, "proj_out.weight", e.IDs().Vocab, 64)
		}
		out := filepath.Join(t.TempDir(), "package")
		if _, err := compile.Run(context.Background(), compile.Options{From: from, Out: out}); err != nil {
			t.Fatal(err)
		}
		return called(t, filepath.Join(out, "whisper-decoder.axmodel"), "logits")
	}
	tied, own := logits(false), logits(true)
	zeros := 0
	for _, x := range own {
		if x == 0 {
			zeros++
		}
	}
	if zeros != len(own) || tied[0] == 0 {
		t.Errorf("%d of %d logits of a head of zeros are zero; the table's first is %g", zeros, len(own), tied[0])
	}
}

// TestWhisperRefused: what cannot be compiled is named, and nothing is left behind.
func TestWhisperRefused(t *testing.T) {
	whole := t.TempDir()
	if err := (modelstest.Whisper{Seed: 1, Layout: "B", Layers: 1}).Checkpoint(whole); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, file string
		set        map[string]any // keys of a JSON file; a nil takes one out
		want       string
	}{
		{"width", "config.json", map[string]any{"d_model": 65}, "cannot share a width of 65"},
		{"another width", "config.json", map[string]any{"d_model": 128}, "config.json asks for"},
		{"nothing", "config.json", map[string]any{"d_model": 0}, "d_model is 0, 1 to 4096"},
		{"mels", "config.json", map[string]any{"num_mel_bins": 100}, "num_mel_bins is 100, 80 and 128"},
		{"deeper", "config.json", map[string]any{"decoder_layers": 2}, `no tensor "model.decoder.layers.1.encoder_attn.k_proj.weight"`},
		{"half the rows", "config.json", map[string]any{"max_source_positions": 750}, "max_source_positions is 750"},
		{"activation", "config.json", map[string]any{"activation_function": "relu"}, `"relu" cannot be compiled, gelu can`},
		{"a text", "config.json", map[string]any{"vocab_size": "many"}, "cannot unmarshal"},
		{"English alone", "generation_config.json", map[string]any{"lang_to_id": nil}, "a model of English alone"},
		{"times", "generation_config.json", map[string]any{"no_timestamps_token_id": 9}, "no_timestamps_token_id is 9"},
		{"a language", "generation_config.json", map[string]any{"lang_to_id": map[string]int{"<|en|>": 5}}, `lang_to_id has "<|en|>" as 5`},
		{"a list", "generation_config.json", map[string]any{"lang_to_id": map[string]int{"<|en,de|>": 1060}}, `lang_to_id has "<|en,de|>"`},
		{"tasks", "generation_config.json", map[string]any{"task_to_id": map[string]int{}}, `task_to_id has "translate" as 0`},
		{"letters", "vocab.json", map[string]any{"水": 3}, `"水" is not spelled in bytes`},
		{"a hole", "vocab.json", map[string]any{"!": nil}, "has no token 0 of"},
	} {
		t.Run(c.name, func(t *testing.T) {
			from := t.TempDir()
			if err := os.CopyFS(from, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			name := filepath.Join(from, c.file)
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var o map[string]any
			if err := json.Unmarshal(b, &o); err != nil {
				t.Fatal(err)
			}
			for key, v := range c.set {
				if o[key] = v; v == nil {
					delete(o, key)
				}
			}
			if b, err = json.Marshal(o); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, b, 0o644); err != nil {
				t.Fatal(err)
			}
			refusedWhisper(t, compile.Options{From: from}, c.want)
		})
	}
	refusedWhisper(t, compile.Options{From: whole, Quant: "int8"}, "bf16 and fp32 are possible")
	refusedWhisper(t, compile.Options{From: whole, Name: "../x"}, "cannot be part of a file's name")
	for _, file := range []string{"generation_config.json", "vocab.json", "model.safetensors"} {
		from := t.TempDir()
		if err := os.CopyFS(from, os.DirFS(whole)); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(from, file)); err != nil {
			t.Fatal(err)
		}
		want := file
		switch file {
		case "vocab.json":
			want = "tokenizer.json" // which is looked for next
		case "model.safetensors":
			want = "holds no *.safetensors"
		}
		refusedWhisper(t, compile.Options{From: from}, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := filepath.Join(t.TempDir(), "package")
	if _, err := compile.Run(ctx, compile.Options{From: whole, Out: out}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// BenchmarkWhisperTiny times the nets of whisper-tiny's shape: four layers 384 wide, and 51,865
// tokens. Half a minute of speech is one call of the encoder and about a hundred of the decoder.
func BenchmarkWhisperTiny(b *testing.B) {
	from, out := b.TempDir(), filepath.Join(b.TempDir(), "package")
	tiny(b, from)
	if _, err := compile.Run(context.Background(), compile.Options{From: from, Out: out}); err != nil {
		b.Fatal(err)
	}
	d, err := soft.Open(soft.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	for b.Loop() {
		total := time.Duration(0)
		for _, c := range []struct {
			name  string
			calls int
		}{{"encoder", 1}, {"decoder", 100}} {
			n, err := d.LoadNet(filepath.Join(out, "whisper-"+c.name+".axmodel"))
			if err != nil {
				b.Fatal(err)
			}
			in, result := buffers(n)
			start := time.Now()
			for range c.calls {
				if err := n.Run(0, in, result); err != nil {
					b.Fatal(err)
				}
			}
			took := time.Since(start)
			b.ReportMetric(took.Seconds()*1e3/float64(c.calls), "ms/"+c.name)
			total += took
			n.Close()
		}
		b.ReportMetric(30/total.Seconds(), "times-as-fast-as-speech")
	}
}

// tiny writes a random checkpoint of whisper-tiny's shape.
func tiny(t testing.TB, dir string) {
	const d, layers, vocab = 384, 4, 51865
	shapes := map[string][]int{"encoder.conv1.weight": {d, 80, 3}, "encoder.conv1.bias": {d}, "encoder.conv2.weight": {d, d, 3},
		"encoder.conv2.bias": {d}, "encoder.embed_positions.weight": {1500, d}, "decoder.embed_positions.weight": {448, d},
		"decoder.embed_tokens.weight": {vocab, d}}
	norm := func(name string) { shapes[name+".weight"], shapes[name+".bias"] = []int{d}, []int{d} }
	attention := func(name string) {
		norm(name + "_layer_norm")
		for _, p := range []string{".q_proj", ".k_proj", ".v_proj", ".out_proj"} {
			if shapes[name+p+".weight"] = []int{d, d}; p != ".k_proj" {
				shapes[name+p+".bias"] = []int{d}
			}
		}
	}
	for _, part := range []string{"encoder", "decoder"} {
		norm(part + ".layer_norm")
		for i := range layers {
			name := fmt.Sprintf("%s.layers.%d.", part, i)
			if attention(name + "self_attn"); part == "decoder" {
				attention(name + "encoder_attn")
			}
			shapes[name+"fc1.weight"], shapes[name+"fc1.bias"] = []int{4 * d, d}, []int{4 * d}
			shapes[name+"fc2.weight"], shapes[name+"fc2.bias"] = []int{d, 4 * d}, []int{d}
			norm(name + "final_layer_norm")
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	header, data := map[string]any{}, []byte(nil)
	for name, dims := range shapes {
		from, n := len(data), 1
		for _, k := range dims {
			n *= k
		}
		for range n {
			data = binary.LittleEndian.AppendUint16(data, axcl.BFloat16(float32(rng.NormFloat64())*0.05))
		}
		header["model."+name] = map[string]any{"dtype": "BF16", "shape": dims, "data_offsets": []int{from, len(data)}}
	}
	languages, tokens := map[string]int{}, map[string]int{}
	for i := range 99 {
		languages[fmt.Sprintf("<|l%d|>", i)] = 50259 + i
	}
	for i := range 50257 {
		tokens[fmt.Sprint("t", i)] = i
	}
	text := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for file, b := range map[string][]byte{"model.safetensors": axmodeltest.Safetensors(header, data),
		"config.json": text(map[string]any{"model_type": "whisper", "d_model": d, "num_mel_bins": 80, "vocab_size": vocab,
			"encoder_layers": layers, "decoder_layers": layers, "encoder_attention_heads": 6, "decoder_attention_heads": 6,
			"encoder_ffn_dim": 4 * d, "decoder_ffn_dim": 4 * d,
			"max_source_positions": 1500, "max_target_positions": 448, "activation_function": "gelu", "decoder_start_token_id": 50258,
			"eos_token_id": 50257}),
		"generation_config.json": text(map[string]any{"lang_to_id": languages, "no_timestamps_token_id": 50363,
			"task_to_id": map[string]int{"translate": 50358, "transcribe": 50359}, "suppress_tokens": []int{1, 2}}),
		"vocab.json": text(tokens)} {
		if err := os.WriteFile(filepath.Join(dir, file), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// refusedWhisper compiles what is to be refused.
func refusedWhisper(t *testing.T, o compile.Options, want string) {
	t.Helper()
	parent := t.TempDir()
	o.Out = filepath.Join(parent, "package")
	_, err := compile.Run(context.Background(), o)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	if left, _ := os.ReadDir(parent); len(left) > 0 {
		t.Errorf("%v: %v is left", err, left)
	}
}

// addTensor adds a tensor of zeros to a checkpoint's file.
func addTensor(t *testing.T, dir, name string, dims ...int) {
	t.Helper()
	n := 4
	for _, d := range dims {
		n *= d
	}
	header := map[string]any{name: map[string]any{"dtype": "F32", "shape": dims, "data_offsets": []int{0, n}}}
	b := axmodeltest.Safetensors(header, make([]byte, n))
	if err := os.Rename(filepath.Join(dir, "model.safetensors"), filepath.Join(dir, "a.safetensors")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "b.safetensors"), b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// crossKeys is what the encoder makes of a sound.
func crossKeys(t *testing.T, w *models.Whisper) []float32 {
	t.Helper()
	return called(t, w.Encoder.Path, "cross_k")
}

// called is an output of a net whose inputs are a little of everything.
func called(t *testing.T, path, output string) []float32 {
	t.Helper()
	d, err := soft.Open(soft.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	n, err := d.LoadNet(path)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	in, out := buffers(n)
	for i, tensor := range n.Inputs(0) {
		if tensor.Type == axcl.FP32 {
			for k := 0; k < tensor.Size; k += 4 {
				binary.LittleEndian.PutUint32(in[tensor.Name][k:], math.Float32bits(float32(math.Sin(float64(k/4*(i+1))))))
			}
		}
	}
	if err := n.Run(0, in, out); err != nil {
		t.Fatal(err)
	}
	values := make([]float32, len(out[output])/4)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(out[output][4*i:]))
	}
	return values
}

// buffers are a net's inputs, all zero, and room for its outputs.
func buffers(n axcl.Net) (in, out map[string][]byte) {
	in, out = map[string][]byte{}, map[string][]byte{}
	for _, t := range n.Inputs(0) {
		in[t.Name] = make([]byte, t.Size)
	}
	for _, t := range n.Outputs(0) {
		out[t.Name] = make([]byte, t.Size)
	}
	return in, out
}
