//go:build cgo && !fake && linux

package native

/*
#include "native.h"
*/
import "C"

import (
	"fmt"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
)

// This file is a whole decoder, one file or two that are called for all layers and the head at
// once: whole.c runs it.

// readWhole is readFiles for such a model.
func readWhole(spec axcl.LoadSpec) (f files, err error) {
	f.layers = len(spec.Layers)
	for i, path := range spec.Layers {
		meta, err := axmodel.ReadFile(path)
		if err != nil {
			return f, err
		}
		d, err := meta.Decoder()
		if err != nil {
			return f, named(err, path)
		}
		if i == 0 {
			f.whole = &d
		} else if err := f.whole.Add(d); err != nil {
			return f, named(err, path)
		}
		f.weights += meta.WeightBytes
		f.sizes = append(f.sizes, max(meta.FileBytes, meta.WeightBytes))
	}
	if f.shape, f.run, err = f.whole.Plan(); err != nil {
		return f, named(err, spec.Layers[0])
	}
	switch {
	case spec.Head != "":
		return f, fmt.Errorf("axcl: %w: %s is a head, and %s a whole decoder, which has its own", axcl.ErrModel, spec.Head, spec.Layers[0])
	case slices.Contains(spec.Local, true):
		return f, fmt.Errorf("axcl: %w: %s is a whole decoder, which has one mask for all layers: none of them can be local", axcl.ErrModel,
			spec.Layers[0])
	}
	// layOut goes by what a layer's file would say.
	f.all.Full = axmodel.LayerShape{Hidden: f.shape.Hidden, KV: f.shape.KV, Pos: 1, Cells: f.shape.Cells}
	f.all.Linear = make([]bool, f.shape.Layers)
	for i := range f.shape.Layers {
		f.all.Widths, f.all.Source = append(f.all.Widths, f.shape.KV), append(f.all.Source, i)
	}
	for _, g := range f.shape.Groups {
		f.all.Full.Groups = append(f.all.Full.Groups, axmodel.LayerGroup{Group: g, Cache: g.Cells})
	}
	return f, nil
}

// layOutWhole goes on from layOut, for this many files.
func (m *model) layOutWhole(f *files, modules int) {
	c, groups := m.c, len(f.run)
	w := &c.decoder
	w.files = C.uint32_t(modules)
	w.file, w.at, w.logits = array[C.uint32_t](m, groups), array[C.uint32_t](m, groups), array[C.uint32_t](m, groups)
	single := false
	for i, at := range f.run {
		g := f.whole.Groups[at]
		unsafe.Slice(w.file, groups)[i], unsafe.Slice(w.at, groups)[i] = C.uint32_t(g.File), C.uint32_t(g.At)
		unsafe.Slice(w.logits, groups)[i] = C.uint32_t(g.Wanted)
		m.last = append(m.last, g.Rows > 1 && g.Wanted == 1)
		single = single || m.last[i]
	}
	if single {
		m.alone = &axcl.Pass{SeeCells: make([]uint64, axcl.Words(f.shape.Cells)), SeeRows: make([]uint64, 1), Want: []int{0}}
	}
}

// loadWhole loads a file, and decides from what the card says which tensor plays which part.
func (m *model) loadWhole(i int, path string, f files) error {
	mod := m.module(i)
	if err := m.d.loadFile(mod, i, path); err != nil {
		return err
	}
	ts, err := m.d.describe(mod, i, path)
	if err != nil {
		return err
	}
	md, err := meta(mod, ts)
	if err != nil {
		return fmt.Errorf("%w, in %s", err, path)
	}
	d, err := md.Decoder()
	if err != nil {
		return named(err, path)
	}
	if err := f.whole.Fits(d); err != nil {
		return named(err, path)
	}
	for n, at := range f.run {
		want := f.whole.Groups[at]
		if want.File != i {
			continue
		}
		if want.At >= len(d.Groups) || d.Groups[want.At].Why != "" {
			return fmt.Errorf("axcl: %w: %s: group %d is not on the card as it is in the file", axcl.ErrModel, path, want.At)
		}
		got, names := d.Groups[want.At], &md.Groups[want.At]
		if got.Rows != want.Rows || got.Cells != want.Cells || got.Wanted != want.Wanted {
			return fmt.Errorf("axcl: %w: %s: the card sees %d rows, %d cells and %d of logits in group %d, the file says %d, %d and %d",
				axcl.ErrModel, path, got.Rows, got.Cells, got.Wanted, want.At, want.Rows, want.Cells, want.Wanted)
		}
		logits := names.Output("logits")
		if wide := logits.Type == axcl.FP32; bool(m.c.head) && bool(m.c.head_f32) != wide {
			return fmt.Errorf("axcl: %w: %s: \"logits\" is %v, and not so in another group", axcl.ErrModel, path, logits.Type)
		} else {
			m.c.head, m.c.head_f32 = true, C.bool(wide)
		}
		m.c.out = C.uint32_t(f.shape.Out)
		m.c.logits.size = C.size_t(logits.Size / want.Wanted)
		p := &unsafe.Slice(m.c.parts, len(f.run))[n]
		p.input, p.indices, p.mask = slot(names, "input_embeds"), slot(names, want.Pos), slot(names, want.Mask)
		p.k, p.v, p.k_out, p.v_out = slot(names, "k_caches"), slot(names, "v_caches"), slot(names, "k_cache"), slot(names, "v_cache")
		p.output = slot(names, "logits")
	}
	return nil
}

// runWhole runs a pass of a model that gives, of several rows, the logits of one alone. Each wanted
// row of such a pass goes through the card once more, by itself: what it sees lies in cells by
// then, its own K and V are written again as they are.
func (m *model) runWhole(p *axcl.Pass) error {
	if len(p.Want) == 0 || p.Check(m.shape) != nil || !m.last[m.shape.GroupFor(p.Rows(), p.Reach(m.shape))] {
		return m.run(p)
	}
	all := *p
	all.Want, all.Logits, all.Argmax = nil, nil, nil
	if err := m.run(&all); err != nil {
		return err
	}
	h, out, cw, rw := m.shape.Hidden, m.shape.Out, axcl.Words(m.shape.Cells), axcl.Words(p.Rows())
	for i, r := range p.Want {
		one := m.alone
		one.Hidden, one.Pos, one.Cell, one.Timing = p.Hidden[r*h:(r+1)*h], p.Pos[r:r+1], p.Cell[r:r+1], p.Timing
		copy(one.SeeCells, p.SeeCells[r*cw:(r+1)*cw])
		for w, seen := range p.SeeRows[r*rw : (r+1)*rw] {
			for ; seen != 0; seen &= seen - 1 {
				c := p.Cell[w*64+bits.TrailingZeros64(seen)]
				one.SeeCells[c/64] |= 1 << (c % 64)
			}
		}
		one.Logits, one.Argmax = nil, nil
		if p.Logits != nil {
			one.Logits = p.Logits[i*out : (i+1)*out]
		}
		if p.Argmax != nil {
			one.Argmax = p.Argmax[i : i+1]
		}
		var sum axcl.Timing
		if p.Timing != nil {
			sum = *p.Timing
		}
		err := m.run(one)
		if t := p.Timing; t != nil {
			t.Upload, t.Enqueue, t.Wait, t.Head = t.Upload+sum.Upload, t.Enqueue+sum.Enqueue, t.Wait+sum.Wait, t.Head+sum.Head
			t.Download, t.Calls = t.Download+sum.Download, t.Calls+sum.Calls
		}
		one.Hidden, one.Pos, one.Cell, one.Logits, one.Argmax, one.Timing = nil, nil, nil, nil, nil, nil
		if err != nil {
			return err
		}
	}
	return nil
}
