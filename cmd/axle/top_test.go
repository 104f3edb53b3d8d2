package main

import (
	"reflect"
	"strings"
	"testing"

	"golang.org/x/term"

	"github.com/axle-llm/axle/internal/terminal/terminaltest"
)

// q ends the page, and the terminal is as it was. Where there is no screen, one turn is
// printed.
func TestTopEnds(t *testing.T) {
	scriptedServer(t)
	s := terminaltest.Open(t)
	before, err := term.GetState(int(s.TTY.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	root := newRootCmd()
	root.SetIn(s.TTY)
	root.SetOut(s.TTY)
	root.SetArgs([]string{"top", "--every", "100ms"})
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(t.Context()) }()
	s.Wait("axle  up ")
	s.Wait("\x1b[K\r\n")
	s.Type("xq")
	if err := <-done; err != nil {
		t.Error(err)
	}
	if after, err := term.GetState(int(s.TTY.Fd())); err != nil || !reflect.DeepEqual(after, before) {
		t.Errorf("the terminal is %v (%v), was %v", after, err, before)
	}
	var out strings.Builder
	root = newRootCmd()
	root.SetOut(&out)
	root.SetArgs([]string{"top", "--every", "100ms"})
	if err := root.ExecuteContext(t.Context()); err != nil || strings.Count(out.String(), "axle  up ") != 1 ||
		strings.Contains(out.String(), "\x1b") {
		t.Errorf("piped: %v\n%q", err, out.String())
	}
}
