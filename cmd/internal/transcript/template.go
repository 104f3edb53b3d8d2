package transcript

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/axle-llm/axle/internal/regular"
	"github.com/axle-llm/axle/tokenizer"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// Template reads a template from a file: Jinja if it has statements or its name says so, Go's
// syntax if it begins actions with a dot or a word of Go's. The tokens that o leaves empty are
// those of a tokenizer_config.json beside it.
func Template(name string, o chat.JinjaOptions) (chat.Template, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	config := name
	src := string(b)
	if filepath.Ext(name) != ".json" {
		config = filepath.Join(filepath.Dir(name), "tokenizer_config.json")
	}
	var c struct {
		Template string          `json:"chat_template"`
		BOS      json.RawMessage `json:"bos_token"`
		EOS      json.RawMessage `json:"eos_token"`
	}
	if raw, err := regular.ReadPath(config, 32<<20); err == nil && json.Unmarshal(raw, &c) == nil {
		o.BOS, o.EOS = cmp.Or(o.BOS, tokenizer.TokenText(c.BOS)), cmp.Or(o.EOS, tokenizer.TokenText(c.EOS))
	}
	if filepath.Ext(name) == ".json" {
		if src = c.Template; src == "" {
			return nil, fmt.Errorf("%s: there is no chat_template in it", name)
		}
		return chat.NewJinja(src, filepath.Base(name), o)
	}
	goSyntax := filepath.Ext(name) == ".gotmpl"
	for _, s := range []string{"{{ .", "{{.", "{{- .", "{{-.", "{{ if ", "{{- if ", "{{if ", "{{ range ", "{{- range ", "{{end", "{{ end",
		"{{- end"} {
		goSyntax = goSyntax || strings.Contains(src, s)
	}
	if goSyntax && !strings.Contains(src, "{%") && filepath.Ext(name) != ".jinja" {
		return chat.NewGo(src)
	}
	return chat.NewJinja(src, filepath.Base(name), o)
}
