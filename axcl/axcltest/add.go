package axcltest

import (
	"errors"
	"fmt"

	"github.com/axle-llm/axle/axcl"
)

// checkAdd: what is added to rows between layers is what each layer alone, with the sums made here,
// leads to, in the pass itself and in what later passes read of its cells; rows beside them are as
// without, and what is not allowed is refused.
func checkAdd(t TB, d axcl.Device) {
	for _, y := range models() {
		spec := write(t, y.tiny)
		m := load(t, d, spec)
		ref, stop := reference(t, spec)
		var parts []axcl.Model
		for l := range spec.Layers {
			one := spec
			if one.Layers = spec.Layers[l : l+1]; l+1 < len(spec.Layers) {
				one.Head = ""
			}
			parts = append(parts, load(t, d, one))
		}
		s := m.Shape()
		n, last := min(s.MaxRows(), 6), uint32(s.Layers-1)
		embed := func(token uint64) []uint16 { return Rows(token, 1, s.Hidden) }
		low := func(i int) uint32 { return uint32(i) }
		var whole, byPart, soft, without [][]result
		for i, rows := range append(prompt(4000, 0, n, n, low), prompt(4000, n, 2, 1, low)...) {
			k := uint32(len(rows))
			add := []axcl.Addition{{Layer: 0, Row: k - 1}, {Layer: last, Row: 0}}
			switch {
			case i == 2: // nothing is added to the last, which reads what was
				add = nil
			case k > 3:
				add = []axcl.Addition{{Layer: 0, Row: 1}, {Layer: 0, Row: 2}, {Layer: 0, Row: k - 1}, {Layer: last, Row: 0},
					{Layer: last, Row: k - 2}}
			}
			added := Rows(uint64(4100+i), len(add), s.Hidden)
			for _, x := range []struct {
				m    axcl.Model
				with bool
				to   *[][]result
			}{{ref, true, &soft}, {m, false, &without}, {m, true, &whole}} {
				p := build(s, rows, embed)
				if x.with {
					p.Add, p.Added = add, added
				}
				if err := x.m.Run(p); err != nil {
					t.Fatalf("%s: %v", y.name, err)
				}
				*x.to = append(*x.to, resultsOf(s, p))
			}
			p := build(s, rows, embed)
			p.Add, p.Added = add, added
			if err := inParts(parts, p); err != nil {
				t.Fatalf("%s: %v", y.name, err)
			}
			byPart = append(byPart, resultsOf(s, p))
		}
		if diff := differ(whole, byPart); diff != "" {
			t.Errorf("%s: layer by layer: %s", y.name, diff)
		}
		if diff := differ(whole, soft); diff != "" {
			t.Errorf("%s: on the software card: %s", y.name, diff)
		}
		if diff := differ(whole[:1], without[:1]); diff == "" {
			t.Errorf("%s: what is added changes nothing", y.name)
		}
		checkBadAdd(t, y.name, m, build(s, prompt(4000, 0, n, n, low)[0], embed))
		stop()
		for _, m := range append(parts, m) {
			if err := m.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
	}
}

func resultsOf(s axcl.Shape, p *axcl.Pass) (all []result) {
	for r := range p.Rows() {
		all = append(all, result{hidden: p.HiddenOut[r*s.Hidden:][:s.Hidden], logits: p.Logits[r*s.Out:][:s.Out], argmax: p.Argmax[r]})
	}
	return all
}

// inParts sends a pass through models of a layer each, the last with the head. Additions are made
// here; only for the logits the last part makes its own.
func inParts(parts []axcl.Model, p *axcl.Pass) error {
	q, hidden := *p, p.Hidden
	q.Want, q.Logits, q.Argmax, q.Add, q.Added = nil, nil, nil, nil, nil
	for l, part := range parts {
		q.Hidden, q.HiddenOut = hidden, make([]uint16, len(p.Hidden))
		if err := part.Run(&q); err != nil {
			return fmt.Errorf("layer %d alone: %w", l, err)
		}
		if l == len(parts)-1 {
			q := q
			q.Want, q.Logits, q.Argmax, q.HiddenOut = p.Want, p.Logits, p.Argmax, nil
			q.Add, q.Added = p.SplitAdd(nil, l, l+1)
			if err := part.Run(&q); err != nil {
				return fmt.Errorf("the last layer and the head: %w", err)
			}
		}
		hidden = q.HiddenOut
		width := part.Shape().Hidden
		for i, a := range p.Add {
			if int(a.Layer) == l {
				for k, v := range p.Added[i*width:][:width] {
					at := int(a.Row)*width + k
					hidden[at] = axcl.Sum(hidden[at], v)
				}
			}
		}
	}
	copy(p.HiddenOut, hidden)
	return nil
}

// checkBadAdd: additions that are not allowed are refused before the card is touched.
func checkBadAdd(t TB, name string, m axcl.Model, p *axcl.Pass) {
	s, n := m.Shape(), uint32(p.Rows())
	for i, add := range [][]axcl.Addition{{{Layer: uint32(s.Layers)}}, {{Row: n}}, {{Layer: 1 << 31}}, {{Row: 1 << 31}},
		{{}, {}}, {{Layer: 1}, {Layer: 0}}} {
		p.Add, p.Added = add, make([]uint16, len(add)*s.Hidden)
		if err := m.Run(p); !errors.Is(err, axcl.ErrPass) {
			t.Errorf("%s: bad addition %d: %v", name, i, err)
		}
	}
	p.Add, p.Added = []axcl.Addition{{}}, make([]uint16, s.Hidden+1)
	if err := m.Run(p); !errors.Is(err, axcl.ErrPass) {
		t.Errorf("%s: a value too many: %v", name, err)
	}
}
