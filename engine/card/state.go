package card

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/axle-llm/axle/axcl"
)

// This file has the card's condition: its heat, its memory, and its recent failed calls. All of it
// is the worker's.

// state is what the worker knows of the card's condition.
type state struct {
	hot     bool            // too hot to begin anything new
	foreign int64           // card memory that was in use when the card was opened; not written afterwards
	fails   []time.Duration // when calls failed, within the last minute
	asked   time.Duration   // when the card's state was last asked for
	next    time.Duration   // when to decide next whether to ask for it
	worked  bool            // the card has had work since stale was last asked
}

// A card at hotAt takes no new sequence until it is at coolAt; it resets itself at 120 °C.
const hotAt, coolAt = 100, 90

// foreignLeast is a generous limit for the memory that a card itself uses. More is in use by
// another process.
const foreignLeast = 256 << 20

// Foreign returns the card memory that was in use when the card was opened, and whether that is
// more than a card uses itself. Any goroutine may call it.
func (c *Card) Foreign() (bytes int64, others bool) {
	return c.state.foreign, c.state.foreign > foreignLeast
}

// Hot reports whether the card is too hot to begin anything new (promise D14). It is the worker's.
func (c *Card) Hot() bool { return c.state.hot }

// infoEvery is how old Info may get. To answer, the card runs seven commands on its own Linux, and
// takes no message of this process meanwhile. So a working card is asked only every infoWorking,
// unless its temperature is warmAt or more.
const (
	infoEvery   = 10 * time.Second
	infoWorking = time.Minute
	warmAt      = 80
)

// stale reports whether the card's state must be read again. The worker calls it every infoEvery.
func (s *state) stale(now time.Duration, temperature float64) bool {
	worked := s.worked
	s.worked = false
	return !worked || temperature >= warmAt || now-s.asked > infoWorking-infoEvery/2
}

// Refresh reads the card's state now. It is the worker's. A returned error loses the card.
func (c *Card) Refresh() error {
	c.enter(c.o.Watch)
	info, err := c.dev.Info()
	c.exit()
	c.state.asked = c.Now()
	if err != nil {
		switch {
		case errors.Is(err, axcl.ErrLate): // one slow command of seven on the card's own Linux says little
			if c.info.ID == "" { // while it is opened: its identity is known
				c.tell(info)
			}
			return c.Strike(err)
		//rule:D8 ./engine TestNoLongerThere || errors.Is(err, axcl.ErrNoDevice) =>
		case axcl.Fatal(err) || errors.Is(err, axcl.ErrNoDevice): // the card was there when it was opened
			return err
		}
		return nil
	}
	if c.state.hot {
		//rule:D14 ./engine TestHeat > coolAt => >= hotAt
		c.state.hot = info.Temperature > coolAt
	} else {
		c.state.hot = info.Temperature >= hotAt
	}
	c.tell(info)
	return nil
}

func (c *Card) tell(info axcl.Info) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.info = info
}

// Strike counts a failed call on a card that is still trusted. The third within a minute loses the
// card (promise D4): Strike returns an error. It is the worker's.
func (c *Card) Strike(err error) error {
	now := c.Now()
	recent := c.state.fails[:0]
	for _, t := range c.state.fails {
		if now-t < time.Minute {
			recent = append(recent, t)
		}
	}
	c.state.fails = append(recent, now)
	//rule:D4 ./engine TestExecuteFails 3 => 300
	if len(c.state.fails) >= 3 {
		return fmt.Errorf("engine: three calls failed within a minute: %w: %w", axcl.ErrLost, err)
	}
	return nil
}

// Strikes returns how many failed calls Strike counts. It is the worker's.
func (c *Card) Strikes() int { return len(c.state.fails) }

// Refused counts a failed load as a strike. It does not count one if the card has too little
// memory, or a file is missing or no model. Otherwise the card refuses what it took before. It
// returns err, or an error that loses the card. It is the worker's.
func (c *Card) Refused(err error) error {
	var call *axcl.Error
	if !errors.As(err, &call) || axcl.Fatal(err) || errors.Is(err, axcl.ErrMemory) || errors.Is(err, axcl.ErrModel) ||
		errors.Is(err, axcl.ErrTooOld) {
		return err
	}
	return cmp.Or(c.Strike(err), err)
}
