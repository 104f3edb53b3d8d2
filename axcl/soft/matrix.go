package soft

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/axle-llm/axle/axcl/soft/kernel"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/internal/regular"
)

// file is a software model that is mapped: its description and its bytes.
type file struct {
	*axmodel.Soft
	meta  *axmodel.Meta
	path  string
	bytes []byte
	unmap func()
}

// open reads the description of a model, and maps it. A vendor's model is refused: only its card
// can run it.
func open(path string) (*file, error) {
	meta, err := axmodel.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if meta.Vendor {
		return nil, &axmodel.Error{Path: path, What: "was compiled for the card (" + meta.Tool +
			"): the software card cannot run it; use --device axcl or axengine, or make a package with axle compile"}
	}
	if meta.FileBytes > math.MaxInt {
		return nil, &axmodel.Error{Path: path, What: "is too large for a 32-bit machine"}
	}
	f, err := regular.OpenPath(path)
	if err != nil {
		return nil, &axmodel.Error{Path: path, What: "changed while it was opened", Err: err}
	}
	defer f.Close()
	m := &file{Soft: meta.Soft, meta: meta, path: path}
	st, err := f.Stat()
	if err != nil || st.Size() != meta.FileBytes {
		return nil, &axmodel.Error{Path: path, What: "changed while it was opened", Err: err}
	}
	m.bytes, m.unmap, err = mapFile(f, int(meta.FileBytes))
	if err != nil {
		return nil, &axmodel.Error{Path: path, What: "cannot be mapped: " + err.Error(), Err: err}
	}
	for _, v := range m.vector("rope_axis") {
		if v != 0 && v != 1 && v != 2 {
			m.unmap()
			return nil, &axmodel.Error{Path: path, What: fmt.Sprintf("gives a frequency position row %v of three", v)}
		}
	}
	return m, nil
}

func view[T any](b []byte, off int64, n int) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(&b[off])), n)
}

// matrix gives a tensor; axmodel has checked that it is there and lies within the file.
func (m *file) matrix(name string) kernel.Weights {
	e, ok := m.Entry(name)
	if !ok {
		return kernel.Weights{}
	}
	w, n := kernel.Weights{Rows: e.Rows, Cols: e.Cols}, e.Rows*e.Cols
	switch e.Type {
	case axmodel.F32:
		w.F32 = view[float32](m.bytes, e.Offset, n)
	case axmodel.BF16:
		w.BF16 = view[uint16](m.bytes, e.Offset, n)
	case axmodel.BF16Fours:
		w.Fours = view[uint16](m.bytes, e.Offset, kernel.FourValues(e.Rows, e.Cols))
	case axmodel.Int8Groups, axmodel.Int4Groups:
		w.Group = e.Group
		w.Groups = view[uint16](m.bytes, e.Scales, kernel.EightScales(e.Rows, e.Cols, e.Group))
		if n := kernel.EightValues(e.Rows, e.Cols); e.Type == axmodel.Int8Groups {
			w.Q8 = m.bytes[e.Offset:][:n]
		} else {
			w.Q4 = m.bytes[e.Offset:][:n/2]
		}
	}
	return w
}

// vector gives a one-row tensor as float32; nil when the model has none.
func (m *file) vector(name string) []float32 {
	w := m.matrix(name)
	out := make([]float32, w.Cols)
	if len(out) > 0 {
		w.Row(out, 0)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// norm gives a norm's factors: the weight, or 1 + weight.
func (m *file) norm(name string) []float32 {
	w := m.vector(name)
	if m.Flags&axmodel.FlagNormOne != 0 {
		for i := range w {
			w[i]++
		}
	}
	return w
}
