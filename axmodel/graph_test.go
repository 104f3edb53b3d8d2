package axmodel_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/graph"
	"github.com/axle-llm/axle/internal/fuzzguard"
)

// What a net's file says is what was built, and its groups share a weight.
func TestNetFile(t *testing.T) {
	m, err := read(netFile(t, axmodel.FlagSuffix))
	if err != nil {
		t.Fatal(err)
	}
	if m.Tool != "test" || m.Soft.Kind.String() != "net" || len(m.Groups) != 2 || len(m.Soft.Graphs) != 2 {
		t.Fatalf("%+v", m)
	}
	if a, b := m.Soft.Graphs[0], m.Soft.Graphs[1]; a.Constants[0] != b.Constants[0] {
		t.Errorf("constants %+v and %+v", a.Constants, b.Constants)
	}
	g := m.Groups[1]
	if x := g.Input("x"); x.Size != 36 || g.RawInputs[0] != "x_1" || g.Inputs[1].Type != axcl.Int32 || g.Output("y").Size != 18 ||
		g.RawOutputs[1] != "same_1" {
		t.Errorf("%+v", g)
	}
}

// A net that is damaged gives one error that names the group and what is wrong in it.
func TestNetHostile(t *testing.T) {
	s := netFile(t, 0)
	le := binary.LittleEndian
	at := int(le.Uint64(s[192:])) // the first group's program
	const ins, consts = 16, 16 + 2*96
	nodes := at + consts + 40
	outs := at + int(le.Uint64(s[200:])) - 2*72
	for _, c := range []hostile{
		{"a tensor", patch(s, 20, uint32(1)), "lists 1 tensors"},
		{"a flag", patch(s, 40, uint32(axmodel.FlagF32)), "flags 0x10"},
		{"a program in the header", patch(s, 192, uint64(64)), "group 0's program"},
		{"a program off its boundary", patch(s, 192, uint64(at+4)), "group 0's program"},
		{"a program at 2⁶⁴−8", patch(s, 192, uint64(math.MaxUint64)-7), "group 0's program"},
		{"a program without end", patch(s, 200, uint64(1)<<40), "group 0's program"},
		{"a program that is cut", patch(s, 200, le.Uint64(s[200:])-8), "which is not what it lists"},
		{"a program with a rest", patch(s, 200, le.Uint64(s[200:])+8), "which is not what it lists"},
		{"no input", patch(s, at, uint32(0)), "0 inputs"},
		{"2³² inputs", patch(s, at, uint32(math.MaxUint32)), "inputs"},
		{"65 outputs", patch(s, at+4, uint32(65)), "65 outputs"},
		{"2³² constants", patch(s, at+8, uint32(math.MaxUint32)), "constants"},
		{"2³² nodes", patch(s, at+12, uint32(math.MaxUint32)), "nodes"},
		{"16384 nodes", patch(s, at+12, uint32(1<<14)), "group 0"},
		{"an input without a name", patch(s, at+ins, []byte{0}), "a name of 0 bytes"},
		{"an input with a long name", patch(s, at+ins, bytes.Repeat([]byte("x"), 60)), "a name of 60 bytes"},
		{"an input twice", patch(s, at+ins+96, []byte("x\x00")), "twice"},
		{"an input of another type", patch(s, at+ins+64, uint32(axcl.Int64)), "type 9"},
		{"an input of rank 7", patch(s, at+ins+68, uint32(7)), "7 dimensions"},
		{"an input of rank 0", patch(s, at+ins+68, uint32(0)), "0 dimensions"},
		{"a dimension 0", patch(s, at+ins+72, uint32(0)), "a shape of"},
		{"a dimension 2³²−1", patch(s, at+ins+80, uint32(math.MaxUint32)), "a shape of"},
		{"2²⁴ × 2²⁴ × 4", patch(patch(s, at+ins+72, uint32(1<<24)), at+ins+76, uint32(1<<24)), "a shape of"},
		{"a group of other types", patch(s, at+ins+64, uint32(axcl.BF16)), "group 1 has other inputs"},
		{"a constant of fp16", patch(s, at+consts, uint32(axcl.FP16)), "constant 0 has type 13"},
		{"a constant in the header", patch(s, at+consts+32, uint64(64)), "does not lie within"},
		{"a constant off its boundary", patch(s, at+consts+32, le.Uint64(s[at+consts+32:])+4), "does not lie within"},
		{"a constant past the end", patch(s, at+consts+32, uint64(len(s))&^63+64), "does not lie within"},
		{"a constant at 2⁶⁴−64", patch(s, at+consts+32, uint64(math.MaxUint64)-63), "does not lie within"},
		{"a large constant", patch(s, at+consts+16, uint32(1<<20)), "does not lie within"},
		{"operation 0", patch(s, nodes, uint32(0)), "not known"},
		{"operation 23", patch(s, nodes, uint32(23)), "not known"},
		{"an operand fewer", patch(s, nodes+4, uint32(1)), "group 0"},
		{"2³² operands", patch(s, nodes+4, uint32(math.MaxUint32)), "operands"},
		{"2³² attributes", patch(s, nodes+8, uint32(math.MaxUint32)), "attributes"},
		{"an operand to come", patch(s, nodes+12, uint32(3)), "node 0 (conv): operand 0 is value 3 of 3"},
		{"an operand of −2", patch(s, nodes+12, uint32(0xfffffffe)), "is value -2"},
		{"an operand left out", patch(s, nodes+12, uint32(math.MaxUint32)), "operand 0 is left out"},
		{"an operand of integers", patch(s, nodes+12, uint32(1)), "of integers"},
		{"a stride of 0", patch(s, nodes+20+4, uint32(0)), "attribute 1 is 0"},
		{"a stride of −1", patch(s, nodes+20+4, uint32(math.MaxUint32)), "attribute 1 is -1"},
		{"a stride down a row", patch(s, nodes+20, uint32(2)), "down of"},
		{"padding of 2³¹−1", patch(s, nodes+20+12, uint32(math.MaxInt32)), "attribute 3"},
		{"a dilation that leaps over all", patch(s, nodes+20+28, uint32(60)), "larger than"},
		{"no groups", patch(s, nodes+20+32, uint32(0)), "0 groups"},
		{"groups of less than a channel", patch(s, nodes+20+32, uint32(2)), "2 groups of 1 channels"},
		{"an output that is no value", patch(s, outs+68, uint32(99)), "value 99"},
		{"an output of value 2³²−1", patch(s, outs+68, uint32(math.MaxUint32)), "output 0"},
		{"an output twice", patch(s, outs+72, []byte("y\x00\x00\x00\x00")), "twice"},
		{"numbers as integers", patch(s, outs+64, uint32(axcl.Int32)), "which its values are not"},
		{"one group of two with another output", patch(s, outs, []byte("z")), "group 1 has other inputs or outputs"},
	} {
		_, err := read(c.file)
		var e *axmodel.Error
		if !errors.As(err, &e) || !errors.Is(err, axcl.ErrModel) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error that says %q", c.name, err, c.want)
		}
	}
}

// What a program cannot be is told while it is built, once, with the node.
func TestGraphBuilder(t *testing.T) {
	for name, c := range map[string]struct {
		make func(g *graph.Graph, x graph.Value) graph.Value
		want string
	}{
		"weights of other channels": {func(g *graph.Graph, x graph.Value) graph.Value {
			return g.Conv1D(x, g.Const(graph.Float32(make([]float32, 9), 1, 3, 3)), graph.Value{}, graph.Conv{})
		}, "weights of [1 3 3]"},
		"a window larger than all": {func(g *graph.Graph, x graph.Value) graph.Value {
			return g.MaxPool(x, graph.Pool{Window: graph.Both(9)})
		}, "a window of 1 × 9"},
		"padding like the window": {func(g *graph.Graph, x graph.Value) graph.Value {
			return g.MaxPool(x, graph.Pool{Window: graph.Both(2), Sides: [4]int{0, 2, 0, 0}})
		}, "padding"},
		"shapes apart": {func(g *graph.Graph, x graph.Value) graph.Value {
			return g.Add(x, g.Const(graph.Float32(make([]float32, 3), 3)))
		}, "do not go together"},
		"a shape of more": {func(g *graph.Graph, x graph.Value) graph.Value { return g.Reshape(x, 5, 5) }, "does not become [5 5]"},
		"an axis twice":   {func(g *graph.Graph, x graph.Value) graph.Value { return g.Transpose(x, 0, 0, 1) }, "in the order"},
		"beyond the end":  {func(g *graph.Graph, x graph.Value) graph.Value { return g.Slice(x, 2, 3, 6) }, "6 from 3 on"},
		"a mirror too long": {func(g *graph.Graph, x graph.Value) graph.Value {
			return g.Reflect(x, []int{0, 0, 8}, []int{0, 0, 0})
		}, "8 before"},
		"heads that do not divide": {func(g *graph.Graph, x graph.Value) graph.Value {
			return g.Attention(x, x, x, graph.Value{}, 3, 1)
		}, "3 heads"},
		"another graph's value": {func(g *graph.Graph, x graph.Value) graph.Value {
			other := graph.New()
			other.Input("a", axcl.FP32, 1)
			return g.Add(x, other.Input("b", axcl.FP32, 1))
		}, "none of the graph's values"},
	} {
		g := graph.New()
		y := c.make(g, g.Input("x", axcl.FP32, 1, 2, 8))
		first := g.Err()
		g.Tanh(g.Reshape(y, 1, 2, 3)) // what follows changes nothing
		if first == nil || !strings.Contains(first.Error(), c.want) || g.Err() != first {
			t.Errorf("%s: %v, want an error that says %q; then %v", name, first, c.want, g.Err())
		}
		if err := g.Save(t.TempDir() + "/net.axmodel"); !errors.Is(err, first) {
			t.Errorf("%s: saved, %v", name, err)
		}
	}
	g := graph.New()
	g.Output("y", axcl.FP32, g.Const(graph.Float32([]float32{1}, 2)))
	g.Input("x", axcl.FP32, 1)
	if err := g.Save(t.TempDir() + "/net.axmodel"); err == nil {
		t.Error("a weight of too few values was written")
	}
}

// netFile is a net of two groups: a row is convolved and an id added.
func netFile(tb testing.TB, flags uint32) []byte {
	tb.Helper()
	w := graph.Float32([]float32{1, 2, 3}, 1, 1, 3)
	make := func(n int) *graph.Graph {
		g := graph.New()
		x := g.Input("x", axcl.FP32, 1, 1, n)
		id := g.Input("id", axcl.Int32, 1)
		g.Output("y", axcl.BF16, g.Add(g.Conv1D(x, g.Const(w), graph.Value{}, graph.Conv{Pad: 1}), g.Float(id)))
		g.Output("same", axcl.Int32, id)
		return g
	}
	var b bytes.Buffer
	if err := graph.Write(&b, axmodel.Header{Flags: flags, Tool: "test"}, make(4), make(9)); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// FuzzGraph: a program gives a net whose shapes hold together, or one error.
func FuzzGraph(f *testing.F) {
	f.Add(netFile(f, 0))
	f.Add(netFile(f, axmodel.FlagSuffix))
	for i, op := range axmodeltest.GraphOps {
		c, err := axmodeltest.RandomGraph(op, uint64(i))
		if err != nil {
			f.Fatal(err)
		}
		var b bytes.Buffer
		if err := graph.Write(&b, axmodel.Header{}, c.Graphs...); err != nil {
			f.Fatal(err)
		}
		if b.Len() < 1<<16 {
			f.Add(b.Bytes())
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzguard.Check(t, len(b), func() {
			m, err := read(b)
			var e *axmodel.Error
			if err != nil && !errors.As(err, &e) {
				t.Fatalf("%T: %v", err, err)
			}
			if err != nil || m.Soft == nil {
				return
			}
			for _, g := range m.Soft.Graphs {
				for i, n := range g.Nodes {
					for _, v := range n.In {
						if v >= n.Out || v < -1 || n.Out+n.Op.Outs() > len(g.Values) {
							t.Fatalf("node %d of %d: %+v", i, len(g.Nodes), n)
						}
					}
				}
				for i, c := range g.Constants {
					width := int64(4)
					if c.Type == axcl.BF16 {
						width = 2
					}
					if n := int64(g.Values[len(g.Inputs)+i].Len()); c.Offset+n*width > int64(len(b)) {
						t.Fatalf("constant %d: %+v", i, c)
					}
				}
			}
		})
	})
}
