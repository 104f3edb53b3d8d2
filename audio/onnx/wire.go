package onnx

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The wire types of protocol buffers.
const (
	varintWire  = 0
	fixed64Wire = 1
	lengthWire  = 2
	fixed32Wire = 5
)

// field is one field of a message.
type field struct {
	number, wire int
	value        uint64 // of a varint
	bytes        []byte // of the others, where they lie
}

var errCut = errors.New("the file is cut short or damaged")

// fields calls f for each field of a message.
func fields(b []byte, f func(field) error) error {
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		if n <= 0 {
			return errCut
		}
		b = b[n:]
		it := field{number: int(key >> 3 & (1<<29 - 1)), wire: int(key & 7)}
		size := uint64(0)
		switch it.wire {
		case varintWire:
			if it.value, n = binary.Uvarint(b); n <= 0 {
				return errCut
			}
			b = b[n:]
		case lengthWire:
			if size, n = binary.Uvarint(b); n <= 0 {
				return errCut
			}
			b = b[n:]
		case fixed32Wire:
			size = 4
		case fixed64Wire:
			size = 8
		default:
			return fmt.Errorf("a field of wire type %d: it is no ONNX file, or damaged", it.wire)
		}
		if size > uint64(len(b)) {
			return errCut
		}
		it.bytes, b = b[:size], b[size:]
		if err := f(it); err != nil {
			return err
		}
	}
	return nil
}

// ints calls f for the integers of a repeated field: one, or a packed list.
func (f *field) ints(each func(int64) error) error {
	if f.wire == varintWire {
		return each(int64(f.value))
	}
	if f.wire != lengthWire {
		return errCut
	}
	for b := f.bytes; len(b) > 0; {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return errCut
		}
		if err := each(int64(v)); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
