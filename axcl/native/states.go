//go:build cgo && !fake && linux

package native

/*
#include <stdlib.h>
#include "native.h"
*/
import "C"

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
)

// layOutStates makes room for what the files say of the layers that keep a state.
func (m *model) layOutStates(f *files) {
	s, l := &m.c.state, &f.all.State
	layers, groups, slots := m.shape.Linear, len(l.Rows), m.shape.Slots+1
	s.layers, s.groups, s.slots = C.uint32_t(layers), C.uint32_t(groups), C.uint32_t(slots)
	s.k_bytes, s.v_bytes = C.size_t(l.K.Size), C.size_t(l.V.Size)
	s.of = array[C.bool](m, len(f.all.Linear))
	for i, linear := range f.all.Linear {
		unsafe.Slice(s.of, len(f.all.Linear))[i] = C.bool(linear)
	}
	s.group = array[C.axn_sgroup](m, groups)
	for i, rows := range l.Rows {
		unsafe.Slice(s.group, groups)[i].rows = C.uint32_t(rows)
	}
	s.one = C.uint32_t(slices.Index(l.Rows, 1))
	s.beside = array[C.int32_t](m, len(f.all.Full.Groups))
	for i, g := range f.all.StateGroups() {
		unsafe.Slice(s.beside, len(f.all.Full.Groups))[i] = C.int32_t(g)
	}
	s.k, s.v = array[C.axn_mem](m, layers*slots), array[C.axn_mem](m, layers*slots)
	s.where = array[C.uint32_t](m, slots)
	s.io, s.single = ios(m, layers*groups*2, 8), ios(m, layers*C.AXN_SINGLES, 8)
}

// layState is lay for the layers that keep a state. Positions and mask need not be listed: a
// library may know them by name all the same.
func (m *model) layState(mod *C.axn_module, ts []C.axn_tensor, f files, path string) error {
	md, err := meta(mod, ts)
	if err != nil {
		return fmt.Errorf("%w, in %s", err, path)
	}
	name(md, f.all.State)
	l, err := md.State()
	if err != nil {
		return named(err, path)
	}
	if !l.Equal(f.all.State) {
		return fmt.Errorf("axcl: %w: %s: the card sees %v, the file says %v", axcl.ErrModel, path, l, f.all.State)
	}
	if mod.ins > 5 || mod.outs != 3 {
		return fmt.Errorf("axcl: %w: %s has %d inputs and %d outputs, a layer that keeps a state has 3 to 5 and 3", axcl.ErrModel, path,
			mod.ins, mod.outs)
	}
	hidden := map[string]C.uint32_t{}
	for _, name := range []string{"indices", "mask"} {
		if md.Groups[0].Input(name).Type == axcl.TypeNone {
			text := C.CString(name)
			hidden[name] = C.axn_unlisted(m.d.c, mod, text)
			C.free(unsafe.Pointer(text))
		}
	}
	for i := range l.Rows {
		g, names := &unsafe.Slice(m.c.state.group, len(l.Rows))[i], &md.Groups[i]
		find := func(name string) C.uint32_t {
			if at, ok := hidden[name]; ok {
				return at
			}
			return slot(names, name)
		}
		g.pos = C.uint32_t(max(positions(names, l.Rows[i]), 1))
		g.input, g.indices, g.mask = slot(names, "input"), find("indices"), find("mask")
		g.k, g.v = slot(names, "K_cache"), slot(names, "V_cache")
		g.k_out, g.v_out, g.output = slot(names, "K_cache_out"), slot(names, "V_cache_out"), slot(names, "output")
	}
	return nil
}

// name gives states of a type that the library does not name, as the one on board has no name for
// fp16, the type that the file says.
func name(md *axmodel.Meta, file axmodel.LinearShape) {
	for i := range md.Groups {
		g := &md.Groups[i]
		for _, list := range [][]axcl.Tensor{g.Inputs, g.Outputs} {
			for k := range list {
				switch t := &list[k]; {
				case t.Type != axcl.TypeNone:
				case t.Name == "K_cache" || t.Name == "K_cache_out":
					t.Type = file.K.Type
				case t.Name == "V_cache" || t.Name == "V_cache_out":
					t.Type = file.V.Type
				}
			}
		}
	}
}

// positions is how many of them a row has in a group's indices; 0 where they are not listed.
func positions(g *axmodel.GroupMeta, rows int) int {
	n := 1
	for _, d := range g.Input("indices").Shape {
		n *= d
	}
	return n / rows
}

func bytesOf(b []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.SliceData(b)) }

// SaveState implements axcl.Model by axn_save_state.
func (m *model) SaveState(slot uint32, at int, to []byte) error {
	return m.transfer(func() error { return m.shape.CheckState(slot, at, len(to)) }, len(to), func() C.int {
		return C.axn_save_state(m.c, C.uint32_t(slot), C.size_t(at), bytesOf(to), C.size_t(len(to)))
	})
}

// RestoreState implements axcl.Model by axn_restore_state.
func (m *model) RestoreState(slot uint32, at int, from []byte) error {
	return m.transfer(func() error { return m.shape.CheckState(slot, at, len(from)) }, len(from), func() C.int {
		return C.axn_restore_state(m.c, C.uint32_t(slot), C.size_t(at), bytesOf(from), C.size_t(len(from)))
	})
}
