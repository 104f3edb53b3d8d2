// Package onnx reads what an ONNX file holds: its graphs, their nodes and the numbers of their
// tensors. It runs nothing. It is for the small nets beside a package's own, whose form is known
// and whose weights are wanted.
//
// The bytes are somebody else's: every length is checked against what is there, and a file that is
// larger, deeper or of more parts than the limits say is refused. Values are read where they lie:
// [Read] copies none, so the bytes must stay as they are. All functions may be called from any
// goroutine; nothing is closed.
package onnx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// The limits of a file.
const (
	MaxBytes = 64 << 20
	maxParts = 100_000 // nodes, tensors and attributes
	maxDepth = 8       // graphs within graphs
	maxDims  = 8
)

// Graph is a graph: the nodes in their order, and the tensors that are kept in the file, be it as
// initialisers or as constants among the nodes. Names are unique only within a graph.
type Graph struct {
	Nodes   []Node
	Tensors []Tensor
}

// Node is an operation. A constant with a tensor for its value is none: see [Graph].Tensors.
type Node struct {
	Op              string
	Inputs, Outputs []string
	Attributes      []Attribute
}

// Attribute is a node's setting. The one field is set that its kind has; other kinds leave all
// empty.
type Attribute struct {
	Name   string
	Int    int64
	Ints   []int64
	Text   string
	Tensor *Tensor
	Graph  *Graph // a branch of If, the body of Loop
}

// Tensor has the name under which nodes read it.
type Tensor struct {
	Name        string
	Dims        []int
	typ         int64
	raw, floats []byte // little-endian values, in either of the fields that a file may have them in
	elsewhere   bool   // the values are in another file
}

const float32Type = 1

// Float32s copies the values. They must be float32, as many as the dimensions say, and in the file
// itself.
func (t *Tensor) Float32s() ([]float32, error) {
	n := 1
	for _, d := range t.Dims {
		if d < 0 || d > 0 && n > MaxBytes/4/d {
			return nil, fmt.Errorf("onnx: tensor %.80q: dimensions %v", t.Name, t.Dims)
		}
		n *= d
	}
	b := t.raw
	if b == nil {
		b = t.floats
	}
	switch {
	case t.typ != float32Type:
		return nil, fmt.Errorf("onnx: tensor %.80q is of type %d, not float32 (%d)", t.Name, t.typ, float32Type)
	case t.elsewhere:
		return nil, fmt.Errorf("onnx: tensor %.80q has its values in another file: use a model of one file", t.Name)
	case len(b) != 4*n:
		return nil, fmt.Errorf("onnx: tensor %.80q: %v values take %d bytes, it has %d", t.Name, t.Dims, 4*n, len(b))
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v, nil
}

// Find gives the node's attribute of that name, or an empty one.
func (n *Node) Find(name string) Attribute {
	for _, a := range n.Attributes {
		if a.Name == name {
			return a
		}
	}
	return Attribute{}
}

// Walk calls f for a graph and all graphs within it, the outer ones first.
func (g *Graph) Walk(f func(*Graph)) {
	f(g)
	for i := range g.Nodes {
		for _, a := range g.Nodes[i].Attributes {
			if a.Graph != nil {
				a.Graph.Walk(f)
			}
		}
	}
}

// Read reads a file's graph. Tensors' values stay in the file's bytes.
func Read(file []byte) (*Graph, error) {
	if len(file) > MaxBytes {
		return nil, fmt.Errorf("onnx: a file of %d bytes, at most %d are read", len(file), MaxBytes)
	}
	r := reader{}
	var g *Graph
	err := fields(file, func(f field) error {
		if f.number != 7 || f.wire != lengthWire {
			return nil
		}
		if g != nil {
			return errors.New("two graphs")
		}
		var err error
		g, err = r.graph(f.bytes, 1)
		return err
	})
	if err == nil && g == nil {
		err = errors.New("no graph: it is no ONNX file")
	}
	if err != nil {
		return nil, fmt.Errorf("onnx: %w", err)
	}
	return g, nil
}

// reader counts what it has read.
type reader struct{ parts int }

func (r *reader) part() error {
	if r.parts++; r.parts > maxParts {
		return fmt.Errorf("more than %d nodes, tensors and attributes", maxParts)
	}
	return nil
}

func (r *reader) graph(b []byte, depth int) (*Graph, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("more than %d graphs within each other", maxDepth)
	}
	g := &Graph{}
	err := fields(b, func(f field) error {
		if f.wire != lengthWire {
			return nil
		}
		switch f.number {
		case 1:
			n, err := r.node(f.bytes, depth)
			if err != nil {
				return err
			}
			if t := n.Find("value").Tensor; n.Op == "Constant" && t != nil && len(n.Outputs) == 1 {
				t.Name = n.Outputs[0]
				g.Tensors = append(g.Tensors, *t)
				return nil
			}
			g.Nodes = append(g.Nodes, n)
		case 5:
			t, err := r.tensor(f.bytes)
			if err != nil {
				return err
			}
			g.Tensors = append(g.Tensors, t)
		}
		return nil
	})
	return g, err
}

func (r *reader) node(b []byte, depth int) (Node, error) {
	n := Node{}
	if err := r.part(); err != nil {
		return n, err
	}
	err := fields(b, func(f field) error {
		if f.wire != lengthWire {
			return nil
		}
		switch f.number {
		case 1, 2:
			if err := r.part(); err != nil {
				return err
			}
			if f.number == 1 {
				n.Inputs = append(n.Inputs, string(f.bytes))
			} else {
				n.Outputs = append(n.Outputs, string(f.bytes))
			}
		case 4:
			n.Op = string(f.bytes)
		case 5:
			a, err := r.attribute(f.bytes, depth)
			n.Attributes = append(n.Attributes, a)
			return err
		}
		return nil
	})
	return n, err
}

func (r *reader) attribute(b []byte, depth int) (Attribute, error) {
	a := Attribute{}
	if err := r.part(); err != nil {
		return a, err
	}
	err := fields(b, func(f field) error {
		var err error
		switch {
		case f.number == 1 && f.wire == lengthWire:
			a.Name = string(f.bytes)
		case f.number == 3 && f.wire == varintWire:
			a.Int = int64(f.value)
		case f.number == 4 && f.wire == lengthWire:
			a.Text = string(f.bytes)
		case f.number == 5 && f.wire == lengthWire:
			var t Tensor
			t, err = r.tensor(f.bytes)
			a.Tensor = &t
		case f.number == 6 && f.wire == lengthWire:
			a.Graph, err = r.graph(f.bytes, depth+1)
		case f.number == 8:
			err = f.ints(func(v int64) error {
				a.Ints = append(a.Ints, v)
				return nil
			})
		}
		return err
	})
	return a, err
}

func (r *reader) tensor(b []byte) (Tensor, error) {
	t := Tensor{}
	if err := r.part(); err != nil {
		return t, err
	}
	err := fields(b, func(f field) error {
		switch {
		case f.number == 1:
			return f.ints(func(v int64) error {
				if len(t.Dims) == maxDims || v < 0 || v > MaxBytes {
					return fmt.Errorf("a tensor of more than %d dimensions, or of a dimension of %d", maxDims, v)
				}
				t.Dims = append(t.Dims, int(v))
				return nil
			})
		case f.number == 2 && f.wire == varintWire:
			t.typ = int64(f.value)
		case f.number == 4 && (f.wire == lengthWire || f.wire == fixed32Wire):
			t.floats = append(t.floats, f.bytes...)
		case f.number == 8 && f.wire == lengthWire:
			t.Name = string(f.bytes)
		case f.number == 9 && f.wire == lengthWire:
			t.raw = f.bytes
		case f.number == 14 && f.wire == varintWire:
			t.elsewhere = f.value == 1
		}
		return nil
	})
	return t, err
}
