package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/ranked"
)

// CardOptions says how a card is run. The zero value is for everyday use.
type CardOptions struct {
	// Clock is the card's clock: passes are timed by it, and what the worker does at times (ask for the card's state, check a model, give
	// up on a disk) is done by it. Nil for the host's monotonic clock. Only the watchdog goes by the host's clock always. Any goroutine
	// may call it.
	Clock func() time.Duration
	// NoSpeculate switches guessing off for every request.
	NoSpeculate bool
	// Watch is the least time a pass may take before the watchdog calls the card lost; 0 means 10 s. The limit of a pass is the larger of
	// this and twenty times what the pass should take.
	Watch time.Duration
	// Ending, when not nil, is closed when the process is about to end: a file that is being loaded is then waited for no longer than
	// seconds beyond what it should take, so that a load that hangs does not hold up the end.
	Ending <-chan struct{}
	// Check is how often an idle card is asked whether it still answers as it did at load; 0 means every hour, negative never.
	Check time.Duration
	// CheckWork is how long a card may work until a row with known results is sent along; 0 means three minutes of passes, negative never.
	CheckWork time.Duration
	// Lost is called once, from a goroutine of its own, when the card is lost for good; of several that hold a copy of a model each, when
	// the last one is.
	Lost func(error)
	// Fewer is called so too for a card that is lost while others that hold a copy go on.
	Fewer func(error)
	// Trace is called on the worker after each pass and must not wait for anything; nil costs nothing.
	Trace func(*PassTrace)
}

// Card is an opened device with the one goroutine that owns it: it holds its OS thread from open to close, and runs the token loop of
// every model loaded on the card. All methods are safe for concurrent use. Close it after the models that use it.
type Card struct {
	o       CardOptions
	why     string
	start   time.Time
	dev     axcl.Device // the worker's
	wake    chan struct{}
	done    chan struct{} // closed when the worker has returned
	dead    chan struct{} // closed when err is set
	stuck   chan struct{} // closed when a native call did not return in time
	hot     bool          // the worker's: too hot to begin anything new
	foreign int64         // card memory that was in use when the card was opened; not written afterwards
	ours    atomic.Int64  // card memory that models of this process hold
	due     atomic.Int64  // when the running native call must have returned, by host; 0 outside one
	loading atomic.Int64  // of a load: how much longer a process that ends waits for the file; 0 outside one
	rate    float64       // the worker's: bytes a second that the last load took its files at; 0: none was
	allow   atomic.Int64  // how long that was from its beginning
	gone    atomic.Pointer[func() bool]
	fails   []time.Duration // the worker's: when calls failed, the last minute's
	asked   time.Duration   // the worker's: when the card's state was last asked for
	worked  bool            // the worker's: the card has had work since stale was last asked

	mu     ranked.Mutex[ranked.Card]
	todo   []func()
	models []*lm
	info   axcl.Info
	err    error // why the card takes no more work: ErrClosed, or what it was lost to
	ending bool
}

// OpenCard starts the worker, which opens the device by open. why says in a sentence what was chosen. The watchdog's eye is on the
// library's first call already: one that does not return within CardOptions.Watch loses the card. Errors: what open gives
// (axcl.ErrNoDevice and others), axcl.ErrLost.
func OpenCard(open func() (axcl.Device, string, error), o CardOptions) (*Card, error) {
	c := &Card{o: o, start: time.Now(), wake: make(chan struct{}, 1), done: make(chan struct{}), dead: make(chan struct{}),
		stuck: make(chan struct{})}
	if c.o.Watch <= 0 {
		c.o.Watch = 10 * time.Second
	}
	if c.o.Check == 0 {
		c.o.Check = time.Hour
	}
	if c.o.CheckWork == 0 {
		c.o.CheckWork = 3 * time.Minute
	}
	opened := make(chan error, 1)
	//rule:D7 TestHangAtOpen c.enter(c.o.Watch) => c.enter(3 * c.o.Watch)
	c.enter(c.o.Watch)
	go c.work(open, opened)
	go c.watch()
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

// now is the card's clock, which everything that the worker decides goes by.
func (c *Card) now() time.Duration {
	if c.o.Clock != nil {
		return c.o.Clock()
	}
	return c.host()
}

// host is the host's clock, which the watchdog goes by: a clock that only calls move stands still in a call that hangs.
func (c *Card) host() time.Duration { return time.Since(c.start) }

func (c *Card) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Do runs f on the card's goroutine, between passes, and waits for it. An error that the card does not survive ends it. Errors: ErrClosed,
// axcl.ErrLost, ctx's while f has not begun, f's.
func (c *Card) Do(ctx context.Context, f func(axcl.Device) error) error {
	ranked.None()
	res := make(chan error, 1)
	var began atomic.Bool
	c.mu.Lock()
	if err := c.err; err != nil {
		c.mu.Unlock()
		return err
	}
	c.todo = append(c.todo, func() {
		if !began.Swap(true) {
			err := f(c.dev)
			if axcl.Fatal(err) || errors.Is(err, axcl.ErrTooOld) {
				c.lose(err)
			}
			res <- err
		}
	})
	c.mu.Unlock()
	c.wakeUp()
	select {
	case err := <-res:
		return err
	case <-c.dead:
	case <-ctx.Done():
		if !began.Swap(true) {
			return ctx.Err()
		}
		select {
		case err := <-res:
			return err
		case <-c.dead:
		}
	}
	// The worker may be stuck in the library for good: an answer that is there is taken, none is waited for.
	select {
	case err := <-res:
		return err
	default:
		return c.Err()
	}
}

// Info is the card's state, at most ten seconds old, or a minute where the card works: it is read between passes and never holds one up.
func (c *Card) Info() axcl.Info {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.info
}

// Err is nil while the card works, and says why when it does not.
func (c *Card) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// A card at hotAt takes no new sequence until it is at coolAt; it resets itself at 120 °C.
const hotAt, coolAt = 100, 90

// foreignLeast is card memory that a card has in use by itself, generously: what is beyond belongs to somebody.
const foreignLeast = 256 << 20

// refresh reads the card's state. The error is one that the card does not survive.
func (c *Card) refresh() error {
	c.enter(c.o.Watch)
	info, err := c.dev.Info()
	c.exit()
	c.asked = c.now()
	if err != nil {
		switch {
		case errors.Is(err, axcl.ErrLate): // seven commands on the card's own Linux: that one of them is slow says little
			if c.info.ID == "" { // as it is opened: which card it is is known
				c.tell(info)
			}
			return c.strike(err)
		//rule:D8 TestNoLongerThere || errors.Is(err, axcl.ErrNoDevice) =>
		case axcl.Fatal(err) || errors.Is(err, axcl.ErrNoDevice): // it was there when it was opened
			return err
		}
		return nil
	}
	if c.hot {
		//rule:D14 TestHeat > coolAt => >= hotAt
		c.hot = info.Temperature > coolAt
	} else {
		c.hot = info.Temperature >= hotAt
	}
	c.tell(info)
	return nil
}

func (c *Card) tell(info axcl.Info) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.info = info
}

// enter and exit frame a call into the library for the watchdog: it may take so long.
func (c *Card) enter(limit time.Duration) {
	c.allow.Store(int64(limit))
	c.due.Store(int64(c.host() + limit))
}

func (c *Card) exit() { c.due.Store(0) }

// strike counts a call that failed on a card that goes on. The third within a minute is one that the card does not survive (promise D4).
func (c *Card) strike(err error) error {
	now := c.now()
	recent := c.fails[:0]
	for _, t := range c.fails {
		if now-t < time.Minute {
			recent = append(recent, t)
		}
	}
	c.fails = append(recent, now)
	//rule:D4 TestExecuteFails 3 => 300
	if len(c.fails) >= 3 {
		return fmt.Errorf("engine: three calls failed within a minute: %w: %w", axcl.ErrLost, err)
	}
	return nil
}

// refused counts a load that failed, unless the card has too little memory for it, or a file is missing or no model: then it is the card
// that does not take what it took before. The error it gives is err, or one that the card does not survive.
func (c *Card) refused(err error) error {
	var call *axcl.Error
	if !errors.As(err, &call) || axcl.Fatal(err) || errors.Is(err, axcl.ErrMemory) || errors.Is(err, axcl.ErrModel) ||
		errors.Is(err, axcl.ErrTooOld) {
		return err
	}
	return cmp.Or(c.strike(err), err)
}

// infoEvery is how old Info may get. The card runs seven commands on its own Linux to answer, and takes no message of this process
// meanwhile: a card at work is asked every infoWorking only, unless it is at warmAt.
const (
	infoEvery   = 10 * time.Second
	infoWorking = time.Minute
	warmAt      = 80
)

// stale: the card's state is to be read again. The worker asks every infoEvery.
func (c *Card) stale() bool {
	worked := c.worked
	c.worked = false
	return !worked || c.info.Temperature >= warmAt || c.now()-c.asked > infoWorking-infoEvery/2
}

// work is the worker.
func (c *Card) work(open func() (axcl.Device, string, error), opened chan<- error) {
	// The vendor's library binds its context to the thread. The thread is not given back: it ends with the goroutine.
	//rule:D16 ./cmd/axle TestOrderlyEnd drop
	runtime.LockOSThread()
	defer close(c.done)
	dev, why, err := open()
	c.exit()
	if err != nil {
		opened <- err
		return
	}
	if c.Err() != nil { // the watchdog gave up on it, and so did everybody else
		_ = dev.Close()
		return
	}
	c.dev, c.why = dev, why
	if g, ok := dev.(interface{ Gone() bool }); ok {
		gone := g.Gone
		c.gone.Store(&gone)
	}
	c.own()
	defer c.disown()
	if err := c.refresh(); err != nil {
		_ = dev.Close()
		opened <- err
		return
	}
	//rule:D15 ./cmd/axle TestCardTaken c.info.TotalCMM - c.info.FreeCMM => 0
	if c.foreign = c.info.TotalCMM - c.info.FreeCMM; c.foreign > foreignLeast {
		c.why += ", though " + ask.TakenBefore(c.foreign)
	}
	opened <- nil
	next := c.now() + infoEvery
	tick := time.NewTicker(infoEvery) // wakes an idle worker, which then looks at the card's clock
	defer tick.Stop()
	for turn := 0; ; turn++ {
		c.mu.Lock()
		todo := c.todo
		c.todo = nil
		models := c.models
		ending, lost := c.ending, c.err != nil
		c.mu.Unlock()
		for _, f := range todo {
			f()
		}
		if ending || lost {
			c.fail(ErrClosed)
			c.shut()
			return
		}
		if now := c.now(); now >= next {
			next = now + infoEvery - (now-next)%infoEvery // as a ticker does, which keeps its beat
			if c.stale() {
				if err := c.refresh(); err != nil {
					c.lose(err)
					c.shut()
					return
				}
			}
		}
		worked := len(todo) > 0
		for i := range models {
			did, err := models[(turn+i)%len(models)].step()
			if err != nil {
				c.lose(err)
				c.shut()
				return
			}
			if did {
				worked = true
				break
			}
		}
		if worked {
			c.worked = true
			continue
		}
		for _, m := range models {
			did, err := m.idle()
			if err != nil {
				c.lose(err)
				c.shut()
				return
			}
			worked = worked || did
		}
		if worked {
			continue
		}
		if m := c.unchecked(models); m != nil {
			if err := m.checkup(); err != nil {
				c.lose(err)
				c.shut()
				return
			}
			continue
		}
		select {
		case <-c.wake:
		case <-tick.C:
		}
	}
}

// unchecked is a model that is due for a checkup, or nil.
func (c *Card) unchecked(models []*lm) *lm {
	if now := c.now(); c.o.Check > 0 {
		for _, m := range models {
			//rule:D6 TestCheckup -m.checked >= c.o.Check => < 0
			if now-m.checked >= c.o.Check {
				return m
			}
		}
	}
	return nil
}

// run is one pass under the watchdog's eye.
func (c *Card) run(m axcl.Model, p *axcl.Pass, expect time.Duration) error {
	c.owned()
	//rule:G11 TestJitter max(c.o.Watch, 20*expect) => c.o.Watch
	//rule:D7 TestHang$ c.enter(max(c.o.Watch, 20*expect)) => c.enter(3 * max(c.o.Watch, 20*expect))
	c.enter(max(c.o.Watch, 20*expect))
	err := m.Run(p)
	c.exit()
	if c.Err() != nil && err == nil {
		// The watchdog gave up on this very call: the streams have ended.
		return axcl.ErrLost
	}
	return err
}

// clear is axcl.Model's Clear under the watchdog's eye.
func (c *Card) clear(m axcl.Model, cells []uint32) error {
	return c.watched(func() error { return m.Clear(cells) })
}

// watched is a call that takes no longer than a pass, or a piece of rows, under the watchdog's eye.
func (c *Card) watched(call func() error) error {
	c.enter(c.o.Watch)
	err := call()
	c.exit()
	if c.Err() != nil && err == nil {
		return axcl.ErrLost
	}
	return err
}

// unload takes a model off the card under the watchdog's eye: no file is read for it, so it is given a pass's time.
func (c *Card) unload(m axcl.Model) error {
	//rule:D7 TestHangAtClose drop
	c.enter(c.o.Watch)
	defer c.exit()
	return m.Close()
}

// shut closes the device under the watchdog's eye.
func (c *Card) shut() {
	c.enter(c.o.Watch)
	_ = c.dev.Close()
	c.exit()
}

// watch ends the card when a native call does not return, and when its link is seen to be gone, whether a call is under way or not.
func (c *Card) watch() {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var ending time.Duration
	for n := 1; ; n++ {
		select {
		case <-c.done:
			return
		case <-tick.C:
		}
		if c.late(c.host(), &ending) {
			c.lose(fmt.Errorf("engine: a call did not return within %v: %w", time.Duration(c.allow.Load()), axcl.ErrLost))
			close(c.stuck)
			return
		}
		//rule:D8 TestLinkSeen n%10 == 0 => false
		if gone := c.gone.Load(); gone != nil && n%10 == 0 && c.Err() == nil && (*gone)() {
			c.lose(fmt.Errorf("engine: the link to the card is gone: %w", axcl.ErrLost))
			c.wakeUp()
		}
	}
}

// lose ends every sequence with err and takes no more work. It is final.
func (c *Card) lose(err error) {
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
	models := c.models
	c.mu.Unlock()
	close(c.dead)
	for _, m := range models {
		m.fail(err)
	}
	return true
}

// Close ends all work with ErrClosed, and waits until the device is closed, unless it was lost: then, and when the library does not return
// from closing, it is left alone. Errors: axcl.ErrLost for the latter; a second Close returns ErrClosed.
func (c *Card) Close() error {
	c.mu.Lock()
	if c.ending {
		c.mu.Unlock()
		return ErrClosed
	}
	c.ending = true
	lost := c.err != nil
	c.mu.Unlock()
	c.wakeUp()
	if lost {
		return nil
	}
	select {
	case <-c.done:
		return nil
	case <-c.stuck:
		return fmt.Errorf("engine: closing the card did not return within %v: %w", c.o.Watch, axcl.ErrLost)
	}
}

// attach puts a loaded model under the worker's care; detach ends it. Both run on the worker.
func (c *Card) attach(m *lm) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.models = append(append([]*lm(nil), c.models...), m)
}

func (c *Card) detach(m *lm) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var rest []*lm
	for _, o := range c.models {
		if o != m {
			rest = append(rest, o)
		}
	}
	c.models = rest
}

// fail ends every sequence of the model. It may be called while the worker is stuck in a native call, so it touches nothing of the
// worker's but the mailboxes.
func (m *lm) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closing == nil {
		m.closing = err
	}
	if err != ErrClosed {
		m.stats.State = "lost"
	}
	for s := range m.open {
		s.box.fail(err)
	}
	clear(m.open)
	m.queue = nil
}
