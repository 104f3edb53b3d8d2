package axmodel_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
)

// A layer with a state says what its states are, whether or not it lists positions and mask, in
// some groups or in any.
func TestState(t *testing.T) {
	some := stateLayer(false, 1, 8, 8)
	some.Groups[0].Inputs = some.Groups[0].Inputs[:3] // the decode group hides both
	one := stateLayer(false, 1, 8, 8)
	one.Groups[1].Inputs = slices.Delete(one.Groups[1].Inputs, 4, 5) // a prefill group hides its mask
	joined := func(o axmodeltest.ONNX) axmodeltest.ONNX {
		all := axmodeltest.ONNXGroup{}
		for _, g := range o.Groups {
			all.Inputs, all.Outputs = append(all.Inputs, g.Inputs...), append(all.Outputs, g.Outputs...)
		}
		o.Groups = []axmodeltest.ONNXGroup{all}
		return o
	}
	for name, c := range map[string]struct {
		file   axmodeltest.ONNX
		listed bool
		pos    int
	}{
		"listed": {stateLayer(false, 1, 8, 8), true, 1}, "hidden": {stateLayer(true, 1, 8, 8), false, 0},
		"hidden in one group": {some, false, 0}, "a mask hidden": {one, false, 1},
		"one node": {joined(stateLayer(false, 1, 8, 8)), true, 1}, "one node, hidden in a group": {joined(some), false, 0},
	} {
		m, err := read(c.file.Marshal())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		l, err := m.State()
		if err != nil || !m.HasState() {
			t.Fatalf("%s: %v, has a state %v", name, err, m.HasState())
		}
		if l.Hidden != 32 || l.K.Type != axcl.BF16 || l.K.Size != 48*3*2 || l.V.Type != axcl.FP32 || l.V.Size != 2*8*8*4 ||
			!slices.Equal(l.Rows, []int{1, 8, 8}) || l.Listed != c.listed || l.Pos != c.pos || l.Bytes() != 288+512 {
			t.Errorf("%s: %+v", name, l)
		}
		if _, err := m.Layer(); err == nil {
			t.Errorf("%s: passes for a layer of attention", name)
		}
	}
	m, err := read(axmodeltest.VendorLayer(32, 16, 1, 0, axcl.Group{Rows: 1, Cells: 63}, axcl.Group{Rows: 8, Cells: 8}).Marshal())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.State(); err == nil || m.HasState() {
		t.Error("a layer of attention, one of whose groups gives as many rows as it looks back on, passes for one with a state")
	}
}

// stateLayer is a layer with a state of two types, with a decode group and prefill groups of 8
// rows.
func stateLayer(hidden bool, rows ...int) axmodeltest.ONNX {
	return axmodeltest.VendorState(32, 10, axcl.Tensor{Type: axcl.BF16, Shape: []int{1, 48, 3}},
		axcl.Tensor{Type: axcl.FP32, Shape: []int{1, 2, 8, 8}}, hidden, rows...)
}

// What no state can be is refused by name, and nothing is made as large as a file says.
func TestStateErrors(t *testing.T) {
	in := func(g, i int, shape ...int) func(*axmodeltest.ONNX) {
		return func(o *axmodeltest.ONNX) { o.Groups[g].Inputs[i].Shape = shape }
	}
	for name, c := range map[string]struct {
		change func(*axmodeltest.ONNX)
		want   string
	}{
		"another state goes out": {func(o *axmodeltest.ONNX) { o.Groups[1].Outputs[1].Shape = []int{1, 2, 8, 4} },
			`group 1: "V_cache" is fp32 [1 2 8 8] of 512 bytes and "V_cache_out" fp32 [1 2 8 4] of 256`},
		"another type goes out": {func(o *axmodeltest.ONNX) { o.Groups[0].Outputs[0].Type = axcl.FP16 }, `"K_cache_out" fp16`},
		"a state of 2 GB": {func(o *axmodeltest.ONNX) {
			for g := range o.Groups {
				o.Groups[g].Inputs[1].Shape, o.Groups[g].Outputs[1].Shape = []int{1, 32, 4096, 4096}, []int{1, 32, 4096, 4096}
			}
		}, `"V_cache" has 2147483648 bytes, a state has at most`},
		"a state that shrinks": {func(o *axmodeltest.ONNX) {
			o.Groups[2].Inputs[1].Shape, o.Groups[2].Outputs[1].Shape = []int{1, 2, 8, 4}, []int{1, 2, 8, 4}
		}, `group 2: "V_cache" is fp32 [1 2 8 4] of 256 bytes, in group 0 fp32 [1 2 8 8] of 512`},
		"a mask over the cache": {in(1, 4, 1, 8, 16), `"mask"`},
		"a mask of float32":     {func(o *axmodeltest.ONNX) { o.Groups[0].Inputs[4].Type = axcl.FP32 }, `"mask" is fp32`},
		"two positions":         {in(1, 3, 2, 8), `"indices"`},
		"hidden disagrees": {func(o *axmodeltest.ONNX) {
			o.Groups[1].Inputs[2].Shape, o.Groups[1].Outputs[2].Shape = []int{1, 8, 31}, []int{1, 8, 31}
		}, "31"},
		"rows that vanish": {func(o *axmodeltest.ONNX) { o.Groups[1].Outputs[2].Shape = []int{1, 7, 32} }, `"output"`},
		"no state goes out": {func(o *axmodeltest.ONNX) {
			for g := range o.Groups {
				o.Groups[g].Outputs = slices.Delete(o.Groups[g].Outputs, 0, 1)
			}
		}, `"K_cache_out"`},
	} {
		o := stateLayer(false, 1, 8, 8)
		c.change(&o)
		m, err := read(o.Marshal())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		l, err := m.State()
		var e *axmodel.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v", name, l, err)
		}
	}
}

// Beside layers of attention, one with a state may have fewer groups: the last of its own serves.
// What takes other rows does not fit.
func TestStateFits(t *testing.T) {
	full := func(groups ...axcl.Group) (l axmodel.LayerShape) {
		l.Hidden = 32
		for _, g := range groups {
			l.Groups = append(l.Groups, axmodel.LayerGroup{Group: g, Cache: g.Cells})
		}
		return l
	}
	ladder := full(axcl.Group{Rows: 1, Cells: 255}, axcl.Group{Rows: 8}, axcl.Group{Rows: 8, Cells: 8}, axcl.Group{Rows: 8, Cells: 16},
		axcl.Group{Rows: 1, Cells: 511})
	for name, c := range map[string]struct {
		rows   []int
		full   axmodel.LayerShape
		beside []int
		want   string
	}{
		"as many":      {[]int{1, 8, 8, 8, 1}, ladder, []int{0, 1, 2, 3, 4}, ""},
		"fewer":        {[]int{1, 8, 8}, ladder, []int{0, 1, 2, 2, 0}, ""},
		"one of each":  {[]int{8, 1}, ladder, []int{1, 0, 0, 0, 1}, ""},
		"row by row":   {[]int{1}, ladder, []int{0, -1, -1, -1, 0}, ""},
		"no decode":    {[]int{8, 8}, ladder, nil, "no group of one row"},
		"other rows":   {[]int{1, 16}, ladder, nil, "takes 16 rows"},
		"another half": {[]int{1, 8, 16}, ladder, nil, "group 2 takes 16 rows"},
		"history that shrinks": {[]int{1, 8, 8}, full(axcl.Group{Rows: 1, Cells: 255}, axcl.Group{Rows: 8, Cells: 16},
			axcl.Group{Rows: 8, Cells: 8}), nil, "do not grow"},
	} {
		l := axmodel.LinearShape{Hidden: 32, Rows: c.rows}
		err := l.Fits(c.full)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for g, want := range c.beside {
			if got := l.Beside(c.full, g); got != want {
				t.Errorf("%s: beside group %d runs %d, want %d", name, g, got, want)
			}
		}
	}
	if err := (axmodel.LinearShape{Hidden: 31, Rows: []int{1}}).Fits(ladder); err == nil {
		t.Error("another hidden size fits")
	}
}
