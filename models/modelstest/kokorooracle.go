package modelstest

import (
	"fmt"
	"math"
	"slices"
)

// This file is Kokoro in float64.

// Part1 is what the first net gives, in float64: durations, 50 values a symbol, and d, 640 values a
// symbol. ref is a voice's row; padding is 1 where a symbol only fills up.
func (e Kokoro) Part1(ids []int32, ref []float32, padding []byte) (duration, d [][]float64) {
	w := e.weights()
	x := e.symbols(w, ids, ref, padding)
	return w.linear64(w.lstm64(x, "duration.lstm"), "duration"), x
}

// symbols is the first net's d.
func (e Kokoro) symbols(w *weights, ids []int32, ref []float32, padding []byte) rows {
	style := wide(ref[kokoroStyle:])
	var x rows
	for i, id := range ids {
		x = append(x, w.get("bert.embed").row(int(id)))
		for k, v := range w.get("bert.places").row(i) {
			x[i][k] += v
		}
	}
	x = w.norm64(x, "bert.norm", kokoroEps)
	for range 2 {
		a := attend(w.linear64(x, "bert.query"), w.linear64(x, "bert.key"), w.linear64(x, "bert.value"), 2,
			func(_, j int) bool { return padding[j] == 0 })
		x = w.norm64(x.plus(w.linear64(a, "bert.dense")), "bert.attention_norm", kokoroEps)
		f := w.linear64(x, "bert.ffn").each(func(v float64) float64 {
			return v / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v)))
		})
		x = w.norm64(x.plus(w.linear64(f, "bert.ffn_output")), "bert.full_norm", kokoroEps)
	}
	with := func(x rows) rows {
		y := newRows(len(x), kokoroText+kokoroStyle)
		for i := range x {
			if padding[i] == 0 {
				copy(y[i], x[i])
				copy(y[i][kokoroText:], style)
			}
		}
		return y
	}
	x = with(w.linear64(x, "bert_encoder"))
	for i := range 2 {
		y := w.linear64(w.lstm64(x, fmt.Sprint("text.lstm", i)), fmt.Sprint("text.wide", i))
		h := w.linear64(rows{style}, fmt.Sprint("text.ada", i))[0]
		for r := range y {
			y[r] = standard(y[r], kokoroEps)
			for c := range y[r] {
				y[r][c] = (1+h[c])*y[r][c] + h[kokoroText+c]
			}
		}
		x = with(y)
	}
	return x
}

// Part2 is what the second net gives, in float64: the pitch in Hz and the loudness, 384 values
// each, and asr, 512 rows of 192 values. en are 640 rows of 192 values, frames 96 of 192.
func (e Kokoro) Part2(en, ref []float32, ids []int32, padding, frames []float32) (f0, n []float64, asr [][]float64) {
	w, style := e.weights(), wide(ref[kokoroStyle:])
	shared := w.lstm64(rowsOf(en, kokoroFrames).turned(), "shared").turned()
	curve := func(name string) []float64 {
		x := shared
		for i := range 3 {
			x = w.residual64(x, style, fmt.Sprint(name, ".", i))
		}
		return w.conv64(x, name+".proj", walk{})[0]
	}
	var x rows
	for _, id := range ids {
		x = append(x, w.get("encoder.embed").row(int(id)))
	}
	real := func(x rows) rows {
		y := newRows(len(x), len(x[0]))
		for i := range x {
			for c, v := range x[i] {
				y[i][c] = v * (1 - float64(padding[i]))
			}
		}
		return y
	}
	x = real(x)
	for i := range 3 {
		x = w.conv64(x.turned(), fmt.Sprint("encoder.conv", i), walk{pad: 2}).turned()
		x = real(w.norm64(x, fmt.Sprint("encoder.norm", i), kokoroEps).each(leaky64(0.2)))
	}
	x = real(w.linear64(w.lstm64(x, "encoder.lstm"), "encoder.wide"))
	out, to := newRows(kokoroText, kokoroFrames), rowsOf(frames, kokoroFrames)
	for i := range x {
		for c, v := range x[i] {
			for p, share := range to[i] {
				out[c][p] += v * share
			}
		}
	}
	return curve("F0"), curve("N"), out
}

// Part3 is what the third net gives, in float64: 22 rows of 23041 values. asr, f0 and n are as
// Part2 gives them, har is 22 rows of 23041 values.
func (e Kokoro) Part3(asr, f0, n, ref, har []float32) [][]float64 {
	w, style := e.weights(), wide(ref[:kokoroStyle])
	half := func(v float64) float64 { return v / 2 }
	words, source := rowsOf(asr, kokoroFrames), rowsOf(har, kokoroWave)
	curves := slices.Concat(w.conv64(rowsOf(f0, len(f0)), "decoder.F0_conv", walk{stride: 2, pad: 1}),
		w.conv64(rowsOf(n, len(n)), "decoder.N_conv", walk{stride: 2, pad: 1}))
	x := w.residual64(slices.Concat(words, curves), style, "decoder.encode")
	rest := w.conv64(words, "decoder.asr_res", walk{})
	for i := range 2 {
		x = w.residual64(slices.Concat(x, rest, curves), style, fmt.Sprint("decoder.decode", i))
	}
	x = w.up64(x.each(leaky64(0.1)), "generator.up0", walk{stride: 10, pad: 5}, 0)
	x = x.plus(w.snakes64(w.conv64(source, "generator.noise0", walk{stride: 6, pad: 3}), style, "generator.noise_res0"))
	x = w.snakes64(x, style, "generator.res0.3").plus(w.snakes64(x, style, "generator.res0.7")).each(half)
	x = w.up64(x.each(leaky64(0.1)), "generator.up1", walk{stride: 6, pad: 3}, 0)
	for c := range x {
		x[c] = append([]float64{x[c][1]}, x[c]...)
	}
	x = x.plus(w.snakes64(w.conv64(source, "generator.noise1", walk{}), style, "generator.noise_res1"))
	x = w.snakes64(x, style, "generator.res1.3").plus(w.snakes64(x, style, "generator.res1.7")).each(half)
	return w.conv64(x.each(leaky64(0.01)), "generator.post", walk{pad: 3})
}

func wide(v []float32) []float64 { return rowsOf(v, len(v))[0] }

func leaky64(slope float64) func(float64) float64 {
	return func(v float64) float64 { return max(v, 0) + slope*min(v, 0) }
}

// lstm64 goes through places of channels both ways.
func (w *weights) lstm64(x rows, name string) rows {
	in, back, bias := w.get(name+".w"), w.get(name+".r"), w.get(name+".b").v
	n, wide := back.dims[2], in.dims[2]
	y := newRows(len(x), 2*n)
	for way := range 2 {
		h, c := make([]float64, n), make([]float64, n)
		for step := range x {
			at := step
			if way == 1 {
				at = len(x) - 1 - step
			}
			gates := make([]float64, 4*n)
			for k := range gates {
				row := way*4*n + k
				gates[k] = float64(bias[row])
				for i, v := range x[at] {
					gates[k] += v * float64(in.v[row*wide+i])
				}
				for i, v := range h {
					gates[k] += v * float64(back.v[row*n+i])
				}
			}
			for k := range n {
				c[k] = sigmoid64(gates[n+k])*c[k] + sigmoid64(gates[k])*math.Tanh(gates[2*n+k])
				y[at][way*n+k] = sigmoid64(gates[3*n+k]) * math.Tanh(c[k])
			}
			h = y[at][way*n : (way+1)*n]
		}
	}
	return y
}

// adain64 normalises each channel, and scales it as the voice has it.
func (w *weights) adain64(x rows, style []float64, name string) rows {
	h := w.linear64(rows{style}, name+".fc")[0]
	by, to := w.get(name+".weight").v, w.get(name+".bias").v
	y := make(rows, len(x))
	for c := range x {
		y[c] = standard(x[c], kokoroEps)
		for p := range y[c] {
			y[c][p] = (1+h[c])*(y[c][p]*float64(by[c])+float64(to[c])) + h[len(x)+c]
		}
	}
	return y
}

func (w *weights) residual64(x rows, style []float64, name string) rows {
	y, short := w.adain64(x, style, name+".norm1").each(leaky64(0.2)), x
	if w.has(name + ".pool.weight") {
		y = w.up64(y, name+".pool", walk{stride: 2, pad: 1, groups: len(x)}, 1)
		short = newRows(len(x), 2*len(x[0]))
		for c := range short {
			for p := range short[c] {
				short[c][p] = x[c][p/2]
			}
		}
	}
	y = w.conv64(y, name+".conv1", walk{pad: 1})
	y = w.conv64(w.adain64(y, style, name+".norm2").each(leaky64(0.2)), name+".conv2", walk{pad: 1})
	if w.has(name + ".short.weight") {
		short = w.conv64(short, name+".short", walk{})
	}
	return y.plus(short).each(func(v float64) float64 { return v / math.Sqrt2 })
}

func (w *weights) snakes64(x rows, style []float64, name string) rows {
	for i, dilation := range kokoroDilations {
		y := x
		for half, dilation := range []int{dilation, 1} {
			at := fmt.Sprintf("%s.%d.%d", name, i, half+1)
			y = w.adain64(y, style, at)
			for c, alpha := range w.get(at + ".alpha").v {
				for p, v := range y[c] {
					s := math.Sin(float64(alpha) * v)
					y[c][p] = v + s*s/float64(alpha)
				}
			}
			k := w.get(at + ".conv.weight").dims[2]
			y = w.conv64(y, at+".conv", walk{pad: dilation * (k - 1) / 2, dilation: dilation})
		}
		x = x.plus(y)
	}
	return x
}

// up64 is a transposed convolution: each value adds the kernel, times itself, to the places from
// its own on, of which padding at both ends is cut off, but for some more at the end.
func (w *weights) up64(x rows, name string, by walk, more int) rows {
	t, bias := w.get(name+".weight"), w.get(name+".bias").v
	own, k, groups := t.dims[1], t.dims[2], max(by.groups, 1)
	y := newRows(own*groups, (len(x[0])-1)*by.stride+k-2*by.pad+more)
	for c := range y {
		for p := range y[c] {
			y[c][p] = float64(bias[c])
		}
	}
	for c := range x {
		for o := range own {
			to := y[c/(len(x)/groups)*own+o]
			for p, v := range x[c] {
				for j := range k {
					if at := p*by.stride + j - by.pad; at >= 0 && at < len(to) {
						to[at] += v * float64(t.v[(c*own+o)*k+j])
					}
				}
			}
		}
	}
	return y
}
