package grammar

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/axle-llm/axle/tokenizer/chat"
)

var offered = []Tool{
	{Name: "get_time"},
	{Name: "get_weather",
		Parameters: []byte(`{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer","minimum":1,"maximum":14},
		"unit":{"enum":["celsius","fahrenheit"]},"exact":{"type":"boolean"},"tags":{"type":"array","items":{"type":"string","maxLength":5},"maxItems":2}},"required":["city","days"],"additionalProperties":false}`)},
}

// Whatever a required call's grammar lets a model write, the family's parser reads as calls with
// valid arguments, and nothing is left over as text.
func TestRequiredCallsParse(t *testing.T) {
	tools := []chat.Tool{{Name: "get_time"}, {Name: "get_weather", Parameters: offered[1].Parameters}}
	v := compileJudge(t, offered[1].Parameters)
	for _, family := range []string{"qwen3", "hermes", "minicpm", "minicpm5", "qwen3-coder", "llama3", "gemma", "phi"} {
		for _, think := range []bool{false, true} {
			g, err := ToolCalls(family, offered, true)
			if err != nil {
				t.Fatal(err)
			}
			if think {
				if g, err = Thinking(g, Thought{End: "</think>", Not: chat.CallTags(family)}); err != nil {
					t.Fatal(err)
				}
			}
			calls := 0
			for seed := range uint64(12) {
				text := generate(t, g, rand.New(rand.NewPCG(seed, 2)), int(seed)*8)
				text = strings.ReplaceAll(text, "\xff", "") // what stands before a control token's text in the trie
				p := chat.NewParser(family, chat.ParserOptions{Tools: tools, ThinkOpen: think})
				for _, d := range append(p.Write(text), p.Close()...) {
					if d.Text != "" {
						t.Errorf("%s: %q leaves the text %q", family, text, d.Text)
					}
					if c := d.ToolCall; c != nil {
						calls++
						if !json.Valid(c.Arguments) {
							t.Errorf("%s: %q: arguments %s", family, text, c.Arguments)
						}
						null := (family == "qwen3-coder" || family == "minicpm5") && // which write null as any other word
							strings.Contains(strings.ToLower(string(c.Arguments)), "null")
						if err := judged(t, v, string(c.Arguments)); c.Name == "get_weather" && err != nil && !null {
							t.Errorf("%s: %q: arguments %s: %v", family, text, c.Arguments, err)
						}
					}
				}
			}
			if calls < 12 {
				t.Errorf("%s: %d calls in 12 answers", family, calls)
			}
		}
	}
}

func TestCallFormats(t *testing.T) {
	for family, c := range map[string]struct{ yes, no []string }{
		"qwen3": {
			[]string{"<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\", \"days\": 3}}\n</tool_call>",
				"<tool_call>\n{\"name\":\"get_time\",\"arguments\":{\"x\":1}}\n</tool_call>\n<tool_call>\n{\"name\":\"get_time\"," +
					"\"arguments\":{}}\n</tool_call>",
				"\xff<tool_call>\n{\"name\": \"get_time\", \"arguments\": {}}\n\xff</tool_call>"},
			[]string{"", "Sure", "<tool_call>\n{\"name\": \"rm\", \"arguments\": {}}\n</tool_call>",
				"<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>",
				"<tool_call>\n{\"name\": \"get_time\", \"arguments\": []}\n</tool_call>"},
		},
		"qwen3-coder": {
			[]string{"<tool_call>\n<function=get_weather>\n<parameter=city>\nSan " +
				"<b>\n\"Fran\"\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=unit>\ncelsius\n</parameter>\n" +
				"<parameter=tags>\n[\"a\"]\n</parameter>\n</function>\n</tool_call>",
				"<tool_call>\n<function=get_time>\n</function>\n</tool_call>"},
			[]string{"<tool_call>\n<function=get_weather>\n</function>\n</tool_call>",
				"<tool_call>\n<function=get_weather>\n<parameter=city>\nx\n</parameter>\n<parameter=days>\n99\n</parameter>\n</function>" +
					"\n</tool_call>"},
		},
		"llama3": {
			[]string{`{"name": "get_time", "parameters": {}}`,
				`{"name": "get_time", "parameters": {}}; {"name": "get_weather", "parameters": {"city":"","days":1}}`},
			[]string{`{"name": "get_time", "arguments": {}}`, `{"name": "get_time"}`},
		},
	} {
		g, err := ToolCalls(family, offered, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range c.yes {
			if !accepts(g, s) {
				t.Errorf("%s does not accept %q", family, s)
			}
		}
		for _, s := range c.no {
			if accepts(g, s) {
				t.Errorf("%s accepts %q", family, s)
			}
		}
		one, err := ToolCalls(family, offered, false)
		if err != nil {
			t.Fatal(err)
		}
		if accepts(one, c.yes[1]) != (family == "qwen3-coder") { // its second text is a single call
			t.Errorf("%s: one call only: %q", family, c.yes[1])
		}
	}
}

func TestToolsThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		family string
		tools  []Tool
		where  string
	}{
		{"qwen3", nil, ""},
		{"plain", offered, "plain"},
		{"qwen3", []Tool{{Name: "a<b"}}, "name"},
		{"qwen3", []Tool{{"f", []byte(`{`), true}}, "tool f"},
		{"qwen3", []Tool{{"f", []byte(`{"properties":{"x":{"type":"array","uniqueItems":true}}}`), true}},
			"tool f: #/properties/x: uniqueItems"},
		{"qwen3", []Tool{{"f", []byte(`{"type":"string"}`), true}}, ""},
		{"qwen3-coder", []Tool{{"f", []byte(`{"properties":{"x":{"type":"array","uniqueItems":true}}}`), true}},
			"tool f: #/properties/x: uniqueItems"},
	} {
		_, err := ToolCalls(c.family, c.tools, false)
		var own *Error
		if !errors.As(err, &own) || !strings.Contains(err.Error(), c.where) {
			t.Errorf("%s %v: %v", c.family, c.tools, err)
		}
	}
	// Two tools may use the same anchor.
	tool := func(name, typ string) Tool {
		return Tool{name, []byte(`{"properties":{"x":{"$ref":"#v"}},"required":["x"],"$defs":{"v":{"$anchor":"v","type":"` + typ + `"}}}`),
			true}
	}
	g, err := ToolCalls("llama3", []Tool{tool("a", "null"), tool("b", "boolean")}, false)
	if err != nil || !accepts(g, `{"name":"a","parameters":{"x":null}}`) || !accepts(g, `{"name":"b","parameters":{"x":true}}`) ||
		accepts(g, `{"name":"b","parameters":{"x":null}}`) {
		t.Error(err)
	}
}
