package soft

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/axle-llm/axle/axcl"
)

func vectors(n int, seed uint64) (w []uint16, q []int8, x []float32) {
	r := rand.New(rand.NewPCG(seed, 1))
	for range n {
		w, q = append(w, axcl.BFloat16(float32(r.NormFloat64()))), append(q, int8(r.IntN(255)-127))
	}
	for range 4*n + 3 {
		x = append(x, float32(r.NormFloat64()))
	}
	return w, q, x
}

// exact computes a dot product in float64 and how far float32 may be from it.
func exact[T any](w []T, x []float32, f func(T) float64) (sum, slack float64) {
	for i, v := range w {
		p := f(v) * float64(x[i])
		sum, slack = sum+p, slack+math.Abs(p)
	}
	return sum, slack * 1e-6
}

func FuzzKernels(f *testing.F) {
	for _, n := range []int{0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 100, 127, 128, 1000, 1024, 3000} {
		f.Add(uint16(n), uint64(n))
	}
	f.Fuzz(func(t *testing.T, length uint16, seed uint64) {
		n := int(length) % 5000
		w, q, x := vectors(n, seed)
		stride := n + int(seed%2)
		bf := func(v uint16) float64 { return float64(axcl.Float32(v)) }
		i8 := func(v int8) float64 { return float64(v) }
		near := func(what string, got float32, want, slack float64) {
			t.Helper()
			if math.Abs(float64(got)-want) > slack {
				t.Errorf("%s of %d: %v, want %v ± %v", what, n, got, want, slack)
			}
		}
		var b4, q4 [4]float32
		dot4BF16(&b4, w, x, stride)
		dot4Int8(&q4, q, x, stride)
		for k := range 4 {
			row := x[k*stride:]
			want, slack := exact(w, row, bf)
			near("dot4BF16", b4[k], want, slack)
			if alone := dotBF16(w, row); alone != b4[k] {
				t.Errorf("dotBF16 of %d gives %v, dot4BF16 %v", n, alone, b4[k])
			}
			want, slack = exact(q, row, i8)
			near("dot4Int8", q4[k], want, slack)
			if alone := dotInt8(q, row); alone != q4[k] {
				t.Errorf("dotInt8 of %d gives %v, dot4Int8 %v", n, alone, q4[k])
			}
			s, i := dotBF16Go(w, row)
			want, slack = exact(w[:i], row, bf)
			near("dotBF16Go", s, want, slack)
			s, i = dotInt8Go(q, row)
			want, slack = exact(q[:i], row, i8)
			near("dotInt8Go", s, want, slack)
		}
		y, want := make([]float64, n), make([]float64, n)
		for i := range y {
			y[i] = float64(x[i])
			want[i] = y[i] + 0.37*bf(w[i])
		}
		axpyBF16(y, 0.37, w)
		for i := range y {
			if math.Abs(y[i]-want[i]) > 1e-14*(1+math.Abs(want[i])) {
				t.Fatalf("axpyBF16 of %d at %d: %v, want %v", n, i, y[i], want[i])
			}
		}
	})
}

func TestExp(t *testing.T) {
	for x := -86.0; x < 88; x += 0.0137 {
		got, want := float64(exp32(float32(x))), math.Exp(float64(float32(x)))
		if math.Abs(got-want) > 4e-7*want {
			t.Fatalf("exp(%v) = %v, want %v", x, got, want)
		}
	}
	if exp32(-1e30) != 0 || exp32(float32(math.Inf(-1))) != 0 || !math.IsInf(float64(exp32(1e30)), 1) || exp32(float32(math.NaN())) == exp32(float32(math.NaN())) {
		t.Error("the ends")
	}
	for x := -30.0; x < 30; x += 0.01 {
		if got, want := float64(gelu(float32(x))), 0.5*x*(1+math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))); math.Abs(got-want) > 2e-6*(1+math.Abs(want)) {
			t.Fatalf("gelu(%v) = %v, want %v", x, got, want)
		}
		if got, want := float64(silu(float32(x))), x/(1+math.Exp(-x)); math.Abs(got-want) > 2e-6*(1+math.Abs(want)) {
			t.Fatalf("silu(%v) = %v, want %v", x, got, want)
		}
	}
}

func TestLargest(t *testing.T) {
	for _, c := range []struct {
		y    []float32
		want int32
	}{{[]float32{1}, 0}, {[]float32{-2, -1, -1}, 1}, {[]float32{0, 3, 2, 3}, 1}, {[]float32{5, 5, 5}, 0}} {
		if got := largest(c.y); got != c.want {
			t.Errorf("%v: %d, want %d", c.y, got, c.want)
		}
	}
}
