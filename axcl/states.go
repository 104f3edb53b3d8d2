package axcl

import "fmt"

// DefaultSlots is how many slots a model has where LoadSpec does not say: one to go on from, one
// for what comes of it.
const DefaultSlots = 2

// StatePiece is how many bytes of a slot one SaveState or RestoreState takes at most.
func (s Shape) StatePiece() int { return min(s.State, PieceBytes) }

// checkStates is what Check asks of a pass whose rows go through layers that keep a state.
func (p *Pass) checkStates(s Shape) error {
	if p.To < 1 || int64(p.To) > int64(s.Slots) {
		return badPass("the new state is to be left in slot %d, there are 1 to %d", p.To, s.Slots)
	}
	if int64(p.From) > int64(s.Slots) {
		return badPass("the rows go on from slot %d, there are 1 to %d", p.From, s.Slots)
	}
	n, cw, rw := p.Rows(), Words(s.Cells), Words(p.Rows())
	for r := range n {
		for w := range cw {
			if p.SeeCells[r*cw+w] != p.SeeCells[w] {
				return badPass("row %d sees other cells than row 0, and a state is that of one sequence", r)
			}
		}
		for w := range rw {
			if all := uint64(1)<<min(max(r-w*64, 0), 64) - 1; p.SeeRows[r*rw+w] != all {
				return badPass("row %d does not see every row before it, and a state is that of one sequence", r)
			}
		}
	}
	switch seen := p.Reach(s) > 0; {
	case p.From == 0 && seen:
		return badPass("the rows see cells, and begin with the zero state")
	case p.From != 0 && !seen:
		return badPass("the rows go on from slot %d, and see no cell: a sequence begins with slot 0, the zero state", p.From)
	}
	return nil
}

// CheckState reports what keeps this many bytes, from the at-th of the slot on, from being saved or
// restored, wrapping ErrPass: a slot that there is not, more bytes than StatePiece, some past the
// slot's end.
func (s Shape) CheckState(slot uint32, at, bytes int) error {
	switch {
	case s.State == 0:
		return fmt.Errorf("%w: slot %d of a model whose layers keep no state", ErrPass, slot)
	case slot < 1 || int64(slot) > int64(s.Slots):
		return fmt.Errorf("%w: the state of slot %d, there are 1 to %d", ErrPass, slot, s.Slots)
	case bytes > s.StatePiece():
		return fmt.Errorf("%w: %d bytes of a slot, a call takes at most %d", ErrPass, bytes, s.StatePiece())
	case at < 0 || at > s.State-bytes:
		return fmt.Errorf("%w: %d bytes from byte %d of a slot that has %d", ErrPass, bytes, at, s.State)
	}
	return nil
}
