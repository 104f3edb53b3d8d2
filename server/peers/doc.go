// Package peers lets servers with one secret fetch each other's rows of K and V over HTTP, without
// a file server:
//
//	HEAD /rows/PACKAGE/NAME   is the file there?
//	GET  /rows/PACKAGE/NAME   the file, sealed
//	PUT  /rows/PACKAGE/NAME   a server that ends hands a file over
//
// PACKAGE and NAME are those of the folder of rows (models/rows): keyed hashes that no one can
// guess. A file is sealed with the secret, under its name; who gets it holds it against that before
// a byte is used. So a peer, or who stands between, can withhold rows and cannot forge any.
//
// A request says who sends it: a header has a time, a number that is used once, and a MAC over
// both and the method, the host, the path and the length. Its key is derived from the secret, which
// never leaves the server. A time that is two minutes off, and a number that was there before, are
// refused. A request that cannot say it learns nothing of the files. What is sent is not encrypted:
// that is TLS's work.
//
// A [Server] answers. It sends two files at a time, at a bounded rate, and takes one at a time,
// only into room that is free: what a peer wants comes after the server's own streams. [Peers]
// asks: it is a rows.Blobs. Of a conversation it asks one peer at most for the content, chosen by
// its KV events where it has them, else by one short question to each. A peer that does not answer
// is left alone for a while.
//
// Both may be used from any goroutine. Close of Peers ends its connections and subscriptions.
package peers
