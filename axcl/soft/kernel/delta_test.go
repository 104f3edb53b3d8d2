package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// head is a head's state and a row of it.
type head struct {
	dst, state, q, k, v []float32
	keep, beta          float32
}

// Every set takes a head on as plain Go does, bit for bit, whatever its shape, and plain Go as
// float64 does; nothing is allocated.
func TestDelta(t *testing.T) {
	//proves:G12 a state, to the bit in every set
	r := rand.New(rand.NewPCG(7, 8))
	for _, dk := range []int{1, 2, 7, 32, 128} {
		for _, dv := range []int{1, 8, 31, 32, 33, 64, 100, 128} {
			h := newHead(r, dk, dv)
			want := h.on(Go)
			for j := range dv {
				d, slack := float64(h.v[j]), math.Abs(float64(h.v[j]))
				for i, k := range h.k {
					p := float64(h.keep) * float64(k) * float64(h.state[i*dv+j])
					d, slack = d-p, slack+math.Abs(p)
				}
				o, most := 0.0, 0.0
				for i, k := range h.k {
					now := float64(h.keep)*float64(h.state[i*dv+j]) + float64(k)*float64(h.beta)*d
					bound := math.Abs(float64(h.state[i*dv+j])) + math.Abs(float64(k))*slack
					if got := float64(want.state[i*dv+j]); math.Abs(got-now) > 2e-6*bound {
						t.Fatalf("%d×%d: state %d, %d is %v, want %v", dk, dv, i, j, got, now)
					}
					o, most = o+float64(h.q[i])*now, most+math.Abs(float64(h.q[i]))*bound
				}
				if math.Abs(float64(want.dst[j])-o) > 4e-6*most {
					t.Fatalf("%d×%d: value %d is %v, want %v", dk, dv, j, want.dst[j], o)
				}
			}
			for _, s := range Available() {
				got := h.on(s)
				if !slices.Equal(got.dst, want.dst) || !slices.Equal(got.state, want.state) {
					t.Errorf("%v: %d×%d is not what plain Go gives", s, dk, dv)
				}
				if n := testing.AllocsPerRun(3, func() { s.Delta(got.dst, got.state, h.q, h.k, h.v, h.keep, h.beta) }); n != 0 {
					t.Errorf("%v: %v allocations", s, n)
				}
			}
		}
	}
	empty := []float32{5}
	Best().Delta(empty, nil, nil, nil, []float32{1}, 1, 1)
	if Best().Delta(nil, nil, nil, nil, nil, 1, 1); empty[0] != 0 {
		t.Error("a state without rows recalls something")
	}
}

func BenchmarkDelta(b *testing.B) {
	h := newHead(rand.New(rand.NewPCG(1, 1)), 128, 128)
	h.keep = 0.9
	for _, s := range Available() {
		b.Run(fmt.Sprint(s), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Delta(h.dst, h.state, h.q, h.k, h.v, h.keep, h.beta)
			}
		})
	}
}

func newHead(r *rand.Rand, dk, dv int) head {
	f := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		return x
	}
	return head{f(dv), f(dk * dv), f(dk), f(dk), f(dv), float32(r.Float64()), float32(r.Float64())}
}

func (h head) on(s Set) head {
	c := head{slices.Clone(h.dst), slices.Clone(h.state), h.q, h.k, h.v, h.keep, h.beta}
	s.Delta(c.dst, c.state, c.q, c.k, c.v, c.keep, c.beta)
	return c
}
