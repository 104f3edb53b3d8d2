package axmodel

import (
	"github.com/axle-llm/axle/axcl"
)

// checkLinear is check for a linear layer's own numbers.
func (s *Soft) checkLinear() error {
	const allowed = FlagNormOne | FlagShapeOnly | FlagSuffix
	switch {
	case s.Heads < 1 || s.KVHeads < 1 || s.HeadDim < 1 || s.ValueDim < 1 || s.Heads%s.KVHeads != 0:
		return errorf("%d value heads of %d over %d key heads of %d are impossible", s.Heads, s.ValueDim, s.KVHeads, s.HeadDim)
	case s.Conv < 2:
		return errorf("a convolution over %d rows", s.Conv)
	case s.State.Type() == axcl.TypeNone:
		return errorf("has states of an unknown type, %d", uint32(s.State))
	case 2*int64(s.KVHeads)*int64(s.HeadDim)+int64(s.Heads)*int64(s.ValueDim) > maxHidden<<2:
		return errorf("%d value heads of %d over %d key heads of %d are too many", s.Heads, s.ValueDim, s.KVHeads, s.HeadDim)
	//rule:T1 TestLinearHostile int64(s.HeadDim)*int64(s.ValueDim) > maxState/4/int64(s.Heads) => s.Hidden < 0
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

// LinearLadder lists the shape groups of a linear layer: decode first, then this many prefill
// groups.
func LinearLadder(chunk, prefill int) []SoftGroup {
	gs := []SoftGroup{{Rows: 1}}
	if chunk > 1 {
		for range prefill {
			gs = append(gs, SoftGroup{Rows: chunk})
		}
	}
	return gs
}
