package features

import "math"

// fft transforms n real numbers: n is even, and n/2 is a product of 2, 4 and 5. They are taken as
// n/2 complex ones, which go through Stockham's passes: those need no reordering of the result.
type fft struct {
	n      int
	passes []pass
	turns  []complex128 // e^(−2πik/n) for k ≤ n/2
	a, b   []complex128 // n/2 each
}

// pass splits sums of radix·m terms in radix sums of m terms each, for stride sums side by side.
type pass struct {
	radix, m, stride int
	turns            []complex128 // radix−1 for each of m: e^(−2πipk/(radix·m))
}

func newFFT(n int) *fft {
	h := n / 2
	f := &fft{n: n, a: make([]complex128, h), b: make([]complex128, h), turns: make([]complex128, h+1)}
	for k := range f.turns {
		f.turns[k] = turn(k, n)
	}
	for rest, stride := h, 1; rest > 1; {
		radix := 2
		switch {
		case rest%5 == 0:
			radix = 5
		case rest%4 == 0:
			radix = 4
		case rest%2 != 0:
			panic("features: a transform of a length that is no product of 2, 4 and 5")
		}
		p := pass{radix: radix, m: rest / radix, stride: stride}
		for i := range p.m {
			for k := 1; k < radix; k++ {
				p.turns = append(p.turns, turn(i*k, rest))
			}
		}
		f.passes = append(f.passes, p)
		rest, stride = p.m, stride*radix
	}
	return f
}

// turn is e^(−2πik/n).
func turn(k, n int) complex128 {
	sin, cos := math.Sincos(2 * math.Pi * float64(k%n) / float64(n))
	return complex(cos, -sin)
}

// forward writes the n/2+1 sums Σ x[i]·e^(−2πik·i/n) to out.
func (f *fft) forward(x []float64, out []complex128) {
	x = x[:f.n]
	for k := range f.a {
		f.a[k] = complex(x[2*k], x[2*k+1])
	}
	z := f.run()
	h := f.n / 2
	out[0], out[h] = complex(real(z[0])+imag(z[0]), 0), complex(real(z[0])-imag(z[0]), 0)
	for k := 1; k < h; k++ {
		p, q := z[k], z[h-k]
		even := complex(real(p)+real(q), imag(p)-imag(q))
		odd := complex(imag(p)+imag(q), real(q)-real(p)) // the difference, divided by i
		out[k] = scaled(even+odd*f.turns[k], 0.5)
	}
}

// inverse writes the n real numbers whose sums are in. The first and last sum are taken as real.
func (f *fft) inverse(in []complex128, x []float64) {
	h := f.n / 2
	// The transform back is the transform there with real and imaginary parts swapped, before and
	// after.
	first, last := real(in[0]), real(in[h])
	f.a[0] = complex(first-last, first+last)
	for k := 1; k < h; k++ {
		p, q := in[k], in[h-k]
		even := complex(real(p)+real(q), imag(p)-imag(q))
		odd := complex(real(p)-real(q), imag(p)+imag(q)) * complex(real(f.turns[k]), -imag(f.turns[k]))
		f.a[k] = complex(imag(even)+real(odd), real(even)-imag(odd))
	}
	scale := 1 / float64(f.n)
	for k, z := range f.run() {
		x[2*k], x[2*k+1] = imag(z)*scale, real(z)*scale
	}
}

func scaled(z complex128, by float64) complex128 { return complex(real(z)*by, imag(z)*by) }

// run transforms f.a, and says where the result is.
func (f *fft) run() []complex128 {
	from, to := f.a, f.b
	for i := range f.passes {
		switch p := &f.passes[i]; p.radix {
		case 2:
			p.by2(from, to)
		case 4:
			p.by4(from, to)
		case 5:
			p.by5(from, to)
		}
		from, to = to, from
	}
	return from
}

func (p *pass) by2(from, to []complex128) {
	s := p.stride
	for i := range p.m {
		w := p.turns[i]
		a, b := from[s*i:][:s], from[s*(i+p.m):][:s]
		c, d := to[s*2*i:][:s], to[s*(2*i+1):][:s]
		for q := range a {
			x, y := a[q], b[q]
			c[q], d[q] = x+y, (x-y)*w
		}
	}
}

func (p *pass) by4(from, to []complex128) {
	s, m := p.stride, p.m
	for i := range m {
		w := p.turns[3*i:][:3]
		a, b, c, d := from[s*i:][:s], from[s*(i+m):][:s], from[s*(i+2*m):][:s], from[s*(i+3*m):][:s]
		out := to[s*4*i:][:4*s]
		o0, o1, o2, o3 := out[:s], out[s:][:s], out[2*s:][:s], out[3*s:][:s]
		for q := range a {
			ac, bd := a[q]+c[q], b[q]+d[q]
			am, bm := a[q]-c[q], b[q]-d[q]
			bm = complex(imag(bm), -real(bm)) // divided by i
			o0[q], o1[q], o2[q], o3[q] = ac+bd, (am+bm)*w[0], (ac-bd)*w[1], (am-bm)*w[2]
		}
	}
}

// The cosines and sines of a fifth and two fifths of a turn.
const (
	cos1 = 0.309016994374947424102293417182819058860154589902881431067724
	cos2 = -0.809016994374947424102293417182819058860154589902881431067724
	sin1 = 0.951056516295153572116439333379382143405698634125750222447306
	sin2 = 0.587785252292473129168705954639072768597652437643145991072273
)

func (p *pass) by5(from, to []complex128) {
	s, m := p.stride, p.m
	for i := range m {
		w := p.turns[4*i:][:4]
		x0, x1, x2 := from[s*i:][:s], from[s*(i+m):][:s], from[s*(i+2*m):][:s]
		x3, x4 := from[s*(i+3*m):][:s], from[s*(i+4*m):][:s]
		out := to[s*5*i:][:5*s]
		o0, o1, o2, o3, o4 := out[:s], out[s:][:s], out[2*s:][:s], out[3*s:][:s], out[4*s:][:s]
		for q := range x0 {
			x := x0[q]
			p14, m14 := x1[q]+x4[q], x1[q]-x4[q]
			p23, m23 := x2[q]+x3[q], x2[q]-x3[q]
			c1 := complex(real(x)+cos1*real(p14)+cos2*real(p23), imag(x)+cos1*imag(p14)+cos2*imag(p23))
			c2 := complex(real(x)+cos2*real(p14)+cos1*real(p23), imag(x)+cos2*imag(p14)+cos1*imag(p23))
			// The sums of sines, divided by i.
			s1 := complex(sin1*imag(m14)+sin2*imag(m23), -sin1*real(m14)-sin2*real(m23))
			s2 := complex(sin2*imag(m14)-sin1*imag(m23), -sin2*real(m14)+sin1*real(m23))
			o0[q] = x + p14 + p23
			o1[q], o2[q], o3[q], o4[q] = (c1+s1)*w[0], (c2+s2)*w[1], (c2-s2)*w[2], (c1-s1)*w[3]
		}
	}
}
