package modelstest

import "math"

// This file is what the oracles of the nets are made of: layers in float64, from their definitions
// and the weights, without the graphs and the code that runs graphs.

// rows are values, row by row: places of channels, or channels of places.
type rows [][]float64

func newRows(n, width int) rows {
	x := make(rows, n)
	for i := range x {
		x[i] = make([]float64, width)
	}
	return x
}

// rowsOf cuts values into rows.
func rowsOf(v []float32, width int) rows {
	x := newRows(len(v)/width, width)
	for i, f := range v {
		x[i/width][i%width] = float64(f)
	}
	return x
}

func (w weight) rows() rows { return rowsOf(w.v, len(w.v)/w.dims[0]) }

// each is f of each value.
func (x rows) each(f func(float64) float64) rows {
	y := newRows(len(x), len(x[0]))
	for i := range x {
		for k, v := range x[i] {
			y[i][k] = f(v)
		}
	}
	return y
}

func (x rows) plus(a rows) rows {
	y := newRows(len(x), len(x[0]))
	for i := range x {
		for k := range x[i] {
			y[i][k] = x[i][k] + a[i][k]
		}
	}
	return y
}

func (x rows) turned() rows {
	y := newRows(len(x[0]), len(x))
	for i := range x {
		for k, v := range x[i] {
			y[k][i] = v
		}
	}
	return y
}

// mean is the mean row.
func (x rows) mean() []float64 {
	y := make([]float64, len(x[0]))
	for i := range x {
		for k, v := range x[i] {
			y[k] += v / float64(len(x))
		}
	}
	return y
}

// columns is a part of each row.
func (x rows) columns(from, to int) rows {
	y := make(rows, len(x))
	for i := range x {
		y[i] = x[i][from:to]
	}
	return y
}

// linear is a layer of the weights.
func (w *weights) linear64(x rows, name string) rows {
	m := w.wide.get(name, func() rows { return w.get(name + ".weight").rows() })
	y := newRows(len(x), len(m))
	bias := w.all[name+".bias"].v
	for i := range x {
		for o := range m {
			sum := 0.0
			for k, v := range m[o] {
				sum += v * x[i][k]
			}
			if bias != nil {
				sum += float64(bias[o])
			}
			y[i][o] = sum
		}
	}
	return y
}

// standard makes the mean of values 0, and their variance 1.
func standard(v []float64, eps float64) []float64 {
	mean, square := 0.0, 0.0
	for _, f := range v {
		mean += f / float64(len(v))
	}
	for _, f := range v {
		square += (f - mean) * (f - mean) / float64(len(v))
	}
	y := make([]float64, len(v))
	for i, f := range v {
		y[i] = (f - mean) / math.Sqrt(square+eps)
	}
	return y
}

// norm64 is a layer norm of each row.
func (w *weights) norm64(x rows, name string, eps float64) rows {
	by, to := w.get(name+".weight").v, w.get(name+".bias").v
	y := make(rows, len(x))
	for i := range x {
		y[i] = standard(x[i], eps)
		for k := range y[i] {
			y[i][k] = y[i][k]*float64(by[k]) + float64(to[k])
		}
	}
	return y
}

// attend is attention by heads, of scores divided by the root of a head's width. Row i sees row j
// where sees says so; it must see one.
func attend(q, k, v rows, heads int, sees func(i, j int) bool) rows {
	y := newRows(len(q), len(v[0]))
	d, e := len(q[0])/heads, len(v[0])/heads
	scores := make([]float64, len(k))
	for i := range q {
		for h := range heads {
			top, sum := math.Inf(-1), 0.0
			for j := range k {
				scores[j] = math.Inf(-1)
				if sees != nil && !sees(i, j) {
					continue
				}
				scores[j] = 0
				for c := h * d; c < (h+1)*d; c++ {
					scores[j] += q[i][c] * k[j][c]
				}
				scores[j] /= math.Sqrt(float64(d))
				top = max(top, scores[j])
			}
			for j := range scores {
				scores[j] = math.Exp(scores[j] - top)
				sum += scores[j]
			}
			for j, s := range scores {
				for c := h * e; s > 0 && c < (h+1)*e; c++ {
					y[i][c] += s / sum * v[j][c]
				}
			}
		}
	}
	return y
}

// walk is how a convolution goes along a row.
type walk struct{ stride, pad, dilation, groups int }

// conv64 convolves channels of places.
func (w *weights) conv64(x rows, name string, by walk) rows {
	t := w.get(name + ".weight")
	out, in, k := t.dims[0], t.dims[1], t.dims[2]
	stride, dilation, groups := max(by.stride, 1), max(by.dilation, 1), max(by.groups, 1)
	y := newRows(out, (len(x[0])+2*by.pad-dilation*(k-1)-1)/stride+1)
	bias := w.all[name+".bias"].v
	for o := range y {
		first := o / (out / groups) * in
		for c := range in {
			for j := range k {
				f := float64(t.v[(o*in+c)*k+j])
				for p := range y[o] {
					if at := p*stride - by.pad + j*dilation; at >= 0 && at < len(x[0]) {
						y[o][p] += f * x[first+c][at]
					}
				}
			}
		}
		if bias != nil {
			for p := range y[o] {
				y[o][p] += float64(bias[o])
			}
		}
	}
	return y
}

func relu64(x float64) float64 { return max(x, 0) }

func gelu64(x float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) }

func sigmoid64(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func root(n int) float64 { return math.Sqrt(float64(n)) }

// row is row i of a matrix.
func (w weight) row(i int) []float64 {
	width := len(w.v) / w.dims[0]
	return rowsOf(w.v[i*width:(i+1)*width], width)[0]
}
