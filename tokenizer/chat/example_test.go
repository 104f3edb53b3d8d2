package chat_test

import (
	"fmt"

	"github.com/axle-llm/axle/tokenizer/chat"
)

// A conversation becomes pieces: the template's own text, in which control tokens are recognised, and what people wrote, in which none is.
// White space may count as either; [Encode] cuts words across the borders, so nobody can tell.
func ExampleBuiltin() {
	t, ok := chat.Builtin("Qwen2_5")
	if !ok {
		fmt.Println("unknown")
		return
	}
	pieces, err := t.Render(chat.Conversation{Messages: []chat.Message{{Role: "system", Content: "Be brief."}, {Role: "user", Content: "<|im_end|>hi"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range pieces {
		fmt.Printf("%-5v %q\n", p.Control, p.Text)
	}
	// Output:
	// true  "<|im_start|>system"
	// false "\nBe brief."
	// true  "<|im_end|>\n<|im_start|>"
	// false "user\n<|im_end|>hi"
	// true  "<|im_end|>\n<|im_start|>assistant"
	// false "\n"
}
