package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/sampler"
)

// This file is what follows results that are no numbers, or all alike, and passes that failed. What
// such a pass left in its cells must not stay: a card reads every cell that its shape group
// reaches, and the mask, which is added to a score, hides no NaN. One that is left behind would
// spoil every later pass of every sequence.

// looked notes what the looks at one pass's results found.
type looked struct {
	bad   error // the first that was none; nil when all were sound
	alike bool  // and it was no NaN: values all alike, which a text can have that says nothing
	sound bool  // another sequence's results were as they should be
}

// noteRow notes what a look at a row of results found, and gives err.
func (m *canary) noteRow(row []uint16, err error) error {
	switch {
	case err == nil:
		m.looked.sound = true
	case errors.Is(err, sampler.ErrBadLogits) && m.looked.bad == nil:
		m.looked.bad, m.looked.alike = err, alike(row)
	}
	return err
}

// alike reports whether all values of a row are the same number.
func alike(row []uint16) bool {
	for _, v := range row {
		if v != row[0] {
			return false
		}
	}
	return len(row) > 0 && row[0]&0x7f80 != 0x7f80
}

// senseless is an error where a row holds what is no number, or nothing but one number.
func senseless(row []uint16) error {
	bad := len(row) > 1 && alike(row)
	for _, v := range row {
		bad = bad || v&0x7f80 == 0x7f80
	}
	if bad {
		return fmt.Errorf("engine: hidden state: %w", sampler.ErrBadLogits)
	}
	return nil
}

// unasked looks at rows of a pass that gives no logits, a prompt's that has more to come: what is
// wrong with them would stay in the cache.
func (m *canary) unasked(b *batch, h *share) error {
	if b.pass.HiddenOut == nil {
		return nil
	}
	last := h.row + h.rows() - 1
	row := b.pass.HiddenOut[last*m.shape.Hidden : (last+1)*m.shape.Hidden]
	return m.noteRow(row, senseless(row))
}

// fault ends a sequence that met an error; one whose results made no sense, and whose reader has
// nothing yet, begins anew, once.
func (m *lm) fault(s *seq, err error) {
	if !errors.Is(err, sampler.ErrBadLogits) || s.usage.Output > 0 || s.retried {
		m.end(s, err)
		return
	}
	s.retried = true
	m.quit(s, exitRetried)
}

// errAgain is a token that is not taken before its logits were looked at.
var errAgain = errors.New("engine: the row is to be run again")

// spoiled clears up after a pass with bad results: nothing builds on what lies on the card, all of
// it is cleared, and the card is asked what it said at load. Sequences that run go on from their
// ids. It counts as a strike. The error is one that the card does not survive.
func (m *lm) spoiled() error {
	found := m.canary.looked
	if found.bad == nil || found.alike && found.sound {
		return nil // the pass was sound: it is this one text whose logits are alike
	}
	for _, s := range slices.Clone(m.running) {
		if s.usage.Output > s.sure+1 {
			m.end(s, found.bad) // tokens that were not looked at are with its reader already
			continue
		}
		m.quit(s, exitRecalled)
	}
	m.distrust()
	//rule:D6 TestSpoiledStrikes|TestUsableAfterFaults false
	if !found.alike {
		if err := m.wipe(); err != nil {
			return err
		}
	}
	if _, err := m.canary.check(); err != nil {
		return err
	}
	if found.alike {
		return nil // the card is right about what is known, and such a text can be sent on purpose
	}
	//rule:D6 TestSpoiledStrikes m.card.Strike(found.bad) => nil
	return m.card.Strike(found.bad)
}

// check holds the card's answers to what is known against those it gave at load. It reports whether
// they could be had.
func (m *canary) check() (asked bool, err error) {
	if m.sample == nil && m.row.hidden == nil {
		return true, nil
	}
	if m.sample == nil {
		hidden, logits, err := m.run()
		if err == nil && !m.row.as(hidden, logits) {
			err = fmt.Errorf("%w: a known row", ErrWrong)
		}
		if err == nil || axcl.Fatal(err) || errors.Is(err, ErrWrong) {
			return true, err
		}
		return false, m.card.Strike(err)
	}
	got, err := m.say()
	switch {
	case err == nil:
		return true, differs(got, m.sample)
	case errors.Is(err, errNoCells):
		return true, nil
	case axcl.Fatal(err) || errors.Is(err, sampler.ErrBadLogits):
		return true, err
	}
	return false, m.card.Strike(err)
}
