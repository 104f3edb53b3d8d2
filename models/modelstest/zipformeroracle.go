package modelstest

import (
	"fmt"
	"math"
	"slices"
)

// ZipformerOracle computes in float64 what a Zipformer's encoder makes of a sound, call by call. It
// belongs to one goroutine.
type ZipformerOracle struct {
	e      Zipformer
	w      *weights
	layers map[string]*zipLayer
}

// zipLayer is what a layer keeps of all calls: all there was, where the net keeps the end of it.
type zipLayer struct {
	sum    []float64
	count  int
	keys   rows
	values [2]rows
	past   [2]rows
}

// Oracle begins an utterance.
func (e Zipformer) Oracle() *ZipformerOracle { return e.oracle(e.weights()) }

func (e Zipformer) oracle(w *weights) *ZipformerOracle {
	o := &ZipformerOracle{e: e, w: w}
	o.Restart()
	return o
}

// Restart begins the next utterance.
func (o *ZipformerOracle) Restart() { o.layers = map[string]*zipLayer{} }

// Hear computes the rows of one call, of frames of features.
func (o *ZipformerOracle) Hear(frames []float32) [][]float64 {
	w := o.w
	x := rowsOf(frames, zipBins).each(func(v float64) float64 { return (v + zipShift) * zipScale })
	x = w.conv64(x.turned(), "embed", walk{stride: 4}).each(silu64).turned()
	for i, s := range o.e.stages() {
		var y rows
		for part := range slices.Chunk(x, s.joins) {
			y = append(y, part.mean())
		}
		for l := range s.layers {
			y = o.layer(y, zipName(i, l), s)
		}
		var back rows
		for _, row := range y {
			back = append(back, slices.Repeat(rows{row}, s.joins)...)
		}
		x = x.plus(back)
	}
	return w.linear64(w.norm64(x, "norm", zipEps), "encoder_proj")
}

func (o *ZipformerOracle) layer(y rows, name string, s zipStage) rows {
	w, z := o.w, o.layers[name]
	if z == nil { // before the first row there were rows of zeros
		z = &zipLayer{sum: make([]float64, zipState), keys: newRows(s.left, zipKeys)}
		for i := range z.values {
			z.values[i], z.past[i] = newRows(s.left, zipValues), newRows(zipPast, zipState)
		}
		o.layers[name] = z
	}
	pool := w.get(name + ".pool").v
	y = y.each(func(v float64) float64 { return v })
	for _, row := range y {
		z.count++
		for c := range row {
			z.sum[c] += row[c]
			row[c] += z.sum[c] / float64(z.count) * float64(pool[c])
		}
	}
	a := w.norm64(y, name+".norm1", zipEps)
	q := w.linear64(a, name+".query")
	z.keys = append(z.keys, w.linear64(a, name+".key")...)
	first := len(z.keys) - len(y) - s.left // the first row that is still seen
	for i := range z.values {
		part := fmt.Sprint(i + 1)
		z.values[i] = append(z.values[i], w.linear64(a, name+".value"+part)...)
		y = y.plus(w.linear64(near(q, z.keys[first:], z.values[i][first:], s.left), name+".out"+part))
		a = w.norm64(y, name+".norm2", zipEps)
		z.past[i] = append(z.past[i], a...)
		y = y.plus(w.past64(z.past[i], len(y), name+".conv"+part))
	}
	return w.norm64(y, name+".norm3", zipEps)
}

// near is attention in which rows that are farther away count less.
func near(q, k, v rows, left int) rows {
	y := newRows(len(q), len(v[0]))
	d, e := len(q[0])/zipHeads, len(v[0])/zipHeads
	for i := range q {
		for h := range zipHeads {
			p, sum := make([]float64, len(k)), 0.0
			for j := range k {
				score := 0.0
				for c := h * d; c < (h+1)*d; c++ {
					score += q[i][c] * k[j][c]
				}
				p[j] = math.Exp(score/root(d) - 4*math.Abs(float64(left+i-j))/float64(left))
				sum += p[j]
			}
			for j := range k {
				for c := h * e; c < (h+1)*e; c++ {
					y[i][c] += p[j] / sum * v[j][c]
				}
			}
		}
	}
	return y
}

// past64 is a convolution of each channel, for the last n rows.
func (w *weights) past64(x rows, n int, name string) rows {
	weight, bias := w.get(name+".weight").v, w.get(name+".bias").v
	y := newRows(n, zipState)
	for i := range y {
		for c := range zipState {
			sum := float64(bias[c])
			for k := range zipPast + 1 {
				sum += float64(weight[c*(zipPast+1)+k]) * x[len(x)-n+i-zipPast+k][c]
			}
			y[i][c] = silu64(sum)
		}
	}
	return y
}

func silu64(x float64) float64 { return x * sigmoid64(x) }

// joined is what the joiner makes of a row and the last two symbols, before its last layer.
func (e Zipformer) joined(w *weights, row []float64, last [2]int32) []float64 {
	embed := w.get("decoder.embedding")
	x := rows{slices.Concat(embed.row(int(last[0])), embed.row(int(last[1])))}
	x = w.linear64(w.linear64(x, "decoder.conv").each(relu64), "decoder_proj")
	return x.plus(rows{row}).each(math.Tanh)[0]
}

// Logits are the joiner's of a row after the last two symbols.
func (e Zipformer) Logits(row []float64, last [2]int32) []float64 {
	w := e.weights()
	return w.linear64(rows{e.joined(w, row, last)}, "joiner")[0]
}
