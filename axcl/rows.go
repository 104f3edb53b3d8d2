package axcl

import (
	"cmp"
	"fmt"
	"slices"
)

// PieceBytes bounds what one Save or Restore moves, where a row is not larger: on a link of 500
// MB/s that is 17 ms, a third of what a small model takes for a token. It is also how much pinned
// memory a model's staging takes for it.
const PieceBytes = 8 << 20

// pieceCells bounds the cells of a piece, so that scattered ones queue no more copies than a wide
// pass does.
const pieceCells = 128

// RowBytes is the size of a cell's saved row: the K and V of every layer that keeps rows.
func (s Shape) RowBytes() int { return 4 * cmp.Or(s.Kept, (s.Layers-s.Linear)*s.KV) }

// PieceCells is what a Device makes Shape.Piece: as many cells as fit in PieceBytes, one at least,
// and no more than 128.
func PieceCells(s Shape) int {
	if s.RowBytes() == 0 {
		return 0
	}
	return min(max(PieceBytes/s.RowBytes(), 1), pieceCells, s.Cells)
}

// Runs is how many runs of consecutive cells there are in lists of equal length, which are walked
// together: where one of them breaks off, a run ends. Runs(cells) is what Save and Restore pay for,
// Runs(to, from) what Copy does.
func Runs(lists ...[]uint32) int {
	if len(lists) == 0 {
		return 0
	}
	n := 0
	for i := range lists[0] {
		for _, l := range lists {
			if i == 0 || l[i] != l[i-1]+1 {
				n++
				break
			}
		}
	}
	return n
}

// CheckRows reports the first thing that keeps rows of cells from being saved to or restored from
// this many bytes of the host, wrapping ErrPass: more cells than Piece, one that there is not, one
// named twice, bytes that are not RowBytes for each.
func (s Shape) CheckRows(cells []uint32, bytes int) error {
	if err := s.checkCells(cells); err != nil {
		return err
	}
	if bytes != len(cells)*s.RowBytes() {
		return fmt.Errorf("%w: %d bytes for %d rows of %d", ErrPass, bytes, len(cells), s.RowBytes())
	}
	return nil
}

// CheckCopy does the same for rows that go from cells to cells: two lists as long as each other,
// none with a cell that the other has.
func (s Shape) CheckCopy(to, from []uint32) error {
	if len(to) != len(from) {
		return fmt.Errorf("%w: rows of %d cells are to go to %d", ErrPass, len(from), len(to))
	}
	if err := s.checkCells(to); err != nil {
		return err
	}
	if err := s.checkCells(from); err != nil {
		return err
	}
	for _, c := range to {
		if slices.Contains(from, c) {
			return fmt.Errorf("%w: cell %d is to be read and written by one copy", ErrPass, c)
		}
	}
	return nil
}

func (s Shape) checkCells(cells []uint32) error {
	if len(cells) > s.Piece {
		return fmt.Errorf("%w: rows of %d cells, a call takes at most %d", ErrPass, len(cells), s.Piece)
	}
	for i, c := range cells {
		if int64(c) >= int64(s.Cells) {
			return fmt.Errorf("%w: the row of cell %d of %d", ErrPass, c, s.Cells)
		}
		if slices.Contains(cells[:i], c) {
			return fmt.Errorf("%w: cell %d is named twice", ErrPass, c)
		}
	}
	return nil
}
