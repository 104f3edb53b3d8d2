//go:build !purego

package kernel

import "golang.org/x/sys/cpu"

func available() []Set {
	all := []Set{NEON}
	if !cpu.ARM64.HasASIMDDP {
		return all
	}
	all = append(all, Dot)
	bf16, i8mm := hasBF16(), cpu.ARM64.HasI8MM
	if bf16 {
		all = append(all, BF16)
	}
	if i8mm {
		all = append(all, I8MM)
	}
	if bf16 && i8mm {
		all = append(all, Matrix)
	}
	return all
}

// The assembly takes lengths that are multiples of 16 (axpy: 8) and leaves the rest to its callers. One row or four of them give the same
// bits.

//go:noescape
func dotBF16Asm(w *uint16, x *float32, n int) float32

//go:noescape
func dot4BF16Asm(out *[4]float32, w *uint16, x *float32, stride, n int)

//go:noescape
func dotInt8Asm(w *int8, x *float32, n int) float32

//go:noescape
func dot4Int8Asm(out *[4]float32, w *int8, x *float32, stride, n int)

//go:noescape
func axpyAsm(y *float64, a float64, v *float64, n int)

//go:noescape
func quant8Dot(w *byte, scales *uint16, x *byte, blocks, mask int) float32

//go:noescape
func quant8Dot4(out *[4]float32, w *byte, scales *uint16, x *byte, xStride, blocks, mask int)

//go:noescape
func quant4Dot(w *byte, scales *uint16, x *byte, blocks, mask int) float32

//go:noescape
func quant4Dot4(out *[4]float32, w *byte, scales *uint16, x *byte, xStride, blocks, mask int)

// The matrix instructions take four rows of weights at a time, or one row in the place of all four.

//go:noescape
func bf16x1(dst *float32, w *uint16, ws uintptr, x *uint16, n int)

//go:noescape
func bf16x4(dst *float32, ds uintptr, w *uint16, ws uintptr, x *uint16, xs uintptr, n int)

//go:noescape
func splitAsm(dst *uint16, x *float32, n int)

//go:noescape
func matrix8x2(dst *float32, ds uintptr, w *byte, ws uintptr, scales *uint16, ss uintptr, x *byte, xs uintptr, blocks, mask int)

//go:noescape
func matrix8x4(dst *float32, ds uintptr, w *byte, ws uintptr, scales *uint16, ss uintptr, x *byte, xs uintptr, blocks, mask int)

//go:noescape
func matrix4x2(dst *float32, ds uintptr, w *byte, ws uintptr, scales *uint16, ss uintptr, x *byte, xs uintptr, blocks, mask int)

//go:noescape
func matrix4x4(dst *float32, ds uintptr, w *byte, ws uintptr, scales *uint16, ss uintptr, x *byte, xs uintptr, blocks, mask int)

func (s Set) mulFloat(dst []float32, w *Weights, in Input, n, from, to int, _ *Scratch) {
	cols, x := w.Cols, in.F
	whole := cols &^ 15
	if s.Splits(w) && cols >= 8 {
		_ = in.P[n*SplitLen(cols)-1]
		product(dst[from:], w.Rows, w.BF16[from*cols:], cols, to-from, in.P, n, cols&^7)
		return
	}
	if s == Go || whole == 0 || w.F32 != nil {
		mulFloatGo(dst, w, x, n, from, to)
		return
	}
	var four [4]float32
	for o := from; o < to; o++ {
		at := o * cols
		for r := 0; r < n; {
			c := 1
			switch {
			case w.BF16 != nil && n-r >= 4:
				dot4BF16Asm(&four, &w.BF16[at], &x[r*cols], cols, whole)
				c = 4
			case w.BF16 != nil:
				four[0] = dotBF16Asm(&w.BF16[at], &x[r*cols], whole)
			case n-r >= 4:
				dot4Int8Asm(&four, &w.Int8[at], &x[r*cols], cols, whole)
				c = 4
			default:
				four[0] = dotInt8Asm(&w.Int8[at], &x[r*cols], whole)
			}
			for i := range c {
				sum := four[i]
				if cols&8 != 0 { // the caller does the rest of eight
					sum += w.tail(o, whole, x[(r+i)*cols+whole:][:8])
				}
				dst[(r+i)*w.Rows+o] = sum
			}
			r += c
		}
	}
}

// product multiplies rows of w, which are ws apart, with n rows of split input: columns of them, a multiple of eight. Four rows of input
// stay in the first cache for all of w.
func product(dst []float32, ds int, w []uint16, ws, rows int, x []uint16, n, columns int) {
	xs := SplitLen(columns)
	for r := 0; r < n; {
		c := 1
		if n-r >= 4 {
			c = 4
		}
		for o := 0; o < rows; {
			if to, at := &dst[r*ds+o], &w[o*ws]; rows-o >= 4 {
				if c == 4 {
					bf16x4(to, uintptr(ds)*4, at, uintptr(ws)*2, &x[r*xs], uintptr(xs)*2, columns)
				} else {
					bf16x1(to, at, uintptr(ws)*2, &x[r*xs], columns)
				}
				o += 4
				continue
			}
			var four [16]float32
			if c == 4 {
				bf16x4(&four[0], 16, &w[o*ws], 0, &x[r*xs], uintptr(xs)*2, columns)
			} else {
				bf16x1(&four[0], &w[o*ws], 0, &x[r*xs], columns)
			}
			for i := range c {
				dst[(r+i)*ds+o] = four[4*i]
			}
			o++
		}
		r += c
	}
}

func (s Set) split(dst []uint16, x []float32) {
	if s.bf16() {
		splitAsm(&dst[0], &x[0], len(x))
		return
	}
	splitGo(dst, x, splitFew)
}

func (s Set) mulQuantised(dst []float32, w *Weights, x []byte, n, from, to int, _ *Scratch) {
	switch {
	case s.i8mm():
		mulMatrix(dst, w, x, n, from, to)
		return
	case s < Dot:
		mulQuantisedGo(dst, w, x, n, from, to)
		return
	}
	nb, ng := blocks(w.Cols), (w.Cols+w.Group-1)/w.Group
	mask, stride := w.Group/block-1, nb*blockBytes
	var four [4]float32
	for o := from; o < to; o++ {
		scales := &w.Groups[o*ng]
		for r := 0; r < n; {
			in, c := &x[r*stride], 1
			switch {
			case w.Q8 != nil && n-r >= 4:
				quant8Dot4(&four, &w.Q8[o*nb*block], scales, in, stride, nb, mask)
				c = 4
			case w.Q8 != nil:
				four[0] = quant8Dot(&w.Q8[o*nb*block], scales, in, nb, mask)
			case n-r >= 4:
				quant4Dot4(&four, &w.Q4[o*nb*block/2], scales, in, stride, nb, mask)
				c = 4
			default:
				four[0] = quant4Dot(&w.Q4[o*nb*block/2], scales, in, nb, mask)
			}
			for i := range c {
				dst[(r+i)*w.Rows+o] = four[i]
			}
			r += c
		}
	}
}

// mulMatrix is mulQuantised by the matrix instructions. One row of input stands in both places of a pair.
func mulMatrix(dst []float32, w *Weights, x []byte, n, from, to int) {
	nb, ng := blocks(w.Cols), (w.Cols+w.Group-1)/w.Group
	values, ws := w.Q8, nb*block
	if w.Q4 != nil {
		values, ws = w.Q4, nb*block/2
	}
	mask, xs := w.Group/block-1, nb*blockBytes
	for r := 0; r < n; {
		c, apart, along := min(n-r, 2), uintptr(xs), uintptr(w.Rows)*4
		switch {
		case n-r >= 4:
			c = 4
		case c == 1:
			apart, along = 0, 0
		}
		for o := from; o < to; {
			if to-o >= 4 {
				matrix(w, c, &dst[r*w.Rows+o], along, &values[o*ws], uintptr(ws), &w.Groups[o*ng], uintptr(ng)*2, &x[r*xs], apart, nb, mask)
				o += 4
				continue
			}
			var out [16]float32
			matrix(w, c, &out[0], 16, &values[o*ws], 0, &w.Groups[o*ng], 0, &x[r*xs], apart, nb, mask)
			for i := range c {
				dst[(r+i)*w.Rows+o] = out[4*i]
			}
			o++
		}
		r += c
	}
}

// matrix calls the assembly for weights like w's, and four rows of input or fewer.
func matrix(like *Weights, n int, dst *float32, ds uintptr, w *byte, ws uintptr, scales *uint16, ss uintptr, x *byte, xs uintptr, blocks,
	mask int) {
	switch {
	case like.Q8 != nil && n == 4:
		matrix8x4(dst, ds, w, ws, scales, ss, x, xs, blocks, mask)
	case like.Q8 != nil:
		matrix8x2(dst, ds, w, ws, scales, ss, x, xs, blocks, mask)
	case n == 4:
		matrix4x4(dst, ds, w, ws, scales, ss, x, xs, blocks, mask)
	default:
		matrix4x2(dst, ds, w, ws, scales, ss, x, xs, blocks, mask)
	}
}

func (s Set) keys(dst []float32, stride int, keys []uint16, keyStride, count int, in Input, n, hd int) {
	q := in.F
	if s.bf16() && hd >= 8 {
		_ = dst[(n-1)*stride+count-1]
		product(dst, stride, keys, keyStride, count, in.P, n, hd&^7)
		return
	}
	if s == Go || hd%16 != 0 {
		keysGo(dst, stride, keys, keyStride, count, q, n, hd)
		return
	}
	_, _, _ = dst[(n-1)*stride+count-1], keys[(count-1)*keyStride+hd-1], q[n*hd-1]
	var four [4]float32
	for j := range count {
		key := &keys[j*keyStride]
		i := 0
		for ; i+4 <= n; i += 4 {
			dot4BF16Asm(&four, key, &q[i*hd], hd, hd)
			for m, v := range four {
				dst[(i+m)*stride+j] = v
			}
		}
		for ; i < n; i++ {
			dst[i*stride+j] = dotBF16Asm(key, &q[i*hd], hd)
		}
	}
}

// values adds for n rows of sum what cells rows of v weigh in each; a sum meets the cells in their order.
func (s Set) values(sum, p, v []float64, cells, n, hd int) {
	whole := hd &^ 7
	if s == Go {
		whole = 0
	}
	if whole < hd {
		valuesGo(sum, p, v, cells, n, hd, whole)
	}
	if whole == 0 {
		return
	}
	_, _, _ = sum[n*hd-1], p[(n-1)*cellTile+cells-1], v[cells*hd-1]
	for i := range n {
		for c := range cells {
			axpyAsm(&sum[i*hd], p[i*cellTile+c], &v[c*hd], whole)
		}
	}
}

//go:noescape
func spinFMA(rounds int)

//go:noescape
func spinBF16(rounds int)

//go:noescape
func readAsm(p *byte, n int)

// spin says how many products a round has. One of bf16's instructions multiplies sixteen, and two of them make one of split inputs.
func (s Set) spin(rounds int) int {
	if s.bf16() {
		spinBF16(rounds)
		return 16 * 8
	}
	spinFMA(rounds)
	return 16 * 4
}

func (s Set) read(p *byte, n int) { readAsm(p, n) }
