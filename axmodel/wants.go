package axmodel

// Wants lists the tensors a model with this header has: names and sizes, and a type where only one
// will do.
func (h *Header) Wants() []Entry {
	if h.Flags&FlagShapeOnly != 0 {
		return nil
	}
	e := func(name string, rows, cols int) Entry { return Entry{Name: name, Rows: rows, Cols: cols} }
	switch h.Kind {
	case Head:
		out := []Entry{e("norm", 1, h.Hidden), e("weight", h.Out, h.Hidden)}
		if h.Flags&FlagBias != 0 {
			out = append(out, Entry{Name: "bias", Type: F32, Rows: 1, Cols: h.Out})
		}
		return out
	case EmbeddingHead:
		return []Entry{e("norm", 1, h.Hidden)}
	case Affine:
		return []Entry{e("weight", h.Out, h.Hidden), e("bias", 1, h.Out)}
	case Linear:
		return h.wantsLinear()
	case Encoder:
		return h.wantsEncoder()
	}
	q, kv := h.Heads*h.HeadDim, h.KVHeads*h.HeadDim
	queries := q
	if h.Flags&FlagGate != 0 {
		queries *= 2
	}
	shares := h.Flags&FlagShares != 0
	out := []Entry{e("input_norm", 1, h.Hidden), e("q", queries, h.Hidden)}
	if !shares {
		out = append(out, e("k", kv, h.Hidden), e("v", kv, h.Hidden))
	}
	out = append(out, e("o", h.Hidden, q), e("post_norm", 1, h.Hidden),
		e("gate", h.Intermediate, h.Hidden), e("up", h.Intermediate, h.Hidden), e("down", h.Hidden, h.Intermediate))
	if h.Flags&FlagQKVBias != 0 {
		out = append(out, e("q_bias", 1, q), e("k_bias", 1, kv), e("v_bias", 1, kv))
	}
	if h.Flags&FlagQKNorm != 0 {
		if out = append(out, e("q_norm", 1, h.HeadDim)); !shares {
			out = append(out, e("k_norm", 1, h.HeadDim))
		}
	}
	if h.Flags&FlagGemma != 0 {
		out = append(out, e("pre_mlp_norm", 1, h.Hidden), e("post_mlp_norm", 1, h.Hidden))
	}
	if h.Flags&FlagGemma4 != 0 {
		out = append(out, e("per_gate", h.Out, h.Hidden), e("per_proj", h.Hidden, h.Out), e("per_norm", 1, h.Hidden), e("scalar", 1, 1))
	}
	if h.Rotary > 0 {
		out = append(out, Entry{Name: "inv_freq", Type: F32, Rows: 1, Cols: h.Rotary / 2})
		if h.Pos == 3 {
			out = append(out, Entry{Name: "rope_axis", Type: F32, Rows: 1, Cols: h.Rotary / 2})
		}
	}
	return out
}
