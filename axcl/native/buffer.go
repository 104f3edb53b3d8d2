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
	"unsafe"

	"github.com/axle-llm/axle/axcl"
)

// stage is how many bytes of a buffer are copied at once, through pinned memory that all buffers of
// a device share.
const stage = 1 << 20

// buffer is card memory that nets' tensors are bound to.
type buffer struct {
	d      *device
	c      *C.axn_buffer
	size   int
	closed bool
}

// NewBuffer implements axcl.Device.
func (d *device) NewBuffer(size int) (_ axcl.Buffer, err error) {
	if err := d.ready(); err != nil {
		return nil, err
	}
	if size <= 0 {
		return nil, fmt.Errorf("%w: a buffer of %d bytes", axcl.ErrPass, size)
	}
	defer marked(descriptors()) // the first pinned memory opens a node
	if d.stage == nil {
		d.stage = (*C.axn_stage)(zeroed(C.sizeof_axn_stage))
		d.stage.size = stage
		if d.lib.kind == Engine {
			d.memory = zeroed(stage)
			d.stage.pinned = d.memory
		}
	}
	b := &buffer{d: d, c: (*C.axn_buffer)(zeroed(C.sizeof_axn_buffer)), size: size}
	b.c.card, b.c.stage, b.c.timeout_ms = d.c, d.stage, milliseconds(0)
	born(b, d.lib.kind)
	d.open = append(d.open, b)
	if err := d.wrap(C.axn_buffer_new(b.c, C.size_t(size)), ""); err != nil {
		err = worse(err, b.Close())
		d.giveUp(err)
		return nil, err
	}
	return b, nil
}

// Size implements axcl.Buffer.
func (b *buffer) Size() int { return b.size }

// move runs a copy of bytes from at on.
func (b *buffer) move(at, bytes int, copy func() C.int) error {
	if b.closed {
		return axcl.ErrClosed
	}
	if err := b.d.ready(); err != nil {
		return err
	}
	if err := axcl.CheckBuffer(b.size, at, bytes); err != nil {
		return err
	}
	if err := b.d.wrap(copy(), ""); err != nil {
		return b.d.settle(err, b.c.timeout_ms)
	}
	return nil
}

// Write implements axcl.Buffer.
func (b *buffer) Write(at int, from []byte) error {
	return b.move(at, len(from), func() C.int {
		return C.axn_buffer_write(b.c, C.size_t(at), unsafe.Pointer(unsafe.SliceData(from)), C.size_t(len(from)))
	})
}

// Read implements axcl.Buffer.
func (b *buffer) Read(at int, to []byte) error {
	return b.move(at, len(to), func() C.int {
		return C.axn_buffer_read(b.c, C.size_t(at), unsafe.Pointer(unsafe.SliceData(to)), C.size_t(len(to)))
	})
}

// Close implements axcl.Buffer.
func (b *buffer) Close() error {
	if b.closed {
		return axcl.ErrClosed
	}
	if C.axn_thread() != b.d.c.owner {
		return axcl.ErrThread
	}
	b.closed = true
	b.d.forget(b)
	var err error
	if b.d.lost == nil {
		err = b.d.wrap(C.axn_buffer_free(b.c), "")
	}
	C.free(unsafe.Pointer(b.c))
	b.c = nil
	died(b)
	return err
}

// closeStage gives the pinned memory back; every buffer is closed.
func (d *device) closeStage() error {
	if d.stage == nil {
		return nil
	}
	var errs []error
	if d.lost == nil {
		errs = append(errs, d.wrap(C.axn_stage_free(d.c, d.stage), ""))
	}
	C.free(unsafe.Pointer(d.stage))
	C.free(d.memory)
	d.stage, d.memory = nil, nil
	return errors.Join(errs...)
}
