package compile

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/x448/float16"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/regular"
)

// maxHeader bounds a safetensors header; a model of a thousand layers stays below a tenth of it.
const maxHeader = 16 << 20

// weight is one tensor in a checkpoint. Its bytes lie within its file.
type weight struct {
	file   string
	r      io.ReaderAt
	dtype  string
	shape  []int
	offset int64
	size   int64
}

// rows and cols see the tensor as a matrix: the last dimension is the columns'.
func (w *weight) cols() int {
	if len(w.shape) == 0 {
		return 1
	}
	return w.shape[len(w.shape)-1]
}

func (w *weight) rows() int {
	n := 1
	for _, d := range w.shape[:max(len(w.shape)-1, 0)] {
		n *= d
	}
	return n
}

var widths = map[string]int64{"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1,
	"F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "U32": 4, "U64": 8}

// readSafetensors lists the tensors of one file. name is for messages.
func readSafetensors(r io.ReaderAt, size int64, name string) (map[string]*weight, error) {
	bad := func(format string, a ...any) error {
		return &Error{Path: name, What: fmt.Sprintf(format, a...)}
	}
	var b [8]byte
	if size < 8 {
		return nil, bad("is cut short: %d bytes", size)
	}
	if _, err := r.ReadAt(b[:], 0); err != nil {
		return nil, bad("cannot be read: %v", err)
	}
	n := binary.LittleEndian.Uint64(b[:])
	if string(b[:]) == "version " {
		return nil, bad("is a Git LFS pointer, not a checkpoint: fetch the real file (git lfs pull)")
	}
	if n > uint64(size-8) {
		return nil, bad("is cut short or no safetensors file: its header claims %d bytes, %d are left", n, size-8)
	}
	if n > maxHeader {
		return nil, bad("has a header of %d bytes, at most %d is possible", n, maxHeader)
	}
	head := make([]byte, n)
	if _, err := r.ReadAt(head, 8); err != nil {
		return nil, bad("cannot be read: %v", err)
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(head, &raw); err != nil {
		return nil, bad("has a broken header: %v", err)
	}
	data := size - 8 - int64(n)
	out := map[string]*weight{}
	for key, msg := range raw {
		if key == "__metadata__" {
			continue
		}
		var t struct {
			DType   string  `json:"dtype"`
			Shape   []int64 `json:"shape"`
			Offsets []int64 `json:"data_offsets"`
		}
		if err := json.Unmarshal(msg, &t); err != nil {
			return nil, bad("tensor %q: %v", key, err)
		}
		w := &weight{file: name, r: r, dtype: t.DType}
		width, count := widths[t.DType], int64(1)
		if width == 0 {
			return nil, bad("tensor %q has an unknown type %q", key, t.DType)
		}
		if len(t.Shape) > 8 || len(t.Offsets) != 2 {
			return nil, bad("tensor %q has %d dimensions and %d offsets", key, len(t.Shape), len(t.Offsets))
		}
		for _, d := range t.Shape {
			if d < 0 || d > math.MaxInt32 || d > 0 && count > data/d {
				return nil, bad("tensor %q of shape %v does not fit in the file", key, t.Shape)
			}
			count *= d
			w.shape = append(w.shape, int(d))
		}
		from, to := t.Offsets[0], t.Offsets[1]
		if from < 0 || to < from || to > data {
			return nil, bad("is cut short or damaged: tensor %q lies at %d to %d, the data has %d bytes", key, from, to, data)
		}
		if count > data/width || to-from != count*width {
			return nil, bad("tensor %q of shape %v and type %s has %d bytes", key, t.Shape, t.DType, to-from)
		}
		w.offset, w.size = 8+int64(n)+from, to-from
		out[key] = w
	}
	return out, nil
}

// checkpoint is a folder of safetensors files.
type checkpoint struct {
	root    *os.Root
	files   []*os.File
	weights map[string]*weight
}

func (c *checkpoint) close() {
	for _, f := range c.files {
		f.Close()
	}
}

// holds says whether there are tensors whose names begin so.
func (c *checkpoint) holds(prefix string) bool {
	for name := range c.weights {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// openCheckpoint finds the tensors of a folder: by model.safetensors.index.json, else in
// model.safetensors, else in every *.safetensors.
func openCheckpoint(root *os.Root) (*checkpoint, error) {
	c := &checkpoint{root: root, weights: map[string]*weight{}}
	dir := root.Name()
	var index map[string]string
	var names []string
	b, err := read(root, "model.safetensors.index.json", maxText)
	switch {
	case err == nil:
		if index, names, err = parseIndex(b); err != nil {
			return nil, &Error{Path: filepath.Join(dir, "model.safetensors.index.json"), What: err.Error()}
		}
	case !isNotExist(err):
		return nil, err
	default:
		names, _ = fs.Glob(root.FS(), "*.safetensors")
		if slices.Contains(names, "model.safetensors") {
			names = []string{"model.safetensors"}
		}
	}
	if len(names) == 0 {
		return nil, &Error{Path: dir, What: "holds no *.safetensors file; checkpoints of other kinds (.bin, .gguf) cannot be compiled"}
	}
	for _, name := range names {
		if err := c.add(name); err != nil {
			c.close()
			return nil, err
		}
	}
	for tensor, file := range index {
		if w := c.weights[tensor]; w == nil || !strings.HasSuffix(w.file, filepath.FromSlash(file)) {
			c.close()
			return nil, &Error{Path: filepath.Join(dir, file), What: fmt.Sprintf("has no tensor %q, which the index says it has", tensor)}
		}
	}
	return c, nil
}

// parseIndex reads model.safetensors.index.json: the file of each tensor, and the files.
func parseIndex(b []byte) (index map[string]string, files []string, err error) {
	var j struct {
		Map map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(b, &j); err != nil {
		return nil, nil, err
	}
	if files = slices.Compact(slices.Sorted(maps.Values(j.Map))); len(files) > 1000 {
		return nil, nil, errors.New("names more than 1000 files")
	}
	return j.Map, files, nil
}

func (c *checkpoint) add(name string) error {
	path := filepath.Join(c.root.Name(), name)
	f, err := regular.Open(c.root, name)
	if err != nil {
		return &Error{Path: path, What: "cannot be opened: " + reason(err), Err: err}
	}
	c.files = append(c.files, f)
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return &Error{Path: path, What: "is no regular file", Err: err}
	}
	ws, err := readSafetensors(f, st.Size(), path)
	if err != nil {
		return err
	}
	for k, w := range ws {
		if c.weights[k] != nil {
			return &Error{Path: path, What: fmt.Sprintf("has tensor %q, which %s has too", k, c.weights[k].file)}
		}
		c.weights[k] = w
	}
	return nil
}

// reader gives a tensor's rows in order, as float32, reading a block at a time.
func (w *weight) reader(name string) func(dst []float32, r int) error {
	width := widths[w.dtype]
	rowBytes := int64(w.cols()) * width
	block := max(1, 1<<20/rowBytes)
	var buf []byte
	first, count := int64(0), int64(0)
	return func(dst []float32, r int) error {
		at := int64(r)
		if at < first || at >= first+count {
			first, count = at, min(block, int64(w.rows())-at)
			if need := count * rowBytes; int64(len(buf)) < need {
				buf = make([]byte, need)
			}
			if _, err := w.r.ReadAt(buf[:count*rowBytes], w.offset+first*rowBytes); err != nil {
				return &Error{Path: w.file, What: fmt.Sprintf("tensor %q cannot be read: %v", name, err), Err: err}
			}
		}
		row := buf[(at-first)*rowBytes:][:rowBytes]
		le := binary.LittleEndian
		switch w.dtype {
		case "BF16":
			for i := range dst {
				dst[i] = axcl.Float32(le.Uint16(row[2*i:]))
			}
		case "F16":
			for i := range dst {
				dst[i] = float16.Frombits(le.Uint16(row[2*i:])).Float32()
			}
		default:
			for i := range dst {
				dst[i] = math.Float32frombits(le.Uint32(row[4*i:]))
			}
		}
		return nil
	}
}
