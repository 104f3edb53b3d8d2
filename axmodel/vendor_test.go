package axmodel_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
)

func TestVendorLayer(t *testing.T) {
	groups := []axcl.Group{{Rows: 1, Cells: 2559}, {Rows: 128, Cells: 0}, {Rows: 128, Cells: 256}, {Rows: 128, Cells: 512}}
	path := filepath.Join(t.TempDir(), "l.axmodel")
	b := axmodeltest.VendorLayer(2560, 1024, 1, 100_000, groups...).Marshal()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := axmodel.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !m.Vendor || m.Tool != "Pulsar2 1.6 d9911bc5" || m.WeightBytes != 100_000 || m.FileBytes != int64(len(b)) {
		t.Errorf("meta %+v", m)
	}
	l, err := m.Layer()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(groups, l.Shape().Groups); d != "" || l.Hidden != 2560 || l.KV != 1024 || l.Cells != 2559 || l.Pos != 1 ||
		l.Groups[1].Cache != 1 || l.Groups[2].Cache != 256 {
		t.Errorf("layer %+v\n%s", l, d)
	}
	if g := m.Groups[2]; g.RawInputs[4] != "mask_2" || g.Inputs[4].Name != "mask" {
		t.Errorf("names %q, %q", g.RawInputs, g.Inputs[4].Name)
	}
}

func read(b []byte) (*axmodel.Meta, error) { return axmodel.Read(bytes.NewReader(b), int64(len(b))) }

// A model's groups may come in one node, in no node, or with the nodes out of order.
func TestVendorGroupsAnyNodes(t *testing.T) {
	groups := []axcl.Group{{Rows: 1, Cells: 255}, {Rows: 16, Cells: 0}, {Rows: 16, Cells: 16}}
	base := axmodeltest.VendorLayer(32, 16, 3, 10, groups...)
	one := base
	one.Groups = []axmodeltest.ONNXGroup{{}}
	for _, g := range base.Groups {
		one.Groups[0].Inputs = append(one.Groups[0].Inputs, g.Inputs...)
		one.Groups[0].Outputs = append(one.Groups[0].Outputs, g.Outputs...)
	}
	turned := base
	turned.Groups = []axmodeltest.ONNXGroup{base.Groups[2], base.Groups[0], base.Groups[1]}
	for name, o := range map[string]axmodeltest.ONNX{"as written": base, "one node": one, "out of order": turned} {
		m, err := read(o.Marshal())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		l, err := m.Layer()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d := cmp.Diff(groups, l.Shape().Groups); d != "" || l.Pos != 3 {
			t.Errorf("%s: %+v\n%s", name, l, d)
		}
	}
}

func TestVendorHead(t *testing.T) {
	for _, argmax := range []bool{false, true} {
		m, err := read(axmodeltest.VendorHead(64, 1000, 5, axcl.FP32, argmax).Marshal())
		if err != nil {
			t.Fatal(err)
		}
		h, err := m.Head()
		if err != nil {
			t.Fatal(err)
		}
		if h.Hidden != 64 || h.Out != 1000 || h.Type != axcl.FP32 || h.Argmax != argmax || h.Output != "output" {
			t.Errorf("head %+v", h)
		}
		if _, err := m.Layer(); err == nil {
			t.Error("a head passes for a layer")
		}
	}
}
