package soft

import (
	"errors"
	"fmt"
	"slices"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
)

// stack is what one file of a whole decoder computes.
type stack struct {
	layers []*layer
	head   *head
}

// stack is the one that a pass goes through: a whole decoder may have a file for prompts beside one
// for tokens, each with all its weights.
func (m *Model) stack(p *axcl.Pass) ([]*layer, *head) {
	if m.places != nil {
		if file := m.places[m.shape.GroupFor(p.Rows(), p.Reach(m.shape))]; file > 0 {
			return m.more[file-1].layers, m.more[file-1].head
		}
	}
	return m.layers, m.head
}

func bad(path, text string) error {
	return fmt.Errorf("axcl: software card: %w", &axmodel.Error{Path: path, What: text})
}

func named(path string, err error) error {
	var e *axmodel.Error
	if errors.As(err, &e) && e.Path == "" {
		return bad(path, e.What)
	}
	return err
}

// decoder takes a file of a whole decoder.
func (l *loader) decoder(i int, f *file) error {
	path := l.spec.Layers[i]
	d, err := f.meta.Decoder()
	if err == nil && f.Kind == axmodel.Net { // whatever its tensors are called
		err = &axmodel.Error{What: "is a net, not a whole decoder"}
	}
	if err != nil {
		f.unmap()
		return named(path, err)
	}
	s := l.m.open(f) // so that release finds it
	if l.whole == nil {
		l.whole = &d
	} else if err := l.whole.Add(d); err != nil {
		return named(path, err)
	}
	for _, one := range s.layers {
		l.m.share(one)
	}
	l.weights += f.meta.WeightBytes
	return nil
}

// decoders looks at what all the files are together.
func (l *loader) decoders() error {
	shape, run, err := l.whole.Plan()
	switch {
	case err != nil:
		return named(l.spec.Layers[0], err)
	case slices.Contains(l.spec.Local, true):
		return bad(l.spec.Layers[0], "is a whole decoder, which has one mask for all layers: none of them can be local")
	}
	m := l.m
	m.shape = shape
	for _, g := range run {
		m.places = append(m.places, l.whole.Groups[g].File)
	}
	m.shape.Place, m.shape.Argmax = true, true
	return nil
}

// open makes layers and head of a whole decoder's file. The head unmaps it.
func (m *Model) open(f *file) *stack {
	s := &stack{}
	for i, p := range f.Parts {
		part := &file{Soft: p.Soft, meta: p.Meta, path: f.path, bytes: f.bytes[p.Offset : p.Offset+p.FileBytes], unmap: func() {}}
		if i < len(f.Parts)-1 {
			s.layers = append(s.layers, newLayer(part))
			continue
		}
		part.unmap = f.unmap
		s.head = newHead(part, m.device.pool, m.device.set)
	}
	if m.head == nil {
		m.layers, m.head = s.layers, s.head
	} else {
		m.more = append(m.more, s)
	}
	return s
}
