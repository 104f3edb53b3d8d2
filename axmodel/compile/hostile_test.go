package compile

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/axle-llm/axle/internal/fuzzguard"
)

func TestHostileSafetensors(t *testing.T) {
	//proves:T1
	for _, c := range hostileSafetensors {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "model.safetensors"), c.file, 0o600); err != nil {
				t.Fatal(err)
			}
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err = openCheckpoint(root)
			runtime.ReadMemStats(&after)
			var e *Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) || !strings.HasSuffix(e.Path, "model.safetensors") {
				t.Errorf("%v, want an error that says %q", err, c.want)
			}
			if spent := after.TotalAlloc - before.TotalAlloc; spent > 8<<20 {
				t.Errorf("%d bytes of memory for a file of %d", spent, len(c.file))
			}
		})
	}
}

func header(json string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(json)))
	return append(append(b, json...), make([]byte, data)...)
}

var hostileSafetensors = []struct {
	name string
	file []byte
	want string
}{
	{"empty", nil, "cut short"},
	{"seven bytes", make([]byte, 7), "cut short"},
	{"LFS pointer", []byte("version https://git-lfs.github.com/spec/v1\n"), "LFS pointer"},
	{"header past the end", binary.LittleEndian.AppendUint64(nil, 1), "claims"},
	{"header of 2⁶³", binary.LittleEndian.AppendUint64(nil, 1<<63), "claims"},
	{"header of 2⁶⁴−1", binary.LittleEndian.AppendUint64(nil, math.MaxUint64), "claims"},
	{"header too large", append(binary.LittleEndian.AppendUint64(nil, 17<<20), make([]byte, 17<<20)...), "at most"},
	{"no JSON", header("hello", 0), "broken header"},
	{"a list", header("[]", 0), "broken header"},
	{"a tensor that is a number", header(`{"x":5}`, 0), `"x"`},
	{"deep", header(strings.Repeat(`{"a":`, 20000), 0), "broken header"},
	{"unknown type", header(`{"x":{"dtype":"Q4","shape":[1],"data_offsets":[0,1]}}`, 8), "unknown type"},
	{"no type", header(`{"x":{"shape":[1],"data_offsets":[0,4]}}`, 8), "unknown type"},
	{"no offsets", header(`{"x":{"dtype":"F32","shape":[1]}}`, 8), "0 offsets"},
	{"three offsets", header(`{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}}`, 8), "3 offsets"},
	{"backwards", header(`{"x":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}`, 8), "lies at"},
	{"negative", header(`{"x":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}`, 8), "lies at"},
	{"past the end", header(`{"x":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}`, 8), "lies at"},
	{"at 2⁶³−1", header(`{"x":{"dtype":"F32","shape":[1],"data_offsets":[9223372036854775803,9223372036854775807]}}`, 8), "lies at"},
	{"shape too small", header(`{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}}`, 8), "8 bytes"},
	{"shape too large", header(`{"x":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}`, 8), "8 bytes"},
	{"shape negative", header(`{"x":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, 8), "does not fit"},
	{"shape overflows", header(`{"x":{"dtype":"F32","shape":[2147483647,2147483647,2147483647],"data_offsets":[0,4]}}`, 8), "does not fit"},
	{"shape wraps to zero", header(`{"x":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 8), "does not fit"},
	{"nine dimensions", header(`{"x":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}}`, 8), "9 dimensions"},
	{"shape of fractions", header(`{"x":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}}`, 8), `"x"`},
}

func TestHostileCheckpoints(t *testing.T) {
	type files map[string]string
	for name, c := range map[string]struct {
		files files
		want  string
	}{
		"no weights":       {files{}, "holds no *.safetensors"},
		"index is no JSON": {files{"model.safetensors.index.json": "{"}, "index.json"},
		"index escapes":    {files{"model.safetensors.index.json": `{"weight_map":{"x":"../../secret.safetensors"}}`}, "cannot be opened"},
		"shard missing":    {files{"model.safetensors.index.json": `{"weight_map":{"x":"a.safetensors"}}`}, "a.safetensors"},
		"shard lacks a tensor": {files{"model.safetensors.index.json": `{"weight_map":{"x":"a.safetensors"}}`,
			"a.safetensors": string(header(`{}`, 0))},
			`no tensor "x"`},
		"tensor in two shards": {files{"a.safetensors": string(header(`{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4)),
			"b.safetensors": string(header(`{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4))}, "has too"},
	} {
		dir := t.TempDir()
		for n, b := range c.files {
			if err := os.WriteFile(filepath.Join(dir, n), []byte(b), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		_, err = openCheckpoint(root)
		root.Close()
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error that says %q", name, err, c.want)
		}
	}
}

const goodConfig = `{"model_type":"qwen3","hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,"intermediate_size":96,"vocab_size":320`

func TestConfigErrors(t *testing.T) {
	for name, c := range map[string]struct{ more, want string }{
		"no model":             {`,"model_type":""}`, "model_type"},
		"mamba":                {`,"model_type":"mamba"}`, `"mamba" cannot be compiled`},
		"gemma2":               {`,"model_type":"gemma2"}`, "cannot be compiled"},
		"no layers":            {`,"num_hidden_layers":0}`, "num_hidden_layers is 0"},
		"negative hidden":      {`,"hidden_size":-64}`, "hidden_size is -64"},
		"a million layers":     {`,"num_hidden_layers":1000000}`, "too many"},
		"heads do not share":   {`,"num_key_value_heads":3}`, "cannot share"},
		"odd head":             {`,"head_dim":15}`, "head_dim is 15"},
		"another activation":   {`,"hidden_act":"relu"}`, `"relu"`},
		"soft cap":             {`,"final_logit_softcapping":30}`, "soft-capped"},
		"epsilon":              {`,"rms_norm_eps":2}`, "rms_norm_eps"},
		"theta":                {`,"rope_theta":-1}`, "rope_theta"},
		"partial rotation":     {`,"partial_rotary_factor":0.5}`, "partial_rotary_factor"},
		"dynamic rope":         {`,"rope_scaling":{"type":"dynamic","factor":2}}`, `"dynamic" cannot be compiled`},
		"longrope, no factors": {`,"max_position_embeddings":4096,"rope_scaling":{"type":"longrope","factor":2}}`, "0 short factors for 8"},
		"longrope of no length": {`,"rope_scaling":{"type":"longrope","factor":2,"short_factor":[1,1,1,1,1,1,1,1]}}`,
			"original_max_position_embeddings of 0"},
		"longrope by nothing": {`,"max_position_embeddings":4096,"rope_scaling":{"type":"longrope","factor":2,` +
			`"short_factor":[1,1,1,1,0,1,1,1]}}`, "short factor 0"},
		"no factor":           {`,"rope_scaling":{"type":"linear"}}`, "factor 0"},
		"llama3 factors":      {`,"rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":4,"high_freq_factor":1}}`, "llama3"},
		"yarn of no length":   {`,"rope_scaling":{"type":"yarn","factor":4}}`, "original_max_position_embeddings"},
		"too few layer types": {`,"layer_types":["full_attention"]}`, "1 entries"},
		"linear attention":    {`,"layer_types":["full_attention","linear_attention"]}`, "linear_attention"},
		"window of nothing":   {`,"layer_types":["full_attention","sliding_attention"]}`, "sliding_window"},
		"eos is a word":       {`,"eos_token_id":"stop"}`, "eos_token_id"},
		"cut":                 {``, "config.json"},
		"numbers as words":    {`,"hidden_size":"64"}`, "config.json"},
		"text_config a list":  {`,"text_config":[1]}`, "text_config"},
	} {
		_, err := parseConfig([]byte(goodConfig + c.more))
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error that says %q", name, err, c.want)
		}
	}
	if _, err := parseConfig([]byte(goodConfig + "}")); err != nil {
		t.Error(err)
	}
}

// TestLongRope: longrope is computed as Hugging Face does for texts of up to the original length,
// wherever that and the factor stand.
func TestLongRope(t *testing.T) {
	const short = `"short_factor":[1,1.25,1.5,2,2.5,4,5,8]`
	const longer = `,"max_position_embeddings":4096`
	const original = `"original_max_position_embeddings":1024`
	const same = `,"max_position_embeddings":1024`
	scaling := func(more string) string { return `,"rope_scaling":{"type":"longrope",` + more + short + `}` }
	for name, c := range map[string]struct {
		more      string
		most      int
		magnitude float64
	}{
		"beside":        {longer + "," + original + scaling(""), 1024, math.Sqrt(1.2)},
		"beside, first": {longer + "," + original + scaling(`"factor":99,`), 1024, math.Sqrt(1.2)},
		"within":        {longer + `,"rope_parameters":{"rope_type":"longrope",` + original + "," + short + "}", 1024, math.Sqrt(1.2)},
		"a factor":      {same + scaling(`"factor":4,`), 1024, math.Sqrt(1.2)},
		"no longer":     {same + "," + original + scaling(""), 1024, 1},
		"given":         {longer + "," + original + scaling(`"attention_factor":1.5,`), 1024, 1.5},
	} {
		a, err := parseConfig([]byte(goodConfig + c.more + "}"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r := a.ropes[0]
		if r.most != c.most || math.Abs(r.magnitude-c.magnitude) > 1e-9 || len(r.freq) != 8 {
			t.Errorf("%s: %+v", name, r)
		}
		for i, f := range []float64{1, 1.25, 1.5, 2, 2.5, 4, 5, 8} {
			if want := math.Pow(10, -float64(i)/2) / f; math.Abs(float64(r.freq[i])-want) > 1e-6*want {
				t.Errorf("%s: frequency %d is %v, want %v", name, i, r.freq[i], want)
			}
		}
		for context, want := range map[int]string{1024: "", 1025: "with a context of at most 1024", 0: "with a context of at most 1024"} {
			j := &job{a: a, Options: Options{Context: context, From: "here", Name: "m"}, c: &checkpoint{}}
			root, err := os.OpenRoot(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			j.root = root
			if err := j.settle(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s, a context of %d: %v", name, context, err)
			}
			root.Close()
		}
	}
}

// What a model whose layers have a state says of them is checked too.
func TestConfigErrorsOfStates(t *testing.T) {
	const good = goodConfig + `,"model_type":"qwen3_5_text","layer_types":["linear_attention","full_attention"],"linear_num_key_heads":2,
		"linear_num_value_heads":4,"head_dim":32`
	for name, c := range map[string]struct{ more, want string }{
		"types of three layers":   {`,"layer_types":["linear_attention","full_attention","full_attention"]`, "3 entries for 2 layers"},
		"a window":                {`,"layer_types":["linear_attention","sliding_attention"]`, `layer 1 is "sliding_attention"`},
		"none has full attention": {`,"layer_types":[]`, "none of 2 layers"},
		"an interval below 0":     {`,"layer_types":[],"full_attention_interval":-1`, "full_attention_interval is -1"},
		"no key head":             {`,"linear_num_key_heads":0`, "linear_num_key_heads is 0"},
		"a million value heads":   {`,"linear_num_value_heads":1000000`, "linear_num_value_heads is 1000000"},
		"heads do not share":      {`,"linear_num_value_heads":5`, "cannot share"},
		"a key head below 0":      {`,"linear_key_head_dim":-1`, "linear_key_head_dim is -1"},
		"value heads of a 2³¹":    {`,"linear_value_head_dim":2147483648`, "linear_value_head_dim is"},
		"no convolution":          {`,"linear_conv_kernel_dim":1`, "linear_conv_kernel_dim is 1"},
		"more than all is turned": {`,"partial_rotary_factor":1.5`, "partial_rotary_factor is 1.5"},
		"nothing is turned":       {`,"rope_parameters":{"partial_rotary_factor":0.01}`, "turns 0 values"},
		"half a pair is turned":   {`,"rope_parameters":{"partial_rotary_factor":0.1}`, "turns 3 values"},
	} {
		_, err := parseConfig([]byte(good + c.more + "}"))
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error that says %q", name, err, c.want)
		}
	}
	a, err := parseConfig([]byte(good + "}"))
	if err != nil || !a.gate || a.KeyDim != 128 || a.ValueDim != 128 || len(a.ropes[0].freq) != 4 || a.ropes[0].theta != 1e7 {
		t.Errorf("%v, %+v", err, a)
	}
}

// TestSectionsOfStates: without mrope_section Qwen3.5's 32 frequencies are shared out to three axes
// as Hugging Face does it, for a model that sees, and only there.
func TestSectionsOfStates(t *testing.T) {
	const text = goodConfig + `,"model_type":"qwen3_5_text","layer_types":["linear_attention","full_attention"],"linear_num_key_heads":2,
		"linear_num_value_heads":4,"head_dim":256`
	const tower = `,"vision_config":{"hidden_size":32,"num_heads":2,"out_hidden_size":64}`
	for vision, want := range map[string][3]int{"": {}, tower: {11, 11, 10}} {
		a, err := parseConfig([]byte(`{"model_type":"qwen3_5","text_config":` + text + "}" + vision + "}"))
		if err != nil {
			t.Fatal(err)
		}
		var got [3]int
		for _, k := range a.ropes[0].axis {
			got[int(k)]++
		}
		if got != want || len(a.ropes[0].freq) != 32 {
			t.Errorf("%d frequencies, %v by axis, want %v", len(a.ropes[0].freq), got, want)
		}
	}
}

func FuzzSafetensors(f *testing.F) {
	//proves:T1
	for _, c := range hostileSafetensors {
		if len(c.file) < 1<<16 {
			f.Add(c.file)
		}
	}
	f.Add(header(`{"x":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]}}`, 12))
	f.Add(header(`{"x":{"dtype":"F16","shape":[0,3],"data_offsets":[0,0]}}`, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzguard.Check(t, len(b), func() {
			ws, err := readSafetensors(bytes.NewReader(b), int64(len(b)), "fuzz")
			if err != nil {
				var e *Error
				if !errors.As(err, &e) {
					t.Fatalf("%T: %v", err, err)
				}
				return
			}
			for name, w := range ws {
				if w.offset < 8 || w.size < 0 || w.offset+w.size > int64(len(b)) {
					t.Fatalf("%s: %+v", name, w)
				}
				if (w.dtype == "F32" || w.dtype == "F16" || w.dtype == "BF16") && w.size > 0 {
					row := w.reader(name)
					for r := range min(w.rows(), 50) {
						if err := row(make([]float32, w.cols()), r); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
		})
	})
}

// An index is refused or names at most a thousand files, each once and each for a tensor.
func FuzzIndex(f *testing.F) {
	//proves:T1
	f.Add([]byte(`{"metadata":{"total_size":9},"weight_map":{"model.embed_tokens.weight":"model-00001-of-00002.safetensors","lm_head.weight":"model-00002-of-00002.safetensors","x":"model-00002-of-00002.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"x":"../../secret.safetensors"}}`))
	f.Add([]byte(`{"weight_map":[1]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzguard.Check(t, len(b), func() { indexed(t, b) })
	})
}

func indexed(t *testing.T, b []byte) {
	t.Helper()
	index, files, err := parseIndex(b)
	if err != nil {
		return
	}
	want := map[string]bool{}
	for _, f := range index {
		want[f] = true
	}
	for _, f := range files {
		if !want[f] {
			t.Fatalf("%q is named twice, or for no tensor", f)
		}
		delete(want, f)
	}
	if len(want) > 0 || len(files) > 1000 {
		t.Fatalf("%d files, %d of the tensors' are not among them", len(files), len(want))
	}
}

// A mebibyte of index or configuration keeps within the limits too; of safetensors, see
// TestHostileSafetensors.
func TestHostileIndex(t *testing.T) {
	//proves:G5 a mebibyte of hostile bytes each
	var few, many strings.Builder
	few.WriteString(`{"weight_map":{"":""`)
	many.WriteString(`{"weight_map":{"":""`)
	for i := 0; many.Len() < 1<<20-60; i++ {
		fmt.Fprintf(&few, `,"%x":"%d"`, i, i%999)
		fmt.Fprintf(&many, `,"%x":"%x"`, i, i)
	}
	for name, b := range map[string][]byte{"few files": []byte(few.String() + "}}"), "many files": []byte(many.String() + "}}"),
		"one key": fuzzguard.Fill(`{"weight_map":{"a":""`, `,"a":""`, `}}`)} {
		t.Run(name, func(t *testing.T) { fuzzguard.Check(t, len(b), func() { indexed(t, b) }) })
	}
	for name, b := range map[string][]byte{
		"layer types": fuzzguard.Fill(goodConfig+`,"layer_types":[""`, `,""`, `]}`),
		"stops":       fuzzguard.Fill(goodConfig+`,"eos_token_id":[1`, `,1`, `]}`),
		"rope":        fuzzguard.Fill(goodConfig+`,"rope_parameters":{"a":{}`, `,"a":{}`, `}}`),
	} {
		t.Run(name, func(t *testing.T) { fuzzguard.Check(t, len(b), func() { _, _ = parseConfig(b) }) })
	}
}

func FuzzConfigJSON(f *testing.F) {
	f.Add([]byte(goodConfig + "}"))
	f.Add([]byte(goodConfig + `,"rope_scaling":{"type":"yarn","factor":4,"original_max_position_embeddings":32}}`))
	f.Add([]byte(`{"model_type":"gemma3","text_config":{"num_hidden_layers":3,"sliding_window":7,"rope_scaling":{"rope_type":"linear","factor":8}}}`))
	f.Add([]byte(goodConfig + `,"rope_parameters":{"full_attention":{"rope_theta":1e6},"sliding_attention":{"rope_theta":1e4}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzguard.Check(t, len(b), func() {
			a, err := parseConfig(b)
			if err != nil {
				var e *Error
				if !errors.As(err, &e) {
					t.Fatalf("%T: %v", err, err)
				}
				return
			}
			if a.Heads%a.KVHeads != 0 || len(a.local) != a.Layers || len(a.ropes[0].freq) != a.HeadDim/2 ||
				len(a.ropes[1].freq) != a.HeadDim/2 {
				t.Fatalf("%+v", a)
			}
			for _, r := range a.ropes {
				for _, v := range r.freq {
					if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
						t.Fatalf("%+v", r)
					}
				}
			}
			var g generation
			if json.Unmarshal(b, &g) == nil {
				_ = toJSON(g.post())
			}
		})
	})
}
