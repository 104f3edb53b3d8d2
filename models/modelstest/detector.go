package modelstest

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/graph"
)

// Detector says how a detector of things in pictures is made: a YOLO of random weights, with all of
// its kinds of operations, narrow and shallow.
type Detector struct {
	Seed          uint64
	Layout        string // "heads": three raw ones; "numbers": a table with a row for each number; "boxes": one with a row for each box
	Width, Height int    // of its pictures, multiples of 32; 0 means 160
	Classes       int    // 0 means COCO's 80, whose names no file tells
	Floats        bool   // takes planes of floats, and not bytes
}

const (
	detectWide = 16 // channels
	detectBins = 16
)

// detectStrides are those of the heads.
var detectStrides = []int{8, 16, 32}

func (e Detector) size() (width, height int) { return cmp.Or(e.Width, 160), cmp.Or(e.Height, 160) }

func (e Detector) classes() int { return cmp.Or(e.Classes, 80) }

// Path is the net of a package that Write made in dir.
func (e Detector) Path(dir string) string { return filepath.Join(dir, "ax650", "yolo-tiny.axmodel") }

// Write makes a package of random weights, which every software card runs. Oracle gives what its
// net gives.
func (e Detector) Write(dir string) error {
	if err := layout("Detector", e.Layout, "heads", "numbers", "boxes"); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(e.Path(dir)), 0o755); err != nil {
		return err
	}
	if err := e.graph(e.weights()).Save(e.Path(dir)); err != nil {
		return err
	}
	if e.Classes == 0 {
		return nil
	}
	f := &writer{dir: dir}
	var list strings.Builder
	for i := range e.Classes {
		fmt.Fprintf(&list, "thing %d\n", i)
	}
	f.text("labels.txt", list.String())
	return f.err
}

func (e Detector) weights() *weights { return draw(e, e.Seed, e.draw) }

// detectConvs are the convolutions: their inputs, outputs, and the side of their window. The head
// has its own.
var detectConvs = []struct {
	name       string
	in, out, k int
}{
	{"model.0", 3, 8, 3}, {"model.1", 8, 12, 3}, {"model.2", 12, detectWide, 3},
	{"model.3", detectWide, detectWide, 3}, {"model.4", detectWide, detectWide, 3},
	{"model.5", 2 * detectWide, detectWide, 1}, {"model.6", 2 * detectWide, detectWide, 1}, {"model.7", 2 * detectWide, detectWide, 1},
}

func (e Detector) draw(w *weights) {
	conv := func(name string, in, out, k int, scale float64) {
		w.normal(name+".weight", 0, scale/math.Sqrt(float64(in*k*k)), out, in, k, k)
		w.normal(name+".bias", 0, 0.1*scale, out)
	}
	for _, c := range detectConvs {
		conv(c.name, c.in, c.out, c.k, 1.8)
	}
	for i := range detectStrides {
		name := fmt.Sprintf("model.8.%d", i)
		conv(name+".box.0", detectWide, detectWide, 3, 2)
		conv(name+".box.1", detectWide, 4*detectBins, 1, 2)
		conv(name+".class.0", detectWide, detectWide, 3, 2)
		conv(name+".class.1", detectWide, e.classes(), 1, 2)
	}
	e.teach(w)
}

// teach has some of the cells show something, and not most, whatever the weights are: it scales
// what the last layers give for noise.
func (e Detector) teach(w *weights) {
	width, height := e.size()
	noise := make([]byte, 3*width*height)
	for i := range noise {
		noise[i] = byte(w.rng.IntN(256))
	}
	for i, cells := range e.cells(w, noise) {
		name := fmt.Sprintf("model.8.%d", i)
		e.spread(w, name+".box.1", cells.v[:4*detectBins], 0, 2)
		e.spread(w, name+".class.1", cells.v[4*detectBins:], -4-0.5*math.Log(float64(e.classes())), 1.5)
	}
}

// spread changes a layer, whose outputs are those, so that they have this mean and deviation.
func (e Detector) spread(w *weights, name string, given rows, mean, deviation float64) {
	n, was, square := 0.0, 0.0, 0.0
	for _, row := range given {
		for _, v := range row {
			n, was, square = n+1, was+v, square+v*v
		}
	}
	was /= n
	by := deviation / math.Sqrt(square/n-was*was)
	weight, bias := w.get(name+".weight").v, w.get(name+".bias").v
	for i := range weight {
		weight[i] *= float32(by)
	}
	for i := range bias {
		bias[i] = float32((float64(bias[i])-was)*by + mean)
	}
}

func (e Detector) graph(w *weights) *graph.Graph {
	g := newBuilder(w)
	width, height := e.size()
	var x graph.Value
	if e.Floats {
		x = g.Input("images", axcl.FP32, 1, 3, height, width)
	} else {
		x = g.Transpose(g.Float(g.Input("images", axcl.Uint8, 1, height, width, 3)), 0, 3, 1, 2)
		x = g.Mul(x, g.Scalar(1.0/255))
	}
	straight := func(x graph.Value, name string, k, stride int) graph.Value {
		return g.Conv2D(x, g.weight(name+".weight"), g.weight(name+".bias"), graph.Conv{Stride: graph.Both(stride), Pad: k / 2})
	}
	conv := func(x graph.Value, i, stride int) graph.Value {
		return g.SiLU(straight(x, detectConvs[i].name, detectConvs[i].k, stride))
	}
	p3 := conv(conv(conv(x, 0, 2), 1, 2), 2, 2)
	p4 := conv(p3, 3, 2)
	p5 := conv(p4, 4, 2)
	p5 = conv(g.Concat(1, p5, g.MaxPool(p5, graph.Pool{Window: graph.Both(5), Sides: [4]int{2, 2, 2, 2}})), 5, 1)
	n4 := conv(g.Concat(1, g.Nearest(p5, height/16, width/16), p4), 6, 1)
	n3 := conv(g.Concat(1, g.Nearest(n4, height/8, width/8), p3), 7, 1)
	var decoded []graph.Value
	for i, x := range []graph.Value{n3, n4, p5} {
		h, w := height/detectStrides[i], width/detectStrides[i]
		name := fmt.Sprintf("model.8.%d", i)
		box := straight(g.SiLU(straight(x, name+".box.0", 3, 1)), name+".box.1", 1, 1)
		class := straight(g.SiLU(straight(x, name+".class.0", 3, 1)), name+".class.1", 1, 1)
		if e.Layout == "heads" {
			g.Output(fmt.Sprintf("/model.8/Concat_%d_output_0", i), axcl.FP32, g.Transpose(g.Concat(1, box, class), 0, 2, 3, 1))
			continue
		}
		decoded = append(decoded, g.Concat(1, e.decoded(g, box, h, w, float32(detectStrides[i])),
			g.Sigmoid(g.Reshape(class, 1, e.classes(), h*w))))
	}
	if len(decoded) > 0 {
		all := g.Concat(2, decoded...)
		if e.Layout == "boxes" {
			all = g.Transpose(all, 0, 2, 1)
		}
		g.Output("output0", axcl.FP32, all)
	}
	return g.Graph
}

// decoded is the middle and the size of each cell's box, a row for each of the four.
func (e Detector) decoded(g builder, box graph.Value, h, w int, stride float32) graph.Value {
	n := h * w
	bins := g.Softmax(g.Transpose(g.Reshape(box, 1, 4, detectBins, n), 0, 1, 3, 2))
	numbers := make([]float32, detectBins)
	for i := range numbers {
		numbers[i] = float32(i)
	}
	far := g.Reshape(g.MatMul(bins, g.Const(graph.Float32(numbers, detectBins, 1))), 1, 4, n)
	middles := make([]float32, 2*n)
	for i := range n {
		middles[i], middles[n+i] = float32(i%w)+0.5, float32(i/w)+0.5
	}
	at := g.Const(graph.Float32(middles, 1, 2, n))
	from, to := g.Sub(at, g.Slice(far, 1, 0, 2)), g.Add(at, g.Slice(far, 1, 2, 2))
	middle := g.Mul(g.Add(from, to), g.Scalar(0.5))
	return g.Mul(g.Concat(1, middle, g.Sub(to, from)), g.Scalar(stride))
}

// Oracle is what the net of the package gives for a picture, in float64: its outputs, in their
// order. pix has three bytes for each pixel, row by row, in the order in which the net takes them.
func (e Detector) Oracle(pix []byte) (out [][]float64) {
	var all rows // of boxes
	for i, x := range e.cells(e.weights(), pix) {
		cells := x.v.turned()
		if e.Layout == "heads" {
			out = append(out, flat(cells))
			continue
		}
		for k, c := range cells {
			all = append(all, boxOf(c, k%x.width, k/x.width, float64(detectStrides[i])))
		}
	}
	switch e.Layout {
	case "numbers":
		all = all.turned()
		fallthrough
	case "boxes":
		out = [][]float64{flat(all)}
	}
	return out
}

// cells are the bins and logits of each head's cells.
func (e Detector) cells(w *weights, pix []byte) (heads []planes) {
	width, height := e.size()
	x := newPlanes(3, height, width)
	for i, v := range pix {
		x.v[i%3][i/3] = float64(v) / 255
	}
	straight := func(x planes, name string, k, stride int) planes { return w.conv2D64(x, name, stride, k/2) }
	silu := func(x planes) planes {
		x.v = x.v.each(func(v float64) float64 { return v * sigmoid64(v) })
		return x
	}
	conv := func(x planes, i, stride int) planes {
		return silu(straight(x, detectConvs[i].name, detectConvs[i].k, stride))
	}
	p3 := conv(conv(conv(x, 0, 2), 1, 2), 2, 2)
	p4 := conv(p3, 3, 2)
	p5 := conv(p4, 4, 2)
	p5 = conv(p5.beside(p5.largest(2)), 5, 1)
	n4 := conv(p5.doubled().beside(p4), 6, 1)
	n3 := conv(n4.doubled().beside(p3), 7, 1)
	for i, x := range []planes{n3, n4, p5} {
		name := fmt.Sprintf("model.8.%d", i)
		box := straight(silu(straight(x, name+".box.0", 3, 1)), name+".box.1", 1, 1)
		class := straight(silu(straight(x, name+".class.0", 3, 1)), name+".class.1", 1, 1)
		heads = append(heads, box.beside(class))
	}
	return heads
}

// boxOf is a cell's row of a table.
func boxOf(cell []float64, column, row int, stride float64) []float64 {
	var far [4]float64
	for s := range far {
		sum := 0.0
		for b, v := range cell[s*detectBins : (s+1)*detectBins] {
			p := math.Exp(v)
			sum, far[s] = sum+p, far[s]+p*float64(b)
		}
		far[s] /= sum
	}
	x, y := float64(column)+0.5, float64(row)+0.5
	out := []float64{(x + (far[2]-far[0])/2) * stride, (y + (far[3]-far[1])/2) * stride, (far[0] + far[2]) * stride,
		(far[1] + far[3]) * stride}
	for _, v := range cell[4*detectBins:] {
		out = append(out, sigmoid64(v))
	}
	return out
}

func flat(x rows) (v []float64) {
	for _, row := range x {
		v = append(v, row...)
	}
	return v
}

// planes are channels of height × width values.
type planes struct {
	v             rows
	height, width int
}

func newPlanes(n, height, width int) planes { return planes{newRows(n, height*width), height, width} }

func (x planes) beside(y planes) planes {
	return planes{append(append(rows{}, x.v...), y.v...), x.height, x.width}
}

// doubled has each value four times.
func (x planes) doubled() planes {
	y := newPlanes(len(x.v), 2*x.height, 2*x.width)
	for c := range y.v {
		for i := range y.v[c] {
			y.v[c][i] = x.v[c][i/y.width/2*x.width+i%y.width/2]
		}
	}
	return y
}

// largest is the largest value up to so far away.
func (x planes) largest(far int) planes {
	y := newPlanes(len(x.v), x.height, x.width)
	for c := range y.v {
		for i := range y.v[c] {
			top := math.Inf(-1)
			for r := max(0, i/x.width-far); r <= min(x.height-1, i/x.width+far); r++ {
				for k := max(0, i%x.width-far); k <= min(x.width-1, i%x.width+far); k++ {
					top = max(top, x.v[c][r*x.width+k])
				}
			}
			y.v[c][i] = top
		}
	}
	return y
}

// conv2D64 convolves planes.
func (w *weights) conv2D64(x planes, name string, stride, pad int) planes {
	t, bias := w.get(name+".weight"), w.get(name+".bias").v
	out, in, k := t.dims[0], t.dims[1], t.dims[2]
	y := newPlanes(out, (x.height+2*pad-k)/stride+1, (x.width+2*pad-k)/stride+1)
	for o := range y.v {
		for i := range y.v[o] {
			sum := float64(bias[o])
			for c := range in {
				for a := range k {
					for b := range k {
						r, at := i/y.width*stride-pad+a, i%y.width*stride-pad+b
						if r >= 0 && r < x.height && at >= 0 && at < x.width {
							sum += float64(t.v[((o*in+c)*k+a)*k+b]) * x.v[c][r*x.width+at]
						}
					}
				}
			}
			y.v[o][i] = sum
		}
	}
	return y
}
