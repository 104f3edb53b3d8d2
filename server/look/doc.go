// Package look is what people look at while a server runs, beside its metrics: which answers run and whose they are, what is being loaded
// and how far that is, and a benchmark that can be started. It knows nothing of HTTP but the header in which a client says who it is; the
// routes under /api/axle are the server's.
//
// All of it is used from any goroutine. A [Bench] has a goroutine while it runs; Close ends and awaits it.
package look
