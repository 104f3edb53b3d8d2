package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"golang.org/x/term"

	"github.com/axle-llm/axle/internal/terminal/terminaltest"
)

// TestMenu: each line of the menu is a command line that we have, and who leaves it does nothing.
func TestMenu(t *testing.T) {
	scriptedServer(t)
	for _, c := range []struct {
		keys []string // what is waited for, and what is typed then
		want string
	}{
		{[]string{"6 Help", "q"}, ""},
		{[]string{"1 Chat", "1", "scripted-chat", "q", "6 Help", "\x04"}, ""},
		{[]string{"1 Chat", "\r", "scripted-chat", "1"}, "run scripted"},
		{[]string{"2 Launch", "2", "Codex", "\x1b[B\r"}, "launch codex"},
		{[]string{"3 Pull", "3", "qwen", "1"}, "pull "},
		{[]string{"4 Watch", "4"}, "top"},
		{[]string{"5 Check", "\x1b[A\x1b[A\r"}, "doctor"},
	} {
		s := terminaltest.Open(t)
		type chosen struct {
			args []string
			err  error
		}
		done := make(chan chosen, 1)
		go func() {
			args, err := menu(t.Context(), s.TTY, s.TTY)
			done <- chosen{args, err}
		}()
		for i := 0; i+1 < len(c.keys); i += 2 {
			s.Wait(c.keys[i])
			s.Type(c.keys[i+1])
		}
		got := <-done
		if got.err != nil || !strings.HasPrefix(strings.Join(got.args, " "), c.want) || c.want == "" && got.args != nil {
			t.Errorf("%q: %q %v, want %q", c.keys, got.args, got.err, c.want)
		}
		if got.args == nil {
			continue
		}
		if found, _, err := newRootCmd().Find(got.args); err != nil || found.Name() != got.args[0] && got.args[0] != "help" {
			t.Errorf("%q is no command: %v", got.args, err)
		}
	}
	for _, args := range [][]string{nil, {"help"}} {
		if asksForMenu(args, nil, new(strings.Builder)) {
			t.Error("a menu in a pipe")
		}
	}
}

// TestMenuEnds: a signal that ends the program ends its menu too, and the terminal is as before.
func TestMenuEnds(t *testing.T) {
	s := terminaltest.Open(t)
	before, err := term.GetState(int(s.TTY.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := menu(ctx, s.TTY, s.TTY)
		done <- err
	}()
	s.Wait("6 Help")
	end()
	var exit *exitError
	if err := <-done; !errors.As(err, &exit) || exit.code != exitInterrupted {
		t.Errorf("it ends with %v", err)
	}
	if after, err := term.GetState(int(s.TTY.Fd())); err != nil || *after != *before {
		t.Errorf("the terminal stays raw: %v", err)
	}
	s.Type("q\n") // for the read that is left behind
}
