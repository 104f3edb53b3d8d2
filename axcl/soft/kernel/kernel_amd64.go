//go:build !purego

package kernel

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

func available() []Set {
	x := &cpu.X86
	if !x.HasAVX2 || !x.HasFMA {
		return nil
	}
	all := []Set{AVX2}
	// Each of these is false where the operating system does not keep the registers.
	if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX512VNNI && x.HasBMI2 {
		all = append(all, AVX512)
	}
	return all
}

func (s Set) mulFloat(dst []float32, w *Weights, x []float32, n, from, to int, scratch *Scratch) {
	steps := w.Cols / 8
	switch {
	case s == Go || steps == 0:
		mulFloatGo(dst, w, x, n, from, to)
		return
	case w.Fours != nil:
		s.mulFours(dst, w, x, n, from, to, scratch)
		return
	case n >= Together && scratch.panel != nil:
		for ; from < to; from += Block {
			s.mulPanel(dst, w, x, n, from, min(from+Block, to), scratch)
		}
		return
	}
	k, p, size := w.raw(from * w.Cols)
	s.product(k, &dst[from], uintptr(w.Rows)*4, p, uintptr(w.Cols)*size, to-from, &x[0], uintptr(w.Cols)*4, n, w.Cols&^7, 0)
}

// raw is where a value lies, of what kind it is, and how many bytes it takes.
func (w *Weights) raw(i int) (kind, unsafe.Pointer, uintptr) {
	if w.BF16 != nil {
		return ofBF16, unsafe.Pointer(&w.BF16[i]), 2
	}
	return ofF32, unsafe.Pointer(&w.F32[i]), 4
}

// cut is how many of n rows to compute at once, at most top, so that no few are left over.
func cut(n, top int) int {
	if n <= top {
		return n
	}
	if n < 2*top {
		return (n + 1) / 2
	}
	return top
}

// product multiplies rows of w with n rows of x as they lie; strides are bytes, and the columns a
// multiple of eight. Four rows of w at a time stay in the first cache for all of x.
func (s Set) product(k kind, dst *float32, ds uintptr, w unsafe.Pointer, ws uintptr, rows int, x *float32, xs uintptr, n, cols, mode int) {
	if s.wide() {
		productWide(k, dst, ds, w, ws, rows, x, xs, n, cols, mode)
		return
	}
	for o := 0; o < rows; o += 4 {
		for r := 0; r < n; {
			c := cut(n-r, 6)
			for m, end := o, min(o+4, rows); m < end; {
				wide := shape(end-m, c)
				tile(k, wide, c, f32At(dst, uintptr(r)*ds+uintptr(m)*4), ds, unsafe.Add(w, uintptr(m)*ws), ws, f32At(x, uintptr(r)*xs), xs,
					cols/8, nil, mode)
				m += wide
			}
			r += c
		}
	}
}

// shape is how many rows of weights, of those left, a tile of c rows of input takes.
func shape(left, c int) int {
	switch {
	case c <= 3 && left >= 4:
		return 4
	case c > 3 && left >= 2:
		return 2
	}
	return 1
}

func f32At(p *float32, bytes uintptr) *float32 {
	return (*float32)(unsafe.Add(unsafe.Pointer(p), bytes))
}

// mulPanel is mulFloat for many rows and at most Block rows of weights: columns by columns, these
// are unpacked to float32, once for all rows, four rows of weights side by side, as tiles read
// them. Three rows of input at a time stay in the first cache for all weights of the panel; of
// AVX-512 six, whose sums have twice the lanes. Sums that are not finished are kept as they are,
// lane by lane. Rows in fours are whole ones.
func (s Set) mulPanel(dst []float32, w *Weights, x []float32, n, from, to int, scratch *Scratch) {
	cols, rows := w.Cols&^7, (to-from)&^3
	lanes, high, most := 8, height, 3
	if s.wide() {
		lanes, high, most = wideLanes, wideHeight, wideInput
	}
	parts := (cols + depth - 1) / depth
	part := up((cols+parts-1)/parts, line)
	ds, xs := uintptr(w.Rows)*4, uintptr(w.Cols)*4
	for r0 := 0; r0 < n; r0 += high {
		r1 := min(r0+high, n)
		for c0 := 0; rows > 0 && c0 < cols; c0 += part {
			width := min(part, cols-c0)
			if s.wide() {
				w.packWide(scratch.panel, from, rows, c0, width)
			} else {
				w.pack(scratch.panel, from, rows, c0, width)
			}
			mode := 0
			if c0 > 0 {
				//rule:G12 TestMul$ resume => 0
				mode |= resume
			}
			if c0+width < cols {
				mode |= keep
			}
			for r := r0; r < r1; {
				c := cut(r1-r, most)
				sums := scratch.sums[lanes*(r-r0)*rows:]
				if s.wide() {
					for o := 0; o < rows; o += wideRows {
						tileWide(ofPacked, c, &dst[r*w.Rows+from+o], ds, unsafe.Pointer(&scratch.panel[o*up(width, lanes)]), 0,
							&x[r*w.Cols+c0], xs, width, &sums[lanes*o*c], mode)
					}
				} else {
					tilePacked(four, c, &dst[r*w.Rows+from], ds, &scratch.panel[0], &x[r*w.Cols+c0], xs, width/8, rows/4, &sums[0], mode)
				}
				r += c
			}
		}
	}
	if from += rows; from < to {
		k, p, size := w.raw(from * w.Cols)
		s.product(k, &dst[from], ds, p, uintptr(w.Cols)*size, to-from, &x[0], xs, n, cols, 0)
	}
}

// pack unpacks columns of rows of weights, a multiple of eight of four of them, to a panel.
func (w *Weights) pack(panel []float32, from, rows, c0, width int) {
	if w.Fours != nil {
		for o := 0; o < rows; o += four {
			packFours(&panel[o*width], &w.Fours[w.at(from+o, c0)], width)
		}
		return
	}
	k, p, size := w.raw(from*w.Cols + c0)
	for o := range rows {
		row, to := unsafe.Add(p, uintptr(o*w.Cols)*size), &panel[o&^3*width+o&3*8]
		if k == ofBF16 {
			packBF16(to, (*uint16)(row), width)
		} else {
			packF32(to, (*float32)(row), width)
		}
	}
}

// mulFours is mulFloat for weights in fours. Of four rows that are not wanted all, the results are
// thrown away that are not.
func (s Set) mulFours(dst []float32, w *Weights, x []float32, n, from, to int, scratch *Scratch) {
	first, last := up(from, four), to&^(four-1)
	if first > from {
		s.someOfFour(dst, w, x, n, from, min(first, to))
	}
	if last < to && last >= first {
		s.someOfFour(dst, w, x, n, last, to)
	}
	if last <= first {
		return
	}
	if n < Together || scratch.panel == nil {
		s.fours(&dst[first], uintptr(w.Rows)*4, w, x, n, first, last)
		return
	}
	for ; first < last; first += Block {
		s.mulPanel(dst, w, x, n, first, min(first+Block, last), scratch)
	}
}

// someOfFour is mulFours for some rows of one four.
func (s Set) someOfFour(dst []float32, w *Weights, x []float32, n, from, to int) {
	var out [four * wideInput]float32
	for r := 0; r < n; r += wideInput {
		c := min(n-r, wideInput)
		s.fours(&out[0], 4*four, w, x[r*w.Cols:], c, from&^(four-1), up(to, four))
		for i := range c {
			copy(dst[(r+i)*w.Rows+from:][:to-from], out[i*four+from%four:])
		}
	}
}

// fours multiplies whole fours with rows of input. As many fours as fit the first cache are taken
// together for all rows. Up to three rows take all fours at once.
func (s Set) fours(dst *float32, ds uintptr, w *Weights, x []float32, n, from, to int) {
	bytes := four * up(w.Cols, line) * 2
	together := max(1<<14/bytes, 1) * four
	if n <= 3 {
		together = to - from
	}
	for o := from; o < to; o += together {
		tiles := min(together, to-o) / four
		p, y := &w.Fours[w.at(o, 0)], f32At(dst, uintptr(o-from)*4)
		if s.wide() {
			foursWide(y, ds, p, uintptr(bytes), w.Cols, &x[0], n, tiles)
			continue
		}
		xs := uintptr(w.Cols) * 4
		for r := 0; r < n; {
			c := cut(n-r, 3)
			foursOf(four, c, f32At(y, uintptr(r)*ds), ds, p, uintptr(bytes), &x[r*w.Cols], xs, w.Cols/8, tiles)
			r += c
		}
	}
}

// mulQuantised computes whole eights and keeps what is wanted of them. For one row of input AVX2
// has kernels that keep results in a register; of AVX-512 those for many rows are as fast.
func (s Set) mulQuantised(dst []float32, w *Weights, x []byte, n, from, to int, scratch *Scratch) {
	if s == Go {
		mulQuantisedGo(dst, w, x, n, from, to)
		return
	}
	nb := blocks(w.Cols)
	one, tile, wide, values, bytes := quantOne8, quant8, wideQuant8, w.Q8, nb*block*eight
	if w.Q4 != nil {
		one, tile, wide, values, bytes = quantOne4, quant4, wideQuant4, w.Q4, bytes/2
	}
	scales := EightScales(eight, w.Cols, w.Group)
	mask, xs := w.Group/block-1, nb*blockBytes
	for o := from &^ (eight - 1); o < to; {
		p, g, rows := &values[o/eight*bytes], &w.Groups[o/eight*scales], eight
		if whole := (to - o) / eight; n == 1 && whole > 0 && o >= from && !s.wide() {
			one(&dst[o], p, g, &x[0], nb, mask, whole)
			o += whole * eight
			continue
		}
		if s.wide() && o+eight < to {
			rows = 2 * eight
		}
		for r := 0; r < n; r += quantRows {
			c := min(n-r, quantRows)
			lanes := scratch.lanes[:rows*c]
			clear(lanes)
			if rows > eight {
				wide(&lanes[0], p, uintptr(bytes), g, uintptr(scales)*2, &x[r*xs], uintptr(xs), c, nb, mask)
			} else {
				tile(&lanes[0], p, g, &x[r*xs], uintptr(xs), c, nb, mask)
			}
			first, last := max(from, o), min(o+rows, to)
			for i := range c {
				copy(dst[(r+i)*w.Rows+first:][:last-first], lanes[i*rows+first-o:])
			}
		}
		o += rows
	}
}

func (s Set) keys(dst []float32, stride int, keys []uint16, keyStride, count int, q []float32, n, hd int) {
	if s == Go || hd < 8 {
		keysGo(dst, stride, keys, keyStride, count, q, n, hd)
		return
	}
	_, _, _ = dst[(n-1)*stride+count-1], keys[(count-1)*keyStride+hd-1], q[n*hd-1]
	s.product(ofBF16, &dst[0], uintptr(stride)*4, unsafe.Pointer(&keys[0]), uintptr(keyStride)*2, count, &q[0], uintptr(hd)*4, n, hd&^7,
		apart)
}

// values adds for n rows of sum what cells rows of v weigh in each.
func (s Set) values(sum, p, v []float64, cells, n, hd int) {
	whole := hd &^ 15
	if s == Go {
		whole = 0
	}
	if whole < hd {
		valuesGo(sum, p, v, cells, n, hd, whole)
	}
	_, _, _ = sum[n*hd-1], p[(n-1)*cellTile+cells-1], v[cells*hd-1]
	const ps = cellTile * 8
	stride := uintptr(hd) * 8
	for k := 0; k < whole; k += 16 {
		for i := 0; i < n; i += 3 {
			switch n - i {
			case 1:
				values1(&sum[i*hd+k], stride, &p[i*cellTile], ps, &v[k], stride, cells)
			case 2:
				values2(&sum[i*hd+k], stride, &p[i*cellTile], ps, &v[k], stride, cells)
			default:
				values3(&sum[i*hd+k], stride, &p[i*cellTile], ps, &v[k], stride, cells)
			}
		}
	}
}

// vector is how many of n values the assembly takes: a multiple of eight.
func (s Set) vector(n int) int {
	if s == Go {
		return 0
	}
	return n &^ 7
}
