package axmodel_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/internal/fuzzguard"
)

// A file that is no model gives one typed error, and costs little memory whatever it claims.
func TestHostileFiles(t *testing.T) {
	files := hostileFiles(t)
	if len(files) < 60 {
		t.Fatalf("only %d files", len(files))
	}
	for _, f := range files {
		t.Run(f.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "m.axmodel")
			if err := os.WriteFile(path, f.file, 0o600); err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			m, err := axmodel.ReadFile(path)
			runtime.ReadMemStats(&after)
			var e *axmodel.Error
			if !errors.As(err, &e) || !errors.Is(err, axcl.ErrModel) || e.Path != path || !strings.Contains(err.Error(), f.want) {
				t.Errorf("%+v, %v; want an error that says %q", m, err, f.want)
			}
			if spent := after.TotalAlloc - before.TotalAlloc; spent > 8<<20 {
				t.Errorf("%d bytes of memory for a file of %d", spent, len(f.file))
			}
		})
	}
}

// softLayer is a small, whole layer of the software card.
func softLayer(tb testing.TB) []byte {
	tb.Helper()
	h := axmodel.Header{Kind: axmodel.Layer, Hidden: 8, Heads: 2, KVHeads: 1, HeadDim: 4, Intermediate: 16, Eps: 1e-6, Scale: 0.5,
		Rotary: 4, Magnitude: 1, Pos: 1, Tool: "test"}
	var ts []axmodel.Tensor
	for _, e := range h.Wants() {
		t := axmodel.BF16
		switch {
		case e.Type != 0 || e.Rows == 1:
			t = axmodel.F32
		case e.Name == "up":
			t = axmodel.BF16Fours
		case e.Name == "gate":
			t = axmodel.Int8Groups
		case e.Name == "down":
			t = axmodel.Int4Groups
		}
		ts = append(ts, axmodel.Tensor{Name: e.Name, Type: t, Rows: e.Rows, Cols: e.Cols,
			Row: func(dst []float32, r int) error { dst[0] = float32(r); return nil }})
	}
	var b bytes.Buffer
	if err := axmodel.Write(&b, h, axmodel.Ladder(31, 4, []int{0, 8}), ts); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// short is a model that ends before what its last tensor's rows are filled up with.
func short(tb testing.TB, t axmodel.DType) []byte {
	tb.Helper()
	const rows, cols = 9, 1030
	h := axmodel.Header{Kind: axmodel.Affine, Hidden: cols, Out: rows}
	var b bytes.Buffer
	if err := axmodel.Write(&b, h, []axmodel.SoftGroup{{Rows: 1}}, []axmodel.Tensor{axmodel.Vector("bias", axmodel.F32,
		make([]float32, rows)), axmodel.Matrix("weight", t, rows, cols, make([]float32, rows*cols))}); err != nil {
		tb.Fatal(err)
	}
	n := b.Len() - 64
	return patch(b.Bytes()[:n], 24, uint64(n))
}

// patch gives a copy of b with a little-endian value at off.
func patch[T uint32 | uint64 | float32 | []byte](b []byte, off int, v T) []byte {
	b = bytes.Clone(b)
	switch v := any(v).(type) {
	case uint32:
		binary.LittleEndian.PutUint32(b[off:], v)
	case uint64:
		binary.LittleEndian.PutUint64(b[off:], v)
	case float32:
		binary.LittleEndian.PutUint32(b[off:], math.Float32bits(v))
	case []byte:
		copy(b[off:], v)
	}
	return b
}

type hostile struct {
	name string
	file []byte
	want string // part of the message
}

func hostileFiles(tb testing.TB) []hostile {
	s := softLayer(tb)
	nan := float32(math.NaN())
	const dir = 192 + 3*16 // where the tensor directory begins
	list := []hostile{
		{"empty", nil, "empty"},
		{"one byte", []byte{8}, "broken number"},
		{"zeros", make([]byte, 300), "field number 0"},
		{"text", []byte("hello, this is no model at all"), ""},
		{"png", []byte("\x89PNG\r\n\x1a\n0123456789"), ""},
		{"LFS pointer", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"), "LFS pointer"},
		{"soft: magic only", s[:8], "cut short"},
		{"soft: half a header", s[:100], "cut short"},
		{"soft: header only", patch(s[:192], 24, uint64(192)), "cut short"},
		{"soft: half the file", s[:len(s)/2], "cut short"},
		{"soft: one byte short", s[:len(s)-1], "cut short"},
		{"soft: one byte long", append(bytes.Clone(s), 0), "longer"},
		{"soft: version 0", patch(s, 8, uint32(0)), "version 0"},
		{"soft: version 2", patch(s, 8, uint32(2)), "version 2"},
		{"soft: kind 0", patch(s, 12, uint32(0)), "unknown kind"},
		{"soft: kind 9", patch(s, 12, uint32(9)), "unknown kind"},
		{"soft: no group", patch(s, 16, uint32(0)), "0 shape groups"},
		{"soft: 65 groups", patch(s, 16, uint32(65)), "65 shape groups"},
		{"soft: 2³² groups", patch(s, 16, uint32(math.MaxUint32)), "shape groups"},
		{"soft: 65 tensors", patch(s, 20, uint32(65)), "65 tensors"},
		{"soft: 2³² tensors", patch(s, 20, uint32(math.MaxUint32)), "tensors"},
		{"soft: 0 tensors", patch(s, 20, uint32(0)), "no tensor"},
		{"soft: a tensor fewer", patch(s, 20, uint32(9)), "no tensor"},
		{"soft: length 0", patch(s, 24, uint64(0)), "longer"},
		{"soft: length 2⁶³", patch(s, 24, uint64(1)<<63), "cut short"},
		{"soft: weights 2⁶³", patch(s, 32, uint64(1)<<63), "weight bytes"},
		{"soft: unknown flag", patch(s, 40, uint32(1<<20)), "unknown flags"},
		{"soft: flag without its tensors", patch(s, 40, uint32(axmodel.FlagQKNorm)), "q_norm"},
		{"soft: Gemma without its tensors", patch(s, 40, uint32(axmodel.FlagGemma)), "pre_mlp_norm"},
		{"soft: shape-only with tensors", patch(s, 40, uint32(axmodel.FlagShapeOnly)), "that no layer has"},
		{"soft: activation 7", patch(s, 44, uint32(7)), "activation"},
		{"soft: hidden 0", patch(s, 48, uint32(0)), "hidden is 0"},
		{"soft: hidden 2³²−1", patch(s, 48, uint32(math.MaxUint32)), "hidden is"},
		{"soft: hidden another", patch(s, 48, uint32(16)), "the header asks for"},
		{"soft: heads 0", patch(s, 52, uint32(0)), "heads"},
		{"soft: heads 3 over 1 of 4", patch(s, 52, uint32(3)), "the header asks for"},
		{"soft: kv heads 0", patch(s, 56, uint32(0)), "heads"},
		{"soft: kv heads 3", patch(s, 56, uint32(3)), "heads"},
		{"soft: head dim 0", patch(s, 60, uint32(0)), "heads"},
		{"soft: head dim 2²⁰", patch(s, 60, uint32(1<<20)), ""},
		{"soft: intermediate 0", patch(s, 64, uint32(0)), "intermediate"},
		{"soft: NaN epsilon", patch(s, 72, nan), "epsilon"},
		{"soft: negative epsilon", patch(s, 72, float32(-1)), "epsilon"},
		{"soft: infinite scale", patch(s, 76, float32(math.Inf(1))), "scale"},
		{"soft: odd rotary dim", patch(s, 80, uint32(3)), "rotary"},
		{"soft: rotary dim past the head", patch(s, 80, uint32(6)), "rotary"},
		{"soft: no rotary dim", patch(s, 80, uint32(0)), "inv_freq"},
		{"soft: NaN magnitude", patch(s, 84, nan), "magnitude"},
		{"soft: 0 position rows", patch(s, 92, uint32(0)), "position rows"},
		{"soft: 3 position rows, no axes", patch(s, 92, uint32(3)), "rope_axis"},
		{"soft: 2 position rows", patch(s, 92, uint32(2)), "position rows"},
		{"soft: group of 0 rows", patch(s, 192, uint32(0)), "0 rows"},
		{"soft: group of 2³² rows", patch(s, 192, uint32(math.MaxUint32)), "rows"},
		{"soft: group of 2³² cells", patch(s, 196, uint32(math.MaxUint32)), "cells"},
		{"soft: cache rows disagree", patch(s, 200, uint32(30)), "cache has 30"},
		{"soft: no dummy row", patch(s, 192+16+8, uint32(0)), "cache has 0"},
		{"soft: tensor of type 0", patch(s, dir+24, uint32(0)), "element type"},
		{"soft: tensor of type 9", patch(s, dir+24, uint32(9)), "element type"},
		{"soft: integers with a scale a row", patch(s, dir+24, uint32(3)), "make the package again with axle compile"},
		{"soft: integers row by row", patch(s, dir+24, uint32(4)), "make the package again with axle compile"},
		{"soft: integers of four bits row by row", patch(s, dir+24, uint32(5)), "make the package again with axle compile"},
		{"soft: groups of none", patch(s, dir+24, uint32(7)), "has groups of 0"},
		{"soft: fours that are no whole ones", short(tb, axmodel.BF16Fours), "does not lie within"},
		{"soft: eights of int8 without their last scales", short(tb, axmodel.Int8Groups), "scales at"},
		{"soft: eights of int4 without their last scales", short(tb, axmodel.Int4Groups), "scales at"},
		{"soft: groups of a vector", patch(s, dir+36, uint32(32)), "of f32 has groups of 32"},
		{"soft: groups of 64", patch(s, dir+6*64+36, uint32(64)), "int8 in groups has groups of 64"},
		{"soft: groups' scales at 0", patch(s, dir+6*64+48, uint64(0)), "scales"},
		{"soft: groups' scales at the end", patch(s, dir+8*64+48, uint64(len(s))), "scales"},
		{"soft: groups' values at the end", patch(s, dir+8*64+40, uint64(len(s)-64)), "does not lie"},
		{"soft: tensor of 0 rows", patch(s, dir+28, uint32(0)), "0 × 8"},
		{"soft: tensor of 2³² rows", patch(s, dir+28, uint32(math.MaxUint32)), "×"},
		{"soft: tensor of 2³² columns", patch(s, dir+32, uint32(math.MaxUint32)), "×"},
		{"soft: tensor 2²⁴ × 2²²", patch(patch(s, dir+28, uint32(1<<24)), dir+32, uint32(1<<22)), "does not lie within"},
		{"soft: tensor in the header", patch(s, dir+40, uint64(0)), "does not lie within"},
		{"soft: tensor off its boundary", patch(s, dir+40, uint64(1025)), "does not lie within"},
		{"soft: tensor past the end", patch(s, dir+40, uint64(len(s))), "does not lie within"},
		{"soft: tensor at 2⁶⁴−64", patch(s, dir+40, uint64(math.MaxUint64)-63), "does not lie within"},
		{"soft: scales where none are", patch(s, dir+48, uint64(64)), "scales"},
		{"soft: scales past the end", patch(s, dir+6*64+48, uint64(1)<<62), "scales"},
		{"soft: frequencies in bf16", patch(s, dir+9*64+24, uint32(2)), "inv_freq"},
		{"soft: tensor renamed", patch(s, dir, []byte("weird\x00\x00\x00\x00\x00\x00")), "no tensor"},
		{"soft: tensor twice", patch(s, dir+64, []byte("input_norm\x00")), "twice"},
		{"soft: name without an end", patch(s, dir, bytes.Repeat([]byte("x"), 24)), "no tensor"},
	}
	type group = axcl.Group
	v := axmodeltest.VendorLayer(32, 16, 1, 5000, group{Rows: 1, Cells: 63}, group{Rows: 8, Cells: 0}, group{Rows: 8, Cells: 8}).Marshal()
	graph := func(g []byte) []byte { return axmodeltest.Bytes(axmodeltest.Varint(nil, 1, 7), 7, g) }
	tensor := func(t axcl.Type, shape ...int) []byte {
		x := axcl.Tensor{Name: "input", Type: t, Shape: shape}
		return graph(axmodeltest.Bytes(axmodeltest.Bytes(nil, 11, axmodeltest.ValueInfo(x)), 12, axmodeltest.ValueInfo(x)))
	}
	deep := []byte{}
	for range 2000 {
		deep = axmodeltest.Bytes(nil, 7, deep)
	}
	endless := bytes.Repeat([]byte{0xff}, 400)
	long := axcl.Tensor{Name: strings.Repeat("n", 1<<20), Type: axcl.BF16, Shape: []int{1}}
	var wide, many, nodes []byte
	for range 40 {
		wide = axmodeltest.Bytes(wide, 1, axmodeltest.Varint(nil, 1, 2))
	}
	for range 3000 {
		many = axmodeltest.Bytes(many, 11, axmodeltest.ValueInfo(axcl.Tensor{Name: "x", Type: axcl.BF16, Shape: []int{1}}))
		nodes = axmodeltest.Bytes(nodes, 1, axmodeltest.Bytes(nil, 4, "neu mode"))
	}
	ok := axcl.Tensor{Name: "y", Type: axcl.BF16, Shape: []int{1}}
	return append(list, []hostile{
		{"vendor: cut in the graph", v[:len(v)/2], "claims"},
		{"vendor: cut in the weights", v[:1500], "claims"},
		{"vendor: first bytes", v[:20], "claims"},
		{"vendor: no graph", axmodeltest.Bytes(axmodeltest.Varint(nil, 1, 7), 2, "Pulsar2"), "0 graphs"},
		{"vendor: two graphs", append(bytes.Clone(v), graph(nil)...), "2 graphs"},
		{"vendor: empty graph", graph(nil), "0 inputs"},
		{"vendor: graph is a number", axmodeltest.Varint(axmodeltest.Varint(nil, 1, 7), 7, 5), "no message"},
		{"vendor: ir_version 0", axmodeltest.Varint(nil, 1, 0), "ONNX"},
		{"vendor: ir_version 2⁶⁰", axmodeltest.Varint(nil, 1, 1<<60), "ONNX"},
		{"vendor: endless number", endless, "broken number"},
		{"vendor: wire type 3", []byte{0x08, 7, 0x3b}, "wire type 3"},
		{"vendor: wire type 7", []byte{0x08, 7, 0x3f}, "wire type 7"},
		{"vendor: length 2⁶³", append([]byte{0x08, 7, 0x3a}, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f), "claims"},
		{"vendor: fixed64 cut", []byte{0x08, 7, 0x79, 1, 2}, "runs past"},
		{"vendor: nested 2000 deep", deep, ""},
		{"vendor: dimension 0", tensor(axcl.BF16, 1, 0), "dimension 1"},
		{"vendor: dimension 2⁴⁰", tensor(axcl.BF16, 1, 1<<40), "dimension 1"},
		{"vendor: dimension −1", tensor(axcl.BF16, -1, 4), "dimension 0"},
		{"vendor: 2³¹ × 2³¹ × 2³¹", tensor(axcl.BF16, math.MaxInt32, math.MaxInt32, math.MaxInt32), "impossible shape"},
		{"vendor: 2⁴⁰ float64", tensor(axcl.FP64, 1<<20, 1<<20), "too large"},
		{"vendor: unknown type", tensor(axcl.FP4, 1, 4), "unknown type"},
		{"vendor: name of a megabyte", graph(axmodeltest.Bytes(nil, 11, axmodeltest.ValueInfo(long))), "bytes long"},
		{"vendor: 40 dimensions",
			graph(axmodeltest.Bytes(nil, 11, axmodeltest.Bytes(axmodeltest.Bytes(nil, 1, "x"), 2,
				axmodeltest.Bytes(nil, 1, axmodeltest.Bytes(axmodeltest.Varint(nil, 1, 1), 2, wide))))), "dimension 32"},
		{"vendor: 3000 inputs", graph(many), "more than"},
		{"vendor: 3000 nodes", graph(nodes), "more than"},
		{"vendor: input without a type", graph(axmodeltest.Bytes(nil, 11, axmodeltest.Bytes(nil, 1, "x"))), "not one named tensor"},
		{"vendor: input without a name",
			graph(axmodeltest.Bytes(nil, 11, axmodeltest.ValueInfo(axcl.Tensor{Type: axcl.BF16, Shape: []int{1}}))),
			"not one named tensor"},
		{"vendor: input twice",
			graph(axmodeltest.Bytes(axmodeltest.Bytes(axmodeltest.Bytes(nil, 11, axmodeltest.ValueInfo(ok)), 11, axmodeltest.ValueInfo(ok)),
				12, axmodeltest.ValueInfo(ok))), "twice"},
		{"vendor: a million fields", bytes.Repeat([]byte{0x08, 7}, 1<<20+10), "more than"},
	}...)
}

func TestReadFileErrors(t *testing.T) {
	dir := t.TempDir()
	if _, err := axmodel.ReadFile(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if _, err := axmodel.ReadFile(dir); !errors.Is(err, axcl.ErrModel) {
		t.Errorf("a folder: %v", err)
	}
	if _, err := read([]byte("version https://git-lfs.github.com/spec/v1\n")); !errors.Is(err, axmodel.ErrLFS) {
		t.Errorf("LFS: %v", err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := axmodel.ReadFile(pipe); !errors.Is(err, axcl.ErrModel) { // and does not wait for a writer
		t.Errorf("a pipe: %v", err)
	}
	if _, err := axmodel.Read(strings.NewReader(""), -1); !errors.Is(err, axcl.ErrModel) {
		t.Errorf("a negative size: %v", err)
	}
	if _, err := axmodel.Read(strings.NewReader("AXLESOFT"), 1<<62); !errors.Is(err, axcl.ErrModel) {
		t.Errorf("a size beyond what is there: %v", err)
	}
	for _, groups := range [][]axmodel.SoftGroup{nil, make([]axmodel.SoftGroup, 65)} {
		if err := axmodel.Write(io.Discard, axmodel.Header{}, groups, nil); !errors.Is(err, axcl.ErrModel) {
			t.Errorf("%d groups: %v", len(groups), err)
		}
	}
	if got := axmodel.ShapeNext(nil, 0, -1); got != 0 {
		t.Errorf("after a head without tokens comes %d", got)
	}
}

// Layers whose tensors do not fit together are refused by name.
func TestLayerShapeErrors(t *testing.T) {
	make := func(change func(o *axmodeltest.ONNX)) *axmodel.Meta {
		o := axmodeltest.VendorLayer(32, 16, 1, 0, axcl.Group{Rows: 1, Cells: 63}, axcl.Group{Rows: 8, Cells: 8})
		change(&o)
		m, err := read(o.Marshal())
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	in := func(g, i int, shape ...int) func(*axmodeltest.ONNX) {
		return func(o *axmodeltest.ONNX) { o.Groups[g].Inputs[i].Shape = shape }
	}
	for name, c := range map[string]struct {
		change func(*axmodeltest.ONNX)
		want   string
	}{
		"no mask":          {func(o *axmodeltest.ONNX) { o.Groups[0].Inputs = o.Groups[0].Inputs[:4] }, `"mask"`},
		"mask of float32":  {func(o *axmodeltest.ONNX) { o.Groups[0].Inputs[4].Type = axcl.FP32 }, `"mask" is fp32`},
		"narrow mask":      {in(1, 4, 1, 8, 7), "narrower"},
		"mask of a row":    {in(1, 4, 1, 1, 16), `"mask"`},
		"short cache":      {in(0, 0, 1, 62, 16), ""},
		"K unlike V":       {in(0, 1, 1, 63, 17), `"V_cache"`},
		"hidden disagrees": {in(1, 3, 1, 8, 31), ""},
		"two positions":    {in(0, 2, 2, 1), "2 positions"},
		"no output":        {func(o *axmodeltest.ONNX) { o.Groups[0].Outputs = o.Groups[0].Outputs[:2] }, ""},
	} {
		l, err := make(c.change).Layer()
		var e *axmodel.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v", name, l, err)
		}
	}
}

func FuzzAxmodel(f *testing.F) {
	//proves:T1
	for _, h := range hostileFiles(f) {
		if len(h.file) < 1<<16 {
			f.Add(h.file)
		}
	}
	f.Add(softLayer(f))
	f.Add(axmodeltest.VendorLayer(32, 16, 3, 100, axcl.Group{Rows: 1, Cells: 63}, axcl.Group{Rows: 8, Cells: 0}).Marshal())
	f.Add(axmodeltest.VendorHead(32, 100, 10, axcl.FP32, true).Marshal())
	for _, pattern := range []string{"../testdata/packages/[AG]/*.axmodel", "../models/pocket/pocket/*_l0_*.axmodel"} {
		for _, b := range fuzzguard.Seeds(f, 1<<16, pattern) {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzguard.Check(t, len(b), func() {
			m, err := read(b)
			if err != nil {
				var e *axmodel.Error
				if !errors.As(err, &e) {
					t.Fatalf("%T: %v", err, err)
				}
				return
			}
			if len(m.Groups) == 0 || m.WeightBytes < 0 {
				t.Fatalf("%+v", m)
			}
			for _, g := range m.Groups {
				if len(g.Inputs) != len(g.RawInputs) || len(g.Outputs) != len(g.RawOutputs) {
					t.Fatalf("%+v", g)
				}
				for _, x := range append(append([]axcl.Tensor(nil), g.Inputs...), g.Outputs...) {
					if x.Size <= 0 {
						t.Fatalf("%+v", x)
					}
				}
			}
			if l, err := m.Layer(); err == nil && (l.Cells < 1 || len(l.Groups) != len(m.Groups)) {
				t.Fatalf("%+v", l)
			}
			if h, err := m.Head(); err == nil && (h.Out < 1 || h.Hidden < 1) {
				t.Fatalf("%+v", h)
			}
			if s := m.Soft; s != nil {
				for _, e := range s.Tensors {
					if e.Offset < 0 || e.Offset >= int64(len(b)) {
						t.Fatalf("%+v", e)
					}
				}
			}
		})
	})
}
