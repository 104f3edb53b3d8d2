package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/prove"
	"github.com/axle-llm/axle/sampler"
)

// This file finds a card that has begun to compute plausible but wrong results while it works. A
// server that is never idle would never run the hourly checkup. So every few minutes of work, a row
// whose results are known from load joins a pass that has room. This row, the canary, is a text's
// first token, which sees nothing. It costs one row of the head. If no pass has room for a while
// longer, the row gets a pass of its own.

// canaryID is the token of the canary row, the first token of the fixed text.
const canaryID = 7

// canaryFar is how far the results of the row may be from the known ones, relative to their length.
// Other shape groups round differently, by one or two hundredths. Wrong results are off by about
// their own length.
const canaryFar = 0.1

// canaryRow has the results of the row at load. The zero canaryRow was not run.
type canaryRow struct {
	hidden, logits []uint16
	worked         float64 // seconds of passes since the last check
	waited         int     // passes since the check was due
	cell           int32   // its cell in the current pass, or none
	want           int     // its index among the wanted rows of the pass
}

// canary compares the card's results with those at load: the answer to a fixed text while nothing
// runs, and a row with known results while passes run.
type canary struct {
	*core
	sample  []int32          // the card's answer to the fixed text at load; nil: not asked
	checked time.Duration    // when the card was last asked
	checker *sampler.Sampler // finds nonsensical logits
	row     canaryRow
	looked  looked // of the last pass
}

func newCanary(c *core) *canary {
	greedy := sampler.Defaults()
	greedy.Temperature = 0
	checker, _ := sampler.New(greedy, max(c.shape.Out, 2))
	return &canary{core: c, checked: c.card.Now(), checker: checker, row: canaryRow{cell: none}}
}

// learn records the results of the canary row, at load.
func (m *canary) learn() (err error) {
	m.row.cell = none
	if m.card.o.CheckWork < 0 || m.shape.Cells < 2 {
		return nil
	}
	m.row.hidden, m.row.logits, err = m.run()
	if err == nil {
		err = senseless(m.row.hidden)
	}
	if err != nil {
		m.row.hidden = nil
		return fmt.Errorf("engine: a known row at load: %w", err)
	}
	return nil
}

// run runs the canary row alone.
func (m *canary) run() (hidden, logits []uint16, err error) {
	cells, ok := m.cells.Take(nil, 1, 0, false)
	if !ok {
		return nil, nil, errNoCells
	}
	defer m.cells.Give(cells[0])
	slot, back, ok := m.scratch()
	if !ok {
		return nil, nil, errNoCells
	}
	defer back()
	p, results, err := m.trials().Pass(prove.Row{ID: int32(canaryID % m.vocab()), Cell: uint32(cells[0]), To: slot})
	if err != nil {
		return nil, nil, err
	}
	if !m.shape.Whole && m.shape.Out > 0 {
		p.Want, p.Logits = []int{0}, make([]uint16, m.shape.Out)
	}
	if err := m.card.Run(m.model, p, m.costs.predict(m.shape.GroupFor(1, 0), 1)); err != nil {
		return nil, nil, err
	}
	return *results, p.Logits, nil
}

// overdue reports whether the row is due for a check, and whether it has waited long enough to get
// a pass of its own.
func (m *canary) overdue() (due, now bool) {
	if m.row.hidden == nil {
		return false, false
	}
	every := m.card.o.CheckWork.Seconds()
	return m.row.worked >= every, m.row.worked >= every*4/3 && m.row.waited >= 8
}

// add adds the canary row to the pass that was built, if the row is due and the pass becomes no
// more expensive.
func (m *canary) add(b *batch) {
	p := &b.pass
	n := p.Rows()
	due, _ := m.overdue()
	if !due {
		return
	}
	m.row.waited++
	if !m.proven.Mixed || !m.proven.Chunk || b.shares[0].s.repeatable || p.Adapter != 0 || m.cells.Free() == 0 || n%64 == 0 {
		return
	}
	reach := p.Reach(m.shape)
	if g := m.shape.GroupFor(n, reach); g < 0 || m.shape.Groups[g].Rows == 1 || g != m.shape.GroupFor(n+1, reach) {
		return
	}
	row := axcl.Pass{Hidden: make([]uint16, m.shape.Hidden), LayerInputs: make([]uint16, m.layerInputWidth())}
	if m.tokenRow(&row, 0, int32(canaryID%m.vocab())) != nil {
		return
	}
	cells, ok := m.cells.Take(nil, 1, 0, false)
	if !ok {
		return
	}
	m.row.cell, m.row.want = cells[0], len(p.Want)
	b.taken = append(b.taken, cells[0])
	cw, rw := axcl.Words(m.shape.Cells), axcl.Words(n)
	p.Hidden, p.Pos, p.Cell = append(p.Hidden, row.Hidden...), append(p.Pos, make([]uint32, m.shape.Pos)...),
		append(p.Cell, uint32(cells[0]))
	p.LayerInputs = append(p.LayerInputs, row.LayerInputs...)
	p.SeeCells, p.SeeRows = append(p.SeeCells, make([]uint64, cw)...), append(p.SeeRows, make([]uint64, rw)...)
	if m.shape.Local {
		p.LocalCells, p.LocalRows = append(p.LocalCells, make([]uint64, cw)...), append(p.LocalRows, make([]uint64, rw)...)
	}
	if !m.shape.Whole {
		b.hidden = grow(b.hidden, (n+1)*m.shape.Hidden)
		p.HiddenOut = b.hidden
	}
	if m.shape.Out == 0 {
		return
	}
	p.Want = append(p.Want, n)
	b.logits = grow(b.logits, len(p.Want)*m.shape.Out)
	p.Logits = b.logits
	if p.Argmax != nil {
		b.argmax = grow(b.argmax, len(p.Want))
		p.Argmax = b.argmax
	}
}

// remove takes the canary row out of a pass that has run, and checks it. An error means that the
// results of the pass must not be used.
func (m *canary) remove(b *batch) error {
	cell := m.row.cell
	if cell == none {
		return nil
	}
	m.row.cell = none
	n := b.pass.Rows() - 1
	var logits []uint16
	if m.shape.Out > 0 {
		logits = b.pass.Logits[m.row.want*m.shape.Out : (m.row.want+1)*m.shape.Out]
	}
	hidden := logits
	if !m.shape.Whole {
		hidden = b.pass.HiddenOut[n*m.shape.Hidden : (n+1)*m.shape.Hidden]
	}
	switch err := senseless(hidden); {
	case err != nil:
		_ = m.noteRow(hidden, err) // results that are not numbers are handled by spoiled
	case !m.row.as(hidden, logits):
		return fmt.Errorf("%w: a known row in a pass of %d", ErrWrong, n+1)
	}
	m.row.worked, m.row.waited = 0, 0
	m.cells.Give(cell)
	b.taken = b.taken[:len(b.taken)-1]
	return nil
}

// as reports whether the results of the row are the known ones, within canaryFar.
func (k *canaryRow) as(hidden, logits []uint16) bool {
	return prove.Distance(k.hidden, hidden) <= canaryFar && (logits == nil || prove.Distance(k.logits, logits) <= canaryFar)
}

// wrong handles a pass with wrong results for the canary row. If the row alone gives wrong results
// too, the card is lost. Otherwise the pass counts as failed, and nothing builds on the rows in the
// cache, because it is unknown when the errors began.
func (m *lm) wrong(err error) error {
	hidden, logits, e := m.canary.run()
	switch {
	case e == nil && !m.canary.row.as(hidden, logits), errors.Is(e, sampler.ErrBadLogits):
		return err
	case axcl.Fatal(e):
		return e
	}
	if err := m.failed(err); err != nil {
		return err
	}
	for _, s := range m.running {
		m.quit(s, exitRecalled)
	}
	m.distrust()
	return nil
}

// lookCanary runs the row alone if no pass has had room for it.
func (m *lm) lookCanary() error {
	if _, now := m.canary.overdue(); !now {
		return nil
	}
	hidden, logits, err := m.canary.run()
	switch {
	case errors.Is(err, errNoCells):
		return nil
	case axcl.Fatal(err):
		return err
	case err != nil:
		return m.card.Strike(err)
	}
	m.canary.row.worked, m.canary.row.waited = 0, 0
	if err := senseless(hidden); err != nil {
		m.canary.looked = looked{}
		_ = m.canary.noteRow(hidden, err)
		return m.spoiled()
	}
	if !m.canary.row.as(hidden, logits) {
		return fmt.Errorf("%w: a known row, alone", ErrWrong)
	}
	return nil
}
