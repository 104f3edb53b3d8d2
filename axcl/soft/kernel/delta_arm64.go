//go:build !purego

package kernel

// delta32 is Delta for 32 columns of a state of n rows, which are stride bytes apart.
//
//go:noescape
func delta32(dst, state *float32, stride uintptr, q, k, v *float32, n int, keep, beta float32)
