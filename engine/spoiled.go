package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/sampler"
)

// This file handles passes that failed, and results that are not numbers or are all alike. The rows
// of such a pass must not stay in its cells. A card reads every cell that its shape group reaches,
// and the mask, which is added to a score, hides no NaN. One NaN left in a cell would spoil every
// later pass of every sequence.

// looked is what the checks of one pass's results found.
type looked struct {
	bad   error // the first error; nil: all results were sound
	alike bool  // the bad row had no NaN but equal values, as a meaningless text may give
	sound bool  // another row's results were sound
}

// noteRow records the check of a row of results, and returns err.
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

// senseless returns an error if a row holds a value that is not a finite number, or if all its
// values are equal.
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

// unasked checks a row of a pass without logits, such as a chunk of a prompt that has more to come.
// An error in it would stay in the cache.
func (m *canary) unasked(b *batch, h *share) error {
	if b.pass.HiddenOut == nil {
		return nil
	}
	last := h.row + h.rows() - 1
	row := b.pass.HiddenOut[last*m.shape.Hidden : (last+1)*m.shape.Hidden]
	return m.noteRow(row, senseless(row))
}

// fault ends a sequence that met an error. If its results made no sense and its reader has no
// tokens yet, the sequence begins anew, once.
func (m *lm) fault(s *seq, err error) {
	if !errors.Is(err, sampler.ErrBadLogits) || s.usage.Output > 0 || s.retried {
		m.end(s, err)
		return
	}
	s.retried = true
	m.quit(s, exitRetried)
}

// errAgain says that a token is not taken before its logits are checked.
var errAgain = errors.New("engine: the row is to be run again")

// spoiled cleans up after a pass with bad results. Nothing builds on the rows on the card: all
// cells are cleared, and the card is asked again for the answers that it gave at load. Running
// sequences continue from their ids. It counts as a strike. An error means that the card is lost.
func (m *lm) spoiled() error {
	found := m.canary.looked
	if found.bad == nil || found.alike && found.sound {
		return nil // the pass was sound: only this text has equal logits
	}
	for _, s := range slices.Clone(m.running) {
		if s.usage.Output > s.sure+1 {
			m.end(s, found.bad) // its reader already has tokens that were not checked
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
		return nil // the card's known answers are right, and such a text can be sent on purpose
	}
	//rule:D6 TestSpoiledStrikes m.card.Strike(found.bad) => nil
	return m.card.Strike(found.bad)
}

// check compares the card's answers with those it gave at load. asked is false if the card could
// not be asked.
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
