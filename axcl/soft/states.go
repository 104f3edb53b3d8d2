package soft

import (
	"fmt"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
)

// shapeOf is the layers' shape; those beside them are read where that is needed.
func shapeOf(all *axmodel.Layers, spec axcl.LoadSpec) (axcl.Shape, error) {
	for _, path := range spec.Beside {
		if all.Full.Cells > 0 {
			break
		}
		meta, err := axmodel.ReadFile(path)
		if err == nil {
			err = all.Beside(meta)
		}
		if err != nil {
			return axcl.Shape{}, fmt.Errorf("axcl: software card: %w", &axmodel.Error{Path: path, What: err.Error()})
		}
	}
	s, err := all.Shape(spec.Slots)
	if err != nil {
		return s, fmt.Errorf("axcl: software card: %w", &axmodel.Error{Path: spec.Layers[0], What: err.Error()})
	}
	return s, nil
}

// states are the slots of a model whose layers keep a state: each is as Shape.State says, layer
// after layer. One more than there are slots is written where a pass leaves the new state in the
// slot it reads, and then takes its place: a pass that fails has spoilt nothing.
type states struct {
	slot  [][]byte // slot n at n-1
	spare []byte
	zero  []byte
	k     int // bytes of a layer's K_cache, before its V_cache
}

// bytes is what make allocates.
func (*states) bytes(s axcl.Shape) int64 { return int64(s.State) * int64(s.Slots+2) }

func (s *states) make(shape axcl.Shape) {
	if shape.State == 0 {
		return
	}
	s.spare, s.zero = make([]byte, shape.State), make([]byte, shape.State)
	for range shape.Slots {
		s.slot = append(s.slot, make([]byte, shape.State))
	}
}

// read is what slot n holds.
func (s *states) read(n uint32) []byte {
	if n == 0 {
		return s.zero
	}
	return s.slot[n-1]
}

// begin is what a pass reads and where it leaves the new state; nil, both, in a model without
// states.
func (s *states) begin(p *axcl.Pass) (from, to []byte) {
	switch {
	case s.zero == nil:
		return nil, nil
	case p.From == p.To:
		return s.read(p.From), s.spare
	}
	return s.read(p.From), s.read(p.To)
}

// done ends a pass that did not fail.
func (s *states) done(p *axcl.Pass) {
	if s.zero != nil && p.From == p.To {
		s.slot[p.To-1], s.spare = s.spare, s.slot[p.To-1]
	}
}

// SaveState implements axcl.Model.
func (m *Model) SaveState(slot uint32, at int, to []byte) error {
	if err := m.ready(); err != nil {
		return err
	}
	if err := m.shape.CheckState(slot, at, len(to)); err != nil {
		return err
	}
	copy(to, m.states.read(slot)[at:])
	return nil
}

// RestoreState implements axcl.Model.
func (m *Model) RestoreState(slot uint32, at int, from []byte) error {
	if err := m.ready(); err != nil {
		return err
	}
	if err := m.shape.CheckState(slot, at, len(from)); err != nil {
		return err
	}
	copy(m.states.read(slot)[at:], from)
	return nil
}

// runLinear computes a layer that keeps a state: from is what it goes on from, to where it leaves
// the new one, never the same memory.
func (m *Model) runLinear(l *layer, n int, from, to []byte) {
	k := m.states.k
	m.engine.runLinear(l, n, m.hidden[1-m.at], m.hidden[m.at], held{from[:k], from[k:]}, held{to[:k], to[k:]})
	m.at = 1 - m.at
}
