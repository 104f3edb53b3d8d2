package soft

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/axle-llm/axle/axcl"
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

// open reads the description of a model, and maps it. A vendor's model is refused: only its card can run it.
func open(path string) (*file, error) {
	meta, err := axmodel.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if meta.Vendor {
		return nil, &axmodel.Error{Path: path, What: "was compiled for the card (" + meta.Tool + "): the software card cannot run it; use --device axcl or axengine, or make a package with axle compile"}
	}
	if meta.Soft.Kind == axmodel.Layer && meta.Soft.Pos != 1 {
		return nil, &axmodel.Error{Path: path, What: fmt.Sprintf("has %d position rows: the software card does not compute multimodal RoPE", meta.Soft.Pos)}
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
	return m, nil
}

// matrix is a weight as it lies in the file. Exactly one of f32, bf16 and int8 is set.
type matrix struct {
	rows, cols int
	f32        []float32
	bf16       []uint16
	int8       []int8
	scales     []float32
}

func view[T any](b []byte, off int64, n int) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(&b[off])), n)
}

// matrix gives a tensor; axmodel has checked that it is there and lies within the file.
func (m *file) matrix(name string) matrix {
	e, ok := m.Entry(name)
	if !ok {
		return matrix{}
	}
	w, n := matrix{rows: e.Rows, cols: e.Cols}, e.Rows*e.Cols
	switch e.Type {
	case axmodel.F32:
		w.f32 = view[float32](m.bytes, e.Offset, n)
	case axmodel.BF16:
		w.bf16 = view[uint16](m.bytes, e.Offset, n)
	case axmodel.Int8:
		w.int8 = view[int8](m.bytes, e.Offset, n)
		w.scales = view[float32](m.bytes, e.Scales, e.Rows)
	}
	return w
}

// vector gives a one-row tensor as float32; nil when the model has none.
func (m *file) vector(name string) []float32 {
	w := m.matrix(name)
	out := make([]float32, w.cols)
	for i := range out {
		switch {
		case w.f32 != nil:
			out[i] = w.f32[i]
		case w.bf16 != nil:
			out[i] = axcl.Float32(w.bf16[i])
		default:
			out[i] = float32(w.int8[i]) * w.scales[0]
		}
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

// mul sets dst[x·rows + r] = w[r] · src[x·cols:] for n rows of src and r in [from, to).
func (w *matrix) mul(dst, src []float32, n, from, to int) {
	var four [4]float32
	x := 0
	for ; x+4 <= n; x += 4 {
		in := src[x*w.cols : (x+4)*w.cols]
		for r := from; r < to; r++ {
			switch {
			case w.bf16 != nil:
				dot4BF16(&four, w.bf16[r*w.cols:(r+1)*w.cols], in, w.cols)
			case w.int8 != nil:
				dot4Int8(&four, w.int8[r*w.cols:(r+1)*w.cols], in, w.cols)
				for i := range four {
					four[i] *= w.scales[r]
				}
			default:
				for i := range four {
					four[i] = dotF32(w.f32[r*w.cols:(r+1)*w.cols], in[i*w.cols:])
				}
			}
			dst[x*w.rows+r], dst[(x+1)*w.rows+r], dst[(x+2)*w.rows+r], dst[(x+3)*w.rows+r] = four[0], four[1], four[2], four[3]
		}
	}
	for ; x < n; x++ {
		in, out := src[x*w.cols:(x+1)*w.cols], dst[x*w.rows:(x+1)*w.rows]
		for r := from; r < to; r++ {
			switch {
			case w.bf16 != nil:
				out[r] = dotBF16(w.bf16[r*w.cols:(r+1)*w.cols], in)
			case w.int8 != nil:
				out[r] = dotInt8(w.int8[r*w.cols:(r+1)*w.cols], in) * w.scales[r]
			default:
				out[r] = dotF32(w.f32[r*w.cols:(r+1)*w.cols], in)
			}
		}
	}
}

// rmsNorm sets dst = x / sqrt(mean(x²) + eps) · w.
func rmsNorm(dst, x, w []float32, eps float32) {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	f := float32(1 / math.Sqrt(sum/float64(len(x))+float64(eps)))
	for i, v := range x {
		dst[i] = v * f * w[i]
	}
}
