// Package zmtp is the part of ZeroMQ that a publisher and its subscribers need: sockets that
// listen, publish to subscribers (PUB), and answer those who ask (ROUTER), and connections to such
// sockets ([DialSub], [Ask]), over TCP. It speaks ZMTP 3.0, ZeroMQ's wire protocol, with the
// mechanism NULL: no authentication, no encryption.
//
// Everything that a peer sends is bounded, in size and in time, and so is what waits for it. A peer
// that does not keep to the protocol, or does not read, loses its connection and disturbs no other.
//
// All methods may be called from any goroutine. Close ends a socket and its connections, and
// returns when all its goroutines have ended.
package zmtp
