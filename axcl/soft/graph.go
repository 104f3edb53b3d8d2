package soft

import (
	"fmt"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft/graph"
	"github.com/axle-llm/axle/axcl/soft/kernel"
	"github.com/axle-llm/axle/axmodel"
)

// graphPool lets a graph's plans use the card's goroutines.
type graphPool struct{ *pool }

// Each implements graph.Pool.
func (p graphPool) Each(count, work int, task func(worker, i int)) { p.each(count, work, task) }

// Workers implements graph.Pool.
func (p graphPool) Workers() int { return p.n }

// graphs are the plans of a net's groups, and what they take in addition to the file.
type graphs struct {
	plans   []*graph.Plan
	in, out [][]byte
	heap    int64
}

// maxGraph is more memory than a net takes: a file that asks for it is damaged.
const maxGraph = 1 << 38

func newGraphs(f *file, p *pool, set kernel.Set) (*graphs, error) {
	g := &graphs{in: make([][]byte, axmodel.MaxGraphPorts), out: make([][]byte, axmodel.MaxGraphPorts)}
	weights := graph.NewWeights(f.bytes)
	for i, of := range f.Graphs {
		plan := graph.New(of, weights, graphPool{p}, set)
		if plan.Bytes() > maxGraph {
			return nil, &axmodel.Error{Path: f.path, What: fmt.Sprintf("group %d takes %d bytes to compute in", i, plan.Bytes())}
		}
		g.plans = append(g.plans, plan)
		g.heap += plan.Bytes()
	}
	g.heap += weights.Bytes()
	return g, nil
}

// room takes the plans' memory.
func (g *graphs) room() {
	for _, p := range g.plans {
		p.Room()
	}
}

// run computes a group from its inputs, which are all there.
func (g *graphs) run(group int, meta *axmodel.GroupMeta, in, out map[string][]byte) {
	tensors := func(dst [][]byte, ts []axcl.Tensor, from map[string][]byte) [][]byte {
		for i, t := range ts {
			dst[i] = from[t.Name]
		}
		return dst[:len(ts)]
	}
	g.plans[group].Run(tensors(g.in, meta.Inputs, in), tensors(g.out, meta.Outputs, out))
	clear(g.in)
	clear(g.out)
}
