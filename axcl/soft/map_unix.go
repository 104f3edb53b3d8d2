//go:build unix

package soft

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps a whole file for reading; unmap gives it back.
func mapFile(f *os.File, size int) (b []byte, unmap func(), err error) {
	b, err = unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, err
	}
	_ = unix.Madvise(b, unix.MADV_WILLNEED)
	return b, func() { _ = unix.Munmap(b) }, nil
}
