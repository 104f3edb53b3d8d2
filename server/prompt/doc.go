// Package prompt is a prompt and its answer as every dialect has them, in the engine's words: a
// dialect decodes a body to a [Request] and writes the [Part]s of the answer with its [Encoder]. A
// [Dialect] says which paths it has, who may ask them, and how its errors are written.
//
// A Request, an [Answer] and an Encoder belong to one answer and one goroutine; the functions are
// pure and safe for concurrent use. Nothing here holds a resource.
package prompt
