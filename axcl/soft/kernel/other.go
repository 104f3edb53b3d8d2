//go:build (!amd64 && !arm64) || purego

package kernel

func available() []Set { return nil }

func (s Set) mulFloat(dst []float32, w *Weights, x []float32, n, from, to int, _ *Scratch) {
	mulFloatGo(dst, w, x, n, from, to)
}

func (s Set) mulQuantised(dst []float32, w *Weights, x []byte, n, from, to int, _ *Scratch) {
	mulQuantisedGo(dst, w, x, n, from, to)
}

func (s Set) keys(dst []float32, stride int, keys []uint16, keyStride, count int, q []float32, n, hd int) {
	keysGo(dst, stride, keys, keyStride, count, q, n, hd)
}

func (s Set) values(sum, p, v []float64, cells, n, hd int) { valuesGo(sum, p, v, cells, n, hd, 0) }
