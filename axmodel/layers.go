package axmodel

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/axle-llm/axle/axcl"
)

// Layers is what the layers of a model say together: some keep rows of K and V, others a state, and those of a kind agree. The zero value
// has none.
type Layers struct {
	Full   LayerShape  // of those that keep rows, or of one beside them: Cells is 0 while there is neither
	State  LinearShape // of those that keep a state: Hidden is 0 while there is none
	Linear []bool      // of each layer: it keeps a state

	whole int // of Linear, how many keep rows
}

// Add reads the next layer. The error, an *Error without a path, says why it is none, or none of this model.
func (d *Layers) Add(m *Meta) error {
	linear := m.HasState()
	if linear {
		l, err := m.State()
		if err != nil {
			return err
		}
		if d.State.Hidden > 0 && !d.State.Equal(l) {
			return errorf("does not belong with the layers before it: %v, not %v", l, d.State)
		}
		d.State = l
	} else {
		l, err := m.Layer()
		if err != nil {
			return err
		}
		if d.whole > 0 && !l.Equal(d.Full) {
			return errorf("does not belong with the layers before it: %v, not %v", l, d.Full)
		}
		d.Full = l
		d.whole++
	}
	d.Linear = append(d.Linear, linear)
	return nil
}

// Beside reads a layer of the same model that is not among these; it counts where none of these keeps rows. The error is as Add's.
func (d *Layers) Beside(m *Meta) error {
	if d.Full.Cells > 0 || m.HasState() {
		return nil
	}
	l, err := m.Layer()
	if err == nil {
		d.Full = l
	}
	return err
}

// Shape is the layers' part of an axcl.Shape, with so many slots where layers keep a state: 0 stands for axcl.DefaultSlots. Out, Argmax,
// Place, Local and Bytes are the caller's. It fails where no layer keeps rows, and for slots that nobody can mean.
func (d *Layers) Shape(slots int) (axcl.Shape, error) {
	if d.Full.Cells == 0 {
		return axcl.Shape{}, errorf("every layer keeps a state; only one that keeps rows says which cells and groups the model has")
	}
	s := d.Full.Shape()
	if d.State.Hidden > 0 {
		if err := d.State.Fits(d.Full); err != nil {
			return s, err
		}
	}
	s.Layers = len(d.Linear)
	s.Linear = s.Layers - d.whole
	if s.Linear > 0 {
		if slots = cmp.Or(slots, axcl.DefaultSlots); slots < 0 || slots > maxSlots {
			return s, errorf("%d slots for states, 1 to %d are possible", slots, maxSlots)
		}
		s.State, s.Slots = s.Linear*int(d.State.Bytes()), slots
	}
	s.Piece = axcl.PieceCells(s)
	return s, nil
}

const maxSlots = 1 << 12

func (l LinearShape) String() string {
	return fmt.Sprintf("hidden %d, states of %d bytes of %v and %d of %v, groups of %d rows", l.Hidden, l.K.Size, l.K.Type, l.V.Size,
		l.V.Type, l.Rows)
}

func (l LayerShape) String() string {
	s := fmt.Sprintf("hidden %d, K and V %d, groups", l.Hidden, l.KV)
	for _, g := range l.Groups {
		s += fmt.Sprintf(" %d×%d", g.Rows, g.Cells)
	}
	return s
}

// StateGroups says which group of a layer that keeps a state goes with each group of one that keeps rows: LinearShape.Beside, but for the
// first of several rows, which is the cold one where the other's first sees no cell: only a sequence's beginning goes there. -1 stands for
// none: those rows go through the layer one by one.
func (d *Layers) StateGroups() []int {
	prefill := func(rows int) bool { return rows > 1 }
	cold := slices.IndexFunc(d.State.Rows, prefill)
	first := slices.IndexFunc(d.Full.Groups, func(g LayerGroup) bool { return g.Rows > 1 })
	out := make([]int, len(d.Full.Groups))
	for i, g := range d.Full.Groups {
		out[i] = d.State.Beside(d.Full, i)
		if g.Rows > 1 && out[i] == cold && g.Cells > 0 && d.Full.Groups[first].Cells == 0 {
			out[i] = -1
		}
	}
	return out
}
