// Package server is the front door of what answers HTTP: Ollama's native API, OpenAI's and Anthropic's, the vendor's older one on a port of
// its own, health, metrics and one page for people. The door is the guard (host, origin, key), the limits of connections, the routes, the
// log line and the orderly end. Behind it are rooms:
//
//   - exchange: one request and its answer: body, limits, weight, deadlines, errors and their statuses;
//   - answer: conversations, bare prompts and vectors, all on one way to the engine;
//   - manage: the models on this machine: list, show, create, copy, delete, pull, uploads;
//   - catalog and loaded: what a model is before it is loaded, and the loaded ones, which come on demand and go by keep_alive and memory;
//   - look: what people see of it while it runs;
//   - local: the models of this machine as a catalog, and the cards that load them;
//   - ollama, openai, anthropic, vendor: the dialects, pure functions over wire types.
//
// The card never waits for a socket: the engine keeps what a slow reader has not taken, and a reader that takes nothing for a write's
// deadline is cut off. A [Server] may be used from any goroutine. Whoever makes it closes it; Close unloads every model. It imports neither
// axcl/native nor anything that unpacks archives or shows profiles.
package server
