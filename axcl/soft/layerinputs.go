package soft

import (
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft/kernel"
	"github.com/axle-llm/axle/axmodel"
)

// This file is what Gemma-4's layers have beyond Gemma-3's: layer inputs, a row from the host for
// each of them, which passes a gate made of the hidden state and is added to it after the MLP; then
// the hidden state is scaled. Values are normalised, too, by a norm without weights.

// perLayer is a layer's part of that.
type perLayer struct {
	gate, proj kernel.Weights
	norm       []float32
	scalar     float32
	ones       []float32 // a head's
}

func newPerLayer(f *file) *perLayer {
	p := &perLayer{gate: f.matrix("per_gate"), proj: f.matrix("per_proj"), norm: f.norm("per_norm"), ones: make([]float32, f.HeadDim)}
	if s := f.vector("scalar"); s != nil { // a layer without weights has none
		p.scalar = s[0]
	}
	for i := range p.ones {
		p.ones[i] = 1
	}
	return p
}

// setLayerInputs takes the inputs of layer i of a model for each of n rows, which lie as
// axcl.Pass.LayerInputs has them.
func (e *engine) setLayerInputs(inputs []uint16, n, i int, s axcl.Shape) {
	for r := range n {
		e.set.Widen(e.row(e.inputs, r, s.LayerInputs), inputs[(r*s.Layers+i)*s.LayerInputs:][:s.LayerInputs])
	}
}

// addLayerInputs adds a layer's inputs after its MLP, and ends it.
func (e *engine) addLayerInputs() {
	l, n := e.l, e.n
	e.multiply(e.x, product{w: &l.per.gate, dst: e.per})
	e.pool.each(n, 4*l.Out, e.layerInput)
	e.multiply(e.per, product{w: &l.per.proj, dst: e.a})
	e.pool.each(n, 2*l.Hidden, e.end)
}

func (e *engine) doLayerInput(_, r int) {
	e.set.GELU(e.row(e.per, r, e.l.Out), e.row(e.inputs, r, e.l.Out))
}

func (e *engine) doEnd(_, r int) {
	l, h := e.l, e.l.Hidden
	x, a := e.row(e.x, r, h), e.row(e.a, r, h)
	e.set.RMSNorm(a, a, l.per.norm, l.Eps)
	e.set.Add(x, a)
	for i := range x {
		x[i] *= l.per.scalar
	}
	e.set.Narrow(e.out[r*h:(r+1)*h], x)
}

// netInputs takes what a layer that is called by tensor name reads in addition: its layer inputs,
// and K and V of the call from the layer that keeps them.
func (n *net) netInputs(g axmodel.SoftGroup, in map[string][]byte) {
	if n.layer.per != nil {
		n.engine.set.Widen(n.engine.inputs[:g.Rows*n.layer.Out], get16(in["per_layer_input"]))
	}
	n.engine.with = nil
	if n.layer.Flags&axmodel.FlagLoRA != 0 {
		var all []byte
		for _, t := range n.adapterInputs() {
			all = append(all, in[t.Name]...)
		}
		n.engine.with = newAdapter(n.adapterInputs(), all)
	}
	if n.layer.shares() {
		from := g.Cells * n.layer.KVHeads * n.layer.HeadDim
		copy(n.engine.kb, get16(in["K_cache"])[from:])
		copy(n.engine.vb, get16(in["V_cache"])[from:])
	}
}
