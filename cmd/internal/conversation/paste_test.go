package conversation

import (
	"testing"

	"github.com/axle-llm/axle/internal/terminal"
	"github.com/axle-llm/axle/internal/terminal/terminaltest"
)

// A paste is one message, whatever its lines begin with, and is sent when Enter is typed after it.
func TestPaste(t *testing.T) {
	for _, tt := range []struct{ name, keys, want string }{
		{"one line", "\x1b[200~one\x1b[201~\r", "user one"},
		{"lines", "\x1b[200~one\ntwo\r\nthree\x1b[201~\r", "user one\ntwo\nthree"},
		{"an end of line at its end", "\x1b[200~one\ntwo\n\x1b[201~\r", "user one\ntwo\n"},
		{"commands", "\x1b[200~/bye\n/clear\n/set system x\x1b[201~\r", "user /bye\n/clear\n/set system x"},
		{"within a line", "see: \x1b[200~one\n/bye\x1b[201~ and so on\r", "user see: one\n/bye and so on"},
		{"quotes", "\x1b[200~\"\"\"\none\n\n/bye\n\"\"\"\x1b[201~\r", "user one\n\n/bye\n"},
		{"in quotes", "\"\"\"\r\x1b[200~one\n/bye\x1b[201~\"\"\"\r", "user one\n/bye"},
		{"taken back", "\x1b[200~/bye\ntwo\x1b[201~\x03one\r", "user one"},
		{"taken back within", "\x1b[200~one\ntwo\x03three\r", "user three"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, talk, s, done := conversing(t)
			for i := range tt.keys { // marks come in parts
				s.Type(tt.keys[i : i+1])
				if tt.keys[i] == 3 {
					s.Wait("to exit.")
					s.Wait(">>> ")
				}
			}
			s.Wait("a\r\n")
			s.Wait(">>> ")
			s.Type("/set system \"\"\"of\r")
			s.Wait("... ")
			s.Type("two\"\"\"\r")
			s.Wait("Set system message.")
			s.Type("/bye\r")
			if err := <-done; err != nil {
				t.Error(err)
			}
			if got := told(talk.messages); got != tt.want+", assistant a" || talk.system != "of\ntwo" {
				t.Errorf("said %q, system %q", got, talk.system)
			}
			if s.Wait(terminal.PasteOff); l.chat.Model != "m" {
				t.Errorf("asked %+v", l.chat)
			}
		})
	}
}

// conversing is a conversation in a terminal, at its first prompt, with a model that answers a.
func conversing(t *testing.T) (*listener, *Talk, *terminaltest.Screen, <-chan error) {
	t.Helper()
	l, talk, _ := listening(t)
	l.answers = []string{`{"message":{"role":"assistant","content":"a"},"done":true}`}
	s := terminaltest.Open(t)
	talk.Out, talk.Errw, talk.tty = s.TTY, s.TTY, true
	done := make(chan error, 1)
	go func() { done <- talk.converse(t.Context(), s.TTY) }()
	s.Wait(terminal.PasteOn)
	s.Wait(">>> ")
	return l, talk, s, done
}
