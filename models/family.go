package models

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// families maps what names hold, squeezed to lower-case letters and digits, to the family and to
// the vendor's tokenizer_type that serves it. Longer and later models come before what they
// contain: the first match wins.
var families = []struct{ key, family, tokenizer string }{
	{"locateanything", "locateanything", "LocateAnything"},
	{"qwen3omni", "qwen3omni", "Qwen3Omni"},
	{"qwen35", "qwen35", "Qwen3_5"},
	{"qwen3vl", "qwen3vl", "Qwen3VL"},
	{"qwen3", "qwen3", "Qwen3"},
	{"qwen25vl", "qwen25vl", "Qwen2_5"},
	{"deepseekr1distillqwen", "qwen2", "Qwen2_5"},
	{"qwen25", "qwen2", "Qwen2_5"},
	{"llavaqwen2", "fastvlm", "FastVLM"},
	{"fastvlm", "fastvlm", "FastVLM"},
	{"qwen2", "qwen2", "Qwen2_5"},
	{"qwen", "qwen", "Qwen2_5"},
	{"internvl35", "internvl", "InternVL3_5"},
	{"internvl", "internvl", "InternVL3"},
	{"smolvlm2", "smolvlm", "SmolVLM2"},
	{"smolvlm", "smolvlm", "SmolVLM2"},
	{"smollm3", "smollm3", "SmolLM3"},
	{"smollm2", "smollm2", "SmolLM2"},
	{"smollm", "smollm2", "SmolLM2"},
	{"gemma4", "gemma4", "Gemma4"},
	{"gemma3", "gemma3", "Gemma3"},
	{"gemma", "gemma3", "Gemma3"},
	{"minicpmv46", "minicpmv", "MiniCPMV46"},
	{"minicpmv4", "minicpmv", "MiniCPMV4"},
	{"minicpmo", "minicpmo", "MiniCPMO4_5"},
	{"minicpm5", "minicpm5", "MiniCPM5"},
	{"minicpm", "minicpm", "MiniCPM4"},
	{"hunyuan", "hunyuan", "HunYuan"},
	{"paddleocrvl", "paddleocrvl", "PaddleOCRVL"},
	{"glm5", "glm5", "GLM5"},
	{"kimik25", "kimik25", "KimiK25"},
	{"minimaxm2", "minimaxm2", "MiniMaxM2"},
	{"phi3", "phi3", "Phi3"},
	{"tinyllama", "llama", "LLaMa"},
	{"llama3", "llama3", "LLaMa3"},
	{"llama", "llama", "LLaMa"},
}

// squeeze keeps letters and digits, lower case: tokenizer_type is written in any case, with or
// without _ - and dots.
func squeeze(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		}
		return -1
	}, s)
}

func lookFamily(s string) (family, tokenizerType string) {
	s = squeeze(s)
	for _, f := range families {
		if strings.Contains(s, f.key) {
			return f.family, f.tokenizer
		}
	}
	return "", ""
}

func familyOf(s string) string {
	f, _ := lookFamily(s)
	return f
}

// findFamily settles family and tokenizer type: from tokenizer_type where it says something, else
// from model_type, names of layers, of the model, of folders and scripts.
func (p *plan) findFamily() error {
	typ := p.cfg.TokenizerType
	switch typ {
	case "0":
		typ = "LLaMa"
	case "1":
		typ = "Qwen"
	case "3":
		typ = "Phi3"
	case "2", "http", "HTTP", "TKT_HTTP": // a tokenizer service of old: says nothing
		typ = ""
	}
	prefix, _, _ := strings.Cut(path.Base(p.template), "l%d")
	hints := []string{typ, prefix, p.cfg.ModelName, p.facts.modelType, path.Base(path.Dir(p.template)), path.Base(p.source),
		path.Base(p.t.label)}
	if dir := path.Dir(p.source); p.source != "" {
		hints = append(hints, path.Base(dir))
	}
	for _, h := range hints {
		family, tok := lookFamily(h)
		if family == "" || p.family != "" && !(generic(p.family) && !generic(family)) {
			continue
		}
		p.family, p.tokenizerType = family, tok
		if !generic(family) {
			break
		}
	}
	if typ != "" && !generic(familyOf(typ)) {
		p.tokenizerType = typ
	}
	// A configuration copied from another model's: its name and its tokenizer's file tell which
	// model it is.
	by, tok := lookFamily(p.cfg.ModelName)
	if by != "" && !generic(by) && by != p.family && by == familyOf(path.Base(p.cfg.Tokenizer)) {
		p.note("tokenizer_type is %s, and model_name and the tokenizer are %s's: it is taken for one of those", typ, by)
		p.family, p.tokenizerType = by, tok
	}
	if p.family == "" {
		p.family = cmp.Or(p.facts.modelType, squeeze(strings.TrimRight(prefix, "_")), "unknown")
		p.tokenizerType = typ
	}
	if typ == "" && p.tokenizerType != "" {
		p.note("tokenizer_type is not given: %s, by names", p.tokenizerType)
	}
	return nil
}

// tokenizerRank orders the files a tokenizer can be read from, best first; -1 for all others.
func tokenizerRank(file string) int {
	switch {
	case file == "tokenizer.json":
		return 0
	case strings.HasSuffix(file, "tokenizer.txt"):
		return 1
	case file == "tokenizer.model" || strings.HasSuffix(file, "_tokenizer.model"):
		return 2
	case strings.HasSuffix(file, ".tiktoken") || file == "tiktoken.model":
		return 3
	}
	return -1
}

// findTokenizer takes the file or folder the configuration names, else the best candidate of the
// family anywhere in the package. A package without one still opens: it can be run on token ids,
// and Tokenizer says what is missing.
func (p *plan) findTokenizer() error {
	if u := p.cfg.Tokenizer; u != "" && !strings.Contains(u, "://") {
		name, found, err := p.t.resolve(p.base, u)
		if err != nil {
			return err
		}
		if found && p.t.broken[name] == "" {
			p.tokenizer = name
			p.findTemplate()
			return p.t.checkPointer(name)
		}
		p.note("the tokenizer %s is not there", name)
	} else if u != "" {
		p.note("the tokenizer was a service (%.80s): the package's own files are used", u)
	}
	type candidate struct {
		name string
		cost int
	}
	var list []candidate
	for _, name := range p.t.names {
		rank := tokenizerRank(path.Base(name))
		if rank < 0 || foreign.MatchString(name) {
			continue
		}
		c := candidate{name, rank}
		dir := path.Dir(name)
		own := cmp.Or(familyOf(path.Base(name)), familyOf(path.Base(dir)))
		switch {
		case own == p.family:
		case own == "" || dir == "." || dir == path.Dir(p.template) || dir == p.base:
			c.cost += 10
		default:
			c.cost += 100 // another family's
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		p.note("no tokenizer file (tokenizer.json, *_tokenizer.txt, tokenizer.model, *.tiktoken) in the package")
		return nil
	}
	slices.SortFunc(list, func(a, b candidate) int { return cmp.Or(a.cost-b.cost, cmp.Compare(a.name, b.name)) })
	p.tokenizer = list[0].name
	p.note("the tokenizer is %s, by file names", p.tokenizer)
	p.findTemplate()
	return p.t.checkPointer(p.tokenizer)
}

// findTemplate looks for a chat template beside the tokenizer, the configuration and the layers.
func (p *plan) findTemplate() {
	dir := p.tokenizer
	if p.t.has(dir) {
		dir = path.Dir(dir)
	}
	for _, file := range []string{"chat_template.jinja", "chat_template.json", "tokenizer_config.json", "special_tokens_map.json"} {
		for _, d := range []string{dir, p.base, path.Dir(p.template), "."} {
			if name := path.Join(d, file); p.t.has(name) {
				if tokens := file == "tokenizer_config.json" || file == "special_tokens_map.json"; tokens || p.chatTemplate == "" {
					p.extra = append(p.extra, name)
				}
				if p.chatTemplate == "" && file != "special_tokens_map.json" {
					p.chatTemplate = name
				}
				break
			}
		}
	}
}
