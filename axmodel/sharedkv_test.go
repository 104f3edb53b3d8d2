package axmodel_test

import (
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
)

// Layers that share K and V say of which; sharing that points forward, at nothing, or at other rows
// is refused.
func TestSharingLayers(t *testing.T) {
	x := func(name string, typ axcl.Type, shape ...int) axcl.Tensor {
		n := 2
		if typ == axcl.Uint32 {
			n = 4
		}
		for _, d := range shape {
			n *= d
		}
		return axcl.Tensor{Name: name, Type: typ, Shape: shape, Size: n}
	}
	layer := func(kv, cache, inputs int) *axmodel.Meta {
		return &axmodel.Meta{Groups: []axmodel.GroupMeta{{
			Inputs: []axcl.Tensor{x("input", axcl.BF16, 1, 1, 8), x("indices", axcl.Uint32, 1, 1), x("mask", axcl.BF16, 1, 1, 33),
				x("K_cache", axcl.BF16, 1, cache, kv), x("V_cache", axcl.BF16, 1, cache, kv),
				x("per_layer_input", axcl.BF16, 1, 1, inputs)},
			Outputs: []axcl.Tensor{x("K_cache_out", axcl.BF16, 1, 1, kv), x("V_cache_out", axcl.BF16, 1, 1, kv),
				x("output", axcl.BF16, 1, 1, 8)}}}}
	}
	own, wide, shares := layer(4, 32, 6), layer(8, 32, 6), layer(4, 33, 6)
	for _, tt := range []struct {
		name   string
		layers []*axmodel.Meta
		source []int
		want   string
	}{
		{"both widths", []*axmodel.Meta{own, wide, shares, layer(8, 33, 6)}, []int{0, 1, 0, 1}, ""},
		{"forward", []*axmodel.Meta{own, shares, own}, []int{0, 2, 2}, "only a layer before it"},
		{"below nothing", []*axmodel.Meta{own, shares}, []int{0, -1}, "only a layer before it"},
		{"one that has none", []*axmodel.Meta{own, shares, shares}, []int{0, 0, 1}, "has none of its own"},
		{"another width", []*axmodel.Meta{own, wide, shares}, []int{0, 1, 1}, "takes K and V of 4 values, layer 1, whose they are, has 8"},
		{"no room behind", []*axmodel.Meta{own, own}, []int{0, 0}, "the cache has 32 where 33 belong"},
		{"room behind, and none shared", []*axmodel.Meta{own, shares}, nil, "the cache has 33 where 32 belong"},
		{"other layer inputs", []*axmodel.Meta{own, layer(4, 32, 7)}, nil, "does not belong"},
	} {
		var d axmodel.Layers
		var err error
		for _, m := range tt.layers {
			if err == nil {
				err = d.AddOf(m, tt.source)
			}
		}
		if err != nil || tt.want != "" {
			if err == nil || tt.want == "" || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
			}
			continue
		}
		s, err := d.Shape(0)
		if err != nil || s.Shared != 2 || s.LayerInputs != 6 || s.KV != 8 || s.Kept != 12 || s.RowBytes() != 48 {
			t.Errorf("%s: %+v, %v", tt.name, s, err)
		}
	}
	// A state has no K and V to share.
	d := axmodel.Layers{Linear: []bool{true}, Widths: []int{0}, Source: []int{0}}
	if err := d.AddSharing(shares, 0); err == nil || !strings.Contains(err.Error(), "keeps a state") {
		t.Error(err)
	}
}

// A software layer with layer inputs or shared K and V whose sizes do not fit is refused.
func TestSoftLayerInputs(t *testing.T) {
	h := axmodel.Header{Kind: axmodel.Layer, Flags: axmodel.FlagShapeOnly | axmodel.FlagGemma | axmodel.FlagGemma4 | axmodel.FlagShares,
		Hidden: 8, Heads: 2, KVHeads: 1, HeadDim: 4, Intermediate: 8, Out: 6, Pos: 1}
	groups := []axmodel.SoftGroup{{Rows: 1, Cells: 32, Cache: 33}, {Rows: 4, Cells: 0, Cache: 4}}
	for name, c := range map[string]struct {
		change func(h *axmodel.Header, g []axmodel.SoftGroup)
		want   string
	}{
		"good":             {func(*axmodel.Header, []axmodel.SoftGroup) {}, ""},
		"no layer inputs":  {func(h *axmodel.Header, _ []axmodel.SoftGroup) { h.Out = 0 }, "has layer inputs of 0 values"},
		"other norms":      {func(h *axmodel.Header, _ []axmodel.SoftGroup) { h.Flags &^= axmodel.FlagGemma }, "with flags"},
		"a gate":           {func(h *axmodel.Header, _ []axmodel.SoftGroup) { h.Flags |= axmodel.FlagGate }, "shares the K and V"},
		"no room behind":   {func(_ *axmodel.Header, g []axmodel.SoftGroup) { g[0].Cache = 32 }, "its cache has 32"},
		"a dummy":          {func(_ *axmodel.Header, g []axmodel.SoftGroup) { g[1].Cache = 1 }, "its cache has 1"},
		"a head that does": {func(h *axmodel.Header, _ []axmodel.SoftGroup) { h.Kind, h.Out = axmodel.Affine, 4 }, "claims to be a layer"},
		"a cap of nothing": {func(h *axmodel.Header, _ []axmodel.SoftGroup) {
			h.Kind, h.Flags, h.Scale = axmodel.Head, axmodel.FlagShapeOnly, -1
		}, "capped at -1"},
	} {
		h, g := h, append([]axmodel.SoftGroup(nil), groups...)
		c.change(&h, g)
		var b strings.Builder
		err := axmodel.Write(&b, h, g, nil)
		if c.want == "" && err == nil {
			m, err := axmodel.Read(strings.NewReader(b.String()), int64(b.Len()))
			if err != nil {
				t.Fatal(err)
			}
			if l, err := m.SharingLayer(); err != nil || l.LayerInputs != 6 || l.Cells != 32 || l.Groups[1].Cache != 4 {
				t.Errorf("%+v, %v", l, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
