package axmodel

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/axle-llm/axle/axcl"
)

// The vendor's file is an ONNX ModelProto. It is walked in protobuf wire format with small reads at
// the offsets that matter: initializers (gigabytes) are stepped over by their length. Every length
// is checked against what is left of its message before it is believed.

// Limits on what a description may hold; a real one has tens of tensors and names of tens of bytes.
const (
	maxFields  = 1 << 20 // fields looked at in one file
	maxName    = 1 << 10
	maxText    = 1 << 16
	maxTensors = 1 << 10
)

// onnxTypes maps ONNX's element types to AXCL's.
var onnxTypes = map[uint64]axcl.Type{1: axcl.FP32, 2: axcl.Uint8, 3: axcl.Int8, 4: axcl.Uint16, 5: axcl.Int16, 6: axcl.Int32, 7: axcl.Int64,
	9: axcl.Uint8, 10: axcl.FP16,
	11: axcl.FP64, 12: axcl.Uint32, 13: axcl.Uint64, 16: axcl.BF16, 17: axcl.FP8, 18: axcl.FP8, 19: axcl.FP8, 20: axcl.FP8, 21: axcl.Uint4,
	22: axcl.Int4, 23: axcl.FP4}

// wire is a window on a file, for reading messages nested in it. fields counts down over the whole
// file.
type wire struct {
	r      io.ReaderAt
	buf    []byte
	from   int64 // the file offset of buf[0]
	size   int64
	fields int
	store  [4096]byte
}

// field is one field of a message: a varint's value, or where its bytes are.
type field struct {
	num   uint64
	kind  uint64 // protobuf wire type
	value uint64
	at    int64
	end   int64
}

// bytesAt gives up to n bytes at off, from the window or a fresh read.
func (w *wire) bytesAt(off int64, n int) ([]byte, error) {
	n = int(min(int64(n), w.size-off))
	if off < w.from || off+int64(n) > w.from+int64(len(w.buf)) {
		got, err := w.r.ReadAt(w.store[:min(int64(len(w.store)), w.size-off)], off)
		if got < n {
			return nil, &Error{What: fmt.Sprintf("cannot read at %d: %v", off, err), Err: err}
		}
		w.buf, w.from = w.store[:got], off
	}
	return w.buf[off-w.from : off-w.from+int64(n)], nil
}

func (w *wire) varint(at, end int64) (uint64, int64, error) {
	b, err := w.bytesAt(at, int(min(end-at, binary.MaxVarintLen64)))
	if err != nil {
		return 0, 0, err
	}
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, 0, errorf("is no .axmodel, or is damaged: a broken number at byte %d", at)
	}
	return v, at + int64(n), nil
}

// each calls f for every field of the message in [at, end).
func (w *wire) each(at, end int64, f func(field) error) error {
	for at < end {
		if w.fields--; w.fields < 0 {
			return errorf("has more than %d protobuf fields", maxFields)
		}
		key, next, err := w.varint(at, end)
		if err != nil {
			return err
		}
		fl := field{num: key >> 3, kind: key & 7, at: next}
		if fl.num == 0 || fl.num > 1<<29 {
			return errorf("is no .axmodel, or is damaged: field number %d at byte %d", fl.num, at)
		}
		switch fl.kind {
		case 0:
			if fl.value, next, err = w.varint(next, end); err != nil {
				return err
			}
			fl.end = next
		case 1:
			fl.end = next + 8
		case 5:
			fl.end = next + 4
		case 2:
			var n uint64
			if n, fl.at, err = w.varint(next, end); err != nil {
				return err
			}
			//rule:T1 TestHostileFiles false
			if n > uint64(end-fl.at) {
				return errorf("is cut short or damaged: field %d at byte %d claims %d bytes, %d are left", fl.num, at, n, end-fl.at)
			}
			fl.end = fl.at + int64(n)
		default:
			return errorf("is no .axmodel, or is damaged: wire type %d at byte %d", fl.kind, at)
		}
		if fl.end > end {
			return errorf("is cut short or damaged: field %d at byte %d runs past its message", fl.num, at)
		}
		if err := f(fl); err != nil {
			return err
		}
		at = fl.end
	}
	return nil
}

// text reads a string of at most limit bytes.
func (w *wire) text(f field, limit int) (string, error) {
	if f.kind != 2 || f.end-f.at > int64(limit) {
		return "", errorf("is no .axmodel, or is damaged: the text at byte %d is %d bytes long", f.at, f.end-f.at)
	}
	n := int(f.end - f.at)
	if n <= len(w.store) {
		b, err := w.bytesAt(f.at, n)
		return string(b), err
	}
	b := make([]byte, n)
	if got, err := w.r.ReadAt(b, f.at); got < n {
		return "", &Error{What: fmt.Sprintf("cannot read at %d: %v", f.at, err), Err: err}
	}
	return string(b), nil
}

type node struct {
	op      string
	in, out []string
}

func readVendor(r io.ReaderAt, size int64) (*Meta, error) {
	w := &wire{r: r, size: size, fields: maxFields}
	m := &Meta{Vendor: true}
	var producer, doc string
	var ins, outs []axcl.Tensor
	var nodes []node
	graphs, opset := 0, 0
	err := w.each(0, size, func(f field) (err error) {
		switch f.num {
		case 1: // ir_version: the first field of the file
			if f.kind != 0 || f.value == 0 || f.value > 1000 {
				return errorf("is no .axmodel: not an ONNX container")
			}
		case 2:
			producer, err = w.text(f, maxName)
		case 6:
			doc, err = w.text(f, maxText)
		case 7:
			if f.kind != 2 {
				return errorf("is no .axmodel: its graph is no message")
			}
			graphs++
			ins, outs, nodes, err = w.graph(f, m)
		case 8:
			opset++
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case graphs != 1:
		return nil, errorf("is no .axmodel, or is cut short: %d graphs, not one", graphs)
	case len(ins) == 0 || len(outs) == 0:
		return nil, errorf("has %d inputs and %d outputs", len(ins), len(outs))
	}
	m.Tool, m.Groups = toolName(producer, doc), group(ins, outs, nodes)
	return m, nil
}

// toolName makes "Pulsar2 1.6 d9911bc5" of the producer and the lines "Pulsar2 Version: 1.6" and
// "Pulsar2 Commit: d9911bc5".
func toolName(producer, doc string) string {
	parts := []string{producer}
	for line := range strings.Lines(doc) {
		if k, v, ok := strings.Cut(line, ":"); ok && (strings.HasSuffix(k, "Version") || strings.HasSuffix(k, "Commit")) {
			parts = append(parts, strings.TrimSpace(v))
		}
	}
	return strings.TrimSpace(strings.Join(parts, " "))
}

func (w *wire) graph(g field, m *Meta) (ins, outs []axcl.Tensor, nodes []node, err error) {
	weights := map[string]bool{} // initializers may be listed among the inputs
	err = w.each(g.at, g.end, func(f field) error {
		if f.kind != 2 {
			return nil
		}
		switch f.num {
		case 1:
			n, err := w.node(f)
			nodes = append(nodes, n)
			if len(nodes) > maxTensors {
				return errorf("has more than %d nodes", maxTensors)
			}
			return err
		case 5:
			name, size, err := w.initializer(f)
			m.WeightBytes += size
			weights[name] = true
			return err
		case 11, 12:
			t, err := w.valueInfo(f)
			if err != nil {
				return err
			}
			if f.num == 11 {
				ins = append(ins, t)
			} else {
				outs = append(outs, t)
			}
			if len(ins)+len(outs) > maxTensors {
				return errorf("has more than %d inputs and outputs", maxTensors)
			}
		}
		return nil
	})
	kept := ins[:0]
	for _, t := range ins {
		if !weights[t.Name] {
			kept = append(kept, t)
		}
	}
	for _, list := range [][]axcl.Tensor{kept, outs} {
		seen := map[string]bool{}
		for _, t := range list {
			if seen[t.Name] && err == nil {
				err = errorf("tensor %q is there twice", t.Name)
			}
			seen[t.Name] = true
		}
	}
	return kept, outs, nodes, err
}

// initializer gives a weight's name and how many bytes it holds, without reading them.
func (w *wire) initializer(f field) (name string, size int64, err error) {
	err = w.each(f.at, f.end, func(f field) (err error) {
		switch f.num {
		case 8:
			name, err = w.text(f, maxName)
		case 9:
			size += f.end - f.at
		}
		return err
	})
	return name, size, err
}

func (w *wire) node(f field) (n node, err error) {
	err = w.each(f.at, f.end, func(f field) error {
		if f.num != 1 && f.num != 2 && f.num != 4 {
			return nil
		}
		s, err := w.text(f, maxName)
		switch f.num {
		case 1:
			n.in = append(n.in, s)
		case 2:
			n.out = append(n.out, s)
		case 4:
			n.op = s
		}
		if len(n.in)+len(n.out) > maxTensors {
			return errorf("has a node of more than %d tensors", maxTensors)
		}
		return err
	})
	return n, err
}

// valueInfo reads a ValueInfoProto: name, and type → tensor → element type and shape.
func (w *wire) valueInfo(f field) (axcl.Tensor, error) {
	var name string
	var elem uint64
	var shape []int
	tensors := 0
	err := w.each(f.at, f.end, func(f field) (err error) {
		switch {
		case f.num == 1:
			name, err = w.text(f, maxName)
		case f.num == 2 && f.kind == 2:
			return w.each(f.at, f.end, func(f field) error { // TypeProto
				if f.num != 1 || f.kind != 2 {
					return nil
				}
				tensors++
				return w.each(f.at, f.end, func(f field) error { // TypeProto.Tensor
					switch {
					case f.num == 1 && f.kind == 0:
						elem = f.value
					case f.num == 2 && f.kind == 2:
						return w.each(f.at, f.end, func(f field) error { // TensorShapeProto
							if f.num != 1 || f.kind != 2 {
								return nil
							}
							d := uint64(0)
							err := w.each(f.at, f.end, func(f field) error { // Dimension
								if f.num == 1 && f.kind == 0 {
									d = f.value
								}
								return nil
							})
							if err == nil && (d == 0 || d > math.MaxInt32 || len(shape) == maxDims) {
								return errorf("dimension %d of a tensor is %d", len(shape), int64(d))
							}
							shape = append(shape, int(d))
							return err
						})
					}
					return nil
				})
			})
		}
		return err
	})
	if err != nil {
		return axcl.Tensor{}, err
	}
	if name == "" || tensors != 1 {
		return axcl.Tensor{}, errorf("has an input or output %q that is not one named tensor", name)
	}
	return tensor(name, onnxTypes[elem], shape...)
}

// group sorts a graph's inputs and outputs into shape groups. A group's sub-graph is a connected
// part of the graph: where there are several parts that agree in their tensors' names, each is a
// group. Where the nodes do not tell, names do: `mask_2` belongs to group 2 when `mask` is there
// too.
func group(ins, outs []axcl.Tensor, nodes []node) []GroupMeta {
	if gs := byNodes(ins, outs, nodes); gs != nil {
		return gs
	}
	if gs := byNames(ins, outs, len(nodes)); gs != nil {
		return gs
	}
	names := func(ts []axcl.Tensor) (names []string) {
		for _, t := range ts {
			names = append(names, t.Name)
		}
		return names
	}
	return []GroupMeta{{Inputs: ins, Outputs: outs, RawInputs: names(ins), RawOutputs: names(outs)}}
}

// split takes "mask_2" apart: "mask", 2. A name without a number is group 0's.
func split(name string) (string, int) {
	i := strings.LastIndexByte(name, '_')
	if i <= 0 {
		return name, 0
	}
	n, err := strconv.Atoi(name[i+1:])
	if err != nil || n < 0 || n >= maxTensors || strconv.Itoa(n) != name[i+1:] {
		return name, 0
	}
	return name[:i], n
}

func byNames(ins, outs []axcl.Tensor, nodes int) []GroupMeta {
	var groups []GroupMeta
	sets := [2][]axcl.Tensor{ins, outs}
	for side, ts := range sets {
		plain := map[string]bool{}
		for _, t := range ts {
			plain[t.Name] = true
		}
		for _, t := range ts {
			base, g := split(t.Name)
			if g > 0 && !plain[base] && !plain[base+"_0"] && !mayHide(base) {
				base, g = t.Name, 0
			}
			if g == 0 && !plain[base+"_1"] {
				base = t.Name
			}
			if g >= len(ts) {
				return nil
			}
			for len(groups) <= g {
				groups = append(groups, GroupMeta{})
			}
			raw := t.Name
			t.Name = base
			if side == 0 {
				groups[g].Inputs, groups[g].RawInputs = append(groups[g].Inputs, t), append(groups[g].RawInputs, raw)
			} else {
				groups[g].Outputs, groups[g].RawOutputs = append(groups[g].Outputs, t), append(groups[g].RawOutputs, raw)
			}
		}
	}
	if len(groups) < 2 || !alike(groups) {
		return nil
	}
	// One node that takes x and x_1 is a model of two inputs, unless it is plainly a decoder layer.
	if nodes == 1 && find(groups[0].Inputs, "K_cache").Type == axcl.TypeNone {
		return nil
	}
	return groups
}

// mayHide names the inputs that a layer with a state need not list in every group, or in any.
func mayHide(name string) bool { return name == "indices" || name == "mask" }

// alike says whether all groups have tensors of the same names, and puts them in group 0's order.
// Inputs that a group may hide come after those it shares with group 0.
func alike(groups []GroupMeta) bool {
	for i := range groups[1:] {
		g := &groups[i+1]
		if !reorder(groups[0].Inputs, g.Inputs, g.RawInputs) || !reorder(groups[0].Outputs, g.Outputs, g.RawOutputs) {
			return false
		}
	}
	return true
}

func reorder(want, ts []axcl.Tensor, raw []string) bool {
	at := make(map[string]int, len(ts))
	for i, t := range ts {
		at[t.Name] = i
	}
	sorted, names := make([]axcl.Tensor, 0, len(ts)), make([]string, 0, len(ts))
	for _, w := range want {
		i, ok := at[w.Name]
		if !ok && mayHide(w.Name) {
			continue
		}
		if !ok {
			return false
		}
		sorted, names = append(sorted, ts[i]), append(names, raw[i])
		delete(at, w.Name)
	}
	for i, t := range ts {
		if j, left := at[t.Name]; left && j == i && mayHide(t.Name) {
			sorted, names = append(sorted, t), append(names, raw[i])
		}
	}
	if len(sorted) != len(ts) {
		return false
	}
	copy(ts, sorted)
	copy(raw, names)
	return true
}

// components tells of each node which part of the graph it is in: the part's first node.
func components(nodes []node) (root func(i int) int) {
	// Union-find over nodes: the node that makes an inner tensor belongs with those that read it.
	parent := make([]int, len(nodes))
	for i := range parent {
		parent[i] = i
	}
	root = func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	maker := map[string]int{}
	for i, n := range nodes {
		for _, o := range n.out {
			maker[o] = i
		}
	}
	for i, n := range nodes {
		for _, x := range n.in {
			if j, ok := maker[x]; ok {
				a, b := root(i), root(j)
				parent[max(a, b)] = min(a, b)
			}
		}
	}
	return root
}

func byNodes(ins, outs []axcl.Tensor, nodes []node) []GroupMeta {
	root := components(nodes)
	var order []int
	parts := map[int]*GroupMeta{}
	part := func(i int) *GroupMeta {
		i = root(i)
		if parts[i] == nil {
			parts[i] = &GroupMeta{}
			order = append(order, i)
		}
		return parts[i]
	}
	in, out := map[string]axcl.Tensor{}, map[string]axcl.Tensor{}
	for _, t := range ins {
		in[t.Name] = t
	}
	for _, t := range outs {
		out[t.Name] = t
	}
	type place struct {
		part *GroupMeta
		name string
	}
	used, there := map[string]bool{}, map[place]bool{}
	for i, n := range nodes {
		p := part(i)
		add := func(name string, from map[string]axcl.Tensor, to *[]axcl.Tensor, raw *[]string) {
			if t, ok := from[name]; ok && !there[place{p, name}] {
				*to, *raw = append(*to, t), append(*raw, name)
				used[name], there[place{p, name}] = true, true
			}
		}
		for _, x := range n.in {
			add(x, in, &p.Inputs, &p.RawInputs)
		}
		for _, x := range n.out {
			add(x, out, &p.Outputs, &p.RawOutputs)
		}
	}
	if len(order) < 2 || len(order) > len(ins) {
		return nil
	}
	for _, t := range ins {
		if !used[t.Name] {
			return nil
		}
	}
	groups := make([]GroupMeta, len(order))
	for i, r := range order {
		g := parts[r]
		// A part's own number: what all its names end in. The vendor numbers groups so; the order
		// of the nodes is the fallback.
		at := i
		if n := commonSuffix(g); n < len(order) && groups[n].Inputs == nil {
			at = n
		} else {
			for groups[at%len(order)].Inputs != nil {
				at++
			}
			at %= len(order)
		}
		if len(g.Inputs) == 0 || len(g.Outputs) == 0 {
			return nil
		}
		groups[at] = *g
	}
	for i := range groups {
		g := &groups[i]
		for _, list := range [][]axcl.Tensor{g.Inputs, g.Outputs} {
			for j := range list {
				if base, n := split(list[j].Name); n == i && n > 0 || n == 0 && base != list[j].Name {
					list[j].Name = base
				}
			}
		}
	}
	if !alike(groups) {
		return nil
	}
	return groups
}

func commonSuffix(g *GroupMeta) int {
	n := -1
	for _, t := range g.Inputs {
		_, k := split(t.Name)
		if n >= 0 && k != n {
			return maxTensors
		}
		n = k
	}
	if n < 0 {
		return maxTensors
	}
	return n
}
