// Package server answers HTTP: Ollama's native API, OpenAI's and Anthropic's, the vendor's older
// one on a port of its own, health, metrics and one page for people. The package itself is the
// front door: the guard (host, origin, key), the limits of connections, the routes, the log line
// and the orderly end. Behind it are rooms:
//
//   - access: the keys that may ask, their roles and limits;
//   - request: one request and its answer: body, limits, weight, deadlines, errors and their statuses;
//   - answer: conversations, bare prompts and vectors, all on one way to the engine;
//   - manage: the models on this machine: list, show, create, copy, delete, pull, uploads;
//   - catalog and pool: what a model is before it is loaded, and the loaded ones, which come on demand and go by keep_alive and memory;
//   - monitor: what people see of it while it runs, under /api/axle;
//   - local: the models of this machine as a catalog, and the cards that load them;
//   - ollama, openai, anthropic, vendor: the dialects, pure functions over wire types.
//
// The door itself is, file by file:
//
//   - server.go makes, serves and closes it, env.go reads its settings, drain.go ends it in order;
//   - listener.go limits connections; guard.go refuses what has the wrong host, origin or key, and hostnames.go says which hosts are right;
//   - routes.go says who may ask each path and leads it to its room, requestlog.go begins and ends each request and writes its line;
//   - constant.go, health.go, metrics.go and page.go answer what needs no model: the same to everyone, the state, figures, the page;
//     cards.go watches the cards' heat and loss for them;
//   - vendor.go is the older API, with a door of its own.
//
// The card never waits for a socket: the engine keeps what a slow reader has not taken, and a
// reader that takes nothing for a write's deadline is cut off. A [Server] may be used from any
// goroutine. The caller closes it; Close unloads every model. It imports neither axcl/native nor
// anything that unpacks archives or shows profiles.
package server
