package models

import (
	"errors"
	"slices"

	"github.com/axle-llm/axle/tokenizer"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// Capabilities lists what the model can do, in Ollama's words: completion or embedding, then tools, insert, vision, thinking.
func (p *Package) Capabilities() []string {
	if p.Embedding {
		return []string{"embedding"}
	}
	out := []string{"completion"}
	var c chat.Capabilities
	if tpl, err := p.Template(); err == nil {
		c = tpl.Capabilities()
	}
	if c.Tools {
		out = append(out, "tools")
	}
	if c.Insert {
		out = append(out, "insert")
	}
	if len(p.Encoders) > 0 {
		out = append(out, "vision")
	}
	if c.Thinking {
		out = append(out, "thinking")
	}
	return out
}

// StopIDs are the ids that end an answer: those of the configuration files and of the tokenizer.
func (p *Package) StopIDs() ([]int32, error) {
	t, err := p.Tokenizer()
	if err != nil {
		return nil, err
	}
	ids := append(slices.Clone(p.Stops), t.EOS()...)
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// Tokenizer is the package's tokenizer, loaded once. It fails when the package has none, and as package tokenizer does.
func (p *Package) Tokenizer() (*tokenizer.Tokenizer, error) {
	p.tokOnce.Do(func() {
		if p.p.tokenizer == "" {
			p.tokErr = &Error{Path: p.p.t.where("."), What: "no tokenizer", Fix: "put the model's tokenizer.json into the folder", Err: ErrMissing}
			return
		}
		p.tok, p.tokErr = tokenizer.OpenWith(p.fsys, p.p.tokenizer, tokenizer.Config{Type: p.TokenizerType})
	})
	return p.tok, p.tokErr
}

// Template is the package's chat template, loaded once.
func (p *Package) Template() (chat.Template, error) {
	return nil, errors.New("models: templates are not wired")
}
