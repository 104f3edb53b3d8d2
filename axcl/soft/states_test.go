package soft_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/axmodel"
)

func TestStatesShape(t *testing.T) {
	m, err := loadStates(t, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	y := axcltest.DefaultStates()
	channels := 2*y.KVHeads*y.HD + y.ValueHeads*y.ValueDim
	state := 2 * 4 * (channels*3 + y.ValueHeads*y.HD*y.ValueDim)
	s := m.Shape()
	if s.Layers != 4 || s.Linear != 2 || s.State != state || s.Slots != axcl.DefaultSlots || s.RowBytes() != 2*y.KVHeads*y.HD*4 {
		t.Errorf("%+v, a state is %d bytes", s, state)
	}
	more, err := loadStates(t, nil, func(s *axcl.LoadSpec) { s.Slots = 5 })
	if err != nil || more.Shape().Slots != 5 || more.Shape().Bytes-s.Bytes != int64(3*state) {
		t.Errorf("%+v, %v", more.Shape(), err)
	}
}

func loadStates(t *testing.T, change func(y *axcltest.Tiny), spec func(s *axcl.LoadSpec)) (axcl.Model, error) {
	t.Helper()
	y := axcltest.DefaultStates()
	y.ShapeOnly = true
	if change != nil {
		change(&y)
	}
	s, err := y.Write(t.TempDir(), "tiny")
	if err != nil {
		t.Fatal(err)
	}
	if spec != nil {
		spec(&s)
	}
	d, err := soft.Open(soft.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return axcl.Load(context.Background(), d, s)
}

// A part of a model with recurrent layers only takes cells and groups from the layers
// beside it.
func TestStatesBeside(t *testing.T) {
	if _, err := loadStates(t, nil, func(s *axcl.LoadSpec) { s.Layers = s.Layers[:1] }); !errors.Is(err, axcl.ErrModel) ||
		!strings.Contains(err.Error(), "every layer keeps a state") {
		t.Errorf("alone: %v", err)
	}
	m, err := loadStates(t, nil, func(s *axcl.LoadSpec) { s.Beside = s.Layers; s.Layers = s.Layers[:1] })
	if err != nil {
		t.Fatal(err)
	}
	whole, err := loadStates(t, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, w := m.Shape(), whole.Shape()
	if s.Layers != 1 || s.Linear != 1 || s.State*2 != w.State || s.Cells != w.Cells || s.KV != w.KV || len(s.Groups) != len(w.Groups) ||
		s.RowBytes() != 0 {
		t.Errorf("%+v", s)
	}
}

func TestStatesBad(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(y *axcltest.Tiny)
		slots  int
		want   string
	}{
		{"no slots", nil, -1, "-1 slots for states"},
		{"too many slots", nil, 1 << 20, "1048576 slots"},
		{"no group of one row", func(y *axcltest.Tiny) { y.Linear = []axmodel.SoftGroup{{Rows: 16}} }, 0, "no group of one row"},
	} {
		_, err := loadStates(t, tt.change, func(s *axcl.LoadSpec) { s.Slots = tt.slots })
		if !errors.Is(err, axcl.ErrModel) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// Slots are memory: what is put in comes out, of any part.
func TestStatesSaved(t *testing.T) {
	m, err := loadStates(t, nil, func(s *axcl.LoadSpec) { s.Slots = 3 })
	if err != nil {
		t.Fatal(err)
	}
	n := m.Shape().State
	a, got := make([]byte, n), make([]byte, n)
	for i := range a {
		a[i] = byte(i*7 + i>>8)
	}
	if err := errors.Join(m.RestoreState(2, 0, a[:100]), m.RestoreState(2, 100, a[100:]), m.SaveState(2, 0, got[:7]),
		m.SaveState(2, 7, got[7:])); err != nil || !bytes.Equal(a, got) {
		t.Fatalf("another state comes out than went in (%v)", err)
	}
	if err := m.SaveState(1, 0, got); err != nil || !bytes.Equal(got, make([]byte, n)) {
		t.Errorf("slot 1 is not as it was (%v)", err)
	}
	for i, err := range []error{m.SaveState(0, 0, got), m.RestoreState(4, 0, got), m.SaveState(1, 1, got)} {
		if !errors.Is(err, axcl.ErrPass) {
			t.Errorf("bad call %d: %v", i, err)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	for i, err := range []error{m.SaveState(1, 0, got), m.RestoreState(1, 0, got)} {
		if !errors.Is(err, axcl.ErrClosed) {
			t.Errorf("call %d after close: %v", i, err)
		}
	}
}
