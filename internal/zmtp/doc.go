// Package zmtp is the part of ZeroMQ that a publisher needs: sockets that listen, publish to
// subscribers (PUB), and answer those who ask (ROUTER), over TCP. It speaks ZMTP 3.0, the wire
// protocol of ZeroMQ, with the mechanism NULL: no authentication, no encryption.
//
// Everything that a peer sends is bounded, in size and in time, and so is what waits for it. A peer
// that does not keep to the protocol, or does not read, loses its connection and disturbs no other.
//
// All methods may be called from any goroutine. Close ends a socket and its connections, and
// returns when all its goroutines have ended.
package zmtp
