package axcltest

import "github.com/axle-llm/axle/axmodel"

// Qwen3Small and Qwen3Medium are models without weights with the shapes and the weight bytes of
// Qwen3-0.6B (w8a16, a context of 2047) and Qwen3-4B (Int8, 2559) as the vendor compiles them: for
// timing on a simulated card.
func Qwen3Small() Tiny {
	y := Tiny{ShapeOnly: true, Layers: 28, Hidden: 1024, Heads: 16, KVHeads: 8, HD: 128, Intermediate: 3072, Vocab: 151936,
		Weights:     15750000,
		HeadWeights: 151936 * 1024, Flags: axmodel.FlagQKNorm}
	y.Groups = append(y.Groups, axmodel.SoftGroup{Rows: 1, Cells: 2047, Cache: 2047}, axmodel.SoftGroup{Rows: 128, Cells: 0, Cache: 1})
	for h := 128; h <= 1024; h += 128 {
		y.Groups = append(y.Groups, axmodel.SoftGroup{Rows: 128, Cells: h, Cache: h})
	}
	return y
}

// Qwen3Medium: see Qwen3Small.
func Qwen3Medium() Tiny {
	y := Tiny{ShapeOnly: true, Layers: 36, Hidden: 2560, Heads: 32, KVHeads: 8, HD: 128, Intermediate: 9728, Vocab: 151936,
		Weights:     101000000,
		HeadWeights: 151936 * 2560, Flags: axmodel.FlagQKNorm}
	y.Groups = append(y.Groups, axmodel.SoftGroup{Rows: 1, Cells: 2559, Cache: 2559}, axmodel.SoftGroup{Rows: 128, Cells: 0, Cache: 1})
	for _, h := range []int{256, 512, 1024, 1536, 2048} {
		y.Groups = append(y.Groups, axmodel.SoftGroup{Rows: 128, Cells: h, Cache: h})
	}
	return y
}

// Qwen35Small is one with the shape and the weight bytes of Qwen3.5-0.8B (int4, its head in 8 bits,
// 2047). Three of its layers in four are recurrent.
func Qwen35Small() Tiny {
	y := Qwen3Small()
	y.Layers, y.Heads, y.KVHeads, y.HD, y.Intermediate, y.Vocab, y.Weights = 24, 8, 2, 256, 3584, 248320, 9460000
	y.HeadWeights, y.LinearWeights = 248320*1024, 11100000
	y.Interval, y.KeyHeads, y.KeyDim, y.ValueHeads, y.ValueDim = 4, 16, 128, 16, 128
	return y
}
