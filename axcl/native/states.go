//go:build cgo && !fake && linux

package native

// SaveState implements axcl.Model.
func (m *model) SaveState(slot uint32, at int, to []byte) error {
	return m.travel(func() error { return m.shape.CheckState(slot, at, len(to)) }, 0, nil)
}

// RestoreState implements axcl.Model.
func (m *model) RestoreState(slot uint32, at int, from []byte) error {
	return m.travel(func() error { return m.shape.CheckState(slot, at, len(from)) }, 0, nil)
}

// CopyState implements axcl.Model.
func (m *model) CopyState(to, from uint32) error {
	return m.travel(func() error { return m.shape.CheckStateCopy(to, from) }, 0, nil)
}
