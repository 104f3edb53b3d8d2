//go:build (amd64 || arm64) && !purego

package kernel

// deltaVector is Delta for as many columns as the assembly takes; it says how many those are.
func deltaVector(dst, state, q, k, v []float32, keep, beta float32) int {
	whole := len(v) / deltaColumns * deltaColumns
	for j := 0; j < whole; j += deltaColumns {
		delta32(&dst[j], &state[j], uintptr(len(v))*4, &q[0], &k[0], &v[j], len(k), keep, beta)
	}
	return whole
}
