package axcl

import (
	"errors"
	"strings"
	"testing"
)

func TestPassCheck(t *testing.T) {
	s := testShape()
	tests := []struct {
		name   string
		change func(p *Pass)
		want   string // empty: the pass is good
	}{
		{"good", func(p *Pass) {}, ""},
		{"only argmax", func(p *Pass) { p.Logits = nil }, ""},
		{"only logits", func(p *Pass) { p.Argmax = nil }, ""},
		{"nothing wanted", func(p *Pass) { p.Want, p.Logits, p.Argmax, p.HiddenOut = nil, nil, nil, nil }, ""},
		{"no rows", func(p *Pass) { *p = Pass{} }, "no rows"},
		{"too many rows", func(p *Pass) { p.Cell = make([]uint32, 9) }, "9 rows, the model takes at most 8"},
		{"hidden short", func(p *Pass) { p.Hidden = p.Hidden[1:] }, "11 hidden values for 3 rows of 4"},
		{"positions short", func(p *Pass) { p.Pos = p.Pos[:2] }, "2 positions for 3 rows of 1"},
		{"cells' words", func(p *Pass) { p.SeeCells = p.SeeCells[:5] }, "5 words of visible cells for 3 rows of 2"},
		{"rows' words", func(p *Pass) { p.SeeRows = p.SeeRows[:2] }, "2 words of visible rows for 3 rows of 1"},
		{"logits' room", func(p *Pass) { p.Logits = p.Logits[:9] }, "room for 9 logits, 2 rows of 5 wanted"},
		{"argmax's room", func(p *Pass) { p.Argmax = p.Argmax[:1] }, "room for 1 largest, 2 wanted"},
		{"no room at all", func(p *Pass) { p.Logits, p.Argmax = nil, nil }, "no room for their logits"},
		{"hidden out's room", func(p *Pass) { p.HiddenOut = p.HiddenOut[:3] }, "room for 3 output values, 3 rows of 4"},
		{"wanted twice", func(p *Pass) { p.Want = []int{1, 1} }, "must ascend within [0,3), got 1"},
		{"wanted past the end", func(p *Pass) { p.Want = []int{0, 3} }, "must ascend within [0,3), got 3"},
		{"wanted negative", func(p *Pass) { p.Want = []int{-1, 0} }, "must ascend within [0,3), got -1"},
		{"cell past the end", func(p *Pass) { p.Cell[1] = 70 }, "row 1 is kept in cell 70 of 70"},
		{"cell far past the end", func(p *Pass) { p.Cell[1] = 1 << 31 }, "row 1 is kept in cell 2147483648 of 70"},
		{"cell written twice", func(p *Pass) { p.Cell[2] = 3 }, "cell 3 is written twice"},
		{"sees what is written", func(p *Pass) { p.SeeCells[0] |= 1 << 9 }, "row 0 sees cell 9, which row 2 writes"},
		{"sees a cell past the last", func(p *Pass) { p.SeeCells[3] |= 1 << 6 }, "row 1 sees a cell past the last"},
		{"sees itself", func(p *Pass) { p.SeeRows[1] |= 1 << 1 }, "row 1 sees a row that is not before it"},
		{"sees a later row", func(p *Pass) { p.SeeRows[0] |= 1 << 2 }, "row 0 sees a row that is not before it"},
		{"out of reach", func(p *Pass) { p.SeeCells[1] |= 1 }, "no shape group takes 3 rows that look back on 65 cells"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := testPass(s)
			tt.change(p)
			err := p.Check(s)
			if tt.want == "" {
				if err != nil {
					t.Fatalf("Check() = %v, want nil", err)
				}
				return
			}
			if !errors.Is(err, ErrPass) || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("Check() = %v, want %q", err, tt.want)
			}
		})
	}
	whole := s
	whole.Whole = true
	if err := testPass(s).Check(whole); !errors.Is(err, ErrPass) || !strings.Contains(err.Error(), "whole decoder") {
		t.Errorf("hidden rows from a whole decoder: %v", err)
	}
	headless := s
	headless.Out = 0
	p := testPass(s)
	if err := p.Check(headless); !errors.Is(err, ErrPass) || !strings.Contains(err.Error(), "without a head") {
		t.Errorf("Check() = %v without a head", err)
	}
}

func testShape() Shape {
	return Shape{Layers: 2, Hidden: 4, KV: 2, Cells: 70, Out: 5, Pos: 1, Groups: []Group{{1, 70}, {8, 0}, {8, 32}, {8, 64}}}
}

// testPass has three rows in cells 3, 4, 9; each sees cells 0 and 1 and the rows before it.
func testPass(s Shape) *Pass {
	const n = 3
	p := &Pass{Hidden: make([]uint16, n*s.Hidden), Pos: make([]uint32, n*s.Pos), Cell: []uint32{3, 4, 9},
		SeeCells: make([]uint64, n*Words(s.Cells)),
		SeeRows:  []uint64{0, 1, 3}, Want: []int{0, 2}, Logits: make([]uint16, 2*s.Out), Argmax: make([]int32, 2),
		HiddenOut: make([]uint16, n*s.Hidden)}
	for r := range n {
		p.SeeCells[r*Words(s.Cells)] = 3
	}
	return p
}

func TestPassCheckManyRows(t *testing.T) {
	s := Shape{Hidden: 1, KV: 1, Cells: 256, Pos: 3, Groups: []Group{{130, 128}}}
	p := &Pass{Hidden: make([]uint16, 130), Pos: make([]uint32, 390), Cell: make([]uint32, 130), SeeCells: make([]uint64, 130*4),
		SeeRows: make([]uint64, 130*3)}
	for r := range 130 {
		p.Cell[r] = uint32(r)
		for e := range r {
			p.SeeRows[r*3+e/64] |= 1 << (e % 64)
		}
	}
	if err := p.Check(s); err != nil {
		t.Fatal(err)
	}
	for _, bit := range []int{128, 129, 191} { // row 128 is the first of its third word
		p.SeeRows[128*3+bit/64] ^= 1 << (bit % 64)
		if err := p.Check(s); !errors.Is(err, ErrPass) {
			t.Errorf("row 128 sees row %d: Check() = %v", bit, err)
		}
		p.SeeRows[128*3+bit/64] ^= 1 << (bit % 64)
	}
}

func TestReach(t *testing.T) {
	s := testShape()
	p := testPass(s)
	for _, tt := range []struct{ row, cell, want int }{{0, 1, 2}, {1, 63, 64}, {2, 64, 65}, {2, 69, 70}} {
		p.SeeCells[tt.row*2+tt.cell/64] |= 1 << (tt.cell % 64)
		if got := p.Reach(s); got != tt.want {
			t.Errorf("with cell %d: Reach() = %d, want %d", tt.cell, got, tt.want)
		}
	}
	if got := (&Pass{SeeCells: make([]uint64, 6)}).Reach(s); got != 0 {
		t.Errorf("Reach() = %d of a pass that sees nothing", got)
	}
}

func TestGroupFor(t *testing.T) {
	s := Shape{Groups: []Group{{1, 100}, {1, 50}, {8, 0}, {8, 64}, {4, 64}, {16, 32}}}
	for _, tt := range []struct{ rows, reach, want int }{
		{1, 0, 1}, {1, 50, 1}, {1, 51, 0}, {1, 100, 0}, {1, 101, -1}, {2, 0, 4}, {4, 64, 4}, {5, 0, 2}, {5, 1, 3}, {9, 32, 5}, {9, 33, -1},
		{17, 0, -1},
	} {
		if got := s.GroupFor(tt.rows, tt.reach); got != tt.want {
			t.Errorf("GroupFor(%d, %d) = %d, want %d", tt.rows, tt.reach, got, tt.want)
		}
	}
}
