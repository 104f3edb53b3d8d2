package models

import (
	"fmt"
	"io"

	"github.com/axle-llm/axle/internal/npy"
)

// npyHeader is what a .npy file says of its table before the values.
type npyHeader struct {
	kind       elem
	dims       int
	rows, cols int64
	offset     int64
}

// npyTypes are the types of a table. bf16 comes as two opaque bytes, as the name that ml_dtypes
// gives it, or as the raw bits.
var npyTypes = map[string]elem{"<f2": ofF16, "<f4": ofF32, "bfloat16": ofBF16, "<V2": ofBF16, "|V2": ofBF16, "<u2": ofBF16, "<i2": ofBF16}

// readNpy reads the header of a two-dimensional .npy table of f2, f4 or bf16 and checks it against
// the file's size.
func readNpy(r io.ReaderAt, size int64) (h npyHeader, err error) {
	if h, err = readNpyAny(r, size); err == nil && h.dims != 2 {
		err = fmt.Errorf("a .npy file of %d dimensions; a table has two dimensions", h.dims)
	}
	return h, err
}

// readNpyAny is readNpy for one to three dimensions: all but the last count as rows.
func readNpyAny(r io.ReaderAt, size int64) (h npyHeader, err error) {
	a, offset, err := npy.ReadHeader(io.NewSectionReader(r, 0, size))
	if err != nil {
		return h, err
	}
	kind, ok := npyTypes[a.Type]
	if !ok {
		return h, fmt.Errorf("a .npy file of %s; f2, f4 and bf16 are known", a.Type)
	}
	h = npyHeader{kind: kind, dims: len(a.Dims), rows: 1, offset: offset}
	if h.dims < 1 || h.dims > 3 {
		return h, fmt.Errorf("a .npy file of shape %v; a table has two dimensions", a.Dims)
	}
	for _, d := range a.Dims[:h.dims-1] { // two at the most, each below 2³¹: no product overflows
		h.rows *= int64(d)
	}
	h.cols = int64(a.Dims[h.dims-1])
	if h.rows > maxVocab || h.cols > maxHidden || h.rows < 1 || h.cols < 1 {
		return h, fmt.Errorf("a table of %d × %d; at most %d × %d makes sense", h.rows, h.cols, maxVocab, maxHidden)
	}
	if want := h.offset + h.rows*h.cols*h.kind.bytes(); want != size {
		return h, fmt.Errorf("a table of %d × %d %s takes %d bytes, the file has %d", h.rows, h.cols, h.kind, want, size)
	}
	return h, nil
}
