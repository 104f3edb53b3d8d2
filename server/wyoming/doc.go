// Package wyoming speaks the Wyoming protocol, in which Home Assistant asks for speech to be
// written down, and for text to be spoken: events over a connection, each a line of JSON with more
// data and bytes behind it.
//
// [Reader] and [Append] are the wire format. [Serve] answers a connection with the services that
// its [Options] have: recognition, synthesis, or both. Another is a field of Options, what it adds
// to `info`, and the events that it takes. Who listens, and who may connect, is decided elsewhere.
//
// Every size is checked before it is believed, and every wait for the rest of an event ends.
package wyoming
