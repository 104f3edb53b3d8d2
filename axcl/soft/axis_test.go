package soft_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/axmodel"
)

// TestAxis: of three positions each frequency turns by the one that the file says, worked out here
// from K as it is kept.
func TestAxis(t *testing.T) {
	dir := t.TempDir()
	axis := []float32{2, 0, 1, 2, 0, 1, 0, 0}
	d, err := soft.Open(soft.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	m, err := axcl.Load(context.Background(), d, axcl.LoadSpec{Layers: []string{axisModel(t, dir, axis)}})
	if err != nil {
		t.Fatal(err)
	}
	s := m.Shape()
	if s.Pos != 3 {
		t.Fatalf("%d positions a row", s.Pos)
	}
	pos := []uint32{3, 11, 6}
	p := &axcl.Pass{Hidden: axcltest.Rows(1, 1, s.Hidden), Pos: pos, Cell: []uint32{2}, SeeCells: make([]uint64, 1),
		SeeRows: make([]uint64, 1)}
	if err := m.Run(p); err != nil {
		t.Fatal(err)
	}
	row := make([]byte, s.RowBytes())
	if err := m.Save([]uint32{2}, row); err != nil {
		t.Fatal(err)
	}
	var x [16]float64
	sum := 0.0
	for i := range x {
		x[i] = float64(axcl.Float32(p.Hidden[i]))
		sum += x[i] * x[i]
	}
	scale := 1 / math.Sqrt(sum/16+1e-6)
	for i, f := range []float64{1, 0.5, 0.25, 0.125, 0, 0, 0, 0} {
		sin, cos := math.Sincos(float64(pos[int(axis[i])]) * f)
		a, b := x[i]*scale, x[i+8]*scale
		for k, want := range []float64{a*cos - b*sin, b*cos + a*sin} {
			at := 2 * (i + 8*k)
			got := float64(axcl.Float32(uint16(row[at]) | uint16(row[at+1])<<8))
			if math.Abs(got-want) > 0.01*max(math.Abs(want), 0.1) {
				t.Errorf("K %d is %v, not %v", i+8*k, got, want)
			}
		}
	}
}

// axisModel is one layer that turns nothing but by its first frequencies, each by another of three
// positions: what comes out says which.
func axisModel(t *testing.T, dir string, axis []float32) string {
	t.Helper()
	const h = 16
	h3 := axmodel.Header{Kind: axmodel.Layer, Hidden: h, Heads: 1, KVHeads: 1, HeadDim: h, Intermediate: 4, Eps: 1e-6, Scale: 0.25,
		Rotary: h, Magnitude: 1, Rope: axmodel.RopeDefault, Pos: 3, Theta: 10000, Tool: "test"}
	same := func(name string) axmodel.Tensor {
		v := make([]float32, h*h)
		for i := range h {
			v[i*h+i] = 1
		}
		return axmodel.Matrix(name, axmodel.F32, h, h, v)
	}
	ones := slices.Repeat([]float32{1}, h)
	freq := []float32{1, 0.5, 0.25, 0.125, 0, 0, 0, 0}
	none := func(name string, rows, cols int) axmodel.Tensor {
		return axmodel.Matrix(name, axmodel.F32, rows, cols, make([]float32, rows*cols))
	}
	path := filepath.Join(dir, "layer.axmodel")
	_ = os.Remove(path)
	if err := axmodel.WriteFile(path, h3, []axmodel.SoftGroup{{Rows: 1, Cells: 8, Cache: 8}}, []axmodel.Tensor{
		axmodel.Vector("input_norm", axmodel.F32, ones), same("q"), same("k"), same("v"), same("o"),
		axmodel.Vector("post_norm", axmodel.F32, ones), none("gate", 4, h), none("up", 4, h), none("down", h, 4),
		axmodel.Vector("inv_freq", axmodel.F32, freq), axmodel.Vector("rope_axis", axmodel.F32, axis)}); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBadAxis: a frequency that takes a fourth position, or half of one, is refused with the file's
// name.
func TestBadAxis(t *testing.T) {
	d, err := soft.Open(soft.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, v := range []float32{3, -1, 0.5, float32(math.NaN()), 1e9} {
		axis := make([]float32, 8)
		axis[5] = v
		path := axisModel(t, t.TempDir(), axis)
		_, err := axcl.Load(context.Background(), d, axcl.LoadSpec{Layers: []string{path}})
		if !errors.Is(err, axcl.ErrModel) {
			t.Errorf("%v: %v", v, err)
		}
		if _, err := d.LoadNet(path); !errors.Is(err, axcl.ErrModel) {
			t.Errorf("%v, as a net: %v", v, err)
		}
	}
}
