package soft

import (
	"encoding/binary"
	"fmt"

	"github.com/axle-llm/axle/axcl"
)

// This file is what layers with a LoRA adapter as inputs compute in addition: B·(A·x) for each of
// seven matrices.

// adapter is what a layer takes of one, in the order of axmodel.LoraParts. The empty adapter is
// none.
type adapter []narrow

// narrow is B·A.
type narrow struct {
	a, b          []float32 // rank × in, out × rank
	in, out, rank int
}

// newAdapter reads the inputs ts of a layer, which lie one after the other.
func newAdapter(ts []axcl.Tensor, bytes []byte) (all adapter) {
	values := func(t axcl.Tensor) []float32 {
		v := make([]float32, t.Size/2)
		for i := range v {
			v[i] = axcl.Float32(binary.LittleEndian.Uint16(bytes[2*i:]))
		}
		bytes = bytes[t.Size:]
		return v
	}
	for i := 0; i < len(ts); i += 2 {
		n := narrow{rank: ts[i].Shape[0], in: ts[i].Shape[1], out: ts[i+1].Shape[0]}
		n.a, n.b = values(ts[i]), values(ts[i+1])
		all = append(all, n)
	}
	return all
}

// adapters reads those of the model.
func (l *loader) adapters() error {
	m, ts := l.m, l.all.Full.Adapter
	for a, give := range l.spec.Adapters {
		for i, layer := range m.layers {
			b, err := give(i)
			if err == nil {
				err = axcl.CheckAdapter(a, i, len(b), l.all.Full.AdapterBytes())
			}
			if err != nil {
				return fmt.Errorf("axcl: software card: %w", err)
			}
			layer.adapters = append(layer.adapters, newAdapter(ts, b))
			l.weights += int64(len(b))
		}
	}
	m.shape.Adapters = len(l.spec.Adapters)
	return nil
}

// adapt adds what the call's adapter makes of rows of src with one of its matrices.
func (e *engine) adapt(part int, src, dst []float32) {
	if len(e.with) == 0 {
		return
	}
	w := &e.with[part]
	e.pool.each(e.n, w.rank*(w.in+w.out), func(_, r int) {
		x, y := src[r*w.in:][:w.in], dst[r*w.out:][:w.out]
		for k := range w.rank {
			sum := float32(0)
			for i, v := range w.a[k*w.in:][:w.in] {
				sum += v * x[i]
			}
			for o := range y {
				y[o] += w.b[o*w.rank+k] * sum
			}
		}
	})
}

// adapterInputs are a layer's inputs for an adapter.
func (n *net) adapterInputs() []axcl.Tensor {
	ts := n.Inputs(0)
	return ts[len(ts)-14:]
}
