package card

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/axle-llm/axle/axcl"
)

// This file is how the card is: its heat, its memory, and how many calls of late failed. All of it
// is the worker's.

// state is what the worker knows of how the card is.
type state struct {
	hot     bool            // too hot to begin anything new
	foreign int64           // card memory that was in use when the card was opened; not written afterwards
	fails   []time.Duration // when calls failed, the last minute's
	asked   time.Duration   // when the card's state was last asked for
	next    time.Duration   // when it is to be looked whether it should be asked for
	worked  bool            // the card has had work since stale was last asked
}

// A card at hotAt takes no new sequence until it is at coolAt; it resets itself at 120 °C.
const hotAt, coolAt = 100, 90

// foreignLeast is card memory that a card has in use by itself, generously: what is beyond belongs
// to somebody.
const foreignLeast = 256 << 20

// Foreign is card memory that was in use when the card was opened, and whether that is more than a
// card has in use by itself. Any goroutine may ask.
func (c *Card) Foreign() (bytes int64, others bool) {
	return c.state.foreign, c.state.foreign > foreignLeast
}

// Hot reports whether the card is too hot to begin anything new (promise D14). It is the worker's.
func (c *Card) Hot() bool { return c.state.hot }

// infoEvery is how old Info may get. The card runs seven commands on its own Linux to answer, and
// takes no message of this process meanwhile: a card at work is asked every infoWorking only,
// unless it is at warmAt.
const (
	infoEvery   = 10 * time.Second
	infoWorking = time.Minute
	warmAt      = 80
)

// stale: the card's state is to be read again. The worker asks every infoEvery.
func (s *state) stale(now time.Duration, temperature float64) bool {
	worked := s.worked
	s.worked = false
	return !worked || temperature >= warmAt || now-s.asked > infoWorking-infoEvery/2
}

// Refresh reads the card's state now. It is the worker's. The error is one that the card does not
// survive.
func (c *Card) Refresh() error {
	c.enter(c.o.Watch)
	info, err := c.dev.Info()
	c.exit()
	c.state.asked = c.Now()
	if err != nil {
		switch {
		case errors.Is(err, axcl.ErrLate): // seven commands on the card's own Linux: that one of them is slow says little
			if c.info.ID == "" { // as it is opened: which card it is is known
				c.tell(info)
			}
			return c.Strike(err)
		//rule:D8 ./engine TestNoLongerThere || errors.Is(err, axcl.ErrNoDevice) =>
		case axcl.Fatal(err) || errors.Is(err, axcl.ErrNoDevice): // it was there when it was opened
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

// Strike counts a call that failed on a card that goes on. The third within a minute is one that
// the card does not survive (promise D4). It is the worker's.
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

// Strikes is how many calls failed by Strike's account. It is the worker's.
func (c *Card) Strikes() int { return len(c.state.fails) }

// Refused counts a load that failed, unless the card has too little memory for it, or a file is
// missing or no model: then it is the card that does not take what it took before. The error it
// gives is err, or one that the card does not survive. It is the worker's.
func (c *Card) Refused(err error) error {
	var call *axcl.Error
	if !errors.As(err, &call) || axcl.Fatal(err) || errors.Is(err, axcl.ErrMemory) || errors.Is(err, axcl.ErrModel) ||
		errors.Is(err, axcl.ErrTooOld) {
		return err
	}
	return cmp.Or(c.Strike(err), err)
}
