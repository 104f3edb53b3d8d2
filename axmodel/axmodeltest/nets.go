package axmodeltest

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/compile"
)

// AgainstNets is AgainstArch for one sequence, layer by layer through LoadNet: what a card
// computes, whatever it makes of slots and cells. Chunks end short, so that rows of padding follow,
// and single rows come between them.
func AgainstNets(d axcl.Device, dir string, a Arch, seed uint64, o compile.Options) (Report, error) {
	var rep Report
	c, err := WriteCheckpoint(dir, a, seed)
	if err != nil {
		return rep, err
	}
	o.From, o.Out, o.Context, o.Chunk, o.History, o.Name = dir, filepath.Join(dir, "package"), 95, 16, []int{0, 16, 64}, "m"
	r, err := compile.Run(context.Background(), o)
	if err != nil {
		return rep, err
	}
	w := &netWalk{c: c}
	layers, head := axmodel.Files(r.Dir, o.Name, o.Chunk, r.Layers)
	for _, path := range append(layers, head) {
		n, err := d.LoadNet(path)
		if err != nil {
			return rep, err
		}
		defer n.Close()
		m, err := axmodel.ReadFile(path)
		if err != nil {
			return rep, err
		}
		_, state, err := m.Linear()
		if err != nil {
			return rep, err
		}
		l := netLayer{net: n, state: state, source: len(w.layers)}
		if src := a.Sources(); src != nil && l.source < len(src) {
			l.source = src[l.source]
		}
		w.layers = append(w.layers, l)
	}
	w.head, w.layers = w.layers[r.Layers].net, w.layers[:r.Layers]
	for i := range w.layers {
		l := &w.layers[i]
		for _, t := range l.net.Inputs(0) {
			switch t.Name {
			case "K_cache":
				l.k = make([]byte, t.Size)
			case "V_cache":
				l.v = make([]byte, t.Size)
			}
		}
	}
	rand := rand.New(rand.NewPCG(seed, 4))
	var tokens []int32
	for range 16 + 9 + 3 + 12 + 16 + 4 {
		tokens = append(tokens, int32(rand.IntN(c.Vocab)))
	}
	rows := Causal(tokens)
	done := 0
	for _, n := range []int{16, 9, 1, 1, 1, 12, 16, 1, 1, 1, 1} {
		if err := w.run(rows[done : done+n]); err != nil {
			return rep, fmt.Errorf("rows %d to %d: %w", done, done+n, err)
		}
		done += n
	}
	rep.judge(c, rows, w.logits, w.argmax)
	return rep, nil
}

// netLayer is a layer called by tensor name, with the cache or the states that a runtime would keep
// for it.
type netLayer struct {
	net        axcl.Net
	state      bool
	k, v       []byte
	source     int    // the layer whose K and V it uses
	newK, newV []byte // of the last call
}

type netWalk struct {
	c      *Checkpoint
	layers []netLayer
	head   axcl.Net
	past   int
	logits [][]float32
	argmax []int32
}

// size is a tensor's bytes in a group, and its last dimension.
func size(ts []axcl.Tensor, name string) (bytes, last int) {
	for _, t := range ts {
		if t.Name == name {
			return t.Size, t.Shape[len(t.Shape)-1]
		}
	}
	return 0, 0
}

func (w *netWalk) run(rows []Row) error {
	n, h := len(rows), w.c.Hidden
	hidden := make([]uint16, n*h)
	for i, r := range rows {
		w.c.Embed(hidden[i*h:(i+1)*h], r.Token)
	}
	ordinal := -1 // of the prefill group
	if n > 1 {
		histories := []int{0, 16, 64}
		ordinal = slices.IndexFunc(histories, func(h int) bool { return h >= w.past })
	}
	for i := range w.layers {
		l := &w.layers[i]
		group := min(1+ordinal, l.net.Groups()-1)
		_, full := size(l.net.Inputs(group), "indices")
		bytes := func(v []uint16) []byte {
			b := make([]byte, full*h*2)
			for i, x := range v {
				binary.LittleEndian.PutUint16(b[2*i:], x)
			}
			return b
		}
		pos := make([]byte, 4*full)
		for i, r := range rows {
			binary.LittleEndian.PutUint32(pos[4*i:], uint32(r.Pos))
		}
		in := map[string][]byte{"input": bytes(hidden), "indices": pos}
		out := map[string][]byte{"output": make([]byte, full*h*2)}
		for _, t := range l.net.Outputs(group) {
			if t.Name != "output" {
				out[t.Name] = make([]byte, t.Size)
			}
		}
		maskBytes, columns := size(l.net.Inputs(group), "mask")
		mask := make([]byte, maskBytes)
		in["mask"], in["K_cache"], in["V_cache"] = mask, l.k, l.v
		if l.state {
			for r := range n {
				binary.LittleEndian.PutUint16(mask[2*r:], 0x3f80)
			}
		} else {
			cells := columns - full
			kb, _ := size(l.net.Inputs(group), "K_cache")
			if from := w.layers[l.source]; l.source == i {
				in["K_cache"], in["V_cache"] = l.k[:kb], l.v[:kb]
			} else { // the rows of this call behind those of the cache
				at := len(from.newK) / full * cells
				in["K_cache"], in["V_cache"] = slices.Concat(from.k[:at], from.newK), slices.Concat(from.v[:at], from.newV)
			}
			for r := range full {
				for j := range columns {
					if j < min(w.past, cells) || j >= cells && j-cells <= r {
						continue
					}
					binary.LittleEndian.PutUint16(mask[2*(r*columns+j):], axcl.BFloat16(-65536))
				}
			}
		}
		if bytes, _ := size(l.net.Inputs(group), "per_layer_input"); bytes > 0 {
			inputs, width := make([]byte, bytes), w.c.Gemma4.Width
			for r, row := range rows {
				for k, v := range w.c.LayerInputs(row.Token)[i*width:][:width] {
					binary.LittleEndian.PutUint16(inputs[2*(r*width+k):], axcl.BFloat16(float32(v)))
				}
			}
			in["per_layer_input"] = inputs
		}
		if err := l.net.Run(group, in, out); err != nil {
			return fmt.Errorf("layer %d: %w", i, err)
		}
		l.newK, l.newV = out["K_cache_out"], out["V_cache_out"]
		if l.source != i && !(slices.Equal(l.newK, w.layers[l.source].newK) && slices.Equal(l.newV, w.layers[l.source].newV)) {
			return fmt.Errorf("layer %d gives other K and V than it was given", i)
		}
		if l.state {
			copy(l.k, out["K_cache_out"])
			copy(l.v, out["V_cache_out"])
		} else {
			row := len(out["K_cache_out"]) / full
			copy(l.k[w.past*row:], out["K_cache_out"][:n*row])
			copy(l.v[w.past*row:], out["V_cache_out"][:n*row])
		}
		for i := range hidden {
			hidden[i] = binary.LittleEndian.Uint16(out["output"][2*i:])
		}
	}
	w.past += n
	return w.say(hidden, n)
}

// say sends rows through the head.
func (w *netWalk) say(hidden []uint16, n int) error {
	h := w.c.Hidden
	for r := range n {
		in := make([]byte, 2*h)
		for i, v := range hidden[r*h : (r+1)*h] {
			binary.LittleEndian.PutUint16(in[2*i:], v)
		}
		bytes, vocab := size(w.head.Outputs(0), "output")
		out := make([]byte, bytes)
		if err := w.head.Run(0, map[string][]byte{"input": in}, map[string][]byte{"output": out}); err != nil {
			return fmt.Errorf("head: %w", err)
		}
		logits, best := make([]float32, vocab), 0
		for i := range logits {
			if bytes == 2*vocab {
				logits[i] = axcl.Float32(binary.LittleEndian.Uint16(out[2*i:]))
			} else {
				logits[i] = math.Float32frombits(binary.LittleEndian.Uint32(out[4*i:]))
			}
			if logits[i] > logits[best] {
				best = i
			}
		}
		w.logits, w.argmax = append(w.logits, logits), append(w.argmax, int32(best))
	}
	return nil
}
