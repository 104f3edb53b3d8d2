package kvevents

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// This file reads what of msgpack the events need. Nothing is made room for because a count says
// so: each element has at least a byte.

const deepest = 8 // arrays and maps within each other

var errCut = errors.New("kvevents: a payload that is cut off")

// unpacker reads values one after the other. After an error it reads nothing more.
type unpacker struct {
	b   []byte
	err error
}

// take returns the next n bytes; none after an error.
func (u *unpacker) take(n uint64) []byte {
	if u.err == nil && n > uint64(len(u.b)) {
		u.err, u.b = errCut, nil
	}
	if u.err != nil {
		return nil
	}
	b := u.b[:n]
	u.b = u.b[n:]
	return b
}

// number reads a big-endian number.
func (u *unpacker) number(bytes uint64) uint64 {
	var b [8]byte
	copy(b[8-bytes:], u.take(bytes))
	return binary.BigEndian.Uint64(b[:])
}

func (u *unpacker) first() byte {
	if b := u.take(1); len(b) == 1 {
		return b[0]
	}
	return 0xc1 // which is never used
}

func (u *unpacker) wrong(what string, got byte) {
	if u.err == nil {
		u.err = fmt.Errorf("kvevents: %#x where %s should begin", got, what)
	}
}

// array reads how many elements follow; nil has none.
func (u *unpacker) array() int {
	n := uint64(0)
	switch c := u.first(); {
	case c == 0xc0:
	case c&0xf0 == 0x90:
		n = uint64(c & 0x0f)
	case c == 0xdc:
		n = u.number(2)
	case c == 0xdd:
		n = u.number(4)
	default:
		u.wrong("an array", c)
	}
	if n > uint64(len(u.b)) {
		u.take(n)
		return 0
	}
	return int(n)
}

// text reads a string; of anything else it is empty.
func (u *unpacker) text() string {
	if len(u.b) == 0 {
		u.take(1)
		return ""
	}
	switch c := u.b[0]; {
	case c&0xe0 == 0xa0:
		u.take(1)
		return string(u.take(uint64(c & 0x1f)))
	case c == 0xd9:
		u.take(1)
		return string(u.take(u.number(1)))
	}
	u.skip(0)
	return ""
}

// names reads an array of numbers. What is no number is left out.
func (u *unpacker) names() (list []uint64) {
	for range u.array() {
		if u.err != nil {
			break
		}
		c := byte(0xc1)
		if len(u.b) > 0 {
			c = u.b[0]
		}
		switch {
		case c < 0x80:
			list = append(list, u.number(1))
		case c >= 0xcc && c <= 0xcf:
			u.take(1)
			if n := u.number(1 << (c - 0xcc)); u.err == nil {
				list = append(list, n)
			}
		default:
			u.skip(0)
		}
	}
	return list
}

func (u *unpacker) skipped(n int) {
	for range n {
		u.skip(0)
	}
}

// skip reads a value of any kind.
func (u *unpacker) skip(depth int) {
	if u.err != nil {
		return
	}
	if depth > deepest {
		u.err = fmt.Errorf("kvevents: more than %d arrays within each other", deepest)
		return
	}
	elements := uint64(0)
	switch c := u.first(); {
	case c < 0x80, c >= 0xe0, c == 0xc0, c == 0xc2, c == 0xc3: // small numbers, nil, false, true
	case c < 0x90:
		elements = 2 * uint64(c&0x0f)
	case c < 0xa0:
		elements = uint64(c & 0x0f)
	case c < 0xc0:
		u.take(uint64(c & 0x1f))
	case c >= 0xc4 && c <= 0xc6: // bytes
		u.take(u.number(1 << (c - 0xc4)))
	case c >= 0xc7 && c <= 0xc9: // extensions
		u.take(u.number(1<<(c-0xc7)) + 1)
	case c == 0xca:
		u.take(4)
	case c == 0xcb:
		u.take(8)
	case c >= 0xcc && c <= 0xcf:
		u.take(1 << (c - 0xcc))
	case c >= 0xd0 && c <= 0xd3:
		u.take(1 << (c - 0xd0))
	case c >= 0xd4 && c <= 0xd8:
		u.take(1 + 1<<(c-0xd4))
	case c >= 0xd9 && c <= 0xdb:
		u.take(u.number(1 << (c - 0xd9)))
	case c == 0xdc || c == 0xdd:
		elements = u.number(2 << (c - 0xdc))
	case c == 0xde || c == 0xdf:
		elements = 2 * u.number(2<<(c-0xde))
	default:
		u.wrong("a value", c)
	}
	if elements > uint64(len(u.b)) {
		u.take(elements)
	}
	for range elements {
		if u.err != nil {
			return
		}
		u.skip(depth + 1)
	}
}
