//go:build cgo && !fake && linux

package native

/*
#include "native.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
)

// adapterAlign is where an input begins in an adapter's buffer: on a multiple of it, as any other
// buffer does that a card reads.
const adapterAlign = 256

// layOutAdapters makes room for what lora.c knows.
func (m *model) layOutAdapters(f *files) {
	a, layers, groups := &m.c.lora, int(m.c.layers), len(f.all.Full.Groups)
	a.takes = true
	a.slot = array[C.uint32_t](m, layers*groups*C.AXN_LORA)
	a.bound = array[C.uint32_t](m, groups)
	at := 0
	for i, t := range f.all.Full.Adapter {
		a.at[i], a.size[i] = C.size_t(at), C.size_t(t.Size)
		at += (t.Size + adapterAlign - 1) / adapterAlign * adapterAlign
	}
}

// adapterSlots finds the inputs of a layer's group.
func (m *model) adapterSlots(layer, group int, names *axmodel.GroupMeta, l axmodel.LayerShape) {
	if l.Adapter == nil {
		return
	}
	to := m.slotsOf(layer)[group*C.AXN_LORA:]
	for i, t := range l.Adapter {
		to[i] = slot(names, t.Name)
	}
}

// copyAdapterSlots gives a layer those of one whose tensors are the same.
func (m *model) copyAdapterSlots(to, from int) {
	if m.c.lora.takes {
		copy(m.slotsOf(to), m.slotsOf(from))
	}
}

func (m *model) slotsOf(layer int) []C.uint32_t {
	each := int(m.c.groups) * C.AXN_LORA
	return unsafe.Slice(m.c.lora.slot, int(m.c.layers)*each)[layer*each:][:each]
}

// adapters puts those of the spec on the card.
func (l *loader) adapters() error {
	m, full := l.m, &l.f.all.Full
	a, layers, n := &m.c.lora, int(m.c.layers), len(l.spec.Adapters)
	if n == 0 {
		return nil
	}
	want := full.AdapterBytes()
	a.dev = array[C.axn_mem](m, n*layers)
	last := len(full.Adapter) - 1
	for k, give := range l.spec.Adapters {
		for i := range layers {
			values, err := give(i)
			if err == nil {
				err = axcl.CheckAdapter(k, i, len(values), want)
			}
			if err != nil {
				return fmt.Errorf("axcl: %w", err)
			}
			b, err := m.d.NewBuffer(int(a.at[last] + a.size[last]))
			if err != nil {
				return err
			}
			m.held = append(m.held, b.(*buffer))
			m.d.forget(b.(*buffer)) // the model closes it
			for t := range full.Adapter {
				if err := b.Write(int(a.at[t]), values[:a.size[t]]); err != nil {
					return err
				}
				values = values[a.size[t]:]
			}
			unsafe.Slice(a.dev, n*layers)[k*layers+i] = b.(*buffer).c.mem
		}
	}
	a.adapters, m.shape.Adapters = C.uint32_t(n), n
	return nil
}
