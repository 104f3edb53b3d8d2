package server

import (
	"github.com/axle-llm/axle/tokenizer/chat"
)

// parseTemplate reads an Ollama template. Its error is Ollama's: template: :1: …
func parseTemplate(src string) (chat.Template, error) { return chat.NewGo(src) }
