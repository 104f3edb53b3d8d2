//go:build !purego

package kernel

import "unsafe"

// kind is how weights lie in memory.
type kind int

const (
	ofF32 kind = iota
	ofBF16
	ofInt8
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
	case ofInt8:
		tileInt8(m, n, dst, ds, (*int8)(w), ws, x, xs, steps, sums, mode)
	default:
		panic("kernel: no such tile")
	}
}

func tileF32(m, n int, dst *float32, ds uintptr, w *float32, ws uintptr, x *float32, xs uintptr, steps int, sums *float32, mode int) {
	switch m<<3 | n {
	case 4<<3 | 1:
		tileF32_4x1(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 4<<3 | 2:
		tileF32_4x2(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 4<<3 | 3:
		tileF32_4x3(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 2<<3 | 4:
		tileF32_2x4(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 2<<3 | 5:
		tileF32_2x5(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 2<<3 | 6:
		tileF32_2x6(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 1<<3 | 1:
		tileF32_1x1(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 1<<3 | 2:
		tileF32_1x2(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 1<<3 | 3:
		tileF32_1x3(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 1<<3 | 4:
		tileF32_1x4(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 1<<3 | 5:
		tileF32_1x5(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 1<<3 | 6:
		tileF32_1x6(dst, ds, w, ws, x, xs, steps, sums, mode)
	default:
		panic("kernel: no such tile")
	}
}

func tileBF16(m, n int, dst *float32, ds uintptr, w *uint16, ws uintptr, x *float32, xs uintptr, steps int, sums *float32, mode int) {
	switch m<<3 | n {
	case 4<<3 | 1:
		tileBF16_4x1(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 4<<3 | 2:
		tileBF16_4x2(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 4<<3 | 3:
		tileBF16_4x3(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 2<<3 | 4:
		tileBF16_2x4(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 2<<3 | 5:
		tileBF16_2x5(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 2<<3 | 6:
		tileBF16_2x6(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 1<<3 | 1:
		tileBF16_1x1(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 1<<3 | 2:
		tileBF16_1x2(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 1<<3 | 3:
		tileBF16_1x3(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 1<<3 | 4:
		tileBF16_1x4(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 1<<3 | 5:
		tileBF16_1x5(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 1<<3 | 6:
		tileBF16_1x6(dst, ds, w, ws, x, xs, steps, sums, mode)
	default:
		panic("kernel: no such tile")
	}
}

func tileInt8(m, n int, dst *float32, ds uintptr, w *int8, ws uintptr, x *float32, xs uintptr, steps int, sums *float32, mode int) {
	switch m<<3 | n {
	case 4<<3 | 1:
		tileInt8_4x1(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 4<<3 | 2:
		tileInt8_4x2(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 4<<3 | 3:
		tileInt8_4x3(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 2<<3 | 4:
		tileInt8_2x4(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 2<<3 | 5:
		tileInt8_2x5(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 2<<3 | 6:
		tileInt8_2x6(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 1<<3 | 1:
		tileInt8_1x1(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 1<<3 | 2:
		tileInt8_1x2(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 1<<3 | 3:
		tileInt8_1x3(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 1<<3 | 4:
		tileInt8_1x4(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 1<<3 | 5:
		tileInt8_1x5(dst, ds, w, ws, x, xs, steps, sums, mode)
	case 1<<3 | 6:
		tileInt8_1x6(dst, ds, w, ws, x, xs, steps, sums, mode)
	default:
		panic("kernel: no such tile")
	}
}

// packedTiles calls the assembly for as many tiles of four rows of a panel, and n rows of input.
func packedTiles(n int, dst *float32, ds uintptr, w, x *float32, xs uintptr, steps, tiles int, sums *float32, mode int) {
	switch n {
	case 1:
		tilePacked_4x1(dst, ds, w, x, xs, steps, tiles, sums, mode)
	case 2:
		tilePacked_4x2(dst, ds, w, x, xs, steps, tiles, sums, mode)
	default:
		tilePacked_4x3(dst, ds, w, x, xs, steps, tiles, sums, mode)
	}
}
