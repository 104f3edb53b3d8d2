//go:build cgo && !fake && linux

package native

/*
#include <stdlib.h>
#include "native.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
)

type net struct {
	d               *device
	c               *C.axn_net
	inputs, outputs [][]axcl.Tensor // by group
	bound           axcl.Bindings[*buffer]
	has             [][]*buffer      // by group: what its tensors were last bound to, nil for their own memory
	memory          []unsafe.Pointer // what the C structs live in
	closed          bool
}

// unknown stands for what a tensor is bound to after a call that failed.
var unknown = new(buffer)

// LoadNet implements axcl.Device.
func (d *device) LoadNet(path string) (axcl.Net, error) {
	if err := d.ready(); err != nil {
		return nil, err
	}
	if _, err := axmodel.ReadFile(path); err != nil {
		return nil, err
	}
	return d.loadNet(path)
}

// loadNet is LoadNet without a look into the file before the library has it.
func (d *device) loadNet(path string) (_ axcl.Net, err error) {
	defer marked(descriptors())
	n := &net{d: d, c: (*C.axn_net)(zeroed(C.sizeof_axn_net))}
	n.c.card = d.c
	n.c.timeout_ms = milliseconds(0)
	born(n, d.lib.kind)
	d.open = append(d.open, n)
	var free int64
	defer func() {
		if err == nil {
			return
		}
		err = d.noteMemory(worse(err, n.Close()), free)
		d.giveUp(err)
	}()
	if free, err = d.freeMemory(); err != nil {
		return nil, err
	}
	mod := &n.c.module
	if err = d.loadFile(mod, axcl.NoLayer, path); err != nil {
		return nil, err
	}
	ts, err := d.describe(mod, axcl.NoLayer, path)
	if err != nil {
		return nil, err
	}
	per := int(mod.ins + mod.outs)
	n.c.size = (*C.size_t)(n.zeroed(len(ts) * C.sizeof_size_t))
	sizes := unsafe.Slice(n.c.size, len(ts))
	for g := range int(mod.groups) {
		all := make([]axcl.Tensor, per)
		for s := range all {
			if all[s], err = tensor(&ts[g*per+s], false); err != nil {
				return nil, fmt.Errorf("%w, in %s", err, path)
			}
			if g > 0 { // as the file has it, or plain, as the vendor's own programs on board want it: one name for all groups
				all[s].Name = plain(all[s].Name, C.GoString(&ts[s].name[0]), g)
			}
			sizes[g*per+s] = C.size_t(all[s].Size)
			n.c.mem_size[s] = max(n.c.mem_size[s], C.size_t(all[s].Size))
			n.c.pinned_size = max(n.c.pinned_size, n.c.mem_size[s])
		}
		n.inputs = append(n.inputs, all[:mod.ins:mod.ins])
		n.outputs = append(n.outputs, all[mod.ins:])
	}
	n.has = make([][]*buffer, mod.groups)
	n.c.io = (*C.axn_io)(n.zeroed(int(mod.groups) * C.sizeof_axn_io))
	for i := range unsafe.Slice(n.c.io, mod.groups) {
		unsafe.Slice(n.c.io, mod.groups)[i].buffers = (*C.ax_buffer)(n.zeroed(per * C.sizeof_ax_buffer))
	}
	if d.lib.kind == Engine {
		n.c.pinned = n.zeroed(int(n.c.pinned_size))
	}
	if err = d.wrap(C.axn_net_bind(n.c), path); err != nil {
		return nil, err
	}
	return n, nil
}

func (n *net) zeroed(size int) unsafe.Pointer {
	p := zeroed(C.size_t(size))
	n.memory = append(n.memory, p)
	return p
}

func (n *net) Groups() int                     { return len(n.inputs) }
func (n *net) Inputs(group int) []axcl.Tensor  { return ofGroup(n.inputs, group) }
func (n *net) Outputs(group int) []axcl.Tensor { return ofGroup(n.outputs, group) }

func ofGroup(all [][]axcl.Tensor, group int) []axcl.Tensor {
	if group < 0 || group >= len(all) {
		return nil
	}
	return all[group]
}

// Bind implements axcl.Net.
func (n *net) Bind(group int, tensor string, to axcl.Buffer) error {
	if n.closed {
		return axcl.ErrClosed
	}
	if to == nil {
		return n.bound.Bind(n, group, tensor, nil, 0)
	}
	b, ok := to.(*buffer)
	if !ok || b.d != n.d || b.closed {
		return fmt.Errorf("%w: %q cannot be bound to a buffer that is closed or another device's", axcl.ErrPass, tensor)
	}
	return n.bound.Bind(n, group, tensor, b, b.Size())
}

// rebind tells the library of the tensors that were bound since the group's last call.
func (n *net) rebind(group int) error {
	ins, outs := n.bound.Of(group)
	if ins == nil && outs == nil {
		return nil
	}
	if n.has[group] == nil {
		n.has[group] = make([]*buffer, len(ins)+len(outs))
	}
	for s, b := range slices.Concat(ins, outs) {
		if n.has[group][s] == b {
			continue
		}
		n.has[group][s] = unknown
		var mem *C.axn_mem
		if b != nil {
			mem = &b.c.mem
		}
		if err := n.d.wrap(C.axn_net_rebind(n.c, C.uint32_t(group), C.uint32_t(s), mem), ""); err != nil {
			return err
		}
		n.has[group][s] = b
	}
	return nil
}

// Run implements axcl.Net: inputs up, one execute, outputs down, each ended by a synchronisation.
// What is bound stays where it is.
func (n *net) Run(group int, in, out map[string][]byte) error {
	if n.closed {
		return axcl.ErrClosed
	}
	if err := n.d.ready(); err != nil {
		return err
	}
	if err := n.bound.Check(n, group, in, out, func(b *buffer) bool { return b.closed }); err != nil {
		return err
	}
	if err := n.rebind(group); err != nil {
		return err
	}
	settle := func(rc C.int) error {
		if rc == C.AXN_OK {
			return nil
		}
		return n.d.settle(n.d.wrap(rc, ""), n.c.timeout_ms)
	}
	for i, t := range n.inputs[group] {
		b, ok := in[t.Name]
		if !ok {
			continue
		}
		if err := settle(C.axn_net_put(n.c, C.uint32_t(i), unsafe.Pointer(unsafe.SliceData(b)), C.size_t(t.Size))); err != nil {
			return err
		}
	}
	if err := settle(C.axn_net_run(n.c, C.uint32_t(group))); err != nil {
		return err
	}
	for i, t := range n.outputs[group] {
		b, ok := out[t.Name]
		if !ok {
			continue
		}
		if err := settle(C.axn_net_get(n.c, C.uint32_t(len(n.inputs[group])+i), unsafe.Pointer(unsafe.SliceData(b)),
			C.size_t(t.Size))); err != nil {
			return err
		}
	}
	return nil
}

// Close implements axcl.Net.
func (n *net) Close() error {
	if n.closed {
		return axcl.ErrClosed
	}
	if C.axn_thread() != n.d.c.owner {
		return axcl.ErrThread
	}
	n.closed = true
	n.d.forget(n)
	var errs []error
	if n.d.lost == nil {
		errs = append(errs, n.d.wrap(C.axn_net_close(n.c), ""))
	}
	for _, p := range n.memory {
		C.free(p)
	}
	C.free(unsafe.Pointer(n.c))
	n.c, n.memory = nil, nil
	died(n)
	return errors.Join(errs...)
}
