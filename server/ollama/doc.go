// Package ollama speaks Ollama's native API: request bodies to engine requests, engine events to
// response objects. The wire types are Ollama's own (github.com/ollama/ollama/api); this package
// holds only functions over them and knows nothing of HTTP but status codes, which errors carry as
// [api.StatusError].
//
// The functions are pure and safe for concurrent use; an [Answer] belongs to one answer and one
// goroutine. Nothing here holds a resource.
package ollama
