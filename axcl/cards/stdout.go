package cards

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

// Stdout is a program's standard output on a descriptor of its own; OwnStdout makes it. Like any
// *os.File it may be written to from several goroutines at once.
type Stdout struct {
	// File is where the program prints, and what os.Stdout is from then on. A program that writes
	// to it itself sees a pipe without a reader as an error (EPIPE); Write ends the program
	// instead, as a write to descriptor 1 does in Go.
	File *os.File

	first *os.File // of descriptor 1; nil where File is that
}

var own struct {
	sync.Mutex
	made *Stdout
}

// OwnStdout gives standard output to this program alone: os.Stdout moves to a descriptor of its
// own, and descriptor 1, to which a vendor's library logs whenever it likes and from threads of its
// own, leads to standard error for the rest of the process's life.
//
// It is for a program's main, before its first goroutine: what is written through a copy of
// os.Stdout that was taken before goes to standard error, and so does what a child process prints
// that is given descriptor 1. No package of this module calls it. A program that does not call it
// is safe from the versions of the library that this module knows how to keep quiet, and from no
// other.
//
// Where this build can load no vendor's library nothing moves. Calling it again gives the same.
// Errors: no descriptor is free.
func OwnStdout() (*Stdout, error) {
	own.Lock()
	defer own.Unlock()
	if own.made != nil {
		return own.made, nil
	}
	s, err := moveStdout()
	if err == nil {
		own.made = s
	}
	return s, err
}

// Write implements io.Writer.
func (s *Stdout) Write(p []byte) (int, error) {
	n, err := s.File.Write(p)
	if s.first != nil && errors.Is(err, syscall.EPIPE) {
		// There is no reader any more. For descriptor 1 the runtime does what is right then: it
		// ends the program by the signal, unless the program wants to be told.
		s.giveBack()
		_, err = s.first.Write(p[n:])
	}
	return n, err
}

var _ io.Writer = (*Stdout)(nil)
