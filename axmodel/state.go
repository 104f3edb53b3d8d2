package axmodel

import (
	"slices"

	"github.com/axle-llm/axle/axcl"
)

// LinearShape is what the tensors of a layer with a state (linear attention) say, whichever format
// the file has. The states are bytes: what they mean is the layer's own. They are the same in every
// group, and each call replaces them whole.
type LinearShape struct {
	Hidden int
	K, V   axcl.Tensor // K_cache and V_cache: shape, type and bytes of the two states
	Rows   []int       // of each shape group, in the model's own order: 1 in a decode group
	Pos    int         // positions a row has in indices; 0 where a group does not list it
	Listed bool        // indices and mask are among the inputs of every group; a card wants them given all the same
}

// Bytes is what both states of the layer take.
func (l LinearShape) Bytes() int64 { return int64(l.K.Size) + int64(l.V.Size) }

// Equal says whether two layers can be in one model.
func (l LinearShape) Equal(o LinearShape) bool {
	same := func(a, b axcl.Tensor) bool { return a.Type == b.Type && slices.Equal(a.Shape, b.Shape) }
	return l.Hidden == o.Hidden && same(l.K, o.K) && same(l.V, o.V) && slices.Equal(l.Rows, o.Rows)
}

// Beside is the group of the layer that runs where a layer of attention runs its group g: the one
// of the same place among the decode groups, or among the prefill groups, or the last of those
// where there are fewer. It is -1 where there is none: then the rows go one by one through group
// Beside of a decode group, which every layer that [LinearShape.Fits] has.
func (l LinearShape) Beside(full LayerShape, g int) int {
	wide := full.Groups[g].Rows > 1
	place := 0
	for _, o := range full.Groups[:g] {
		if o.Rows > 1 == wide {
			place++
		}
	}
	at := -1
	for i, rows := range l.Rows {
		if rows > 1 == wide {
			if at = i; place == 0 {
				break
			}
			place--
		}
	}
	return at
}

// Fits says what keeps the layer from being in one model with layers of attention of the shape
// full, as an *Error without a path.
func (l LinearShape) Fits(full LayerShape) error {
	if l.Hidden != full.Hidden {
		return errorf("takes hidden rows of %d, the layers of attention have %d", l.Hidden, full.Hidden)
	}
	if !slices.Contains(l.Rows, 1) {
		return errorf("has no group of one row to decode with")
	}
	last := -1
	for i, g := range full.Groups {
		if g.Rows == 1 {
			continue
		}
		if last >= 0 && g.Cells <= full.Groups[last].Cells {
			return errorf("group %d of the layers of attention looks back on %d cells, group %d before it on %d: groups that do not grow "+
				"cannot be told apart beside layers with a state", i, g.Cells, last, full.Groups[last].Cells)
		}
		last = i
		if at := l.Beside(full, i); at >= 0 && l.Rows[at] != g.Rows {
			return errorf("group %d takes %d rows, where the layers of attention take %d (their group %d)", at, l.Rows[at], g.Rows, i)
		}
	}
	return nil
}

// HasState says, by the tensors alone, whether the model is a layer with a state: its mask has one
// value for each row of the call and none for a cache, or, where no group lists a mask, both states
// go out as large as they came in.
func (m *Meta) HasState() bool {
	for i := range m.Groups {
		g := &m.Groups[i]
		in, k, v := g.Input("input"), g.Input("K_cache"), g.Input("V_cache")
		if in.Type == axcl.TypeNone || k.Type == axcl.TypeNone || v.Type == axcl.TypeNone {
			return false
		}
		if mask := g.Input("mask"); mask.Type != axcl.TypeNone {
			return count(mask) == int64(last(in, 1))
		}
		if k.Size != g.Output("K_cache_out").Size || v.Size != g.Output("V_cache_out").Size {
			return false
		}
	}
	return len(m.Groups) > 0
}

// Linear reads the shape of a layer with a state. ok is [Meta.HasState]; where it is true the
// error, an *Error without a path, says what does not fit.
func (m *Meta) Linear() (l LinearShape, ok bool, err error) {
	if !m.HasState() {
		return l, false, nil
	}
	l, err = m.State()
	return l, true, err
}

// State is Linear for whom something else says that the layer has a state: the error, an *Error
// without a path, says which tensor is missing or does not fit.
func (m *Meta) State() (LinearShape, error) {
	l := LinearShape{Listed: true}
	for i := range m.Groups {
		g := &m.Groups[i]
		in, out := g.Input("input"), g.Output("output")
		if in.Type == axcl.TypeNone || out.Type == axcl.TypeNone {
			return l, errorf("is not a decoder layer: group %d has no tensor %q or no %q", i, "input", "output")
		}
		if err := m.unbound(i); err != nil {
			return l, err
		}
		n, hidden := last(in, 1), last(in, 0)
		if in.Type != axcl.BF16 || out.Type != axcl.BF16 || count(in) != int64(n)*int64(hidden) || last(out, 1) != n ||
			last(out, 0) != hidden || count(out) != count(in) {
			return l, errorf("group %d: \"input\" is %v %v and \"output\" %v %v, not the same rows of bf16", i, in.Type, in.Shape, out.Type,
				out.Shape)
		}
		pos, err := beside(g, n, i)
		if err != nil {
			return l, err
		}
		var states [2]axcl.Tensor
		for j, name := range []string{"K_cache", "V_cache"} {
			a, b := g.Input(name), g.Output(name+"_out")
			switch {
			case a.Type == axcl.TypeNone || b.Type == axcl.TypeNone:
				return l, errorf("is not a layer with a state: group %d has no tensor %q or no %q", i, name, name+"_out")
			//rule:T1 ./models TestHostileStates || a.Size != b.Size =>
			case a.Type != b.Type || a.Size != b.Size:
				return l, errorf("group %d: %q is %v %v of %d bytes and %q %v %v of %d: a state is replaced by its like", i, a.Name, a.Type,
					a.Shape, a.Size, b.Name, b.Type, b.Shape, b.Size)
			//rule:T1 ./models TestHostileStates false
			case a.Size > maxState:
				return l, errorf("group %d: %q has %d bytes, a state has at most %d", i, a.Name, a.Size, maxState)
			}
			states[j] = a
		}
		if i == 0 {
			l.Hidden, l.K, l.V, l.Pos = hidden, states[0], states[1], pos
		}
		for j, was := range []axcl.Tensor{l.K, l.V} {
			if is := states[j]; is.Type != was.Type || is.Size != was.Size {
				return l, errorf("group %d: %q is %v %v of %d bytes, in group 0 %v %v of %d: a state is the same in every group", i,
					is.Name, is.Type, is.Shape, is.Size, was.Type, was.Shape, was.Size)
			}
		}
		if hidden != l.Hidden {
			return l, errorf("group %d takes hidden rows of %d, group 0 of %d", i, hidden, l.Hidden)
		}
		l.Pos = min(l.Pos, pos)
		l.Listed = l.Listed && pos > 0 && g.Input("mask").Type != axcl.TypeNone
		l.Rows = append(l.Rows, n)
	}
	if len(l.Rows) == 0 {
		return l, errorf("has no shape group")
	}
	return l, nil
}

// beside checks indices and mask of a group of n rows, where they are listed, and gives the
// positions a row has in the first; 0 without it.
func beside(g *GroupMeta, n, group int) (pos int, err error) {
	if mask := g.Input("mask"); mask.Type != axcl.TypeNone && (mask.Type != axcl.BF16 || count(mask) != int64(n)) {
		return 0, errorf("group %d: \"mask\" is %v %v; a layer with a state has one bf16 for each of the call's %d rows", group, mask.Type,
			mask.Shape, n)
	}
	switch idx := g.Input("indices"); {
	case idx.Type == axcl.TypeNone:
		return 0, nil
	case idx.Type != axcl.Uint32 && idx.Type != axcl.Int32 || count(idx) != int64(n) && count(idx) != 3*int64(n):
		return 0, errorf("group %d: \"indices\" is %v %v, not one or three positions for each of the call's %d rows", group, idx.Type,
			idx.Shape, n)
	default:
		return int(count(idx)) / n, nil
	}
}
