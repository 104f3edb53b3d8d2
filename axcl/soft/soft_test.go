package soft_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
)

func TestAffineNet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.axmodel")
	w := []float32{1, 2, 3, -1, 0.5, 4}
	h := axmodel.Header{Kind: axmodel.Affine, Hidden: 3, Out: 2, Flags: axmodel.FlagSuffix}
	if err := axmodel.WriteFile(path, h, []axmodel.SoftGroup{{Rows: 1}, {Rows: 5}},
		[]axmodel.Tensor{axmodel.Matrix("weight", axmodel.F32, 2, 3, w), axmodel.Vector("bias", axmodel.F32, []float32{10, 20})}); err !=
		nil {
		t.Fatal(err)
	}
	n, err := open(t, soft.Options{}).LoadNet(path)
	if err != nil {
		t.Fatal(err)
	}
	if n.Groups() != 2 || n.Inputs(1)[0].Name != "x" {
		t.Fatalf("%d groups, input %+v", n.Groups(), n.Inputs(1))
	}
	in, out := map[string][]byte{"x": make([]byte, 5*3*4)}, map[string][]byte{"y": make([]byte, 5*2*4)}
	for i := range 15 {
		binary.LittleEndian.PutUint32(in["x"][4*i:], math.Float32bits(float32(i)))
	}
	if err := n.Run(1, in, out); err != nil {
		t.Fatal(err)
	}
	for r := range 5 {
		x := float32(3 * r)
		for c, want := range []float32{x + 2*(x+1) + 3*(x+2) + 10, -x + 0.5*(x+1) + 4*(x+2) + 20} {
			if got := math.Float32frombits(binary.LittleEndian.Uint32(out["y"][4*(2*r+c):])); got != want {
				t.Errorf("y[%d][%d] = %v, want %v", r, c, got, want)
			}
		}
	}
	for name, call := range map[string]func() error{
		"no input":       func() error { return n.Run(0, nil, nil) },
		"wrong size":     func() error { return n.Run(0, in, nil) },
		"unknown input":  func() error { return n.Run(1, map[string][]byte{"x": in["x"], "z": nil}, nil) },
		"unknown output": func() error { return n.Run(1, in, map[string][]byte{"z": nil}) },
		"no such group":  func() error { return n.Run(2, in, out) },
	} {
		if err := call(); !errors.Is(err, axcl.ErrPass) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, o soft.Options) *soft.Device {
	t.Helper()
	d, err := soft.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func shapeOnly(t *testing.T, s axmodel.Shape) axcl.LoadSpec {
	t.Helper()
	dir := t.TempDir()
	if err := axmodel.WriteShape(dir, s); err != nil {
		t.Fatal(err)
	}
	layers, head := axmodel.Files(dir, s.Name, s.Chunk, s.Layers)
	return axcl.LoadSpec{Layers: layers, Head: head}
}

var small = axmodel.Shape{Name: "h", Layers: 3, Hidden: 32, Heads: 4, KVHeads: 2, HeadDim: 8, Intermediate: 64, Vocab: 300,
	Context: 63, Chunk: 8, History: []int{0, 8, 16}, LayerBytes: 1000, HeadBytes: 500, Period: 7}

// A model without weights counts, round its period, with its rows in one pass or in many.
func TestShapeOnly(t *testing.T) {
	d := open(t, soft.Options{})
	m, err := axcl.Load(context.Background(), d, shapeOnly(t, small))
	if err != nil {
		t.Fatal(err)
	}
	s := m.Shape()
	if s.Layers != 3 || s.Cells != 63 || s.Out != 300 || s.KV != 16 || s.MaxRows() != 8 {
		t.Fatalf("shape %+v", s)
	}
	p := &axcl.Pass{Hidden: make([]uint16, 3*s.Hidden), Pos: make([]uint32, 3), Cell: []uint32{3, 9, 4}, SeeCells: make([]uint64, 3),
		SeeRows: make([]uint64, 3), Want: []int{0, 1, 2},
		Logits: make([]uint16, 3*s.Out), Argmax: make([]int32, 3), Timing: new(axcl.Timing)}
	for r, id := range []int32{4, 6, 13} {
		axmodel.ShapeRow(p.Hidden[r*s.Hidden:(r+1)*s.Hidden], id)
	}
	if err := m.Run(p); err != nil {
		t.Fatal(err)
	}
	for r, want := range []int32{5, 0, 7} {
		if p.Argmax[r] != want || axcl.Float32(p.Logits[r*s.Out+int(want)]) != 16 || axcl.Float32(p.Logits[r*s.Out+int(want)+1]) != 8 {
			t.Errorf("row %d: token %d, want %d", r, p.Argmax[r], want)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	//proves:T1
	good := shapeOnly(t, small)
	other := small
	other.Context = 31
	wide := small
	wide.Hidden = 64
	vendor := filepath.Join(t.TempDir(), "v.axmodel")
	lfs := filepath.Join(t.TempDir(), "l.axmodel")
	for path, b := range map[string][]byte{vendor: axmodeltest.VendorLayer(32, 16, 1, 10, axcl.Group{Rows: 1, Cells: 63}).Marshal(),
		lfs: []byte("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	// 3 layers × 1000 + 500 of weights, 3 × 63 × 16 × 4 of cache
	need := int64(3500 + 3*63*16*4)
	for name, c := range map[string]struct {
		spec axcl.LoadSpec
		ctx  context.Context
		cmm  int64
		want error
	}{
		"no layers":    {axcl.LoadSpec{Head: good.Head}, nil, 0, axcl.ErrModel},
		"missing file": {axcl.LoadSpec{Layers: []string{"/none"}}, nil, 0, os.ErrNotExist},
		"shapes disagree": {axcl.LoadSpec{Layers: append(good.Layers[:1:1], shapeOnly(t, other).Layers...), Head: good.Head}, nil, 0,
			axcl.ErrModel},
		"head disagrees":   {axcl.LoadSpec{Layers: good.Layers, Head: shapeOnly(t, wide).Head}, nil, 0, axcl.ErrModel},
		"head for a layer": {axcl.LoadSpec{Layers: []string{good.Head}}, nil, 0, axcl.ErrModel},
		"layer for a head": {axcl.LoadSpec{Layers: good.Layers, Head: good.Layers[0]}, nil, 0, axcl.ErrModel},
		"vendor's":         {axcl.LoadSpec{Layers: []string{vendor}}, nil, 0, axcl.ErrModel},
		"lfs":              {axcl.LoadSpec{Layers: []string{lfs}}, nil, 0, axmodel.ErrLFS},
		"memory":           {good, nil, need - 1, axcl.ErrMemory},
		"cancelled":        {good, cancelled, 0, context.Canceled},
	} {
		d := open(t, soft.Options{CMM: c.cmm})
		if c.ctx == nil {
			c.ctx = context.Background()
		}
		if _, err := axcl.Load(c.ctx, d, c.spec); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if i, err := d.Info(); err != nil || i.FreeCMM != i.TotalCMM {
			t.Errorf("%s: after it %d of %d bytes are free, %v", name, i.FreeCMM, i.TotalCMM, err)
		}
	}
	d := open(t, soft.Options{CMM: need})
	m, err := axcl.Load(context.Background(), d, good)
	if err != nil {
		t.Fatal(err)
	}
	if i, _ := d.Info(); i.FreeCMM != 0 {
		t.Errorf("%d bytes free", i.FreeCMM)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if i, _ := d.Info(); i.FreeCMM != need {
		t.Errorf("%d bytes free after Close", i.FreeCMM)
	}
	for what, err := range map[string]error{"model twice": m.Close(), "run": m.Run(&axcl.Pass{})} {
		if !errors.Is(err, axcl.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	_, load := axcl.Load(context.Background(), d, good)
	_, info := d.Info()
	_, loadNet := d.LoadNet(good.Head)
	for what, err := range map[string]error{"close twice": d.Close(), "load": load, "info": info, "net": loadNet} {
		if !errors.Is(err, axcl.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
