package axmodel_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
)

// A whole decoder in one file is read by its tensors: how many layers, rows and tokens, and whether the caches come out whole.
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
		d.Groups[1] != (axmodel.DecoderGroup{Rows: 8, Cells: 63, Wanted: 8, Pos: "indices", Mask: "mask"}) {
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
	other := d
	other.Layers++
	if d.Fits(d) != nil || d.Fits(other) == nil {
		t.Error("files of other layers fit, or the same do not")
	}
}
