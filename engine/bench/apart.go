package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/axle-llm/axle/axcl"
)

// Apart is a device whose models run layer by layer: each layer is loaded as a model of its own,
// and each is waited for before the next begins, so that each one's time, and the head's, is
// measured. That costs every layer a round trip over the link, and a pass that wants logits runs
// the last layer twice: the head's time is what the second run takes longer. The tokens are those
// of the device beneath.
//
// As every Device it belongs to one goroutine. Close closes the device beneath.
type Apart struct {
	axcl.Device
	Clock func() time.Duration // what layers are timed by; not nil

	last LayerTimes
}

// LayerTimes says what a pass that ran layer by layer took.
type LayerTimes struct {
	Layers []time.Duration // each, copies to and from it included
	Head   time.Duration
	Again  time.Duration // running the last layer once more
}

// Last is the last pass's times; the slice is the caller's. It is for CardOptions.Trace, which is
// called on the device's goroutine.
func (d *Apart) Last() LayerTimes {
	l := d.last
	l.Layers = append([]time.Duration(nil), l.Layers...)
	return l
}

// Loader implements axcl.Device: a layer is a file, and the head goes with the last one.
func (d *Apart) Loader(spec axcl.LoadSpec) (axcl.Loader, error) {
	if len(spec.Layers) == 0 {
		return nil, fmt.Errorf("bench: %w: no layers", axcl.ErrModel)
	}
	l := &apartLoader{m: &apartModel{d: d}, spec: spec, order: make([]int, len(spec.Layers))}
	if spec.Head != "" {
		l.order = append(l.order, 0)
	}
	for i := range l.order {
		l.order[i] = i
	}
	return l, nil
}

type apartLoader struct {
	m     *apartModel
	spec  axcl.LoadSpec
	order []int
	files int
	done  bool
	over  bool
}

func (l *apartLoader) Order() []int { return l.order }

func (l *apartLoader) Model() axcl.Model {
	if !l.done || l.m.closed {
		return nil
	}
	return l.m
}

func (l *apartLoader) Next(ctx context.Context) (done bool, err error) {
	if l.over {
		return false, axcl.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return false, errors.Join(err, l.Close())
	}
	if l.files++; l.files <= len(l.spec.Layers) {
		if err := l.layer(ctx, l.files-1); err != nil {
			return false, errors.Join(err, l.Close())
		}
	}
	if l.files <= len(l.order) {
		return false, nil
	}
	m := l.m
	m.shape.Piece = axcl.PieceCells(m.shape)
	m.rows = make([]byte, m.shape.Piece*m.shape.KV*4)
	l.done, l.over = true, true
	return true, nil
}

func (l *apartLoader) Close() error {
	if l.over {
		return axcl.ErrClosed
	}
	l.over = true
	return l.m.Close()
}

// layer loads one by itself.
func (l *apartLoader) layer(ctx context.Context, i int) error {
	m, spec, path := l.m, l.spec, l.spec.Layers[i]
	part := axcl.LoadSpec{Layers: []string{path}, Timeout: spec.Timeout, NoInPlace: spec.NoInPlace,
		Slots: cmp.Or(spec.Slots, axcl.DefaultSlots), Beside: spec.Layers}
	if i == len(spec.Layers)-1 {
		part.Slots++ // it runs twice, and goes on from the same state both times
		part.Head = spec.Head
	}
	if i < len(spec.Local) {
		part.Local = spec.Local[i : i+1]
	}
	p, err := axcl.Load(ctx, m.d.Device, part)
	if err != nil {
		return fmt.Errorf("bench: layer %d by itself: %w", i, err)
	}
	m.parts = append(m.parts, p)
	s := p.Shape()
	if s.Whole {
		return fmt.Errorf("bench: %w: %s is a whole decoder, whose layers cannot be timed apart", axcl.ErrModel, path)
	}
	if i == 0 {
		m.shape = s
	}
	if s.Given > 0 {
		return fmt.Errorf("bench: %w: layers of %s have inputs of their own, and cannot be timed apart", axcl.ErrModel, path)
	}
	if a := &m.shape; s.Hidden != a.Hidden || s.KV != a.KV || s.Cells != a.Cells || s.Pos != a.Pos || !slices.Equal(s.Groups, a.Groups) {
		return fmt.Errorf("bench: %w: %s does not belong with layer 0", axcl.ErrModel, path)
	}
	m.shape.Layers, m.shape.Out, m.shape.Argmax = i+1, s.Out, s.Argmax
	if i > 0 {
		m.shape.Linear, m.shape.State = m.shape.Linear+s.Linear, m.shape.State+s.State
	}
	if m.shape.State > 0 {
		m.shape.Slots = cmp.Or(spec.Slots, axcl.DefaultSlots)
	}
	m.shape.Place, m.shape.Local = m.shape.Place && s.Place, m.shape.Local || s.Local
	if i > 0 {
		m.shape.Bytes += s.Bytes
	}
	return nil
}

type apartModel struct {
	d      *Apart
	parts  []axcl.Model
	shape  axcl.Shape
	hidden [2][]uint16
	rows   []byte // of one layer, as they travel
	closed bool
}

func (m *apartModel) Shape() axcl.Shape { return m.shape }

func (m *apartModel) Clear(cells []uint32) error {
	if m.closed {
		return axcl.ErrClosed
	}
	for i, part := range m.parts {
		if err := part.Clear(cells); err != nil {
			return inLayer(err, i)
		}
	}
	return nil
}

// Save brings each layer's share of the rows home.
func (m *apartModel) Save(cells []uint32, to []byte) error {
	if m.closed {
		return axcl.ErrClosed
	}
	if err := m.shape.CheckRows(cells, len(to)); err != nil {
		return err
	}
	return m.each(rowsOf, func(part axcl.Model, nth int) error {
		err := part.Save(cells, m.share(cells))
		for k := range cells {
			here, whole := m.layer(nth, k, to)
			copy(whole, here)
		}
		return err
	})
}

// Restore gives each layer its share of the rows.
func (m *apartModel) Restore(cells []uint32, from []byte) error {
	if m.closed {
		return axcl.ErrClosed
	}
	if err := m.shape.CheckRows(cells, len(from)); err != nil {
		return err
	}
	return m.each(rowsOf, func(part axcl.Model, nth int) error {
		for k := range cells {
			here, whole := m.layer(nth, k, from)
			copy(here, whole)
		}
		return part.Restore(cells, m.share(cells))
	})
}

// share is where one layer's part of the cells' rows lies.
func (m *apartModel) share(cells []uint32) []byte {
	return m.rows[:len(cells)*m.shape.KV*4]
}

// layer is the part of row k of the nth layer that keeps rows, by itself and among the whole rows.
func (m *apartModel) layer(nth, k int, rows []byte) (here, whole []byte) {
	n := m.shape.KV * 4
	return m.rows[k*n:][:n], rows[k*m.shape.RowBytes()+nth*n:][:n]
}

// What a layer takes of a cell, or of a slot: it keeps rows or a state.
func rowsOf(s axcl.Shape) int  { return s.RowBytes() }
func stateOf(s axcl.Shape) int { return s.State }

// each makes a call of every layer that keeps what is meant, told which of those it is.
func (m *apartModel) each(keeps func(axcl.Shape) int, call func(part axcl.Model, nth int) error) error {
	nth := 0
	for i, part := range m.parts {
		if keeps(part.Shape()) == 0 {
			continue
		}
		if err := call(part, nth); err != nil {
			return inLayer(err, i)
		}
		nth++
	}
	return nil
}

// SaveState brings each layer's share of the bytes home.
func (m *apartModel) SaveState(slot uint32, at int, to []byte) error {
	return m.state(slot, at, to, axcl.Model.SaveState)
}

// RestoreState gives each layer its share of the bytes.
func (m *apartModel) RestoreState(slot uint32, at int, from []byte) error {
	return m.state(slot, at, from, axcl.Model.RestoreState)
}

func (m *apartModel) state(slot uint32, at int, bytes []byte, call func(part axcl.Model, slot uint32, at int, bytes []byte) error) error {
	if m.closed {
		return axcl.ErrClosed
	}
	if err := m.shape.CheckState(slot, at, len(bytes)); err != nil {
		return err
	}
	before := 0
	return m.each(stateOf, func(part axcl.Model, _ int) error {
		first := before
		before += part.Shape().State
		from, end := max(at, first), min(at+len(bytes), before)
		if from >= end {
			return nil
		}
		return call(part, slot, from-first, bytes[from-at:end-at])
	})
}

// CopyState copies in each layer that keeps a state.
func (m *apartModel) CopyState(to, from uint32) error {
	if m.closed {
		return axcl.ErrClosed
	}
	if err := m.shape.CheckStateCopy(to, from); err != nil {
		return err
	}
	return m.each(stateOf, func(part axcl.Model, _ int) error { return part.CopyState(to, from) })
}

// Copy copies in each layer.
func (m *apartModel) Copy(to, from []uint32) error {
	if m.closed {
		return axcl.ErrClosed
	}
	if err := m.shape.CheckCopy(to, from); err != nil {
		return err
	}
	return m.each(rowsOf, func(part axcl.Model, _ int) error { return part.Copy(to, from) })
}

func (m *apartModel) Run(p *axcl.Pass) error {
	if m.closed {
		return axcl.ErrClosed
	}
	if err := p.Check(m.shape); err != nil {
		return err
	}
	for i := range m.hidden {
		if n := p.Rows() * m.shape.Hidden; cap(m.hidden[i]) < n {
			m.hidden[i] = make([]uint16, n)
		} else {
			m.hidden[i] = m.hidden[i][:n]
		}
	}
	var sum, t axcl.Timing
	run := func(part axcl.Model, q *axcl.Pass) (time.Duration, error) {
		q.Timing = &t
		at := m.d.Clock()
		err := part.Run(q)
		took := m.d.Clock() - at
		sum.Upload, sum.Enqueue, sum.Wait, sum.Head, sum.Download = sum.Upload+t.Upload, sum.Enqueue+t.Enqueue, sum.Wait+t.Wait,
			sum.Head+t.Head, sum.Download+t.Download
		sum.Calls += t.Calls
		return took, err
	}
	last := &m.d.last
	*last = LayerTimes{Layers: last.Layers[:0]}
	q := *p
	q.Want, q.Logits, q.Argmax = nil, nil, nil
	for i, part := range m.parts {
		q.HiddenOut = m.hidden[i%2]
		if i == len(m.parts)-1 && len(p.Want) > 0 && part.Shape().State > 0 {
			q.To = uint32(part.Shape().Slots)
		}
		q.Add, q.Added = p.SplitAdd(nil, i, i+1)
		took, err := run(part, &q)
		if err != nil {
			return inLayer(err, i)
		}
		last.Layers = append(last.Layers, took)
		if i < len(m.parts)-1 {
			q.Hidden = q.HiddenOut
		}
	}
	if p.HiddenOut != nil {
		copy(p.HiddenOut, q.HiddenOut)
	}
	if len(p.Want) > 0 {
		end := len(m.parts) - 1
		q.Want, q.Logits, q.Argmax, q.HiddenOut, q.To = p.Want, p.Logits, p.Argmax, nil, p.To
		took, err := run(m.parts[end], &q)
		if err != nil {
			return inLayer(err, end)
		}
		last.Again = min(took, last.Layers[end])
		last.Head = took - last.Again
	}
	if p.Timing != nil {
		*p.Timing = sum
	}
	return nil
}

// inLayer gives an error of a part its place in the whole.
func inLayer(err error, layer int) error {
	var e *axcl.Error
	if errors.As(err, &e) && e.Layer == 0 {
		e.Layer = layer
	}
	return err
}

func (m *apartModel) Close() error {
	if m.closed {
		return axcl.ErrClosed
	}
	m.closed = true
	var err error
	for _, p := range m.parts {
		err = cmp.Or(err, p.Close())
	}
	return err
}
