package modelstest

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/graph"
)

// Faces says how a package for faces is made: Insightface's two nets with random weights, narrow
// and shallow.
type Faces struct {
	Seed   uint64
	Layout string // "rows": pictures in rows of pixels, outputs with a row for each anchor; "maps": planes, and a row for each cell
	Width  int    // of its pictures, a multiple of 32; 0 means 160
	Height int
}

const (
	faceWide   = 8 // channels
	faceSide   = 112
	faceValues = 512
)

// faceParts are the outputs of a stride: numbers of an anchor, the mean and the deviation that
// random weights give them.
var faceParts = []struct {
	name            string
	each            int
	mean, deviation float64
}{{"score", 1, -3, 2}, {"box", 4, 2, 0.7}, {"points", 10, 0, 1.5}}

func (e Faces) size() (width, height int) { return cmp.Or(e.Width, 160), cmp.Or(e.Height, 160) }

// Paths are the nets of a package that Write made in dir: that which finds faces, and that which
// tells them apart.
func (e Faces) Paths(dir string) (finder, teller string) {
	return filepath.Join(dir, "det_10g.axmodel"), filepath.Join(dir, "w600k_r50.axmodel")
}

// Write makes a package of random weights, which every software card runs. Found and Vector give
// what its nets give.
func (e Faces) Write(dir string) error {
	if err := layout("Faces", e.Layout, "rows", "maps"); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	finder, teller := e.Paths(dir)
	return errors.Join(e.finder(e.weights()).Save(finder), e.teller(e.weights()).Save(teller))
}

func (e Faces) weights() *weights { return draw(e, e.Seed, e.draw) }

// faceConvs and tellConvs are the convolutions of the finder and of the teller. Each halves.
var faceConvs, tellConvs = []string{"0", "1", "2", "3", "4"}, []string{"a", "b", "c", "d"}

func (e Faces) draw(w *weights) {
	conv := func(name string, in, out, k int, scale float64) {
		w.normal(name+".weight", 0, scale/math.Sqrt(float64(in*k*k)), out, in, k, k)
		w.normal(name+".bias", 0, 0.1*scale, out)
	}
	for _, all := range [][]string{faceConvs, tellConvs} {
		in := 3
		for _, name := range all {
			conv(name, in, faceWide, 3, 2)
			in = faceWide
		}
	}
	for i := range detectStrides {
		for _, p := range faceParts {
			conv(fmt.Sprintf("head.%d.%s", i, p.name), faceWide, 2*p.each, 1, 2)
		}
	}
	const flat = faceWide * (faceSide / 16) * (faceSide / 16)
	w.normal("vector.weight", 0, 1/math.Sqrt(flat), faceValues, flat)
	w.normal("vector.bias", 0, 0.1, faceValues)
	// Some anchors show something, and not most, whatever the weights are.
	width, height := e.size()
	noise := make([]byte, 3*width*height)
	for i := range noise {
		noise[i] = byte(w.rng.IntN(256))
	}
	for i, heads := range e.heads(w, noise) {
		for k, p := range faceParts {
			Detector{}.spread(w, fmt.Sprintf("head.%d.%s", i, p.name), heads[k].v, p.mean, p.deviation)
		}
	}
}

// picture is an input of bytes as planes from −1 to 1.
func (e Faces) picture(g builder, name string, width, height int) graph.Value {
	var x graph.Value
	if e.Layout == "rows" {
		x = g.Transpose(g.Float(g.Input(name, axcl.Uint8, 1, height, width, 3)), 0, 3, 1, 2)
	} else {
		x = g.Float(g.Input(name, axcl.Uint8, 1, 3, height, width))
	}
	return g.Mul(g.Sub(x, g.Scalar(127.5)), g.Scalar(1/128.0))
}

func (e Faces) finder(w *weights) *graph.Graph {
	g := newBuilder(w)
	width, height := e.size()
	x := e.picture(g, "input.1", width, height)
	var levels []graph.Value
	for i, name := range faceConvs {
		x = g.ReLU(g.Conv2D(x, g.weight(name+".weight"), g.weight(name+".bias"), graph.Conv{Stride: graph.Both(2), Pad: 1}))
		if i >= 2 {
			levels = append(levels, x)
		}
	}
	for k, p := range faceParts {
		for i, x := range levels {
			name := fmt.Sprintf("head.%d.%s", i, p.name)
			y := g.Conv2D(x, g.weight(name+".weight"), g.weight(name+".bias"), graph.Conv{Stride: graph.Both(1)})
			if y = g.Transpose(y, 0, 2, 3, 1); k == 0 {
				y = g.Sigmoid(y)
			}
			if h, w := height/detectStrides[i], width/detectStrides[i]; e.Layout == "rows" {
				y = g.Reshape(y, 2*h*w, p.each)
			}
			g.Output(fmt.Sprint(448+23*i+3*k), axcl.FP32, y)
		}
	}
	return g.Graph
}

func (e Faces) teller(w *weights) *graph.Graph {
	g := newBuilder(w)
	x := e.picture(g, "input.1", faceSide, faceSide)
	for _, name := range tellConvs {
		x = g.ReLU(g.Conv2D(x, g.weight(name+".weight"), g.weight(name+".bias"), graph.Conv{Stride: graph.Both(2), Pad: 1}))
	}
	g.Output("683", axcl.FP32, g.linear(g.Reshape(x, 1, faceWide*(faceSide/16)*(faceSide/16)), "vector"))
	return g.Graph
}

// Anchor is what the finder gives for an anchor: the score, the four distances in cells, and the
// five points.
type Anchor struct {
	Stride, Column, Row int
	Score               float64
	Far                 [4]float64
	Points              [5][2]float64
}

// Found is what the finder gives for a picture, in float64. pix has three bytes for each pixel, row
// by row.
func (e Faces) Found(pix []byte) (all []Anchor) {
	for i, heads := range e.heads(e.weights(), pix) {
		across := heads[0].width
		for cell := range heads[0].v[0] {
			for a := range 2 {
				one := Anchor{Stride: detectStrides[i], Column: cell % across, Row: cell / across, Score: sigmoid64(heads[0].v[a][cell])}
				for k := range one.Far {
					one.Far[k] = heads[1].v[4*a+k][cell]
				}
				for k := range one.Points {
					one.Points[k] = [2]float64{heads[2].v[10*a+2*k][cell], heads[2].v[10*a+2*k+1][cell]}
				}
				all = append(all, one)
			}
		}
	}
	return all
}

// Vector is what the teller gives for a face of 112 × 112 pixels, in float64.
func (e Faces) Vector(pix []byte) []float64 {
	w := e.weights()
	x := pixels64(pix, faceSide, faceSide)
	for _, name := range tellConvs {
		x = w.halved(x, name)
	}
	matrix, bias := w.get("vector.weight").v, w.get("vector.bias").v
	flat := flat(x.v)
	out := make([]float64, faceValues)
	for i := range out {
		out[i] = float64(bias[i])
		for k, v := range flat {
			out[i] += float64(matrix[i*len(flat)+k]) * v
		}
	}
	return out
}

// heads are the logits, distances and points of each stride.
func (e Faces) heads(w *weights, pix []byte) (all [3][3]planes) {
	width, height := e.size()
	x := pixels64(pix, width, height)
	for i, name := range faceConvs {
		if x = w.halved(x, name); i < 2 {
			continue
		}
		for k, p := range faceParts {
			all[i-2][k] = w.conv2D64(x, fmt.Sprintf("head.%d.%s", i-2, p.name), 1, 0)
		}
	}
	return all
}

func pixels64(pix []byte, width, height int) planes {
	x := newPlanes(3, height, width)
	for i, v := range pix {
		x.v[i%3][i/3] = (float64(v) - 127.5) / 128
	}
	return x
}

// halved is a convolution of 3 × 3 that halves, and what of it is above 0.
func (w *weights) halved(x planes, name string) planes {
	x = w.conv2D64(x, name, 2, 1)
	x.v = x.v.each(func(v float64) float64 { return max(v, 0) })
	return x
}
