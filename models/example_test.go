package models_test

import (
	"fmt"

	"github.com/axle-llm/axle/models"
)

func ExampleParseName() {
	for _, s := range []string{"qwen3", "axera-tech/qwen3-4b:int8", "../etc/passwd"} {
		n, err := models.ParseName(s)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(n, n.Full())
	}
	// Output:
	// qwen3:latest registry.ollama.ai/library/qwen3:latest
	// axera-tech/qwen3-4b:int8 registry.ollama.ai/axera-tech/qwen3-4b:int8
	// invalid model name
}
