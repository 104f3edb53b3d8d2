//go:build !purego

package kernel

import "golang.org/x/sys/cpu"

func available() []Set {
	if !cpu.ARM64.HasASIMDDP {
		return []Set{NEON}
	}
	return []Set{NEON, Dot}
}

// The assembly takes lengths that are multiples of 16 (axpy: 8) and leaves the rest to its callers.
// One row or four of them give the same bits. A row's lines of 32 values lie skip bytes apart.

//go:noescape
func dotBF16Asm(w *uint16, x *float32, n int, skip uintptr) float32

//go:noescape
func dot4BF16Asm(out *[4]float32, w *uint16, x *float32, stride, n int, skip uintptr)

// foursAsm multiplies four rows in fours with a row of input, with the bits that dotBF16Asm gives.
//
//go:noescape
func foursAsm(out *[4]float32, w *uint16, x *float32, n int)

//go:noescape
func axpyAsm(y *float64, a float64, v *float64, n int)

// The integer products take eight rows of weights, in eights, with a row of input or four.

//go:noescape
func quant8Dot(out *float32, w *byte, scales *uint16, x *byte, blocks, mask int)

//go:noescape
func quant8Dot4(out *float32, w *byte, scales *uint16, x *byte, xStride, blocks, mask int)

//go:noescape
func quant4Dot(out *float32, w *byte, scales *uint16, x *byte, blocks, mask int)

//go:noescape
func quant4Dot4(out *float32, w *byte, scales *uint16, x *byte, xStride, blocks, mask int)

// skipFours is what lies between a row's lines in fours, in bytes.
const skipFours = 2 * (fourLine - line)

func (s Set) mulFloat(dst []float32, w *Weights, x []float32, n, from, to int, _ *Scratch) {
	cols := w.Cols
	whole := cols &^ 15
	if s == Go || whole == 0 || w.F32 != nil {
		mulFloatGo(dst, w, x, n, from, to)
		return
	}
	values, skip := w.BF16, uintptr(0)
	if w.Fours != nil {
		values, skip = w.Fours, skipFours
	}
	var out [four]float32
	put := func(r, o int, sum float32) {
		if cols&8 != 0 { // the caller does the rest of eight
			sum += w.tail(o, whole, x[r*cols+whole:][:8])
		}
		dst[r*w.Rows+o] = sum
	}
	for o := from; o < to; {
		rows := 1
		if w.Fours != nil && o%four == 0 && o+four <= to {
			rows = four
		}
		r := 0
		for ; r+4 <= n; r += 4 {
			for m := o; m < o+rows; m++ {
				dot4BF16Asm(&out, &values[w.at(m, 0)], &x[r*cols], cols, whole, skip)
				for i, sum := range out {
					put(r+i, m, sum)
				}
			}
		}
		for ; r < n; r++ {
			if rows == 1 {
				put(r, o, dotBF16Asm(&values[w.at(o, 0)], &x[r*cols], whole, skip))
				continue
			}
			foursAsm(&out, &values[w.at(o, 0)], &x[r*cols], whole)
			for m, sum := range out {
				put(r, o+m, sum)
			}
		}
		o += rows
	}
}

// mulQuantised computes whole eights and keeps what is wanted of them. Matrix products of eight
// bits (FEAT_I8MM) are of no use: to bring two rows and eight columns together takes as many
// instructions as they save.
func (s Set) mulQuantised(dst []float32, w *Weights, x []byte, n, from, to int, _ *Scratch) {
	if s < Dot {
		mulQuantisedGo(dst, w, x, n, from, to)
		return
	}
	nb, scales := blocks(w.Cols), EightScales(eight, w.Cols, w.Group)
	mask, stride, bytes := w.Group/block-1, nb*blockBytes, nb*block*eight
	one, several, values := quant8Dot, quant8Dot4, w.Q8
	if w.Q4 != nil {
		one, several, values, bytes = quant4Dot, quant4Dot4, w.Q4, bytes/2
	}
	var out [4 * eight]float32
	for o := from &^ (eight - 1); o < to; o += eight {
		p, g := &values[o/eight*bytes], &w.Groups[o/eight*scales]
		first, last := max(from, o), min(o+eight, to)
		for r := 0; r < n; {
			c := 1
			if n-r >= 4 {
				c = 4
				several(&out[0], p, g, &x[r*stride], stride, nb, mask)
			} else {
				one(&out[0], p, g, &x[r*stride], nb, mask)
			}
			for i := range c {
				copy(dst[(r+i)*w.Rows+first:][:last-first], out[i*eight+first-o:])
			}
			r += c
		}
	}
}

func (s Set) keys(dst []float32, stride int, keys []uint16, keyStride, count int, q []float32, n, hd int) {
	if s == Go || hd%16 != 0 {
		keysGo(dst, stride, keys, keyStride, count, q, n, hd)
		return
	}
	_, _, _ = dst[(n-1)*stride+count-1], keys[(count-1)*keyStride+hd-1], q[n*hd-1]
	var out [4]float32
	for j := range count {
		key := &keys[j*keyStride]
		i := 0
		for ; i+4 <= n; i += 4 {
			dot4BF16Asm(&out, key, &q[i*hd], hd, hd, 0)
			for m, v := range out {
				dst[(i+m)*stride+j] = v
			}
		}
		for ; i < n; i++ {
			dst[i*stride+j] = dotBF16Asm(key, &q[i*hd], hd, 0)
		}
	}
}

// values adds for n rows of sum what cells rows of v weigh in each; a sum meets the cells in their
// order.
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
