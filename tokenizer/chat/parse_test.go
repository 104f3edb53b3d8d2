package chat

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/internal/lane"
)

func TestParse(t *testing.T) {
	for _, c := range parseCases {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, parseAll(c.family, c.o, c.in)); d != "" {
				t.Error("in one piece:\n" + d)
			}
			if d := cmp.Diff(c.want, parseAll(c.family, c.o, strings.Split(c.in, "")...)); d != "" {
				t.Error("character by character:\n" + d)
			}
			for i := range c.in {
				if d := cmp.Diff(c.want, parseAll(c.family, c.o, c.in[:i], c.in[i:])); d != "" {
					t.Errorf("cut at %d:\n%s", i, d)
				}
			}
		})
	}
}

// parsed is what deltas add up to, in a form that is easy to write down: calls stand in the text as
// ‹name args›.
type parsed struct{ Thinking, Text string }

func (r *parsed) add(deltas []Delta) {
	for _, d := range deltas {
		r.Thinking += d.Thinking
		r.Text += d.Text
		if c := d.ToolCall; c != nil {
			r.Text += "‹" + c.Name + " " + string(c.Arguments) + "›"
		}
	}
}

func parseAll(family string, o ParserOptions, parts ...string) (r parsed) {
	p := NewParser(family, o)
	for _, s := range parts {
		r.add(p.Write(s))
	}
	r.add(p.Close())
	return r
}

var parseTools = []Tool{
	{Name: "get_weather", Parameters: json.RawMessage(`{"type":"object","properties":{
		"city":{"type":"string"},"days":{"type":"integer"},"loud":{"type":"boolean"},"at":{"type":["number","null"]},
		"tags":{"type":"array"},"opts":{"anyOf":[{"type":"object"},{"type":"string"}]}}}`)},
	{Name: "get"},
	{Name: "ns.tool-2"},
}

var parseCases = []struct {
	name, family string
	o            ParserOptions
	in           string
	want         parsed
}{
	{"text", "qwen3", ParserOptions{Tools: parseTools}, "Hello, world.\n", parsed{"", "Hello, world.\n"}},
	{"text with marks", "qwen3", ParserOptions{Tools: parseTools}, "a < b <too <tool_cal <think>",
		parsed{"", "a < b <too <tool_cal <think>"}},
	{"nothing", "qwen3", ParserOptions{Tools: parseTools}, "", parsed{}},
	{"white space only", "qwen3", ParserOptions{Tools: parseTools}, " \n\n", parsed{"", " \n\n"}},

	{"thinking", "qwen3", ParserOptions{}, "<think>\nI see.\n\n</think>\n\nYes.", parsed{"I see.", "Yes."}},
	{"thinking behind space", "qwen3", ParserOptions{}, "\n <think>x</think>y", parsed{"x", "y"}},
	{"empty thinking", "qwen3", ParserOptions{}, "<think>\n\n</think>\n\nYes.", parsed{"", "Yes."}},
	{"thinking, plain family", "plain", ParserOptions{}, "<think>a</think>b", parsed{"a", "b"}},
	{"thinking, unknown family", "what", ParserOptions{}, "<think>a</think>b", parsed{"a", "b"}},
	{"open thinking", "qwen3", ParserOptions{ThinkOpen: true}, "\nI see.\n</think>\n\nYes.", parsed{"I see.", "Yes."}},
	{"open thinking, opened again", "qwen3", ParserOptions{ThinkOpen: true}, "\n<think>\nI see.</think>Yes.", parsed{"I see.", "Yes."}},
	{"open thinking, truncated", "qwen3", ParserOptions{ThinkOpen: true}, "I see </thi", parsed{"I see </thi", ""}},
	{"open thinking, only space", "qwen3", ParserOptions{ThinkOpen: true}, "\n ", parsed{}},
	{"truncated thinking", "qwen3", ParserOptions{}, "<think>\nI see\n", parsed{"I see\n", ""}},
	{"truncated tag", "qwen3", ParserOptions{}, "<thin", parsed{"", "<thin"}},
	{"thinking off", "qwen3", ParserOptions{Think: ThinkOff}, "<think>\na</think>b", parsed{"", "<think>\na</think>b"}},
	{"tag in text", "qwen3", ParserOptions{}, "The <think> tag", parsed{"", "The <think> tag"}},
	{"second thinking is text", "qwen3", ParserOptions{}, "<think>a</think>b<think>c</think>", parsed{"a", "b<think>c</think>"}},
	{"tag inside thinking", "qwen3", ParserOptions{}, "<think>a <think> b</think>c", parsed{"a <think> b", "c"}},
	{"MiniCPM thinking", "minicpm", ParserOptions{}, "<|thought_start|>\na\n<|thought_end|>\nb", parsed{"a", "b"}},
	{"Gemma thinking", "gemma", ParserOptions{}, "<|channel>thought\na\n<channel|>b", parsed{"a", "b"}},

	{"call", "qwen3", ParserOptions{Tools: parseTools},
		"Let me see.\n\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"days\": 2, \"city\": \"Paris\"}}\n</tool_call>\n",
		parsed{"", `Let me see.‹get_weather {"days":2,"city":"Paris"}›`}},
	{"calls and text after", "hermes", ParserOptions{Tools: parseTools},
		"<tool_call>{\"name\":\"get\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"get\"}</tool_call>\nDone.",
		parsed{"", `‹get {}›‹get {}›Done.`}},
	{"thinking and call", "qwen3", ParserOptions{Tools: parseTools},
		"<think>\nhm\n</think>\n\n<tool_call>\n{\"name\":\"get\",\"arguments\":{\"z\":1,\"a\":[1.50,\"é\\u00e9\"]}}\n</tool_call>",
		parsed{"hm", `‹get {"z":1,"a":[1.50,"é\u00e9"]}›`}},
	{"call inside thinking", "qwen3", ParserOptions{Tools: parseTools, ThinkOpen: true},
		"I will call\n<tool_call>{\"name\":\"get\"}</tool_call>", parsed{"I will call", `‹get {}›`}},
	{"unknown tool", "qwen3", ParserOptions{Tools: parseTools},
		"a <tool_call>{\"name\":\"rm\",\"arguments\":{}}</tool_call> b", parsed{"", "ab"}},
	{"no tools offered", "qwen3", ParserOptions{},
		"a <tool_call>{\"name\":\"get\"}</tool_call>", parsed{"", "a <tool_call>{\"name\":\"get\"}</tool_call>"}},
	{"tag within a string", "qwen3", ParserOptions{Tools: parseTools},
		`<tool_call>{"name":"get","arguments":{"s":"</tool_call> \"}"}}</tool_call>x`, parsed{"", `‹get {"s":"</tool_call> \"}"}›x`}},
	{"arguments as a string", "qwen3", ParserOptions{Tools: parseTools},
		`<tool_call>{"name":"get","arguments":"{\"b\":1, \"a\":2}"}</tool_call>`, parsed{"", `‹get {"b":1,"a":2}›`}},
	{"parameters", "qwen3", ParserOptions{Tools: parseTools}, `<tool_call>{"name":"get","parameters":{"a":1}}</tool_call>`,
		parsed{"", `‹get {"a":1}›`}},
	{"closing tag missing", "qwen3", ParserOptions{Tools: parseTools}, `x<tool_call>{"name":"get"}`, parsed{"", `x‹get {}›`}},
	{"closing tag missing, text", "qwen3", ParserOptions{Tools: parseTools}, `<tool_call>{"name":"get"} so`, parsed{"", `‹get {}›so`}},
	{"two in one tag", "qwen3", ParserOptions{Tools: parseTools}, "<tool_call>{\"name\":\"get\"}\n{\"name\":\"ns.tool-2\"}</tool_call>",
		parsed{"", `‹get {}›‹ns.tool-2 {}›`}},
	{"list in a tag", "qwen3", ParserOptions{Tools: parseTools}, `<tool_call>[{"name":"get"},{"name":"rm"}]</tool_call>`,
		parsed{"", `‹get {}›`}},
	{"truncated call", "qwen3", ParserOptions{Tools: parseTools}, "a\n<tool_call>{\"name\":\"ge",
		parsed{"", "a\n<tool_call>{\"name\":\"ge"}},
	{"malformed call", "qwen3", ParserOptions{Tools: parseTools},
		"a\n<tool_call>{\"name\":\"get\", oops}</tool_call> b", parsed{"", "a\n<tool_call>{\"name\":\"get\", oops}</tool_call> b"}},
	{"brace missing", "qwen3", ParserOptions{Tools: parseTools},
		`<tool_call>{"name":"get","arguments":{</tool_call><tool_call>{"name":"get"}</tool_call>`,
		parsed{"", `<tool_call>{"name":"get","arguments":{</tool_call>‹get {}›`}},
	{"string never ends", "qwen3", ParserOptions{Tools: parseTools},
		`<tool_call>{"name":"get}</tool_call> b <tool_call>{"name":'get'}</tool_call>`,
		parsed{"", `<tool_call>{"name":"get}</tool_call> b <tool_call>{"name":'get'}</tool_call>`}},
	{"no JSON in the tag", "qwen3", ParserOptions{Tools: parseTools}, "<tool_call>what</tool_call>",
		parsed{"", "<tool_call>what</tool_call>"}},
	{"name missing", "qwen3", ParserOptions{Tools: parseTools}, `<tool_call>{"arguments":{}}</tool_call>`,
		parsed{"", `<tool_call>{"arguments":{}}</tool_call>`}},

	{"coder", "qwen3-coder", ParserOptions{Tools: parseTools},
		"I look.\n<tool_call>\n<function=get_weather>\n<parameter=days>\n3\n</parameter>\n<parameter=city>\nSan " +
			"\"Fran\"\n<b>&</tool_call>\n</parameter>\n" +
			"<parameter=loud>\nTrue\n</parameter>\n<parameter=at>\n1.50\n</parameter>\n<parameter=tags>\n[1, " +
			"\"a\"]\n</parameter>\n<parameter=opts>\n{\"b\": 1, \"a\": " +
			"2}\n</parameter>\n<parameter=other>\n5\n</parameter>\n</function>\n</tool_call>",
		parsed{"", "I look.‹get_weather " +
			`{"days":3,"city":"San \"Fran\"\n<b>&</tool_call>","loud":true,"at":1.50,"tags":[1,"a"],"opts":{"b":1,"a":2},"other":"5"}›`}},
	{"coder, wrong types", "qwen3-coder", ParserOptions{Tools: parseTools},
		"<tool_call><function=get_weather><parameter=days>1.5</parameter><parameter=loud>maybe</parameter><parameter=at>null</parameter>" +
			"</function></tool_call>",
		parsed{"", `‹get_weather {"days":"1.5","loud":"maybe","at":null}›`}},
	{"coder, no parameters", "qwen3-coder", ParserOptions{Tools: parseTools}, "<tool_call>\n<function=get>\n</function>\n</tool_call>",
		parsed{"", `‹get {}›`}},
	{"coder, tag forgotten", "qwen3-coder", ParserOptions{Tools: parseTools}, "<function=get>\n<parameter=a>\nx\n</parameter>\n</function>",
		parsed{"", `‹get {"a":"x"}›`}},
	{"coder, JSON", "qwen3-coder", ParserOptions{Tools: parseTools}, `<tool_call>{"name":"get"}</tool_call>`, parsed{"", `‹get {}›`}},
	{"coder, truncated", "qwen3-coder", ParserOptions{Tools: parseTools}, "<tool_call>\n<function=get>\n<parameter=a>\nx",
		parsed{"", "<tool_call>\n<function=get>\n<parameter=a>\nx"}},
	{"coder, end missing", "qwen3-coder", ParserOptions{Tools: parseTools}, "<tool_call>\n<function=get>\n</function>\n",
		parsed{"", `‹get {}›`}},
	{"coder, malformed", "qwen3-coder", ParserOptions{Tools: parseTools}, "<tool_call><function=get>x</function></tool_call>",
		parsed{"", "<tool_call><function=get>x</function></tool_call>"}},

	{"Llama", "llama3", ParserOptions{Tools: parseTools}, `{"name": "get_weather", "parameters": {"city": "Paris"}}`,
		parsed{"", `‹get_weather {"city":"Paris"}›`}},
	{"Llama, two", "llama3", ParserOptions{Tools: parseTools}, `{"name":"get","parameters":{}}; {"name":"get","parameters":{"a":1}}`,
		parsed{"", `‹get {}›‹get {"a":1}›`}},
	{"Llama, function", "llama3", ParserOptions{Tools: parseTools}, `{"type":"function","function":{"name":"get","parameters":{"a":1}}}`,
		parsed{"", `‹get {"a":1}›`}},
	{"Llama, named function", "llama3", ParserOptions{Tools: parseTools}, `{"type":"function","function":"get","parameters":{"a":1}}`,
		parsed{"", `‹get {"a":1}›`}},
	{"Llama, python tag", "llama3", ParserOptions{Tools: parseTools}, `<|python_tag|>{"name":"get","parameters":{}}`,
		parsed{"", `‹get {}›`}},
	{"Llama, function tag", "llama3", ParserOptions{Tools: parseTools}, `<function=get>{"a": 1}</function>`, parsed{"", `‹get {"a":1}›`}},
	{"Llama, other JSON", "llama3", ParserOptions{Tools: parseTools}, ` {"answer": 42}`, parsed{"", ` {"answer": 42}`}},
	{"Llama, JSON later", "llama3", ParserOptions{Tools: parseTools}, `So: {"name":"get","parameters":{}}`,
		parsed{"", `So: {"name":"get","parameters":{}}`}},
	{"Llama, other name", "llama3", ParserOptions{Tools: parseTools}, `{"name":"rm","parameters":{}}`, parsed{}},
	{"Llama, unfinished", "llama3", ParserOptions{Tools: parseTools}, `{"name":"get","par`, parsed{"", `{"name":"get","par`}},
	{"Llama, list", "llama3", ParserOptions{Tools: parseTools}, `[{"name":"get","parameters":{}}]`, parsed{"", `‹get {}›`}},
	{"Llama, footnote", "llama3", ParserOptions{Tools: parseTools}, `[1] Smith`, parsed{"", `[1] Smith`}},
	{"pythonic", "llama3", ParserOptions{Tools: parseTools},
		`[get_weather(city='It\'s "P"', days=2, loud=True, at=None, tags=["a", 'b', (1, -2.5,)], opts={'z': {}, "a": 1}), get()]`,
		parsed{"", `‹get_weather {"city":"It's \"P\"","days":2,"loud":true,"at":null,"tags":["a","b",[1,-2.5]],"opts":{"z":{},"a":1}}›‹get {}›`}},
	{"pythonic, broken", "llama3", ParserOptions{Tools: parseTools}, `[get(a=b)] no`, parsed{"", `[get(a=b)] no`}},

	{"MiniCPM5", "minicpm5", ParserOptions{Tools: parseTools},
		"I look.\n<function name=\"get_weather\"><param name=\"days\">3</param><param name='city'>" +
			"<![CDATA[a < b &\n</param></function>]]></param></function>\n<function name=\"get\"></function>",
		parsed{"", "I look.‹get_weather " + `{"days":3,"city":"a < b &\n</param></function>"}›‹get {}›`}},
	{"MiniCPM5, a value in parts", "minicpm5", ParserOptions{Tools: parseTools},
		`<function name="get"><param name="s"><![CDATA[x]]]]><![CDATA[>y]]></param></function>so`, parsed{"", `‹get {"s":"x]]>y"}›so`}},
	{"MiniCPM5, truncated", "minicpm5", ParserOptions{Tools: parseTools}, `<function name="get"><param name="s"><![CDATA[</function>`,
		parsed{"", `<function name="get"><param name="s"><![CDATA[</function>`}},
	{"MiniCPM5, end missing", "minicpm5", ParserOptions{Tools: parseTools}, `<function name="get"><param name="s">x</param>`,
		parsed{"", `‹get {"s":"x"}›`}},
	{"MiniCPM5, malformed", "minicpm5", ParserOptions{Tools: parseTools}, `<function name="get">x</function> y`,
		parsed{"", `<function name="get">x</function> y`}},
	{"MiniCPM5, thinking", "minicpm5", ParserOptions{Tools: parseTools, ThinkOpen: true},
		"hm\n</think>\n\n<function name=\"get\"></function>",
		parsed{"hm", `‹get {}›`}},
	{"MiniCPM", "minicpm", ParserOptions{Tools: parseTools},
		"<|thought_start|>\nhm\n<|thought_end|>\n<|tool_call_start|>\n```python\nget_weather(city=\"P\", " +
			"days=1)\nns.tool-2()\n```\n<|tool_call_end|>\nok",
		parsed{"hm", `‹get_weather {"city":"P","days":1}›‹ns.tool-2 {}›ok`}},
	{"MiniCPM-V", "minicpm", ParserOptions{Tools: parseTools}, `<tool_call>{"name":"get","arguments":{}}</tool_call>`,
		parsed{"", `‹get {}›`}},
	{"FunctionGemma", "gemma", ParserOptions{Tools: parseTools},
		"<start_function_call>call:get_weather{city:<escape>Pa,r}is<escape>,days:2,tags:[1,<escape>b<escape>],opts:{z:true}}" +
			"<end_function_call>",
		parsed{"", `‹get_weather {"city":"Pa,r}is","days":2,"tags":[1,"b"],"opts":{"z":true}}›`}},
	{"Gemma 4", "gemma", ParserOptions{Tools: parseTools}, `Hm.<|tool_call>call:get{a:<|"|>x<|"|>,b:word}<tool_call|>`,
		parsed{"", `Hm.‹get {"a":"x","b":"word"}›`}},
	{"Gemma 3 JSON", "gemma", ParserOptions{Tools: parseTools}, `{"name":"get","parameters":{"a":1}}`, parsed{"", `‹get {"a":1}›`}},
	{"Gemma 3 code", "gemma", ParserOptions{Tools: parseTools}, "Ok\n```tool_code\nget(a=1)\n```", parsed{"", `Ok‹get {"a":1}›`}},
	{"Gemma 3 fence", "gemma", ParserOptions{Tools: parseTools}, "```json\n{\"name\":\"get\",\"parameters\":{\"a\":1}}\n```\nok",
		parsed{"", `‹get {"a":1}›ok`}},
	{"Gemma 3 fence, no call", "gemma", ParserOptions{Tools: parseTools}, "```json\n{\"a\":1}\n```\nok",
		parsed{"", "```json\n{\"a\":1}\n```\nok"}},
	{"Gemma, fence later", "gemma", ParserOptions{Tools: parseTools}, "So ```json\n{\"name\":\"get\"}",
		parsed{"", "So ```json\n{\"name\":\"get\"}"}},
	{"only a name", "llama3", ParserOptions{Tools: parseTools}, `{"name":"Ada"}`, parsed{"", `{"name":"Ada"}`}},
	{"Phi", "phi", ParserOptions{Tools: parseTools}, `Ok <|tool_call|>[{"name":"get","arguments":{"a":1}}, {"name":"get"}]<|/tool_call|>`,
		parsed{"", `Ok‹get {"a":1}›‹get {}›`}},
	{"Gemma, malformed", "gemma", ParserOptions{Tools: parseTools}, "<|tool_call>get{}<tool_call|>",
		parsed{"", "<|tool_call>get{}<tool_call|>"}},
	{"plain", "plain", ParserOptions{Tools: parseTools}, `<tool_call>{"name":"get"}</tool_call>`,
		parsed{"", `<tool_call>{"name":"get"}</tool_call>`}},
}

// parseHostile draws an answer out of what tags, values and mistakes are made of.
func parseHostile(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
		"<think>", "</think>", "<tool_call>", "</tool_call>", "<function=get>", "<parameter=a>", "</parameter>", "</function>",
		`{"name":"get","arguments":{"a":"b"}}`, `{"name":"get"`, "{", "}", "[", "]", `"`, "'", `\`, "get(a='x')", "(", ")", ";", ",",
		"<|python_tag|>", "<|tool_call_start|>", "<|tool_call_end|>", "<|tool_call>", "<tool_call|>", "call:get{a:", `<|"|>`, "<escape>",
		"```", "```tool_code", "<start_function_call>", "<end_function_call>", "<|channel>thought\n", "<channel|>", "<|thought_start|>",
		" ", "\n", "\u00a0", "é", "\xff", "x", "word", "<", "</", "<t", "null", "1.5",
	}), 0, 25).Draw(t, "answer"), "")
}

func TestCutsMakeNoDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		family := rapid.SampledFrom(Families()).Draw(t, "family")
		o := ParserOptions{
			ThinkOpen: rapid.Bool().Draw(t, "open"),
			Think:     rapid.SampledFrom([]Think{ThinkDefault, ThinkOff}).Draw(t, "think"),
		}
		if rapid.Bool().Draw(t, "tools") {
			o.Tools = parseTools
		}
		in := parseHostile(t)
		var parts []string
		for rest := in; rest != ""; {
			n := rapid.IntRange(1, min(len(rest), 9)).Draw(t, "cut")
			parts, rest = append(parts, rest[:n]), rest[n:]
		}
		whole, cut := parseAll(family, o, in), parseAll(family, o, parts...)
		if d := cmp.Diff(whole, cut); d != "" {
			t.Fatalf("%q in parts %q:\n%s", in, parts, d)
		}
		if o.Tools == nil && o.Think == ThinkOff && whole.Text != in {
			t.Fatalf("%q became %q", in, whole.Text)
		}
	})
}

// What cannot become part of a tag must not wait for the next token.
func TestNothingIsHeldLongerThanItMust(t *testing.T) {
	for _, family := range Families() {
		p := NewParser(family, ParserOptions{Tools: parseTools})
		var got parsed
		sent := ""
		for _, part := range strings.SplitAfter("The quick < brown fox <b>jumps</b> over 3 dogs. \n\n1 <2 <to <tool ends", " ") {
			got.add(p.Write(part))
			sent += part
			held := strings.TrimPrefix(sent, got.Text)
			if strings.TrimSpace(held) != "" && !strings.HasPrefix("<tool_call>", strings.TrimLeft(held, " \n")) {
				t.Errorf("%s: %q is held back after %q", family, held, part)
			}
		}
		p = NewParser(family, ParserOptions{})
		got = parsed{}
		got.add(p.Write("Hi"))
		got.add(p.Write(" \n<tool_call>"))
		if got.Text != "Hi \n<tool_call>" {
			t.Errorf("%s: without tools, %q so far", family, got.Text)
		}
	}
	p := NewParser("llama3", ParserOptions{Tools: parseTools})
	var got parsed
	got.add(p.Write(`{"answer`))
	if got.Text != `{"answer` {
		t.Errorf("JSON that is no call is held back: %q", got.Text)
	}
}

func FuzzParse(f *testing.F) {
	for _, c := range parseCases {
		f.Add(c.family, c.in, uint16(3), c.o.ThinkOpen, len(c.o.Tools) > 0)
	}
	f.Fuzz(func(t *testing.T, family, in string, cut uint16, open, tools bool) {
		fuzzguard.Check(t, len(family)+len(in), func() {
			o := ParserOptions{ThinkOpen: open}
			if tools {
				o.Tools = parseTools
			}
			n := int(cut) % (len(in) + 1)
			whole := parseAll(family, o, in)
			if d := cmp.Diff(whole, parseAll(family, o, in[:n], in[n:])); d != "" {
				t.Fatalf("%q cut at %d:\n%s", in, n, d)
			}
			p := NewParser(family, o)
			for _, d := range append(p.Write(in), p.Close()...) {
				if c := d.ToolCall; c != nil && (!json.Valid(c.Arguments) || c.Arguments[0] != '{') {
					t.Fatalf("arguments %q", c.Arguments)
				}
			}
		})
	})
}

// A mebibyte of answer, whole and as a model writes it, keeps within the limits too.
func TestHostileAnswers(t *testing.T) {
	//proves:G5 a mebibyte of hostile bytes each
	lane.Slow(t)
	lane.NoRace(t)
	for _, c := range []struct{ family, pre, unit, post string }{
		{"qwen3", "", "\n", ""}, {"qwen3", "<think>", " ", "x"}, {"qwen3", "a", "\n", "<tool_call>"}, {"qwen3", "", "<think>", ""},
		{"qwen3", "", "<tool_call>", ""}, {"qwen3", "", "<tool_call>{", ""}, {"qwen3", "<tool_call>", "{", ""},
		{"qwen3", "", "<tool_call>x</tool_call>", ""},
		{"qwen3", "", "<tool_call><function=a>", ""}, {"qwen3", "", `<tool_call>{"`, ""},
		{"qwen3", "<tool_call><function=get>", "<parameter=a>", ""}, {"qwen3", "<tool_call><function=get><parameter=a>", "</tool_call>",
			""},
		{"qwen3", "<tool_call><function=get>", "\n<parameter=a>1", "</function></tool_call>"},
		{"qwen3", "<tool_call><function=get>", "<parameter=a>1</parameter>", "</function></tool_call>"},
		{"qwen3", "<tool_call><function=get><parameter=tags>", "[", "</parameter></function></tool_call>"},
		{"qwen3", `<tool_call>{"name":"get","arguments":{"a":"`, `\\`, `"}}</tool_call>`},
		{"llama3", "", "<|python_tag|>", ""}, {"llama3", "", "<function=", ""},
		{"llama3", "<function=get>", "\n<parameter=a>1", "</function>"}, {"llama3", "", `{"name":"get","parameters":{}};`, ""},
		{"minicpm", "<|tool_call_start|>", "get(a='b')\n", "<|tool_call_end|>"},
		{"minicpm", "<|tool_call_start|>get(a=", "'b' ", ")<|tool_call_end|>"},
		{"minicpm", "<|tool_call_start|>get(a=[", "'b',", "])<|tool_call_end|>"},
		{"minicpm", "", "<|tool_call_start|>", ""}, {"minicpm", "<|tool_call_start|>", "[", "<|tool_call_end|>"},
		{"phi", "<|tool_call|>[", `{"name":"get"},`, `{"name":"get"}]<|/tool_call|>`},
		{"gemma", "<start_function_call>call:get{a:[", `"b",`, "]}<end_function_call>"},
		{"gemma", "<start_function_call>call:get{a:[", `<escape>b<escape>,`, "]}<end_function_call>"},
		{"gemma", "<start_function_call>call:get{", `a:"b",`, "}<end_function_call>"}, {"gemma", "", "<start_function_call>call:", ""},
		{"gemma", "", "```", ""}, {"gemma", "", "```tool_code\nget()\n```\n", ""}, {"gemma", "", "<|channel>thought\n", ""},
		{"plain", "", "<think>\n", ""},
	} {
		in := string(fuzzguard.Fill(c.pre, c.unit, c.post))
		for _, cut := range []int{len(in), 7} {
			t.Run(fmt.Sprintf("%s %.60q by %d", c.family, c.pre+c.unit, cut), func(t *testing.T) {
				fuzzguard.Check(t, len(in), func() {
					p := NewParser(c.family, ParserOptions{Tools: parseTools})
					for i := 0; i < len(in); i += cut {
						p.Write(in[i:min(i+cut, len(in))])
					}
					p.Close()
				})
			})
		}
	}
}

// TestFamiliesListed: a family that is told from a template, or has a form of its own, is on the
// list that other tests run over.
func TestFamiliesListed(t *testing.T) {
	for file, name := range map[string]*regexp.Regexp{
		"render.go":       regexp.MustCompile(`(?m)^\t\treturn "([a-z0-9-]+)"$`),
		"parse_format.go": regexp.MustCompile(`(?m)^\tcase ("[a-z0-9-]+"(?:, "[a-z0-9-]+")*):$`),
	} {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, m := range name.FindAllStringSubmatch(string(src), -1) {
			for family := range strings.SplitSeq(m[1], ", ") {
				found++
				if family = strings.Trim(family, `"`); !slices.Contains(Families(), family) {
					t.Errorf("%s knows the family %q, which Families does not list", file, family)
				}
			}
		}
		if found < 5 {
			t.Errorf("%s: only %d families were found", file, found)
		}
	}
}
