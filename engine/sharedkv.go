package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/card"
	"github.com/axle-llm/axle/engine/prove"
	"github.com/axle-llm/axle/models"
)

// This file tests whether a card computes correctly what only some models (Gemma-4) have: layers
// that use the K and V of an earlier layer, and layers with further inputs next to the hidden
// state. According to the vendor, its cards behind PCIe give garbled text for such models. Unlike
// for chunks and mixed rows, there is no other way to compute them. So a card that fails one of
// these checks does not run the model, and the error names the check.

// The names of the checks in errors.
const (
	checkSharedKVName = "shared K and V"
	checkOwnName      = "layer inputs"
	checkChunkName    = "rows together"
	checkWideName     = "wide passes"
)

// ErrUnsound means that a card fails a check that a model must pass before it runs there.
var ErrUnsound = errors.New("engine: the card gets this model wrong")

// unsound returns an error that says which check failed.
func unsound(name string, info axcl.Info, check, format string, a ...any) error {
	return fmt.Errorf("%w: %s on %s fails the check %q: %s; a newer runtime or a newer build of the package may pass it, and what axle "+
		"compiled itself runs with --device soft", ErrUnsound, name, info.ID, check, fmt.Sprintf(format, a...))
}

// checkSharedKV calls layers that use the K and V of others, by the names of their tensors. It
// calls one layer for each layer whose K and V others use. Cells that a row sees must matter,
// hidden cells must not, and the groups must agree. It runs before the model is loaded, while there
// is room for a layer.
func (c *Card) checkSharedKV(ctx context.Context, dev axcl.Device, p *models.Package, pause func() error) error {
	asked := map[int]bool{}
	for i, from := range p.Sources() {
		if from == i || asked[from] {
			continue
		}
		asked[from] = true
		if err := ctx.Err(); err != nil {
			return err
		}
		var why string
		if err := c.Watched(card.FileLimit, func() (err error) {
			why, err = sharedKVLayer(dev, p.Layers[i])
			return err
		}); err != nil {
			return fmt.Errorf("engine: layer %d of %s, by itself: %w", i, p.Name, err)
		}
		if err := pause(); err != nil {
			return err
		}
		if why != "" {
			return unsound(p.Name, c.Info(), checkSharedKVName, "layer %d, which uses the K and V of layer %d, %s", i, from, why)
		}
	}
	return nil
}

// sharedKVLayer returns what is wrong with a layer, or an empty string.
func sharedKVLayer(dev axcl.Device, path string) (why string, err error) {
	net, err := dev.LoadNet(path)
	if err != nil {
		return "", err
	}
	defer func() {
		if e := net.Close(); err == nil {
			err = e
		}
	}()
	var right, wrong [][]uint16
	decoded := false
	for g := range net.Groups() {
		l := newSharedKVCall(net, g)
		if l.cells < 6 || l.rows == 1 && decoded {
			continue
		}
		decoded = decoded || l.rows == 1
		base, err := l.run()
		if err != nil {
			return "", err
		}
		again, err := l.run()
		if err != nil {
			return "", err
		}
		if d := prove.Distance(base, again); !(d <= 0.01) {
			return fmt.Sprintf("gives something else when it is called again (group %d)", g), nil
		}
		least := math.Inf(1)
		for _, c := range []struct {
			tensor string
			row    int
			what   string
		}{{"V_cache", 3, "the values of a cell that a row sees"}, {"K_cache", 1, "the keys of a cell that a row sees"},
			{"V_cache", l.cells, "the values of the row itself"}} {
			l.turn(c.tensor, c.row)
			got, err := l.run()
			l.turn(c.tensor, c.row)
			if err != nil {
				return "", err
			}
			d := prove.Distance(base, got)
			if !(d > 0) {
				return fmt.Sprintf("gives the same whatever are %s (group %d)", c.what, g), nil
			}
			least = min(least, d)
			wrong = append(wrong, got)
		}
		hidden := []int{4, l.cells - 1}
		if l.rows > 1 {
			hidden = append(hidden, l.cells+1)
		}
		for _, row := range hidden {
			l.turn("V_cache", row)
			l.turn("K_cache", row)
			got, err := l.run()
			l.turn("V_cache", row)
			l.turn("K_cache", row)
			if err != nil {
				return "", err
			}
			if d := prove.Distance(base, got); !(d < least/2) {
				return fmt.Sprintf("takes K and V from a place that the row does not see (group %d)", g), nil
			}
		}
		if right = append(right, base); !prove.Same(right[0], base, wrong...) {
			return fmt.Sprintf("gives other results in group %d than in the first", g), nil
		}
	}
	return "", nil
}

// sharedKVCall is one shape group of such a layer, with its tensors filled. All input rows are the
// same, and the first row sees cells 0 to 3. All K are the same, so that all visible cells have the
// same weight. Each cell has its own V.
type sharedKVCall struct {
	net                axcl.Net
	group, rows, cells int
	in                 map[string][]byte
	out                map[string][]byte
	hidden, width      int // width of a row of the hidden state, and of K
}

func newSharedKVCall(net axcl.Net, group int) *sharedKVCall {
	l := &sharedKVCall{net: net, group: group, in: map[string][]byte{}, out: map[string][]byte{}}
	last := func(t axcl.Tensor) int { return t.Shape[len(t.Shape)-1] }
	columns := 0
	for _, t := range net.Inputs(group) {
		l.in[t.Name] = make([]byte, t.Size)
		switch t.Name {
		case "indices":
			l.rows = last(t)
		case "mask":
			columns = last(t)
		case "input":
			l.hidden = last(t)
		case "K_cache":
			l.width = last(t)
		}
	}
	for _, t := range net.Outputs(group) {
		if t.Name == "output" {
			l.out[t.Name] = make([]byte, t.Size)
		}
	}
	l.cells = columns - l.rows
	for i := range len(l.in["mask"]) / 2 {
		r, c := i/columns, i%columns
		if c != l.cells+r && !(r == 0 && c < 4) {
			binary.LittleEndian.PutUint16(l.in["mask"][2*i:], axcl.BFloat16(-65536))
		}
	}
	for i := range len(l.in["indices"]) / 4 {
		binary.LittleEndian.PutUint32(l.in["indices"][4*i:], 4)
	}
	// The values lie between −1 and 1, and repeat after this many.
	fill := func(name string, at func(i int) int, after int) {
		b := l.in[name]
		for i := range len(b) / 2 {
			binary.LittleEndian.PutUint16(b[2*i:], axcl.BFloat16(2*float32(at(i)*37%after)/float32(after-1)-1))
		}
	}
	fill("input", func(i int) int { return i % l.hidden }, 17)
	fill("K_cache", func(i int) int { return i % l.width }, 13)
	// A cell has the same values in each group, and so has the first row of the call.
	fill("V_cache", func(i int) int {
		row := i / l.width
		if row >= l.cells {
			row += 1<<20 - l.cells
		}
		return (row + 1) * (i%l.width + 3)
	}, 19)
	fill("per_layer_input", func(i int) int { return i % max(len(l.in["per_layer_input"])/2/l.rows, 1) }, 11)
	return l
}

// turn negates a row of a cache. A second call restores it.
func (l *sharedKVCall) turn(tensor string, row int) {
	for i := range l.width {
		l.in[tensor][2*(row*l.width+i)+1] ^= 0x80
	}
}

// run returns the output of the first row.
func (l *sharedKVCall) run() ([]uint16, error) {
	if err := l.net.Run(l.group, l.in, l.out); err != nil {
		return nil, err
	}
	out := make([]uint16, l.hidden)
	for i := range out {
		out[i] = binary.LittleEndian.Uint16(l.out["output"][2*i:])
	}
	return out, nil
}

// checkLayerInputs is the part that needs the model. The inputs of each layer must matter, and rows
// that share a call must give the same results as alone.
func (m *prover) checkLayerInputs(ctx context.Context, name string) error {
	const first, more = 4, 2
	info, trials := m.card.Info(), m.trials()
	if m.layerInputWidth() == 0 || m.shape.Cells < 24 {
		return nil
	}
	id := func(i int) int32 { return int32((i*41 + 5) % m.vocab()) }
	row := func(i int, cell int) (t prove.Row) {
		t = prove.Row{ID: id(i), Pos: uint32(i), Cell: uint32(cell)}
		for c := range i {
			t.Cells = append(t.Cells, uint32(c))
		}
		return t
	}
	one := func(t prove.Row, bend func(inputs []uint16)) ([]uint16, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p, results, err := trials.Pass(t)
		if err != nil {
			return nil, err
		}
		if bend != nil {
			bend(p.LayerInputs)
		}
		return *results, trials.Run(p)
	}
	// The right results, row by row, and wrong ones, with the first row's layer inputs in place of
	// the row's own.
	p, _, err := trials.Pass(row(0, 0))
	if err != nil {
		return err
	}
	inputs := slices.Clone(p.LayerInputs)
	var right, wrong [][]uint16
	for i := range first + more {
		out, err := one(row(i, i), nil)
		if err != nil {
			return err
		}
		right = append(right, out)
	}
	for i := range first + more {
		out, err := one(row(i, 20), func(g []uint16) { copy(g, inputs) })
		if err != nil {
			return err
		}
		wrong = append(wrong, out)
	}
	w := m.shape.LayerInputs
	for l := range m.shape.Layers {
		out, err := one(row(first, 20), func(g []uint16) {
			for i := range w {
				g[l*w+i] = 0x3f80 ^ uint16(i%2)<<15 // 1 and −1 alternate
			}
		})
		if err != nil {
			return err
		}
		if d := prove.Distance(right[first], out); !(d > 0) {
			return unsound(name, info, checkOwnName, "layer %d gives the same whatever its inputs are", l)
		}
	}
	if m.wide == 0 {
		return nil
	}
	chunk := func(from, n, cell int) ([][]uint16, error) {
		rows := make([]prove.Row, n)
		for i := range rows {
			rows[i] = row(from+i, cell+i)
			rows[i].Cells = rows[0].Cells
			for e := range i {
				rows[i].Rows = append(rows[i].Rows, e)
			}
		}
		return trials.Try(rows...)
	}
	for from, n := 0, min(first, m.wide); n > 1 && from <= m.wideReach; from, n = from+n, min(more, first+more-from-n) {
		out, err := chunk(from, n, from)
		if err != nil {
			return err
		}
		for i, got := range out {
			at := from + i
			others := [][]uint16{wrong[at]}
			if at > 0 {
				others = append(others, right[at-1])
			}
			if at > 0 && !prove.Same(right[at], got, others...) || at == 0 && !prove.Same(right[0], got) {
				return unsound(name, info, checkChunkName, "row %d of %d that share a call gives something else than alone", i+1, n)
			}
		}
	}
	// A later row must be able to use the rows of the chunks.
	out, err := one(row(first+more-1, 20), nil)
	if err == nil && !prove.Same(right[first+more-1], out, wrong[first+more-1]) {
		err = unsound(name, info, checkChunkName, "a row that sees what a call of several kept gives something else than after single rows")
	}
	return err
}
