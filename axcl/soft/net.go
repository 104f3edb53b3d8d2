package soft

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/bits"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft/kernel"
	"github.com/axle-llm/axle/axmodel"
)

// appendBits appends the numbers of the bits that are set.
func appendBits(dst []int32, words []uint64) []int32 {
	for w, v := range words {
		for ; v != 0; v &= v - 1 {
			dst = append(dst, int32(w*64+bits.TrailingZeros64(v)))
		}
	}
	return dst
}

// net is one model called by tensor name.
type net struct {
	device *Device
	file   *file
	layer  *layer
	head   *head
	engine *engine
	sight  *encoder       // of an encoder of pictures
	graphs *graphs        // of a net of operations
	weight kernel.Weights // of an affine model
	bias   []float32      // of an affine model
	bound  axcl.Bindings[*buffer]
	taken  int64
	heap   int64
	closed bool
}

// LoadNet implements axcl.Device.
func (d *Device) LoadNet(path string) (axcl.Net, error) {
	if err := d.state(); err != nil {
		return nil, err
	}
	f, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("axcl: software card: %w", err)
	}
	if f.Kind == axmodel.Decoder {
		f.unmap()
		return nil, fmt.Errorf("axcl: software card: %w",
			&axmodel.Error{Path: path, What: "is a whole decoder: it is loaded as a language model"})
	}
	n := &net{device: d, file: f, taken: f.meta.WeightBytes}
	var need size
	switch f.Kind {
	case axmodel.Layer, axmodel.Linear:
		n.layer = newLayer(f)
		for _, g := range f.Groups {
			need.grow(n.layer, g.Rows, g.Cells)
		}
		n.heap = need.bytes(d.pool.n)
	case axmodel.Affine:
	case axmodel.Net:
		if n.graphs, err = newGraphs(f, d.pool, d.set); err != nil {
			f.unmap()
			return nil, fmt.Errorf("axcl: software card: %w", err)
		}
		n.heap = n.graphs.heap
	case axmodel.Encoder:
		if n.sight, err = newEncoder(f, d.pool, d.set); err != nil {
			f.unmap()
			return nil, fmt.Errorf("axcl: software card: %w", err)
		}
		n.heap = n.sight.bytes()
	default:
		n.head = newHead(f, d.pool, d.set)
		n.heap = n.head.bytes()
	}
	if err := d.take(n.taken, n.heap); err != nil {
		f.unmap()
		return nil, err
	}
	switch f.Kind {
	case axmodel.Layer, axmodel.Linear:
		n.engine = newEngine(d.pool, d.set, need)
	case axmodel.Affine:
		n.weight, n.bias = f.matrix("weight"), f.vector("bias")
	case axmodel.Encoder:
		n.sight.room()
	case axmodel.Net:
		n.graphs.room()
	}
	d.open = append(d.open, n)
	return n, nil
}

// Groups implements axcl.Net.
func (n *net) Groups() int { return len(n.file.meta.Groups) }

// Inputs implements axcl.Net.
func (n *net) Inputs(group int) []axcl.Tensor {
	if group < 0 || group >= n.Groups() {
		return nil
	}
	return n.file.meta.Groups[group].Inputs
}

// Outputs implements axcl.Net.
func (n *net) Outputs(group int) []axcl.Tensor {
	if group < 0 || group >= n.Groups() {
		return nil
	}
	return n.file.meta.Groups[group].Outputs
}

// Bind implements axcl.Net.
func (n *net) Bind(group int, tensor string, to axcl.Buffer) error {
	if n.closed {
		return fmt.Errorf("axcl: software card's model: %w", axcl.ErrClosed)
	}
	if to == nil {
		return n.bound.Bind(n, group, tensor, nil, 0)
	}
	b, ok := to.(*buffer)
	if !ok || b.device != n.device || b.closed {
		return fmt.Errorf("%w: %q cannot be bound to a buffer that is closed or another device's", axcl.ErrPass, tensor)
	}
	return n.bound.Bind(n, group, tensor, b, b.Size())
}

// Close implements axcl.Net.
func (n *net) Close() error {
	if n.closed {
		return axcl.ErrClosed
	}
	n.closed = true
	n.device.drop(n, n.taken, n.heap)
	n.file.unmap()
	return nil
}

// Run implements axcl.Net.
func (n *net) Run(group int, in, out map[string][]byte) error {
	if n.closed {
		return fmt.Errorf("axcl: software card's model: %w", axcl.ErrClosed)
	}
	if err := n.device.state(); err != nil {
		return err
	}
	if err := n.bound.Check(n, group, in, out, func(b *buffer) bool { return b.closed }); err != nil {
		return err
	}
	g := &n.file.meta.Groups[group]
	ins, outs := n.bound.Of(group)
	in, out = withBound(in, g.Inputs, ins), withBound(out, g.Outputs, outs)
	switch {
	case n.layer != nil && n.layer.linear != nil:
		n.runLinear(n.file.Groups[group], in, out)
	case n.layer != nil:
		n.runLayer(n.file.Groups[group], in, out)
	case n.head != nil:
		n.runHead(in, out)
	case n.graphs != nil:
		n.graphs.run(group, g, in, out)
	case n.sight != nil:
		var to [][]byte
		for _, t := range g.Outputs {
			to = append(to, out[t.Name])
		}
		n.sight.run(in[g.Inputs[0].Name], to)
	default:
		n.runAffine(n.file.Groups[group].Rows, in["x"], out["y"])
	}
	return nil
}

// withBound are the tensors that were given and those that are bound to buffers.
func withBound(given map[string][]byte, ts []axcl.Tensor, bound []*buffer) map[string][]byte {
	all := given
	for i, b := range bound {
		if b == nil {
			continue
		}
		if len(all) == len(given) {
			all = maps.Clone(given)
			if all == nil {
				all = map[string][]byte{}
			}
		}
		all[ts[i].Name] = b.bytes[:ts[i].Size]
	}
	return all
}

func get16(b []byte) []uint16 {
	out := make([]uint16, len(b)/2)
	for i := range out {
		out[i] = binary.LittleEndian.Uint16(b[2*i:])
	}
	return out
}

func put16(b []byte, v []uint16) {
	for i := range len(b) / 2 {
		binary.LittleEndian.PutUint16(b[2*i:], v[i])
	}
}

func (n *net) runLayer(g axmodel.SoftGroup, in, out map[string][]byte) {
	of := n.layer.Pos
	pos := make([]uint32, of*g.Rows)
	for i := range pos { // the tensor has a line for each component, the engine wants a row's together
		at := i * 4
		if at >= len(in["indices"]) { // one stands for three
			at = 0
		}
		pos[i%g.Rows*of+i/g.Rows] = binary.LittleEndian.Uint32(in["indices"][at:])
	}
	var see sight
	see.reset()
	mask := get16(in["mask"])
	for r := range g.Rows {
		row := mask[r*(g.Cells+g.Rows) : (r+1)*(g.Cells+g.Rows)]
		for j, v := range row {
			switch f := axcl.Float32(v); {
			case f <= -65536: // hidden: skipped, as the format allows
			case j < g.Cells:
				see.cells, see.cellAdd = append(see.cells, int32(j)), append(see.cellAdd, f)
			default:
				see.rows, see.rowAdd = append(see.rows, int32(j-g.Cells)), append(see.rowAdd, f)
			}
		}
		see.endRow(together(n.layer))
	}
	if see.cellAdd == nil {
		see.cellAdd = []float32{} // rows may have addends all the same
	}
	hidden := make([]uint16, g.Rows*n.file.Hidden)
	n.layer.rope.filled = false
	n.netInputs(g, in)
	n.engine.run(n.layer, g.Rows, hidden, get16(in["input"]), pos, get16(in["K_cache"]), get16(in["V_cache"]), &see)
	put16(out["output"], hidden)
	put16(out["K_cache_out"], n.engine.kb)
	put16(out["V_cache_out"], n.engine.vb)
}

func (n *net) runHead(in, out map[string][]byte) {
	row := get16(in["input"])
	n.head.run(1, func(int) []uint16 { return row })
	y := n.head.y[:n.head.out()]
	if b := out["output"]; b != nil {
		for i, v := range y {
			if n.file.Flags&axmodel.FlagF32 != 0 {
				binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
			} else {
				binary.LittleEndian.PutUint16(b[2*i:], axcl.BFloat16(v))
			}
		}
	}
	if b := out["indices"]; b != nil {
		binary.LittleEndian.PutUint32(b, uint32(largest(y)))
	}
}

// runAffine leaves zeros where the model has no weights.
func (n *net) runAffine(rows int, in, out []byte) {
	le, hidden := binary.LittleEndian, n.file.Hidden
	x, y := kernel.NewInput(&n.weight, hidden, rows), make([]float32, rows*n.file.Out)
	for i := range x.F {
		x.F[i] = math.Float32frombits(le.Uint32(in[4*i:]))
	}
	if n.file.Flags&axmodel.FlagShapeOnly == 0 {
		for r := range rows {
			n.device.set.Prepare(x, &n.weight, r)
		}
		n.device.set.Mul(y, &n.weight, x, rows, 0, n.file.Out, kernel.NewScratch(1, 0, 0))
		for i := range y {
			y[i] += n.bias[i%n.file.Out]
		}
	}
	for i := range len(out) / 4 {
		le.PutUint32(out[4*i:], math.Float32bits(y[i]))
	}
}
