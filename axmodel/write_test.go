package axmodel_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/models"
)

// What is written is read again: header, groups, directory, and values within what their type can
// hold.
func TestWriteRead(t *testing.T) {
	h := axmodel.Header{Kind: axmodel.Layer, Weights: 12345,
		Flags:      axmodel.FlagQKVBias | axmodel.FlagQKNorm | axmodel.FlagGemma | axmodel.FlagNormOne | axmodel.FlagSuffix,
		Activation: axmodel.GELU,
		Hidden:     24, Heads: 6, KVHeads: 2, HeadDim: 8, Intermediate: 40, Eps: 1e-5, Scale: 0.25, Rotary: 6, Magnitude: 1.5,
		Rope: axmodel.RopeYarn, Pos: 1, Theta: 1e6, Index: 7, Tool: "a tool"}
	groups := []axmodel.SoftGroup{{Rows: 1, Cells: 63, Cache: 63}, {Rows: 8, Cells: 0, Cache: 1}, {Rows: 8, Cells: 16, Cache: 16}}
	r := rand.New(rand.NewPCG(1, 1))
	values := map[string][]float32{}
	var ts []axmodel.Tensor
	for i, e := range h.Wants() {
		v := make([]float32, e.Rows*e.Cols)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		typ := []axmodel.DType{axmodel.F32, axmodel.BF16, axmodel.Int8Groups, axmodel.Int4Groups, axmodel.BF16Fours}[i%5]
		if e.Type != 0 {
			typ = e.Type
		}
		if typ.Grouped() {
			clear(v[:e.Cols]) // a row of zeros has no scale
		}
		values[e.Name] = v
		ts = append(ts, axmodel.Matrix(e.Name, typ, e.Rows, e.Cols, v))
		if typ.Grouped() && i%2 == 0 {
			ts[len(ts)-1].Group = 128
		}
	}
	path := filepath.Join(t.TempDir(), "l.axmodel")
	if err := axmodel.WriteFile(path, h, groups, ts); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(b)) != axmodel.Size(groups, ts) {
		t.Errorf("%d bytes, predicted %d", len(b), axmodel.Size(groups, ts))
	}
	m, err := axmodel.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(h, m.Soft.Header); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(groups, m.Soft.Groups); d != "" || m.WeightBytes != 12345 || m.Tool != "a tool" || m.Vendor {
		t.Errorf("%s%+v", d, m)
	}
	for _, e := range m.Soft.Tensors {
		for i, want := range values[e.Name] {
			var got, slack float32
			switch e.Type {
			case axmodel.F32:
				got = math.Float32frombits(binary.LittleEndian.Uint32(b[e.Offset+int64(4*i):]))
			case axmodel.BF16:
				got, slack = axcl.Float32(binary.LittleEndian.Uint16(b[e.Offset+int64(2*i):])), float32(math.Abs(float64(want)))/256
			case axmodel.BF16Fours:
				row, col, lines := i/e.Cols, i%e.Cols, (e.Cols+31)/32
				at := ((row/4*lines+col/32)*4+row%4)*32 + col%32
				got, slack = axcl.Float32(binary.LittleEndian.Uint16(b[e.Offset+int64(2*at):])), float32(math.Abs(float64(want)))/256
			case axmodel.Int8Groups, axmodel.Int4Groups:
				row, col := i/e.Cols, i%e.Cols
				groups, blocks := (e.Cols+e.Group-1)/e.Group, (e.Cols+31)/32
				scale := axcl.Float32(binary.LittleEndian.Uint16(b[e.Scales+int64(2*((row/8*groups+col/e.Group)*8+row%8)):]))
				// The largest may lie half a step beyond the last level: scales are rounded, and
				// four bits choose the best on the whole.
				slack = float32(math.Abs(float64(scale)))
				block, of := int64(row/8*blocks+col/32), col%32
				if e.Type == axmodel.Int8Groups {
					got = float32(int8(b[e.Offset+block*256+int64(of/4*32+row%8*4+of%4)])) * scale
				} else {
					got = float32(int(b[e.Offset+block*128+int64(of%16/4*32+row%8*4+of%4)]>>(of/16*4)&15)-8) * scale
				}
			}
			if float32(math.Abs(float64(got-want))) > slack {
				t.Fatalf("%s[%d] is %v, was %v", e.Name, i, got, want)
			}
		}
	}
}

func TestWriteErrors(t *testing.T) {
	h := axmodel.Header{Kind: axmodel.Affine, Hidden: 2, Out: 1}
	g := []axmodel.SoftGroup{{Rows: 1}}
	w, b := axmodel.Vector("weight", axmodel.F32, []float32{1, 2}), axmodel.Vector("bias", axmodel.F32, []float32{3})
	broken := errors.New("no more rows")
	for name, c := range map[string]struct {
		h    axmodel.Header
		g    []axmodel.SoftGroup
		ts   []axmodel.Tensor
		want string
	}{
		"no groups":      {h, nil, []axmodel.Tensor{w, b}, "groups"},
		"a tensor short": {h, g, []axmodel.Tensor{w}, `no tensor "bias"`},
		"a wrong size":   {h, g, []axmodel.Tensor{w, axmodel.Vector("bias", axmodel.F32, []float32{3, 4})}, "1 × 2"},
		"a wrong header": {axmodel.Header{Kind: axmodel.Layer}, g, nil, "hidden is 0"},
		"a long name": {h, g, []axmodel.Tensor{w, axmodel.Vector(strings.Repeat("b", 25), axmodel.F32, []float32{3})},
			"cannot be written"},
		"an unknown type": {h, g, []axmodel.Tensor{w, axmodel.Vector("bias", 9, []float32{3})}, "cannot be written"},
		"NaN as int8": {h, g, []axmodel.Tensor{axmodel.Vector("weight", axmodel.Int8Groups, []float32{1, float32(math.NaN())}), b},
			"int8 in groups cannot"},
		"NaN as int4": {h, g, []axmodel.Tensor{axmodel.Vector("weight", axmodel.Int4Groups, []float32{1, float32(math.NaN())}), b},
			"int4 in groups cannot"},
		"groups of 64": {h, g, []axmodel.Tensor{{Name: "weight", Type: axmodel.Int8Groups, Rows: 1, Cols: 2, Group: 64}, b},
			"cannot be written"},
		"a broken source": {h, g,
			[]axmodel.Tensor{w, {Name: "bias", Type: axmodel.F32, Rows: 1, Cols: 1, Row: func([]float32, int) error { return broken }}},
			"no more rows"},
	} {
		if err := axmodel.Write(io.Discard, c.h, c.g, c.ts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		path := filepath.Join(t.TempDir(), "m")
		if err := axmodel.WriteFile(path, c.h, c.g, c.ts); err == nil {
			t.Errorf("%s: written", name)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the file is still there", name)
		}
	}
	var full bytes.Buffer
	if err := axmodel.Write(&limited{&full, 100}, h, g, []axmodel.Tensor{w, b}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a full disk: %v", err)
	}
}

type limited struct {
	w    io.Writer
	left int
}

func (l *limited) Write(b []byte) (int, error) {
	if len(b) > l.left {
		return 0, io.ErrShortWrite
	}
	l.left -= len(b)
	return l.w.Write(b)
}

// A package without weights is complete: models opens it, and its embedding rows spell their ids.
func TestShapePackage(t *testing.T) {
	dir := t.TempDir()
	s := axmodel.Shape{Name: "qwen3", Layers: 3, Hidden: 64, Heads: 4, KVHeads: 2, HeadDim: 16, Intermediate: 96, Vocab: 1000,
		Context: 127, Chunk: 16, History: []int{0, 32},
		LayerBytes: 5000, HeadBytes: 700, Period: 16, F32: true, Argmax: true, Suffix: true}
	if err := axmodel.WriteShape(dir, s); err != nil {
		t.Fatal(err)
	}
	p, err := models.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	mem := p.Memory()
	if p.Layout != "A" || len(p.Layers) != 3 || p.Vocab != 1000 || p.Shape.Cells != 127 || mem.Layers != 15000 || mem.Head != 700 {
		t.Errorf("%+v, memory %+v", p, mem)
	}
	row := make([]uint16, 64)
	for _, id := range []int32{0, 1, 255, 999} {
		if err := p.Embed.Row(row, id); err != nil {
			t.Fatal(err)
		}
		if got := axmodel.ShapeNext(row, 1<<24, 0); got != int(id)+1 {
			t.Errorf("after %d comes %d", id, got)
		}
	}
	next := func(id int32, out, period int) int {
		axmodel.ShapeRow(row, id)
		return axmodel.ShapeNext(row, out, period)
	}
	for _, c := range [][4]int{{15, 1000, 16, 0}, {14, 1000, 16, 15}, {31, 1000, 16, 16}, {999, 1000, 0, 0}, {5, 1000, 0, 6}} {
		if got := next(int32(c[0]), c[1], c[2]); got != c[3] {
			t.Errorf("after %d of %d, period %d, comes %d, want %d", c[0], c[1], c[2], got, c[3])
		}
	}
	tok, err := p.Tokenizer()
	if err != nil {
		t.Fatal(err)
	}
	if ids := tok.Encode(nil, "A w300", false); len(ids) == 0 || tok.Decode(ids, false) != "A w300" {
		t.Errorf("%v, %q", ids, tok.Decode(ids, false))
	}
}
