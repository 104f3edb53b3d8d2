package engine

import (
	"sync/atomic"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/card"
)

// CardOptions says how a card is run. The zero value is for normal use.
type CardOptions struct {
	// Clock is the card's clock. It times passes and the worker's periodic work: reading the card's
	// state, checking a model, giving up on a disk. Nil means the host's monotonic clock. Only the
	// watchdog always uses the host's clock. Any goroutine may call Clock.
	Clock func() time.Duration
	// NoSpeculate switches speculation off for every request.
	NoSpeculate bool
	// Watch is the least time that a pass may take before the watchdog declares the card lost; 0
	// means 10 s. A pass's limit is the larger of Watch and twenty times the expected time.
	Watch time.Duration
	// Ending, when not nil, is closed when the process is about to end. Then a file that is being
	// loaded gets at most three times the expected time, so that a hanging load does not delay the
	// end.
	Ending <-chan struct{}
	// Check is how often an idle card is tested for the answers that it gave at load; 0 means every
	// hour, negative means never.
	Check time.Duration
	// CheckWork is how long a card may work until a pass carries a known row; 0 means three minutes
	// of passes, negative means never.
	CheckWork time.Duration
	// Lost is called once, from its own goroutine, when the card is lost. If several cards hold
	// copies of a model, it is called when the last one is lost.
	Lost func(error)
	// Fewer is called in the same way for a lost card while others with a copy go on.
	Fewer func(error)
	// Host says what work of the host's processor takes, where Clock is virtual and does not see
	// it. With a Clock and no Host, the card computes all LM heads.
	Host HostClock
	// Trace is called on the worker after each pass, and must not wait. Nil costs nothing.
	Trace func(*PassTrace)
}

// HostClock is a virtual clock's view of the host's processor.
type HostClock interface {
	// Takes returns how long it takes to read this many bytes and compute as many products.
	Takes(bytes, products int64) time.Duration
	// WaitUntil moves the clock on to t, if it is not there yet.
	WaitUntil(t time.Duration)
}

// Card is an open device with the one goroutine that owns it. This worker gives every model on the
// card its turns: see package card, whose methods it has. All methods are safe for concurrent use,
// except those documented as the worker's. Close it after the models that use it.
type Card struct {
	*card.Card
	o    CardOptions
	ours atomic.Int64 // bytes of card memory that this process's models hold
}

// OpenCard starts the worker, which calls open to open the device. why is a sentence that says
// which device was chosen. The watchdog watches from the library's first call on: a call that does
// not return within CardOptions.Watch loses the card. Errors: open's (axcl.ErrNoDevice and others),
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

// Why says which device was chosen and for what reason, and whether others use its memory.
func (c *Card) Why() string {
	if n, others := c.Foreign(); others {
		return c.Card.Why() + ", though " + ask.TakenBefore(n)
	}
	return c.Card.Why()
}
