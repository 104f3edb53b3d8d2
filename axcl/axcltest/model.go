package axcltest

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
)

// Tiny describes a small random model for the software cards. The zero value of a field is
// DefaultTiny's.
type Tiny struct {
	Seed                       uint64
	Layers                     int
	Hidden, Heads, KVHeads, HD int
	Intermediate, Vocab        int
	Groups                     []axmodel.SoftGroup
	Flags, HeadFlags           uint32
	Pos                        int    // positions a row: 1, or 3, which the frequencies take in turns
	ShapeOnly                  bool   // shapes without weights
	Weights, HeadWeights       uint64 // what a layer and the head take on a card, if ShapeOnly

	// Of layers that keep a state: all but each Interval-th; 0: no layer does. The key heads and
	// their length are KVHeads and HD, but those that are given if ShapeOnly.
	Interval             int
	KeyHeads, KeyDim     int
	ValueHeads, ValueDim int
	State                axmodel.State       // type of both states
	Linear               []axmodel.SoftGroup // their shape groups; nil: as many as Groups has
	LinearWeights        uint64              // what such a layer takes on a card, if ShapeOnly

	// Of layers that have layer inputs: how many values of a row; 0: they have none. The heads of
	// each Pattern-th are Far long, and the last Shared use the K and V of the last layer before
	// those whose heads are as long.
	LayerInputs, Pattern, Far, Shared int

	Rank int // of the LoRA adapters that layers take as inputs; 0: they take none
}

// Adapter is a LoRA adapter of random values for such a model, as axcl.LoadSpec.Adapters takes it.
func (y Tiny) Adapter(seed uint64) func(layer int) ([]byte, error) {
	y = y.withDefaults()
	return func(layer int) (b []byte, err error) {
		rng := rand.New(rand.NewPCG(seed, uint64(layer)))
		h, q, kv, i := y.Hidden, y.Heads*y.HD, y.KVHeads*y.HD, y.Intermediate
		for _, d := range [][2]int{{h, q}, {h, kv}, {h, kv}, {q, h}, {h, i}, {h, i}, {i, h}} {
			for range y.Rank * (d[0] + d[1]) {
				v := float32(rng.NormFloat64() * math.Pow(float64(d[0]*y.Rank), -0.25))
				b = binary.LittleEndian.AppendUint16(b, axcl.BFloat16(v))
			}
		}
		return b, nil
	}
}

// DefaultStates is DefaultTiny with layers that keep a state: of four the second and the last keep
// rows.
func DefaultStates() Tiny {
	d := DefaultTiny()
	d.Layers, d.Interval, d.ValueHeads, d.ValueDim, d.State = 4, 2, 4, 24, axmodel.StateFP32
	d.Flags |= axmodel.FlagNormOne
	return d
}

// linear says whether layer l keeps a state.
func (y Tiny) linear(l int) bool { return y.Interval > 0 && (l+1)%y.Interval != 0 }

// linears is how many layers keep a state.
func (y Tiny) linears() (n int) {
	for l := range y.Layers {
		if y.linear(l) {
			n++
		}
	}
	return n
}

// linearGroups are the shape groups of layers that keep a state.
func (y Tiny) linearGroups() []axmodel.SoftGroup {
	if y.Linear != nil {
		return y.Linear
	}
	var gs []axmodel.SoftGroup
	for _, g := range y.Groups {
		gs = append(gs, axmodel.SoftGroup{Rows: g.Rows})
	}
	return gs
}

// DefaultTiny has two layers, 96 cells, a decode group and three prefill groups, the first without
// cells.
func DefaultTiny() Tiny {
	return Tiny{Seed: 1, Layers: 2, Hidden: 64, Heads: 4, KVHeads: 2, HD: 16, Intermediate: 96, Vocab: 131, Pos: 1,
		Groups: []axmodel.SoftGroup{{Rows: 1, Cells: 96, Cache: 96}, {Rows: 16, Cells: 0, Cache: 1}, {Rows: 16, Cells: 32, Cache: 32},
			{Rows: 16, Cells: 80, Cache: 80}},
		Flags: axmodel.FlagQKNorm, HeadFlags: axmodel.FlagArgmax}
}

func (y Tiny) withDefaults() Tiny {
	d := DefaultTiny()
	for _, f := range []struct{ v, d *int }{{&y.Layers, &d.Layers}, {&y.Hidden, &d.Hidden}, {&y.Heads, &d.Heads}, {&y.KVHeads, &d.KVHeads},
		{&y.HD, &d.HD}, {&y.Pos, &d.Pos}, {&y.Intermediate, &d.Intermediate}, {&y.Vocab, &d.Vocab}} {
		if *f.v == 0 {
			*f.v = *f.d
		}
	}
	if y.Groups == nil {
		y.Groups = d.Groups
	}
	return y
}

// Write makes the model's files in dir, which exists, under names that begin with name, and gives
// what loads them.
func (y Tiny) Write(dir, name string) (axcl.LoadSpec, error) {
	y = y.withDefaults()
	rng := rand.New(rand.NewPCG(y.Seed, 2))
	head := axmodel.Header{Kind: axmodel.Layer, Flags: y.Flags, Hidden: y.Hidden, Heads: y.Heads, KVHeads: y.KVHeads, HeadDim: y.HD,
		Intermediate: y.Intermediate,
		Eps:          1e-6, Scale: float32(1 / math.Sqrt(float64(y.HD))), Rotary: y.HD, Magnitude: 1, Rope: axmodel.RopeDefault, Pos: y.Pos,
		Theta: 10000, Tool: "axcltest"}
	if head.Rank = y.Rank; y.Rank > 0 {
		head.Flags |= axmodel.FlagLoRA
	}
	if y.ShapeOnly {
		head.Flags |= axmodel.FlagShapeOnly
		head.Weights = y.Weights
	}
	matrix := func(name string, rows, cols int, scale float64) axmodel.Tensor {
		if y.ShapeOnly {
			return axmodel.Tensor{}
		}
		v := make([]float32, rows*cols)
		for i := range v {
			v[i] = float32(rng.NormFloat64() * scale)
		}
		t := axmodel.BF16Fours
		if rows == 1 || name == "o" || name == "down" { // rows one after the other are computed too
			t = axmodel.BF16
		}
		return axmodel.Matrix(name, t, rows, cols, v)
	}
	norm := func(name string, n int) axmodel.Tensor {
		v := make([]float32, n)
		for i := range v {
			if v[i] = float32(0.8 + 0.4*rng.Float64()); y.Flags&axmodel.FlagNormOne != 0 {
				v[i]--
			}
		}
		return axmodel.Vector(name, axmodel.F32, v)
	}
	var spec axcl.LoadSpec
	h := y.Hidden
	spec.Source = y.sources()
	for l := range y.Layers {
		q, kv := y.Heads*y.dim(l), y.KVHeads*y.dim(l)
		head.Index = l
		weight := func(name string, rows, cols int) axmodel.Tensor {
			return matrix(name, rows, cols, 1/math.Sqrt(float64(cols)))
		}
		ts := []axmodel.Tensor{norm("input_norm", h), weight("q", q, h)}
		if !y.shares(l) {
			ts = append(ts, weight("k", kv, h), weight("v", kv, h))
		}
		ts = append(ts, weight("o", h, q), norm("post_norm", h), weight("gate", y.Intermediate, h), weight("up", y.Intermediate, h),
			weight("down", h, y.Intermediate))
		if y.Flags&axmodel.FlagQKVBias != 0 {
			ts = append(ts, matrix("q_bias", 1, q, 0.1), matrix("k_bias", 1, kv, 0.1), matrix("v_bias", 1, kv, 0.1))
		}
		if y.Flags&axmodel.FlagQKNorm != 0 {
			if ts = append(ts, norm("q_norm", y.dim(l))); !y.shares(l) {
				ts = append(ts, norm("k_norm", y.dim(l)))
			}
		}
		if y.Flags&axmodel.FlagGemma != 0 {
			ts = append(ts, norm("pre_mlp_norm", h), norm("post_mlp_norm", h))
		}
		if y.LayerInputs > 0 {
			ts = append(ts, y.gemma4Tensors(rng, norm, weight)...)
		}
		freq := make([]float32, y.dim(l)/2)
		for i := range freq {
			freq[i] = float32(math.Pow(10000, -2*float64(i)/float64(y.dim(l))))
		}
		ts = append(ts, axmodel.Vector("inv_freq", axmodel.F32, freq))
		if y.Pos == 3 {
			axis := make([]float32, len(freq))
			for i := range axis {
				axis[i] = float32(i % 3)
			}
			ts = append(ts, axmodel.Vector("rope_axis", axmodel.F32, axis))
		}
		if y.ShapeOnly {
			ts = nil
		}
		path := filepath.Join(dir, fmt.Sprintf("%s_p%d_l%d_together.axmodel", name, y.Groups[len(y.Groups)-1].Rows, l))
		head, groups := head, y.Groups
		if y.LayerInputs > 0 {
			head, groups = y.gemma4Header(head, l), y.gemma4Groups(l)
		}
		if y.linear(l) {
			head, groups = y.linearHeader(head), y.linearGroups()
			if ts = y.linearTensors(head, rng, norm, weight); y.ShapeOnly {
				ts = nil
			}
		}
		if err := axmodel.WriteFile(path, head, groups, ts); err != nil {
			return spec, err
		}
		spec.Layers = append(spec.Layers, path)
	}
	post := axmodel.Header{Kind: axmodel.Head, Flags: y.HeadFlags | y.Flags&axmodel.FlagNormOne, Hidden: h, Out: y.Vocab, Eps: 1e-6, Pos: 1,
		Tool: "axcltest"}
	ts := []axmodel.Tensor{norm("norm", h), matrix("weight", y.Vocab, h, 3/math.Sqrt(float64(h)))}
	if y.ShapeOnly {
		post.Flags |= axmodel.FlagShapeOnly
		post.Weights = y.HeadWeights
		ts = nil
	}
	spec.Head = filepath.Join(dir, name+"_post.axmodel")
	return spec, axmodel.WriteFile(spec.Head, post, []axmodel.SoftGroup{{Rows: 1}}, ts)
}

// linearHeader makes of a layer's header that of one which keeps a state.
func (y Tiny) linearHeader(h axmodel.Header) axmodel.Header {
	h.Kind, h.Heads, h.ValueDim, h.Conv, h.State = axmodel.Linear, y.ValueHeads, y.ValueDim, 4, y.State
	h.Flags &= axmodel.FlagShapeOnly | axmodel.FlagSuffix | axmodel.FlagNormOne
	h.Rotary, h.Rope, h.Theta = 0, axmodel.RopeNone, 0
	if y.ShapeOnly {
		h.Weights, h.KVHeads, h.HeadDim = y.LinearWeights, cmp.Or(y.KeyHeads, h.KVHeads), cmp.Or(y.KeyDim, h.HeadDim)
	}
	return h
}

// linearTensors are a layer's that keeps a state. It forgets slowly, so that rows of long ago still
// weigh.
func (y Tiny) linearTensors(h axmodel.Header, rng *rand.Rand, norm func(string, int) axmodel.Tensor,
	weight func(string, int, int) axmodel.Tensor) []axmodel.Tensor {
	values := y.ValueHeads * y.ValueDim
	vector := func(name string, n int, from, to float64) axmodel.Tensor {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(from + (to-from)*rng.Float64())
		}
		return axmodel.Vector(name, axmodel.F32, v)
	}
	conv := make([]float32, h.Channels()*h.Conv)
	for i := range conv {
		conv[i] = float32(rng.NormFloat64() / 2)
	}
	return []axmodel.Tensor{norm("input_norm", y.Hidden), weight("qkv", h.Channels(), y.Hidden), weight("z", values, y.Hidden),
		weight("b", y.ValueHeads, y.Hidden), weight("a", y.ValueHeads, y.Hidden),
		axmodel.Matrix("conv", axmodel.F32, h.Channels(), h.Conv, conv), vector("dt_bias", y.ValueHeads, -3, 0),
		vector("a_log", y.ValueHeads, -3, 0), vector("norm", y.ValueDim, 0.8, 1.2), weight("o", y.Hidden, values),
		norm("post_norm", y.Hidden), weight("gate", y.Intermediate, y.Hidden), weight("up", y.Intermediate, y.Hidden),
		weight("down", y.Hidden, y.Intermediate)}
}

// WriteAffine makes a plain model, y = x·Wᵀ + b, of in inputs and out outputs with groups of 1 and
// 4 rows, and gives W and b.
func WriteAffine(path string, seed uint64, in, out int) (w, b []float32, err error) {
	rng := rand.New(rand.NewPCG(seed, 3))
	w, b = make([]float32, in*out), make([]float32, out)
	for _, v := range [][]float32{w, b} {
		for i := range v {
			v[i] = float32(rng.IntN(9) - 4)
		}
	}
	h := axmodel.Header{Kind: axmodel.Affine, Hidden: in, Out: out, Pos: 1, Tool: "axcltest"}
	return w, b, axmodel.WriteFile(path, h, []axmodel.SoftGroup{{Rows: 1}, {Rows: 4}},
		[]axmodel.Tensor{axmodel.Matrix("weight", axmodel.F32, out, in, w), axmodel.Vector("bias", axmodel.F32, b)})
}

// Rows are n embeddings of a model's hidden length, bf16, of the size that real ones have; equal
// seeds give equal rows.
func Rows(seed uint64, n, hidden int) []uint16 {
	rng := rand.New(rand.NewPCG(seed, 4))
	v := make([]uint16, n*hidden)
	for i := range v {
		v[i] = axcl.BFloat16(float32(rng.NormFloat64()))
	}
	return v
}
