//go:build cgo && !fake && linux

package cards

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func moveStdout() (*Stdout, error) {
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("cards: standard output cannot have a descriptor of its own: %w", err)
	}
	//rule:D17 TestOwnStdout$ unix.Dup3(2, 1, 0) => error(nil)
	if err := unix.Dup3(2, 1, 0); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("cards: standard output cannot be led to standard error: %w", err)
	}
	s := &Stdout{File: os.NewFile(uintptr(fd), os.Stdout.Name()), first: os.Stdout}
	os.Stdout = s.File
	return s, nil
}

// giveBack makes descriptor 1 standard output again.
func (s *Stdout) giveBack() {
	if c, err := s.File.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { _ = unix.Dup3(int(fd), 1, 0) })
	}
}
