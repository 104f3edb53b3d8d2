package axmodel

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/axle-llm/axle/axcl"
)

// This file writes nets of operations; graph.go reads them.

// GraphData is a constant to write. Its first dimension counts its rows.
type GraphData struct {
	Type axcl.Type // FP32, BF16 or Int32
	Dims []int
	Row  func(dst []float32, r int) error // of numbers: row r, asked for once each, in order
	Ints []int32                          // of integers: all values
}

// WriteGraphs writes a net: h has its tool and flags, each graph is a shape group. data gives what
// its constants are, one list for each graph; equal pointers are written once. Constants' offsets
// are set. It fails with an *Error where graphs and constants do not make a net, or with the error
// of a Row function or of the writer.
func WriteGraphs(w io.Writer, h Header, graphs []*Graph, data [][]*GraphData) error {
	if len(graphs) < 1 || len(graphs) > maxGroups || len(h.Tool) > 64 || len(data) != len(graphs) {
		return errorf("%d groups, 1 to %d are possible; constants of %d; a tool's name of %d bytes", len(graphs), maxGroups, len(data),
			len(h.Tool))
	}
	h.Kind = Net
	s := Soft{Header: h, Graphs: graphs}
	at := int64(headerBytes + len(graphs)*groupBytes)
	for i, g := range graphs {
		if err := g.checkPorts(); err != nil {
			return err
		}
		if len(data[i]) != len(g.Constants) || len(g.Constants) > maxConstants {
			return errorf("group %d has %d constants, of %d there is data", i, len(g.Constants), len(data[i]))
		}
		at += fill(int64(len(g.encode())), 8)
	}
	if err := s.check(); err != nil {
		return err
	}
	places := map[*GraphData]int64{}
	var order []*GraphData
	for i, g := range graphs {
		for k, d := range data[i] {
			v := &g.Values[len(g.Inputs)+k]
			if !slices.Equal(d.Dims, v.Dims) || d.Type != g.Constants[k].Type || v.Int && len(d.Ints) != v.Len() {
				return errorf("group %d: constant %d is %v of %v, its data %v of %v", i, k, v.Dims, g.Constants[k].Type, d.Dims, d.Type)
			}
			if _, ok := places[d]; !ok {
				at = up(at)
				places[d] = at
				order = append(order, d)
				at += int64(v.Len() * typeBits(d.Type) / 8)
			}
			g.Constants[k].Offset = places[d]
		}
	}
	b := encode(h, make([]SoftGroup, len(graphs)), 0, at)[:headerBytes+len(graphs)*groupBytes]
	for i, g := range graphs {
		code := g.encode()
		binary.LittleEndian.PutUint64(b[headerBytes+i*groupBytes:], uint64(len(b)))
		binary.LittleEndian.PutUint64(b[headerBytes+i*groupBytes+8:], uint64(len(code)))
		b = append(append(b, code...), make([]byte, fill(int64(len(code)), 8)-int64(len(code)))...)
	}
	out := newCounter(w)
	out.write(b)
	for _, d := range order {
		out.pad(places[d])
		if err := writeData(out, d); err != nil {
			return err
		}
	}
	out.pad(at)
	if out.err != nil {
		return out.err
	}
	return out.w.Flush()
}

func writeData(out *counter, d *GraphData) error {
	le := binary.LittleEndian
	var b []byte
	if d.Type == axcl.Int32 {
		for _, v := range d.Ints {
			b = le.AppendUint32(b, uint32(v))
		}
		out.write(b)
		return out.err
	}
	v := GraphValue{Dims: d.Dims}
	row := make([]float32, v.Len()/d.Dims[0])
	for r := range d.Dims[0] {
		if err := d.Row(row, r); err != nil {
			return fmt.Errorf("row %d of a constant of %v: %w", r, d.Dims, err)
		}
		b = b[:0]
		for _, v := range row {
			if d.Type == axcl.BF16 {
				b = le.AppendUint16(b, axcl.BFloat16(v))
			} else {
				b = le.AppendUint32(b, math.Float32bits(v))
			}
		}
		out.write(b)
	}
	return out.err
}

// encode makes a program.
func (g *Graph) encode() []byte {
	le := binary.LittleEndian
	var b bytes.Buffer
	u := func(v ...int) {
		for _, v := range v {
			b.Write(le.AppendUint32(nil, uint32(v)))
		}
	}
	name := func(s string) { b.Write(append([]byte(s), make([]byte, 64-len(s))...)) }
	dims := func(d []int) { u(len(d)); u(d...); u(make([]int, MaxGraphRank-len(d))...) }
	u(len(g.Inputs), len(g.Outputs), len(g.Constants), len(g.Nodes))
	for _, p := range g.Inputs {
		name(p.Name)
		u(int(p.Type))
		dims(g.Values[p.Value].Dims)
	}
	for i, c := range g.Constants {
		u(int(c.Type))
		dims(g.Values[len(g.Inputs)+i].Dims)
		b.Write(le.AppendUint64(nil, uint64(c.Offset)))
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
	return b.Bytes()
}
