package axmodel

import (
	"slices"

	"github.com/axle-llm/axle/axcl"
)

// checkLinear is check for a linear layer's own numbers.
func (s *Soft) checkLinear() error {
	const allowed = FlagNormOne | FlagHollow | FlagSuffix
	switch {
	case s.Heads < 1 || s.KVHeads < 1 || s.HeadDim < 1 || s.ValueDim < 1 || s.Heads%s.KVHeads != 0:
		return errorf("%d value heads of %d over %d key heads of %d are impossible", s.Heads, s.ValueDim, s.KVHeads, s.HeadDim)
	case s.Conv < 2:
		return errorf("a convolution over %d rows", s.Conv)
	case s.State.Type() == axcl.TypeNone:
		return errorf("has states of an unknown type, %d", uint32(s.State))
	case 2*int64(s.KVHeads)*int64(s.HeadDim)+int64(s.Heads)*int64(s.ValueDim) > maxHidden<<2:
		return errorf("%d value heads of %d over %d key heads of %d are too many", s.Heads, s.ValueDim, s.KVHeads, s.HeadDim)
	case int64(s.Channels())*int64(s.Conv-1)*4 > maxState || int64(s.HeadDim)*int64(s.ValueDim) > maxState/4/int64(s.Heads):
		return errorf("%d value heads of %d × %d and a convolution of %d rows make a state of more than %d MiB", s.Heads, s.HeadDim,
			s.ValueDim, s.Conv, maxState>>20)
	case s.Intermediate < 1:
		return errorf("intermediate is 0")
	case s.Activation != SiLU:
		return errorf("is a linear layer with activation %d", s.Activation)
	case s.Flags&^allowed != 0:
		return errorf("is a linear layer, and has flags 0x%x", s.Flags&^allowed)
	case s.Rotary != 0 || s.Pos != 1:
		return errorf("is a linear layer, and has rotary dim %d and %d position rows", s.Rotary, s.Pos)
	}
	for i, g := range s.Groups {
		if g.Cells != 0 || g.Cache != 0 {
			return errorf("is a linear layer, and group %d looks back on %d cells of %d", i, g.Cells, g.Cache)
		}
	}
	return nil
}

// wantsLinear lists a linear layer's tensors.
func (h *Header) wantsLinear() []Entry {
	values := h.Heads * h.ValueDim
	e := func(name string, t DType, rows, cols int) Entry {
		return Entry{Name: name, Type: t, Rows: rows, Cols: cols}
	}
	return []Entry{e("input_norm", 0, 1, h.Hidden), e("qkv", 0, h.Channels(), h.Hidden), e("z", 0, values, h.Hidden),
		e("b", 0, h.Heads, h.Hidden), e("a", 0, h.Heads, h.Hidden), e("conv", F32, h.Channels(), h.Conv), e("dt_bias", F32, 1, h.Heads),
		e("a_log", F32, 1, h.Heads), e("norm", F32, 1, h.ValueDim), e("o", 0, h.Hidden, values), e("post_norm", 0, 1, h.Hidden),
		e("gate", 0, h.Intermediate, h.Hidden), e("up", 0, h.Intermediate, h.Hidden), e("down", 0, h.Hidden, h.Intermediate)}
}

// LinearLadder lists the shape groups of a linear layer: decode first, then so many prefill groups.
func LinearLadder(chunk, prefill int) []SoftGroup {
	gs := []SoftGroup{{Rows: 1}}
	if chunk > 1 {
		for range prefill {
			gs = append(gs, SoftGroup{Rows: chunk})
		}
	}
	return gs
}

// LinearShape is what the tensors of a layer with a state say, whichever format the file has. The states are bytes: what they mean is the
// layer's own. They are the same in every group.
type LinearShape struct {
	Hidden int
	K, V   axcl.Tensor // K_cache and V_cache: shape, type and bytes of the two states
	Rows   []int       // of each shape group
	Listed bool        // indices and mask are among the inputs; a card wants them given all the same
}

// Linear reads the shape of a layer with a state: its K_cache_out and V_cache_out have the bytes of its K_cache and V_cache, which they
// replace. ok is false where the tensors are another kind of model's; the error, an *Error without a path, says what does not fit where
// they are a linear layer's by the mask or, where none is listed, by the states.
func (m *Meta) Linear() (l LinearShape, ok bool, err error) {
	if len(m.Groups) == 0 || !linear(&m.Groups[0]) {
		return l, false, nil
	}
	for i := range m.Groups {
		g := &m.Groups[i]
		in, out := g.Input("input"), g.Output("output")
		n, hidden := last(in, 1), last(in, 0)
		rows := func(t axcl.Tensor) bool { return t.Type == axcl.TypeNone || count(t) == int64(n) }
		switch {
		case in.Type != axcl.BF16 || out.Type != axcl.BF16 || count(in) != int64(n)*int64(hidden) || !slices.Equal(in.Shape, out.Shape):
			return l, true, errorf("group %d of a linear layer: input is %v %v, output %v %v", i, in.Type, in.Shape, out.Type, out.Shape)
		case !rows(g.Input("indices")) || !rows(g.Input("mask")):
			return l, true, errorf("group %d of a linear layer: indices %v and mask %v are not one for each of %d rows", i,
				g.Input("indices").Shape, g.Input("mask").Shape, n)
		}
		for _, name := range []string{"K_cache", "V_cache"} {
			a, b := g.Input(name), g.Output(name+"_out")
			switch {
			case a.Type == axcl.TypeNone || b.Type == axcl.TypeNone:
				return l, true, errorf("group %d of a linear layer has no tensor %q or no %q", i, name, name+"_out")
			case a.Type != b.Type || a.Size != b.Size:
				return l, true, errorf("group %d of a linear layer: %q is %v %v, %q %v %v: a state replaces the one it was made of", i, name,
					a.Type, a.Shape, b.Name, b.Type, b.Shape)
			case a.Size > maxState:
				return l, true, errorf("group %d of a linear layer: %q has %d bytes, at most %d are possible", i, name, a.Size, maxState)
			}
		}
		k, v := g.Input("K_cache"), g.Input("V_cache")
		if i == 0 {
			l.Hidden, l.K, l.V = hidden, k, v
			l.Listed = true
		}
		l.Listed = l.Listed && g.Input("indices").Type != axcl.TypeNone && g.Input("mask").Type != axcl.TypeNone
		if hidden != l.Hidden || k.Type != l.K.Type || k.Size != l.K.Size || v.Type != l.V.Type || v.Size != l.V.Size {
			return l, true, errorf("group %d of a linear layer disagrees with group 0: hidden %d and %d, states of %d and %d bytes, not %d and %d",
				i, hidden, l.Hidden, k.Size, v.Size, l.K.Size, l.V.Size)
		}
		l.Rows = append(l.Rows, n)
	}
	return l, true, nil
}

// linear says whether a group's tensors are a linear layer's: its mask has a column for each row of the call and none for the cache, or,
// where no mask is listed, its states go out as they came in.
func linear(g *GroupMeta) bool {
	in, k, v := g.Input("input"), g.Input("K_cache"), g.Input("V_cache")
	ko, vo := g.Output("K_cache_out"), g.Output("V_cache_out")
	if in.Type == axcl.TypeNone || k.Type == axcl.TypeNone || v.Type == axcl.TypeNone {
		return false
	}
	if mask := g.Input("mask"); mask.Type != axcl.TypeNone {
		return count(mask) == int64(last(in, 1))
	}
	return k.Size == ko.Size && v.Size == vo.Size
}
