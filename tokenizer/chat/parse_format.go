package chat

// This file is what the answers of each family are made of.

// parseFormat is what a family's answers are made of.
type parseFormat struct {
	think   []ThinkTag
	calls   []parseOpener
	leading bool // an answer that begins with { or [ may be a call without a tag
}

// parseSpace is what is trimmed around tags.
const parseSpace = " \t\r\n\v\f"

// parseOpener begins a tool call. Its body ends at close, or, where body is nil, with the JSON
// value or XML element that follows, close being optional then. loose: other things begin like this
// too.
type parseOpener struct {
	open, close string
	body        func(body []byte, tools []Tool) ([]ToolCall, bool)
	loose       bool
	cdata       bool // <![CDATA[…]]> in the body may hold anything, close too
}

var (
	parseToolCall = parseOpener{open: "<tool_call>", close: "</tool_call>"}
	parseFunction = parseOpener{open: "<function=", close: "</function>", body: parseBareFunction}
	parseThinks   = []ThinkTag{{"<think>", "</think>"}}
	parseCalls    = []parseOpener{parseToolCall}
	parseFence    = parseOpener{open: "```json", close: "```", loose: true}
)

// parseFormatOf is a family's format, whose lists are not to be changed.
func parseFormatOf(family string) parseFormat {
	f := parseFormat{think: parseThinks}
	switch family {
	case "qwen3", "hermes":
		f.calls = parseCalls
	case "qwen3-coder":
		f.calls = []parseOpener{parseToolCall, parseFunction}
	case "llama3":
		f.calls = []parseOpener{{open: "<|python_tag|>"}, parseFunction}
		f.leading = true
	case "minicpm5":
		f.calls = []parseOpener{{open: "<function name=", close: "</function>", body: parseNamedFunction, cdata: true}}
	case "minicpm":
		f.think = append(f.think, ThinkTag{"<|thought_start|>", "<|thought_end|>"})
		f.calls = []parseOpener{parseToolCall, {open: "<|tool_call_start|>", close: "<|tool_call_end|>", body: parsePythonBlock}}
	case "phi":
		f.calls = []parseOpener{{open: "<|tool_call|>", close: "<|/tool_call|>"}}
	case "gemma":
		f.think = append(f.think, ThinkTag{"<|channel>thought\n", "<channel|>"})
		f.calls = []parseOpener{
			{open: "<start_function_call>", close: "<end_function_call>", body: parseGemmaCall},
			{open: "<|tool_call>", close: "<tool_call|>", body: parseGemmaCall},
			{open: "```tool_code", close: "```", body: parsePythonBlock},
		}
		f.leading = true
	}
	return f
}
