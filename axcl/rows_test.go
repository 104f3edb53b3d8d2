package axcl

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckRows(t *testing.T) {
	s := testShape() // 2 layers of K and V of 2: a row is 16 bytes
	s.Piece = 4
	for _, tt := range []struct {
		name  string
		cells []uint32
		bytes int
		want  string // empty: good
	}{
		{"good", []uint32{3, 69, 0}, 48, ""},
		{"none", nil, 0, ""},
		{"a whole piece", []uint32{3, 2, 1, 0}, 64, ""},
		{"more than a piece", []uint32{0, 1, 2, 3, 4}, 80, "rows of 5 cells, a call takes at most 4"},
		{"past the end", []uint32{0, 70}, 32, "the row of cell 70 of 70"},
		{"far past the end", []uint32{1 << 31}, 16, "cell 2147483648 of 70"},
		{"twice", []uint32{5, 6, 5}, 48, "cell 5 is named twice"},
		{"bytes short", []uint32{5, 6}, 31, "31 bytes for 2 rows of 16"},
		{"bytes over", []uint32{5, 6}, 33, "33 bytes for 2 rows of 16"},
		{"bytes for nothing", nil, 16, "16 bytes for 0 rows of 16"},
	} {
		if err := s.CheckRows(tt.cells, tt.bytes); !told(err, tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	for _, tt := range []struct {
		name     string
		to, from []uint32
		want     string
	}{
		{"good", []uint32{4, 5, 9}, []uint32{1, 2, 69}, ""},
		{"none", nil, nil, ""},
		{"unequal", []uint32{1}, []uint32{2, 3}, "rows of 2 cells are to go to 1"},
		{"to past the end", []uint32{70}, []uint32{1}, "cell 70 of 70"},
		{"from past the end", []uint32{1}, []uint32{70}, "cell 70 of 70"},
		{"to twice", []uint32{1, 1}, []uint32{2, 3}, "cell 1 is named twice"},
		{"from twice", []uint32{2, 3}, []uint32{1, 1}, "cell 1 is named twice"},
		{"in place", []uint32{7}, []uint32{7}, "cell 7 is to be read and written by one copy"},
		{"shifted by one", []uint32{6, 7, 8}, []uint32{7, 8, 9}, "cell 7 is to be read and written"},
		{"more than a piece", []uint32{0, 1, 2, 3, 4}, []uint32{10, 11, 12, 13, 14}, "at most 4"},
	} {
		if err := s.CheckCopy(tt.to, tt.from); !told(err, tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func told(err error, want string) bool {
	if want == "" {
		return err == nil
	}
	return errors.Is(err, ErrPass) && strings.Contains(err.Error(), want)
}

func TestPiece(t *testing.T) {
	for _, tt := range []struct {
		layers, kv, cells, want int
	}{{28, 1024, 2047, 73}, {36, 1024, 2559, 56}, {2, 32, 96, 96}, {2, 32, 200, 128}, {64, 1 << 20, 2047, 1}, {0, 0, 100, 0}} {
		s := Shape{Layers: tt.layers, KV: tt.kv, Cells: tt.cells}
		if got := PieceCells(s); got != tt.want || got > 1 && got*s.RowBytes() > PieceBytes {
			t.Errorf("%+v: %d cells of %d bytes", tt, got, s.RowBytes())
		}
	}
}

func TestRuns(t *testing.T) {
	for _, tt := range []struct {
		lists [][]uint32
		want  int
	}{
		{nil, 0}, {[][]uint32{nil}, 0}, {[][]uint32{{7}}, 1}, {[][]uint32{{7, 8, 9}}, 1}, {[][]uint32{{9, 8, 7}}, 3},
		{[][]uint32{{0, 1, 5, 6}}, 2},
		{[][]uint32{{0, 1, 2, 3}, {10, 11, 20, 21}}, 2}, {[][]uint32{{0, 1, 4, 5}, {10, 11, 12, 13}}, 2},
		{[][]uint32{{0, 1, 4}, {10, 20, 21}}, 3},
	} {
		if got := Runs(tt.lists...); got != tt.want {
			t.Errorf("%d: %d runs, not %d", tt.lists, got, tt.want)
		}
	}
}
