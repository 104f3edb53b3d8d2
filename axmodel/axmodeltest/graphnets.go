package axmodeltest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/graph"
)

// WhisperSize is how large a speech recogniser's encoder is.
type WhisperSize struct{ Mels, Frames, Layers, State, Heads int }

// WhisperTiny is Whisper's smallest.
var WhisperTiny = WhisperSize{Mels: 80, Frames: 3000, Layers: 4, State: 384, Heads: 6}

// WhisperEncoder is an encoder as Whisper's, with random weights: "mel" [1, mels, frames] becomes
// "cross_k" and "cross_v" [layers, 1, frames/2, state]. Values stay of the size that a trained
// one's have.
func WhisperEncoder(s WhisperSize, seed uint64) *graph.Graph {
	rng := rand.New(rand.NewPCG(seed, 8))
	g := graph.New()
	weight := func(scale float64, dims ...int) graph.Value {
		v := make([]float32, product(dims))
		for i := range v {
			v[i] = float32(rng.NormFloat64() * scale)
		}
		return g.Const(graph.BFloat16(v, dims...))
	}
	linear := func(x graph.Value, in, out int) graph.Value {
		return g.Linear(x, weight(1/math.Sqrt(float64(in)), out, in), weight(0.1, out))
	}
	norm := func(x graph.Value) graph.Value {
		return g.LayerNorm(x, weight(1, s.State), weight(0.1, s.State), 1e-5)
	}
	conv := func(x graph.Value, in, stride int) graph.Value {
		w := weight(1/math.Sqrt(float64(3*in)), s.State, in, 3)
		return g.GELU(g.Conv1D(x, w, weight(0.1, s.State), graph.Conv{Stride: graph.Both(stride), Pad: 1}))
	}
	x := conv(conv(g.Input("mel", axcl.FP32, 1, s.Mels, s.Frames), s.Mels, 1), s.State, 2)
	x = g.Add(g.Transpose(x, 0, 2, 1), weight(0.5, s.Frames/2, s.State))
	for range s.Layers {
		a := norm(x)
		q, k, v := linear(a, s.State, s.State), linear(a, s.State, s.State), linear(a, s.State, s.State)
		scale := float32(1 / math.Sqrt(float64(s.State/s.Heads)))
		x = g.Add(x, linear(g.Attention(q, k, v, graph.Value{}, s.Heads, scale), s.State, s.State))
		x = g.Add(x, linear(g.GELU(linear(norm(x), s.State, 4*s.State)), 4*s.State, s.State))
	}
	x = norm(x)
	for _, name := range []string{"cross_k", "cross_v"} {
		var all []graph.Value
		for range s.Layers {
			all = append(all, g.Reshape(linear(x, s.State, s.State), 1, 1, s.Frames/2, s.State))
		}
		g.Output(name, axcl.FP32, g.Concat(0, all...))
	}
	return g
}

// WhisperCase is an encoder with a mel to try it on.
func WhisperCase(s WhisperSize) *GraphCase {
	rng := rand.New(rand.NewPCG(1, 9))
	v := make([]float64, s.Mels*s.Frames)
	for i := range v {
		v[i] = rng.NormFloat64()
	}
	return &GraphCase{Graphs: []*graph.Graph{WhisperEncoder(s, 1)}, In: []map[string][]byte{{"mel": encode(axcl.FP32, v)}},
		Ops: []string{fmt.Sprintf("an encoder of %d × %d", s.Layers, s.State)}}
}
