// Search writes what train.py learned as a package of two encoders, and copies the pictures that it is tested with:
//
//	go run ./testdata/search build/search models/search/pocket-search models/search/testdata
//
// The nets are those of model.py, with matrices in bf16.
package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/graph"
)

// As in model.py and texts.py.
const (
	side, length = 64, 24
	state, heads = 48, 4
	layers       = 2
	convs, mixes = 3, 2
	eps          = 1e-5
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "search: say where training wrote, the package's folder, and that of the pictures")
		os.Exit(2)
	}
	if err := errors.Join(export(os.Args[1], os.Args[2]), pictures(filepath.Join(os.Args[1], "unseen"), os.Args[3])); err != nil {
		fmt.Fprintln(os.Stderr, "search:", err)
		os.Exit(1)
	}
}

func export(from, into string) error {
	list, err := os.ReadFile(filepath.Join(from, "tokens.txt"))
	if err != nil {
		return err
	}
	w, err := read(filepath.Join(from, "weights.safetensors"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	for name, g := range map[string]*graph.Graph{"text_encoder.axmodel": texts(w), "image_encoder.axmodel": eye(w)} {
		path := filepath.Join(into, name)
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := g.Save(path); err != nil {
			return err
		}
	}
	// Pictures are stretched, and become numbers from −1 to 1.
	const pictures = `{"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "resample": 2}` + "\n"
	return errors.Join(os.WriteFile(filepath.Join(into, "vocab.txt"), list, 0o644),
		os.WriteFile(filepath.Join(into, "preprocessor_config.json"), []byte(pictures), 0o644))
}

// pictures copies a folder.
func pictures(from, into string) error {
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	all, err := os.ReadDir(from)
	for _, file := range all {
		b, err := os.ReadFile(filepath.Join(from, file.Name()))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(into, file.Name()), b, 0o644); err != nil {
			return err
		}
	}
	return err
}

// net is a graph in the making. A tensor that is missing, or of another shape, is the graph's mistake.
type net struct {
	*graph.Graph
	w weights
}

func (g net) of(name string) graph.Value { return g.Const(g.w[name]) }

func (g net) linear(x graph.Value, name string) graph.Value {
	return g.Linear(x, g.of(name+".weight"), g.of(name+".bias"))
}

func (g net) norm(x graph.Value, name string) graph.Value {
	return g.LayerNorm(x, g.of(name+".weight"), g.of(name+".bias"), eps)
}

func (g net) conv(x graph.Value, name string, c graph.Conv) graph.Value {
	return g.Conv2D(x, g.of(name+".weight"), g.of(name+".bias"), c)
}

// texts is the net of texts. Id 0 fills up.
func texts(w weights) *graph.Graph {
	g := net{graph.New(), w}
	ids := g.Input("input_ids", axcl.Int32, 1, length)
	there := g.Min(g.Float(ids), g.Scalar(1))
	mask := g.Reshape(g.Mul(g.Sub(there, g.Scalar(1)), g.Scalar(10000)), 1, 1, 1, length)
	x := g.Gather(g.of("reader.table"), g.Reshape(ids, length), 0)
	x = g.Add(g.Reshape(x, 1, length, state), g.of("reader.place"))
	for i := range layers {
		name := fmt.Sprintf("reader.layers.%d.", i)
		h := g.norm(x, name+"norm1")
		a := g.Attention(g.linear(h, name+"q"), g.linear(h, name+"k"), g.linear(h, name+"v"), mask, heads,
			float32(1/math.Sqrt(state/heads)))
		x = g.Add(x, g.linear(a, name+"o"))
		x = g.Add(x, g.linear(g.GELU(g.linear(g.norm(x, name+"norm2"), name+"up")), name+"down"))
	}
	x = g.Reshape(g.Slice(x, 1, 0, 1), 1, state)
	g.Output("text_embeds", axcl.FP32, g.linear(g.norm(x, "reader.norm"), "reader.leave"))
	return g.Graph
}

// eye is the net of pictures.
func eye(w weights) *graph.Graph {
	g := net{graph.New(), w}
	x := g.Input("pixel_values", axcl.FP32, 1, 3, side, side)
	for i := range convs {
		x = g.GELU(g.conv(x, fmt.Sprintf("eye.convs.%d", i), graph.Conv{Stride: graph.Both(2), Pad: 1}))
	}
	x = g.Add(x, g.of("eye.place"))
	if g.Err() != nil {
		return g.Graph
	}
	s := g.Dims(x) // [1, channels, rows, columns]
	for i := range mixes {
		name := fmt.Sprintf("eye.mixes.%d.", i)
		h := g.conv(x, name+"near", graph.Conv{Pad: 2, Groups: s[1]})
		x = g.Add(x, g.conv(g.GELU(g.conv(h, name+"up", graph.Conv{})), name+"down", graph.Conv{}))
	}
	x = g.Transpose(g.Reshape(x, 1, s[1], s[2]*s[3]), 0, 2, 1)
	x = g.GELU(g.linear(g.norm(x, "eye.norm"), "eye.show"))
	if g.Err() != nil {
		return g.Graph
	}
	wide := g.Dims(x)[2]
	mean, most := g.Reshape(g.Mean(x, 1), 1, wide), g.Reshape(g.Largest(x, 1), 1, wide)
	g.Output("image_embeds", axcl.FP32, g.linear(g.Concat(1, mean, most), "eye.leave"))
	return g.Graph
}

// weights are tensors by name: matrices are kept in bf16, the others as they are.
type weights map[string]*graph.Weight

// read reads a file that train.py wrote: the length of a header, the header, and float32 values.
func read(path string) (weights, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	damaged := fmt.Errorf("%s is no file of train.py", path)
	if len(b) < 8 || binary.LittleEndian.Uint64(b) > uint64(len(b)-8) {
		return nil, damaged
	}
	n := 8 + int(binary.LittleEndian.Uint64(b))
	var header map[string]struct {
		Shape   []int
		Offsets [2]int `json:"data_offsets"`
	}
	if err := json.Unmarshal(b[8:n], &header); err != nil {
		return nil, fmt.Errorf("%w: %w", damaged, err)
	}
	w := weights{}
	for name, t := range header {
		if t.Offsets[0] < 0 || t.Offsets[1] < t.Offsets[0] || t.Offsets[1] > len(b)-n {
			return nil, fmt.Errorf("%w: %s lies outside of it", damaged, name)
		}
		data := b[n+t.Offsets[0] : n+t.Offsets[1]]
		values := make([]float32, len(data)/4)
		for i := range values {
			values[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
		if len(t.Shape) > 1 {
			w[name] = graph.BFloat16(values, t.Shape...)
		} else {
			w[name] = graph.Float32(values, t.Shape...)
		}
	}
	return w, nil
}
