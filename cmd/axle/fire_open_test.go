//go:build cgo && !fake && !scripted && linux

package main

import (
	"strings"
	"testing"
)

// TestOpenLost (D8): a card that is lost while it is opened ends the server, without
// any request.
func TestOpenLost(t *testing.T) {
	//proves:D8 while it is opened
	t.Parallel()
	p := newUnit(t).start("AXSIM_FAULT=SetDevice:0:0x80300181")
	if c := p.code(); c != exitLost || !strings.Contains(p.said(), "the card was lost; the process must be restarted") {
		t.Errorf("exit code %d, want %d", c, exitLost)
	}
}
