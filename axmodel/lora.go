package axmodel

import (
	"slices"
	"strings"

	"github.com/axle-llm/axle/axcl"
)

// Inputs of a layer for a LoRA adapter: of each of seven matrices W two narrow ones, A and B, and
// the layer computes W·x + B·(A·x). With zeros it computes as without an adapter.

// LoraParts are the matrices that an adapter changes, in the order in which a layer's inputs are
// numbered: A and then B of each.
var LoraParts = []string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}

const maxRank = 1 << 12

// loraInputs are the inputs' names.
func loraInputs() (all []string) {
	for _, p := range LoraParts {
		all = append(all, "lora_"+p+"_a", "lora_"+p+"_b")
	}
	return all
}

// AdapterBytes is what an adapter gives a layer; 0 where it takes none.
func (l LayerShape) AdapterBytes() (n int) {
	for _, t := range l.Adapter {
		n += t.Size
	}
	return n
}

// sameAdapter says whether two layers take the same of an adapter.
func (l LayerShape) sameAdapter(o LayerShape) bool {
	return slices.EqualFunc(l.Adapter, o.Adapter, func(a, b axcl.Tensor) bool {
		return a.Name == b.Name && slices.Equal(a.Shape, b.Shape)
	})
}

// adapter reads what group i of a layer takes of an adapter; nil: nothing.
func (m *Meta) adapter(i int) (all []axcl.Tensor, err error) {
	in := m.Groups[i].Inputs
	if !slices.ContainsFunc(in, func(t axcl.Tensor) bool { return strings.HasPrefix(t.Name, "lora_") }) {
		return nil, nil
	}
	rank := 0
	for k, name := range loraInputs() {
		t := find(in, name)
		if t.Type == axcl.TypeNone {
			return nil, errorf("group %d: has inputs of a LoRA adapter, and no %q", i, name)
		}
		at := last(t, k%2^1) // of A the rows, of B the columns
		if rank == 0 {
			rank = at
		}
		if t.Type != axcl.BF16 || count(t) != int64(last(t, 0))*int64(last(t, 1)) || at != rank || rank > maxRank {
			return nil, errorf("group %d: %q is %v %v, not a matrix of bf16 of rank %d", i, name, t.Type, t.Shape, rank)
		}
		t.Size = int(2 * count(t))
		all = append(all, t)
	}
	for k := 0; k < len(all); k += 2 { // what comes from a row, and what goes to one
		in, out := last(all[k], 0), last(all[k+1], 1)
		for _, f := range []struct {
			at, got, want int
		}{{2, in, last(all[0], 0)}, {4, in, last(all[0], 0)}, {8, in, last(all[0], 0)}, {10, in, last(all[0], 0)},
			{4, out, last(all[3], 1)}, {6, out, last(all[0], 0)}, {10, out, last(all[9], 1)}, {12, out, last(all[0], 0)},
			{6, in, last(all[1], 1)}, {12, in, last(all[9], 1)}} {
			if f.at == k && f.got != f.want {
				return nil, errorf("group %d: %q and %q, %v and %v, do not fit the others", i, all[k].Name, all[k+1].Name, all[k].Shape,
					all[k+1].Shape)
			}
		}
	}
	return all, nil
}

// loraDims are the sizes of the inputs of a software layer, in their order: rows and columns.
func (s *Soft) loraDims() (all [][2]int) {
	h, q, kv := s.Hidden, s.Heads*s.HeadDim, s.KVHeads*s.HeadDim
	for _, d := range [][2]int{{h, q}, {h, kv}, {h, kv}, {q, h}, {h, s.Intermediate}, {h, s.Intermediate}, {s.Intermediate, h}} {
		all = append(all, [2]int{s.Rank, d[0]}, [2]int{d[1], s.Rank})
	}
	return all
}
