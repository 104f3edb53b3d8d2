package axmodel

import (
	"cmp"
	"fmt"

	"github.com/axle-llm/axle/axcl"
)

// DecoderShape is what the tensors of a whole decoder in one file say: embeddings go in, logits
// come out, and K and V of all its layers are inputs and outputs of one call. Nothing in it is
// assumed.
type DecoderShape struct {
	Hidden int
	Layers int
	KV     int // length of a row of K, or of V
	Cells  int // the most cache rows a group takes
	Out    int // the vocabulary
	Cache  axcl.Type
	Groups []DecoderGroup
}

// DecoderGroup is one shape group of a whole decoder.
type DecoderGroup struct {
	Rows, Cells int
	Wanted      int    // rows of logits: one, or one for each row
	Whole       bool   // the caches that come out replace those that went in; else they are the rows of this call alone
	Pos, Mask   string // inputs that say where rows stand and what they see; empty where the file was compiled without one
	File, At    int    // which of the model's files it is in, and its number there
	Why         string // what keeps axle from running it; empty where nothing does
}

// Add takes in the groups of another file of the same model: one for prompts beside one for tokens.
// The error is that of Fits.
func (d *DecoderShape) Add(o DecoderShape) error {
	if err := d.Fits(o); err != nil {
		return err
	}
	file := 0
	for _, g := range d.Groups {
		file = max(file, g.File+1)
	}
	for _, g := range o.Groups {
		g.File = file
		d.Groups = append(d.Groups, g)
	}
	return nil
}

// Plan is the shape of the model that the groups make which can be run, and which of Groups those
// are: K and V of all layers are one tensor in a call, so that groups share a cache only where they
// look back on as many cells. Logits' type, Argmax, Place and Bytes are the caller's. The error, an
// *Error without a path, says why no row can be decoded.
func (d DecoderShape) Plan() (s axcl.Shape, run []int, err error) {
	for _, g := range d.Groups {
		if g.Why == "" {
			s.Cells = max(s.Cells, g.Cells)
		}
	}
	one, why := false, ""
	for i, g := range d.Groups {
		switch {
		case g.Why != "":
			if why == "" {
				why = ": group " + fmt.Sprint(i) + " " + g.Why
			}
		case g.Cells == s.Cells:
			s.Groups, run = append(s.Groups, axcl.Group{Rows: g.Rows, Cells: g.Cells}), append(run, i)
			one = one || g.Rows == 1
		}
	}
	if !one {
		return s, nil, errorf("a whole decoder that axle cannot run: no group takes one row and all cells%s", why)
	}
	s.Layers, s.Hidden, s.KV, s.Out, s.Pos, s.Whole = d.Layers, d.Hidden, d.KV, d.Out, 1, true
	s.Piece = axcl.PieceCells(s)
	return s, run, nil
}

// runs says what keeps axle from running the group: what it would have to guess.
func (one DecoderGroup) runs(g *GroupMeta) string {
	in, k, out := g.Input("input_embeds"), g.Input("k_caches"), g.Output("logits")
	pos, mask := g.Input(one.Pos), g.Input(one.Mask)
	n := int64(one.Rows)
	switch {
	case in.Type != axcl.BF16 || k.Type != axcl.BF16:
		return fmt.Sprintf("takes rows of %v and caches of %v, not bf16", in.Type, k.Type)
	case out.Type == axcl.FP16:
		return "gives logits in fp16, not bf16 or fp32"
	case one.Pos == "" || one.Mask == "":
		return "lists no positions or no mask, so that how much of its cache counts is not known"
	case one.Whole:
		return "gives its caches whole, and not which of their rows are new"
	case pos.Type != axcl.Uint32 && pos.Type != axcl.Int32 || count(pos) != n:
		return fmt.Sprintf("takes positions %q of %v %v, not a 32-bit integer for each of its %d rows", one.Pos, pos.Type, pos.Shape, n)
	case mask.Type != axcl.BF16 || count(mask) != n*(int64(one.Cells)+n):
		return fmt.Sprintf("takes a mask %q of %v %v, not of bf16 for %d rows by %d cells and the rows themselves", one.Mask, mask.Type,
			mask.Shape, n, one.Cells)
	case len(g.Inputs) != 5 || len(g.Outputs) != 3:
		return fmt.Sprintf("has %d inputs and %d outputs, of which 5 and 3 are known", len(g.Inputs), len(g.Outputs))
	}
	return ""
}

// Fits says what keeps two files, one for prompts and one for tokens, from being one model, as an
// *Error without a path.
func (d DecoderShape) Fits(o DecoderShape) error {
	if d.Hidden != o.Hidden || d.Layers != o.Layers || d.KV != o.KV || d.Cells != o.Cells || d.Out != o.Out || d.Cache != o.Cache {
		return errorf("%d layers, hidden %d, %d cache rows of %d %v, %d tokens; the other file has %d layers, hidden %d, %d rows of "+
			"%d %v, %d tokens", d.Layers, d.Hidden, d.Cells, d.KV, d.Cache, d.Out, o.Layers, o.Hidden, o.Cells, o.KV, o.Cache, o.Out)
	}
	return nil
}

// IsDecoder says, by the names of its tensors, whether the model is a whole decoder.
func (m *Meta) IsDecoder() bool {
	return len(m.Groups) > 0 && m.Groups[0].Input("input_embeds").Type != axcl.TypeNone &&
		m.Groups[0].Input("k_caches").Type != axcl.TypeNone
}

// Decoder reads the shape of a whole decoder. The error, an *Error without a path, says which
// tensor is missing or does not fit.
func (m *Meta) Decoder() (DecoderShape, error) {
	var d DecoderShape
	for i := range m.Groups {
		g := &m.Groups[i]
		in, k, v := g.Input("input_embeds"), g.Input("k_caches"), g.Input("v_caches")
		out, ko, vo := g.Output("logits"), g.Output("k_cache"), g.Output("v_cache")
		if err := cmp.Or(decoderTensor(i, in, "input_embeds"), decoderTensor(i, k, "k_caches"), decoderTensor(i, v, "v_caches"),
			decoderTensor(i, out, "logits"), decoderTensor(i, ko, "k_cache"), decoderTensor(i, vo, "v_cache")); err != nil {
			return d, err
		}
		rows, hidden, vocab := last(in, 1), last(in, 0), last(out, 0)
		layers, cells, kv, err := caches(i, k, "k_caches")
		if err != nil {
			return d, err
		}
		newLayers, newCells, newKV, err := caches(i, ko, "k_cache")
		switch {
		case err != nil:
			return d, err
		case count(in) != int64(rows)*int64(hidden):
			return d, errorf("group %d: \"input_embeds\" has shape %v, not rows of one text", i, in.Shape)
		case count(out) != int64(vocab) && count(out) != int64(rows)*int64(vocab):
			return d, errorf("group %d: \"logits\" has shape %v, neither one row nor %d", i, out.Shape, rows)
		case count(k) != count(v) || k.Type != v.Type || count(ko) != count(vo) || ko.Type != vo.Type || ko.Type != k.Type:
			return d, errorf("group %d: K is %v %v and comes out as %v %v, V %v %v and %v %v", i, k.Type, k.Shape, ko.Type, ko.Shape,
				v.Type, v.Shape, vo.Type, vo.Shape)
		case newLayers != layers || newKV != kv || newCells != cells && newCells != rows:
			return d, errorf("group %d: \"k_cache\" is %v: neither the %d cache rows of %d layers nor the %d of this call", i, ko.Shape,
				cells, layers, rows)
		case i > 0 && (hidden != d.Hidden || layers != d.Layers || kv != d.KV || vocab != d.Out || k.Type != d.Cache):
			return d, errorf("group %d disagrees with group 0: %d layers and %d, hidden %d and %d, rows of %d and %d, %d tokens and %d", i,
				layers, d.Layers, hidden, d.Hidden, kv, d.KV, vocab, d.Out)
		}
		d.Hidden, d.Layers, d.KV, d.Out, d.Cache = hidden, layers, kv, vocab, k.Type
		d.Cells = max(d.Cells, cells)
		one := DecoderGroup{Rows: rows, Cells: cells, Wanted: int(count(out) / int64(vocab)), Whole: newCells == cells && cells != rows}
		one.Pos, one.Mask = g.firstInput("indices", "position_ids", "positions"), g.firstInput("mask", "attention_mask")
		one.At = i
		one.Why = one.runs(g)
		d.Groups = append(d.Groups, one)
	}
	if len(d.Groups) == 0 {
		return d, errorf("has no shape group")
	}
	return d, nil
}

// decoderTensor reports why a tensor is not what every group of a whole decoder has.
func decoderTensor(group int, t axcl.Tensor, name string) error {
	switch {
	case t.Type == axcl.TypeNone:
		return errorf("is not a whole decoder: group %d has no tensor %q", group, name)
	case t.Type != axcl.BF16 && t.Type != axcl.FP16 && t.Type != axcl.FP32:
		return errorf("group %d: %q is %v, not bf16, fp16 or fp32", group, name, t.Type)
	case len(t.Shape) < 2:
		return errorf("group %d: %q has shape %v, too few dimensions", group, name, t.Shape)
	}
	return nil
}

// firstInput is the first of the names that an input has; empty for none.
func (g *GroupMeta) firstInput(names ...string) string {
	for _, name := range names {
		if g.Input(name).Type != axcl.TypeNone {
			return name
		}
	}
	return ""
}

// maxDecoderLayers is far above what any model has: more is a damaged file.
const maxDecoderLayers = 1 << 12

// caches reads a tensor that holds K, or V, of all layers: layers × rows × values, with any
// dimensions of one before them.
func caches(group int, t axcl.Tensor, name string) (layers, rows, kv int, err error) {
	dims := t.Shape
	for len(dims) > 3 && dims[0] == 1 {
		dims = dims[1:]
	}
	if len(dims) != 3 || dims[0] > maxDecoderLayers {
		return 0, 0, 0, errorf("group %d: %q has shape %v, not layers × rows × values", group, name, t.Shape)
	}
	return dims[0], dims[1], dims[2], nil
}
