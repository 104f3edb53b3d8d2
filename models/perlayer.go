package models

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"runtime"
	"sync"

	"github.com/axle-llm/axle/internal/bf16"
)

// PerLayer makes the layer inputs of Gemma-4: from a table by token, gigabytes that are mapped and
// never read whole, and from the token's embedding. Its methods may be called from any goroutine; a
// nil PerLayer has no bytes, and closes.
type PerLayer struct {
	Layers, Width int

	table   *Embeddings
	project []float32 // Layers·Width rows, each as long as a hidden row
	norm    []float32 // Width
	hidden  int
}

// standsWith says whether a layer may stand in one model with the first of attention though its
// shape is another: in Gemma-4 the width of K and V goes by a layer's kind, and a layer that uses
// another's K and V has room for the rows of a call behind those of the cache.
func (pkg *Package) standsWith(l Layer) bool {
	if pkg.Config.KVSharedLayers == 0 && !pkg.SharesKV() {
		return false
	}
	a, b := l.Shape, pkg.Shape
	if a.Hidden != b.Hidden || a.Pos != b.Pos || a.LayerInputs != b.LayerInputs || a.Cells != b.Cells || len(a.Groups) != len(b.Groups) {
		return false
	}
	for i := range a.Groups {
		if a.Groups[i].Group != b.Groups[i].Group {
			return false
		}
	}
	for _, o := range pkg.Facts { // those of a kind are alike
		if o.Kind == l.Kind && o.Shares == l.Shares && !o.Shape.Equal(a) {
			return false
		}
	}
	return true
}

// sources finds whose K and V each layer uses that has none of its own.
func (pkg *Package) sources() error {
	p := pkg.p
	for i := range pkg.Facts {
		l := &pkg.Facts[i]
		if !l.Shares {
			continue
		}
		l.Source = -1
		for j, o := range pkg.Facts[:i] {
			if o.Kind == l.Kind && !o.Shares {
				l.Source = j
			}
		}
		switch {
		case l.Source < 0:
			return &Error{Path: p.t.where(l.Name), What: "uses the K and V of an earlier layer of its kind, " + l.Kind +
				", and there is none", Fix: "correct num_kv_shared_layers or layer_types", Err: ErrMismatch}
		case pkg.Facts[l.Source].Shape.KV != l.Shape.KV:
			return &Error{Path: p.t.where(l.Name), What: fmt.Sprintf("takes K and V of %d values, %s, whose they are, has %d", l.Shape.KV,
				path.Base(pkg.Facts[l.Source].Name), pkg.Facts[l.Source].Shape.KV), Fix: "take all layers from one build", Err: ErrMismatch}
		}
	}
	return nil
}

// widest is how many values the longest row of K has.
func (pkg *Package) widest() (kv int) {
	for _, l := range pkg.Facts {
		kv = max(kv, l.Shape.KV)
	}
	return kv
}

// sharedKV is what a card keeps where layers use the K and V of others.
type sharedKV struct {
	sources map[int]bool // layers whose K and V others use; empty where none does
	// The new rows of a pass lie after the cells that it sees. A pass that sees all cells needs
	// this many rows after the last one; others need a second cache of this many cells and rows.
	extra, second int64
}

func (pkg *Package) sharedKV() (t sharedKV) {
	for _, l := range pkg.Facts {
		if l.Shares {
			if t.sources == nil {
				t.sources = map[int]bool{}
			}
			t.sources[l.Source] = true
		}
	}
	for _, g := range pkg.Shape.Groups {
		if g.Group.Cells == pkg.Shape.Cells {
			t.extra = max(t.extra, int64(g.Rows))
		} else {
			t.second = max(t.second, int64(g.Group.Cells+g.Rows))
		}
	}
	return t
}

// Sources says of each layer whose K and V it uses, itself where it has its own; nil where all
// have. A load of the layers is to be told it.
func (pkg *Package) Sources() []int {
	if pkg.Config.KVSharedLayers == 0 {
		return nil
	}
	out := make([]int, len(pkg.Facts))
	for i, l := range pkg.Facts {
		if out[i] = i; l.Shares {
			out[i] = l.Source
		}
	}
	return out
}

// openPerLayer opens what layer inputs are made of; nil where there are none.
func (pkg *Package) openPerLayer() (*PerLayer, error) {
	p := pkg.p
	width := pkg.Shape.LayerInputs
	if width == 0 {
		return nil, nil
	}
	keys := [...]string{"filename_tokens_embed_per_layer", "filename_per_layer_model_projection", "filename_per_layer_projection_norm"}
	for i, name := range p.perLayer {
		if name == "" {
			return nil, &Error{Path: p.t.where(cmp.Or(p.source, ".")), What: "the layers take per_layer_input, and " + keys[i] +
				" names no file", Fix: "correct config.json", Err: ErrMissing}
		}
	}
	all := width * len(pkg.Facts)
	if all > maxHidden {
		return nil, &Error{Path: p.t.where(p.perLayer[0]), What: fmt.Sprintf("%d layers with %d values each are too many", len(pkg.Facts),
			width), Err: ErrSize}
	}
	l := &PerLayer{Layers: len(pkg.Facts), Width: width, hidden: pkg.Hidden}
	var err error
	if l.table, err = openEmbeddings(p.t, p.perLayer[0], pkg.Embed.Rows, all); err != nil {
		return nil, err
	}
	l.table.Scale = gemmaScale(width) // 16 in those that are known
	if l.project, err = pkg.floats(p.perLayer[1], int64(all), int64(pkg.Hidden)); err == nil {
		l.norm, err = pkg.floats(p.perLayer[2], 1, int64(width))
	}
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// floats reads a .npy file of float32 whole, once its size is known to be that of rows × cols.
func (pkg *Package) floats(name string, rows, cols int64) ([]float32, error) {
	t := pkg.p.t
	bad := func(err error) error {
		return &Error{Path: t.where(name), What: err.Error(), Fix: "take it from the build of the layers", Err: ErrSize}
	}
	f, err := t.openAt(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h, err := readNpyAny(f, t.files[name])
	switch {
	case err != nil:
		return nil, bad(err)
	case h.kind != ofF32 || h.rows != rows || h.cols != cols:
		return nil, bad(fmt.Errorf("%d × %d values of %v, want %d × %d of f32", h.rows, h.cols, h.kind, rows, cols))
	}
	data := make([]byte, rows*cols*4)
	if n, err := f.ReadAt(data, h.offset); n < len(data) {
		return nil, &Error{Path: t.where(name), What: cause(err), Err: errors.Join(ErrSize, err, os.ErrInvalid)}
	}
	out := make([]float32, rows*cols)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		if v := float64(out[i]); math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, &Error{Path: t.where(name), What: "holds a NaN or an infinity", Fix: "fetch it again, e.g. with `axle pull`",
				Err: ErrMalformed}
		}
	}
	return out, nil
}

// gemmaEps is the epsilon of the norm.
const gemmaEps = 1e-6

// Row writes to dst the layer inputs of token id, whose embedding, scaled as [Embeddings.Row] gives
// it, is embed: Width values for each of Layers. For layer after layer that is
// (norm(P·embed/√hidden) + √Width·E)/√2. It costs Layers × Width × hidden multiplications, which
// the processors share where they are many: callers keep what they will need again. It fails as
// Embeddings.Row does, and for slices of other lengths.
func (l *PerLayer) Row(dst []uint16, id int32, embed []uint16) error {
	if len(dst) != l.Layers*l.Width || len(embed) != l.hidden {
		return fmt.Errorf("models: room for %d values from an embedding of %d, want %d from %d", len(dst), len(embed), l.Layers*l.Width,
			l.hidden)
	}
	if err := l.table.Row(dst, id); err != nil {
		return err
	}
	e := make([]float32, l.hidden)
	for i, v := range embed {
		e[i] = bf16.Float32(v) / sqrt32(l.hidden)
	}
	workers := min(runtime.GOMAXPROCS(0), l.Layers, 1+len(l.project)>>21)
	var all sync.WaitGroup
	for w := range workers {
		if w == workers-1 {
			l.layers(dst, e, w*l.Layers/workers, l.Layers)
			continue
		}
		all.Go(func() { l.layers(dst, e, w*l.Layers/workers, (w+1)*l.Layers/workers) })
	}
	all.Wait()
	return nil
}

// layers makes the part of layers [from, to) of a row, whose table's part is in dst.
func (l *PerLayer) layers(dst []uint16, e []float32, from, to int) {
	one := make([]float32, l.Width)
	for layer := from; layer < to; layer++ {
		var sum float64
		for i := range one {
			v := dot(l.project[(layer*l.Width+i)*l.hidden:][:l.hidden], e)
			one[i] = v
			sum += float64(v) * float64(v)
		}
		scale := float32(1 / math.Sqrt(sum/float64(l.Width)+gemmaEps))
		out := dst[layer*l.Width:][:l.Width]
		for i, v := range one {
			out[i] = bf16.Round((v*scale*l.norm[i] + bf16.Float32(out[i])) * math.Sqrt2 / 2)
		}
	}
}

// dot is a product in four sums, which do not wait for each other.
func dot(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	b = b[:len(a)]
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + (s2 + s3)
}

// Bytes is the size of the table on disk and of what is kept in memory.
func (l *PerLayer) Bytes() int64 {
	if l == nil {
		return 0
	}
	return l.table.Bytes() + 4*int64(len(l.project)+len(l.norm))
}

// Close releases the table. A second Close returns ErrClosed.
func (l *PerLayer) Close() error {
	if l == nil || l.table == nil {
		return nil
	}
	return l.table.Close()
}
