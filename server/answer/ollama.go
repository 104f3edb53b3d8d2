package answer

import (
	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/server/exchange"
	"github.com/axle-llm/axle/server/ollama"
)

func streams(asked *bool) bool { return asked == nil || *asked }

// OllamaChat answers /api/chat.
func (a *Answers) OllamaChat(x *exchange.Exchange) {
	if req, ok := exchange.Read(x, exchange.MaxBody, ollama.DecodeChat); ok {
		a.chat(x, req, exchange.Native[api.ChatResponse]{Stream: streams(req.Stream)})
	}
}

// OllamaGenerate answers /api/generate.
func (a *Answers) OllamaGenerate(x *exchange.Exchange) {
	if req, ok := exchange.Read(x, exchange.MaxBody, ollama.DecodeGenerate); ok {
		a.generate(x, req, exchange.Native[api.GenerateResponse]{Stream: streams(req.Stream)})
	}
}
