// Package card has the worker that owns a device, and decides who uses it when.
//
// Each user of a card is a [Tenant]: a text model, a net that is called again and again, or a model
// that is being loaded. A tenant offers pieces of work. The worker gives out turns so that each
// tenant has its share of the card's time. A tenant waits until the others have had as much time as
// itself, and then for at most one piece of each. The package also has what every kind of work
// needs: the watchdog, the count of failed calls, heat, the loss of the card, and checkups. It does
// not depend on any kind of work.
//
// [Open] starts the worker. It is one goroutine, locked to its OS thread from open to close,
// because the vendor's library binds its context to a thread. The caller of Open closes the card.
// Any goroutine may call the methods of a Card, except those that are documented as the worker's.
// Tenants call these within Step, and others within [Card.Do].
package card

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/ranked"
)

// ErrClosed is the error of calls to a closed card.
var ErrClosed = ask.ErrClosed

// Options says how a card is run. The zero value is for normal use.
type Options struct {
	// Clock is the card's clock. It times turns and the worker's periodic work. Nil means the
	// host's monotonic clock. Only the watchdog always uses the host's clock. Any goroutine may
	// call Clock.
	Clock func() time.Duration
	// Watch is the least time that a call may take before the watchdog declares the card lost; 0
	// means 10 s.
	Watch time.Duration
	// Ending, when not nil, is closed when the process is about to end: see Pace.
	Ending <-chan struct{}
	// Check is how often an idle card's tenants are checked (Checker); 0 means every hour, negative
	// means never.
	Check time.Duration
	// Lost is called once, from its own goroutine, when the card is lost.
	Lost func(error)
}

// Card is an open device with the one goroutine that owns it. Close it after the tenants that use
// it.
type Card struct {
	o     Options
	why   string
	start time.Time
	dev   axcl.Device // the worker's
	wake  chan struct{}
	done  chan struct{} // closed when the worker has returned
	dead  chan struct{} // closed when err is set
	watch watchdog
	state state // the worker's
	turns turns // the worker's
	loads *loads

	mu      ranked.Mutex[ranked.Card]
	todo    []*call
	tenants []*entry
	info    axcl.Info
	err     error // why the card takes no more work: ErrClosed, or the cause of its loss
	ending  bool
}

// Open starts the worker, which calls open to open the device. The text that open returns is a
// sentence that says what was chosen. The watchdog watches from the library's first call on: a call
// that does not return within Options.Watch loses the card. Errors: open's (axcl.ErrNoDevice and
// others), axcl.ErrLost.
func Open(open func() (axcl.Device, string, error), o Options) (*Card, error) {
	if o.Watch <= 0 {
		o.Watch = 10 * time.Second
	}
	if o.Check == 0 {
		o.Check = time.Hour
	}
	c := &Card{o: o, start: time.Now(), wake: make(chan struct{}, 1), done: make(chan struct{}), dead: make(chan struct{}),
		watch: watchdog{stuck: make(chan struct{})}}
	c.loads = &loads{c: c}
	c.tenants = []*entry{{t: c.loads, weight: 1}}
	opened := make(chan error, 1)
	//rule:D7 ./engine TestHangAtOpen c.enter(c.o.Watch) => c.enter(3 * c.o.Watch)
	c.enter(c.o.Watch)
	go c.work(open, opened)
	go c.look()
	select {
	case err := <-opened:
		if err != nil {
			return nil, err
		}
		return c, nil
	case <-c.dead:
		return nil, c.Err()
	}
}

// Why says which device was chosen and for what reason.
func (c *Card) Why() string { return c.why }

// Now returns the time by the card's clock, on which all decisions of the worker depend.
func (c *Card) Now() time.Duration {
	if c.o.Clock != nil {
		return c.o.Clock()
	}
	return c.host()
}

// host returns the time by the host's clock, for the watchdog. A clock that advances only by calls
// stands still in a call that hangs.
func (c *Card) host() time.Duration { return time.Since(c.start) }

// Done returns a channel that is closed when the worker has returned. Then the device is closed.
func (c *Card) Done() <-chan struct{} { return c.done }

// Wake makes the worker look for work. A tenant calls it when it has some.
func (c *Card) Wake() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Info returns the card's state, at most ten seconds old, or a minute if the card is working. The
// state is read between pieces and never delays one.
func (c *Card) Info() axcl.Info {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.info
}

// Err returns nil while the card works, else the reason why it does not.
func (c *Card) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Attach gives a tenant turns on the card. Of two tenants that always have work, one of weight 2
// gets twice the seconds of one of weight 1. Detach ends this. After a Detach on the worker (Do),
// the tenant is not called any more. After one elsewhere, a step may still be running.
func (c *Card) Attach(t Tenant, weight float64) {
	c.mu.Lock()
	c.tenants = append(slices.Clone(c.tenants), &entry{t: t, weight: weight})
	c.mu.Unlock()
	c.Wake()
}

// Detach: see Attach.
func (c *Card) Detach(t Tenant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tenants = slices.DeleteFunc(slices.Clone(c.tenants), func(e *entry) bool { return e.t == t })
}

// Used returns how long the tenant has had the card; 0 for one that is not attached.
func (c *Card) Used(t Tenant) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.tenants {
		if e.t == t {
			return time.Duration(e.used.Load())
		}
	}
	return 0
}

// call is a function that runs on the worker, with a caller that waits for it.
type call struct {
	f     func(axcl.Device) error
	began atomic.Bool // or the caller has left
	res   chan error
	kind  Kind // of a Line's call
	takes time.Duration
}

func newCall(f func(axcl.Device) error) *call { return &call{f: f, res: make(chan error, 1)} }

// run makes the call, unless its caller has left.
func (k *call) run(c *Card) (did bool) {
	if k.began.Swap(true) {
		return false
	}
	k.over(c, k.f(c.dev))
	return true
}

// over delivers the result. A fatal error loses the card.
func (k *call) over(c *Card, err error) {
	if axcl.Fatal(err) || errors.Is(err, axcl.ErrTooOld) {
		c.Lose(err)
	}
	k.res <- err
}

// wait waits for the result.
func (k *call) wait(ctx context.Context, c *Card) error {
	c.Wake()
	select {
	case err := <-k.res:
		return err
	case <-c.dead:
	case <-ctx.Done():
		if !k.began.Swap(true) {
			return ctx.Err()
		}
		select {
		case err := <-k.res:
			return err
		case <-c.dead:
		}
	}
	// The worker may be stuck in the library for good, so a result is taken only if it is there.
	select {
	case err := <-k.res:
		return err
	default:
		return c.Err()
	}
}

// Do runs f on the card's goroutine, before the next piece of any tenant, and waits for it. It is
// for urgent calls that take hardly any time. Longer work belongs to a tenant or a Line. A fatal
// error loses the card. Errors: ErrClosed, axcl.ErrLost, ctx's while f has not begun, f's.
func (c *Card) Do(ctx context.Context, f func(axcl.Device) error) error {
	ranked.None()
	k := newCall(f)
	c.mu.Lock()
	if err := cmp.Or(c.err, ctx.Err()); err != nil {
		c.mu.Unlock()
		return err
	}
	c.todo = append(c.todo, k)
	c.mu.Unlock()
	return k.wait(ctx, c)
}

// work is the worker.
func (c *Card) work(open func() (axcl.Device, string, error), opened chan<- error) {
	// The vendor's library binds its context to the thread. The thread is never unlocked: it ends
	// with the goroutine.
	//rule:D16 ./cmd/axle TestOrderlyEnd drop
	runtime.LockOSThread()
	defer close(c.done)
	dev, why, err := open()
	c.exit()
	if err != nil {
		opened <- err
		return
	}
	if c.Err() != nil { // the watchdog has declared the card lost
		_ = dev.Close()
		return
	}
	c.dev, c.why = dev, why
	if g, ok := dev.(interface{ Gone() bool }); ok {
		gone := g.Gone
		c.watch.gone.Store(&gone)
	}
	c.own()
	defer c.Disown()
	if err := c.Refresh(); err != nil {
		_ = dev.Close()
		opened <- err
		return
	}
	//rule:D15 ./cmd/axle TestCardTaken c.info.TotalCMM - c.info.FreeCMM => 0
	c.state.foreign = c.info.TotalCMM - c.info.FreeCMM
	opened <- nil
	c.state.next = c.Now() + infoEvery
	tick := time.NewTicker(infoEvery) // wakes an idle worker, which then reads the card's clock
	defer tick.Stop()
	for {
		did, over, err := c.round()
		if err != nil {
			c.Lose(err)
		}
		if over || err != nil {
			c.shut()
			return
		}
		if did {
			continue
		}
		select {
		case <-c.wake:
		case <-tick.C:
		}
	}
}

// round runs the calls of Do and one piece of a tenant, or, if no tenant has any, a checkup. It
// reports whether it did anything, and whether the card is closed or lost.
func (c *Card) round() (did, over bool, err error) {
	c.mu.Lock()
	todo := c.todo
	c.todo = nil
	c.mu.Unlock()
	for _, k := range todo {
		k.run(c)
	}
	c.mu.Lock()
	over = c.ending || c.err != nil
	tenants := c.tenants
	c.mu.Unlock()
	if over {
		c.fail(ErrClosed)
		return false, true, nil
	}
	if now := c.Now(); now >= c.state.next {
		c.state.next = now + infoEvery - (now-c.state.next)%infoEvery // on a fixed beat, like a ticker
		if c.state.stale(now, c.info.Temperature) {
			if err := c.Refresh(); err != nil {
				return false, false, err
			}
		}
	}
	did, err = c.turn(tenants)
	if did = did || len(todo) > 0; did || err != nil {
		c.state.worked = true
		return did, false, err
	}
	if did, err = c.background(tenants); did || err != nil {
		return did, false, err
	}
	if t := unchecked(tenants, c.Now(), c.o.Check); t != nil {
		return true, false, t.Checkup()
	}
	return false, false, nil
}

// unchecked returns a tenant that is due for a checkup, or nil.
func unchecked(tenants []*entry, now, every time.Duration) Checker {
	for _, e := range tenants {
		//rule:D6 ./engine TestCheckup -t.Checked() >= every => < 0
		if t, ok := e.t.(Checker); ok && every > 0 && now-t.Checked() >= every {
			return t
		}
	}
	return nil
}

// shut ends a load that has begun and closes the device, watched by the watchdog.
func (c *Card) shut() {
	c.loads.end()
	c.enter(c.o.Watch)
	_ = c.dev.Close()
	c.exit()
}

// Lose declares the card lost: everything that waits for it ends with err, and no new work is
// taken.
func (c *Card) Lose(err error) {
	if !errors.Is(err, axcl.ErrLost) {
		err = fmt.Errorf("%w: %w", axcl.ErrLost, err)
	}
	if c.fail(err) && c.o.Lost != nil {
		go c.o.Lost(err)
	}
}

func (c *Card) fail(err error) bool {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return false
	}
	c.err = err
	tenants := c.tenants
	c.mu.Unlock()
	close(c.dead)
	for _, e := range tenants {
		e.t.Fail(err)
	}
	return true
}

// Close ends all work with ErrClosed, and waits until the device is closed. It does not wait for a
// lost card. If the library does not return from closing, Close returns axcl.ErrLost. A second
// Close returns ErrClosed.
func (c *Card) Close() error {
	c.mu.Lock()
	if c.ending {
		c.mu.Unlock()
		return ErrClosed
	}
	c.ending = true
	lost := c.err != nil
	c.mu.Unlock()
	c.Wake()
	if lost {
		return nil
	}
	select {
	case <-c.done:
		return nil
	case <-c.watch.stuck:
		return fmt.Errorf("engine: closing the card did not return within %v: %w", c.o.Watch, axcl.ErrLost)
	}
}
