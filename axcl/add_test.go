package axcl

import (
	"math"
	"slices"
	"testing"
)

func TestCheckAdd(t *testing.T) {
	s := testShape()
	for _, tt := range []struct {
		name  string
		add   []Addition
		added int
		want  string // empty: good
	}{
		{"none", nil, 0, ""},
		{"one", []Addition{{1, 2}}, 4, ""},
		{"several", []Addition{{0, 0}, {0, 2}, {1, 0}, {1, 1}}, 16, ""},
		{"values without a place", nil, 4, "4 values for 0 additions of 4"},
		{"a place without values", []Addition{{0, 0}}, 0, "0 values for 1 additions of 4"},
		{"a value short", []Addition{{0, 0}, {1, 0}}, 7, "7 values for 2 additions of 4"},
		{"past the last layer", []Addition{{2, 0}}, 4, "after layer 2 of 2"},
		{"far past the last layer", []Addition{{1 << 31, 0}}, 4, "after layer 2147483648 of 2"},
		{"past the last row", []Addition{{0, 3}}, 4, "to row 3 of 3"},
		{"twice", []Addition{{0, 1}, {0, 1}}, 8, "got layer 0, row 1 after layer 0, row 1"},
		{"rows descend", []Addition{{0, 1}, {0, 0}}, 8, "must ascend"},
		{"layers descend", []Addition{{1, 0}, {0, 1}}, 8, "must ascend"},
	} {
		p := testPass(s)
		p.Add, p.Added = tt.add, make([]uint16, tt.added)
		if err := p.Check(s); !told(err, tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestSplitAdd(t *testing.T) {
	p := &Pass{Add: []Addition{{0, 4}, {2, 1}, {2, 3}, {3, 1}}, Added: []uint16{10, 11, 20, 21, 30, 31, 40, 41}}
	for _, tt := range []struct {
		from, to int
		add      []Addition
		added    []uint16
	}{
		{0, 4, p.Add, p.Added},
		{0, 1, []Addition{{0, 4}}, []uint16{10, 11}},
		{1, 3, []Addition{{1, 1}, {1, 3}}, []uint16{20, 21, 30, 31}},
		{3, 9, []Addition{{0, 1}}, []uint16{40, 41}},
		{1, 2, nil, nil},
	} {
		add, added := p.SplitAdd(make([]Addition, 1), tt.from, tt.to)
		if !slices.Equal(add, tt.add) || !slices.Equal(added, tt.added) || (add == nil) != (tt.add == nil) {
			t.Errorf("layers %d to %d: %v, %v", tt.from, tt.to, add, added)
		}
	}
	if add, added := (&Pass{}).SplitAdd(nil, 0, 2); add != nil || added != nil {
		t.Errorf("of nothing: %v, %v", add, added)
	}
}

func TestSum(t *testing.T) {
	nan := float32(math.NaN())
	for _, tt := range []struct{ a, b, want float32 }{
		{1, 0.005, 1.0078125},         // what is added is a bf16 itself, and the sum is rounded to the nearest
		{-3.25, 0.1, -3.15625},        // the same
		{1, 1.0 / 256, 1},             // a tie goes to the even one, down
		{1.0078125, 1. / 256, 1.0156}, // and up
		{0, 0, 0}, {3, -3, 0}, {1e38, 3e38, float32(math.Inf(1))},
	} {
		if got, want := Sum(BFloat16(tt.a), BFloat16(tt.b)), BFloat16(tt.want); got != want {
			t.Errorf("%v + %v = %v, want %v", tt.a, tt.b, Float32(got), Float32(want))
		}
	}
	if got := Sum(BFloat16(1), BFloat16(nan)); got&0x7fff <= 0x7f80 {
		t.Errorf("1 + NaN = %04x", got)
	}
}
