//go:build !amd64 && !arm64

package soft

const kernels = "Go"

func dotBF16Fast(w []uint16, x []float32) (float32, int) { return dotBF16Go(w, x) }
func dotInt8Fast(w []int8, x []float32) (float32, int)   { return dotInt8Go(w, x) }

func dot4BF16Fast(out *[4]float32, w []uint16, x []float32, stride int) int {
	return dot4BF16Go(out, w, x, stride)
}

func dot4Int8Fast(out *[4]float32, w []int8, x []float32, stride int) int {
	return dot4Int8Go(out, w, x, stride)
}

func axpyBF16Fast([]float64, float64, []uint16) int { return 0 }
