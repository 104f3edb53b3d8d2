package axmodel

import (
	"math"
	"slices"
)

// check holds the header against itself and against the directory.
func (s *Soft) check() error {
	finite := func(v float32) bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }
	switch {
	case s.Kind < Layer || s.Kind > Net:
		return errorf("is of an unknown kind, %d", uint32(s.Kind))
	case s.Kind == Net:
		return s.checkGraphs()
	case s.Flags&^flagsKnown != 0:
		return errorf("has unknown flags 0x%x", s.Flags&^flagsKnown)
	case s.Hidden < 1:
		return errorf("hidden is 0")
	case !finite(s.Eps) || s.Eps < 0:
		return errorf("RMS epsilon is %v", s.Eps)
	}
	switch s.Kind {
	case Linear:
		if err := s.checkLinear(); err != nil {
			return err
		}
	case Encoder:
		if err := s.checkEncoder(); err != nil {
			return err
		}
	case Layer:
		switch {
		case s.Heads < 1 || s.KVHeads < 1 || s.HeadDim < 1 || s.Heads%s.KVHeads != 0:
			return errorf("%d heads over %d kv heads of %d are impossible", s.Heads, s.KVHeads, s.HeadDim)
		case s.KVHeads*s.HeadDim > maxHidden || s.Heads*s.HeadDim > maxHidden<<2:
			return errorf("%d heads, %d kv heads of %d are too many", s.Heads, s.KVHeads, s.HeadDim)
		case s.Intermediate < 1:
			return errorf("intermediate is 0")
		case s.Activation > GELU:
			return errorf("has an unknown activation, %d", s.Activation)
		case !finite(s.Scale) || !finite(s.Magnitude):
			return errorf("attention scale %v or rotary magnitude %v is not a number", s.Scale, s.Magnitude)
		case s.Rotary%2 != 0 || s.Rotary > s.HeadDim:
			return errorf("rotary dim %d of head dim %d", s.Rotary, s.HeadDim)
		case s.Pos != 1 && s.Pos != 3:
			return errorf("%d position rows", s.Pos)
		case s.Flags&FlagGemma4 != 0 && (s.Flags&FlagGemma == 0 || s.Out < 1 || s.Out > maxHidden):
			return errorf("has layer inputs of %d values, with flags 0x%x", s.Out, s.Flags)
		case s.Flags&FlagShares != 0 && s.Flags&(FlagQKVBias|FlagGate) != 0:
			return errorf("shares the K and V of another layer, and has flags 0x%x", s.Flags)
		case (s.Flags&FlagLoRA != 0) != (s.Rank > 0) || s.Rank > maxRank || s.Rank > 0 && s.Flags&(FlagGate|FlagShares|FlagGemma4) != 0:
			return errorf("takes an adapter of rank %d, with flags 0x%x", s.Rank, s.Flags)
		}
		for i, g := range s.Groups {
			if s.Flags&FlagShares != 0 {
				if g.Cache != g.Cells+g.Rows {
					return errorf("group %d looks back on %d cells and takes %d rows, which another layer keeps, its cache has %d",
						i, g.Cells, g.Rows, g.Cache)
				}
				continue
			}
			if g.Cache != g.Cells && !(g.Cells == 0 && g.Cache == 1) || g.Cache < 1 {
				return errorf("group %d looks back on %d cells, its cache has %d rows", i, g.Cells, g.Cache)
			}
		}
	case Head, Affine:
		if s.Out < 1 {
			return errorf("out is 0")
		}
		if s.Kind == Head && (!finite(s.Scale) || s.Scale < 0) {
			return errorf("logits are capped at %v", s.Scale)
		}
	case Decoder:
		return s.checkParts()
	}
	switch {
	case (s.Kind == Head || s.Kind == EmbeddingHead) && (len(s.Groups) != 1 || s.Groups[0].Rows != 1):
		return errorf("a head has one group of one row")
	case s.Flags&FlagGate != 0 && s.Kind != Layer:
		return errorf("is a %v, and claims a gate", s.Kind)
	case s.Flags&(FlagGemma4|FlagShares) != 0 && s.Kind != Layer:
		return errorf("is a %v, and claims to be a layer with inputs of its own, or shares K and V", s.Kind)
	case s.Flags&FlagLoRA != 0 && s.Kind != Layer:
		return errorf("is a %v, and claims to take an adapter", s.Kind)
	case s.Flags&FlagBias != 0 && s.Kind != Head:
		return errorf("is a %v, and claims a head's bias", s.Kind)
	case s.Flags&FlagMerger != 0 && s.Kind != Encoder:
		return errorf("is a %v, and claims a merger", s.Kind)
	case s.Flags&FlagLast != 0:
		return errorf("is a %v, and claims to be a whole decoder", s.Kind)
	case s.Flags&FlagOnePos != 0 && (s.Kind != Layer || s.Pos != 3):
		return errorf("is a %v of %d position rows, and claims one in place of three", s.Kind, s.Pos)
	}
	want := s.Wants()
	if len(want) != len(s.Tensors) {
		for _, e := range s.Tensors {
			if !slices.ContainsFunc(want, func(w Entry) bool { return w.Name == e.Name }) {
				return errorf("has a tensor %q that no %v has", e.Name, s.Kind)
			}
		}
	}
	for _, w := range want {
		e, ok := s.Entry(w.Name)
		switch {
		case !ok:
			return errorf("has no tensor %q", w.Name)
		case e.Rows != w.Rows || e.Cols != w.Cols:
			return errorf("tensor %q is %d × %d, the header asks for %d × %d", e.Name, e.Rows, e.Cols, w.Rows, w.Cols)
		case w.Type != 0 && e.Type != w.Type:
			return errorf("tensor %q is %v, not %v", e.Name, e.Type, w.Type)
		case s.Kind == Encoder && e.Type != F32 && e.Type != BF16:
			return errorf("tensor %q is %v: an encoder's are f32 or bf16", e.Name, e.Type)
		}
	}
	return nil
}
