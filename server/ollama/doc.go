// Package ollama speaks Ollama's native API: a body becomes a [prompt.Request], and the parts of an
// answer its objects. The wire types are Ollama's own (github.com/ollama/ollama/api).
//
// The functions are pure and safe for concurrent use; an encoder belongs to one answer and one
// goroutine. Nothing here holds a resource.
package ollama
