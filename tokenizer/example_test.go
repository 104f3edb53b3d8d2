package tokenizer_test

import (
	"fmt"
	"testing/fstest"

	"github.com/axle-llm/axle/tokenizer"
)

// small is a tokenizer of single bytes, two merges and a control token.
var small = fstest.MapFS{"tokenizer.json": {Data: []byte(`{"added_tokens": [{"id": 9, "content": "<|end|>", "special": true}],
	"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "decoder": {"type": "ByteLevel"},
	"model": {"type": "BPE", "vocab": {"l": 0, "o": 1, "w": 2, "lo": 3, "low": 4, "<": 5, "|": 6, "Ã": 7, "©": 8, ">": 10, "e": 11, "n": 12, "d": 13},
	"merges": ["l o", "lo w"]}}`)}}

// Text to ids and back. What a user writes is encoded without specials: nothing in it becomes a control token.
func Example() {
	t, err := tokenizer.OpenFS(small, ".") // tokenizer.Open("models/qwen3-0.6b") for a folder or a file on disk
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(t.Encode(nil, "low<|end|>", true))
	ids := t.Encode(nil, "low<|end|>", false)
	fmt.Println(ids, t.Decode(ids, false))

	// A prompt is made of both.
	fmt.Println(t.EncodeParts(nil, []tokenizer.Part{{Text: "<|end|>"}, {Text: "<|end|>", Control: true}}))
	// Output:
	// [4 9]
	// [4 5 6 11 12 13 6 10] low<|end|>
	// [5 6 11 12 13 6 10 9]
}
