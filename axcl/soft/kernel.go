package soft

import "math"

// The five inner loops. Each has an assembly version where the processor has one; the Go versions below are the reference and the fallback.
// A dot product gives the same bits whether it is taken alone or four at a time, so a row's result does not depend on what else is in its pass.

// dotBF16 is Σ w[i]·x[i]; x is at least as long as w.
func dotBF16(w []uint16, x []float32) float32 {
	x = x[:len(w)]
	s, n := dotBF16Fast(w, x)
	for i := n; i < len(w); i++ {
		s += math.Float32frombits(uint32(w[i])<<16) * x[i]
	}
	return s
}

// dot4BF16 is dotBF16 of w with four rows of x that lie stride apart.
func dot4BF16(out *[4]float32, w []uint16, x []float32, stride int) {
	n := dot4BF16Fast(out, w, x, stride)
	for k := range out {
		s, row := out[k], x[k*stride:]
		for i := n; i < len(w); i++ {
			s += math.Float32frombits(uint32(w[i])<<16) * row[i]
		}
		out[k] = s
	}
}

// dotInt8 is dotBF16 for int8 values without their scale.
func dotInt8(w []int8, x []float32) float32 {
	x = x[:len(w)]
	s, n := dotInt8Fast(w, x)
	for i := n; i < len(w); i++ {
		s += float32(w[i]) * x[i]
	}
	return s
}

// dot4Int8 is dotInt8 of w with four rows of x that lie stride apart.
func dot4Int8(out *[4]float32, w []int8, x []float32, stride int) {
	n := dot4Int8Fast(out, w, x, stride)
	for k := range out {
		s, row := out[k], x[k*stride:]
		for i := n; i < len(w); i++ {
			s += float32(w[i]) * row[i]
		}
		out[k] = s
	}
}

// axpyBF16 adds a·v to y. It adds in float64, so that the order in which a row meets the rows it sees, which is the order of the cells they
// happen to lie in, does not show in the result.
func axpyBF16(y []float64, a float64, v []uint16) {
	y = y[:len(v)]
	for i := axpyBF16Fast(y, a, v); i < len(v); i++ {
		y[i] += a * float64(math.Float32frombits(uint32(v[i])<<16))
	}
}

func dotF32(w, x []float32) float32 {
	x = x[:len(w)]
	var s0, s1, s2, s3 float32
	i := 0
	for ; i+4 <= len(w); i += 4 {
		s0 += w[i] * x[i]
		s1 += w[i+1] * x[i+1]
		s2 += w[i+2] * x[i+2]
		s3 += w[i+3] * x[i+3]
	}
	for ; i < len(w); i++ {
		s0 += w[i] * x[i]
	}
	return s0 + s1 + s2 + s3
}

func dotBF16Go(w []uint16, x []float32) (float32, int) {
	var s0, s1, s2, s3 float32
	i := 0
	for ; i+4 <= len(w); i += 4 {
		a, b := w[i:i+4:i+4], x[i:i+4:i+4]
		s0 += math.Float32frombits(uint32(a[0])<<16) * b[0]
		s1 += math.Float32frombits(uint32(a[1])<<16) * b[1]
		s2 += math.Float32frombits(uint32(a[2])<<16) * b[2]
		s3 += math.Float32frombits(uint32(a[3])<<16) * b[3]
	}
	return s0 + s1 + s2 + s3, i
}

func dotInt8Go(w []int8, x []float32) (float32, int) {
	var s0, s1, s2, s3 float32
	i := 0
	for ; i+4 <= len(w); i += 4 {
		a, b := w[i:i+4:i+4], x[i:i+4:i+4]
		s0 += float32(a[0]) * b[0]
		s1 += float32(a[1]) * b[1]
		s2 += float32(a[2]) * b[2]
		s3 += float32(a[3]) * b[3]
	}
	return s0 + s1 + s2 + s3, i
}

func dot4BF16Go(out *[4]float32, w []uint16, x []float32, stride int) int {
	n := 0
	for k := range out {
		out[k], n = dotBF16Go(w, x[k*stride:k*stride+len(w)])
	}
	return n
}

func dot4Int8Go(out *[4]float32, w []int8, x []float32, stride int) int {
	n := 0
	for k := range out {
		out[k], n = dotInt8Go(w, x[k*stride:k*stride+len(w)])
	}
	return n
}

// exp32 is e^x to about one unit in the last place of float32.
func exp32(x float32) float32 {
	switch {
	case x != x:
		return x
	case x < -87.3:
		return 0
	case x > 88.7:
		return float32(math.Inf(1))
	}
	n := float32(math.RoundToEven(float64(x * 1.44269504)))
	r := x - n*0.693359375
	r -= n * -2.12194440e-4
	p := float32(1.9875691500e-4)
	p = p*r + 1.3981999507e-3
	p = p*r + 8.3334519073e-3
	p = p*r + 4.1665795894e-2
	p = p*r + 1.6666665459e-1
	p = p*r + 5.0000001201e-1
	p = p*r*r + r + 1
	return p * math.Float32frombits(uint32(int32(n)+127)<<23)
}

func silu(x float32) float32 { return x / (1 + exp32(-x)) }

func gelu(x float32) float32 {
	z := 0.7978845608 * (x + 0.044715*x*x*x)
	return 0.5 * x * (2 - 2/(exp32(2*z)+1))
}
