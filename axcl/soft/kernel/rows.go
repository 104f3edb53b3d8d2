package kernel

import (
	"math"
	"unsafe"

	"github.com/axle-llm/axle/internal/bf16"
)

// Functions of a row: each does the first values, a multiple of eight, by the set's assembly, where
// it has one, and the rest here. Assembly that is given no values returns at once.

func ptr[T any](x []T) *T { return unsafe.SliceData(x) }

// Quantise makes an input's row, x, ready for quantised weights: dst has QuantisedBytes(len(x)).
func (s Set) Quantise(dst []byte, x []float32) {
	whole := len(x) / block
	s.quantise(dst, x, whole)
	if rest := x[whole*block:]; len(rest) > 0 {
		var last [block]float32
		copy(last[:], rest)
		s.quantise(dst[whole*blockBytes:], last[:], 1)
	}
}

// Prepare makes row r of an input ready for w: where w is quantised, Mul reads Q instead of F.
func (s Set) Prepare(in Input, w *Weights, r int) {
	if w.Quantised() {
		n := QuantisedBytes(w.Cols)
		s.Quantise(in.Q[r*n:(r+1)*n], in.F[r*w.Cols:(r+1)*w.Cols])
	}
}

func (s Set) quantise(dst []byte, x []float32, blocks int) {
	if blocks > 0 && s.vector(block) > 0 {
		_, _ = dst[blocks*blockBytes-1], x[blocks*block-1]
		quantiseAsm(&dst[0], &x[0], blocks)
		return
	}
	for b := range blocks {
		quantiseGo(dst[b*blockBytes:], x[b*block:(b+1)*block])
	}
}

// Widen converts bf16 to float32.
func (s Set) Widen(dst []float32, src []uint16) {
	dst = dst[:len(src)]
	i := s.vector(len(src))
	widenBF16(ptr(dst), ptr(src), i)
	for ; i < len(src); i++ {
		dst[i] = wide(src[i])
	}
}

// Narrow rounds float32 to the nearest bf16, ties to even.
func (s Set) Narrow(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	i := s.vector(len(src))
	narrowAsm(ptr(dst), ptr(src), i)
	for ; i < len(src); i++ {
		dst[i] = bf16.Round(src[i])
	}
}

func (s Set) doubleF32(dst []float64, src []float32) {
	src = src[:len(dst)]
	i := s.vector(len(dst))
	doubleF32(ptr(dst), ptr(src), i)
	for ; i < len(dst); i++ {
		dst[i] = float64(src[i])
	}
}

func (s Set) doubleBF16(dst []float64, src []uint16) {
	src = src[:len(dst)]
	i := s.vector(len(dst))
	doubleBF16(ptr(dst), ptr(src), i)
	for ; i < len(dst); i++ {
		dst[i] = float64(wide(src[i]))
	}
}

// Softmax makes scores weights, whose sum is 1.
func (s Set) Softmax(x []float32) {
	top, i := float32(math.Inf(-1)), s.vector(len(x))
	if i > 0 {
		top = largestAsm(&x[0], i)
	}
	for _, v := range x[i:] {
		top = max(top, v)
	}
	total := 0.0
	if i > 0 {
		total = expSumAsm(&x[0], i, top)
	}
	for ; i < len(x); i++ {
		x[i] = Exp(x[i] - top)
		total += float64(x[i])
	}
	s.Scale(x, float32(1/total))
}

// Scale multiplies x by f.
func (s Set) Scale(x []float32, f float32) {
	i := s.vector(len(x))
	scaleAsm(ptr(x), i, f)
	for ; i < len(x); i++ {
		x[i] *= f
	}
}

// Add adds y to the first values of x.
func (s Set) Add(x, y []float32) {
	x = x[:len(y)]
	i := s.vector(len(x))
	addAsm(ptr(x), ptr(y), i)
	for ; i < len(x); i++ {
		x[i] += y[i]
	}
}

// Single rounds float64 to float32.
func (s Set) Single(dst []float32, src []float64) {
	src = src[:len(dst)]
	i := s.vector(len(dst))
	singleAsm(ptr(dst), ptr(src), i)
	for ; i < len(dst); i++ {
		dst[i] = float32(src[i])
	}
}

// Rotate turns the pairs (low[i], high[i]).
func (s Set) Rotate(low, high, cos, sin []float32) {
	high, cos, sin = high[:len(low)], cos[:len(low)], sin[:len(low)]
	i := s.vector(len(low))
	rotateAsm(ptr(low), ptr(high), ptr(cos), ptr(sin), i)
	for ; i < len(low); i++ {
		a, b := low[i], high[i]
		low[i], high[i] = float32(a*cos[i])-float32(b*sin[i]), float32(b*cos[i])+float32(a*sin[i])
	}
}

// SiLU sets gate to gate / (1 + e^-gate) · up.
func (s Set) SiLU(gate, up []float32) {
	up = up[:len(gate)]
	i := s.vector(len(gate))
	siluAsm(ptr(gate), ptr(up), i)
	for ; i < len(gate); i++ {
		gate[i] = float32(gate[i]/(1+Exp(-gate[i]))) * up[i]
	}
}

// GELU sets gate to its GELU, in the form with tanh, times up.
func (s Set) GELU(gate, up []float32) {
	up = up[:len(gate)]
	i := s.vector(len(gate))
	geluAsm(ptr(gate), ptr(up), i)
	for ; i < len(gate); i++ {
		gate[i] = gelu(gate[i]) * up[i]
	}
}

func gelu(x float32) float32 {
	z := 0.7978845608 * float32(x+float32(float32(float32(0.044715*x)*x)*x))
	return float32(0.5*x) * float32(2-2/(Exp(2*z)+1))
}

// RMSNorm sets dst = x / sqrt(mean(x²) + eps) · w.
func (s Set) RMSNorm(dst, x, w []float32, eps float32) {
	w, dst = w[:len(x)], dst[:len(x)]
	sum, whole := 0.0, s.vector(len(x))
	if whole > 0 {
		sum = squaresAsm(&x[0], whole)
	}
	for _, v := range x[whole:] {
		sum += float64(float64(v) * float64(v))
	}
	f := float32(1 / math.Sqrt(sum/float64(len(x))+float64(eps)))
	normaliseAsm(ptr(dst), ptr(x), ptr(w), whole, f)
	for i := whole; i < len(x); i++ {
		dst[i] = x[i] * f * w[i]
	}
}

// Exp is e^x to about one unit in the last place of float32.
func Exp(x float32) float32 {
	switch {
	case x != x:
		return x
	case x < -87.3:
		return 0
	case x > 88.7:
		return float32(math.Inf(1))
	}
	n := float32(math.RoundToEven(float64(float32(x * 1.44269504))))
	r := x - float32(n*0.693359375)
	r -= float32(n * -2.12194440e-4)
	p := float32(1.9875691500e-4 * r)
	for _, c := range [...]float32{1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1} {
		p = float32(float32(p+c) * r)
	}
	p = float32(p*r) + r + 1
	return p * math.Float32frombits(uint32(int32(n)+127)<<23)
}
