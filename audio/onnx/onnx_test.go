package onnx

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/internal/fuzzguard"
)

// TestRead: what a file has, in each of the ways in which it may be written.
func TestRead(t *testing.T) {
	value := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, math.Float32bits(1.5)), math.Float32bits(-2))
	single := func(b []byte) []byte { return append([]byte{4<<3 | fixed32Wire}, b...) }
	file := message(7,
		message(5, varint(1, 1), varint(1, 2), varint(2, 1), message(8, []byte("a")), message(9, value)),
		message(5, message(1, []byte{2}), varint(2, 1), message(8, []byte("b")), message(4, value)),
		message(5, varint(1, 2), varint(2, 1), message(8, []byte("c")), single(value[:4]), single(value[4:])),
		message(5, varint(2, 1), message(8, []byte("d")), message(9, value[:4])),
		message(1, message(2, []byte("e")), message(4, []byte("Constant")),
			message(5, message(1, []byte("value")), message(5, varint(1, 2), varint(2, 1), message(9, value)))),
		message(1, message(1, []byte("a")), message(1, []byte("b")), message(2, []byte("y")), message(4, []byte("Conv")),
			message(5, message(1, []byte("pads")), message(8, []byte{1, 2})), message(5, message(1, []byte("group")), varint(3, 7)),
			message(5, message(1, []byte("mode")), message(4, []byte("reflect"))),
			message(5, message(1, []byte("last")), varint(8, math.MaxUint64))),
		message(1, message(4, []byte("If")),
			message(5, message(1, []byte("then_branch")), message(6, message(1, message(4, []byte("Relu"))))),
			message(5, message(1, []byte("else_branch")), message(6, message(1, message(4, []byte("Tanh")))))))
	g, err := Read(slices.Concat(varint(1, 8), []byte{99<<3&127 | fixed64Wire | 128, 6, 1, 2, 3, 4, 5, 6, 7, 8}, file))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tensor := range g.Tensors {
		v, err := tensor.Float32s()
		if names = append(names, tensor.Name); err != nil || v[0] != 1.5 || tensor.Name != "d" && (len(v) != 2 || v[1] != -2) {
			t.Errorf("%s: %v, %v", tensor.Name, v, err)
		}
	}
	if !slices.Equal(names, []string{"a", "b", "c", "d", "e"}) {
		t.Error(names)
	}
	if len(g.Nodes) != 2 {
		t.Fatalf("%d nodes", len(g.Nodes))
	}
	n := &g.Nodes[0]
	if n.Op != "Conv" || !slices.Equal(n.Inputs, []string{"a", "b"}) || !slices.Equal(n.Outputs, []string{"y"}) ||
		!slices.Equal(n.Find("pads").Ints, []int64{1, 2}) || n.Find("group").Int != 7 || n.Find("mode").Text != "reflect" ||
		!slices.Equal(n.Find("last").Ints, []int64{-1}) || n.Find("none").Name != "" {
		t.Errorf("%+v", n)
	}
	var ops []string
	g.Walk(func(g *Graph) {
		for _, n := range g.Nodes {
			ops = append(ops, n.Op)
		}
	})
	if !slices.Equal(ops, []string{"Conv", "If", "Relu", "Tanh"}) {
		t.Error(ops)
	}
}

// TestReadRefuses: files that are none, cut, too deep, too large or of too many parts.
func TestReadRefuses(t *testing.T) {
	deep := message(6)
	for range maxDepth {
		deep = message(6, message(1, message(5, deep)))
	}
	good := message(7, message(1, message(4, []byte("Relu"))))
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"nothing", nil, "no graph"},
		{"text", []byte("version https://git-lfs.github.com/spec/v1\n"), "wire type 6"},
		{"a length beyond the end", []byte{7<<3 | lengthWire, 200, 1, 0}, "cut short"},
		{"a length beyond all", append([]byte{7<<3 | lengthWire}, binary.AppendUvarint(nil, math.MaxUint64)...), "cut short"},
		{"a number too long", append([]byte{1 << 3}, slices.Repeat([]byte{0xff}, 11)...), "cut short"},
		{"two graphs", append(good, good...), "two graphs"},
		{"too deep", message(7, message(1, message(5, deep))), "graphs within each other"},
		{"too many parts", message(7, slices.Repeat(message(1), maxParts+1)), "more than 100000"},
		{"too many dimensions", message(7, message(5, slices.Repeat(varint(1, 1), maxDims+1))), "more than 8 dimensions"},
		{"a dimension below zero", message(7, message(5, varint(1, math.MaxUint64))), "dimension of -1"},
		{"dimensions that are no numbers", message(7, message(5, []byte{1<<3 | fixed32Wire, 1, 2, 3, 4})), "cut short"},
		{"too large", make([]byte, MaxBytes+1), "at most"},
	} {
		g, err := Read(c.file)
		if err == nil || g != nil || !strings.HasPrefix(err.Error(), "onnx: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v: it does not say %q", c.name, err, c.want)
		}
	}
	for n := range good {
		if _, err := Read(good[:n]); err == nil {
			t.Errorf("%d of %d bytes were read", n, len(good))
		}
	}
}

func TestFloat32sRefuses(t *testing.T) {
	for _, c := range []struct {
		tensor Tensor
		want   string
	}{
		{Tensor{Dims: []int{2}, typ: float32Type, raw: make([]byte, 4)}, "take 8 bytes, it has 4"},
		{Tensor{Dims: []int{1}, typ: 7, raw: make([]byte, 8)}, "type 7"},
		{Tensor{Dims: []int{1}, typ: float32Type, elsewhere: true}, "another file"},
		{Tensor{Dims: []int{MaxBytes, MaxBytes, MaxBytes, MaxBytes}, typ: float32Type}, "dimensions"},
		{Tensor{Dims: []int{1 << 13, 1 << 12}, typ: float32Type}, "dimensions"},
	} {
		if _, err := c.tensor.Float32s(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: it does not say %q", err, c.want)
		}
	}
}

// TestHostileFiles: what takes few bytes of a file and much of memory or time.
func TestHostileFiles(t *testing.T) {
	//proves:G5 a mebibyte of hostile bytes each
	const size = 1 << 20
	fill := func(part []byte) []byte { return slices.Repeat(part, (size-100)/len(part)) }
	node := func(parts ...[]byte) []byte { return message(7, message(1, parts...)) }
	for name, file := range map[string][]byte{
		"empty nodes":           message(7, fill(message(1))),
		"empty tensors":         message(7, fill(message(5))),
		"tensors with a value":  message(7, fill(message(5, varint(1, 1), varint(2, 1), message(4, make([]byte, 4))))),
		"tensors of many sides": message(7, fill(message(5, message(1, slices.Repeat([]byte{1}, maxDims))))),
		"empty inputs":          node(fill(message(1))),
		"empty attributes":      node(fill(message(5))),
		"empty graphs":          node(message(5, fill(message(6)))),
		"constants": message(7, fill(message(1, message(2), message(4, []byte("Constant")),
			message(5, message(1, []byte("value")), message(5))))),
		"integers":             node(message(5, message(8, fill([]byte{1})))),
		"integers, one by one": node(message(5, fill(varint(8, 1)))),
		"floats, one by one":   message(7, message(5, fill([]byte{4<<3 | fixed32Wire, 1, 2, 3, 4}))),
		"unknown fields":       fill(varint(9, 1)),
	} {
		if len(file) > size || len(file) < size/2 {
			t.Fatalf("%s: %d bytes", name, len(file))
		}
		fuzzguard.Check(t, len(file), func() { _, _ = Read(file) })
	}
}

// FuzzRead: no file of somebody's takes long, much memory, or a panic; and its tensors have the
// values that they say.
func FuzzRead(f *testing.F) {
	//proves:T1
	f.Add(message(7, message(5, varint(1, 1), varint(2, 1), message(9, make([]byte, 4)))))
	f.Add(message(7, message(1, message(5, message(6, message(1, message(4, []byte("Relu"))))))))
	f.Fuzz(func(t *testing.T, b []byte) {
		var g *Graph
		var err error
		fuzzguard.Check(t, len(b), func() { g, err = Read(b) })
		if err != nil {
			return
		}
		g.Walk(func(g *Graph) {
			for _, tensor := range g.Tensors {
				v, err := tensor.Float32s()
				n := 1
				for _, d := range tensor.Dims {
					n *= d
				}
				if err == nil && len(v) != n || len(v) > len(b) {
					t.Fatalf("%v: %d values in %d bytes", tensor.Dims, len(v), len(b))
				}
			}
		})
	})
}

func varint(number int, v uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(nil, uint64(number)<<3), v)
}

func message(number int, parts ...[]byte) []byte {
	b := slices.Concat(parts...)
	return append(binary.AppendUvarint(binary.AppendUvarint(nil, uint64(number)<<3|lengthWire), uint64(len(b))), b...)
}
