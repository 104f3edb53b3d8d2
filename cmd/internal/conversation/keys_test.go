package conversation

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/axle-llm/axle/internal/terminal"
	"github.com/axle-llm/axle/internal/terminal/terminaltest"
)

// What is said is what stands on the screen, whatever keys brought it there; the history outlives
// the program, texts of several lines too.
func TestTypedKeys(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	editor := filepath.Join(home, "editor")
	if err := os.WriteFile(editor, []byte("#!/bin/sh\ntr a-z A-Z <$2 >$2.new && mv $2.new $2\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AXLE_EDITOR", editor+" -x")
	for _, tt := range []struct{ name, keys, want string }{
		{"wide and marked", "日本\x7fe\u0301x\x1b[D\x7fa\r", "user 日ax"},
		{"home, end, words", "two three\x1bOHone \x1b[4~!\x1bb\x1bbthe \r", "user one the two three!"},
		{"the editor", "ask this\x07 now\r", "user ASK THIS now"},
		{"a second line", "one\x1b\rtwo\r", "user one\ntwo"},
		{"the history of the last time", "\x1b[A\x1b[A\x1b[A!\r", "user one\ntwo!"},
		{"searched", "\x12THIS\r", "user ASK THIS now"},
		{"commands in the history", "\x12/se\x05\x15\x12two!\x1b[F?\r", "user one\ntwo!?"},
	} {
		_, talk, s, done := conversing(t)
		s.Type(tt.keys)
		s.Wait(terminal.PasteOff + "a\r\n")
		s.Wait(">>> ")
		s.Type("/set quiet\r")
		s.Wait("Set 'quiet' mode.")
		s.Wait(">>> ")
		s.Type("/bye\r")
		if err := <-done; err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got := told(talk.messages); got != tt.want+", assistant a" {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestHistory(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	texts := []string{"plain", `"quoted"`, "two\nlines", `"two\nlines"`, `"`, `with "quotes" in it`, "\"\"\"", "日本語"}
	h := OpenHistory()
	for _, s := range texts {
		h.Add(s)
	}
	h.Add("日本語") // the same again is one
	if again := OpenHistory(); !slices.Equal(again.lines, texts) {
		t.Errorf("%q, want %q", again.lines, texts)
	}
	h.off = true
	h.Add("secret")
	if OpenHistory().Len() != len(texts) {
		t.Error("what is off keeps on")
	}
}

// Without Markdown an answer's words are not cut at the screen's edge, unless that is wanted.
func TestWordsWrap(t *testing.T) {
	for _, wrap := range []bool{true, false} {
		l, talk, _ := listening(t)
		for _, part := range []string{"The quick bro", "wn fox jumps", " over the lazy dog"} {
			l.answers = append(l.answers, `{"message":{"role":"assistant","content":"`+part+`"}}`)
		}
		l.answers = append(l.answers, `{"done":true}`)
		s := terminaltest.Open(t)
		if err := unix.IoctlSetWinsize(int(s.TTY.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 14, Row: 24}); err != nil {
			t.Fatal(err)
		}
		talk.Out, talk.Errw, talk.tty, talk.wrap, talk.NoMarkdown = s.TTY, s.TTY, true, wrap, true
		if err := talk.answer(t.Context(), "q"); err != nil {
			t.Fatal(err)
		}
		if wrap {
			s.Wait("The quick bro\x1b[3D\x1b[K\r\nbrown fox jum\x1b[3D\x1b[K\r\njumps over th\x1b[2D\x1b[K\r\nthe lazy dog\r\n")
		} else {
			s.Wait("The quick brown fox jumps over the lazy dog\r\n")
		}
		if got := told(talk.messages); !strings.HasSuffix(got, "assistant The quick brown fox jumps over the lazy dog") {
			t.Errorf("kept %q", got)
		}
	}
}

func TestParameterLists(t *testing.T) {
	_, talk, screen := listening(t)
	for _, line := range []string{"/set parameter", "/set parameter stop a \"b c\"", "/set parameter seed 7", "/show parameters"} {
		if _, err := talk.command(t.Context(), nil, line); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"Available Parameters:", "/set parameter num_ctx <int>",
		"User defined parameters:\n  seed                           7\n",
		"  stop                           \"a\"\n  stop                           \"b c\"\n"} {
		if !strings.Contains(screen.String(), want) {
			t.Errorf("%q is not in\n%s", want, screen)
		}
	}
	if got := parameterText("temperature                    0.6\nstop                           \"x\"",
		nil); got != "Model defined parameters:\n  temperature                    0.6\n  stop                           \"x\"\n" {
		t.Errorf("%q", got)
	}
	for line := range strings.Lines(parameterHelp + shortcutText + setText + helpText + showText) {
		if terminal.Width(strings.TrimRight(line, "\n")) > 80 {
			t.Errorf("wider than 80 columns: %q", line)
		}
	}
}
