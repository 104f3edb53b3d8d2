package chat_test

import (
	"fmt"

	"github.com/axle-llm/axle/tokenizer/chat"
)

func ExampleParser() {
	p := chat.NewParser("qwen3", chat.ParserOptions{Tools: []chat.Tool{{Name: "get_weather"}}})
	show := func(deltas []chat.Delta) {
		for _, d := range deltas {
			switch {
			case d.ToolCall != nil:
				fmt.Printf("call %s %s\n", d.ToolCall.Name, d.ToolCall.Arguments)
			case d.Thinking != "":
				fmt.Printf("thinking %q\n", d.Thinking)
			default:
				fmt.Printf("text %q\n", d.Text)
			}
		}
	}
	for _, part := range []string{"<thi", "nk>\nParis, then.\n", "</think>\n\nI look.", "\n<tool_call>\n{\"name\": \"get_weather\", ",
		"\"arguments\": {\"city\": \"Paris\"}}\n</tool", "_call>"} {
		show(p.Write(part))
	}
	show(p.Close())
	// Output:
	// thinking "Paris, then."
	// text "I look."
	// call get_weather {"city":"Paris"}
}
