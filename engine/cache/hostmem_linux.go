package cache

import "syscall"

// pageSize is the unit in which memory is given back.
var pageSize = syscall.Getpagesize()

// hostMemory returns n bytes outside of Go's heap, and a function that frees them. On the heap, the
// collector would let garbage grow by as much. The machine provides the pages when they are written
// to.
func hostMemory(n int) ([]byte, func(), error) {
	b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
	if err != nil {
		return nil, nil, err
	}
	return b, func() { _ = syscall.Munmap(b) }, nil
}

// giveMemory gives pages of hostMemory back to the machine until they are written to again.
func giveMemory(b []byte) { _ = syscall.Madvise(b, syscall.MADV_DONTNEED) }
