package engine

import "syscall"

// hostMemory gives n bytes outside of Go's heap, whose collector would otherwise let garbage grow by as much, and what gives them back.
// They are taken from the machine as they are written to.
func hostMemory(n int) ([]byte, func(), error) {
	b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
	if err != nil {
		return nil, nil, err
	}
	return b, func() { _ = syscall.Munmap(b) }, nil
}
