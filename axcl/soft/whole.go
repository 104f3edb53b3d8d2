package soft

import (
	"context"
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

// stack is the one that a pass goes through: a whole decoder may have a file for prompts beside one for tokens, each with all its weights.
func (m *Model) stack(p *axcl.Pass) ([]*layer, *head) {
	if m.places != nil {
		if file := m.places[m.shape.GroupFor(p.Rows(), p.Reach(m.shape))]; file > 0 {
			return m.more[file-1].layers, m.more[file-1].head
		}
	}
	return m.layers, m.head
}

// loadWhole loads a whole decoder, of which the first file is open.
func (m *Model) loadWhole(ctx context.Context, spec axcl.LoadSpec, first *file) error {
	bad := func(path, text string) error {
		return fmt.Errorf("axcl: software card: %w", &axmodel.Error{Path: path, What: text})
	}
	named := func(path string, err error) error {
		var e *axmodel.Error
		if errors.As(err, &e) && e.Path == "" {
			return bad(path, e.What)
		}
		return err
	}
	var all axmodel.DecoderShape
	var weights int64
	for i, path := range spec.Layers {
		f := first
		if i > 0 {
			var err error
			if f, err = open(path); err != nil {
				return fmt.Errorf("axcl: software card, file %d: %w", i, err)
			}
		}
		d, err := f.meta.Decoder()
		if err == nil && f.Kind == axmodel.Net { // whatever its tensors are called
			err = &axmodel.Error{What: "is a net, not a whole decoder"}
		}
		if err != nil {
			f.unmap()
			return named(path, err)
		}
		s := m.open(f) // so that release finds it
		if err := ctx.Err(); err != nil {
			return err
		}
		if i == 0 {
			all = d
		} else if err := all.Add(d); err != nil {
			return named(path, err)
		}
		for _, l := range s.layers {
			m.share(l)
		}
		weights += f.meta.WeightBytes
		if spec.Progress != nil {
			spec.Progress(i, i+1, len(spec.Layers))
		}
	}
	shape, run, err := all.Plan()
	switch {
	case err != nil:
		return named(spec.Layers[0], err)
	case spec.Head != "":
		return bad(spec.Head, "is a head, and the model a whole decoder, which has its own")
	case slices.Contains(spec.Local, true):
		return bad(spec.Layers[0], "is a whole decoder, which has one mask for all layers: none of them can be local")
	}
	m.shape = shape
	for _, g := range run {
		m.places = append(m.places, all.Groups[g].File)
	}
	m.shape.Place, m.shape.Argmax = true, true
	return m.takeRoom(weights, 0)
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
