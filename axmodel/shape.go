package axmodel

import (
	"slices"

	"github.com/axle-llm/axle/axcl"
)

// LayerShape is what a decoder layer's tensors say, whichever format the file has. Nothing in it is
// assumed: rows are the last dimension of `indices`, visible cells the mask's columns less the
// rows, cache rows those of `K_cache`.
type LayerShape struct {
	Hidden      int
	KV          int           // length of a row of K, or of V
	Pos         int           // position rows: 1, or 3 with multimodal RoPE
	Cells       int           // the most cells any group sees: the cache's length
	LayerInputs int           // values a row of per_layer_input has, which the host makes (Gemma-4); 0 without it
	Adapter     []axcl.Tensor // inputs for a LoRA adapter, in the order of LoraParts; nil: it takes none
	Groups      []LayerGroup
}

// LayerGroup is one shape group of a layer.
type LayerGroup struct {
	axcl.Group
	Cache int // rows of the K_cache and V_cache inputs: Cells, or a dummy's (usually 1) where Cells is 0
	Pos   int // positions a row has here: LayerShape.Pos (0 stands for it), or 1 of three in a decode group, whose row is text
}

// Shape fills the layers' part of an axcl.Shape; Layers, Out, Argmax, Place and Bytes are the
// caller's.
func (l LayerShape) Shape() axcl.Shape {
	s := axcl.Shape{Hidden: l.Hidden, KV: l.KV, Cells: l.Cells, Pos: l.Pos}
	for _, g := range l.Groups {
		s.Groups = append(s.Groups, g.Group)
	}
	return s
}

// Equal says whether two layers can be in one model.
func (l LayerShape) Equal(o LayerShape) bool {
	return l.Hidden == o.Hidden && l.KV == o.KV && l.Pos == o.Pos && l.LayerInputs == o.LayerInputs && l.Cells == o.Cells &&
		slices.Equal(l.Groups, o.Groups) && l.sameAdapter(o)
}

// alike is Equal but for how many rows the caches have: those of a layer that shares another's K
// and V have a call's own rows too.
func (l LayerShape) alike(o LayerShape) bool {
	same := slices.EqualFunc(l.Groups, o.Groups, func(a, b LayerGroup) bool { return a.Group == b.Group && a.Pos == b.Pos })
	l.Groups = o.Groups
	return same && l.Equal(o)
}

// Layer reads the shape of a decoder layer. The error, an *Error without a path, says which tensor
// is missing or does not fit.
func (m *Meta) Layer() (LayerShape, error) { return m.layer(false) }

// SharingLayer reads the shape of a decoder layer that has no K and V of its own, but is given
// another's: in its cache the rows of this call stand behind those before it. The error is as
// Layer's.
func (m *Meta) SharingLayer() (LayerShape, error) { return m.layer(true) }

func (m *Meta) layer(shares bool) (LayerShape, error) {
	var l LayerShape
	for i := range m.Groups {
		g := &m.Groups[i]
		var in, idx, mask, k, v, ko, vo, out axcl.Tensor
		var err error
		for _, w := range []struct {
			to   *axcl.Tensor
			from []axcl.Tensor
			name string
			typ  axcl.Type
			rank int
		}{
			{&in, g.Inputs, "input", axcl.BF16, 2}, {&idx, g.Inputs, "indices", axcl.Uint32, 1}, {&mask, g.Inputs, "mask", axcl.BF16, 2},
			{&k, g.Inputs, "K_cache", axcl.BF16, 2}, {&v, g.Inputs, "V_cache", axcl.BF16, 2},
			{&ko, g.Outputs, "K_cache_out", axcl.BF16, 2}, {&vo, g.Outputs, "V_cache_out", axcl.BF16, 2},
			{&out, g.Outputs, "output", axcl.BF16, 2},
		} {
			if *w.to, err = layerTensor(i, w.from, w.name, w.typ, w.rank); err != nil {
				return l, err
			}
		}
		//rule:G24 ./models TestUnboundInput false
		if err := m.unbound(i); err != nil {
			return l, err
		}
		n := last(idx, 0)
		pos := int(count(idx)) / n
		h := last(mask, 0) - n
		hidden, kv, cache := last(in, 0), last(k, 0), last(k, 1)
		added := 0
		if per := find(g.Inputs, "per_layer_input"); per.Type != axcl.TypeNone {
			if added = last(per, 0); per.Type != axcl.BF16 || count(per) != int64(n)*int64(added) {
				return l, errorf("group %d: %q is %v %v, not a row of bf16 for each of the call's %d", i, per.Name, per.Type, per.Shape, n)
			}
		}
		adapter, err := m.adapter(i)
		if err != nil {
			return l, err
		}
		want := h
		if shares {
			want += n
		}
		type fit struct {
			t    axcl.Tensor
			want []int
		}
		for _, f := range []fit{{in, []int{n, hidden}}, {out, []int{n, hidden}}, {mask, []int{n, h + n}}, {ko, []int{n, kv}},
			{vo, []int{n, kv}}, {k, []int{cache, kv}}, {v, []int{cache, kv}}} {
			if last(f.t, 1) != f.want[0] || last(f.t, 0) != f.want[1] || count(f.t) != int64(f.want[0])*int64(f.want[1]) {
				return l, errorf("group %d: %q has shape %v, which does not fit %d rows of hidden %d, K and V of %d", i, f.t.Name,
					f.t.Shape, n, hidden, kv)
			}
		}
		switch {
		case h < 0:
			return l, errorf("group %d: a mask of %d columns is narrower than the call's %d rows", i, last(mask, 0), n)
		case (h > 0 || shares) && cache != want:
			return l, errorf("group %d: the mask looks back on %d cells, the cache has %d where %d belong", i, h, cache, want)
		case pos != 1 && pos != 3:
			return l, errorf("group %d: %d positions a row", i, pos)
		case i > 0 && added != l.LayerInputs:
			return l, errorf("group %d: %d values a row of \"per_layer_input\", in group 0 %d", i, added, l.LayerInputs)
		case i > 0 && !l.sameAdapter(LayerShape{Adapter: adapter}):
			return l, errorf("group %d: takes another LoRA adapter than group 0", i)
		case len(adapter) > 0 && (last(adapter[0], 0) != hidden || last(adapter[3], 1) != kv):
			return l, errorf("group %d: a LoRA adapter for rows of %d and K of %d, the layer has %d and %d", i, last(adapter[0], 0),
				last(adapter[3], 1), hidden, kv)
		case i > 0 && (hidden != l.Hidden || kv != l.KV):
			return l, errorf("group %d disagrees with group 0: hidden %d and %d, K and V %d and %d", i, hidden, l.Hidden, kv, l.KV)
		}
		l.Hidden, l.KV, l.Pos, l.LayerInputs = hidden, kv, max(l.Pos, pos), added
		l.Adapter = adapter
		l.Cells = max(l.Cells, h)
		l.Groups = append(l.Groups, LayerGroup{axcl.Group{Rows: n, Cells: h}, cache, pos})
	}
	return l, l.agree()
}

// agree reports groups that do not fit each other.
func (l *LayerShape) agree() error {
	for i, g := range l.Groups { // models that see: text, which is all that a decode group is given, has three positions that are alike
		if g.Pos != l.Pos && g.Rows > 1 {
			return errorf("group %d disagrees with others: a row has %d positions, and %d there", i, g.Pos, l.Pos)
		}
	}
	if len(l.Groups) == 0 {
		return errorf("has no shape group")
	}
	if l.Cells == 0 {
		return errorf("no shape group looks back on a cell")
	}
	return nil
}

// layerTensor is a tensor that every group of a decoder layer has.
func layerTensor(group int, ts []axcl.Tensor, name string, t axcl.Type, rank int) (axcl.Tensor, error) {
	x := find(ts, name)
	switch {
	case x.Type == axcl.TypeNone:
		return x, errorf("is not a decoder layer: group %d has no tensor %q", group, name)
	case x.Type != t && !(t == axcl.Uint32 && x.Type == axcl.Int32):
		return x, errorf("group %d: %q is %v, a decoder layer's is %v", group, name, x.Type, t)
	case len(x.Shape) < rank:
		return x, errorf("group %d: %q has shape %v, too few dimensions", group, name, x.Shape)
	}
	return x, nil
}

// unbound fails with the first input of a decoder layer's group i that is none of those a layer is
// given: it would run with whatever lies in that buffer.
func (m *Meta) unbound(i int) error {
	given := []string{"input", "indices", "mask", "K_cache", "V_cache", "per_layer_input"}
	given = append(given, loraInputs()...)
	for _, t := range m.Groups[i].Inputs {
		if !slices.Contains(given, t.Name) {
			return errorf("group %d: input %q, %v %v, is none that a decoder layer is given", i, t.Name, t.Type, t.Shape)
		}
	}
	return nil
}

// HeadShape is what a post model's tensors say: a language model's head, or an embedding head.
type HeadShape struct {
	Hidden int
	Out    int       // the vocabulary, or Hidden for an embedding head
	Type   axcl.Type // of the output: BF16 or FP32
	Argmax bool      // also gives the largest logit's index

	Input, Output, Index string // normalised names; Index is empty without Argmax
}

// Head reads the shape of a post model: one input row, one output row, under any names, and
// optionally an index.
func (m *Meta) Head() (HeadShape, error) {
	var h HeadShape
	if len(m.Groups) == 0 {
		return h, errorf("has no shape group")
	}
	g := &m.Groups[0]
	if len(g.Inputs) != 1 {
		return h, errorf("is not a head: %d inputs, not one", len(g.Inputs))
	}
	in := g.Inputs[0]
	if in.Type != axcl.BF16 || int64(last(in, 0)) != count(in) {
		return h, errorf("is not a head: input %q is %v %v, not one row of bf16", in.Name, in.Type, in.Shape)
	}
	h.Input, h.Hidden = in.Name, last(in, 0)
	for _, t := range g.Outputs {
		switch {
		case (t.Type == axcl.BF16 || t.Type == axcl.FP32) && h.Output == "" && int64(last(t, 0)) == count(t):
			h.Output, h.Out, h.Type = t.Name, last(t, 0), t.Type
		case (t.Type == axcl.Uint32 || t.Type == axcl.Int32) && h.Index == "" && count(t) == 1:
			h.Index, h.Argmax = t.Name, true
		default:
			return h, errorf("is not a head: unexpected output %q, %v %v", t.Name, t.Type, t.Shape)
		}
	}
	if h.Output == "" {
		return h, errorf("is not a head: no output row of bf16 or fp32")
	}
	return h, nil
}

// last is a dimension counted from the end; 1 where there are not that many.
func last(t axcl.Tensor, back int) int {
	if i := len(t.Shape) - 1 - back; i >= 0 {
		return t.Shape[i]
	}
	return 1
}

func count(t axcl.Tensor) int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= int64(d)
	}
	return n
}
