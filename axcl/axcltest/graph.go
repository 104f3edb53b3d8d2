package axcltest

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/graph"
)

// graphNet is a net with several inputs and outputs, in each type that tensors cross the border in:
// a picture in bytes and a row of numbers are convolved, added to what an id names, and normalised;
// a length is counted up.
func graphNet(rng *rand.Rand, width int) *graph.Graph {
	const channels = 6
	g := graph.New()
	weight := func(dims ...int) graph.Value {
		n := 1
		for _, d := range dims {
			n *= d
		}
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64() / 2)
		}
		return g.Const(graph.Float32(v, dims...))
	}
	picture := g.Mul(g.Float(g.Input("picture", axcl.Uint8, 1, 3, 5, width)), g.Scalar(1.0/255))
	row := g.Input("row", axcl.FP32, 1, width, channels)
	half := g.Input("half", axcl.BF16, 1, width, channels)
	id, length := g.Input("id", axcl.Int32, 1), g.Input("length", axcl.Uint32, 1)
	x := g.Conv2D(picture, weight(channels, 3, 5, 3), weight(channels), graph.Conv{Sides: &[4]int{0, 1, 0, 1}})
	x = g.Transpose(g.Reshape(g.SiLU(x), 1, channels, width), 0, 2, 1)
	x = g.Add(g.Add(x, g.Add(row, half)), g.Gather(weight(4, channels), id, 0))
	x = g.LayerNorm(g.Attention(x, row, x, graph.Value{}, 2, 0.5), weight(channels), weight(channels), 1e-5)
	g.Output("rows", axcl.FP32, x)
	g.Output("sum", axcl.BF16, g.Sum(x, 1))
	g.Output("next", axcl.Uint32, g.Add(length, g.Const(graph.Ints([]int32{int32(width)}, 1))))
	return g
}

// checkGraphNet: a net's tensors are listed by name, type and shape in each group, and it gives
// what the software card gives, whichever of its outputs are asked for.
func checkGraphNet(t TB, d axcl.Device) {
	const channels = 6
	widths := []int{7, 12}
	rng := rand.New(rand.NewPCG(11, 5))
	path := filepath.Join(t.TempDir(), "net.axmodel")
	if err := graphNet(rng, widths[0]).Save(path, graphNet(rng, widths[1])); err != nil {
		t.Fatalf("making a net: %v", err)
	}
	other, err := soft.Open(soft.Options{})
	if err != nil {
		t.Fatalf("software card: %v", err)
	}
	defer other.Close()
	n, err := d.LoadNet(path)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	ref, err := other.LoadNet(path)
	if err != nil {
		t.Fatalf("load on the software card: %v", err)
	}
	if n.Groups() != len(widths) {
		t.Fatalf("%d groups, not %d", n.Groups(), len(widths))
	}
	for g, w := range widths {
		want := []axcl.Tensor{{Name: "picture", Type: axcl.Uint8, Size: 15 * w}, {Name: "row", Type: axcl.FP32, Size: 4 * w * channels},
			{Name: "half", Type: axcl.BF16, Size: 2 * w * channels}, {Name: "id", Type: axcl.Int32, Size: 4},
			{Name: "length", Type: axcl.Uint32, Size: 4}, {Name: "rows", Type: axcl.FP32, Size: 4 * w * channels},
			{Name: "sum", Type: axcl.BF16, Size: 2 * channels}, {Name: "next", Type: axcl.Uint32, Size: 4}}
		all := append(append([]axcl.Tensor(nil), n.Inputs(g)...), n.Outputs(g)...)
		if len(n.Inputs(g)) != 5 || len(all) != len(want) {
			t.Fatalf("group %d has %d inputs and %d outputs, not 5 and 3", g, len(n.Inputs(g)), len(n.Outputs(g)))
		}
		for i, x := range want {
			if y := all[i]; y.Name != x.Name || y.Type != x.Type || y.Size != x.Size {
				t.Errorf("group %d: tensor %d is %+v, not %+v", g, i, y, x)
			}
		}
		in := map[string][]byte{"picture": make([]byte, 15*w), "id": {2, 0, 0, 0}, "length": {9, 0, 0, 128}}
		for i := range in["picture"] {
			in["picture"][i] = byte(rng.IntN(256))
		}
		for range w * channels {
			in["row"] = binary.LittleEndian.AppendUint32(in["row"], math.Float32bits(float32(rng.NormFloat64())))
			in["half"] = binary.LittleEndian.AppendUint16(in["half"], axcl.BFloat16(float32(rng.NormFloat64())))
		}
		expect, got := outputsOf(ref, g), outputsOf(n, g)
		if err := errors.Join(ref.Run(g, in, expect), n.Run(g, in, got)); err != nil {
			t.Fatalf("group %d: %v", g, err)
		}
		if next := binary.LittleEndian.Uint32(got["next"]); next != 1<<31+9+uint32(w) {
			t.Errorf("group %d: next is %d", g, next)
		}
		for i := range w * channels {
			a, b := single(got["rows"], i), single(expect["rows"], i)
			if !(math.Abs(a-b) <= 1e-4) {
				t.Fatalf("group %d: value %d of rows is %v, on the software card %v", g, i, a, b)
			}
		}
		if c := Cosine(halves(got["sum"]), halves(expect["sum"])); !(c >= Same) {
			t.Errorf("group %d: sums agree to %.6f", g, c)
		}
		only := map[string][]byte{"next": make([]byte, 4)}
		if err := n.Run(g, in, only); err != nil || string(only["next"]) != string(got["next"]) {
			t.Errorf("group %d, one output: %x, %v", g, only["next"], err)
		}
		short := map[string][]byte{}
		for name, b := range in {
			short[name] = b
		}
		delete(short, "id")
		if err := n.Run(g, short, nil); !errors.Is(err, axcl.ErrPass) {
			t.Errorf("group %d, without an input: %v", g, err)
		}
	}
	if err := n.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	bad := filepath.Join(t.TempDir(), "bad.axmodel")
	if err := graph.New().Save(bad); !errors.Is(err, axcl.ErrModel) {
		t.Errorf("a net of nothing is written: %v", err)
	}
	if err := axmodel.WriteFile(bad, axmodel.Header{Kind: axmodel.Net}, []axmodel.SoftGroup{{Rows: 1}}, nil); err == nil {
		t.Errorf("a net without a graph is written")
	}
}

// outputsOf makes room for a group's outputs.
func outputsOf(n axcl.Net, group int) map[string][]byte {
	out := map[string][]byte{}
	for _, x := range n.Outputs(group) {
		out[x.Name] = make([]byte, x.Size)
	}
	return out
}

func single(b []byte, i int) float64 {
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
}
