//go:build !purego

package kernel

import "unsafe"

// This file cuts products into what the kernels for AVX-512 take: four rows of weights with up to six of input, or 16 with up to 16 where
// both are integers. Where rows of weights are left over, the last tile begins so much earlier: a row that is computed twice has the same
// bits twice.

const (
	ofSplit     = ofInt8 + 1 // bf16, and rows of input that are split
	ofPacked    = ofInt8 + 2 // float32, sixteen values of each of four rows in turn
	wideRows    = 4
	wideInput   = 6
	wideLanes   = 16
	wideHeight  = height / 2 // rows of input that share a panel: each has twice the lanes
	wideInteger = 16         // rows of weights that are multiplied together as integers
)

// wide says whether the set's kernels are those for AVX-512. What gains nothing by them it shares with AVX2.
func (s Set) wide() bool { return s == AVX512 || s == AVX512BF16 }

// mulWide is mulFloat.
func (s Set) mulWide(dst []float32, w *Weights, in Input, n, from, to int, scratch *Scratch) {
	cols := w.Cols &^ 7
	if !s.Splits(w) && n >= Together && scratch.panel != nil {
		for ; from < to; from += Block {
			panelWide(dst, w, in.F, n, from, min(from+Block, to), scratch)
		}
		return
	}
	k, p, size := w.raw(from * w.Cols)
	x, xs := unsafe.Pointer(&in.F[0]), uintptr(w.Cols)*4
	if s.Splits(w) {
		_ = in.P[n*SplitLen(w.Cols)-1]
		k, x, xs = ofSplit, unsafe.Pointer(&in.P[0]), uintptr(SplitLen(w.Cols))*2
	}
	productWide(k, &dst[from], uintptr(w.Rows)*4, p, uintptr(w.Cols)*size, to-from, x, xs, n, cols, 0)
}

// productWide multiplies rows of w with n rows of x as they lie; strides are bytes. Block rows of w stay in the second cache for all of x.
func productWide(k kind, dst *float32, ds uintptr, w unsafe.Pointer, ws uintptr, rows int, x unsafe.Pointer, xs uintptr, n, cols,
	mode int) {
	for o := 0; o < rows; o += Block {
		for r := 0; r < n; {
			c := cut(n-r, wideInput)
			tilesWide(k, c, f32At(dst, uintptr(r)*ds+uintptr(o)*4), ds, unsafe.Add(w, uintptr(o)*ws), ws, min(Block, rows-o),
				unsafe.Add(x, uintptr(r)*xs), xs, cols, mode)
			r += c
		}
	}
}

// tilesWide multiplies rows of w, at most Block, with n rows of x, at most wideInput.
func tilesWide(k kind, n int, dst *float32, ds uintptr, w unsafe.Pointer, ws uintptr, rows int, x unsafe.Pointer, xs uintptr, cols,
	mode int) {
	if rows < wideRows { // one row in the place of four
		var out [wideInput * wideRows]float32
		for o := range rows {
			tileWide(k, n, &out[0], wideRows*4, unsafe.Add(w, uintptr(o)*ws), 0, x, xs, cols, nil, mode)
			for r := range n {
				*f32At(dst, uintptr(r)*ds+uintptr(o)*4) = out[r*wideRows]
			}
		}
		return
	}
	for o := 0; o < rows; o += wideRows {
		o := min(o, rows-wideRows)
		tileWide(k, n, f32At(dst, uintptr(o)*4), ds, unsafe.Add(w, uintptr(o)*ws), ws, x, xs, cols, nil, mode)
	}
}

// panelWide is mulPanel, with six rows of input at a time.
func panelWide(dst []float32, w *Weights, x []float32, n, from, to int, scratch *Scratch) {
	cols, rows := w.Cols&^7, (to-from)&^(wideRows-1)
	parts := (cols + depth - 1) / depth
	part := ((cols+parts-1)/parts + wideLanes - 1) &^ (wideLanes - 1)
	for r0 := 0; r0 < n; r0 += wideHeight {
		r1 := min(r0+wideHeight, n)
		for c0 := 0; c0 < cols; c0 += part {
			width := min(part, cols-c0)
			steps, rest := width/wideLanes, width%wideLanes
			room := (width + wideLanes - 1) &^ (wideLanes - 1)
			k, p, size := w.raw(from*w.Cols + c0)
			for o := range rows {
				row, to := unsafe.Add(p, uintptr(o*w.Cols)*size), &scratch.panel[o&^3*room+o&3*wideLanes]
				switch k {
				case ofBF16:
					packWideBF16(to, (*uint16)(row), steps, rest)
				case ofInt8:
					packWideInt8(to, (*int8)(row), steps, rest)
				default:
					packWideF32(to, (*float32)(row), steps, rest)
				}
			}
			mode := 0
			if c0 > 0 {
				mode |= resume
			}
			if c0+width < cols {
				mode |= keep
			}
			for r := r0; r < r1; {
				c := cut(r1-r, wideInput)
				for o := 0; o < rows; o += wideRows {
					tileWide(ofPacked, c, &dst[r*w.Rows+from+o], uintptr(w.Rows)*4, unsafe.Pointer(&scratch.panel[o*room]), 0,
						unsafe.Pointer(&x[r*w.Cols+c0]), uintptr(w.Cols)*4, width, &scratch.sums[wideLanes*((r-r0)*rows+o*c)], mode)
				}
				r += c
			}
		}
	}
	if from += rows; from < to {
		k, p, size := w.raw(from * w.Cols)
		productWide(k, &dst[from], uintptr(w.Rows)*4, p, uintptr(w.Cols)*size, to-from, unsafe.Pointer(&x[0]), uintptr(w.Cols)*4, n, cols,
			0)
	}
}

// tileWide calls the assembly for four rows of weights and n of input.
func tileWide(k kind, n int, dst *float32, ds uintptr, w unsafe.Pointer, ws uintptr, x unsafe.Pointer, xs uintptr, cols int, sums *float32,
	mode int) {
	width := wideLanes
	if k == ofSplit {
		width *= 2
	}
	steps, rest := cols/width, cols%width
	f, b, i := (*float32)(w), (*uint16)(w), (*int8)(w)
	y, z := (*float32)(x), (*uint16)(x)
	switch int(k)<<3 | n {
	case int(ofF32)<<3 | 1:
		wideF32_1(dst, ds, f, ws, y, xs, steps, rest, sums, mode)
	case int(ofF32)<<3 | 2:
		wideF32_2(dst, ds, f, ws, y, xs, steps, rest, sums, mode)
	case int(ofF32)<<3 | 3:
		wideF32_3(dst, ds, f, ws, y, xs, steps, rest, sums, mode)
	case int(ofF32)<<3 | 4:
		wideF32_4(dst, ds, f, ws, y, xs, steps, rest, sums, mode)
	case int(ofF32)<<3 | 5:
		wideF32_5(dst, ds, f, ws, y, xs, steps, rest, sums, mode)
	case int(ofF32)<<3 | 6:
		wideF32_6(dst, ds, f, ws, y, xs, steps, rest, sums, mode)
	case int(ofBF16)<<3 | 1:
		wideBF16_1(dst, ds, b, ws, y, xs, steps, rest, sums, mode)
	case int(ofBF16)<<3 | 2:
		wideBF16_2(dst, ds, b, ws, y, xs, steps, rest, sums, mode)
	case int(ofBF16)<<3 | 3:
		wideBF16_3(dst, ds, b, ws, y, xs, steps, rest, sums, mode)
	case int(ofBF16)<<3 | 4:
		wideBF16_4(dst, ds, b, ws, y, xs, steps, rest, sums, mode)
	case int(ofBF16)<<3 | 5:
		wideBF16_5(dst, ds, b, ws, y, xs, steps, rest, sums, mode)
	case int(ofBF16)<<3 | 6:
		wideBF16_6(dst, ds, b, ws, y, xs, steps, rest, sums, mode)
	case int(ofInt8)<<3 | 1:
		wideInt8_1(dst, ds, i, ws, y, xs, steps, rest, sums, mode)
	case int(ofInt8)<<3 | 2:
		wideInt8_2(dst, ds, i, ws, y, xs, steps, rest, sums, mode)
	case int(ofInt8)<<3 | 3:
		wideInt8_3(dst, ds, i, ws, y, xs, steps, rest, sums, mode)
	case int(ofInt8)<<3 | 4:
		wideInt8_4(dst, ds, i, ws, y, xs, steps, rest, sums, mode)
	case int(ofInt8)<<3 | 5:
		wideInt8_5(dst, ds, i, ws, y, xs, steps, rest, sums, mode)
	case int(ofInt8)<<3 | 6:
		wideInt8_6(dst, ds, i, ws, y, xs, steps, rest, sums, mode)
	case int(ofSplit)<<3 | 1:
		wideSplit_1(dst, ds, b, ws, z, xs, steps, rest, sums, mode)
	case int(ofSplit)<<3 | 2:
		wideSplit_2(dst, ds, b, ws, z, xs, steps, rest, sums, mode)
	case int(ofSplit)<<3 | 3:
		wideSplit_3(dst, ds, b, ws, z, xs, steps, rest, sums, mode)
	case int(ofSplit)<<3 | 4:
		wideSplit_4(dst, ds, b, ws, z, xs, steps, rest, sums, mode)
	case int(ofSplit)<<3 | 5:
		wideSplit_5(dst, ds, b, ws, z, xs, steps, rest, sums, mode)
	case int(ofSplit)<<3 | 6:
		wideSplit_6(dst, ds, b, ws, z, xs, steps, rest, sums, mode)
	case int(ofPacked)<<3 | 1:
		widePacked_1(dst, ds, f, y, xs, steps, rest, sums, mode)
	case int(ofPacked)<<3 | 2:
		widePacked_2(dst, ds, f, y, xs, steps, rest, sums, mode)
	case int(ofPacked)<<3 | 3:
		widePacked_3(dst, ds, f, y, xs, steps, rest, sums, mode)
	case int(ofPacked)<<3 | 4:
		widePacked_4(dst, ds, f, y, xs, steps, rest, sums, mode)
	case int(ofPacked)<<3 | 5:
		widePacked_5(dst, ds, f, y, xs, steps, rest, sums, mode)
	case int(ofPacked)<<3 | 6:
		widePacked_6(dst, ds, f, y, xs, steps, rest, sums, mode)
	default:
		panic("kernel: no such tile")
	}
}

// integersWide is mulQuantised for 16 rows of weights or more.
func integersWide(dst []float32, w *Weights, x []byte, n, from, to int, scratch *Scratch) {
	nb := blocks(w.Cols)
	tile, values, ws := wideQuant8, w.Q8, nb*block
	if w.Q4 != nil {
		tile, values, ws = wideQuant4, w.Q4, nb*block/2
	}
	ss, mask, xs := (w.Cols+w.Group-1)/w.Group, w.Group/block-1, nb*blockBytes
	for o := from; o < to; o += wideInteger {
		o := min(o, to-wideInteger)
		for r, c := 0, 0; r < n; r += c {
			c = cut(n-r, quantRows)
			lanes := scratch.lanes[:wideInteger*c]
			clear(lanes)
			tile(&lanes[0], &values[o*ws], uintptr(ws), &w.Groups[o*ss], uintptr(ss)*2, &x[r*xs], uintptr(xs), c, nb, mask)
			for i := range c {
				*(*[wideInteger]float32)(dst[(r+i)*w.Rows+o:]) = [wideInteger]float32(lanes[i*wideInteger:])
			}
		}
	}
}

// splitWide32 splits a row for AVX512BF16: of 32 values, or of those that are left, the roundings lie before the rests.
func splitWide32(dst []uint16, x []float32) {
	whole := len(x) / 32
	if whole > 0 {
		splitWide(&dst[0], &x[0], whole)
	}
	splitGo(dst[64*whole:], x[32*whole:], 32)
}
