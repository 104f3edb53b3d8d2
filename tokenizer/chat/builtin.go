package chat

import (
	"embed"
	"path"
	"strings"
	"sync"
)

// The templates for packages that ship none. They were written for axle after the formats that the
// models were trained on.
//
//go:embed builtin/*.jinja
var builtinFiles embed.FS

// builtinTypes maps a tokenizer_type, in small letters and without _ - and dots, to a template; the
// integers are those of the oldest packages.
var builtinTypes = map[string]string{
	"qwen25": "qwen2.5", "qwen2": "qwen2.5", "qwen": "qwen2.5", "1": "qwen2.5", "qwen25vl": "qwen2.5", "qwen2vl": "qwen2.5",
	"qwen3": "qwen3", "qwen3omni": "qwen3",
	"qwen3vl": "qwen3vl",
	"qwen35":  "qwen3.5", "qwen35vl": "qwen3.5",
	"llama3": "llama3", "llama31": "llama3", "llama32": "llama3",
	"0": "llama2", "llama": "llama2", "llama2": "llama2",
	"gemma3": "gemma3", "gemma3vl": "gemma3", "gemma": "gemma3", "gemma2": "gemma3",
	"gemma4": "gemma4", "gemma4vl": "gemma4",
	"minicpm": "minicpm", "minicpm4": "minicpm", "minicpm5": "minicpm5", "minicpmv4": "minicpm", "minicpmv45": "minicpm",
	"minicpmv46":   "minicpm",
	"minicpmv46vl": "minicpm", "minicpmo45": "minicpm",
	"smollm2": "smollm2", "smollm": "smollm2", "smollm3": "smollm3", "smolvlm2": "smolvlm2",
	"internvl": "internvl", "internvl2": "internvl", "internvl25": "internvl", "internvl3": "internvl", "internvl35": "internvl",
	"hunyuan": "hunyuan", "hunyuandense": "hunyuan",
	"phi": "phi3", "phi3": "phi3", "phi35": "phi3", "3": "phi3", "phi4": "phi4mini", "phi4mini": "phi4mini",
	"fastvlm": "chatml", "chatml": "chatml",
	"locateanything": "locateanything",
}

// builtinOptions are the tokens that some built-in templates print.
var builtinOptions = map[string]JinjaOptions{
	"llama3":   {BOS: "<|begin_of_text|>", EOS: "<|eot_id|>", Family: "llama3"},
	"llama2":   {BOS: "<s>", EOS: "</s>", Family: "plain"},
	"gemma3":   {BOS: "<bos>", EOS: "<eos>", Family: "gemma"},
	"gemma4":   {BOS: "<bos>", EOS: "<turn|>", Family: "gemma"},
	"minicpm":  {Family: "minicpm"},
	"minicpm5": {BOS: "<s>", EOS: "<|im_end|>"},
	"hunyuan":  {Family: "plain"},
	"smollm2":  {Family: "hermes"},
	"phi4mini": {Family: "llama3"}, // bare JSON between control tokens
}

var builtinCache sync.Map // template name → Template

// Builtin returns the template for a vendor's tokenizer_type, in any spelling of it, or false for
// one it does not know.
func Builtin(tokenizerType string) (Template, bool) {
	key := strings.Map(func(r rune) rune {
		if strings.ContainsRune("_-. ", r) {
			return -1
		}
		return r
	}, strings.ToLower(tokenizerType))
	name, ok := builtinTypes[key]
	if !ok {
		return nil, false
	}
	if t, ok := builtinCache.Load(name); ok {
		return t.(Template), true
	}
	src, err := builtinFiles.ReadFile(path.Join("builtin", name+".jinja"))
	if err != nil {
		return nil, false
	}
	t, err := NewJinja(string(src), "built-in "+name, builtinOptions[name])
	if err != nil {
		return nil, false // impossible: a test compiles them all
	}
	builtinCache.Store(name, t)
	return t, true
}
