// Package terminaltest is a terminal for tests: a pseudo-terminal of the kernel's, into which a
// test types and on which it waits for text. Only tests import it. A Screen belongs to one
// goroutine and closes itself when its test ends.
package terminaltest

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is when a test gives up on what will never come.
const patience = 4 * time.Minute

// Screen is a terminal with something typing in it.
type Screen struct {
	t    *testing.T
	TTY  *os.File // the program's side
	keys *os.File // ours
	text chan string
	Seen string // what has come since the last Wait
}

// Open opens one; the test is skipped where there is none to be had.
func Open(t *testing.T) *Screen {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("terminals are opened as Linux does")
	}
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no terminal to be had:", err)
	}
	t.Cleanup(func() { _ = keys.Close() })
	if err := unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Skip(err)
	}
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Skip(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	s := &Screen{t: t, TTY: tty, keys: keys, text: make(chan string, 64)}
	go func() {
		defer close(s.text)
		b := make([]byte, 4096)
		for {
			n, err := keys.Read(b)
			if err != nil {
				return
			}
			s.text <- string(b[:n])
		}
	}()
	return s
}

// Wait reads until want is on the screen; what comes after it stays for the next.
func (s *Screen) Wait(want string) {
	s.t.Helper()
	limit := time.After(patience)
	for {
		if i := strings.Index(s.Seen, want); i >= 0 {
			s.Seen = s.Seen[i+len(want):]
			return
		}
		select {
		case part, ok := <-s.text:
			if !ok {
				s.t.Fatalf("the terminal closed before %q; last %q", want, s.Seen)
			}
			s.Seen += part
		case <-limit:
			s.t.Fatalf("never shown: %q; the screen has %q", want, s.Seen)
		}
	}
}

// Type types keys.
func (s *Screen) Type(keys string) {
	s.t.Helper()
	if _, err := s.keys.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}
