package axmodel_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
)

// A whole decoder in one file is read by its tensors: how many layers, rows and tokens, and whether
// the caches come out whole.
func TestDecoder(t *testing.T) {
	m, err := read(axmodeltest.VendorDecoder(32, 3, 16, 63, 100, false, 1, 8).Marshal())
	if err != nil {
		t.Fatal(err)
	}
	d, err := m.Decoder()
	if err != nil || !m.IsDecoder() {
		t.Fatalf("%v, a decoder %v", err, m.IsDecoder())
	}
	if d.Hidden != 32 || d.Layers != 3 || d.KV != 16 || d.Cells != 63 || d.Out != 100 || d.Cache != axcl.BF16 || len(d.Groups) != 2 ||
		d.Groups[0] != (axmodel.DecoderGroup{Rows: 1, Cells: 63, Wanted: 1, Pos: "indices", Mask: "mask"}) ||
		d.Groups[1] != (axmodel.DecoderGroup{Rows: 8, Cells: 63, Wanted: 8, Pos: "indices", Mask: "mask", At: 1}) {
		t.Errorf("%+v", d)
	}
	if _, err := m.Layer(); err == nil || m.HasState() {
		t.Error("a whole decoder passes for a layer")
	}
	whole := axmodeltest.VendorDecoder(32, 3, 16, 63, 100, true, 1)
	whole.Groups[0].Inputs = whole.Groups[0].Inputs[:3]
	if m, err = read(whole.Marshal()); err != nil {
		t.Fatal(err)
	}
	if d, err := m.Decoder(); err != nil || !d.Groups[0].Whole || d.Groups[0].Pos != "" || d.Groups[0].Mask != "" {
		t.Errorf("%+v, %v", d, err)
	}
	for name, c := range map[string]struct {
		change func(o *axmodeltest.ONNX)
		want   string
	}{
		"no logits":        {func(o *axmodeltest.ONNX) { o.Groups[0].Outputs = o.Groups[0].Outputs[1:] }, `"logits"`},
		"caches flat":      {func(o *axmodeltest.ONNX) { o.Groups[0].Inputs[1].Shape = []int{3 * 63, 16} }, "layers × rows × values"},
		"other layers out": {func(o *axmodeltest.ONNX) { o.Groups[0].Outputs[1].Shape = []int{1, 2, 63, 16} }, "V"},
		"K unlike V":       {func(o *axmodeltest.ONNX) { o.Groups[0].Inputs[2].Shape = []int{1, 3, 62, 16} }, "V bf16 [1 3 62 16]"},
		"integers":         {func(o *axmodeltest.ONNX) { o.Groups[0].Inputs[0].Type = axcl.Int8 }, `"input_embeds" is int8`},
		"more layers than there are": {func(o *axmodeltest.ONNX) {
			for _, ts := range [][]axcl.Tensor{o.Groups[0].Inputs[1:3], o.Groups[0].Outputs[1:]} {
				for i := range ts {
					ts[i].Shape = []int{1, 1 << 20, 63, 16}
				}
			}
		}, "layers × rows × values"},
	} {
		o := axmodeltest.VendorDecoder(32, 3, 16, 63, 100, true, 1)
		c.change(&o)
		m, err := read(o.Marshal())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		d, err := m.Decoder()
		var e *axmodel.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
	more := d
	if err := more.Add(d); err != nil || more.Groups[2].File != 1 || more.Groups[3].At != 1 {
		t.Errorf("%+v, %v", more.Groups, err)
	}
	more.Groups[1].Why = "cannot"
	if s, run, err := more.Plan(); err != nil || !slices.Equal(run, []int{0, 2, 3}) || !s.Whole || s.Layers != 3 || s.Cells != 63 ||
		s.Piece != axcl.PieceCells(s) {
		t.Errorf("%+v, groups %v, %v", s, run, err)
	}
	other := d
	other.Layers++
	if d.Fits(d) != nil || d.Fits(other) == nil {
		t.Error("files of other layers fit, or the same do not")
	}
}

// The software card's whole decoder holds complete models. Parts that lie elsewhere, or do not
// belong together, are refused with one error.
func TestDecoderParts(t *testing.T) {
	h := axmodel.Header{Kind: axmodel.Layer, Hidden: 8, Heads: 2, KVHeads: 1, HeadDim: 4, Intermediate: 16, Eps: 1e-6, Scale: 0.5, Pos: 1}
	groups := axmodel.Ladder(15, 4, []int{15})
	part := func(change func(h *axmodel.Header), groups []axmodel.SoftGroup) axmodel.SoftPart {
		h := h
		change(&h)
		p := axmodel.SoftPart{Header: h, Groups: groups}
		for _, e := range h.Wants() {
			p.Tensors = append(p.Tensors, axmodel.Matrix(e.Name, axmodel.F32, e.Rows, e.Cols, make([]float32, e.Rows*e.Cols)))
		}
		return p
	}
	layer := part(func(*axmodel.Header) {}, groups)
	head := part(func(h *axmodel.Header) { *h = axmodel.Header{Kind: axmodel.Head, Hidden: 8, Out: 5, Pos: 1} },
		[]axmodel.SoftGroup{{Rows: 1}})
	whole := axmodel.Header{Kind: axmodel.Decoder, Hidden: 8, KVHeads: 1, HeadDim: 4, Out: 5, Pos: 1}
	var b bytes.Buffer
	if err := axmodel.WriteDecoder(&b, whole, groups, []axmodel.SoftPart{layer, layer, head}); err != nil {
		t.Fatal(err)
	}
	if int64(b.Len()) != axmodel.DecoderSize(groups, []axmodel.SoftPart{layer, layer, head}) {
		t.Errorf("%d bytes were written", b.Len())
	}
	m, err := read(b.Bytes())
	if err != nil || len(m.Soft.Parts) != 3 || !m.IsDecoder() {
		t.Fatalf("%+v, %v", m, err)
	}
	if d, err := m.Decoder(); err != nil || d.Layers != 2 || d.Groups[1].Wanted != 4 || d.Groups[1].Why != "" {
		t.Errorf("%+v, %v", d, err)
	}
	const entry = 192 + 2*16 // of the first part
	first := int(m.Soft.Parts[0].Offset)
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"off the grid":      {patch(b.Bytes(), entry+40, uint64(first+1)), "part 0"},
		"past the end":      {patch(b.Bytes(), entry+40, uint64(1)<<40), "does not lie within"},
		"longer than it is": {patch(b.Bytes(), entry+48, uint64(b.Len())), "does not lie within"},
		"length overflows":  {patch(b.Bytes(), entry+48, ^uint64(0)), "does not lie within"},
		"empty":             {patch(b.Bytes(), entry+48, uint64(0)), "part 0 is no model"},
		"itself":            {patch(b.Bytes(), first+12, uint32(axmodel.Decoder)), "a whole decoder again"},
		"not a model":       {patch(b.Bytes(), first, []byte("AXLESOFA")), "part 0 is no model"},
		"another hidden":    {patch(b.Bytes(), 48, uint32(16)), "does not belong in a whole decoder"},
		"more tokens":       {patch(b.Bytes(), 68, uint32(6)), "the head of a whole decoder"},
		"shape-only":        {patch(b.Bytes(), 40, uint32(64)), "flags 0x40"},
		"a head alone":      {patch(b.Bytes(), 20, uint32(1)), "1 parts"},
		"a part cut":        {patch(b.Bytes(), first+24, uint64(64)), "part 0 is longer"},
	} {
		m, err := read(c.b)
		var e *axmodel.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v, want %q", name, m, err, c.want)
		}
	}
	for name, parts := range map[string][]axmodel.SoftPart{"no head": {layer, layer}, "no layer": {head, head}, "nothing": nil,
		"other groups": {part(func(*axmodel.Header) {}, groups[:1]), head}} {
		if err := axmodel.WriteDecoder(io.Discard, whole, groups, parts); err == nil {
			t.Errorf("%s was written", name)
		}
	}
}
