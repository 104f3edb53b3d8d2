package axcltest

import (
	"math"
	"math/rand/v2"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
)

// DefaultGemma4 is DefaultTiny with layers as Gemma-4's: of six every third has heads twice as
// long, the last three use the K and V of the last layer of their length before them, and each has
// layer inputs.
func DefaultGemma4() Tiny {
	d := DefaultTiny()
	d.Layers, d.KVHeads, d.Far, d.Pattern, d.Shared, d.LayerInputs = 6, 1, 32, 3, 3, 24
	d.Flags |= axmodel.FlagGemma | axmodel.FlagGemma4
	return d
}

// gemma4Models are models of that form: one whose chunks see fewer cells than there are, and one
// with calls of each number of rows that see all cells, and fewer.
func gemma4Models() []named {
	d := DefaultGemma4()
	wide := d
	wide.Flags |= axmodel.FlagSuffix
	wide.Seed, wide.Far, wide.HeadFlags = 6, 8, axmodel.FlagF32
	wide.Groups = []axmodel.SoftGroup{{Rows: 1, Cells: 40, Cache: 40}, {Rows: 1, Cells: 200, Cache: 200}, {Rows: 24, Cells: 0, Cache: 1},
		{Rows: 24, Cells: 130, Cache: 130}, {Rows: 70, Cells: 200, Cache: 200}}
	return []named{{"shared K and V", d}, {"shared K and V, with calls that see all and fewer", wide}}
}

// dim is how long layer l's heads are.
func (y Tiny) dim(l int) int {
	if y.far(l) {
		return y.Far
	}
	return y.HD
}

func (y Tiny) far(l int) bool { return y.LayerInputs > 0 && (l+1)%y.Pattern == 0 }

// shares says whether layer l uses the K and V of another.
func (y Tiny) shares(l int) bool { return l >= y.Layers-y.Shared }

// sources says of each layer whose K and V it uses; nil where all use their own.
func (y Tiny) sources() (out []int) {
	for l := range y.Layers {
		out = append(out, l)
		for j := range y.Layers - y.Shared {
			if y.shares(l) && y.far(j) == y.far(l) {
				out[l] = j
			}
		}
	}
	if y.Shared == 0 {
		return nil
	}
	return out
}

// kept is how many values of K all layers keep of a row.
func (y Tiny) kept() (n int) {
	for l := range y.Layers - y.Shared {
		if !y.linear(l) {
			n += y.KVHeads * y.dim(l)
		}
	}
	return n
}

// gemma4Header makes of a layer's header that of layer l.
func (y Tiny) gemma4Header(h axmodel.Header, l int) axmodel.Header {
	h.HeadDim, h.Rotary, h.Out, h.Activation = y.dim(l), y.dim(l), y.LayerInputs, axmodel.GELU
	h.Scale = float32(1 / math.Sqrt(float64(h.HeadDim)))
	if y.shares(l) {
		h.Flags |= axmodel.FlagShares
	}
	return h
}

// gemma4Groups are layer l's shape groups: where it uses another's K and V, a call's own rows come
// in behind those of the cache.
func (y Tiny) gemma4Groups(l int) (out []axmodel.SoftGroup) {
	for _, g := range y.Groups {
		if y.shares(l) {
			g.Cache = g.Cells + g.Rows
		}
		out = append(out, g)
	}
	return out
}

// gemma4Tensors are what such a layer has in addition.
func (y Tiny) gemma4Tensors(rng *rand.Rand, norm func(string, int) axmodel.Tensor,
	weight func(string, int, int) axmodel.Tensor) []axmodel.Tensor {
	return []axmodel.Tensor{weight("per_gate", y.LayerInputs, y.Hidden), weight("per_proj", y.Hidden, y.LayerInputs),
		norm("per_norm", y.Hidden),
		axmodel.Vector("scalar", axmodel.F32, []float32{float32(0.7 + 0.2*rng.Float64())})}
}

// layerInputs are a token's values that a model's layers take beyond the hidden state.
func layerInputs(s axcl.Shape, token uint64) []uint16 {
	if s.LayerInputs == 0 {
		return nil
	}
	return Rows(token+1<<32, s.Layers, s.LayerInputs)
}
