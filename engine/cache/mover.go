package cache

import (
	"slices"
	"time"

	"github.com/axle-llm/axle/axcl"
)

// Mover copies pieces between passes: rows or bytes of a state, to the card, from it, or within it.
// It handles failed calls in one way. A fatal error is returned to the caller. Any other counts as
// a strike, like a failed pass. The cells that the call was to fill are cleared, and the piece is
// given up: it is evaluated again, or not saved.
type Mover struct {
	Watched func(call func() error) error // makes a call, watched by the watchdog
	Strike  func(err error) error         // counts a failure; returns an error if the card is lost
	Clear   func(cells []uint32) error    // clears cells; an error loses the card
	Now     func() time.Duration
}

// Carry makes the call that copies a piece, and returns how long it took. into are the cells that
// it fills. ok is false if the call failed. A returned error loses the card.
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
