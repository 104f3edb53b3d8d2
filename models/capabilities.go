package models

import (
	"cmp"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/axle-llm/axle/tokenizer"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// Capabilities lists what the model can do, in Ollama's words: completion or embedding, then
// vision, tools, insert, thinking. A model whose pictures cannot be read ([Package.Vision] says
// why) has no vision.
func (p *Package) Capabilities() []string {
	if p.Embedding {
		if v, err := p.Vision(); v != nil && err == nil && p.Prompts().Turns {
			return []string{"embedding", "vision"}
		}
		return []string{"embedding"}
	}
	out := []string{"completion"}
	var c chat.Capabilities
	if tpl, err := p.Template(); err == nil {
		c = tpl.Capabilities()
	}
	if v, err := p.Vision(); v != nil && err == nil {
		out = append(out, "vision")
	}
	if c.Tools {
		out = append(out, "tools")
	}
	if c.Insert {
		out = append(out, "insert")
	}
	if c.Thinking {
		out = append(out, "thinking")
	}
	return out
}

// StopIDs are the ids that end an answer: those of the configuration files and of the tokenizer,
// and those of the family.
func (p *Package) StopIDs() ([]int32, error) {
	t, err := p.Tokenizer()
	if err != nil {
		return nil, err
	}
	ids := append(slices.Clone(p.Stops), t.EOS()...)
	for _, name := range familyTraits[p.Family].ends {
		if id, ok := t.ID(name); ok && t.Control(id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// Thinking is what a request gets that does not say whether the model is to think: what config.json
// says (enable_thinking, thinking_mode), else what the family's makers do. [chat.ThinkDefault]
// leaves it to the caller.
func (p *Package) Thinking() chat.Think {
	if t := p.Config.Think; t != chat.ThinkDefault {
		return t
	}
	if familyTraits[p.Family].quiet {
		return chat.ThinkOff
	}
	return chat.ThinkDefault
}

// Ends are the ids that go behind a text that is to be embedded: what the tokenizer puts there; of
// an embedding package whose tokenizer is the vendor's *_tokenizer.txt, which does not say, what
// the vendor's runtime puts there. Such a model was trained to be read at that token.
func (p *Package) Ends() ([]int32, error) {
	t, err := p.Tokenizer()
	if err != nil {
		return nil, err
	}
	end := familyTraits[squeeze(p.TokenizerType)].textEnd
	if !p.Embedding || t.SaysSuffix() || end == "" {
		return t.Suffix(), nil
	}
	id, ok := t.ID(end)
	if !ok {
		return nil, &Error{Path: p.p.t.where(p.p.tokenizer), What: "has no " + end + ", which the texts of this embedding model end with",
			Fix: "take the tokenizer of the same model, or correct tokenizer_type", Err: ErrMismatch}
	}
	return []int32{id}, nil
}

// Tokenizer is the package's tokenizer, loaded once. It fails when the package has none, and as
// package tokenizer does.
func (p *Package) Tokenizer() (*tokenizer.Tokenizer, error) {
	p.tokOnce.Do(func() {
		if p.p.tokenizer == "" {
			p.tokErr = &Error{Path: p.p.t.where("."), What: "no tokenizer", Fix: "put the model's tokenizer.json into the folder",
				Err: ErrMissing}
			return
		}
		p.tok, p.tokErr = tokenizer.OpenWith(p.fsys, p.p.tokenizer, tokenizer.Config{Type: p.TokenizerType})
	})
	return p.tok, p.tokErr
}

// Template is the package's chat template, loaded once: the one it ships, else the built-in one of
// its tokenizer type, else, as in Ollama, one that passes the prompt as it is (a note says so). It
// fails when the package ships a template that does not compile.
func (p *Package) Template() (chat.Template, error) {
	p.tplOnce.Do(func() {
		if p.tpl, p.tplErr = p.loadTemplate(); p.tplErr != nil {
			p.tpl = nil
		}
	})
	return p.tpl, p.tplErr
}

func (p *Package) loadTemplate() (chat.Template, error) {
	src, o, err := p.templateSource()
	if err != nil {
		return nil, err
	}
	if src == "" {
		if tpl, ok := p.builtin(); ok {
			return tpl, nil
		}
		return chat.NewGo("{{ .Prompt }}")
	}
	tpl, err := chat.NewJinja(src, p.p.chatTemplate, o)
	if err != nil {
		return nil, &Error{Path: p.p.t.where(p.p.chatTemplate), What: err.Error(),
			Fix: "correct the template, or remove it to use the built-in one", Err: err}
	}
	return tpl, nil
}

func (p *Package) builtin() (chat.Template, bool) {
	if tpl, ok := chat.Builtin(p.TokenizerType); ok {
		return tpl, true
	}
	_, typ := lookFamily(p.Family)
	return chat.Builtin(typ)
}

// templateSource reads the template's text and the tokens it may print; the text is empty when the
// package ships none.
func (p *Package) templateSource() (src string, o chat.JinjaOptions, err error) {
	t := p.p.t
	name := p.p.chatTemplate
	if strings.HasSuffix(name, ".jinja") {
		data, err := t.read(name, maxText)
		if err != nil {
			return "", o, err
		}
		src = string(data)
	}
	for _, file := range []string{name, p.beside("tokenizer_config.json"), p.beside("special_tokens_map.json")} {
		if file == "" || !strings.HasSuffix(file, ".json") || !t.has(file) {
			continue
		}
		c, err := p.p.object(file)
		if err != nil {
			return "", o, err
		}
		if src == "" {
			src = templateOf(c)
		}
		o.BOS, o.EOS = cmp.Or(o.BOS, tokenOf(c, "bos_token")), cmp.Or(o.EOS, tokenOf(c, "eos_token"))
	}
	return src, o, nil
}

// beside names a file in the tokenizer's folder.
func (p *Package) beside(file string) string {
	dir := p.p.tokenizer
	if dir == "" {
		return ""
	}
	if p.p.t.has(dir) {
		dir = path.Dir(dir)
	}
	return path.Join(dir, file)
}

// templateOf reads chat_template: a text, or several with names. Of several it takes the one called
// default, else the first.
func templateOf(o object) string {
	v, ok := o.get("chat_template")
	if !ok {
		return ""
	}
	var one string
	if json.Unmarshal(v, &one) == nil {
		return one
	}
	var many []struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	if json.Unmarshal(v, &many) != nil || len(many) == 0 {
		return ""
	}
	for _, t := range many {
		if t.Name == "default" {
			return t.Template
		}
	}
	return many[0].Template
}

// tokenOf reads a token that is a text, or an object that holds one.
func tokenOf(o object, key string) string {
	raw, _ := o.get(key)
	return tokenizer.TokenText(raw)
}
