package soft

import (
	"encoding/binary"
	"fmt"

	"github.com/axle-llm/axle/axcl"
)

// ready says why the model takes no call.
func (m *Model) ready() error {
	if m.closed {
		return fmt.Errorf("axcl: software card's model: %w", axcl.ErrClosed)
	}
	return m.device.state()
}

// row visits the parts of a cell's row in the order in which they are saved: K and V of each layer.
func (m *Model) row(cell uint32, bytes []byte, each func(part []uint16, bytes []byte)) {
	for _, cache := range m.caches {
		kv := len(cache[0]) / m.shape.Cells
		for _, c := range cache {
			each(c[int(cell)*kv:][:kv], bytes[:2*kv])
			bytes = bytes[2*kv:]
		}
	}
}

// Save implements axcl.Model.
func (m *Model) Save(cells []uint32, to []byte) error {
	if err := m.ready(); err != nil {
		return err
	}
	if err := m.shape.CheckRows(cells, len(to)); err != nil {
		return err
	}
	for i, c := range cells {
		m.row(c, to[i*m.shape.RowBytes():], func(part []uint16, b []byte) {
			for k, v := range part {
				binary.LittleEndian.PutUint16(b[2*k:], v)
			}
		})
	}
	return nil
}

// Restore implements axcl.Model.
func (m *Model) Restore(cells []uint32, from []byte) error {
	if err := m.ready(); err != nil {
		return err
	}
	if err := m.shape.CheckRows(cells, len(from)); err != nil {
		return err
	}
	for i, c := range cells {
		m.row(c, from[i*m.shape.RowBytes():], func(part []uint16, b []byte) {
			for k := range part {
				part[k] = binary.LittleEndian.Uint16(b[2*k:])
			}
		})
	}
	return nil
}

// Copy implements axcl.Model.
func (m *Model) Copy(to, from []uint32) error {
	if err := m.ready(); err != nil {
		return err
	}
	if err := m.shape.CheckCopy(to, from); err != nil {
		return err
	}
	for _, cache := range m.caches {
		kv := len(cache[0]) / m.shape.Cells
		for _, c := range cache {
			for i := range to {
				copy(c[int(to[i])*kv:][:kv], c[int(from[i])*kv:][:kv])
			}
		}
	}
	return nil
}
