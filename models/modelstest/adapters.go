package modelstest

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/internal/bf16"
)

// Delta is what an adapter adds to a layer's matrix: B·A, row by row.
type Delta struct {
	Rows, Cols int
	V          []float64
}

// AddAdapters makes the layers of a package in dir, which axle compile made for the software cards,
// take LoRA adapters of this rank as inputs, and gives the package one for each name, of random
// values. It returns what each adds to each layer's matrices, in the order of axmodel.LoraParts.
func AddAdapters(dir string, rank int, seed uint64, names ...string) (map[string][][]Delta, error) {
	layers, err := filepath.Glob(filepath.Join(dir, "*_l*_together.axmodel"))
	if err != nil || len(layers) == 0 {
		return nil, fmt.Errorf("modelstest: no layers in %s: %w", dir, err)
	}
	var inputs []axcl.Tensor
	for _, path := range layers {
		if err := takeAdapter(path, rank); err != nil {
			return nil, err
		}
		m, err := axmodel.ReadFile(path)
		if err != nil {
			return nil, err
		}
		l, err := m.Layer()
		if err != nil {
			return nil, err
		}
		inputs = l.Adapter
	}
	all := map[string][][]Delta{}
	for i, name := range names {
		f := &writer{dir: filepath.Join(dir, "lora", name)}
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		files := map[string]any{}
		for l := range layers {
			data, deltas := adapterLayer(rng, inputs)
			file := fmt.Sprintf("layer_%02d.bf16.bin", l)
			f.text(file, string(data))
			files[file] = map[string]any{"size": len(data), "sha256": fmt.Sprintf("%x", sha256.Sum256(data))}
			all[name] = append(all[name], deltas)
		}
		order, shapes := []string{}, map[string]any{}
		for k := len(axmodel.LoraParts) - 1; k >= 0; k-- { // not the order of the inputs
			part := axmodel.LoraParts[k]
			order = append(order, part+"_A", part+"_B")
			shapes[part] = [][]int{inputs[2*k].Shape, inputs[2*k+1].Shape}
		}
		f.json("manifest.json", map[string]any{"adapter_id": name, "num_layers": len(layers), "rank": rank, "packed_dtype": "BF16",
			"scale_folded_into_b": true, "scale": 1.0, "tensor_order": order, "ab_shapes": shapes, "files": files})
		if f.err != nil {
			return nil, f.err
		}
	}
	return all, nil
}

// adapterLayer is a layer's file, and what it adds.
func adapterLayer(rng *rand.Rand, inputs []axcl.Tensor) (data []byte, deltas []Delta) {
	deltas = make([]Delta, len(axmodel.LoraParts))
	for k := len(axmodel.LoraParts) - 1; k >= 0; k-- {
		a, b := inputs[2*k].Shape, inputs[2*k+1].Shape
		rank, in, out := a[0], a[1], b[0]
		draw := func(n int, scale float64) []float64 {
			v := make([]float64, n)
			for i := range v {
				h := bf16.Round(float32(rng.NormFloat64() * scale))
				v[i] = float64(bf16.Float32(h))
				data = binary.LittleEndian.AppendUint16(data, h)
			}
			return v
		}
		av, bv := draw(rank*in, 1/math.Sqrt(float64(in))), draw(out*rank, 0.7/math.Sqrt(float64(rank)))
		d := Delta{out, in, make([]float64, out*in)}
		for o := range out {
			for r := range rank {
				for i := range in {
					d.V[o*in+i] += bv[o*rank+r] * av[r*in+i]
				}
			}
		}
		deltas[k] = d
	}
	return data, deltas
}

// takeAdapter makes a layer of a software card take an adapter: that is said by its header alone.
func takeAdapter(path string, rank int) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	le := binary.LittleEndian
	le.PutUint32(b[40:], le.Uint32(b[40:])|axmodel.FlagLoRA)
	le.PutUint32(b[188:], uint32(rank))
	return os.WriteFile(path, b, 0o644)
}
