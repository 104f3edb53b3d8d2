package cache

import (
	"slices"
	"time"

	"github.com/axle-llm/axle/axcl"
)

// Mover carries pieces, one between two passes: rows or bytes of a state, off the card, onto it, or
// within it. It has one answer to calls that fail, whatever is copied and whereto. One that the
// card does not survive is the caller's to end on. Any other counts against the card as a failed
// pass does, the cells that it was to fill are cleared, and what it carried is done without:
// evaluated again, or not kept.
type Mover struct {
	Watched func(call func() error) error // makes a call under the watchdog's eye
	Strike  func(err error) error         // counts a failure; an error where the card does not survive it
	Clear   func(cells []uint32) error    // clears cells; an error is one that the card does not survive
	Now     func() time.Duration
}

// Carry makes the call that moves a piece, and says what it took. into are the cells that it fills.
// It is not ok where the call failed; the error is one that the card does not survive.
func (m *Mover) Carry(into []uint32, call func() error) (took time.Duration, ok bool, err error) {
	begun := m.Now()
	err = m.Watched(call)
	took = m.Now() - begun
	if err == nil || axcl.Fatal(err) {
		return took, err == nil, err
	}
	if err := m.Strike(err); err != nil {
		return took, false, err
	}
	if len(into) > 0 {
		into = slices.Clone(into)
		slices.Sort(into)
		return took, false, m.Clear(into)
	}
	return took, false, nil
}
