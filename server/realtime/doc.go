// Package realtime speaks OpenAI's Realtime API over a WebSocket. A client sends sound as it comes,
// and the server finds where somebody speaks. A session of the type "transcription" writes each
// turn down. One of the type "realtime" is a conversation: a model answers each turn, and a voice
// speaks the answer, sentence by sentence, until somebody speaks again.
//
// event.go has the events as they are on the wire, config.go and talk.go what a session is set to,
// sound.go the sound that came and the turns in it, and conversation.go what was said. session.go
// has the two goroutines of a session: one reads events, converse.go's too; the other has turns
// written down and responses made, in the order in which they were asked for, and ends the session
// in order. early.go has a turn written down in the pause that may be its end. response.go makes a
// response; while it does, a third goroutine has it spoken.
//
// Who may connect, which models hear, chat and speak, and what of an error is told is decided
// elsewhere: [Options]. Every size is checked before it is believed, and every wait for the rest of
// a message ends.
package realtime
