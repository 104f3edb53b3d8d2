package soft

import (
	"fmt"

	"github.com/axle-llm/axle/axcl"
)

// buffer is memory that nets' tensors are bound to.
type buffer struct {
	device *Device
	bytes  []byte
	closed bool
}

// NewBuffer implements axcl.Device.
func (d *Device) NewBuffer(size int) (axcl.Buffer, error) {
	if err := d.state(); err != nil {
		return nil, err
	}
	if size <= 0 {
		return nil, fmt.Errorf("%w: a buffer of %d bytes", axcl.ErrPass, size)
	}
	if err := d.take(int64(size), int64(size)); err != nil {
		return nil, err
	}
	b := &buffer{device: d, bytes: make([]byte, size)}
	d.open = append(d.open, b)
	return b, nil
}

// Size implements axcl.Buffer.
func (b *buffer) Size() int { return len(b.bytes) }

// part is where bytes from at on lie.
func (b *buffer) part(at, bytes int) ([]byte, error) {
	if b.closed {
		return nil, fmt.Errorf("axcl: software card's buffer: %w", axcl.ErrClosed)
	}
	if err := b.device.state(); err != nil {
		return nil, err
	}
	if err := axcl.CheckBuffer(len(b.bytes), at, bytes); err != nil {
		return nil, err
	}
	return b.bytes[at : at+bytes], nil
}

// Write implements axcl.Buffer.
func (b *buffer) Write(at int, from []byte) error {
	to, err := b.part(at, len(from))
	copy(to, from)
	return err
}

// Read implements axcl.Buffer.
func (b *buffer) Read(at int, to []byte) error {
	from, err := b.part(at, len(to))
	copy(to, from)
	return err
}

// Close implements axcl.Buffer.
func (b *buffer) Close() error {
	if b.closed {
		return axcl.ErrClosed
	}
	b.closed = true
	b.device.drop(b, int64(len(b.bytes)), int64(len(b.bytes)))
	return nil
}
