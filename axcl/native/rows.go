//go:build cgo && !fake && linux

package native

/*
#include "native.h"
*/
import "C"

import (
	"unsafe"

	"github.com/axle-llm/axle/axcl"
)

// transfer makes one call of rows.c, after what every call of a model asks first.
func (m *model) transfer(check func() error, cells int, call func() C.int) error {
	if m.closed {
		return axcl.ErrClosed
	}
	if err := m.d.ready(); err != nil {
		return err
	}
	if err := check(); err != nil || cells == 0 {
		return err
	}
	if rc := call(); rc != C.AXN_OK {
		return m.d.settle(m.d.wrap(rc, ""), m.c.timeout_ms)
	}
	return nil
}

func cellsOf(cells []uint32) *C.uint32_t { return (*C.uint32_t)(unsafe.SliceData(cells)) }

// Save implements axcl.Model by axn_save.
func (m *model) Save(cells []uint32, to []byte) error {
	return m.transfer(func() error { return m.shape.CheckRows(cells, len(to)) }, len(cells),
		func() C.int {
			return C.axn_save(m.c, cellsOf(cells), C.uint32_t(len(cells)), (*C.uint8_t)(unsafe.SliceData(to)))
		})
}

// Restore implements axcl.Model by axn_restore.
func (m *model) Restore(cells []uint32, from []byte) error {
	return m.transfer(func() error { return m.shape.CheckRows(cells, len(from)) }, len(cells),
		func() C.int {
			return C.axn_restore(m.c, cellsOf(cells), C.uint32_t(len(cells)), (*C.uint8_t)(unsafe.SliceData(from)))
		})
}

// Copy implements axcl.Model by axn_copy.
func (m *model) Copy(to, from []uint32) error {
	return m.transfer(func() error { return m.shape.CheckCopy(to, from) }, len(to),
		func() C.int { return C.axn_copy(m.c, cellsOf(to), cellsOf(from), C.uint32_t(len(to))) })
}
