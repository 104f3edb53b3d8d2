package engine

import (
	"sync/atomic"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/card"
)

// CardOptions says how a card is run. The zero value is for everyday use.
type CardOptions struct {
	// Clock is the card's clock: passes are timed by it, and what the worker does at times (ask for
	// the card's state, check a model, give up on a disk) is done by it. Nil for the host's
	// monotonic clock. Only the watchdog goes by the host's clock always. Any goroutine may call
	// it.
	Clock func() time.Duration
	// NoSpeculate switches guessing off for every request.
	NoSpeculate bool
	// Watch is the least time a pass may take before the watchdog calls the card lost; 0 means 10
	// s. The limit of a pass is the larger of this and twenty times what the pass should take.
	Watch time.Duration
	// Ending, when not nil, is closed when the process is about to end: a file that is being loaded
	// is then waited for no longer than seconds beyond what it should take, so that a load that
	// hangs does not hold up the end.
	Ending <-chan struct{}
	// Check is how often an idle card is asked whether it still answers as it did at load; 0 means
	// every hour, negative never.
	Check time.Duration
	// CheckWork is how long a card may work until a row with known results is sent along; 0 means
	// three minutes of passes, negative never.
	CheckWork time.Duration
	// Lost is called once, from a goroutine of its own, when the card is lost for good; of several
	// that hold a copy of a model each, when the last one is.
	Lost func(error)
	// Fewer is called so too for a card that is lost while others that hold a copy go on.
	Fewer func(error)
	// Trace is called on the worker after each pass and must not wait for anything; nil costs
	// nothing.
	Trace func(*PassTrace)
}

// Card is an opened device with the one goroutine that owns it, which gives every model on it its
// turns: see package card, whose methods it has. All methods are safe for concurrent use, but for
// those that say that they are the worker's. Close it after the models that use it.
type Card struct {
	*card.Card
	o    CardOptions
	ours atomic.Int64 // card memory that models of this process hold
}

// OpenCard starts the worker, which opens the device by open. why says in a sentence what was
// chosen. The watchdog's eye is on the library's first call already: one that does not return
// within CardOptions.Watch loses the card. Errors: what open gives (axcl.ErrNoDevice and others),
// axcl.ErrLost.
func OpenCard(open func() (axcl.Device, string, error), o CardOptions) (*Card, error) {
	if o.Check == 0 {
		o.Check = time.Hour
	}
	if o.CheckWork == 0 {
		o.CheckWork = 3 * time.Minute
	}
	c, err := card.Open(open, card.Options{Clock: o.Clock, Watch: o.Watch, Ending: o.Ending, Check: o.Check, Lost: o.Lost})
	if err != nil {
		return nil, err
	}
	return &Card{Card: c, o: o}, nil
}

// Why says which device was chosen and for what reason, and whether others have memory of it.
func (c *Card) Why() string {
	if n, others := c.Foreign(); others {
		return c.Card.Why() + ", though " + ask.TakenBefore(n)
	}
	return c.Card.Why()
}
