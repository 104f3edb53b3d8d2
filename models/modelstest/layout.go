// Package modelstest makes small packages for tests: one in each of the vendor's layouts, encoders
// of text, recognisers of speech and voices, which load on the software cards and run there. Only
// tests import it. Its functions may be called from any goroutine; what they write belongs to the
// caller.
package modelstest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/axle-llm/axle/axmodel"
)

// Layouts are the names that [Write] knows.
var Layouts = []string{"A", "B", "C", "D", "E", "F", "G", "H"}

// Shape of all the packages: two layers, 320 tokens, hidden size 32, 64 cache rows, chunks of 16.
func Shape() axmodel.Shape {
	return axmodel.Shape{Name: "qwen3", Layers: 2, Hidden: 32, Heads: 4, KVHeads: 2, HeadDim: 8, Intermediate: 64, Vocab: 320,
		Context: 64, Chunk: 16, History: []int{0, 16, 32}, LayerBytes: 20480, HeadBytes: 10240}
}

const (
	tokenizer  = "qwen3_tokenizer.txt"
	postConfig = `{"enable_temperature": true, "temperature": 0.6, "enable_repetition_penalty": false, "repetition_penalty": 1.2, "penalty_window": 20,
 "enable_top_p_sampling": true, "top_p": 0.95, "enable_top_k_sampling": true, "top_k": 20}
`
)

// Write makes a small package of the given layout in dir, which must exist and be empty.
func Write(dir, layout string) error {
	w := &writer{dir: dir}
	s := Shape()
	if layout == "H" {
		s.History = nil // the layers decode; prefill has files of its own
	}
	w.do(axmodel.WriteShape(dir, s))
	w.move("shape_tokenizer.txt", tokenizer)
	w.remove("config.json")
	const (
		layers = "qwen3_p16_l%d_together.axmodel"
		head   = "qwen3_post.axmodel"
	)
	weights := []string{fmt.Sprintf(layers, 0), fmt.Sprintf(layers, 1), head, axmodel.EmbedFile}
	switch layout {
	case "A":
		w.json("config.json", config("", layers, tokenizer))
		w.text("post_config.json", postConfig)
	case "B":
		w.into("weights", weights...)
		w.into("tokenizer", tokenizer)
		w.json("config/config.json", config("../weights/", layers, "../tokenizer/"+tokenizer))
		w.text("config/post_config.json", postConfig)
	case "C":
		w.into("qwen3-0.1b-ax650", weights...)
		w.json("config.json", config("qwen3-0.1b-ax650/", layers, tokenizer))
	case "D":
		w.into("vlm/Qwen3-0.1B", append(weights, tokenizer)...)
		w.json("vlm/Qwen3-0.1B/config.json", config("", layers, tokenizer))
	case "E":
		w.into("qwen3-0.1b-ax650", weights...)
		w.into("qwen3-tokenizer", tokenizer)
		w.text("config.json", "")
		w.text("post_config.json", postConfig)
		w.text("run_qwen3_0.1b_int8_ctx_axcl_aarch64.sh", script("./main_axcl_aarch64", "qwen3-0.1b-ax650", layers, "--devices 0"))
		w.text("run_qwen3_0.1b_int8_ctx_ax650.sh", script("./main_ax650", "qwen3-0.1b-ax650", layers, ""))
		w.text("run_qwen3_0.1b_int8_ctx_ax630c.sh", script("./main_ax630c", "qwen3-0.1b-ax630c", layers, ""))
	case "F":
		c := config("", layers, tokenizer)
		c["filename_tokenizer_model"] = c["url_tokenizer_model"]
		delete(c, "url_tokenizer_model")
		w.json("mode_qwen3-0.1b-ax650.json", map[string]any{"mode": "qwen3-0.1b-ax650", "type": "llm",
			"capabilities": []string{"text_generation", "chat"}, "mode_param": c})
	case "G":
		for i, name := range weights[:2] {
			w.move(name, fmt.Sprintf("qwen3_l%d.axmodel", i))
		}
	case "H":
		for i, name := range weights[:2] {
			w.move(name, fmt.Sprintf("qwen3_l%d.axmodel", i))
		}
		s := Shape()
		h := axmodel.Header{Kind: axmodel.Layer, Weights: 20480, Flags: axmodel.FlagShapeOnly, Hidden: s.Hidden, Heads: s.Heads,
			KVHeads: s.KVHeads, HeadDim: s.HeadDim,
			Intermediate: s.Intermediate, Scale: 1, Magnitude: 1, Pos: 1, Tool: "axle shape"}
		w.mkdir("prefill_axmodel")
		for i := range 2 {
			h.Index = i
			w.do(axmodel.WriteFile(filepath.Join(dir, fmt.Sprintf("prefill_axmodel/qwen3_p16_l%d.axmodel", i)), h,
				[]axmodel.SoftGroup{{Rows: 16, Cache: 1}}, nil))
		}
		c := config("", "qwen3_l%d.axmodel", tokenizer)
		c["template_prefill_filename_axmodel"] = "prefill_axmodel/qwen3_p16_l%d.axmodel"
		c["prefill_axmodel_num"] = 2
		w.json("config.json", c)
	default:
		return fmt.Errorf("no layout %q", layout)
	}
	return w.err
}

// config is a vendor's config.json whose weights lie under prefix.
func config(prefix, layers, tokenizer string) map[string]any {
	return map[string]any{
		"model_name": "axle/Qwen3-0.1B", "tokenizer_type": "Qwen3", "url_tokenizer_model": tokenizer,
		"template_filename_axmodel": prefix + layers, "axmodel_num": 2, "filename_post_axmodel": prefix + "qwen3_post.axmodel",
		"filename_tokens_embed": prefix + axmodel.EmbedFile, "tokens_embed_num": 320, "tokens_embed_size": 32, "use_mmap_load_embed": 1,
		"devices": []int{0},
	}
}

func script(program, weights, layers, rest string) string {
	return fmt.Sprintf(`#!/bin/sh
AXMODEL_DIR=./%s
%s \
--system_prompt "You are a helpful assistant." \
--template_filename_axmodel "${AXMODEL_DIR}/%s" \
--axmodel_num 2 \    # one a layer
--url_tokenizer_model "http://127.0.0.1:12345" \
--filename_post_axmodel "${AXMODEL_DIR}/qwen3_post.axmodel" \
--filename_tokens_embed "${AXMODEL_DIR}/%s" \
--tokens_embed_num 320 \
--tokens_embed_size 32 \
--use_mmap_load_embed 1 \
--live_print 1 %s
`, weights, program, layers, axmodel.EmbedFile, rest)
}

// writer does file operations until one fails.
type writer struct {
	dir string
	err error
}

func (w *writer) do(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *writer) path(name string) string { return filepath.Join(w.dir, filepath.FromSlash(name)) }
func (w *writer) mkdir(name string)       { w.do(os.MkdirAll(w.path(name), 0o755)) }
func (w *writer) remove(name string)      { w.do(os.Remove(w.path(name))) }

func (w *writer) move(from, to string) {
	w.mkdir(filepath.ToSlash(filepath.Dir(to)))
	w.do(os.Rename(w.path(from), w.path(to)))
}

func (w *writer) into(dir string, names ...string) {
	for _, n := range names {
		w.move(n, dir+"/"+n)
	}
}

func (w *writer) text(name, content string) {
	w.mkdir(filepath.ToSlash(filepath.Dir(name)))
	w.do(os.WriteFile(w.path(name), []byte(content), 0o644))
}

func (w *writer) json(name string, v any) {
	data, err := json.MarshalIndent(v, "", "  ")
	w.do(err)
	w.text(name, strings.TrimSpace(string(data))+"\n")
}
