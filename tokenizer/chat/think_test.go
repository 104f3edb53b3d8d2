package chat

import "testing"

// TestThinkEnd: the tag is the template's, and the one that the parser ends thinking with.
func TestThinkEnd(t *testing.T) {
	const messages = `{% for m in messages %}{{ m.content }}{% endfor %}`
	for name, x := range map[string]struct{ src, family, want string }{
		"Qwen":          {`<tool_call><think>` + messages, "", "</think>"},
		"MiniCPM":       {`<|thought_start|>` + messages, "", "<|thought_end|>"},
		"MiniCPM, old":  {`<|tool_call_start|>{{ '<think>\n' }}` + messages, "", "</think>"},
		"Gemma":         {`<|turn><|channel>thought` + messages, "", "<channel|>"},
		"Gemma 3":       {`<start_of_turn>` + messages, "", ""},
		"only the end":  {`{{ messages[0].content.split('</think>')[-1] }}`, "", "</think>"},
		"only a switch": {`{% if enable_thinking %}{% endif %}` + messages, "", "</think>"},
		"Llama":         {`<|start_header_id|>` + messages, "", ""},
	} {
		tmpl, err := NewJinja(x.src, name, JinjaOptions{Family: x.family})
		if err != nil {
			t.Fatal(err)
		}
		if got := ThinkEnd(tmpl); got != x.want {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		} else if got != "" {
			p := NewParser(tmpl.Family(), ParserOptions{})
			open := ""
			for _, tag := range p.f.think {
				if tag.close == got {
					open = tag.open
				}
			}
			if r := parseAll(tmpl.Family(), ParserOptions{}, open+"a"+got+"b"); r != (parsed{"a", "b"}) {
				t.Errorf("%s: parsed as %q", name, r)
			}
		}
	}
	g, err := NewGo(goTemplateSource + "{{ if .Think }}<think>{{ end }}")
	if err != nil {
		t.Fatal(err)
	}
	if got := ThinkEnd(g); got != "</think>" {
		t.Errorf("Go: %q", got)
	}
	if got := ThinkEnd(nil); got != "" {
		t.Errorf("no template: %q", got)
	}
}
