package models

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// npyHeader is what a .npy file says before its data.
type npyHeader struct {
	kind       elem
	dims       int
	rows, cols int64
	offset     int64
}

const maxNpyHeader = 64 << 10

// readNpy reads the header of a two-dimensional .npy table of f2, f4 or bf16 and checks it against
// the file's size. numpy has no bf16: such files come as two opaque bytes (V2), as the ml_dtypes
// name, or as the raw bits (u2).
func readNpy(r io.ReaderAt, size int64) (h npyHeader, err error) {
	if h, err = readNpyAny(r, size); err == nil && h.dims != 2 {
		err = fmt.Errorf("a .npy file of %d dimensions; a table has two dimensions", h.dims)
	}
	return h, err
}

// readNpyAny is readNpy for one to three dimensions: all but the last count as rows.
func readNpyAny(r io.ReaderAt, size int64) (h npyHeader, err error) {
	var fixed [12]byte
	n, _ := r.ReadAt(fixed[:], 0) // a short file is told by what lacks
	if n < 10 || string(fixed[:6]) != "\x93NUMPY" {
		return h, errors.New("not a .npy file")
	}
	var length int64
	switch fixed[6] {
	case 1:
		length, h.offset = int64(binary.LittleEndian.Uint16(fixed[8:])), 10
	case 2, 3:
		if n < 12 {
			return h, errors.New("a .npy header cut short")
		}
		length, h.offset = int64(binary.LittleEndian.Uint32(fixed[8:])), 12
	default:
		return h, fmt.Errorf("a .npy file of version %d; versions 1 to 3 are known", fixed[6])
	}
	if length > maxNpyHeader || h.offset+length > size {
		return h, fmt.Errorf("a .npy header of %d bytes in a file of %d", length, size)
	}
	text := make([]byte, length)
	if _, err := r.ReadAt(text, h.offset); err != nil {
		return h, fmt.Errorf("a .npy header cut short: %w", err)
	}
	h.offset += length
	if err := h.parse(string(text)); err != nil {
		return h, err
	}
	if h.rows > maxVocab || h.cols > maxHidden || h.rows < 1 || h.cols < 1 {
		return h, fmt.Errorf("a table of %d × %d; at most %d × %d makes sense", h.rows, h.cols, maxVocab, maxHidden)
	}
	if want := h.offset + h.rows*h.cols*h.kind.bytes(); want != size {
		return h, fmt.Errorf("a table of %d × %d %s takes %d bytes, the file has %d", h.rows, h.cols, h.kind, want, size)
	}
	return h, nil
}

// parse reads the header's Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (2,
// 3), }
func (h *npyHeader) parse(s string) error {
	field := func(key string) (string, error) {
		for _, q := range []string{"'", `"`} {
			if _, rest, ok := strings.Cut(s, q+key+q); ok {
				rest = strings.TrimLeft(rest, " ")
				if rest, ok := strings.CutPrefix(rest, ":"); ok {
					return strings.TrimLeft(rest, " "), nil
				}
			}
		}
		return "", fmt.Errorf("a .npy header without %s", key)
	}
	descr, err := field("descr")
	if err != nil {
		return err
	}
	if descr == "" || descr[0] != '\'' && descr[0] != '"' {
		return errors.New("a .npy file of structured records; a plain table is needed")
	}
	name, _, _ := strings.Cut(descr[1:], descr[:1])
	switch name {
	case "<f2", "=f2", "f2", "float16":
		h.kind = f16
	case "<f4", "=f4", "f4", "float32":
		h.kind = f32
	case "bfloat16", "<V2", "|V2", "V2", "<u2", "<i2":
		h.kind = bf16
	default:
		return fmt.Errorf("a .npy file of %.20q; f2, f4 and bf16 are known", name)
	}
	order, err := field("fortran_order")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(order, "False") {
		return errors.New("a .npy file in column order; save it in C order")
	}
	shape, err := field("shape")
	if err != nil {
		return err
	}
	shape, ok := strings.CutPrefix(shape, "(")
	if !ok {
		return errors.New("a .npy header without a shape")
	}
	shape, _, ok = strings.Cut(shape, ")")
	dims := strings.Split(strings.TrimSuffix(strings.TrimSpace(shape), ","), ",")
	if !ok || len(dims) > 3 {
		return fmt.Errorf("a .npy file of shape (%.40s); a table has two dimensions", shape)
	}
	h.dims, h.rows = len(dims), 1
	for i, text := range dims {
		n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(text), "L"), 10, 64)
		switch {
		case err != nil:
			return fmt.Errorf("a .npy file of shape (%.40s)", shape)
		case i == len(dims)-1:
			h.cols = n
		case n < 1 || len(dims) > 2 && n > maxHidden: // of two numbers that small no product overflows
			h.rows = n
			return nil
		default:
			h.rows *= n
		}
	}
	return nil
}
