//go:build !purego

package kernel

import "unsafe"

// This file cuts products into what the kernels for AVX-512 take: four rows of weights with up to
// six of input. Where rows of weights are left over, the last tile begins so much earlier: a row
// that is computed twice has the same bits twice.

const (
	ofPacked   = ofBF16 + 1 // float32, sixteen values of each of four rows in turn
	ofFours    = ofBF16 + 2
	wideRows   = 4
	wideInput  = 6
	wideLanes  = 16
	wideHeight = height / 2 // rows of input that share a panel: each has twice the lanes
)

// wide says whether the set's kernels are those for AVX-512. What gains nothing by them it shares
// with AVX2.
func (s Set) wide() bool { return s == AVX512 }

// productWide multiplies rows of w with n rows of x as they lie; strides are bytes. Block rows of w
// stay in the second cache for all of x.
func productWide(k kind, dst *float32, ds uintptr, w unsafe.Pointer, ws uintptr, rows int, x *float32, xs uintptr, n, cols,
	mode int) {
	for o := 0; o < rows; o += Block {
		for r := 0; r < n; {
			c := cut(n-r, wideInput)
			tilesWide(k, c, f32At(dst, uintptr(r)*ds+uintptr(o)*4), ds, unsafe.Add(w, uintptr(o)*ws), ws, min(Block, rows-o),
				f32At(x, uintptr(r)*xs), xs, cols, mode)
			r += c
		}
	}
}

// tilesWide multiplies rows of w, at most Block, with n rows of x, at most wideInput.
func tilesWide(k kind, n int, dst *float32, ds uintptr, w unsafe.Pointer, ws uintptr, rows int, x *float32, xs uintptr, cols,
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

// packWide is pack in steps of sixteen columns, with zeros behind the last.
func (w *Weights) packWide(panel []float32, from, rows, c0, width int) {
	steps, rest, room := width/wideLanes, width%wideLanes, up(width, wideLanes)
	if w.Fours != nil {
		for o := 0; o < rows; o += four {
			packWideFours(&panel[o*room], &w.Fours[w.at(from+o, c0)], steps, rest)
		}
		return
	}
	k, p, size := w.raw(from*w.Cols + c0)
	for o := range rows {
		row, to := unsafe.Add(p, uintptr(o*w.Cols)*size), &panel[o&^3*room+o&3*wideLanes]
		if k == ofBF16 {
			packWideBF16(to, (*uint16)(row), steps, rest)
		} else {
			packWideF32(to, (*float32)(row), steps, rest)
		}
	}
}

// foursWide is fours.
func foursWide(dst *float32, ds uintptr, p *uint16, bytes uintptr, cols int, x *float32, n, tiles int) {
	xs := uintptr(cols) * 4
	for r := 0; r < n; {
		c := cut(n-r, wideInput)
		for t := range uintptr(tiles) {
			tileWide(ofFours, c, f32At(dst, uintptr(r)*ds+t*4*four), ds, unsafe.Add(unsafe.Pointer(p), t*bytes), 0,
				f32At(x, uintptr(r)*xs), xs, cols&^7, nil, 0)
		}
		r += c
	}
}

// tileWide calls the assembly for four rows of weights and n of input.
func tileWide(k kind, n int, dst *float32, ds uintptr, w unsafe.Pointer, ws uintptr, x *float32, xs uintptr, cols int, sums *float32,
	mode int) {
	steps, rest := cols/wideLanes, cols%wideLanes
	switch k {
	case ofF32:
		wideF32(wideRows, n, dst, ds, (*float32)(w), ws, x, xs, steps, rest, sums, mode)
	case ofBF16:
		wideBF16(wideRows, n, dst, ds, (*uint16)(w), ws, x, xs, steps, rest, sums, mode)
	case ofPacked:
		widePacked(wideRows, n, dst, ds, (*float32)(w), x, xs, steps, rest, sums, mode)
	case ofFours:
		wideFours(wideRows, n, dst, ds, (*uint16)(w), x, xs, steps, rest, sums, mode)
	}
}
