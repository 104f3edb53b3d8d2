//go:build amd64 || arm64

package soft

// The assembly takes lengths that are multiples of 16 (axpy: 8) and leaves the rest to its callers.

//go:noescape
func dotBF16Asm(w *uint16, x *float32, n int) float32

//go:noescape
func dot4BF16Asm(out *[4]float32, w *uint16, x *float32, stride, n int)

//go:noescape
func dotInt8Asm(w *int8, x *float32, n int) float32

//go:noescape
func dot4Int8Asm(out *[4]float32, w *int8, x *float32, stride, n int)

//go:noescape
func axpyBF16Asm(y *float64, a float64, v *uint16, n int)

func dotBF16Fast(w []uint16, x []float32) (float32, int) {
	n := len(w) &^ 15
	if !fast || n == 0 {
		return dotBF16Go(w, x)
	}
	_ = x[n-1]
	return dotBF16Asm(&w[0], &x[0], n), n
}

func dot4BF16Fast(out *[4]float32, w []uint16, x []float32, stride int) int {
	n := len(w) &^ 15
	if !fast || n == 0 {
		return dot4BF16Go(out, w, x, stride)
	}
	_ = x[3*stride+n-1]
	dot4BF16Asm(out, &w[0], &x[0], stride, n)
	return n
}

func dotInt8Fast(w []int8, x []float32) (float32, int) {
	n := len(w) &^ 15
	if !fast || n == 0 {
		return dotInt8Go(w, x)
	}
	_ = x[n-1]
	return dotInt8Asm(&w[0], &x[0], n), n
}

func dot4Int8Fast(out *[4]float32, w []int8, x []float32, stride int) int {
	n := len(w) &^ 15
	if !fast || n == 0 {
		return dot4Int8Go(out, w, x, stride)
	}
	_ = x[3*stride+n-1]
	dot4Int8Asm(out, &w[0], &x[0], stride, n)
	return n
}

func axpyBF16Fast(y []float64, a float64, v []uint16) int {
	n := len(v) &^ 7
	if !fast || n == 0 {
		return 0
	}
	_ = y[n-1]
	axpyBF16Asm(&y[0], a, &v[0], n)
	return n
}
