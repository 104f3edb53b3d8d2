package axmodel

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/axle-llm/axle/axcl"
)

// Layers is what the layers of a model say together: some keep rows of K and V, others a state, and
// those of a kind agree. The zero value has none.
type Layers struct {
	Full   LayerShape  // of those that keep rows, or of one beside them: Cells is 0 while there is neither
	State  LinearShape // of those that keep a state: Hidden is 0 while there is none
	Linear []bool      // of each layer: it keeps a state
	Widths []int       // of each layer: how long a row is of the K that it keeps, or uses; 0 where it keeps a state
	Source []int       // of each layer: the one whose K and V it uses, itself but for those of AddSharing

	whole int // of Linear, how many keep rows
}

// Add reads the next layer. The error, an *Error without a path, says why it is none, or none of
// this model.
func (d *Layers) Add(m *Meta) error {
	width := 0
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
		if err := d.belongs(l, l.Equal); err != nil {
			return err
		}
		width = l.KV
		d.whole++
	}
	d.next(linear, width, len(d.Linear))
	return nil
}

func (d *Layers) next(linear bool, width, source int) {
	d.Linear, d.Widths, d.Source = append(d.Linear, linear), append(d.Widths, width), append(d.Source, source)
}

// belongs takes in the shape of a layer that keeps rows, or shares those of another. Where layers
// have layer inputs, as Gemma-4's have, the length of a row of K goes by the layer, and Full has
// the longest.
func (d *Layers) belongs(l LayerShape, as func(LayerShape) bool) error {
	want := d.Full
	if l.LayerInputs > 0 {
		want.KV = l.KV
	}
	switch {
	case d.whole == 0:
		d.Full = l
	case !as(want):
		return errorf("does not belong with the layers before it: %v, not %v", l, d.Full)
	}
	d.Full.KV = max(d.Full.KV, l.KV)
	return nil
}

// AddSharing reads the next layer, which uses the K and V of layer source. The error is as Add's.
func (d *Layers) AddSharing(m *Meta, source int) error {
	switch i := len(d.Linear); {
	case source < 0 || source >= i:
		return errorf("is to use the K and V of layer %d, and is layer %d: only a layer before it has some to share", source, i)
	case d.Linear[source]:
		return errorf("is to use the K and V of layer %d, which keeps a state", source)
	case d.Source[source] != source:
		return errorf("is to use the K and V of layer %d, which has none of its own", source)
	}
	l, err := m.SharingLayer()
	if err != nil {
		return err
	}
	if l.KV != d.Widths[source] {
		return errorf("takes K and V of %d values, layer %d, whose they are, has %d", l.KV, source, d.Widths[source])
	}
	if err := d.belongs(l, l.alike); err != nil {
		return err
	}
	d.next(false, l.KV, source)
	return nil
}

// Shares says whether layer i uses the K and V of another.
func (d *Layers) Shares(i int) bool { return d.Source[i] != i }

// Beside reads a layer of the same model that is not among these; it counts where none of these
// keeps rows. The error is as Add's.
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

// Shape is the layers' part of an axcl.Shape, with this many slots where layers keep a state: 0
// stands for axcl.DefaultSlots. Out, Argmax, Place, Local and Bytes are the caller's. It fails
// where no layer keeps rows, and for slots that make no sense.
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
	for i, width := range d.Widths {
		if d.Shares(i) {
			s.Shared++
		} else {
			s.Kept += width
		}
	}
	s.Linear, s.LayerInputs = s.Layers-d.whole-s.Shared, d.Full.LayerInputs
	if s.Kept == (s.Layers-s.Linear)*s.KV {
		s.Kept = 0
	}
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

// StateGroups says which group of a layer that keeps a state goes with each group of one that keeps
// rows: LinearShape.Beside, but for the first of several rows, which is the cold one where the
// other's first sees no cell: only a sequence's beginning goes there. -1 stands for none: those
// rows go through the layer one by one.
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

// AddOf is Add, or AddSharing where source, which says of each layer whose K and V it uses as
// axcl.LoadSpec.Source does, names another.
func (d *Layers) AddOf(m *Meta, source []int) error {
	if i := len(d.Linear); i < len(source) && source[i] != i {
		return d.AddSharing(m, source[i])
	}
	return d.Add(m)
}
