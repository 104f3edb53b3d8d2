package axmodel_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
)

func TestStateGroups(t *testing.T) {
	full := axmodel.LayerShape{Hidden: 8, KV: 4, Pos: 1, Cells: 64}
	for _, g := range []axcl.Group{{Rows: 1, Cells: 32}, {Rows: 1, Cells: 64}, {Rows: 16}, {Rows: 16, Cells: 16}, {Rows: 16, Cells: 32}} {
		full.Groups = append(full.Groups, axmodel.LayerGroup{Group: g, Cache: max(g.Cells, 1)})
	}
	warm := full
	warm.Groups = slices.Delete(slices.Clone(full.Groups), 2, 3)
	for _, tt := range []struct {
		name string
		full axmodel.LayerShape
		rows []int
		want []int
	}{
		{"as many", full, []int{1, 1, 16, 16, 16}, []int{0, 1, 2, 3, 4}},
		{"fewer of both", full, []int{1, 16, 16}, []int{0, 0, 1, 2, 2}},
		{"in another order", full, []int{16, 16, 1}, []int{2, 2, 0, 1, 1}},
		{"only a cold one", full, []int{1, 16}, []int{0, 0, 1, -1, -1}},
		{"none of several rows", full, []int{1}, []int{0, 0, -1, -1, -1}},
		{"no cold one", warm, []int{1, 16}, []int{0, 0, 1, 1}},
	} {
		d := axmodel.Layers{Full: tt.full, State: axmodel.LinearShape{Hidden: 8, Rows: tt.rows}}
		if got := d.StateGroups(); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %d, not %d", tt.name, got, tt.want)
		}
	}
}

func TestLayers(t *testing.T) {
	state := func(hidden int, rows ...int) *axmodel.Meta {
		m := &axmodel.Meta{}
		x := func(name string, typ axcl.Type, size int, shape ...int) axcl.Tensor {
			return axcl.Tensor{Name: name, Type: typ, Shape: shape, Size: size}
		}
		for _, n := range rows {
			m.Groups = append(m.Groups, axmodel.GroupMeta{
				Inputs: []axcl.Tensor{x("input", axcl.BF16, 2*n*hidden, 1, n, hidden), x("K_cache", axcl.FP16, 12, 6),
					x("V_cache", axcl.FP32, 40, 10)},
				Outputs: []axcl.Tensor{x("output", axcl.BF16, 2*n*hidden, 1, n, hidden), x("K_cache_out", axcl.FP16, 12, 6),
					x("V_cache_out", axcl.FP32, 40, 10)}})
		}
		return m
	}
	rows := func(hidden int) *axmodel.Meta {
		x := func(name string, typ axcl.Type, shape ...int) axcl.Tensor {
			return axcl.Tensor{Name: name, Type: typ, Shape: shape, Size: 1}
		}
		return &axmodel.Meta{Groups: []axmodel.GroupMeta{{
			Inputs: []axcl.Tensor{x("input", axcl.BF16, 1, 1, hidden), x("indices", axcl.Uint32, 1, 1), x("mask", axcl.BF16, 1, 1, 33),
				x("K_cache", axcl.BF16, 1, 32, 4), x("V_cache", axcl.BF16, 1, 32, 4)},
			Outputs: []axcl.Tensor{x("output", axcl.BF16, 1, 1, hidden), x("K_cache_out", axcl.BF16, 1, 1, 4),
				x("V_cache_out", axcl.BF16, 1, 1, 4)}}}}
	}
	for _, tt := range []struct {
		name   string
		layers []*axmodel.Meta
		beside []*axmodel.Meta
		slots  int
		want   string // empty: good
	}{
		{"both kinds", []*axmodel.Meta{state(8, 1), rows(8), state(8, 1)}, nil, 0, ""},
		{"a part", []*axmodel.Meta{state(8, 1), state(8, 1)}, []*axmodel.Meta{state(8, 1), rows(8)}, 0, ""},
		{"alone", []*axmodel.Meta{state(8, 1), state(8, 1)}, []*axmodel.Meta{state(8, 1)}, 0, "every layer keeps a state"},
		{"other states", []*axmodel.Meta{state(8, 1), rows(8), state(8, 1, 4)}, nil, 0, "does not belong with the layers before it"},
		{"other rows", []*axmodel.Meta{state(8, 1), rows(8), rows(9)}, nil, 0, "does not belong with the layers before it"},
		{"two widths", []*axmodel.Meta{state(8, 1), rows(9)}, nil, 0, "hidden rows of 8"},
		{"a part of two widths", []*axmodel.Meta{state(8, 1)}, []*axmodel.Meta{rows(9)}, 0, "hidden rows of 8"},
		{"nothing to decode with", []*axmodel.Meta{state(8, 4), rows(8)}, nil, 0, "no group of one row"},
		{"slots below none", []*axmodel.Meta{state(8, 1), rows(8)}, nil, -1, "-1 slots"},
		{"too many slots", []*axmodel.Meta{state(8, 1), rows(8)}, nil, 5000, "5000 slots"},
	} {
		var d axmodel.Layers
		var err error
		for _, m := range tt.layers {
			if err == nil {
				err = d.Add(m)
			}
		}
		for _, m := range tt.beside {
			if err == nil {
				err = d.Beside(m)
			}
		}
		var s axcl.Shape
		if err == nil {
			s, err = d.Shape(tt.slots)
		}
		switch {
		case tt.want == "" && (err != nil || s.Layers != len(tt.layers) || s.Linear != 2 || s.State != 104 || s.Slots != 2 ||
			s.Cells != 32):
			t.Errorf("%s: %+v, %v", tt.name, s, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
