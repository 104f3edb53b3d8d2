// Package npy reads and writes NumPy's .npy files: an array of numbers of up to eight dimensions,
// in C order, little-endian. Functions are safe for concurrent use; nothing is closed.
package npy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Array is a file's array. Type is NumPy's: "<f4", "<i4", "|u1" and the like.
type Array struct {
	Type string
	Dims []int // none: a single number
	Data []byte
}

// widths are the bytes of a value of each type that is known.
var widths = map[string]int{"<f4": 4, "<f2": 2, "<f8": 8, "<i4": 4, "<u4": 4, "<i8": 8, "<u2": 2, "<i2": 2, "|u1": 1, "|i1": 1,
	"|V2": 2, "<V2": 2, "bfloat16": 2} // the last three are bf16: NumPy has no such type, and each writer does as it likes

const (
	magic     = "\x93NUMPY"
	maxHeader = 64 << 10
	maxDims   = 8
)

// Len is how many values there are.
func (a *Array) Len() int {
	n := 1
	for _, d := range a.Dims {
		n *= d
	}
	return n
}

// ReadHeader reads what a file says before its values: an array without Data. The values begin at
// the offset.
func ReadHeader(r io.Reader) (a *Array, offset int64, err error) {
	var head [10]byte
	if _, err := io.ReadFull(r, head[:]); err != nil || string(head[:6]) != magic {
		return nil, 0, errors.New("npy: not a .npy file")
	}
	length := int64(binary.LittleEndian.Uint16(head[8:]))
	offset = int64(len(head))
	switch head[6] {
	case 1:
	case 2, 3:
		var more [2]byte
		if _, err := io.ReadFull(r, more[:]); err != nil {
			return nil, 0, errors.New("npy: the header is cut short")
		}
		length |= int64(binary.LittleEndian.Uint16(more[:])) << 16
		offset += int64(len(more))
	default:
		return nil, 0, fmt.Errorf("npy: version %d; versions 1 to 3 are known", head[6])
	}
	if length > maxHeader {
		return nil, 0, fmt.Errorf("npy: a header of %d bytes", length)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, 0, errors.New("npy: the header is cut short")
	}
	a, err = parse(string(text))
	return a, offset + length, err
}

// Read reads a file of at most limit bytes of values. Its size is checked before memory is taken.
func Read(r io.Reader, limit int64) (*Array, error) {
	a, _, err := ReadHeader(r)
	if err != nil {
		return nil, err
	}
	size := int64(widths[a.Type])
	for _, d := range a.Dims {
		if d > 0 && size > limit/int64(d) {
			return nil, fmt.Errorf("npy: an array of %v values takes more than the %d bytes allowed", a.Dims, limit)
		}
		size *= int64(d)
	}
	var data bytes.Buffer // grows by what is there
	if n, err := io.Copy(&data, io.LimitReader(r, size+1)); err != nil {
		return nil, fmt.Errorf("npy: %w", err)
	} else if n != size {
		return nil, fmt.Errorf("npy: %v values of %s take %d bytes, the file has %d or more", a.Dims, a.Type, size, n)
	}
	a.Data = data.Bytes()
	return a, nil
}

// parse reads the header's Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (2,
// 3), }
func parse(s string) (*Array, error) {
	field := func(key string) string {
		for _, q := range []string{"'", `"`} {
			if _, rest, ok := strings.Cut(s, q+key+q); ok {
				if rest, ok := strings.CutPrefix(strings.TrimLeft(rest, " "), ":"); ok {
					return strings.TrimLeft(rest, " ")
				}
			}
		}
		return ""
	}
	descr := field("descr")
	if descr == "" || descr[0] != '\'' && descr[0] != '"' {
		return nil, errors.New("npy: no type, or one of records; a plain array is needed")
	}
	a := new(Array)
	a.Type, _, _ = strings.Cut(descr[1:], descr[:1])
	if widths[a.Type] == 0 {
		return nil, fmt.Errorf("npy: values of %.20q; little-endian numbers are known", a.Type)
	}
	if !strings.HasPrefix(field("fortran_order"), "False") {
		return nil, errors.New("npy: an array in column order; save it in C order")
	}
	shape, ok := strings.CutPrefix(field("shape"), "(")
	shape, _, closed := strings.Cut(shape, ")")
	if !ok || !closed {
		return nil, errors.New("npy: no shape")
	}
	for text := range strings.SplitSeq(shape, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(text, "L"), 10, 32)
		if err != nil || n < 0 || len(a.Dims) == maxDims {
			return nil, fmt.Errorf("npy: a shape of (%.40s)", shape)
		}
		a.Dims = append(a.Dims, int(n))
	}
	return a, nil
}

// Write writes a file that NumPy reads.
func Write(w io.Writer, a *Array) error {
	below := slices.ContainsFunc(a.Dims, func(d int) bool { return d < 0 })
	if widths[a.Type] == 0 || len(a.Data) != a.Len()*widths[a.Type] || len(a.Dims) > maxDims || below {
		return fmt.Errorf("npy: %d bytes are no array of %v %s", len(a.Data), a.Dims, a.Type)
	}
	var dims strings.Builder
	for _, d := range a.Dims {
		fmt.Fprintf(&dims, "%d, ", d)
	}
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", a.Type, strings.TrimRight(dims.String(), " "))
	text += strings.Repeat(" ", 63-(10+len(text))%64) + "\n" // the values begin at a multiple of 64
	head := append([]byte(magic), 1, 0)
	head = binary.LittleEndian.AppendUint16(head, uint16(len(text)))
	for _, b := range [][]byte{head, []byte(text), a.Data} {
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}
