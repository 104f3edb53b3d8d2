package axmodel

import (
	"fmt"

	"github.com/axle-llm/axle/axcl"
)

// Order is how the pixels of a picture lie in an encoder's input, bytes of red, green and blue.
type Order uint32

// The orders.
const (
	InBlocks Order = iota // Qwen's: [1, N, 2·p·p, 3], patches in blocks of Merge × Merge, each given twice, channels last
	InRows                // [1, H, W, 3]: rows of pixels, channels last
)

// Limits of an encoder; the largest known has 24 × 24 patches of 16 pixels, 27 blocks and three
// further outputs.
const (
	maxPatch   = 256
	maxMerge   = 8
	maxBlocks  = 256
	maxDeep    = 8
	maxPatches = 1 << 16
)

// PatchValues is how many values of the input a patch has.
func (h *Header) PatchValues() int {
	if h.Order == InBlocks {
		return 2 * h.Patch * h.Patch * 3
	}
	return h.Patch * h.Patch * 3
}

// Merged is how long Merge × Merge patches of the tower's width are, side by side.
func (h *Header) Merged() int { return h.Hidden * h.Merge * h.Merge }

// checkEncoder is check for an encoder's own numbers.
func (s *Soft) checkEncoder() error {
	switch {
	case s.Heads < 1 || s.HeadDim < 1 || s.Heads*s.HeadDim != s.Hidden:
		return errorf("%d heads of %d do not make a width of %d", s.Heads, s.HeadDim, s.Hidden)
	case s.Intermediate < 1:
		return errorf("intermediate is 0")
	case s.Out < 1 || s.Out > maxHidden:
		return errorf("gives rows of %d", s.Out)
	case s.Activation != GELU:
		return errorf("is an encoder with activation %d", s.Activation)
	case s.Flags&^(FlagShapeOnly|FlagMerger) != 0:
		return errorf("is an encoder, and has flags 0x%x", s.Flags)
	case s.Patch < 1 || s.Patch > maxPatch || s.Merge < 1 || s.Merge > maxMerge:
		return errorf("makes a row of %d × %d patches of %d pixels a side", s.Merge, s.Merge, s.Patch)
	case s.Order > InRows:
		return errorf("takes pixels in an unknown order, %d", uint32(s.Order))
	case s.Flags&FlagShapeOnly != 0 && s.Out < 24:
		return errorf("is shape-only, and its rows of %d values cannot spell a number", s.Out)
	case len(s.Groups) != 1:
		return errorf("is an encoder of %d shape groups, not one", len(s.Groups))
	}
	if err := s.checkBlocks(); err != nil {
		return err
	}
	g := s.Groups[0]
	if s.Down < 1 || s.Across < 1 || s.Down*s.Across > maxPatches || s.Down%s.Merge != 0 || s.Across%s.Merge != 0 || g != s.EncoderGroup() {
		return errorf("makes %d rows of %d × %d patches, %d × %d a row", g.Rows, g.Cells, g.Cache, s.Merge, s.Merge)
	}
	return nil
}

// checkBlocks reports the first thing about an encoder's blocks that cannot be.
func (s *Soft) checkBlocks() error {
	switch {
	case s.Blocks < 1 || s.Blocks > maxBlocks:
		return errorf("has %d blocks, 1 to %d are possible", s.Blocks, maxBlocks)
	case s.Deep < 0 || s.Deep > min(maxDeep, s.Blocks):
		return errorf("has %d further outputs of %d blocks, at most %d are possible", s.Deep, s.Blocks, maxDeep)
	case s.Rotary%2 != 0 || s.Rotary > s.HeadDim:
		return errorf("rotary dim %d of head dim %d", s.Rotary, s.HeadDim)
	case !(s.Scale > -1e9 && s.Scale < 1e9):
		return errorf("attention scale %v is not a number", s.Scale)
	case s.Merged() > maxHidden<<2:
		return errorf("%d × %d patches of %d values are too many for a row", s.Merge, s.Merge, s.Hidden)
	case s.Blocks*max(3*s.Hidden, s.Intermediate) > maxOut || s.Deep*max(s.Merged(), s.Out) > maxOut:
		return errorf("%d blocks of %d values, intermediate %d, are too many", s.Blocks, s.Hidden, s.Intermediate)
	}
	return nil
}

// EncoderGroup is the shape group of an encoder: the rows it gives, and the patches of a picture.
func (h *Header) EncoderGroup() SoftGroup {
	return SoftGroup{Rows: h.Down * h.Across / max(h.Merge*h.Merge, 1), Cells: h.Down, Cache: h.Across}
}

// wantsEncoder lists an encoder's tensors. What every block has lies in one, block after block.
func (h *Header) wantsEncoder() (out []Entry) {
	d, m, b := h.Hidden, h.Merged(), h.Blocks
	add := func(name string, rows, cols int) { out = append(out, Entry{Name: name, Rows: rows, Cols: cols}) }
	exact := func(name string, rows, cols int) {
		out = append(out, Entry{Name: name, Type: F32, Rows: rows, Cols: cols})
	}
	// n norms of rows, and n matrices, with their biases
	norm := func(name string, n, length int) {
		add(name, n, length)
		add(name+"_bias", n, length)
	}
	matrix := func(name string, n, rows, cols int) {
		add(name, n*rows, cols)
		add(name+"_bias", n, rows)
	}
	matrix("patch", 1, d, h.PatchValues())
	exact("pos", h.Down*h.Across, d)
	norm("norm1", b, d)
	matrix("qkv", b, 3*d, d)
	matrix("o", b, d, d)
	norm("norm2", b, d)
	matrix("fc1", b, h.Intermediate, d)
	matrix("fc2", b, d, h.Intermediate)
	norm("merge_norm", 1, d)
	if h.Flags&FlagMerger != 0 {
		matrix("merge_fc1", 1, m, m)
		matrix("merge_fc2", 1, h.Out, m)
	} else {
		add("merge_fc2", h.Out, m)
	}
	if h.Rotary > 0 {
		exact("inv_freq", 1, h.Rotary/2)
		exact("rope_axis", 1, h.Rotary/2)
	}
	if k := h.Deep; k > 0 {
		exact("deep_at", 1, k)
		norm("deep_norm", k, m)
		matrix("deep_fc1", k, m, m)
		matrix("deep_fc2", k, h.Out, m)
	}
	return out
}

// pictures lists an encoder's inputs and outputs, as the vendor's have them.
func (s *Soft) pictures(g SoftGroup, in, res func(string, axcl.Type, ...int)) {
	name, rows := "hidden_states_out", []int{g.Rows, s.Out}
	if s.Order == InRows {
		name, rows = "output", []int{1, g.Rows, s.Out}
		in("pixel_values", axcl.Uint8, 1, g.Cells*s.Patch, g.Cache*s.Patch, 3)
	} else {
		in("hidden_states", axcl.Uint8, 1, g.Cells*g.Cache, 2*s.Patch*s.Patch, 3)
	}
	res(name, axcl.FP32, rows...)
	for i := range s.Deep {
		res(fmt.Sprintf("deepstack_feature_%d", i), axcl.FP32, rows...)
	}
}
