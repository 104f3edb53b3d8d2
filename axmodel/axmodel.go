// Package axmodel reads .axmodel files without a device: what tensors a model takes and gives, in
// which shape groups, and how large it is.
//
// Two formats bear the name. A vendor's file is an ONNX container; only its description is read,
// weights are skipped. The software card's file (docs/axmodel-format.md) is read and written here.
//
// Nothing in this package keeps state: every function may be called from any goroutine. A [Meta] is
// immutable once made and holds no file open.
package axmodel

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/regular"
)

// ErrLFS is what an [Error] matches where the file is a Git LFS pointer instead of a model.
var ErrLFS = errors.New("a Git LFS pointer, not a model")

// Error is a file that is no model, or one this package cannot use. errors.Is(err, axcl.ErrModel)
// holds for each.
type Error struct {
	Path string // the file; empty for a reader without a name
	What string // what is wrong with it
	Err  error  // the cause, where there is one: an error of the file system, or ErrLFS
}

func (e *Error) Error() string {
	if e.Path == "" {
		return "axmodel: " + e.What
	}
	return "axmodel: " + e.Path + ": " + e.What
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is matches axcl.ErrModel.
func (e *Error) Is(target error) bool { return target == axcl.ErrModel }

func errorf(format string, a ...any) *Error { return &Error{What: fmt.Sprintf(format, a...)} }

// Meta is what a file says about the model in it.
type Meta struct {
	Vendor      bool   // an ONNX container; else the software card's format
	Tool        string // what compiled it, e.g. "Pulsar2 1.6 d9911bc5"
	Groups      []GroupMeta
	WeightBytes int64 // what the weights take on a card, as far as the file tells
	FileBytes   int64
	Soft        *Soft // the software card's header and tensor directory; nil for a vendor's file
}

// GroupMeta lists the tensors of one shape group, in the file's order. Names are without the
// group's suffix; Raw names are the file's own.
type GroupMeta struct {
	Inputs, Outputs       []axcl.Tensor
	RawInputs, RawOutputs []string
}

// Input finds an input by its normalised name; the zero Tensor, whose Type is TypeNone, when there
// is none.
func (g *GroupMeta) Input(name string) axcl.Tensor { return find(g.Inputs, name) }

// Output finds an output by its normalised name, as Input.
func (g *GroupMeta) Output(name string) axcl.Tensor { return find(g.Outputs, name) }

func find(ts []axcl.Tensor, name string) axcl.Tensor {
	for _, t := range ts {
		if t.Name == name {
			return t
		}
	}
	return axcl.Tensor{}
}

// ReadFile reads the description of the model at path. Errors are *Error: the file cannot be opened
// (errors.Is finds fs.ErrNotExist), is an LFS pointer (ErrLFS), is cut short, or is not a model.
func ReadFile(path string) (*Meta, error) {
	f, err := regular.OpenPath(path)
	if errors.Is(err, regular.ErrNot) {
		return nil, &Error{Path: path, What: "is not a regular file", Err: err}
	}
	if err != nil {
		return nil, openError(path, err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, openError(path, err)
	}
	m, err := Read(f, st.Size())
	var e *Error
	if errors.As(err, &e) {
		e.Path = path
	}
	return m, err
}

func openError(path string, err error) error {
	var p *fs.PathError
	what := err.Error()
	if errors.As(err, &p) {
		what = p.Err.Error()
	}
	return &Error{Path: path, What: "cannot open: " + what, Err: err}
}

// Read is ReadFile for what is already open; size is the file's length. It reads headers and
// descriptions only, never weights.
func Read(r io.ReaderAt, size int64) (*Meta, error) {
	if size <= 0 {
		return nil, errorf("is empty")
	}
	head := make([]byte, min(size, 64))
	if n, err := r.ReadAt(head, 0); n < len(head) {
		return nil, &Error{What: fmt.Sprintf("cannot read: %v", err), Err: err}
	}
	var m *Meta
	var err error
	switch {
	case bytes.HasPrefix(head, []byte(lfsMagic)):
		return nil, &Error{What: ErrLFS.Error() + ": fetch the real file (git lfs pull, or axle pull)", Err: ErrLFS}
	case bytes.HasPrefix(head, []byte(Magic)):
		m, err = readSoft(r, size)
	default:
		m, err = readVendor(r, size)
	}
	if err != nil {
		return nil, err
	}
	m.FileBytes = size
	return m, nil
}

const lfsMagic = "version https://git-lfs.github.com/spec"

// Limits on one tensor: more than any model has, and small enough that no product of them
// overflows.
const (
	maxDims  = 32
	maxBytes = 1 << 40
)

// tensor makes an axcl.Tensor, or says why its shape cannot be.
func tensor(name string, t axcl.Type, shape ...int) (axcl.Tensor, error) {
	width := typeBits(t)
	if width == 0 {
		return axcl.Tensor{}, errorf("tensor %q has an unknown type", name)
	}
	if len(shape) > maxDims {
		return axcl.Tensor{}, errorf("tensor %q has %d dimensions", name, len(shape))
	}
	n := int64(1)
	for _, d := range shape {
		if d < 1 || int64(d) > maxBytes/n {
			return axcl.Tensor{}, errorf("tensor %q has an impossible shape %v", name, shape)
		}
		n *= int64(d)
	}
	size := (n*int64(width) + 7) / 8
	if size > maxBytes || size > math.MaxInt {
		return axcl.Tensor{}, errorf("tensor %q of shape %v is too large", name, shape)
	}
	return axcl.Tensor{Name: name, Type: t, Shape: shape, Size: int(size)}, nil
}

func typeBits(t axcl.Type) int {
	switch t {
	case axcl.Int4, axcl.Uint4, axcl.FP4:
		return 4
	case axcl.Int8, axcl.Uint8, axcl.FP8:
		return 8
	case axcl.Int16, axcl.Uint16, axcl.FP16, axcl.BF16:
		return 16
	case axcl.Int32, axcl.Uint32, axcl.FP32:
		return 32
	case axcl.Int64, axcl.Uint64, axcl.FP64:
		return 64
	}
	return 0
}
