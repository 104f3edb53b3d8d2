package vision_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/axle-llm/axle/vision"
)

// TestAlign: the similarity is what the normal equations give, solved exactly; points that a
// similarity moved are taken back.
func TestAlign(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	template := [][2]float64{{38.2946, 51.6963}, {73.5318, 51.5014}, {56.0252, 71.7366}, {41.5493, 92.3655}, {70.7299, 92.2041}}
	for range 200 {
		from := make([][2]float64, len(template))
		for i := range from {
			from[i] = [2]float64{1000 * rng.Float64(), 1000 * rng.Float64()}
		}
		s, ok := vision.Align(from, template)
		want := normal(from, template)
		for i, v := range []float64{s.A, s.B, s.X, s.Y} {
			if !ok || math.Abs(v-want[i]) > 1e-9*max(1, math.Abs(want[i])) {
				t.Fatalf("%v: %v, want %v", from, s, want)
			}
		}
		turn, scale := 2*math.Pi*rng.Float64(), 0.1+4*rng.Float64()
		a, b := scale*math.Cos(turn), scale*math.Sin(turn)
		for i, p := range template {
			from[i] = [2]float64{a*p[0] - b*p[1] + 300, b*p[0] + a*p[1] - 40}
		}
		s, ok = vision.Align(from, template)
		for i, p := range from {
			x, y := s.A*p[0]-s.B*p[1]+s.X, s.B*p[0]+s.A*p[1]+s.Y
			if !ok || math.Hypot(x-template[i][0], y-template[i][1]) > 1e-9 {
				t.Fatalf("point %d comes to (%v, %v), want %v", i, x, y, template[i])
			}
		}
	}
	point := [][2]float64{{3, 4}, {3, 4}, {3, 4}, {3, 4}, {3, 4}}
	far := [][2]float64{{1e200, 0}, {-1e200, 0}, {0, 1e200}, {0, -1e200}, {1, 1}}
	none := [][2]float64{{math.NaN(), 0}, {1, 1}, {2, 3}, {4, 4}, {5, 6}}
	for name, c := range map[string][2][][2]float64{"one point": {point, template}, "to one point": {template, point},
		"too far": {far, template}, "no number": {none, template}, "fewer": {template[:4], template},
		"a single one": {template[:1], template[:1]}, "nothing": {nil, nil}} {
		if s, ok := vision.Align(c[0], c[1]); ok {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// normal solves the four normal equations of the least squares with rational numbers.
func normal(from, to [][2]float64) (out [4]float64) {
	m := [4][5]*big.Rat{}
	for i := range m {
		for k := range m[i] {
			m[i][k] = new(big.Rat)
		}
	}
	rat := func(v float64) *big.Rat { return new(big.Rat).SetFloat64(v) }
	for i := range from {
		x, y := from[i][0], from[i][1]
		for _, row := range [2][5]float64{{x, -y, 1, 0, to[i][0]}, {y, x, 0, 1, to[i][1]}} {
			for a := range 4 {
				for b := range 5 {
					m[a][b].Add(m[a][b], new(big.Rat).Mul(rat(row[a]), rat(row[b])))
				}
			}
		}
	}
	for i := range m {
		for k := i; m[i][i].Sign() == 0; k++ {
			m[i], m[k] = m[k], m[i]
		}
		for k := range m {
			if k == i {
				continue
			}
			f := new(big.Rat).Quo(m[k][i], m[i][i])
			for c := range m[k] {
				m[k][c].Sub(m[k][c], new(big.Rat).Mul(f, m[i][c]))
			}
		}
	}
	for i := range m {
		out[i], _ = new(big.Rat).Quo(m[i][4], m[i][i]).Float64()
	}
	return out
}

// TestAligned: a picture is turned and scaled as the bilinear formula says at each point, with
// black beside it.
func TestAligned(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	p := &vision.Picture{Width: 37, Height: 23, Pix: make([]byte, 3*37*23)}
	for i := range p.Pix {
		p.Pix[i] = byte(rng.IntN(256))
	}
	if got := p.Aligned(vision.Similarity{A: 1}, 37, 23); string(got.Pix) != string(p.Pix) {
		t.Error("a similarity that does nothing changes the picture")
	}
	if got := p.Aligned(vision.Similarity{B: 1, X: 22}, 23, 37); got.Pix[3*(4*23+22-7)] != p.Pix[3*(7*37+4)] {
		t.Error("a quarter turn is none")
	}
	for range 20 {
		s := vision.Similarity{A: rng.NormFloat64(), B: rng.NormFloat64(), X: 40 * rng.NormFloat64(), Y: 40 * rng.NormFloat64()}
		got := p.Aligned(s, 31, 19)
		for y := range 19 {
			for x := range 31 {
				// The point of p by Cramer's rule, and each pixel's share by its distance.
				det := s.A*s.A + s.B*s.B
				px, py := ((float64(x)-s.X)*s.A+(float64(y)-s.Y)*s.B)/det, ((float64(y)-s.Y)*s.A-(float64(x)-s.X)*s.B)/det
				for c := range 3 {
					sum := 0.0
					for qy := range p.Height {
						for qx := range p.Width {
							sum += max(0, 1-math.Abs(px-float64(qx))) * max(0, 1-math.Abs(py-float64(qy))) * float64(p.Pix[3*(qy*37+qx)+c])
						}
					}
					if v := float64(got.Pix[3*(y*31+x)+c]); math.Abs(v-sum) > 0.5+1e-6 {
						t.Fatalf("%+v: (%d, %d) is %v, want %v", s, x, y, v, sum)
					}
				}
			}
		}
	}
	if got := p.Aligned(vision.Similarity{A: 1e-150, X: 1e300}, 2, 2); string(got.Pix) != string(make([]byte, 12)) {
		t.Errorf("far beside it: %v", got.Pix)
	}
}
