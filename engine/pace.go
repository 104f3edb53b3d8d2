package engine

import (
	"time"
)

// A call that loads a file, or makes room for a model, may rightly take long, and says nothing meanwhile. How long depends on the file, the
// disk and the card: so it is measured, file by file, and a call counts as hanging once it takes as long as the package's largest file
// would at a tenth of what was measured.
const (
	usualRate = 50e6            // bytes a second, until something was measured
	bestRate  = 100e6           // no more is believed: a file that was read before comes out of memory, the next one from a slow disk
	fileLimit = 3 * time.Minute // whatever the file
	// A process that is told to end waits for a file that is being loaded, since a card that loses its host then may want a power cycle;
	// but only for this many times what it should take.
	endingTimes = 3
	endingLeast = 2 * time.Second
)

// pace is one load on its way; the card keeps what it measured for the next.
type pace struct {
	c       *Card
	largest int64         // bytes of the largest file
	begun   time.Duration // the whole, by the card's host
	bytes   int64         // loaded since
}

// pace begins a load under the watchdog's eye; done ends a file, stop the load.
func (c *Card) pace(largest int64) *pace {
	p := &pace{c: c, largest: largest, begun: c.host()}
	p.next()
	return p
}

func (p *pace) done(bytes int64) {
	p.bytes += bytes
	if took := (p.c.host() - p.begun).Seconds(); took > 0 {
		p.c.rate = min(float64(p.bytes)/took, bestRate)
	}
	p.next()
}

func (p *pace) next() {
	rate := p.c.rate
	if rate == 0 {
		rate = usualRate
	}
	expect := time.Duration(float64(p.largest) / rate * float64(time.Second))
	//rule:D7 TestLoadHangs 10*expect => fileLimit
	p.c.enter(min(max(p.c.o.Watch, 10*expect), max(fileLimit, p.c.o.Watch)))
	p.c.loading.Store(int64(max(endingTimes*expect, endingLeast)))
}

func (p *pace) stop() {
	p.c.loading.Store(0)
	p.c.exit()
}

// late reports, for the watchdog, whether the native call under way has taken too long by now.
func (c *Card) late(now time.Duration, ending *time.Duration) bool {
	due := c.due.Load()
	if due == 0 {
		return false
	}
	if now > time.Duration(due) {
		return true
	}
	load := time.Duration(c.loading.Load())
	select {
	case <-c.o.Ending:
	default:
		return false
	}
	if *ending == 0 {
		*ending = now
	}
	begun := time.Duration(due - c.allow.Load())
	if load > 0 && now > max(begun, *ending)+load {
		c.allow.Store(int64(now - begun)) // what the error tells
		return true
	}
	return false
}
