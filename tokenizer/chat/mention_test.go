package chat

import (
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/internal/fuzzguard"
)

// TestMentionedTags: a tool tag that thinking only talks about is thinking; a real call ends it.
func TestMentionedTags(t *testing.T) {
	for _, c := range []struct {
		name, family, in string
		want             parsed
	}{
		{"empty call", "qwen3", "<think>I must answer inside <tool_call></tool_call> tags. First …</think>\n\nHello",
			parsed{"I must answer inside <tool_call></tool_call> tags. First …", "Hello"}},
		{"only the opener", "qwen3", "<think>a <tool_call> tag\n</think>\nHello", parsed{"a <tool_call> tag", "Hello"}},
		{"at the end", "qwen3", "<think>use <tool_call>\n</think>\n\nHello", parsed{"use <tool_call>", "Hello"}},
		{"object", "qwen3", "<think>as <tool_call>{\"x\": 1}</tool_call> so</think>Hello",
			parsed{"as <tool_call>{\"x\": 1}</tool_call> so", "Hello"}},
		{"unfinished", "qwen3", "<think>as <tool_call>{\"name\": </think>Hello", parsed{"as <tool_call>{\"name\":", "Hello"}},
		{"then a call", "qwen3", "<think>a <tool_call> tag. <tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_call>",
			parsed{"a <tool_call> tag.", "‹get {}›"}},
		{"Gemma", "gemma", "<|channel>thought\nthe <|tool_call> tag\n<channel|>Hello", parsed{"the <|tool_call> tag", "Hello"}},
		{"Gemma, both", "gemma", "<|channel>thought\nthe <|tool_call> x <tool_call|> tags\n<channel|>Hello",
			parsed{"the <|tool_call> x <tool_call|> tags", "Hello"}},
		{"MiniCPM", "minicpm", "<|thought_start|>a <|tool_call_start|> b<|thought_end|>c", parsed{"a <|tool_call_start|> b", "c"}},
		{"in text", "qwen3", "<think>x</think>a <tool_call></tool_call> b", parsed{"x", "a <tool_call></tool_call> b"}},
	} {
		o := ParserOptions{Tools: parseTools}
		if got := parseAll(c.family, o, c.in); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		for n := range len(c.in) {
			if got := parseAll(c.family, o, c.in[:n], c.in[n:]); got != c.want {
				t.Errorf("%s, cut at %d: %q, want %q", c.name, n, got, c.want)
				break
			}
		}
	}
}

// TestManyMentions: each further mention takes as long as the one before.
func TestManyMentions(t *testing.T) {
	in := "<think>" + strings.Repeat("<tool_call> ", 40_000) + "</think>x"
	var got parsed
	d := fuzzguard.Busy(func() { got = parseAll("qwen3", ParserOptions{Tools: parseTools}, in) })
	if got.Text != "x" {
		t.Errorf("%.80q", got.Text)
	}
	if d > 10*time.Second {
		t.Errorf("it took %v", d)
	}
}
