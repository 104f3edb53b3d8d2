// Package anthropic speaks Anthropic's API: messages, and count_tokens, which Ollama lacks. The
// wire types, and what writes answers, are Ollama's own (github.com/ollama/ollama/anthropic);
// tool_choice, disable_parallel_tool_use, the format of the answer and strict tools are honoured
// too. An answer that a stop sequence ends has the reason end_turn, as Ollama's has.
//
// A body becomes a [prompt.Request] (request.go, blocks.go), package answer answers that, and the
// encoder makes events of the parts (encoder.go). Functions are pure and safe for concurrent use;
// an encoder belongs to one answer and one goroutine. Nothing here holds a resource.
package anthropic
