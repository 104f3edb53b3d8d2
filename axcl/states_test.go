package axcl

import (
	"errors"
	"strings"
	"testing"
)

func TestPassCheckStates(t *testing.T) {
	s := stateShape()
	for _, tt := range []struct {
		name   string
		change func(p *Pass)
		want   string // empty: the pass is good
	}{
		{"good", func(*Pass) {}, ""},
		{"in place", func(p *Pass) { p.To = 1 }, ""},
		{"a beginning", func(p *Pass) { p.From, p.SeeCells = 0, make([]uint64, 6) }, ""},
		{"to nowhere", func(p *Pass) { p.To = 0 }, "the new state is to be left in slot 0, there are 1 to 3"},
		{"to a slot past the last", func(p *Pass) { p.To = 4 }, "left in slot 4"},
		{"far past the last", func(p *Pass) { p.To = 1 << 31 }, "left in slot 2147483648"},
		{"from a slot past the last", func(p *Pass) { p.From = 4 }, "the rows go on from slot 4, there are 1 to 3"},
		{"a forgotten state", func(p *Pass) { p.From = 0 }, "the rows see cells, and begin with the zero state"},
		{"a forgotten reset", func(p *Pass) { p.SeeCells = make([]uint64, 6) }, "go on from slot 1, and see no cell"},
		{"two sequences by their cells", func(p *Pass) { p.SeeCells[2] = 1 }, "row 1 sees other cells than row 0"},
		{"two sequences by their rows", func(p *Pass) { p.SeeRows[2] = 1 }, "row 2 does not see every row before it"},
		{"rows out of order", func(p *Pass) { p.SeeRows[1] = 0 }, "row 1 does not see every row before it"},
	} {
		p := testPass(s)
		p.From, p.To = 1, 2
		tt.change(p)
		err := p.Check(s)
		if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, ErrPass) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	p := testPass(s)
	p.From, p.To = 9, 9
	if err := p.Check(testShape()); err != nil {
		t.Errorf("a model without states looks at slots: %v", err)
	}
}

func TestPassCheckStatesManyRows(t *testing.T) {
	s := Shape{Hidden: 1, KV: 1, Cells: 256, Groups: []Group{{130, 128}}, State: 8, Slots: 2}
	p := &Pass{Hidden: make([]uint16, 130), Pos: make([]uint32, 130), Cell: make([]uint32, 130), SeeCells: make([]uint64, 130*4),
		SeeRows: make([]uint64, 130*3), To: 1}
	for r := range 130 {
		p.Cell[r] = uint32(r)
		for e := range r {
			p.SeeRows[r*3+e/64] |= 1 << (e % 64)
		}
	}
	if err := p.Check(s); err != nil {
		t.Fatal(err)
	}
	for _, x := range [][2]int{{129, 0}, {129, 63}, {129, 64}, {129, 128}, {64, 63}, {128, 127}} {
		bit := &p.SeeRows[x[0]*3+x[1]/64]
		*bit ^= 1 << (x[1] % 64)
		if err := p.Check(s); !told(err, "does not see every row before it") {
			t.Errorf("row %d without row %d: %v", x[0], x[1], err)
		}
		*bit ^= 1 << (x[1] % 64)
	}
}

func TestCheckState(t *testing.T) {
	s := stateShape()
	big := s
	big.State = PieceBytes + 10
	for _, tt := range []struct {
		name      string
		s         Shape
		slot      uint32
		at, bytes int
		want      string
	}{
		{"all", s, 3, 0, 100, ""}, {"a part", s, 1, 90, 10, ""}, {"none", s, 1, 100, 0, ""}, {"a piece", big, 1, 10, PieceBytes, ""},
		{"no states", testShape(), 1, 0, 0, "whose layers keep no state"},
		{"slot 0", s, 0, 0, 100, "the state of slot 0, there are 1 to 3"},
		{"a slot past the last", s, 4, 0, 100, "the state of slot 4"},
		{"bytes past the end", s, 1, 1, 100, "100 bytes from byte 1 of a slot that has 100"},
		{"from before the first", s, 1, -1, 5, "5 bytes from byte -1"},
		{"from past the end", s, 1, 101, 0, "0 bytes from byte 101"},
		{"more than a piece", big, 1, 0, PieceBytes + 1, "a call takes at most 8388608"},
	} {
		if err := tt.s.CheckState(tt.slot, tt.at, tt.bytes); !told(err, tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestRowBytes(t *testing.T) {
	if s := stateShape(); s.RowBytes() != 8 || testShape().RowBytes() != 16 {
		t.Errorf("rows of %d and %d bytes", s.RowBytes(), testShape().RowBytes())
	}
}

// stateShape is testShape with layers that keep a state, and testPass made fit for it: one
// sequence, which goes on from slot 1.
func stateShape() Shape {
	s := testShape()
	s.Linear, s.State, s.Slots = 1, 100, 3
	return s
}
