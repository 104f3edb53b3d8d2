//go:build !purego

package kernel

import "golang.org/x/sys/cpu"

func available() []Set {
	if cpu.ARM64.HasASIMDDP {
		return []Set{NEON, Dot}
	}
	return []Set{NEON}
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

func (s Set) mulFloat(dst []float32, w *Weights, x []float32, n, from, to int, _ *Scratch) {
	cols := w.Cols
	whole := cols &^ 15
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

func (s Set) mulQuantised(dst []float32, w *Weights, x []byte, n, from, to int) {
	if s != Dot {
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

func (s Set) keys(dst []float32, stride int, keys []uint16, keyStride, count int, q []float32, n, hd int) {
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
