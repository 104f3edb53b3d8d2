// Package server answers HTTP: Ollama's native API, OpenAI's and Anthropic's, the vendor's older one on a port of its own, health, metrics
// and one page for people.
//
// A request passes the guard (host, origin, key, size), is turned by its dialect's package (server/ollama, openai, anthropic, vendor: pure
// functions over wire types) into an engine request, gets its model from the [Host], which loads on demand and unloads by keep_alive and
// card memory, and is answered event by event, each flushed, each write with a deadline. The card never waits for a socket: the engine
// keeps what a slow reader has not taken, and a reader that takes nothing for a write's deadline is cut off.
//
// A [Server] may be used from any goroutine. Whoever makes it closes it; Close unloads every model. It imports neither axcl/native nor
// anything that unpacks archives or shows profiles.
package server
