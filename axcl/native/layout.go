//go:build cgo && !fake && linux

package native

/*
#include "native.h"
*/
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"unsafe"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
)

// files is what the files of a model say, read before the card is touched.
type files struct {
	all     axmodel.Layers
	shape   axcl.Shape // of the layers
	weights int64
	layers  int
	whole   *axmodel.DecoderShape // of a whole decoder: all that its files have, and which groups of it are run
	run     []int
	sizes   []int64 // of each layer's file and the head's; a file without weights says the size it stands for
}

// order is the files' by size, the largest first, the head before layers of its size. The library
// holds a file beside the model while it loads it: a large file is best loaded when little else is
// there.
func (f *files) order() []int {
	all := make([]int, len(f.sizes))
	for i := range all {
		all[i] = i
	}
	slices.SortStableFunc(all, func(a, b int) int {
		//rule:D3 TestLoadOrder ; c => ; false && c
		if c := cmp.Compare(f.sizes[b], f.sizes[a]); c != 0 {
			return c
		}
		return cmp.Compare(b/f.layers, a/f.layers) // 1 is the head
	})
	return all
}

// readFiles reads every file's description and lets nothing pass that is not a model, or does not
// fit the others.
func readFiles(spec axcl.LoadSpec) (f files, err error) {
	if len(spec.Layers) == 0 {
		return f, fmt.Errorf("axcl: %w: no layers", axcl.ErrModel)
	}
	if spec.Source != nil && len(spec.Source) != len(spec.Layers) {
		return f, fmt.Errorf("axcl: %w: %d layers, of %d of them is said whose K and V they use", axcl.ErrModel,
			len(spec.Layers), len(spec.Source))
	}
	f.layers = len(spec.Layers)
	for i, path := range spec.Layers {
		meta, err := axmodel.ReadFile(path)
		if err != nil {
			return f, err
		}
		if i == 0 && meta.IsDecoder() {
			return readWhole(spec)
		}
		if err := f.all.AddOf(meta, spec.Source); err != nil {
			return f, named(err, path)
		}
		f.weights += meta.WeightBytes
		f.sizes = append(f.sizes, max(meta.FileBytes, meta.WeightBytes))
	}
	for _, path := range spec.Beside {
		if f.all.Full.Cells > 0 {
			break
		}
		meta, err := axmodel.ReadFile(path)
		if err != nil {
			return f, err
		}
		if err := f.all.Beside(meta); err != nil {
			return f, named(err, path)
		}
	}
	if f.shape, err = f.all.Shape(spec.Slots); err != nil {
		return f, named(err, spec.Layers[0])
	}
	if spec.Head == "" {
		return f, nil
	}
	meta, err := axmodel.ReadFile(spec.Head)
	if err != nil {
		return f, err
	}
	h, err := meta.Head()
	if err != nil {
		return f, named(err, spec.Head)
	}
	f.weights += meta.WeightBytes
	f.sizes = append(f.sizes, max(meta.FileBytes, meta.WeightBytes))
	return f, headFits(h, f.shape.Hidden, spec.Head, spec.Layers[0])
}

func headFits(h axmodel.HeadShape, hidden int, head, layer string) error {
	if h.Hidden != hidden {
		return fmt.Errorf("axcl: %w: %s takes hidden rows of %d, the layers (%s) give %d", axcl.ErrModel, head, h.Hidden, layer, hidden)
	}
	return nil
}

// named puts the file's name into an error of axmodel that has none.
func named(err error, path string) error {
	var e *axmodel.Error
	if errors.As(err, &e) && e.Path == "" {
		e.Path = path
	}
	return err
}

// suffix is what a tensor's name carries in other groups than the first.
var suffix = regexp.MustCompile(`_[0-9]+$`)

// meta is what the card says of a module, in the form the file's description has, so that both are
// read by the same rules.
func meta(mod *C.axn_module, ts []C.axn_tensor) (*axmodel.Meta, error) {
	m := &axmodel.Meta{}
	per := int(mod.ins + mod.outs)
	for g := range int(mod.groups) {
		var gm axmodel.GroupMeta
		for s := range per {
			t, err := tensor(&ts[g*per+s], true)
			if err != nil {
				return nil, err
			}
			if g > 0 || per > 1 {
				t.Name = suffix.ReplaceAllString(t.Name, "")
			}
			if s < int(mod.ins) {
				gm.Inputs = append(gm.Inputs, t)
			} else {
				gm.Outputs = append(gm.Outputs, t)
			}
		}
		m.Groups = append(m.Groups, gm)
	}
	return m, nil
}

// plain is a tensor's name in a group after the first without what the file may have put behind it.
func plain(name, first string, group int) string {
	if name == fmt.Sprintf("%s_%d", first, group) {
		return first
	}
	return name
}

var width = map[axcl.Type]int{axcl.Int8: 1, axcl.Uint8: 1, axcl.Int16: 2, axcl.Uint16: 2, axcl.FP16: 2, axcl.BF16: 2, axcl.Int32: 4,
	axcl.Uint32: 4, axcl.FP32: 4, axcl.Int64: 8, axcl.Uint64: 8, axcl.FP64: 8}

// tensor reads what the card says of one. Of a layer or a head the size must be what type and
// dimensions make it; a general model may pad.
func tensor(c *C.axn_tensor, exact bool) (axcl.Tensor, error) {
	t := axcl.Tensor{Name: C.GoString(&c.name[0]), Type: axcl.Type(max(c._type, 0))}
	bad := func() (axcl.Tensor, error) {
		return t, fmt.Errorf("axcl: %w: tensor %q on the card: %v %v of %d bytes", axcl.ErrModel, t.Name, t.Type, t.Shape, uint64(c.size))
	}
	if t.Name == "" || c.ndim < 0 || c.ndim > C.AXN_DIMS || c.size > math.MaxUint32 {
		return bad()
	}
	n := uint64(width[t.Type])
	for _, d := range c.dims[:c.ndim] {
		t.Shape = append(t.Shape, int(d))
		if d < 1 || n > math.MaxUint32/uint64(d) {
			return bad()
		}
		n *= uint64(d) // stays 0 where the type is not known
	}
	if t.Size = int(c.size); t.Size == 0 || exact && width[t.Type] > 0 && n != uint64(c.size) {
		return bad()
	}
	return t, nil
}

// slot is a tensor's place: inputs count first, then outputs.
func slot(g *axmodel.GroupMeta, name string) C.uint32_t {
	for i, t := range g.Inputs {
		if t.Name == name {
			return C.uint32_t(i)
		}
	}
	for i, t := range g.Outputs {
		if t.Name == name {
			return C.uint32_t(len(g.Inputs) + i)
		}
	}
	panic("axcl: tensor " + name + " vanished")
}

// layOut makes room for what the files say of the layers.
func (m *model) layOut(f *files) {
	c, l := m.c, &f.all.Full
	layers, groups := int(c.layers), len(l.Groups)
	c.piece, c.state_piece = C.uint32_t(m.shape.Piece), C.size_t(m.shape.StatePiece())
	c.groups, c.hidden, c.kv, c.pos = C.uint32_t(groups), C.uint32_t(m.shape.Hidden), C.uint32_t(l.KV), C.uint32_t(l.Pos)
	c.rows = C.uint32_t(m.shape.MaxRows())
	c.masks = c.groups
	if m.shape.Local {
		c.masks *= 2
	}
	c.full, c.row_at, c.width = array[C.uint32_t](m, layers), array[C.size_t](m, layers), array[C.uint32_t](m, layers)
	full, at := unsafe.Slice(c.full, layers), unsafe.Slice(c.row_at, layers)
	for i, linear := range f.all.Linear {
		unsafe.Slice(c.width, layers)[i] = C.uint32_t(f.all.Widths[i])
		if !linear && !f.all.Shares(i) {
			full[c.whole], at[c.whole] = C.uint32_t(i), c.row_bytes
			c.row_bytes += C.size_t(4 * f.all.Widths[i])
			c.whole++
		}
	}
	c.group = array[C.axn_group](m, int(c.masks))
	c.parts = array[C.axn_parts](m, layers*groups)
	buffers := 9
	if l.Adapter != nil {
		buffers += C.AXN_LORA
		m.layOutAdapters(f)
	}
	c.io = ios(m, max(layers, f.layers)*groups, buffers)
	for i, lg := range l.Groups {
		g := &unsafe.Slice(c.group, groups)[i]
		g.rows, g.cells, g.pos = C.uint32_t(lg.Rows), C.uint32_t(lg.Cells), C.uint32_t(cmp.Or(lg.Pos, l.Pos))
		m.narrow = m.narrow || int(g.pos) < l.Pos
		g.cache = C.uint32_t(lg.Cache)
		g.seen = array[C.uint64_t](m, lg.Rows*(axcl.Words(lg.Cells)+axcl.Words(lg.Rows)))
		if m.shape.Local {
			near := &unsafe.Slice(c.group, c.masks)[groups+i]
			near.rows, near.cells, near.pos = g.rows, g.cells, g.pos
			near.seen = array[C.uint64_t](m, lg.Rows*(axcl.Words(lg.Cells)+axcl.Words(lg.Rows)))
		}
		c.kv_rows = max(c.kv_rows, C.uint32_t(max(lg.Cache, lg.Cells)))
	}
	if m.shape.State > 0 {
		m.layOutStates(f)
	}
	m.layOutShared(f)
}

// ios makes n of them, each with room for this many buffers.
func ios(m *model, n, each int) *C.axn_io {
	p := array[C.axn_io](m, n)
	buffers := unsafe.Slice(array[C.ax_buffer](m, n*each), n*each)
	for i := range n {
		unsafe.Slice(p, n)[i].buffers = &buffers[i*each]
	}
	return p
}

// lay decides, from layer i as the card describes it, which tensor plays which part in it, and in
// the layers like it.
func (m *model) lay(i int, mod *C.axn_module, ts []C.axn_tensor, f files, path string) ([]C.axn_parts, error) {
	md, err := meta(mod, ts)
	if err != nil {
		return nil, fmt.Errorf("%w, in %s", err, path)
	}
	read, want := md.Layer, f.all.Full
	want.KV, want.Groups = f.all.Widths[i], slices.Clone(want.Groups)
	if f.all.Shares(i) {
		read = md.SharingLayer
		for k := range want.Groups {
			want.Groups[k].Cache = want.Groups[k].Cells + want.Groups[k].Rows
		}
	}
	l, err := read()
	if err != nil {
		return nil, named(err, path)
	}
	//rule:T1 TestOddLibrary false
	if !l.Equal(want) {
		return nil, fmt.Errorf("axcl: %w: %s: the card sees %v, the file says %v", axcl.ErrModel, path, l, want)
	}
	ins := 5
	if l.LayerInputs > 0 {
		ins++
	}
	ins += len(l.Adapter)
	if int(mod.ins) != ins || mod.outs != 3 {
		return nil, fmt.Errorf("axcl: %w: %s has %d inputs and %d outputs, a decoder layer like it has %d and 3", axcl.ErrModel, path,
			mod.ins, mod.outs, ins)
	}
	parts := make([]C.axn_parts, len(l.Groups))
	for k := range l.Groups {
		p, names := &parts[k], &md.Groups[k]
		p.input, p.indices, p.mask = slot(names, "input"), slot(names, "indices"), slot(names, "mask")
		p.k, p.v = slot(names, "K_cache"), slot(names, "V_cache")
		p.k_out, p.v_out, p.output = slot(names, "K_cache_out"), slot(names, "V_cache_out"), slot(names, "output")
		if p.layer_input = C.AXN_NONE; l.LayerInputs > 0 {
			p.layer_input = slot(names, "per_layer_input")
		}
		m.adapterSlots(i, k, names, l)
	}
	return parts, nil
}

func (m *model) loadHead(path string, f files) error {
	d, c := m.d, m.c
	mod := &c.head_module
	if err := d.loadFile(mod, axcl.Head, path); err != nil {
		return err
	}
	ts, err := d.describe(mod, axcl.Head, path)
	if err != nil {
		return err
	}
	md, err := meta(mod, ts)
	if err != nil {
		return fmt.Errorf("%w, in %s", err, path)
	}
	h, err := md.Head()
	if err != nil {
		return named(err, path)
	}
	if err := headFits(h, f.shape.Hidden, path, "as the card sees them"); err != nil {
		return err
	}
	g := &md.Groups[0]
	c.head, c.head_f32 = true, h.Type == axcl.FP32
	c.out, c.head_output = C.uint32_t(h.Out), C.int32_t(slot(g, h.Output))
	if h.Argmax {
		c.head_argmax = C.int32_t(slot(g, h.Index))
	}
	for i := range c.head_io {
		c.head_io[i].buffers = array[C.ax_buffer](m, int(mod.ins+mod.outs))
	}
	m.shape.Out, m.shape.Argmax = h.Out, h.Argmax
	return nil
}
