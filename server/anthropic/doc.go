// Package anthropic speaks Anthropic's API: messages, and count_tokens, which Ollama lacks. The
// wire types and most conversions are Ollama's own (github.com/ollama/ollama/anthropic);
// tool_choice, disable_parallel_tool_use, the format of the answer and strict tools are honoured
// too. An answer that a stop sequence ends has the reason end_turn, as Ollama's has.
//
// [Decode] makes a native request of a body (request.go), package answer answers that, and an
// [Encoder] makes events of the native parts (encoder.go). Functions are pure and safe for
// concurrent use; an Encoder belongs to one answer and one goroutine. Nothing here holds a
// resource.
package anthropic
