package axmodel

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/axle-llm/axle/axcl"
)

// Magic begins every file of the software card.
const Magic = "AXLESOFT"

const (
	headerBytes = 192
	groupBytes  = 16
	entryBytes  = 64
	align       = 64
	version     = 1
)

// Kind is what a software model computes.
type Kind uint32

// Kinds of software models.
const (
	Layer Kind = 1 + iota
	Head
	EmbeddingHead
	Affine
	Linear  // a decoder layer with a state: gated delta-net
	Encoder // of pictures
	Decoder // all layers and the head in one file, which is called as one
	Net     // a graph of operations in each shape group
)

func (k Kind) String() string {
	if k >= Layer && k <= Net {
		return [...]string{"layer", "head", "embedding head", "affine", "linear layer", "encoder", "whole decoder", "net"}[k-1]
	}
	return fmt.Sprintf("kind %d", uint32(k))
}

// Flags of a software model.
const (
	FlagQKVBias = 1 << iota
	FlagQKNorm
	FlagGemma
	FlagNormOne // norms multiply by 1 + weight
	FlagF32
	FlagArgmax
	FlagShapeOnly
	FlagSuffix // names carry the group
	FlagGate   // q gives, head after head, the query and then a gate for the head's output
	FlagMerger // an encoder's rows are made by two matrices with GELU between them, not by one
	FlagLast   // a whole decoder gives the logits of a call's last row alone
	FlagOnePos // the decode groups of a layer with three position rows take one
	FlagGemma4 // layers: values are normalised too, and layer inputs are added after the MLP
	FlagShares // layers: K and V are another layer's; this call's rows of them come in behind those of the cache
	FlagBias   // heads: a bias is added to the logits
	FlagLoRA   // layers: take an adapter as inputs
	flagsKnown = 1<<iota - 1
)

// Activations of the MLP.
const (
	SiLU = iota
	GELU
)

// Kinds of rotary scaling; only for people to read, the inv_freq tensor has it applied.
const (
	RopeNone = iota
	RopeDefault
	RopeLinear
	RopeLlama3
	RopeYarn
)

// State is the element type of a linear layer's two states.
type State uint32

// Types of states.
const (
	StateBF16 State = iota
	StateFP16
	StateFP32
)

// Type is the tensors' type; axcl.TypeNone where there is no such state.
func (s State) Type() axcl.Type {
	if s <= StateFP32 {
		return [...]axcl.Type{axcl.BF16, axcl.FP16, axcl.FP32}[s]
	}
	return axcl.TypeNone
}

// Header is the fixed part of a software model; docs/axmodel-format.md gives each field's meaning.
// In a linear layer Heads are the value heads, KVHeads the key heads and HeadDim is the length of a
// key head. In a layer Out is the width of layer inputs, in a head Scale is where
// logits are capped; 0, both, where nothing is.
type Header struct {
	Kind         Kind
	Weights      uint64 // what the model takes on a card; 0 means the file's length
	Flags        uint32
	Activation   uint32
	Hidden       int
	Heads        int
	KVHeads      int
	HeadDim      int
	Intermediate int
	Out          int
	Eps          float32
	Scale        float32
	Rotary       int
	Magnitude    float32
	Rope         uint32
	Pos          int
	Theta        float64
	Period       int
	Index        int
	Tool         string

	// Of linear layers.
	ValueDim int // length of a value head
	Conv     int // rows that the convolution sees, the newest among them
	State    State

	Rank int // of the adapter that a layer takes as inputs; 0: it takes none

	// Of encoders.
	Patch  int // pixels a side
	Merge  int // a row is made of Merge × Merge patches
	Order  Order
	Blocks int // of the tower
	Down   int // patches of a picture; its group has them
	Across int
	Deep   int // further outputs: rows to add after decoder layers
}

// Channels is how many values of a row a linear layer's convolution takes: queries, keys and
// values.
func (h *Header) Channels() int { return 2*h.KVHeads*h.HeadDim + h.Heads*h.ValueDim }

// SoftGroup is one shape group of a software model.
type SoftGroup struct {
	Rows, Cells, Cache int
}

// DType is how a tensor's values are kept.
type DType uint32

// Element types of a software model.
const (
	F32  DType = 1
	BF16 DType = 2
	// bf16 of matrices that are multiplied: four rows after four, and of four rows 32 values of
	// each in turn, so that memory is read from one end to the other. What is missing of four rows
	// or of 32 columns is zeros.
	BF16Fours DType = 6
	// Integers in groups of a row's values, with a bf16 scale each. Eight rows after eight, and of
	// eight rows blocks of 32 columns in turn: four values of each row after four. What is missing
	// of eight rows or of 32 columns is zeros.
	Int8Groups DType = 7
	Int4Groups DType = 8 // two values a byte: value 4j+k of a block low and value 16+4j+k high, each plus 8
)

func (t DType) String() string {
	if t.known() {
		return [...]string{1: "f32", 2: "bf16", 6: "bf16 in fours", 7: "int8 in groups", 8: "int4 in groups"}[t]
	}
	return fmt.Sprintf("type %d", uint32(t))
}

func (t DType) known() bool { return t == F32 || t == BF16 || t >= BF16Fours && t <= Int4Groups }

// former says whether the type was written by an earlier version, which had rows of integers one
// after the other.
func (t DType) former() bool { return t >= 3 && t <= 5 }

// Grouped says whether groups of a row's values have scales of their own.
func (t DType) Grouped() bool { return t == Int8Groups || t == Int4Groups }

// blockValues is how many values of a row lie together where rows do.
const blockValues = 32

// together is how many rows lie together.
func (t DType) together() int64 {
	switch {
	case t == BF16Fours:
		return 4
	case t.Grouped():
		return 8
	}
	return 1
}

// valueBytes is what the values of this many rows take.
func (t DType) valueBytes(rows, cols int64) int64 {
	rows = fill(rows, t.together())
	switch t {
	case F32:
		return 4 * rows * cols
	case BF16:
		return 2 * rows * cols
	}
	n := rows * fill(cols, blockValues)
	switch t {
	case BF16Fours:
		return 2 * n
	case Int8Groups:
		return n
	}
	return n / 2
}

// scaleBytes is what the scales of this many rows take, if they are in groups of this many.
func (t DType) scaleBytes(rows, cols, group int64) int64 {
	if !t.Grouped() {
		return 0
	}
	return 2 * fill(rows, t.together()) * ((cols + group - 1) / group)
}

func fill(n, to int64) int64 { return (n + to - 1) / to * to }

// Entry is a tensor in a software model's directory. Both ranges lie within the file.
type Entry struct {
	Name       string
	Type       DType
	Rows, Cols int
	Group      int   // how many values of a row share a scale, 32 or 128; 0 for types without groups
	Offset     int64 // of the values
	Scales     int64 // of the scales; 0 where there are none
}

// Soft is a software model's header, groups and directory, all checked against each other and the
// file's length.
type Soft struct {
	Header
	Groups  []SoftGroup
	Tensors []Entry
	Parts   []Part   // of a whole decoder, which has no tensors of its own: its layers in order, and its head
	Graphs  []*Graph // of a net, one for each group
}

// Part is a model within a whole decoder's file, from Offset on.
type Part struct {
	*Meta
	Offset int64
}

// Entry finds a tensor; ok is false when the model has none of that name.
func (s *Soft) Entry(name string) (Entry, bool) {
	for _, e := range s.Tensors {
		if e.Name == name {
			return e, true
		}
	}
	return Entry{}, false
}

// Limits of a software model, so that no product of them overflows; far above any real model.
const (
	maxGroups = 64
	maxTable  = 64
	maxHidden = 1 << 20
	maxRows   = 1 << 14
	maxCells  = 1 << 20
	maxOut    = 1 << 24
	maxHeads  = 1 << 12
	maxConv   = 1 << 6
	maxState  = 64 << 20 // bytes of one of a linear layer's states: the largest known, of 48 heads of 128 × 128 float32, has 3 MiB
)

func readSoft(r io.ReaderAt, size int64) (*Meta, error) {
	if size < headerBytes {
		return nil, errorf("is cut short: %d bytes, the header alone has %d", size, headerBytes)
	}
	b := make([]byte, headerBytes)
	if _, err := r.ReadAt(b, 0); err != nil {
		return nil, &Error{What: fmt.Sprintf("cannot read: %v", err), Err: err}
	}
	le := binary.LittleEndian
	u := func(off int) uint32 { return le.Uint32(b[off:]) }
	f := func(off int) float32 { return math.Float32frombits(u(off)) }
	if u(8) != version {
		return nil, errorf("has format version %d, this program knows %d", u(8), version)
	}
	ng, nt := u(16), u(20)
	switch length := le.Uint64(b[24:]); {
	case length > uint64(size):
		return nil, errorf("is cut short: %d bytes of %d", size, length)
	case length < uint64(size):
		return nil, errorf("is longer than its header says: %d bytes, not %d", size, length)
	case ng < 1 || ng > maxGroups:
		return nil, errorf("has %d shape groups, 1 to %d are possible", ng, maxGroups)
	case nt > maxTable:
		return nil, errorf("has %d tensors, at most %d are possible", nt, maxTable)
	}
	for _, d := range []struct {
		name    string
		off, to uint32
	}{{"hidden", 48, maxHidden}, {"heads", 52, maxHeads}, {"kv heads", 56, maxHeads}, {"head dim", 60, maxHidden},
		{"intermediate", 64, maxHidden << 2},
		{"out", 68, maxOut}, {"rotary dim", 80, maxHidden}, {"position rows", 92, 3}, {"shape period", 104, maxOut},
		{"layer index", 108, 1 << 16}, {"value head dim", 176, maxHidden}, {"convolution", 180, maxConv}} {
		if v := u(int(d.off)); v > d.to {
			return nil, errorf("%s is %d, at most %d is possible", d.name, v, d.to)
		}
	}
	s := &Soft{Header: Header{
		Kind: Kind(u(12)), Weights: le.Uint64(b[32:]), Flags: u(40), Activation: u(44), Hidden: int(u(48)), Heads: int(u(52)),
		KVHeads: int(u(56)), HeadDim: int(u(60)),
		Intermediate: int(u(64)), Out: int(u(68)), Eps: f(72), Scale: f(76), Rotary: int(u(80)), Magnitude: f(84), Rope: u(88),
		Pos:   int(u(92)),
		Theta: math.Float64frombits(le.Uint64(b[96:])), Period: int(u(104)), Index: int(u(108)), Tool: padded(b[112:176]),
		ValueDim: int(u(176)), Conv: int(u(180)), State: State(u(184)),
	}}
	if h := &s.Header; h.Kind == Encoder {
		h.Patch, h.Merge, h.Order, h.Blocks, h.Deep = h.ValueDim, h.Conv, Order(h.State), int(min(u(188), maxOut)), h.Period
		h.ValueDim, h.Conv, h.State, h.Period = 0, 0, 0, 0
	}
	if s.Kind == Layer {
		s.Rank = int(min(u(188), maxOut))
	}
	if s.Weights > maxBytes {
		return nil, errorf("claims %d weight bytes", s.Weights)
	}
	table := int64(ng)*groupBytes + int64(nt)*entryBytes
	if headerBytes+table > size {
		return nil, errorf("is cut short: %d groups and %d tensors do not fit in %d bytes", ng, nt, size)
	}
	b = make([]byte, table)
	if _, err := r.ReadAt(b, headerBytes); err != nil {
		return nil, &Error{What: fmt.Sprintf("cannot read: %v", err), Err: err}
	}
	if s.Kind == Net {
		if nt != 0 {
			return nil, errorf("is a net, and lists %d tensors", nt)
		}
		if err := s.readGraphs(r, size, b); err != nil {
			return nil, err
		}
		ng = 0
	}
	for i := range int(ng) {
		g := b[i*groupBytes:]
		n, h, c := le.Uint32(g), le.Uint32(g[4:]), le.Uint32(g[8:])
		if n < 1 || n > maxRows || h > maxCells || c > maxCells {
			return nil, errorf("group %d has %d rows, %d cells and %d cache rows", i, n, h, c)
		}
		s.Groups = append(s.Groups, SoftGroup{int(n), int(h), int(c)})
	}
	if s.Kind == Encoder {
		s.Down, s.Across = s.Groups[0].Cells, s.Groups[0].Cache
	}
	if s.Kind == Decoder {
		if err := s.readParts(r, size, headerBytes+table, b[int(ng)*groupBytes:]); err != nil {
			return nil, err
		}
		nt = 0
	}
	for i := range int(nt) {
		t := b[int(ng)*groupBytes+i*entryBytes:]
		e := Entry{Name: padded(t[:24]), Type: DType(le.Uint32(t[24:]))}
		rows, cols, group, off, scales := le.Uint32(t[28:]), le.Uint32(t[32:]), le.Uint32(t[36:]), le.Uint64(t[40:]), le.Uint64(t[48:])
		if e.Type.former() {
			return nil, errorf("tensor %q has integers in the order of an earlier axle: make the package again with axle compile", e.Name)
		}
		if !e.Type.known() {
			return nil, errorf("tensor %q has element type %d", e.Name, e.Type)
		}
		if rows < 1 || cols < 1 || rows > maxOut || cols > maxHidden<<2 {
			return nil, errorf("tensor %q is %d × %d", e.Name, rows, cols)
		}
		inside := func(off uint64, n int64) bool {
			return off%align == 0 && off >= uint64(headerBytes+table) && off <= uint64(size) && uint64(n) <= uint64(size)-off
		}
		//rule:T1 TestHostileFiles false
		if !inside(off, e.Type.valueBytes(int64(rows), int64(cols))) {
			return nil, errorf("tensor %q, %d × %d %v at %d, does not lie within the file's %d bytes on a multiple of %d", e.Name, rows,
				cols, e.Type, off, size, align)
		}
		if e.Type.Grouped() && group != 32 && group != 128 || !e.Type.Grouped() && group != 0 {
			return nil, errorf("tensor %q of %v has groups of %d", e.Name, e.Type, group)
		}
		if n := e.Type.scaleBytes(int64(rows), int64(cols), int64(group)); n > 0 && !inside(scales, n) || n == 0 && scales != 0 {
			return nil, errorf("tensor %q: scales at %d do not lie within the file's %d bytes on a multiple of %d", e.Name, scales, size,
				align)
		}
		if _, dup := s.Entry(e.Name); dup {
			return nil, errorf("tensor %q is there twice", e.Name)
		}
		e.Rows, e.Cols, e.Group, e.Offset, e.Scales = int(rows), int(cols), int(group), int64(off), int64(scales)
		s.Tensors = append(s.Tensors, e)
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	m := &Meta{Tool: s.Tool, WeightBytes: int64(s.Weights), Soft: s}
	if s.Weights == 0 {
		m.WeightBytes = size
	}
	var err error
	m.Groups, err = s.metas()
	return m, err
}

func padded(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// metas lists the tensors of every group as the vendor's container would.
func (s *Soft) metas() ([]GroupMeta, error) {
	var out []GroupMeta
	for i, g := range s.Groups {
		var m GroupMeta
		var err error
		suffix := ""
		if s.Flags&FlagSuffix != 0 && i > 0 {
			suffix = fmt.Sprintf("_%d", i)
		}
		add := func(to *[]axcl.Tensor, raw *[]string, name string, t axcl.Type, shape ...int) {
			x, e := tensor(name, t, shape...)
			if e != nil && err == nil {
				err = e
			}
			*to, *raw = append(*to, x), append(*raw, name+suffix)
		}
		in := func(name string, t axcl.Type, shape ...int) { add(&m.Inputs, &m.RawInputs, name, t, shape...) }
		res := func(name string, t axcl.Type, shape ...int) { add(&m.Outputs, &m.RawOutputs, name, t, shape...) }
		logits := axcl.BF16
		if s.Flags&FlagF32 != 0 {
			logits = axcl.FP32
		}
		switch s.Kind {
		case Layer:
			d := s.KVHeads * s.HeadDim
			in("input", axcl.BF16, 1, g.Rows, s.Hidden)
			pos := s.Pos
			if s.Flags&FlagOnePos != 0 && g.Rows == 1 {
				pos = 1
			}
			in("indices", axcl.Uint32, pos, g.Rows)
			in("mask", axcl.BF16, 1, g.Rows, g.Cells+g.Rows)
			in("K_cache", axcl.BF16, 1, g.Cache, d)
			in("V_cache", axcl.BF16, 1, g.Cache, d)
			if s.Flags&FlagGemma4 != 0 {
				in("per_layer_input", axcl.BF16, 1, g.Rows, s.Out)
			}
			if s.Flags&FlagLoRA != 0 {
				for i, d := range s.loraDims() {
					in(loraInputs()[i], axcl.BF16, d[0], d[1])
				}
			}
			res("K_cache_out", axcl.BF16, 1, g.Rows, d)
			res("V_cache_out", axcl.BF16, 1, g.Rows, d)
			res("output", axcl.BF16, 1, g.Rows, s.Hidden)
		case Linear:
			columns, heads := []int{1, s.Channels(), s.Conv - 1}, []int{1, s.Heads, s.HeadDim, s.ValueDim}
			in("input", axcl.BF16, 1, g.Rows, s.Hidden)
			in("indices", axcl.Uint32, 1, g.Rows)
			in("mask", axcl.BF16, 1, g.Rows)
			in("K_cache", s.State.Type(), columns...)
			in("V_cache", s.State.Type(), heads...)
			res("K_cache_out", s.State.Type(), columns...)
			res("V_cache_out", s.State.Type(), heads...)
			res("output", axcl.BF16, 1, g.Rows, s.Hidden)
		case Head:
			in("input", axcl.BF16, 1, 1, s.Hidden)
			res("output", logits, 1, 1, s.Out)
			if s.Flags&FlagArgmax != 0 {
				res("indices", axcl.Uint32, 1, 1)
			}
		case EmbeddingHead:
			in("input", axcl.BF16, 1, 1, s.Hidden)
			res("output", axcl.BF16, 1, 1, s.Hidden)
		case Encoder:
			s.pictures(g, in, res)
		case Decoder:
			d, layers, wanted := s.KVHeads*s.HeadDim, len(s.Parts)-1, g.Rows
			if s.Flags&FlagLast != 0 {
				wanted = 1
			}
			in("input_embeds", axcl.BF16, 1, g.Rows, s.Hidden)
			in("indices", axcl.Uint32, s.Pos, g.Rows)
			in("mask", axcl.BF16, 1, g.Rows, g.Cells+g.Rows)
			in("k_caches", axcl.BF16, 1, layers, g.Cache, d)
			in("v_caches", axcl.BF16, 1, layers, g.Cache, d)
			res("k_cache", axcl.BF16, 1, layers, g.Rows, d)
			res("v_cache", axcl.BF16, 1, layers, g.Rows, d)
			res("logits", logits, 1, wanted, s.Out)
		case Net:
			s.Graphs[i].ports(in, res)
		case Affine:
			in("x", axcl.FP32, g.Rows, s.Hidden)
			res("y", axcl.FP32, g.Rows, s.Out)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}
