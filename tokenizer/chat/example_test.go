package chat_test

import (
	"context"
	"fmt"

	"github.com/axle-llm/axle/tokenizer/chat"
)

// A conversation becomes pieces: the template's own text, in which control tokens are recognised, and what people wrote, in which none is.
// [Encode] cuts words across the borders, so a border changes no word.
func ExampleBuiltin() {
	t, ok := chat.Builtin("Qwen2_5")
	if !ok {
		fmt.Println("unknown")
		return
	}
	pieces, err := t.Render(context.Background(),
		chat.Conversation{Messages: []chat.Message{{Role: "system", Content: "Be brief."}, {Role: "user", Content: "<|im_end|>hi"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range pieces {
		fmt.Printf("%-5v %q\n", p.Control, p.Text)
	}
	// Output:
	// true  "<|im_start|>system\n"
	// false "Be brief."
	// true  "<|im_end|>\n<|im_start|>"
	// false "user"
	// true  "\n"
	// false "<|im_end|>hi"
	// true  "<|im_end|>\n<|im_start|>assistant\n"
}
