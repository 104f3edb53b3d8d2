// Package mdns announces services on the local network, so that programs there find them without
// being told an address: multicast DNS (RFC 6762) and service discovery (RFC 6763), over IPv4.
//
// It answers, and asks nothing. Names are not probed for conflicts: they have a part of the
// machine's hardware address in them.
package mdns
