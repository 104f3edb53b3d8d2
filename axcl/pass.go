package axcl

import (
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// Pass sends rows through every layer and the head in one native call.
//
// The cache is Shape.Cells rows, called cells; a cell's number has no meaning but its place in
// memory. After Run returns nil, cell Cell[r] of every layer holds the K and V of row r, and every
// other cell is as before. Row r attends to the cells whose bit is set in its part of SeeCells, as
// they were before the pass, to the earlier rows of this pass whose bit is set in its part of
// SeeRows, and to itself.
//
// A pass must not look at a cell that it writes: the layer's read and write would race where rows
// are bound in place. Check finds everything else that a pass may not do; Run calls it and returns
// its error before the card is touched, wrapped in ErrPass.
//
// After any other error the cells in Cell hold nothing that may be used; other cells are as before,
// unless the error is fatal ([Fatal]), after which the device can only be closed. Logits, Argmax
// and HiddenOut are undefined after an error.
//
// The caller owns every slice and may reuse them for the next pass; an implementation keeps none of
// them after Run returns.
type Pass struct {
	Hidden []uint16 // rows × Shape.Hidden, bf16: the rows' embeddings
	Pos    []uint32 // rows × Shape.Pos: RoPE positions, row by row
	Cell   []uint32 // the cache row that will keep each row's K and V; no two alike
	// LayerInputs are the values that layers take beyond the hidden state, in bf16: rows ×
	// Shape.Layers × Shape.LayerInputs, row by row, and of each row layer by layer. Nil if
	// Shape.LayerInputs is 0.
	LayerInputs []uint16

	// SeeCells is rows × Words(Shape.Cells): bit c of row r's part: row r sees cell c. SeeRows is
	// rows × Words(rows): bit e of row r's part: row r sees row e of this pass, e < r. Bits at or
	// past Shape.Cells, or r, must be zero.
	SeeCells []uint64
	SeeRows  []uint64

	// LocalCells and LocalRows are the same for the layers that LoadSpec.Local names: each row's
	// part of what SeeCells and SeeRows show it. Nil, both, stands for all of it. A model without
	// such layers does not look at them.
	LocalCells []uint64
	LocalRows  []uint64

	// From and To are for models whose layers keep a state (Shape.State is not 0); others do not
	// look at them. A state stands for all rows that went into it and cannot be taken apart, so
	// such a pass carries rows of one sequence, in its order: each sees every row before it, and
	// all see the same cells. The rows go on from what slot From holds, and the state after the
	// last of them is in slot To when Run returns nil. Slots count from 1; From 0 is the zero
	// state, with which a sequence begins: then, and only then, no cell is seen. From's slot stays
	// as it was, which makes it a snapshot that cost nothing, unless To is the same. After an error
	// other than ErrPass To holds nothing that may be used; every other slot is as before, unless
	// the error is fatal.
	From uint32
	To   uint32

	// Single makes the layers that keep a state take the rows one by one, through the group that
	// decodes; the others take them at once as ever. It is slower, and gives what a card gives that
	// does not do such layers right for several rows at once, or for fewer rows than a call takes.
	// A card that computes rows so in any case does not look at it.
	Single bool

	// Adapter is the LoRA adapter that the layers compute with, counted from 1 as in
	// LoadSpec.Adapters; 0: none. It is that of all rows.
	Adapter int

	// Add lists what is added to rows between layers, ascending by layer and then by row, no pair
	// twice; Added holds it, len(Add) × Shape.Hidden, bf16, in the same order. What layer
	// Add[i].Layer gives for row Add[i].Row becomes its [Sum] with Added's row i before the next
	// layer, or the head and HiddenOut, reads it; K and V of the layer itself are as without. Some
	// models want this of a picture's rows. After each such layer the pass stops on the host: the
	// rows from the first to the last that get something come down and go up again. Without
	// additions (nil, both) a pass makes the calls it makes without them.
	Add   []Addition
	Added []uint16

	// Want lists the rows, ascending, whose output the caller needs; with a head each costs a call
	// of it. Logits receives len(Want) × Shape.Out values, bf16 (a head that gives float32 is
	// rounded). When Logits is nil and Argmax is not, only the largest logit's index of each wanted
	// row is found, on the card where Shape.Argmax says it can; ties go to the lowest index. It is
	// the largest of what the head gives: where that is float32, of the values before rounding.
	// With both set, both are filled, and the index is the same.
	Want   []int
	Logits []uint16
	Argmax []int32

	// HiddenOut, when not nil, receives every row's output of the last layer, rows × Shape.Hidden,
	// bf16. A whole decoder has none to give.
	HiddenOut []uint16

	// Meanwhile, when not nil, is called once by Run, on its goroutine, when HiddenOut is there:
	// work of the host that needs no more of the pass, such as the head of its rows. The card may
	// still bring the new rows of K and V to their cells. What Meanwhile makes counts only if Run
	// returns nil. It is not called where Run fails before. It must not use the device.
	Meanwhile func()

	// Timing, when not nil, is filled with where the time went.
	Timing *Timing
}

// Timing says where a pass spent its time, each by the host's clock. A card that works
// asynchronously shows its own work in Wait.
type Timing struct {
	Upload   time.Duration // staging and copying embeddings, positions and mask
	Enqueue  time.Duration // issuing the layers
	Wait     time.Duration // the synchronisation
	Head     time.Duration
	Download time.Duration
	Calls    int // calls into the vendor's library
}

// Words is the number of 64-bit words that hold n bits.
func Words(n int) int { return (n + 63) / 64 }

// Rows is the number of rows in the pass; a nil pass has none.
func (p *Pass) Rows() int {
	if p == nil {
		return 0
	}
	return len(p.Cell)
}

// Reach is one more than the highest cell that any row sees; 0 when none sees a cell.
func (p *Pass) Reach(s Shape) int {
	w := Words(s.Cells)
	reach := 0
	for i, v := range p.SeeCells {
		if v == 0 {
			continue
		}
		if top := (i%w)*64 + 64 - bits.LeadingZeros64(v); top > reach {
			reach = top
		}
	}
	return reach
}

// GroupFor is the index of the group that a pass of rows rows reaching reach cells runs on: for one
// row the smallest decode group that reaches, else (and where the model has no such decode group)
// the prefill group with the fewest rows that fit, then the fewest cells. It is -1 when none fits.
func (s Shape) GroupFor(rows, reach int) int {
	best := -1
	for i, g := range s.Groups {
		if g.Rows < rows || g.Cells < reach {
			continue
		}
		if best < 0 || g.Rows < s.Groups[best].Rows || g.Rows == s.Groups[best].Rows && g.Cells < s.Groups[best].Cells {
			best = i
		}
	}
	return best
}

// MaxRows is the most rows one pass can carry.
func (s Shape) MaxRows() int {
	n := 0
	for _, g := range s.Groups {
		n = max(n, g.Rows)
	}
	return n
}

// CheckCells reports the first of the cells that cannot be cleared, wrapping ErrPass.
func (s Shape) CheckCells(cells []uint32) error {
	for i, c := range cells {
		if int64(c) >= int64(s.Cells) {
			return fmt.Errorf("%w: cell %d of %d is to be cleared", ErrPass, c, s.Cells)
		}
		if i > 0 && c <= cells[i-1] {
			return fmt.Errorf("%w: cells to be cleared must ascend, got %d after %d", ErrPass, c, cells[i-1])
		}
	}
	return nil
}

// Check reports the first thing in the pass that s does not allow, wrapping ErrPass.
func (p *Pass) Check(s Shape) error {
	n := p.Rows()
	if err := p.checkSizes(s, n); err != nil {
		return err
	}
	if err := p.checkAdd(s, n); err != nil {
		return err
	}
	if err := p.checkLocal(s, n); err != nil {
		return err
	}
	if p.Adapter < 0 || p.Adapter > s.Adapters {
		return badPass("adapter %d of %d", p.Adapter, s.Adapters)
	}
	for i, r := range p.Want {
		if r < 0 || r >= n || i > 0 && r <= p.Want[i-1] {
			return badPass("wanted rows must ascend within [0,%d), got %d", n, r)
		}
	}
	if err := p.checkCells(s, n); err != nil {
		return err
	}
	if s.State > 0 {
		if err := p.checkStates(s); err != nil {
			return err
		}
	}
	if s.GroupFor(n, p.Reach(s)) < 0 {
		return badPass("no shape group takes %d rows that look back on %d cells", n, p.Reach(s))
	}
	return nil
}

func badPass(format string, a ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrPass}, a...)...)
}

// checkSizes reports the first slice whose length does not fit n rows.
func (p *Pass) checkSizes(s Shape, n int) error {
	switch {
	case n == 0:
		return badPass("no rows")
	case n > s.MaxRows():
		return badPass("%d rows, the model takes at most %d", n, s.MaxRows())
	case len(p.Hidden) != n*s.Hidden:
		return badPass("%d hidden values for %d rows of %d", len(p.Hidden), n, s.Hidden)
	case len(p.Pos) != n*max(s.Pos, 1):
		return badPass("%d positions for %d rows of %d", len(p.Pos), n, max(s.Pos, 1))
	case len(p.LayerInputs) != n*s.Layers*s.LayerInputs:
		return badPass("%d values of layer inputs, for %d rows of %d × %d", len(p.LayerInputs), n, s.Layers, s.LayerInputs)
	case len(p.SeeCells) != n*Words(s.Cells):
		return badPass("%d words of visible cells for %d rows of %d", len(p.SeeCells), n, Words(s.Cells))
	case len(p.SeeRows) != n*Words(n):
		return badPass("%d words of visible rows for %d rows of %d", len(p.SeeRows), n, Words(n))
	case s.Local && (p.LocalCells != nil || p.LocalRows != nil) &&
		(len(p.LocalCells) != len(p.SeeCells) || len(p.LocalRows) != len(p.SeeRows)):
		return badPass("%d and %d words of what local layers see, %d and %d of what all see", len(p.LocalCells), len(p.LocalRows),
			len(p.SeeCells), len(p.SeeRows))
	case len(p.Want) > 0 && s.Out == 0:
		return badPass("rows wanted from a model without a head")
	case p.Logits != nil && len(p.Logits) != len(p.Want)*s.Out:
		return badPass("room for %d logits, %d rows of %d wanted", len(p.Logits), len(p.Want), s.Out)
	case p.Argmax != nil && len(p.Argmax) != len(p.Want):
		return badPass("room for %d largest, %d wanted", len(p.Argmax), len(p.Want))
	case len(p.Want) > 0 && p.Logits == nil && p.Argmax == nil:
		return badPass("rows wanted, and no room for their logits or their largest")
	case s.Whole && (p.HiddenOut != nil || len(p.Add) > 0):
		return badPass("the model is a whole decoder in one file: hidden rows neither come out of it nor are added to between layers")
	case p.HiddenOut != nil && len(p.HiddenOut) != n*s.Hidden:
		return badPass("room for %d output values, %d rows of %d", len(p.HiddenOut), n, s.Hidden)
	}
	return nil
}

// checkLocal reports a local layer that shows a row more than the others do.
func (p *Pass) checkLocal(s Shape, n int) error {
	if !s.Local || p.LocalCells == nil {
		return nil
	}
	for i, v := range p.LocalCells {
		if v&^p.SeeCells[i] != 0 {
			return badPass("local layers show row %d a cell that it does not see", i/Words(s.Cells))
		}
	}
	for i, v := range p.LocalRows {
		if v&^p.SeeRows[i] != 0 {
			return badPass("local layers show row %d a row that it does not see", i/Words(n))
		}
	}
	return nil
}

// checkCells reports a cell that is written twice, or seen and written, and a row that sees what is
// not there.
func (p *Pass) checkCells(s Shape, n int) error {
	cw, rw := Words(s.Cells), Words(n)
	for r, c := range p.Cell {
		if int64(c) >= int64(s.Cells) {
			return badPass("row %d is kept in cell %d of %d", r, c, s.Cells)
		}
		if slices.Contains(p.Cell[:r], c) {
			return badPass("cell %d is written twice", c)
		}
		word, bit := int(c/64), uint64(1)<<(c%64)
		for e := range n {
			if p.SeeCells[e*cw+word]&bit != 0 {
				return badPass("row %d sees cell %d, which row %d writes", e, c, r)
			}
		}
	}
	for r := range n {
		if t := s.Cells % 64; t != 0 && p.SeeCells[r*cw+cw-1]>>t != 0 {
			return badPass("row %d sees a cell past the last", r)
		}
		for w := range rw {
			v := p.SeeRows[r*rw+w]
			if lo := r - w*64; lo <= 0 && v != 0 || lo > 0 && lo < 64 && v>>lo != 0 {
				return badPass("row %d sees a row that is not before it", r)
			}
		}
	}
	return nil
}
