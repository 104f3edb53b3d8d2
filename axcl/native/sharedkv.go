//go:build cgo && !fake && linux

package native

/*
#include "native.h"
*/
import "C"

import "unsafe"

// layOutShared makes room for what sharedkv.c knows: which layers use the K and V of others, and
// layer inputs.
func (m *model) layOutShared(f *files) {
	c, layers := m.c, int(m.c.layers)
	if c.inputs.width = C.uint32_t(m.shape.LayerInputs); m.shape.LayerInputs > 0 {
		c.inputs.dev = array[C.axn_mem](m, layers)
	}
	if m.shape.Shared == 0 {
		return
	}
	t := &c.shared
	t.source, t.of = array[C.uint32_t](m, layers), array[C.bool](m, layers)
	t.k, t.v = array[C.axn_mem](m, layers), array[C.axn_mem](m, layers)
	for i, from := range f.all.Source {
		unsafe.Slice(t.source, layers)[i] = C.uint32_t(from)
		if from != i {
			unsafe.Slice(t.of, layers)[from] = true
		}
	}
	for _, g := range unsafe.Slice(c.group, c.groups) {
		if g.cells == c.kv_rows {
			t.behind = max(t.behind, g.rows)
		} else {
			t.apart = max(t.apart, g.cells+g.rows)
		}
	}
}

// sharedMems are the buffers of it on the card.
func (m *model) sharedMems() (all []C.axn_mem) {
	c := m.c
	if c.shared.source != nil {
		all = append(append(all, unsafe.Slice(c.shared.k, c.layers)...), unsafe.Slice(c.shared.v, c.layers)...)
	}
	if c.inputs.width > 0 {
		all = append(all, unsafe.Slice(c.inputs.dev, c.layers)...)
	}
	return append(all, c.shared.k_out, c.shared.v_out)
}
