package card

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/axle-llm/axle/axcl"
)

// This file is the watchdog: a call into the library that does not return in time loses the card.

// FileLimit is the most time for a call that loads a file, whatever the file.
const FileLimit = 3 * time.Minute

// A call that loads a file, or makes room for a model, may take long, and reports nothing
// meanwhile. How long depends on the file, the disk and the card. So it is measured, file by file.
// A call counts as hanging when it takes as long as the package's largest file would at a tenth of
// the measured rate.
const (
	usualRate = 50e6  // bytes a second, until something was measured
	bestRate  = 100e6 // the most that counts as measured: a file may come from memory, and the next one from a slow disk
	// A process that is told to end waits for a file that is being loaded, because a card that
	// loses its host then may need a power cycle. It waits at most this many times the expected
	// time.
	endingTimes = 3
	endingLeast = 2 * time.Second
)

// watchdog is what is known of the current call.
type watchdog struct {
	stuck   chan struct{} // closed when a call did not return in time
	due     atomic.Int64  // when the call must have returned, by host; 0: no call
	allow   atomic.Int64  // the call's limit
	loading atomic.Int64  // how long a process that ends waits for the file being loaded; 0: no load
	rate    float64       // the worker's: bytes a second of the last load; 0: not measured
	gone    atomic.Pointer[func() bool]
}

// enter begins a call into the library that may take this long. exit ends it.
func (c *Card) enter(limit time.Duration) {
	c.watch.allow.Store(int64(limit))
	c.watch.due.Store(int64(c.host() + limit))
}

func (c *Card) exit() { c.watch.due.Store(0) }

// Run runs one pass, watched by the watchdog. Its limit is the larger of Options.Watch and twenty
// times the expected time. It is the worker's.
func (c *Card) Run(m axcl.Model, p *axcl.Pass, expect time.Duration) error {
	c.Owned()
	//rule:G11 ./engine TestJitter max(c.o.Watch, 20*expect) => c.o.Watch
	//rule:D7 ./engine TestHang$ c.enter(max(c.o.Watch, 20*expect)) => c.enter(3 * max(c.o.Watch, 20*expect))
	c.enter(max(c.o.Watch, 20*expect))
	err := m.Run(p)
	c.exit()
	if c.Err() != nil && err == nil {
		// The watchdog gave up on this call: the streams have ended.
		return axcl.ErrLost
	}
	return err
}

// Watched makes any other call into the library, watched by the watchdog. Its limit is the larger
// of limit and Options.Watch. It is the worker's.
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

// Unload closes a model or a net, watched by the watchdog. It reads no file, so its limit is
// Options.Watch. It is the worker's.
func (c *Card) Unload(m interface{ Close() error }) error {
	//rule:D7 ./engine TestHangAtClose drop
	c.enter(c.o.Watch)
	defer c.exit()
	return m.Close()
}

// Pace is one load, watched by the watchdog. The card keeps the measured rate for the next load.
type Pace struct {
	c       *Card
	largest int64         // bytes of the largest file
	took    time.Duration // time of all files so far, by the host's clock
	bytes   int64         // of all files so far
}

// Pace begins a load whose largest file has this many bytes. It and its methods are the worker's.
func (c *Card) Pace(largest int64) *Pace { return &Pace{c: c, largest: largest} }

// File makes a call that loads a file of this many bytes, or, with 0, that makes room for the
// files. Its limit is the time of the largest file at a tenth of the measured rate. If the process
// ends meanwhile (Options.Ending), the limit is endingTimes the expected time. Then the card counts
// as lost.
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

// look declares the card lost when a call does not return in time, or when its link is gone, even
// if no call is running.
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

// late reports whether the current call has taken too long by now.
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
		c.watch.allow.Store(int64(now - begun)) // for the error's text
		return true
	}
	return false
}
