package models

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/models/modelstest"
)

// A config.json is refused or gives numbers within their limits.
func FuzzConfig(f *testing.F) {
	//proves:T1
	for _, s := range []string{
		`{"model_name":"a","tokenizer_type":"Qwen3","url_tokenizer_model":"t.txt","template_filename_axmodel":"l%d.axmodel","axmodel_num":28,"tokens_embed_num":151936,"tokens_embed_size":1024}`,
		`{"tokenizer_type":2,"axmodel_num":"28","bos":0,"eos":1,"devices":"0,","b_use_mmap_load_embed":1}`,
		`{"text_config":{"full_attention_interval":4,"layer_types":["full_attention"],"sliding_window":512,"num_kv_shared_layers":20}}`,
		`{"axmodel_num":1e400,"tokens_embed_num":-0,"devices":[0,1,999],"layer_types":null,"VLM_TYPE":"None","embedding_type":1}`,
		`{"architectures":["Qwen3ForCausalLM"],"hidden_size":1024,"eos_token_id":[1,2,-1],"num_key_value_heads":8}`,
		`{"a":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`, ``, `null`, `[]`,
	} {
		f.Add([]byte(s))
	}
	for _, pattern := range []string{"../testdata/packages/*/*config.json", "../testdata/packages/*/*/*config.json",
		"../testdata/packages/F/mode_*.json", "pocket/pocket/*.json", "pocket/pocket/pocket_tokenizer/*config.json"} {
		for _, data := range fuzzguard.Seeds(f, 1<<16, pattern) {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzzguard.Check(t, len(data), func() {
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
			if c.Layers < 0 || c.Layers > maxLayers || c.Vocab < 0 || c.Vocab > maxVocab || c.Hidden < 0 || c.Hidden > maxHidden ||
				len(c.LayerTypes) > maxLayers {
				t.Fatalf("out of its limits: %+v", c)
			}
		})
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
	for _, data := range fuzzguard.Seeds(f, 1<<16, "../testdata/packages/E/*.sh") {
		f.Add(string(data))
	}
	f.Fuzz(func(t *testing.T, s string) {
		fuzzguard.Check(t, len(s), func() {
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
	})
}

// A .npy header is refused or describes a table that fits the file exactly.
func FuzzNpy(f *testing.F) {
	//proves:T1
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
		fuzzguard.Check(t, len(data), func() {
			h, err := readNpy(bytes.NewReader(data), int64(len(data)))
			if err != nil {
				return
			}
			if h.rows < 1 || h.cols < 1 || h.offset < 10 || h.offset+h.rows*h.cols*h.kind.bytes() != int64(len(data)) {
				t.Fatalf("%+v in a file of %d", h, len(data))
			}
		})
	})
}

// Whatever files a folder lists and whatever its configuration says, a plan names only files that
// are there.
func FuzzPlan(f *testing.F) {
	f.Add("config.json\nqwen3_p128_l0_together.axmodel\nqwen3_post.axmodel\nmodel.embed_tokens.weight.bfloat16.bin\ntokenizer.json",
		`{"template_filename_axmodel":"qwen3_p128_l%d_together.axmodel","axmodel_num":1}`)
	f.Add("l0.axmodel\nl1.axmodel\npost.axmodel\nembed.npy", "")
	f.Add("run_a.sh\na/x_l0.axmodel\na/x_post.axmodel\na/embed.bin", "./m --template_filename_axmodel a/x_l%d.axmodel --axmodel_num 1")
	f.Add("vlm/x/config.json\n../evil\nl%d.axmodel\nl0_%d.axmodel", `{"template_filename_axmodel":"../../l%d.axmodel"}`)
	for _, layout := range modelstest.Layouts { // as they are, each with the first file that says what it is
		dir := os.DirFS("../testdata/packages/" + layout)
		var names []string
		config := ""
		err := fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			names = append(names, name)
			if config == "" && (path.Base(name) == "config.json" || strings.HasPrefix(path.Base(name), "mode_") ||
				strings.HasSuffix(name, ".sh")) {
				data, err := fs.ReadFile(dir, name)
				config = string(data)
				return err
			}
			return nil
		})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(strings.Join(names, "\n"), config)
	}
	f.Fuzz(func(t *testing.T, listing, config string) {
		fuzzguard.Check(t, len(listing)+len(config), func() {
			if len(listing) > 4096 {
				return
			}
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
	})
}

// What tokenizer_config.json says of a template and of tokens is what it holds, or nothing.
func FuzzTokenizerConfig(f *testing.F) {
	//proves:T1
	f.Add([]byte(`{"chat_template":[{"name":"tool_use","template":"a"},{"name":"default","template":"b"}],"bos_token":{"content":"<s>"},"eos_token":"</s>"}`))
	f.Add([]byte(`{"chat_template":{"a":1},"bos_token":[["<s>"]],"eos_token":{"content":{"content":"x"}}}`))
	for _, data := range fuzzguard.Seeds(f, 1<<16, "pocket/pocket/pocket_tokenizer/tokenizer_config.json") {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzzguard.Check(t, len(data), func() {
			o, err := parseObject(data)
			if err != nil {
				return
			}
			for _, s := range []string{templateOf(o), tokenOf(o, "bos_token"), tokenOf(o, "eos_token")} {
				if len(s) > 3*len(data) { // a byte that is no UTF-8 becomes three
					t.Fatalf("%d bytes out of %d", len(s), len(data))
				}
			}
		})
	})
}

// A mebibyte of each keeps within the limits too.
func TestHostilePackageFiles(t *testing.T) {
	//proves:G5 a mebibyte of hostile bytes each
	object := func(data []byte) {
		if o, err := parseObject(data); err == nil {
			parseFacts(o)
			vendorSampling(o)
			hubSampling(o)
			poolingOf(o)
			templateOf(o)
			tokenOf(o, "bos_token")
			_, _ = parseConfig(o)
		}
	}
	script := func(data []byte) { parseScript(string(data)) }
	npy := func(data []byte) { _, _ = readNpy(bytes.NewReader(data), int64(len(data))) }
	for _, c := range []struct {
		name  string
		parse func([]byte)
		data  []byte
	}{
		{"keys", object, fuzzguard.Fill(`{"a":0`, `,"a":0`, `}`)},
		{"layer types", object, fuzzguard.Fill(`{"layer_types":[""`, `,""`, `]}`)},
		{"devices", object, fuzzguard.Fill(`{"devices":[0`, `,0`, `]}`)},
		{"devices as text", object, fuzzguard.Fill(`{"devices":"0`, `,0`, `"}`)},
		{"stops", object, fuzzguard.Fill(`{"eos_token_id":[0`, `,0`, `]}`)},
		{"templates", object, fuzzguard.Fill(`{"chat_template":[{}`, `,{}`, `]}`)},
		{"digits", object, fuzzguard.Fill(`{"axmodel_num":1`, `0`, `}`)},
		{"deep", object, fuzzguard.Fill(`{"a":`, `[`, ``)},
		{"flags", script, fuzzguard.Fill("./m --template_filename_axmodel l%d", ` --a b`, "\n")},
		{"variables", script, fuzzguard.Fill("A=x\n", "A=$A$A\n", "./m --template_filename_axmodel $A\n")},
		{"many variables", script, fuzzguard.Fill("", "A=1\n", "./m --template_filename_axmodel $A\n")},
		{"one line", script, fuzzguard.Fill("./m \\\n", "--a b \\\n", "--template_filename_axmodel l%d\n")},
		{"quotes", script, fuzzguard.Fill("", `'"`, "")},
		{"dollars", script, fuzzguard.Fill("./m --template_filename_axmodel ", `${`, "")},
		{"shape", npy, fuzzguard.Fill("\x93NUMPY\x02\x00\xf0\xff\x0f\x00{'descr': '<f4', 'fortran_order': False, 'shape': (1", ",1", ")}")},
		{"header", npy, fuzzguard.Fill("\x93NUMPY\x02\x00\xf0\xff\x0f\x00{", "'a': 1, ", "}")},
	} {
		t.Run(c.name, func(t *testing.T) { fuzzguard.Check(t, len(c.data), func() { c.parse(c.data) }) })
	}
	var listing strings.Builder
	for i := 0; listing.Len() < 1<<20-40; i++ {
		fmt.Fprintf(&listing, "d%d/l%d.axmodel\n", i%50, i)
	}
	sizes := map[string]int64{}
	for name := range strings.SplitSeq(listing.String(), "\n") {
		sizes[name] = 5000
	}
	fuzzguard.Check(t, listing.Len(), func() { _, _ = Select(sizes, fstest.MapFS{}) })
}
