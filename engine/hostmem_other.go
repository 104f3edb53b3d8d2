//go:build !linux

package engine

// hostMemory gives n bytes, and what gives them back.
func hostMemory(n int) ([]byte, func(), error) { return make([]byte, n), func() {}, nil }
