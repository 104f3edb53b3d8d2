// Package hub fetches files from a Hugging Face-compatible hub: listings with hashes, small files
// into memory, large ones in parallel parts that resume where they stopped. It also holds the
// catalogue of short names.
//
// It writes nothing by itself: the caller gives the file and keeps the state of its parts. A
// [Client] holds no resource beyond idle connections and may be used from any goroutine once its
// fields are set.
package hub
