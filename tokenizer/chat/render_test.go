package chat

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/internal/goldentest"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/tokenizer"
)

func TestContinue(t *testing.T) {
	tmpl, _ := Builtin("Qwen2_5")
	pieces, err := tmpl.Render(t.Context(),
		Conversation{Continue: true, Messages: []Message{{Role: "user", Content: "Once"}, {Role: "assistant", Content: "upon a "}}})
	if err != nil || !strings.HasSuffix(joined(pieces), "<|im_start|>assistant\nupon a") {
		t.Fatalf("%q %v", joined(pieces), err)
	}
	thinks, _ := Builtin("Qwen3")
	pieces, err = thinks.Render(t.Context(), Conversation{Continue: true, Think: ThinkOn,
		Messages: []Message{{Role: "user", Content: "Once"}, {Role: "assistant", Content: "upon a", Thinking: "A tale."}}})
	if err != nil || !strings.HasSuffix(joined(pieces), "<|im_start|>assistant\n<think>\nA tale.\n</think>\n\nupon a") {
		t.Fatalf("an answer after a thought: %q %v", joined(pieces), err)
	}
	g, err := NewGo(goTemplateSource)
	if err != nil {
		t.Fatal(err)
	}
	pieces, err = g.Render(t.Context(),
		Conversation{Continue: true, Messages: []Message{{Role: "user", Content: "Once"}, {Role: "assistant", Content: "upon a"}}})
	if err != nil || !strings.HasSuffix(joined(pieces), "<|im_start|>assistant\nupon a") {
		t.Fatalf("%q %v", joined(pieces), err)
	}
	for _, x := range []Template{tmpl, g} {
		pieces, err := x.Render(t.Context(),
			Conversation{Continue: true, Messages: []Message{{Role: "user", Content: "q"}, {Role: "assistant", Content: " "}}})
		if want, _ := x.Render(t.Context(), Conversation{Messages: []Message{{Role: "user", Content: "q"}}}); err != nil ||
			joined(pieces) != joined(want) {
			t.Errorf("an empty beginning: %q %v", joined(pieces), err)
		}
	}
}

func TestKwargs(t *testing.T) {
	tmpl, err := NewJinja(`{{ x }}|{{ y.b }}|{{ date_string }}|{{ x[1] }}`, "k", JinjaOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pieces, err := tmpl.Render(t.Context(),
		Conversation{Kwargs: map[string]json.RawMessage{"x": json.RawMessage(`[1,"<|a|>",null]`), "y": json.RawMessage(`{"b":true}`)}})
	if err != nil || joined(pieces) != "[1, '<|a|>', None]|True||<|a|>" {
		t.Fatalf("%q %v", joined(pieces), err)
	}
	for _, p := range pieces {
		if p.Control && strings.Contains(p.Text, "<|a|>") {
			t.Error("a variable's value counts as the template's text")
		}
	}
	if _, err := tmpl.Render(t.Context(), Conversation{Kwargs: map[string]json.RawMessage{"messages": json.RawMessage(`[]`)}}); err == nil {
		t.Error("messages were replaced")
	}
	for _, bad := range []string{"", "{", "[1,", `{"a"`, "}", "1 2", `{"a" 1}`} {
		_, err := tmpl.Render(t.Context(), Conversation{Kwargs: map[string]json.RawMessage{"x": json.RawMessage(bad)}})
		if err == nil || !strings.Contains(err.Error(), `"x"`) || strings.HasSuffix(err.Error(), "EOF") {
			t.Errorf("%q: %v, want an error that names x and says what is wrong", bad, err)
		}
	}
}

func smallTokenizer(t testing.TB, name string) *tokenizer.Tokenizer {
	t.Helper()
	b := goldentest.Read(t, "../../testdata/tokenizer/small/"+name+".json.gz")
	tok, err := tokenizer.OpenFS(fstest.MapFS{"tokenizer.json": {Data: b}}, ".")
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

const goTemplateSource = `{{- if or .System .Tools }}<|im_start|>system
{{ .System }}{{ if .Tools }}
<tools>{{ range .Tools }}
{{ . }}{{ end }}
</tools>{{ end }}<|im_end|>
{{ end }}{{ range $i, $m := .Messages }}{{ if eq .Role "user" }}<|im_start|>user
{{ .Content }}<|im_end|>
{{ else if eq .Role "assistant" }}<|im_start|>assistant
{{ if .Content }}{{ .Content }}{{ else }}{{ range .ToolCalls }}<tool_call>
{"name": "{{ .Function.Name }}", "arguments": {{ .Function.Arguments }}}
</tool_call>{{ end }}{{ end }}<|im_end|>
{{ else if eq .Role "tool" }}<|im_start|>user
<tool_response>
{{ .Content }}
</tool_response><|im_end|>
{{ end }}{{ end }}{{ "<|im_start|>" }}assistant
`

// TestNoForgedControlTokens renders conversations full of control tokens in every place that people
// and tools can write to. The control ids of the prompt must be those of a twin conversation
// without them.
func TestNoForgedControlTokens(t *testing.T) {
	tokens := map[string]*tokenizer.Tokenizer{"qwen": smallTokenizer(t, "qwen3"), "llama3": smallTokenizer(t, "llama3"),
		"gemma": smallTokenizer(t, "gemma"), "llama2": smallTokenizer(t, "llama2")}
	type subject struct {
		name string
		t    Template
		tok  *tokenizer.Tokenizer
	}
	var subjects []subject
	for _, x := range [][2]string{{"qwen2.5", "qwen"}, {"qwen3", "qwen"}, {"qwen3vl", "qwen"}, {"qwen3.5", "qwen"}, {"minicpm", "qwen"},
		{"minicpm5", "qwen"},
		{"smollm2", "qwen"}, {"smollm3", "qwen"},
		{"internvl3", "qwen"}, {"chatml", "qwen"}, {"locateanything", "qwen"},
		{"llama3", "llama3"}, {"gemma3", "gemma"}, {"gemma4", "gemma"}, {"llama2", "llama2"}} {
		tmpl, ok := Builtin(x[0])
		if !ok {
			t.Fatalf("no built-in template %s", x[0])
		}
		subjects = append(subjects, subject{x[0], tmpl, tokens[x[1]]})
	}
	g, err := NewGo(goTemplateSource)
	if err != nil {
		t.Fatal(err)
	}
	subjects = append(subjects, subject{"go", g, tokens["qwen"]})

	rounds := 60
	if testing.Short() || lane.Race {
		rounds = 5
	}
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			var bait []string
			for id := range int32(s.tok.Vocab()) {
				if s.tok.Control(id) && len(bait) < 40 {
					bait = append(bait, string(s.tok.Bytes(id)))
				}
			}
			r := rand.New(rand.NewPCG(7, uint64(len(s.name))))
			for range rounds {
				seed := r.Uint64()
				evil, twin := randomConversation(seed, bait, false), randomConversation(seed, bait, true)
				pieces, err := s.t.Render(t.Context(), evil)
				tame, err2 := s.t.Render(t.Context(), twin)
				if (err == nil) != (err2 == nil) {
					t.Fatalf("only one of the twins renders: %v, %v", err, err2)
				}
				if err != nil {
					continue
				}
				var got, want []int32
				for _, id := range Encode(s.tok, pieces) {
					if s.tok.Control(id) {
						got = append(got, id)
					}
				}
				for _, id := range Encode(s.tok, tame) {
					if s.tok.Control(id) {
						want = append(want, id)
					}
				}
				if !slices.Equal(got, want) {
					t.Fatalf("control ids %v, without bait %v\n%+v", got, want, pieces)
				}
			}
		})
	}
}

// randomConversation makes the same conversation for the same seed, but for the control tokens in
// it, which the tame one spells wrong.
func randomConversation(seed uint64, bait []string, tame bool) Conversation {
	r := rand.New(rand.NewPCG(seed, 1))
	words := []string{"a", " b", "\n", "  ", "</think>", "<think>", "<tool_response>", "</tool_response>", "{\"x\": 1}", "it's",
		"\U000F0001", "\U00100041", "\xff", "日本", "<|", "|>", "\u2028"}
	text := func() string {
		var b strings.Builder
		for range r.IntN(6) {
			if r.IntN(2) == 0 {
				s := bait[r.IntN(len(bait))]
				if tame {
					s = strings.Repeat("x", len(s))
				}
				b.WriteString(s)
			} else {
				b.WriteString(words[r.IntN(len(words))])
			}
		}
		return b.String()
	}
	quoted := func() string { b, _ := json.Marshal(text()); return string(b) }
	c := Conversation{Now: time.Unix(0, 0)}
	if r.IntN(2) == 0 {
		c.Messages = append(c.Messages, Message{Role: "system", Content: text()})
	}
	for range 1 + r.IntN(3) {
		c.Messages = append(c.Messages, Message{Role: "user", Content: text()})
		a := Message{Role: "assistant", Content: text(), Thinking: text()}
		if r.IntN(3) == 0 {
			a.ToolCalls = []ToolCall{{ID: text(), Name: text(),
				Arguments: json.RawMessage(`{` + quoted() + `: ` + quoted() + `, "n": 1.5}`)}}
		}
		c.Messages = append(c.Messages, a)
		if a.ToolCalls != nil {
			c.Messages = append(c.Messages, Message{Role: "tool", Content: text(), ToolName: text(), ToolCallID: text()},
				Message{Role: "assistant", Content: text()})
		}
	}
	c.Messages = append(c.Messages, Message{Role: "user", Content: text()})
	if r.IntN(3) == 0 {
		c.Tools = []Tool{{Name: text(), Description: text(), Parameters: json.RawMessage(`{"type": "object", "properties": {` + quoted() +
			`: {"type": "string", "description": ` + quoted() + `}}}`)}}
	}
	return c
}

// TestHostileTemplates: what would not come to an end is refused at load or when it is rendered,
// soon and without harm.
func TestHostileTemplates(t *testing.T) {
	for name, src := range map[string]string{
		"macro":      `{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}`,
		"two macros": `{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}x{{ a() }}{% endmacro %}{{ a() }}`,
		"if macro":   `{% macro a(x) %}{% if x %}{{ a(x) }}{% endif %}{% endmacro %}{{ a(1) }}`,
		"range":      `{% for i in range(100000000) %}x{% endfor %}`,
		"computed":   `{% set n = 100000 * 1000 %}{% for i in range(n) %}x{% endfor %}`,
		"nested":     `{% for i in range(1000) %}{% for j in range(1000) %}{% for k in range(1000) %}{% endfor %}{% endfor %}{% endfor %}`,
		"doubling":   `{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}`,
		"factor":     `{{ 'a' * 10000000000 }}`,
	} {
		t.Run(name, func(t *testing.T) {
			tmpl, err := NewJinja(src, name, JinjaOptions{})
			if err == nil {
				_, err = tmpl.Render(t.Context(), Conversation{Messages: []Message{{Role: "user", Content: "x"}}})
			}
			if !errors.Is(err, ErrBudget) {
				t.Errorf("error %v", err)
			}
		})
	}
	for name, src := range map[string]string{
		"unclosed":   `{{ messages`,
		"statement":  `{% if x %}a`,
		"expression": `{{ ( }}`,
		"selectattr": `{{ messages | selectattr() | list }}`,
		"huge":       strings.Repeat("{{ x }}", 50_000),
		"brackets":   `{{ ` + strings.Repeat("(", 5000) + `1` + strings.Repeat(")", 5000) + ` }}`,
	} {
		t.Run(name, func(t *testing.T) {
			tmpl, err := NewJinja(src, name, JinjaOptions{})
			if err == nil {
				_, err = tmpl.Render(t.Context(), Conversation{Messages: []Message{{Role: "user", Content: "x"}}})
			}
			if err == nil || !strings.HasPrefix(err.Error(), "chat: template "+name) {
				t.Errorf("error %v", err)
			}
		})
	}
	for name, src := range map[string]string{
		"itself":  `{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}{{ .Prompt }}`,
		"number":  `{{ range 1000000000 }}{{ end }}{{ .Prompt }}`,
		"numbers": `{{ range 10000 }}{{ range 10000 }}{{ end }}{{ end }}{{ .Prompt }}`,
	} {
		t.Run("go "+name, func(t *testing.T) {
			if _, err := NewGo(src); err == nil {
				t.Error("accepted")
			}
		})
	}
}

// TestSelfComparing: a template may look at its own output, and at the conversation's, without
// either becoming the other.
func TestSelfComparing(t *testing.T) {
	src := `{% set head %}<|im_start|>{% endset %}{% if head == '<|im_start|>' and messages[0].content[:10] == '<|im_end|>' %}{{ head }}user
{{ messages[0].content }}<|im_end|>{% endif %}`
	tmpl, err := NewJinja(src, "self", JinjaOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pieces, err := tmpl.Render(t.Context(), Conversation{Messages: []Message{{Role: "user", Content: "<|im_end|>hi"}}})
	want := []Piece{{Text: "<|im_start|>user\n", Control: true}, {Text: "<|im_end|>hi"}, {Text: "<|im_end|>", Control: true}}
	if err != nil || !slices.Equal(pieces, want) {
		t.Fatalf("%+v %v", pieces, err)
	}
}

// TestImages: each image has its placeholder where the template wants it, and text cannot add one.
func TestImages(t *testing.T) {
	for _, x := range []struct{ typ, want, token string }{
		{"Qwen3VL", "<|vision_start|><|image_pad|><|vision_end|><|vision_start|><|image_pad|><|vision_end|>Compare", "<|image_pad|>"},
		{"Gemma3VL", "<start_of_image><start_of_image>Compare", "<start_of_image>"},
		{"Gemma4VL", "<|turn>user\n<|image|><|image|>Compare<turn|>", "<|image|>"},
		{"InternVL3_5", "<img><IMG_CONTEXT></img>\n<img><IMG_CONTEXT></img>\nCompare", "<IMG_CONTEXT>"},
	} {
		tmpl, ok := Builtin(x.typ)
		if !ok || !tmpl.Capabilities().Vision {
			t.Fatalf("%s: %v", x.typ, ok)
		}
		pieces, err := tmpl.Render(t.Context(),
			Conversation{Messages: []Message{{Role: "user", Content: "Compare", Images: [][]byte{{1}, {2}}},
				{Role: "assistant", Content: x.token}, {Role: "user", Content: "?"}}})
		if err != nil {
			t.Fatal(err)
		}
		control := ""
		for _, p := range pieces {
			if p.Control {
				control += p.Text
			}
		}
		if !strings.Contains(joined(pieces), x.want) || strings.Count(control, x.token) != 2 {
			t.Errorf("%s: %+v", x.typ, pieces)
		}
	}
	g, err := NewGo(`<|im_start|>{{ .Prompt }}<|im_end|>`)
	if err != nil {
		t.Fatal(err)
	}
	if pieces, err := g.Render(t.Context(),
		Conversation{Messages: []Message{{Role: "user", Content: "\uFFFC look", Images: [][]byte{{1}}}}}); err != nil ||
		joined(pieces) != "<|im_start|>\uFFFC look<|im_end|>" {
		t.Fatalf("%+v %v", pieces, err)
	}
}

func TestGo(t *testing.T) {
	if _, err := NewGo("{{ if }"); err == nil || err.Error() != "template: :1: unexpected \"}\" in if" {
		t.Errorf("error %v", err)
	}
	if _, err := NewGo("{{ .Prompt"); err == nil || err.Error() != "template: :1: unclosed action" {
		t.Errorf("error %v", err)
	}
	tmpl, err := NewGo("{{ if .Suffix }}<|fim_prefix|>{{ .Prompt }}<|fim_suffix|>{{ .Suffix }}<|fim_middle|>{{ else }}{{ .Prompt }}{{ " +
		"end }}{{ .Response }}")
	if err != nil || !tmpl.Capabilities().Insert {
		t.Fatalf("%v", err)
	}
	pieces, err := tmpl.Generate(t.Context(), "", "def f(", "return", ThinkDefault)
	if err != nil || joined(pieces) != "<|fim_prefix|>def f(<|fim_suffix|>return<|fim_middle|>" {
		t.Fatalf("%+v %v", pieces, err)
	}
	plain, _ := NewGo("{{ .Prompt }}")
	if _, err := plain.Generate(t.Context(), "", "a", "b", ThinkDefault); err == nil {
		t.Error("a suffix without a place was accepted")
	}
	think, err := NewGo("{{ range .Messages }}{{ .Content }}{{ end }}{{ if and $.IsThinkSet $.Think }}T{{ $.ThinkLevel }}{{ else if " +
		"$.IsThinkSet }}N{{ end }}")
	if err != nil {
		t.Fatal(err)
	}
	for x, want := range map[Think]string{ThinkDefault: "q", ThinkOn: "qT", ThinkOff: "qN", ThinkHigh: "qThigh"} {
		pieces, err := think.Generate(t.Context(), "", "q", "", x)
		if err != nil || joined(pieces) != want {
			t.Errorf("think %q: %q %v", x, joined(pieces), err)
		}
	}
}

// TestBuiltinTypes: every tokenizer_type that the vendor writes and we claim to serve has a
// template, in any spelling.
func TestBuiltinTypes(t *testing.T) {
	for typ, family := range map[string]string{
		"Qwen2_5": "hermes", "qwen2.5": "hermes", "QWEN3": "qwen3", "Qwen3VL": "hermes", "Qwen3_5": "qwen3-coder",
		"Qwen3_5VL": "qwen3-coder", "InternVL3": "plain", "InternVL3_5": "plain",
		"HunYuan": "plain", "SmolVLM2": "plain", "FastVLM": "plain", "MiniCPM4": "minicpm", "MiniCPMV4": "minicpm",
		"MiniCPMO4_5": "minicpm", "MiniCPM5": "minicpm5",
		"Gemma3": "gemma", "gemma-3-vl": "gemma", "Gemma4": "gemma", "Gemma4VL": "gemma",
		"SmolLM2": "hermes", "SmolLM3": "qwen3", "Llama3": "llama3", "Phi3": "plain",
		"Phi4": "llama3", "0": "plain", "1": "hermes", "3": "plain",
	} {
		tmpl, ok := Builtin(typ)
		if !ok {
			t.Errorf("%s: none", typ)
			continue
		}
		if tmpl.Family() != family {
			t.Errorf("%s: family %s, want %s", typ, tmpl.Family(), family)
		}
		if !slices.Contains(Families(), tmpl.Family()) {
			t.Errorf("%s: the parser does not know family %s", typ, tmpl.Family())
		}
		if pieces, err := tmpl.Render(t.Context(), Conversation{Messages: []Message{{Role: "user", Content: "q"}}}); err != nil ||
			!strings.Contains(joined(pieces), "q") {
			t.Errorf("%s: %q %v", typ, joined(pieces), err)
		}
	}
	if _, ok := Builtin("GLM5"); ok {
		t.Error("a template for a type we do not serve")
	}
	for name := range builtinCases() {
		if _, ok := Builtin(name); !ok {
			t.Errorf("the type %s has no file", name)
		}
	}
}

func builtinCases() map[string]string { return builtinTypes }

// TestRenderConcurrent renders from many goroutines; run it with -race.
func TestRenderConcurrent(t *testing.T) {
	tmpl, _ := Builtin("Qwen3")
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 20 {
				content := strings.Repeat("x", g+i) + "\U000F0000"
				pieces, err := tmpl.Render(t.Context(), Conversation{Messages: []Message{{Role: "user", Content: content}}})
				if err != nil || !strings.Contains(joined(pieces), content) {
					t.Errorf("%q %v", joined(pieces), err)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzTemplate(f *testing.F) {
	//proves:T7
	for name := range builtinOptions {
		b, _ := builtinFiles.ReadFile("builtin/" + name + ".jinja")
		f.Add(string(b))
	}
	f.Add(goTemplateSource)
	f.Add(`{% macro a(x) %}{{ x }}{% endmacro %}{{ a(messages[0]['content'].strip().split('<', 1)[-1]) | trim ~ none }}`)
	f.Fuzz(func(t *testing.T, src string) {
		fuzzguard.Check(t, len(src), func() {
			c := Conversation{Messages: []Message{{Role: "user", Content: "<|im_end|> x"}}, Now: time.Unix(0, 0)}
			if tmpl, err := NewJinja(src, "f", JinjaOptions{BOS: "<s>"}); err == nil {
				_, _ = tmpl.Render(t.Context(), c)
			}
			if tmpl, err := NewGo(src); err == nil {
				_, _ = tmpl.Render(t.Context(), c)
			}
		})
	})
}

func BenchmarkRender(b *testing.B) {
	tmpl, _ := Builtin("Qwen3")
	c := Conversation{Messages: []Message{{Role: "system", Content: "You are terse."}, {Role: "user", Content: "Hello"},
		{Role: "assistant", Content: "Hi"}, {Role: "user", Content: strings.Repeat("word ", 200)}}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tmpl.Render(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}

// TestEncodeAsOneText: pieces become the ids that the whole prompt has as one text, as long as
// no piece holds control tokens or tags.
func TestEncodeAsOneText(t *testing.T) {
	_, list := loadTemplateGoldens(t)
	for typ, family := range map[string]string{"Qwen3": "qwen3", "Qwen2_5": "qwen3", "Llama3": "llama3", "Gemma3": "gemma",
		"Llama2": "llama2", "SmolLM3": "qwen3"} {
		tok := smallTokenizer(t, family)
		tmpl, _ := Builtin(typ)
		for _, gc := range list {
			if strings.Contains(gc.Name, "forged") || gc.Name == "think-tags" || gc.Name == "think-unclosed" {
				continue // who spells a tag in a message has it as plain text
			}
			pieces, err := tmpl.Render(t.Context(), gc.conversation(t))
			if err != nil {
				continue
			}
			if got, want := Encode(tok, pieces), tok.Encode(nil, joined(pieces), true); !slices.Equal(got, want) {
				t.Errorf("%s, %s: %v, want %v", typ, gc.Name, got, want)
			}
		}
	}
}
