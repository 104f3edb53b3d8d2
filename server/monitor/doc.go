// Package monitor is what people look at while a server runs, beside its metrics: which answers run
// and whose they are, what is being loaded and how far that is, the cards and their caches, the
// catalogue, and a benchmark that can be started. [Views] answers the requests under /api/axle with
// that (docs/api.md describes them); Owner, Streams, Loads and Bench keep it, and know nothing of
// HTTP but the header in which a client says who it is.
//
// All of it is used from any goroutine. A [Bench] has a goroutine while it runs; Close ends and
// awaits it.
package monitor
