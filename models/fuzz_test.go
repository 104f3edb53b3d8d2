package models

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// quick fails a fuzz case that takes longer than any real file could.
func quick(t *testing.T, start time.Time) {
	t.Helper()
	if d := time.Since(start); d > 10*time.Second {
		t.Fatalf("took %v", d)
	}
}

// A config.json is refused or gives numbers within their limits.
func FuzzConfig(f *testing.F) {
	for _, s := range []string{
		`{"model_name":"a","tokenizer_type":"Qwen3","url_tokenizer_model":"t.txt","template_filename_axmodel":"l%d.axmodel","axmodel_num":28,"tokens_embed_num":151936,"tokens_embed_size":1024}`,
		`{"tokenizer_type":2,"axmodel_num":"28","bos":0,"eos":1,"devices":"0,","b_use_mmap_load_embed":1}`,
		`{"text_config":{"full_attention_interval":4,"layer_types":["full_attention"],"sliding_window":512,"num_kv_shared_layers":20}}`,
		`{"axmodel_num":1e400,"tokens_embed_num":-0,"devices":[0,1,999],"layer_types":null,"VLM_TYPE":"None","embedding_type":1}`,
		`{"architectures":["Qwen3ForCausalLM"],"hidden_size":1024,"eos_token_id":[1,2,-1],"num_key_value_heads":8}`, `{"a":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`, ``, `null`, `[]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		defer quick(t, time.Now())
		o, err := parseObject(data)
		if err != nil {
			return
		}
		parseFacts(o)
		vendorSampling(o)
		hubSampling(o)
		poolingOf(o)
		c, err := parseConfig(o)
		if err != nil {
			return
		}
		if c.Layers < 0 || c.Layers > maxLayers || c.Vocab < 0 || c.Vocab > maxVocab || c.Hidden < 0 || c.Hidden > maxHidden || len(c.LayerTypes) > maxLayers || len(c.Devices) > 256 {
			t.Fatalf("out of its limits: %+v", c)
		}
	})
}

// A run script gives flags or nothing, and never more than it is long.
func FuzzRunScript(f *testing.F) {
	for _, s := range []string{
		"./main \\\n--template_filename_axmodel \"x/l%d.axmodel\" \\\n--axmodel_num 28 \\\n",
		"A=./d\nB=\"$A/e\"\n./main --template_filename_axmodel=\"${B}/l%d\" --bos 0 --eos 0 # no\n",
		"export X='a b'\nX=$X$X\nX=$X$X\nX=$X$X\n./m --template_filename_axmodel $X",
		"./m --template_filename_axmodel 'l%d' \\    # comment\n--axmodel_num 2 --live_print",
		"\\", "\"", "'", "${", "$", "--", "-- --=", "#\\\n#", "a=b\\", "$1 ${2} ${a:-b}", "./m --template_filename_axmodel l%d --=x",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		defer quick(t, time.Now())
		o := parseScript(s)
		if o == nil {
			return
		}
		if o.str("template_filename_axmodel") == "" {
			t.Fatal("flags without a template")
		}
		for k, v := range o {
			if len(v) > 8*maxWord+8*len(s) || k == "" {
				t.Fatalf("%q is %d bytes, out of a script of %d", k, len(v), len(s))
			}
		}
	})
}

// A .npy header is refused or describes a table that fits the file exactly.
func FuzzNpy(f *testing.F) {
	add := func(version byte, header string, data int) {
		b := append([]byte("\x93NUMPY"), version, 0, byte(len(header)), byte(len(header)>>8))
		if version > 1 {
			b = append(b, 0, 0)
		}
		f.Add(append(append(b, header...), make([]byte, data)...))
	}
	add(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }\n", 24)
	add(1, "{'descr': '<f2', 'fortran_order': False, 'shape': (3L, 2L), }", 12)
	add(2, "{'descr': '|V2', 'fortran_order': False, 'shape': (3,2)}", 12)
	add(3, "{\"descr\": \"bfloat16\", \"fortran_order\": False, \"shape\": (1, 1)}", 2)
	add(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3, 2)}", 24)
	add(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9223372036854775807)}", 0)
	add(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 2)}", 0)
	f.Fuzz(func(t *testing.T, data []byte) {
		defer quick(t, time.Now())
		h, err := readNpy(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		if h.rows < 1 || h.cols < 1 || h.offset < 10 || h.offset+h.rows*h.cols*h.kind.bytes() != int64(len(data)) {
			t.Fatalf("%+v in a file of %d", h, len(data))
		}
	})
}

// Whatever files a folder lists and whatever its configuration says, a plan names only files that are there.
func FuzzPlan(f *testing.F) {
	f.Add("config.json\nqwen3_p128_l0_together.axmodel\nqwen3_post.axmodel\nmodel.embed_tokens.weight.bfloat16.bin\ntokenizer.json", `{"template_filename_axmodel":"qwen3_p128_l%d_together.axmodel","axmodel_num":1}`)
	f.Add("l0.axmodel\nl1.axmodel\npost.axmodel\nembed.npy", "")
	f.Add("run_a.sh\na/x_l0.axmodel\na/x_post.axmodel\na/embed.bin", "./m --template_filename_axmodel a/x_l%d.axmodel --axmodel_num 1")
	f.Add("vlm/x/config.json\n../evil\nl%d.axmodel\nl0_%d.axmodel", `{"template_filename_axmodel":"../../l%d.axmodel"}`)
	f.Fuzz(func(t *testing.T, listing, config string) {
		if len(listing) > 4096 {
			return
		}
		defer quick(t, time.Now())
		sizes, small := map[string]int64{}, fstest.MapFS{}
		for name := range strings.SplitSeq(listing, "\n") {
			sizes[name] = 5000
			if strings.HasSuffix(name, ".json") || strings.HasSuffix(name, ".sh") {
				small[name] = &fstest.MapFile{Data: []byte(config)}
				sizes[name] = int64(len(config))
			}
		}
		need, err := Select(sizes, small)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		for _, name := range need {
			if _, ok := sizes[name]; !ok {
				t.Fatalf("%q is needed but not there", name)
			}
		}
	})
}

func TestBF16(t *testing.T) {
	for _, c := range []struct {
		in   float32
		want uint16
	}{{0, 0}, {1, 0x3f80}, {-1, 0xbf80}, {1.00390625, 0x3f80}, {1.01171875, 0x3f82}, {float32(math.Inf(1)), 0x7f80}, {math.MaxFloat32, 0x7f80}, {1e-45, 0}} {
		if got := toBF16(c.in); got != c.want {
			t.Errorf("%g is %04x, want %04x", c.in, got, c.want)
		}
	}
	if got := toBF16(float32(math.NaN())); fromBF16(got) == fromBF16(got) {
		t.Errorf("NaN became %04x", got)
	}
	for v := range uint16(0xffff) {
		if f := fromBF16(v); f == f && toBF16(f) != v {
			t.Fatalf("%04x does not survive", v)
		}
	}
}
