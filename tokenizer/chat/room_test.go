package chat

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/tokenizer/origin"
)

// TestParts: text and pictures keep their order, and are trimmed one by one, as Gemma's own
// template has it.
func TestParts(t *testing.T) {
	m := Message{Role: "user", Content: " a b ", Images: [][]byte{{1}, {2}}, Parts: []Part{{Text: " a "}, {Image: true}, {Text: "b "},
		{Image: true}}}
	for typ, want := range map[string]string{
		"gemma3": "<start_of_turn>user\na<start_of_image>b<start_of_image><end_of_turn>",
		"qwen3vl": "<|im_start|>user\n a <|vision_start|><|image_pad|><|vision_end|>b " +
			"<|vision_start|><|image_pad|><|vision_end|><|im_end|>",
	} {
		tmpl, ok := Builtin(typ)
		if !ok {
			t.Fatal(typ)
		}
		if pieces, err := tmpl.Render(t.Context(), Conversation{Messages: []Message{m}}); err != nil ||
			!strings.Contains(joined(pieces), want) {
			t.Errorf("%s: %q %v", typ, joined(pieces), err)
		}
	}
}

// TestNewLines: a new line behind a tag at the end of a line is the tag's, whatever stands before
// it, as in Llama 3.2's template without a new turn.
func TestNewLines(t *testing.T) {
	tmpl, err := NewJinja("{{- bos_token }}\n{%- for m in messages %}\n    {{- '<|a|>' + m.content | trim + '<|b|>' }}\n{%- endfor "+
		"%}\n{%- if add_generation_prompt %}\n    {{- '<|c|>' }}\n{%- endif %}\n",
		"lines", JinjaOptions{BOS: "<s>"})
	if err != nil {
		t.Fatal(err)
	}
	pieces, err := tmpl.Render(t.Context(),
		Conversation{Messages: []Message{{Role: "user", Content: " q "}, {Role: "assistant", Content: "r"}}, Continue: true})
	if err != nil || joined(pieces) != "<s><|a|>q<|b|><|a|>r" {
		t.Errorf("%q %v", joined(pieces), err)
	}
	for prompt, want := range map[string]string{"false": "<s><|a|>q<|b|>", "true": "<s><|a|>q<|b|><|c|>"} {
		pieces, err := tmpl.Render(t.Context(), Conversation{Messages: []Message{{Role: "user", Content: "q"}},
			Kwargs: map[string]json.RawMessage{"add_generation_prompt": json.RawMessage(prompt)}})
		if err != nil || joined(pieces) != want {
			t.Errorf("%s: %q %v", prompt, joined(pieces), err)
		}
	}
}

// TestEscapes: what an escape may make of a text is paid for before it is made, six bytes for each.
func TestEscapes(t *testing.T) {
	tmpl, err := NewGo("{{ json .Prompt }}")
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]error{origin.MaxText/6 - 8: nil, origin.MaxText/6 + 1: ErrBudget} {
		c := Conversation{Messages: []Message{{Role: "user", Content: strings.Repeat("x", n)}}}
		if _, err := tmpl.Render(t.Context(), c); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v, want %v", n, err, want)
		}
	}
}

// TestRenderingsBounded: 64 hostile templates at once take no more memory than their room, whatever
// they make; each ends with a budget's error, or is told to come again.
func TestRenderingsBounded(t *testing.T) {
	//proves:T7 templates reserve memory before they use it, from room of their own
	lane.Slow(t)
	if lane.Race {
		t.Skip("the race detector takes memory of its own")
	}
	zeros := strings.Repeat("\x00", 1<<20)
	c := Conversation{Messages: []Message{{Role: "user", Content: zeros}},
		Kwargs: map[string]json.RawMessage{"x": json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)}}
	again := func(s string) string { return strings.Repeat(s, 60) }
	for name, src := range map[string]string{
		"json":   "{{ $a := .Prompt }}" + again("{{ $a = json $a }}"),
		"kept":   "{{ $a := .Prompt }}" + again(`{{ $b := print $a }}`),
		"tojson": "{% set ns = namespace(a=messages[0].content) %}{% for i in range(60) %}{% set ns.a = ns.a|tojson %}{% endfor %}",
		"lists":  "{% set ns = namespace(a=x) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a|list] %}{% endfor %}",
		"copies": "{% set ns = namespace(a=[]) %}{% for i in range(600) %}{% set ns.a = ns.a + [x ~ i] %}{% endfor %}",
	} {
		t.Run(name, func(t *testing.T) {
			var tmpl Template
			var err error
			if strings.HasPrefix(src, "{{") {
				tmpl, err = NewGo(src)
			} else {
				tmpl, err = NewJinja(src, name, JinjaOptions{})
			}
			if errors.Is(err, ErrBudget) {
				return // it was seen through at once
			} else if err != nil {
				t.Fatal(err)
			}
			peak := fuzzguard.Peak(func() {
				var wg sync.WaitGroup
				for range 64 {
					wg.Go(func() {
						if _, err := tmpl.Render(context.Background(), c); !errors.Is(err, ErrBudget) && !errors.Is(err, ErrRoom) {
							t.Errorf("%v", err)
						}
					})
				}
				wg.Wait()
			})
			if peak > 600<<20 {
				t.Errorf("%d MiB", peak>>20)
			}
		})
	}
	if room().Taken() != 0 {
		t.Errorf("%d bytes of the room are still taken", room().Taken())
	}
}

// TestDeepGo: what is nested deep is refused, and takes no longer than it is long.
func TestDeepGo(t *testing.T) {
	//proves:T7
	for _, src := range []string{
		strings.Repeat("{{ if .Prompt }}", 8000) + "a" + strings.Repeat("{{ end }}", 8000),
		strings.Repeat("{{ if .Prompt }}a{{ else }}", 7000) + strings.Repeat("{{ end }}", 7000),
		"{{ if .Prompt }}" + strings.Repeat("a{{ else if .Prompt }}", 8000) + "{{ end }}",
		"{{ print " + strings.Repeat("(print ", 2000) + strings.Repeat(")", 2000) + "}}",
	} {
		if _, err := NewGo(src); err == nil || !strings.Contains(err.Error(), "deep") {
			t.Errorf("%.60s: %v", src, err)
		}
	}
	tmpl, err := NewGo(strings.Repeat("{{ if .Prompt }}a{{ end }}", 8000))
	if err != nil {
		t.Fatal(err)
	}
	if pieces, err := tmpl.Generate(t.Context(), "", "x", "", ThinkDefault); err != nil || joined(pieces) != strings.Repeat("a", 8000) {
		t.Errorf("%d pieces, %v", len(pieces), err)
	}
}

// TestGoRefused: what a Go template cannot do is an error when it is read.
func TestGoRefused(t *testing.T) {
	for _, src := range []string{`{{ template "x" }}`, `{{ .Messages.String 1 }}`, `{{ nothing . }}`, `{{ call .Prompt }}`, `{{ $x }}`} {
		if _, err := NewGo(src); err == nil {
			t.Errorf("%s was accepted", src)
		}
	}
}
