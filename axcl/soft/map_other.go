//go:build !unix

package soft

import (
	"io"
	"os"
	"unsafe"
)

// mapFile reads a whole file where it cannot be mapped, into memory aligned for float32.
func mapFile(f *os.File, size int) (b []byte, unmap func(), err error) {
	words := make([]uint64, (size+7)/8)
	b = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), size)
	if _, err := io.ReadFull(io.NewSectionReader(f, 0, int64(size)), b); err != nil {
		return nil, nil, err
	}
	return b, func() {}, nil
}
