package engine

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/soft"
)

// TestSplitAdd: what is added to rows between layers is added on the card that has the layer.
func TestSplitAdd(t *testing.T) {
	y := axcltest.DefaultTiny()
	y.Layers = 5
	spec, err := y.Write(t.TempDir(), "tiny")
	if err != nil {
		t.Fatal(err)
	}
	one, err := soft.Open(soft.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	var under []*Card
	for range 2 {
		c, err := OpenCard(func() (axcl.Device, string, error) {
			d, err := soft.Open(soft.Options{Threads: 1, CMM: 8 << 20})
			return d, "test", err
		}, CardOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		under = append(under, c)
	}
	both, err := Join(under...)
	if err != nil {
		t.Fatal(err)
	}
	defer both.Close()
	run := func(d axcl.Device, add []axcl.Addition) []uint16 {
		m, err := axcl.Load(context.Background(), d, spec)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		s := m.Shape()
		p := &axcl.Pass{Hidden: axcltest.Rows(1, 3, s.Hidden), Pos: []uint32{0, 1, 2}, Cell: []uint32{0, 1, 2},
			SeeCells: make([]uint64, 3*axcl.Words(s.Cells)), SeeRows: []uint64{0, 1, 3}, Want: []int{2}, Logits: make([]uint16, s.Out),
			Add: add, Added: axcltest.Rows(2, len(add), s.Hidden)}
		if err := m.Run(p); err != nil {
			t.Fatal(err)
		}
		return p.Logits
	}
	path := filepath.Join(t.TempDir(), "affine.axmodel")
	if _, _, err := axcltest.WriteAffine(path, 1, 3, 2); err != nil {
		t.Fatal(err)
	}
	var outs [][]byte
	for _, d := range []axcl.Device{one, both} {
		n, err := d.LoadNet(path)
		if err != nil {
			t.Fatal(err)
		}
		in, out := make([]byte, n.Inputs(0)[0].Size), make([]byte, n.Outputs(0)[0].Size)
		in[3] = 0x40
		if err := n.Run(0, map[string][]byte{n.Inputs(0)[0].Name: in}, map[string][]byte{n.Outputs(0)[0].Name: out}); err != nil {
			t.Error(err)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		outs = append(outs, out)
	}
	if !slices.Equal(outs[0], outs[1]) {
		t.Error("a single model gives something else on one of two cards")
	}
	plain := run(one, nil)
	for _, add := range [][]axcl.Addition{
		nil,
		{{Layer: 0, Row: 1}, {Layer: 1, Row: 0}, {Layer: 2, Row: 2}, {Layer: 3, Row: 1}, {Layer: 3, Row: 2}, {Layer: 4, Row: 0}},
		{{Layer: 4, Row: 2}},
		{{Layer: 2, Row: 0}},
	} {
		want, got := run(one, add), run(both, add)
		if !slices.Equal(got, want) {
			t.Errorf("%v: other logits on two cards than on one", add)
		}
		if len(add) > 1 && slices.Equal(want, plain) {
			t.Errorf("%v: changes nothing", add)
		}
	}
}

// TestSplitNets: single models and the buffers they are bound to are used through joined cards as
// on one.
func TestSplitNets(t *testing.T) {
	checkJoined(t, "net", "net of operations", "layer as a net", "buffers")
}

// TestSplitHead: rows go through the head of a model that is split, on the card that has it, as on
// one card.
func TestSplitHead(t *testing.T) {
	checkJoined(t, "rows through the head alone")
}

// checkJoined makes the named checks of the conformance suite on two cards that are joined.
func checkJoined(t *testing.T, names ...string) {
	t.Helper()
	checks := axcltest.Checks(axcltest.Options{Open: func() (axcl.Device, error) {
		var under []*Card
		for range 2 {
			c, err := OpenCard(func() (axcl.Device, string, error) {
				d, err := soft.Open(soft.Options{Threads: 1})
				return d, "test", err
			}, CardOptions{})
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() { _ = c.Close() })
			under = append(under, c)
		}
		return Join(under...)
	}})
	made := 0
	for _, c := range checks {
		if slices.Contains(names, c.Name) {
			made++
			t.Run(c.Name, func(t *testing.T) { c.Run(t) })
		}
	}
	if made != len(names) {
		t.Errorf("%d checks of %d", made, len(names))
	}
}
