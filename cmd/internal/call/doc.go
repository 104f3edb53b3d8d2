// Package call is a spoken conversation with a server, through its Realtime API: what a microphone
// or a file has goes there as it comes, and what is heard and answered comes back as text and
// sound. Who records, plays and shows it is handed in.
//
// [Run] holds one conversation and returns when it is over. It owns the connection; the caller
// closes what it handed in. event.go has the events as they are on the wire.
package call
