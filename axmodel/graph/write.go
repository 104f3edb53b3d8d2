package graph

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
)

// Write writes a net of the graphs, each a shape group, to any writer. Of h count Tool, Weights and
// FlagSuffix. It fails with the first mistake of a graph, with an *axmodel.Error where the graphs
// do not make a net together, or with the error of a weight's rows or of the writer.
func Write(w io.Writer, h axmodel.Header, graphs ...*Graph) error {
	var done []*axmodel.Graph
	for _, g := range graphs {
		out, err := g.finish()
		if err != nil {
			return err
		}
		done = append(done, out)
	}
	const header, group = 192, 16
	table := header + group*len(graphs)
	at := table
	for _, g := range done {
		at += up(len(encode(g)), 8)
	}
	places := map[*Weight]int{}
	var order []*Weight
	for i, g := range done {
		for k, d := range graphs[i].data {
			if _, ok := places[d]; !ok {
				at = up(at, 64)
				places[d] = at
				order = append(order, d)
				bytes := 4
				if d.Type == axcl.BF16 {
					bytes = 2
				}
				v := axmodel.GraphValue{Dims: d.Dims}
				at += v.Len() * bytes
			}
			g.Constants[k].Offset = int64(places[d])
		}
	}
	at = up(at, 64)
	le := binary.LittleEndian
	b := make([]byte, table, at)
	copy(b, axmodel.Magic)
	for off, v := range map[int]uint32{8: 1, 12: uint32(axmodel.Net), 16: uint32(len(graphs)), 40: h.Flags} {
		le.PutUint32(b[off:], v)
	}
	le.PutUint64(b[24:], uint64(at))
	le.PutUint64(b[32:], h.Weights)
	copy(b[112:176], h.Tool)
	for i, g := range done {
		code := encode(g)
		le.PutUint64(b[header+i*group:], uint64(len(b)))
		le.PutUint64(b[header+i*group+8:], uint64(len(code)))
		b = append(b, code...)
		b = append(b, make([]byte, up(len(b), 8)-len(b))...)
	}
	for _, d := range order {
		b = append(b, make([]byte, places[d]-len(b))...)
		var err error
		if b, err = d.append(b); err != nil {
			return err
		}
	}
	b = append(b, make([]byte, at-len(b))...)
	if _, err := axmodel.Read(bytes.NewReader(b), int64(len(b))); err != nil {
		return err
	}
	_, err := w.Write(b)
	return err
}

func up(n, to int) int { return (n + to - 1) / to * to }

// append appends a weight's values.
func (w *Weight) append(b []byte) ([]byte, error) {
	le := binary.LittleEndian
	v := axmodel.GraphValue{Dims: w.Dims}
	if w.rows() < 1 || w.Type == axcl.Int32 && len(w.Ints) != v.Len() {
		return nil, fmt.Errorf("a constant of %v has %d integers", w.Dims, len(w.Ints))
	}
	for _, v := range w.Ints {
		b = le.AppendUint32(b, uint32(v))
	}
	if w.Type == axcl.Int32 {
		return b, nil
	}
	row := make([]float32, v.Len()/w.Dims[0])
	for r := range w.Dims[0] {
		if err := w.Row(row, r); err != nil {
			return nil, fmt.Errorf("row %d of a constant of %v: %w", r, w.Dims, err)
		}
		for _, v := range row {
			if w.Type == axcl.BF16 {
				b = le.AppendUint16(b, axcl.BFloat16(v))
			} else {
				b = le.AppendUint32(b, math.Float32bits(v))
			}
		}
	}
	return b, nil
}

// encode makes a program.
func encode(g *axmodel.Graph) []byte {
	var b []byte
	u := func(v ...int) {
		for _, v := range v {
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		}
	}
	name := func(s string) { b = append(b, make([]byte, 64)...); copy(b[len(b)-64:], s) }
	dims := func(d []int) {
		u(len(d))
		u(d...)
		u(make([]int, axmodel.MaxGraphRank-len(d))...)
	}
	u(len(g.Inputs), len(g.Outputs), len(g.Constants), len(g.Nodes))
	for _, p := range g.Inputs {
		name(p.Name)
		u(int(p.Type))
		dims(g.Values[p.Value].Dims)
	}
	for i, c := range g.Constants {
		u(int(c.Type))
		dims(g.Values[len(g.Inputs)+i].Dims)
		b = binary.LittleEndian.AppendUint64(b, uint64(c.Offset))
	}
	for _, n := range g.Nodes {
		u(int(n.Op), len(n.In), len(n.Attrs))
		u(n.In...)
		for _, a := range n.Attrs {
			u(int(a))
		}
	}
	for _, p := range g.Outputs {
		name(p.Name)
		u(int(p.Type), p.Value)
	}
	return b
}
