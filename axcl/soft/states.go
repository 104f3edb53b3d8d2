package soft

// states are the slots of a model whose layers keep a state: each is as Shape.State says, layer after layer. One more than there are slots
// is written where a pass leaves the new state in the slot it reads, and then takes its place: a pass that fails has spoilt nothing.
type states struct {
	slot  [][]byte // slot n at n-1
	spare []byte
	zero  []byte
}

// read is what slot n holds.
func (s *states) read(n uint32) []byte {
	if n == 0 {
		return s.zero
	}
	return s.slot[n-1]
}

// write is where a pass that goes on from a slot leaves the state for another, or for the same.
func (s *states) write(from, to uint32) []byte {
	if from == to {
		return s.spare
	}
	return s.slot[to-1]
}

// done ends a pass.
func (s *states) done(from, to uint32) {
	if from == to {
		s.slot[to-1], s.spare = s.spare, s.slot[to-1]
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

// CopyState implements axcl.Model.
func (m *Model) CopyState(to, from uint32) error {
	if err := m.ready(); err != nil {
		return err
	}
	if err := m.shape.CheckStateCopy(to, from); err != nil {
		return err
	}
	copy(m.states.read(to), m.states.read(from))
	return nil
}
