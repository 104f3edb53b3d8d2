package axmodeltest

import (
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/graph"
)

// golden is what an operation gives, worked out by hand or with the library that nets come from:
// where semantics are easily mistaken, the oracle might be mistaken as the cards are.
type golden struct {
	name string
	dims []int
	x    []float64
	make func(g *graph.Graph, x graph.Value) graph.Value
	want []float64
}

// weights is a constant.
func weights(g *graph.Graph, v []float32, dims ...int) graph.Value {
	return g.Const(graph.Float32(v, dims...))
}

var goldens = []golden{
	{"nearest takes the floor", []int{1, 1, 3}, []float64{1, 2, 3}, func(g *graph.Graph, x graph.Value) graph.Value {
		return g.Nearest(x, 1, 5)
	}, []float64{1, 1, 2, 2, 3}},
	{"nearest of planes goes by rows and columns", []int{1, 1, 2, 2}, []float64{1, 2, 3, 4}, func(g *graph.Graph,
		x graph.Value) graph.Value {
		return g.Nearest(x, 2, 4)
	}, []float64{1, 1, 2, 2, 3, 3, 4, 4}},
	{"linear goes by centres, and edges go on", []int{1, 1, 2}, []float64{0, 10}, func(g *graph.Graph, x graph.Value) graph.Value {
		return g.Bilinear(x, 1, 4)
	}, []float64{0, 2.5, 7.5, 10}},
	{"linear downwards leaves values out", []int{1, 1, 6}, []float64{0, 1, 2, 3, 4, 5}, func(g *graph.Graph, x graph.Value) graph.Value {
		return g.Bilinear(x, 1, 2)
	}, []float64{1, 4}},
	{"a convolution does not turn its weights", []int{1, 1, 4}, []float64{1, 2, 3, 4}, func(g *graph.Graph, x graph.Value) graph.Value {
		return g.Conv1D(x, weights(g, []float32{1, 10}, 1, 1, 2), graph.Value{}, graph.Conv{})
	}, []float64{21, 32, 43}},
	{"padding on one side alone", []int{1, 1, 3}, []float64{1, 2, 3}, func(g *graph.Graph, x graph.Value) graph.Value {
		return g.Conv1D(x, weights(g, []float32{1, 10}, 1, 1, 2), weights(g, []float32{0.5}, 1), graph.Conv{Sides: &[4]int{0, 1, 0, 0}})
	}, []float64{10.5, 21.5, 32.5}},
	{"groups take their own channels", []int{1, 2, 2}, []float64{1, 2, 3, 4}, func(g *graph.Graph, x graph.Value) graph.Value {
		return g.Conv1D(x, weights(g, []float32{1, 10, 100, 1000}, 4, 1, 1), graph.Value{}, graph.Conv{Groups: 2})
	}, []float64{1, 2, 10, 20, 300, 400, 3000, 4000}},
	{"a transposed convolution: padding crops, what is added comes at the end", []int{1, 1, 2}, []float64{1, 2}, func(g *graph.Graph,
		x graph.Value) graph.Value {
		return g.ConvTranspose1D(x, weights(g, []float32{1, 10, 100}, 1, 1, 3), graph.Value{}, graph.Conv{Stride: graph.Both(2), Pad: 1,
			More: graph.Both(1)})
	}, []float64{10, 102, 20, 200}},
	{"a transposed convolution's groups", []int{1, 2, 1}, []float64{1, 2}, func(g *graph.Graph, x graph.Value) graph.Value {
		return g.ConvTranspose1D(x, weights(g, []float32{1, 10, 100, 1000}, 2, 2, 1), graph.Value{}, graph.Conv{Groups: 2})
	}, []float64{1, 10, 200, 2000}},
	{"GELU is the exact one", []int{2}, []float64{1, -1}, func(g *graph.Graph, x graph.Value) graph.Value { return g.GELU(x) },
		[]float64{0.8413447, -0.1586553}},
	{"GELU's form with tanh", []int{2}, []float64{1, -1}, func(g *graph.Graph, x graph.Value) graph.Value { return g.GELUTanh(x) },
		[]float64{0.8411920, -0.1588080}},
	{"GELU's fast form", []int{2}, []float64{1, -1}, func(g *graph.Graph, x graph.Value) graph.Value { return g.GELUFast(x) },
		[]float64{0.8457958, -0.1542042}},
	{"a layer norm's epsilon is added to the variance", []int{2}, []float64{0, 2}, func(g *graph.Graph, x graph.Value) graph.Value {
		return g.LayerNorm(x, graph.Value{}, graph.Value{}, 0.44)
	}, []float64{-1 / 1.2, 1 / 1.2}},
	{"an RMS norm keeps the mean", []int{2}, []float64{1, 7}, func(g *graph.Graph, x graph.Value) graph.Value {
		return g.RMSNorm(x, weights(g, []float32{1, 2}, 2), 0)
	}, []float64{0.2, 2.8}},
	{"a group norm's groups are of channels that follow each other, and so are its factors", []int{1, 4, 1}, []float64{0, 2, 10, 14},
		func(g *graph.Graph, x graph.Value) graph.Value {
			return g.GroupNorm(x, weights(g, []float32{1, 2, 3, 4}, 4), weights(g, []float32{0, 0, 0, 1}, 4), 2, 0)
		}, []float64{-1, 2, -3, 5}},
	{"padding does not count in a mean", []int{1, 1, 3}, []float64{3, 6, 9}, func(g *graph.Graph, x graph.Value) graph.Value {
		return g.AveragePool(x, graph.Pool{Window: graph.Both(2), Stride: graph.Both(2), Sides: [4]int{0, 1, 0, 0}})
	}, []float64{3, 7.5}},
	{"padding is never the largest", []int{1, 1, 2}, []float64{-3, -6}, func(g *graph.Graph, x graph.Value) graph.Value {
		return g.MaxPool(x, graph.Pool{Window: graph.Both(2), Sides: [4]int{0, 1, 0, 1}})
	}, []float64{-3, -3, -6}},
	{"a mirror does not repeat the edge", []int{3}, []float64{1, 2, 3}, func(g *graph.Graph, x graph.Value) graph.Value {
		return g.Reflect(x, []int{2}, []int{1})
	}, []float64{3, 2, 1, 2, 3, 2}},
	{"an axis's order says where each comes from", []int{1, 2, 3}, []float64{1, 2, 3, 4, 5, 6}, func(g *graph.Graph,
		x graph.Value) graph.Value {
		return g.Reshape(g.Transpose(x, 2, 0, 1), 6)
	}, []float64{1, 4, 2, 5, 3, 6}},
	{"integers are rounded towards zero, and stop at the last", []int{5}, []float64{-1.5, 1.5, 3e9, -3e9, math.NaN()}, func(g *graph.Graph,
		x graph.Value) graph.Value {
		return g.Float(g.Int(x))
	}, []float64{-1, 1, math.MaxInt32, math.MinInt32, 0}},
	{"ids that name nothing take the first or the last", []int{3}, []float64{5, 6, 7}, func(g *graph.Graph, x graph.Value) graph.Value {
		return g.Gather(x, g.Const(graph.Ints([]int32{-9, 1, 3, math.MaxInt32}, 4)), 0)
	}, []float64{5, 6, 7, 7}},
	{"a hidden key has no share", []int{1, 1, 2}, []float64{1, 1}, func(g *graph.Graph, x graph.Value) graph.Value {
		keys := weights(g, []float32{1, 1, 1, 1}, 1, 2, 2)
		return g.Attention(x, keys, weights(g, []float32{1, 2, 3, 4}, 1, 2, 2), weights(g, []float32{float32(math.Inf(-1)), 0}, 2), 2, 1)
	}, []float64{3, 4}},
	{"heads lie one behind the other", []int{1, 1, 2}, []float64{1, 0}, func(g *graph.Graph, x graph.Value) graph.Value {
		keys := weights(g, []float32{50, 0, 0, 50}, 1, 2, 2)
		return g.Attention(x, keys, weights(g, []float32{1, 2, 3, 4}, 1, 2, 2), graph.Value{}, 2, 1)
	}, []float64{1, 3}},
	{"an LSTM's gates: input, forget, cell, output", []int{1, 1, 1}, []float64{1}, func(g *graph.Graph, x graph.Value) graph.Value {
		y, hn, cn := g.LSTM(x, weights(g, []float32{50, -50, 0.5, 50}, 1, 4, 1), weights(g, []float32{0, 0, 0, 0}, 1, 4, 1),
			graph.Value{}, graph.Value{}, weights(g, []float32{9}, 1, 1, 1), false)
		return g.Concat(2, y, hn, cn)
	}, []float64{math.Tanh(math.Tanh(0.5)), math.Tanh(math.Tanh(0.5)), math.Tanh(0.5)}},
	{"an LSTM's way back begins at the end", []int{1, 2, 1}, []float64{1, 0}, func(g *graph.Graph, x graph.Value) graph.Value {
		// Input and output gates are half open, and what the cell has stays.
		y, hn, _ := g.LSTM(x, weights(g, []float32{0, 0, 50, 0, 0, 0, 50, 0}, 2, 4, 1), weights(g, make([]float32, 8), 2, 4, 1),
			weights(g, []float32{0, 50, 0, 0, 0, 50, 0, 0}, 2, 4), graph.Value{}, graph.Value{}, true)
		return g.Concat(1, g.Reshape(y, 1, 4), g.Reshape(hn, 1, 2))
	}, []float64{half, half, half, 0, half, half}},
	{"reductions keep the axis", []int{2, 3}, []float64{1, 2, 3, 4, 5, 6}, func(g *graph.Graph, x graph.Value) graph.Value {
		return g.Concat(1, g.Sum(x, 1), g.Mean(x, 1), g.Largest(x, 1))
	}, []float64{6, 2, 3, 15, 5, 6}},
}

// half is what half of tanh(½) makes: the cell holds ½ from the step that wrote it on.
var half = math.Tanh(0.5) / 2

// GraphGoldens has a card compute the operations whose semantics are easily mistaken.
func GraphGoldens(d axcl.Device, dir string) error {
	for _, c := range goldens {
		g := graph.New()
		g.Output("y", axcl.FP32, c.make(g, g.Input("x", axcl.FP32, c.dims...)))
		path := filepath.Join(dir, "golden.axmodel")
		if err := g.Save(path); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		got, err := callNet(d, path, encode(axcl.FP32, c.x))
		if e := os.Remove(path); err == nil {
			err = e
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if len(got) != len(c.want) {
			return fmt.Errorf("%s: %d values, not %d", c.name, len(got), len(c.want))
		}
		for i, w := range c.want {
			if !(math.Abs(got[i]-w) <= 3e-6*max(1, math.Abs(w))) {
				return fmt.Errorf("%s: %v, not %v", c.name, got, c.want)
			}
		}
	}
	return nil
}

// callNet runs a net of one input, "x", and one output, "y", in float32.
func callNet(d axcl.Device, path string, x []byte) ([]float64, error) {
	n, err := d.LoadNet(path)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	t := n.Outputs(0)[0]
	y := make([]byte, t.Size)
	if err := n.Run(0, map[string][]byte{"x": x}, map[string][]byte{"y": y}); err != nil {
		return nil, err
	}
	return decode(axcl.FP32, y, t.Size/4), nil
}
