package graph

import (
	"math"

	"github.com/axle-llm/axle/axcl/soft/kernel"
	"github.com/axle-llm/axle/axmodel"
)

func sigmoid(x float32) float32 { return 1 / (1 + kernel.Exp(-x)) }

func tanh(x float32) float32 { return float32(math.Tanh(float64(x))) }

// gelu is x·Φ(x), with the complementary error function to about 10⁻⁷ of itself, by a polynomial in
// 1 / (1 + z/2) in the exponent.
func gelu(x float32) float32 {
	z := float32(math.Abs(float64(x))) * (math.Sqrt2 / 2)
	t := 1 / (1 + float32(z*0.5))
	p := float32(0.17087277)
	for _, c := range [...]float32{-0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368,
		-1.26551223} {
		p = float32(p*t) + c
	}
	upper := float32(0.5*t) * kernel.Exp(p-float32(z*z)) // of the normal distribution, beyond |x|
	if x > 0 {
		return x * (1 - upper)
	}
	return x * upper
}

// unary computes a function of each value, in its place where nothing else needs it.
func (p *Plan) unary() {
	in := p.node.In[0]
	x := p.value(in)
	y := x
	if l := p.of[in]; l.uses == 1 && l.constant < 0 {
		p.alias(p.node.Out, in)
	} else {
		y = p.result(0)
	}
	f, alpha := p.node.Attrs[0], p.node.Float(1)
	ones := ones[:]
	p.spread(p.of[p.node.Out].n, 8, func(_, from, to int) {
		src, dst := x.f[from:to], y.f[from:to]
		switch f {
		case axmodel.UnaryReLU:
			for i, v := range src {
				dst[i] = max(v, 0)
			}
		case axmodel.UnaryLeaky:
			for i, v := range src {
				if !(v > 0) {
					v *= alpha
				}
				dst[i] = v
			}
		case axmodel.UnarySigmoid:
			for i, v := range src {
				dst[i] = sigmoid(v)
			}
		case axmodel.UnaryTanh:
			for i, v := range src {
				dst[i] = tanh(v)
			}
		case axmodel.UnarySiLU:
			copy(dst, src)
			p.set.SiLU(dst, ones[:len(dst)])
		case axmodel.UnaryGELU:
			for i, v := range src {
				dst[i] = gelu(v)
			}
		case axmodel.UnaryGELUTanh:
			copy(dst, src)
			p.set.GELU(dst, ones[:len(dst)])
		case axmodel.UnaryGELUFast:
			for i, v := range src {
				dst[i] = v * sigmoid(1.702*v)
			}
		case axmodel.UnarySqrt:
			for i, v := range src {
				dst[i] = float32(math.Sqrt(float64(v)))
			}
		case axmodel.UnarySin:
			for i, v := range src {
				dst[i] = float32(math.Sin(float64(v)))
			}
		case axmodel.UnaryCos:
			for i, v := range src {
				dst[i] = float32(math.Cos(float64(v)))
			}
		}
	})
}

// ones are what functions of two factors take for the second.
var ones = func() (o [chunk]float32) {
	for i := range o {
		o[i] = 1
	}
	return o
}()

// merged are the axes of a result together with how two operands go through it; axes that both go
// through alike are one.
func merged(dims, a, b []int) (out, as, bs []int) {
	sa, sb := through(dims, a), through(dims, b)
	for i, d := range dims {
		k := len(out) - 1
		switch {
		case d == 1:
		case k >= 0 && as[k] == sa[i]*d && bs[k] == sb[i]*d:
			out[k], as[k], bs[k] = out[k]*d, sa[i], sb[i]
		default:
			out, as, bs = append(out, d), append(as, sa[i]), append(bs, sb[i])
		}
	}
	if len(out) == 0 {
		return []int{1}, []int{0}, []int{0}
	}
	return out, as, bs
}

// through are the strides by which a shape goes through a larger one: 0 along axes that it is
// repeated over.
func through(dims, own []int) []int {
	out := make([]int, len(dims))
	for i, st := range strides(own) {
		if own[i] > 1 {
			out[len(dims)-len(own)+i] = st
		}
	}
	return out
}

// binary goes through rows of the result along its last axis.
func (p *Plan) binary() {
	a, ad := p.operand(0)
	b, bd := p.operand(1)
	dims, as, bs := merged(p.dims(), ad, bd)
	integers := p.g.Values[p.node.Out].Int
	y := p.result(0)
	f := p.node.Attrs[0]
	last := len(dims) - 1
	n, sa, sb := dims[last], as[last], bs[last]
	rows := product(dims[:last])
	// A row may be long: parts of it, then.
	cut := (n + chunk - 1) / chunk
	part := (n + cut - 1) / cut
	p.rowsOf(rows*cut, part, 1, func(_, from, to int) {
		for i := from; i < to; i++ {
			r, at := i/cut, i%cut*part
			k := min(part, n-at)
			if k <= 0 {
				continue
			}
			x, z := at*sa, at*sb
			rest := r
			for d := last - 1; d >= 0; d-- {
				x, z = x+rest%dims[d]*as[d], z+rest%dims[d]*bs[d]
				rest /= dims[d]
			}
			if integers {
				for j, dst := 0, y.n[r*n+at:][:k]; j < k; j++ {
					dst[j] = integer(f, a.n[x+j*sa], b.n[z+j*sb])
				}
				continue
			}
			number(p.set, f, y.f[r*n+at:][:k], a.f[x:], b.f[z:], sa, sb)
		}
	})
}

func integer(f, a, b int32) int32 {
	switch f {
	case axmodel.BinaryAdd:
		return a + b
	case axmodel.BinarySub:
		return a - b
	case axmodel.BinaryMul:
		return a * b
	case axmodel.BinaryMin:
		return min(a, b)
	}
	return max(a, b)
}

func number(set kernel.Set, f int32, dst, a, b []float32, sa, sb int) {
	switch f {
	case axmodel.BinaryAdd:
		if sa == 1 && sb == 1 {
			copy(dst, a)
			set.Add(dst, b[:len(dst)])
			return
		}
		for i := range dst {
			dst[i] = a[i*sa] + b[i*sb]
		}
	case axmodel.BinarySub:
		for i := range dst {
			dst[i] = a[i*sa] - b[i*sb]
		}
	case axmodel.BinaryMul:
		for i := range dst {
			dst[i] = a[i*sa] * b[i*sb]
		}
	case axmodel.BinaryDiv:
		for i := range dst {
			dst[i] = a[i*sa] / b[i*sb]
		}
	case axmodel.BinaryMin:
		for i := range dst {
			dst[i] = min(a[i*sa], b[i*sb])
		}
	default:
		for i := range dst {
			dst[i] = max(a[i*sa], b[i*sb])
		}
	}
}

// cast makes numbers of integers, integers of numbers, or leaves them as they are.
func (p *Plan) cast() {
	in := p.node.In[0]
	was, is := p.g.Values[in].Int, p.g.Values[p.node.Out].Int
	if was == is {
		p.alias(p.node.Out, in)
		return
	}
	x, y := p.value(in), p.result(0)
	p.spread(p.of[in].n, 1, func(_, from, to int) {
		for i := from; i < to; i++ {
			if is {
				y.n[i] = whole(x.f[i])
			} else {
				y.f[i] = float32(x.n[i])
			}
		}
	})
}

// whole rounds towards zero, to the last integers there are.
func whole(v float32) int32 {
	switch {
	case v != v:
		return 0
	case v >= 1<<31:
		return math.MaxInt32
	case v <= -1<<31:
		return math.MinInt32
	}
	return int32(v)
}

func (p *Plan) softmax() {
	x, dims := p.operand(0)
	n := dims[len(dims)-1]
	y := p.result(0)
	p.rowsOf(product(dims)/n, n, 8, func(_, from, to int) {
		copy(y.f[from*n:to*n], x.f[from*n:to*n])
		for r := from; r < to; r++ {
			p.set.Softmax(y.f[r*n : (r+1)*n])
		}
	})
}

// reduce goes, for each value of the result, through all that become it.
func (p *Plan) reduce() {
	x, dims := p.operand(0)
	y := p.result(0)
	f, axes := p.node.Attrs[0], int(p.node.Attrs[1])
	var kept, gone, keptBy, goneBy []int
	for i, st := range strides(dims) {
		if k := len(gone) - 1; axes>>i&1 != 0 && i > 0 && axes>>(i-1)&1 != 0 { // with the axis before it, one
			gone[k], goneBy[k] = gone[k]*dims[i], st
		} else if axes>>i&1 != 0 {
			gone, goneBy = append(gone, dims[i]), append(goneBy, st)
		} else {
			kept, keptBy = append(kept, dims[i]), append(keptBy, st)
		}
	}
	n := product(gone)
	p.rowsOf(product(kept), n, 2, func(_, from, to int) {
		for i := from; i < to; i++ {
			at := offset(i, kept, keptBy)
			best, sum := x.f[at], 0.0
			for k := range n {
				v := x.f[at+offset(k, gone, goneBy)]
				best = max(best, v)
				sum += float64(v)
			}
			switch f {
			case axmodel.ReduceSum:
				y.f[i] = float32(sum)
			case axmodel.ReduceMean:
				y.f[i] = float32(sum / float64(n))
			default:
				y.f[i] = best
			}
		}
	})
}

// offset is where value i of a shape lies, which goes through memory by these strides.
func offset(i int, dims, by []int) int {
	at := 0
	for k := len(dims) - 1; k >= 0; k-- {
		at += i % dims[k] * by[k]
		i /= dims[k]
	}
	return at
}

// rowNorm is a norm of each row.
func (p *Plan) rowNorm() {
	x, dims := p.operand(0)
	w, _ := p.operand(1)
	bias, _ := p.operand(2)
	n := dims[len(dims)-1]
	y := p.result(0)
	eps := float64(p.node.Float(0))
	centred := p.node.Op == axmodel.OpLayerNorm
	p.rowsOf(product(dims)/n, n, 4, func(_, from, to int) {
		for r := from; r < to; r++ {
			src, dst := x.f[r*n:(r+1)*n], y.f[r*n:(r+1)*n]
			normalise(dst, src, centred, eps)
			scaleShift(dst, w.f, bias.f)
		}
	})
}

// normalise gives values a mean of 0, where it is centred, and a mean square of 1.
func normalise(dst, src []float32, centred bool, eps float64) {
	mean, square := 0.0, 0.0
	if centred {
		for _, v := range src {
			mean += float64(v)
		}
		mean /= float64(len(src))
	}
	for _, v := range src {
		square += (float64(v) - mean) * (float64(v) - mean)
	}
	scale := 1 / math.Sqrt(square/float64(len(src))+eps)
	for i, v := range src {
		dst[i] = float32((float64(v) - mean) * scale)
	}
}

func scaleShift(x, w, bias []float32) {
	for i := range w {
		x[i] *= w[i]
	}
	for i := range bias {
		x[i] += bias[i]
	}
}

// groupNorm takes each group of channels on its own.
func (p *Plan) groupNorm() {
	x, dims := p.operand(0)
	w, _ := p.operand(1)
	bias, _ := p.operand(2)
	groups := int(p.node.Attrs[0])
	eps := float64(p.node.Float(1))
	area := product(dims[2:])
	each := dims[1] / groups
	y := p.result(0)
	p.do(dims[0]*groups, each*area*4, func(_, i int) {
		src, dst := x.f[i*each*area:(i+1)*each*area], y.f[i*each*area:(i+1)*each*area]
		normalise(dst, src, true, eps)
		for c := range each {
			a, b := float32(1), float32(0)
			if w.f != nil {
				a = w.f[i%groups*each+c]
			}
			if bias.f != nil {
				b = bias.f[i%groups*each+c]
			}
			for k, v := range dst[c*area : (c+1)*area] {
				dst[c*area+k] = v*a + b
			}
		}
	})
}
