// Package realtime speaks OpenAI's Realtime API over a WebSocket. Of its kinds of session it has
// the transcription: a client sends sound as it comes, the server finds where somebody speaks, and
// writes each turn down.
//
// event.go has the events as they are on the wire, config.go what a session is set to, sound.go the
// sound that came and the turns in it, and session.go the two goroutines of a session: one reads
// events, the other has turns written down and ends the session in order. A voice conversation is
// more events, another type of configuration, and another worker.
//
// Who may connect, which model hears, and what of an error is told is decided elsewhere: [Options].
// Every size is checked before it is believed, and every wait for the rest of a message ends.
package realtime
