//go:build !purego

package kernel

import "unsafe"

// kind is how weights lie in memory.
type kind int

const (
	ofF32 kind = iota
	ofBF16
)

// What a tile begins with and leaves: sums of lanes in memory, or nothing and results. And whether
// its weights are rows of something wider.
const (
	resume = 1 << iota
	keep
	apart
)

// tile calls the assembly for m rows of weights and n rows of input.
func tile(k kind, m, n int, dst *float32, ds uintptr, w unsafe.Pointer, ws uintptr, x *float32, xs uintptr, steps int, sums *float32,
	mode int) {
	switch k {
	case ofF32:
		tileF32(m, n, dst, ds, (*float32)(w), ws, x, xs, steps, sums, mode)
	case ofBF16:
		tileBF16(m, n, dst, ds, (*uint16)(w), ws, x, xs, steps, sums, mode)
	default:
		panic("kernel: no such tile")
	}
}
