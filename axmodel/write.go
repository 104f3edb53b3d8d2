package axmodel

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/axle-llm/axle/axcl"
)

// Tensor is one tensor to write. Row gives row r as float32 into dst, which has Cols places; rows
// are asked for once each, in order, so a model larger than memory can be written.
type Tensor struct {
	Name       string
	Type       DType
	Rows, Cols int
	Group      int // of types in groups: 32 or 128 values; 0 means 32
	Row        func(dst []float32, r int) error
}

// Vector is a one-row tensor whose values are at hand.
func Vector(name string, t DType, v []float32) Tensor {
	return Tensor{Name: name, Type: t, Rows: 1, Cols: len(v), Row: func(dst []float32, _ int) error { copy(dst, v); return nil }}
}

// Matrix is a tensor whose values are at hand, row-major.
func Matrix(name string, t DType, rows, cols int, v []float32) Tensor {
	return Tensor{Name: name, Type: t, Rows: rows, Cols: cols, Row: func(dst []float32, r int) error { copy(dst, v[r*cols:]); return nil }}
}

func up(n int64) int64 { return fill(n, align) }

// place gives every tensor its offsets and says how long the file is.
func place(groups, tensors int, ts []Tensor) ([]Entry, int64) {
	at := up(headerBytes + int64(groups)*groupBytes + int64(tensors)*entryBytes)
	var out []Entry
	for _, t := range ts {
		e := Entry{Name: t.Name, Type: t.Type, Rows: t.Rows, Cols: t.Cols, Offset: at}
		at = up(at + t.Type.valueBytes(int64(t.Rows), int64(t.Cols)))
		if t.Type.Grouped() {
			e.Group = cmp.Or(t.Group, blockValues)
		}
		if n := t.Type.scaleBytes(int64(t.Rows), int64(t.Cols), int64(e.Group)); n > 0 {
			e.Scales = at
			at = up(at + n)
		}
		out = append(out, e)
	}
	return out, at
}

// Size is how long the file will be.
func Size(groups []SoftGroup, ts []Tensor) int64 {
	_, n := place(len(groups), len(ts), ts)
	return n
}

// WriteFile writes a software model to path, which must not exist. It fails with an *Error when
// header, groups and tensors do not make a model, or with the error of a Row function or of the
// file; what was written by then is removed.
func WriteFile(path string, h Header, groups []SoftGroup, ts []Tensor) error {
	return create(path, func(w io.Writer) error { return Write(w, h, groups, ts) })
}

// create makes a file of what f writes, or none.
func create(path string, f func(w io.Writer) error) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	err = f(file)
	if e := file.Close(); err == nil {
		err = e
	}
	if err != nil {
		os.Remove(path)
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Write is WriteFile to any writer.
func Write(w io.Writer, h Header, groups []SoftGroup, ts []Tensor) error {
	if len(groups) < 1 || len(groups) > maxGroups || len(ts) > maxTable {
		return errorf("%d groups and %d tensors: 1 to %d and at most %d are possible", len(groups), len(ts), maxGroups, maxTable)
	}
	if len(h.Tool) > 64 {
		return errorf("the tool's name has %d bytes, 64 are possible", len(h.Tool))
	}
	for _, t := range ts {
		if !t.Type.known() || len(t.Name) > 24 || t.Group != 0 && t.Group != 32 && t.Group != 128 {
			return errorf("tensor %q of %v cannot be written", t.Name, t.Type)
		}
	}
	entries, size := place(len(groups), len(ts), ts)
	s := Soft{Header: h, Groups: groups, Tensors: entries}
	if err := s.check(); err != nil {
		return err
	}
	b := encode(h, groups, len(ts), size)
	le := binary.LittleEndian
	for i, e := range entries {
		p := b[headerBytes+len(groups)*groupBytes+i*entryBytes:]
		copy(p[:24], e.Name)
		le.PutUint32(p[24:], uint32(e.Type))
		le.PutUint32(p[28:], uint32(e.Rows))
		le.PutUint32(p[32:], uint32(e.Cols))
		le.PutUint32(p[36:], uint32(e.Group))
		le.PutUint64(p[40:], uint64(e.Offset))
		le.PutUint64(p[48:], uint64(e.Scales))
	}
	out := newCounter(w)
	out.write(b)
	for i, t := range ts {
		if err := writeTensor(out, t, entries[i]); err != nil {
			return err
		}
	}
	out.pad(size)
	if out.err != nil {
		return out.err
	}
	return out.w.Flush()
}

// encode makes a file's header and groups, and leaves room for this many entries.
func encode(h Header, groups []SoftGroup, entries int, size int64) []byte {
	if h.Kind == Encoder { // in the places of what it has not
		h.ValueDim, h.Conv, h.State, h.Period = h.Patch, h.Merge, State(h.Order), h.Deep
	} else if h.Kind == Layer {
		h.Blocks = h.Rank
	}
	le := binary.LittleEndian
	b := make([]byte, up(headerBytes+int64(len(groups))*groupBytes+int64(entries)*entryBytes))
	copy(b, Magic)
	for off, v := range map[int]int{8: version, 12: int(h.Kind), 16: len(groups), 20: entries, 40: int(h.Flags), 44: int(h.Activation),
		48: h.Hidden, 52: h.Heads, 56: h.KVHeads,
		60: h.HeadDim, 64: h.Intermediate, 68: h.Out, 80: h.Rotary, 88: int(h.Rope), 92: h.Pos, 104: h.Period, 108: h.Index,
		176: h.ValueDim, 180: h.Conv, 184: int(h.State), 188: h.Blocks} {
		le.PutUint32(b[off:], uint32(v))
	}
	le.PutUint64(b[24:], uint64(size))
	le.PutUint64(b[32:], h.Weights)
	le.PutUint32(b[72:], math.Float32bits(h.Eps))
	le.PutUint32(b[76:], math.Float32bits(h.Scale))
	le.PutUint32(b[84:], math.Float32bits(h.Magnitude))
	le.PutUint64(b[96:], math.Float64bits(h.Theta))
	copy(b[112:176], h.Tool)
	for i, g := range groups {
		p := b[headerBytes+i*groupBytes:]
		le.PutUint32(p, uint32(g.Rows))
		le.PutUint32(p[4:], uint32(g.Cells))
		le.PutUint32(p[8:], uint32(g.Cache))
	}
	return b
}

func writeTensor(out *counter, t Tensor, e Entry) error {
	out.pad(e.Offset)
	le := binary.LittleEndian
	row, together := make([]float32, t.Cols), int(t.Type.together())
	b := make([]byte, t.Type.valueBytes(int64(together), int64(t.Cols)))
	var scales []byte
	for r := range t.Rows {
		if err := t.Row(row, r); err != nil {
			return fmt.Errorf("tensor %q, row %d: %w", t.Name, r, err)
		}
		if r%together == 0 && together > 1 {
			t.Type.clear(b)
			scales = append(scales, make([]byte, t.Type.scaleBytes(int64(together), int64(t.Cols), int64(e.Group)))...)
		}
		switch t.Type {
		case F32:
			for i, v := range row {
				le.PutUint32(b[i*4:], math.Float32bits(v))
			}
		case BF16:
			for i, v := range row {
				le.PutUint16(b[i*2:], axcl.BFloat16(v))
			}
		case BF16Fours:
			for i, v := range row {
				le.PutUint16(b[2*(i/blockValues*4*blockValues+r%4*blockValues+i%blockValues):], axcl.BFloat16(v))
			}
		case Int8Groups, Int4Groups:
			eight := scales[len(scales)-int(t.Type.scaleBytes(8, int64(t.Cols), int64(e.Group))):]
			if err := writeGroups(b, eight, row, r%8, t.Type, e.Group); err != nil {
				return fmt.Errorf("tensor %q, row %d: %w", t.Name, r, err)
			}
		}
		if r%together == together-1 || r == t.Rows-1 {
			out.write(b)
		}
		if out.err != nil {
			return out.err
		}
	}
	if len(scales) > 0 {
		out.pad(e.Scales)
		out.write(scales)
	}
	return out.err
}

// counter knows where in the file it is, and keeps the first error.
type counter struct {
	w   *bufio.Writer
	at  int64
	err error
}

func newCounter(w io.Writer) *counter { return &counter{w: bufio.NewWriterSize(w, 1<<16)} }

func (c *counter) write(b []byte) {
	if c.err == nil {
		var n int
		n, c.err = c.w.Write(b)
		c.at += int64(n)
	}
}

func (c *counter) pad(to int64) {
	var zero [align]byte
	for c.err == nil && c.at < to {
		c.write(zero[:min(to-c.at, align)])
	}
}
