package zmtp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Flags of a frame.
const (
	more    = 1 // of its message
	long    = 2 // its size has eight bytes
	command = 4
)

// greeting is the first that either side sends: a signature, version 3.0, the mechanism, and that
// the sender is no server, which means nothing for NULL.
func greeting() []byte {
	b := make([]byte, 64)
	b[0], b[9], b[10] = 0xff, 0x7f, 3
	copy(b[12:], "NULL")
	return b
}

// readGreeting reads the peer's.
func readGreeting(r io.Reader) error {
	var b [64]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return err
	}
	switch {
	case b[0] != 0xff || b[9] != 0x7f:
		return errors.New("zmtp: the peer does not speak ZeroMQ")
	case b[10] < 3:
		return fmt.Errorf("zmtp: the peer speaks version %d of ZMTP; 3 is needed", b[10])
	case string(b[12:17]) != "NULL\x00":
		return fmt.Errorf("zmtp: the peer wants the mechanism %q; there is NULL alone", trimmed(b[12:32]))
	}
	return nil
}

func trimmed(b []byte) []byte {
	if i := slices.Index(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}

// ready is the command that ends a handshake.
func ready(kind string) []byte {
	return slices.Concat([]byte("\x05READY"), property("Socket-Type", kind), property("Identity", ""))
}

func property(name, value string) []byte {
	b := append([]byte{byte(len(name))}, name...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

// readReady reads the peer's socket type from its READY.
func readReady(body []byte) (kind string, err error) {
	rest, ok := cutPrefix(body, "\x05READY")
	if !ok {
		return "", errors.New("zmtp: the peer's first command is not READY")
	}
	for len(rest) > 0 {
		n := int(rest[0])
		if len(rest) < 1+n+4 {
			return "", errors.New("zmtp: the peer's READY is cut off")
		}
		name, size := string(rest[1:1+n]), int64(binary.BigEndian.Uint32(rest[1+n:]))
		if rest = rest[1+n+4:]; size > int64(len(rest)) {
			return "", errors.New("zmtp: the peer's READY is cut off")
		}
		if name == "Socket-Type" {
			kind = string(rest[:size])
		}
		rest = rest[size:]
	}
	return kind, nil
}

func cutPrefix(b []byte, prefix string) ([]byte, bool) {
	if len(b) < len(prefix) || string(b[:len(prefix)]) != prefix {
		return nil, false
	}
	return b[len(prefix):], true
}

// appendFrame appends a frame.
func appendFrame(b []byte, flags byte, body []byte) []byte {
	if len(body) > 255 {
		b = append(b, flags|long)
		b = binary.BigEndian.AppendUint64(b, uint64(len(body)))
	} else {
		b = append(b, flags, byte(len(body)))
	}
	return append(b, body...)
}

// encoded is a message of these frames.
func encoded(frames ...[]byte) (b []byte) {
	for i, f := range frames {
		flags := byte(more)
		if i == len(frames)-1 {
			flags = 0
		}
		b = appendFrame(b, flags, f)
	}
	return b
}

// readFrame reads a frame of at most this many bytes.
func readFrame(r *bufio.Reader, most int) (flags byte, body []byte, err error) {
	if flags, err = r.ReadByte(); err != nil {
		return 0, nil, err
	}
	size := uint64(0)
	if flags&long != 0 {
		var b [8]byte
		if _, err = io.ReadFull(r, b[:]); err != nil {
			return 0, nil, err
		}
		size = binary.BigEndian.Uint64(b[:])
	} else {
		var b byte
		if b, err = r.ReadByte(); err != nil {
			return 0, nil, err
		}
		size = uint64(b)
	}
	if flags&^(more|long|command) != 0 {
		return 0, nil, fmt.Errorf("zmtp: a frame with the flags %#x", flags)
	}
	if size > uint64(most) {
		return 0, nil, fmt.Errorf("zmtp: a frame of %d bytes, %d may be", size, most)
	}
	body = make([]byte, size)
	_, err = io.ReadFull(r, body)
	return flags, body, err
}
