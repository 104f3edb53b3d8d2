package card

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/axle-llm/axle/axcl"
)

// This file is the watchdog: a call into the library that does not return in time loses the card.

// FileLimit is what a call that loads a file may take, whatever the file.
const FileLimit = 3 * time.Minute

// A call that loads a file, or makes room for a model, may rightly take long, and says nothing
// meanwhile. How long depends on the file, the disk and the card: so it is measured, file by file,
// and a call counts as hanging once it takes as long as the package's largest file would at a tenth
// of what was measured.
const (
	usualRate = 50e6  // bytes a second, until something was measured
	bestRate  = 100e6 // no more is believed: a file that was read before comes out of memory, the next one from a slow disk
	// A process that is told to end waits for a file that is being loaded, since a card that loses
	// its host then may want a power cycle; but only for this many times what it should take.
	endingTimes = 3
	endingLeast = 2 * time.Second
)

// watchdog is what is known of the call under way.
type watchdog struct {
	stuck   chan struct{} // closed when a call did not return in time
	due     atomic.Int64  // when it must have returned, by host; 0 outside one
	allow   atomic.Int64  // how long that was from its beginning
	loading atomic.Int64  // of a load: how much longer a process that ends waits for the file; 0 outside one
	rate    float64       // the worker's: bytes a second that the last load took its files at; 0: none was
	gone    atomic.Pointer[func() bool]
}

// enter and exit frame a call into the library: it may take so long.
func (c *Card) enter(limit time.Duration) {
	c.watch.allow.Store(int64(limit))
	c.watch.due.Store(int64(c.host() + limit))
}

func (c *Card) exit() { c.watch.due.Store(0) }

// Run is one pass under the watchdog's eye: it may take the larger of Options.Watch and twenty
// times what it should. It is the worker's.
func (c *Card) Run(m axcl.Model, p *axcl.Pass, expect time.Duration) error {
	c.Owned()
	//rule:G11 ./engine TestJitter max(c.o.Watch, 20*expect) => c.o.Watch
	//rule:D7 ./engine TestHang$ c.enter(max(c.o.Watch, 20*expect)) => c.enter(3 * max(c.o.Watch, 20*expect))
	c.enter(max(c.o.Watch, 20*expect))
	err := m.Run(p)
	c.exit()
	if c.Err() != nil && err == nil {
		// The watchdog gave up on this very call: the streams have ended.
		return axcl.ErrLost
	}
	return err
}

// Watched is any other call into the library under the watchdog's eye: it may take so long, or
// Options.Watch where that is more. It is the worker's.
func (c *Card) Watched(limit time.Duration, call func() error) error {
	c.Owned()
	c.enter(max(c.o.Watch, limit))
	err := call()
	c.exit()
	if c.Err() != nil && err == nil {
		return axcl.ErrLost
	}
	return err
}

// Unload takes a model or a net off the card under the watchdog's eye: no file is read for it, so
// it is given a pass's time. It is the worker's.
func (c *Card) Unload(m interface{ Close() error }) error {
	//rule:D7 ./engine TestHangAtClose drop
	c.enter(c.o.Watch)
	defer c.exit()
	return m.Close()
}

// Pace is one load on its way, under the watchdog's eye. The card keeps what it measured for the
// next.
type Pace struct {
	c       *Card
	largest int64         // bytes of the largest file
	took    time.Duration // all files so far, by the host's clock
	bytes   int64         // of them
}

// Pace begins the account of a load whose largest file has this many bytes. It is the worker's, and
// so are its methods.
func (c *Card) Pace(largest int64) *Pace { return &Pace{c: c, largest: largest} }

// File is a call that loads a file of this many bytes, or, with 0, makes room for what was loaded.
// It may take as long as the largest file would at a tenth of the measured rate. While it lasts, a
// process that ends (Options.Ending) waits for it no longer than seconds beyond what it should
// take: then the card counts as lost.
func (p *Pace) File(bytes int64, call func() error) error {
	w := &p.c.watch
	rate := w.rate
	if rate == 0 {
		rate = usualRate
	}
	expect := time.Duration(float64(p.largest) / rate * float64(time.Second))
	w.loading.Store(int64(max(endingTimes*expect, endingLeast)))
	begun := p.c.host()
	//rule:D7 ./engine TestLoadHangs 10*expect => FileLimit
	err := p.c.Watched(min(10*expect, FileLimit), call)
	w.loading.Store(0)
	if err == nil && bytes > 0 {
		p.bytes, p.took = p.bytes+bytes, p.took+max(p.c.host()-begun, 1)
		w.rate = min(float64(p.bytes)/p.took.Seconds(), bestRate)
	}
	return err
}

// look ends the card when a call does not return, and when its link is seen to be gone, whether a
// call is under way or not.
func (c *Card) look() {
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
			c.Lose(fmt.Errorf("engine: a call did not return within %v: %w", time.Duration(c.watch.allow.Load()), axcl.ErrLost))
			close(c.watch.stuck)
			return
		}
		//rule:D8 ./engine TestLinkSeen n%10 == 0 => false
		if gone := c.watch.gone.Load(); gone != nil && n%10 == 0 && c.Err() == nil && (*gone)() {
			c.Lose(fmt.Errorf("engine: the link to the card is gone: %w", axcl.ErrLost))
			c.Wake()
		}
	}
}

// late reports whether the call under way has taken too long by now.
func (c *Card) late(now time.Duration, ending *time.Duration) bool {
	due := c.watch.due.Load()
	if due == 0 {
		return false
	}
	if now > time.Duration(due) {
		return true
	}
	load := time.Duration(c.watch.loading.Load())
	select {
	case <-c.o.Ending:
	default:
		return false
	}
	if *ending == 0 {
		*ending = now
	}
	begun := time.Duration(due - c.watch.allow.Load())
	if load > 0 && now > max(begun, *ending)+load {
		c.watch.allow.Store(int64(now - begun)) // what the error tells
		return true
	}
	return false
}
