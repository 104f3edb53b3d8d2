package axmodel_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axmodel"
)

// A model that sees takes three positions a row in its prefill groups and one in its decode group,
// as the vendor's do: it is one of three.
func TestOnePosition(t *testing.T) {
	//proves:G21
	h := axmodel.Header{Kind: axmodel.Layer, Flags: axmodel.FlagOnePos | axmodel.FlagShapeOnly,
		Hidden: 32, Heads: 2, KVHeads: 1, HeadDim: 16,
		Intermediate: 24, Rotary: 16, Magnitude: 1, Scale: 1, Pos: 3}
	read := func(h axmodel.Header) (*axmodel.Meta, error) {
		var b bytes.Buffer
		if err := axmodel.Write(&b, h, axmodel.Ladder(64, 8, []int{0, 16}), nil); err != nil {
			return nil, err
		}
		return axmodel.Read(bytes.NewReader(b.Bytes()), int64(b.Len()))
	}
	m, err := read(h)
	if err != nil {
		t.Fatal(err)
	}
	l, err := m.Layer()
	if err != nil || l.Pos != 3 || l.Shape().Pos != 3 || l.Groups[0].Pos != 1 || l.Groups[1].Pos != 3 {
		t.Fatalf("%+v, %v", l, err)
	}
	if in := m.Groups[0].Input("indices"); !slices.Equal(in.Shape, []int{1, 1}) {
		t.Errorf("a decode group's indices are %v", in.Shape)
	}
	// The other way round, or one group of several rows apart from the others, nothing can be made
	// of a picture's rows.
	m.Groups[0], m.Groups[1] = with(m.Groups[0], 3), with(m.Groups[1], 1)
	if _, err := m.Layer(); err == nil || !strings.Contains(err.Error(), "a row has 1 positions, and 3 there") {
		t.Error(err)
	}
	h.Pos = 1
	if _, err := read(h); err == nil || !strings.Contains(err.Error(), "one in place of three") {
		t.Error(err)
	}
}

// with is a group whose indices have pos lines.
func with(g axmodel.GroupMeta, pos int) axmodel.GroupMeta {
	g.Inputs = slices.Clone(g.Inputs)
	for i := range g.Inputs {
		if in := &g.Inputs[i]; in.Name == "indices" {
			in.Shape = []int{pos, in.Shape[1]}
			in.Size = 4 * pos * in.Shape[1]
		}
	}
	return g
}
