package card

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/ranked"
)

// Kind is what a piece of work is like, which decides when it has its turn.
type Kind uint8

const (
	// Urgent is next in line, while urgent pieces take no more than a quarter of the card's
	// seconds; beyond that it is a Turn.
	Urgent Kind = iota
	// Turn is a pass, or a net's call.
	Turn
	// Load is a file that goes to the card.
	Load
	// Background is what has time: saving, compaction. It is done only while nothing else is
	// offered.
	Background
)

// Tenant is what wants the card. All its methods but Fail are called on the worker.
//
// Turns are given by seconds: of the tenants that have something to do, the one that has had the
// fewest seconds for its weight is next. One that comes back after it had nothing to do begins
// where the others are: it has no credit of old. So after a piece of its own a tenant waits until
// the others have had as much, and then for no more than one piece of each.
type Tenant interface {
	// Offer reports whether there may be a piece of the kind, and what the piece is expected to
	// take, as far as that is known. It is asked before every turn, so it calls no card and waits
	// for nothing.
	Offer(Kind) (expect time.Duration, ok bool)
	// Step does one piece that was offered, and reports whether there was one: an offer may come to
	// nothing. Calls to the device are made under the watchdog's eye: by Card.Run, Card.Watched or
	// a Pace. A piece is not cut short, so it should be short. The error is one that the card does
	// not survive.
	Step(Kind) (did bool, err error)
	// Fail ends what waits, when the card is closed (ErrClosed) or lost. Nothing is asked of the
	// tenant afterwards. It is called from any goroutine, maybe while Step is stuck in the library,
	// so it touches nothing of the worker's.
	Fail(error)
}

// Checker is a Tenant that can be asked whether the card still does what it did.
type Checker interface {
	// Checked is when that was last known, by the card's clock.
	Checked() time.Duration
	// Checkup looks, while nothing is offered; after it Checked is later. The error is one that the
	// card does not survive.
	Checkup() error
}

// entry is a tenant's account. All but used are the worker's.
type entry struct {
	t      Tenant
	weight float64
	used   atomic.Int64  // time.Duration: the card's time it had
	at     time.Duration // the same for a weight of 1, and never behind the others while it had nothing to do
	busy   bool          // it had a piece when it was asked last
	last   uint64        // the piece that it did last, of all
	kind   Kind          // of what it offers in this round
	expect time.Duration
	open   bool // it offers something in this round, and was not asked for it yet
}

// Urgent pieces go first while they take no more than one part in this many of the card's time, and
// a burst of them no more than so long.
const (
	urgentPart  = 4
	urgentBurst = time.Second
)

// turns is what the order of pieces goes by.
type turns struct {
	floor  time.Duration // where the tenant was that had the last turn: who comes back begins there
	pieces uint64
	spent  time.Duration // of the burst
	seen   time.Duration // when spent was last reckoned
}

// inTurn are the kinds that have turns, in the order in which a tenant that offers several does
// them.
var inTurn = [...]Kind{Urgent, Turn, Load}

// turn does a piece of the tenant whose turn it is.
func (c *Card) turn(tenants []*entry) (did bool, err error) {
	for _, e := range tenants {
		e.open = false
		for _, k := range inTurn {
			if e.expect, e.open = e.t.Offer(k); e.open {
				e.kind = k
				break
			}
		}
		if !e.open {
			e.busy = false
		} else if !e.busy {
			//rule:G26 TestNoOldCredit drop
			e.at = max(e.at, c.turns.floor)
		}
	}
	for {
		e, first := c.turns.next(tenants, c.Now())
		if e == nil {
			return false, nil
		}
		e.open = false
		at := e.at
		did, err := c.piece(e, e.kind)
		if e.busy = did; did && !first {
			c.turns.floor = max(c.turns.floor, at)
		}
		if did || err != nil {
			return did, err
		}
	}
}

// next is the tenant whose turn it is, of those that were not asked yet, and whether it goes first
// because it is urgent.
func (s *turns) next(tenants []*entry, now time.Duration) (best *entry, first bool) {
	s.spent = max(s.spent-(now-s.seen)/urgentPart, 0)
	s.seen = now
	for _, e := range tenants {
		if !e.open {
			continue
		}
		//rule:G26 TestUrgent && s.spent+e.expect <= urgentBurst && s.spent < urgentBurst =>
		urgent := e.kind == Urgent && s.spent+e.expect <= urgentBurst && s.spent < urgentBurst
		switch {
		case best == nil, urgent && !first:
		case urgent != first:
			continue
		case e.at > best.at, e.at == best.at && e.last >= best.last:
			continue
		}
		best, first = e, urgent
	}
	return best, first
}

// piece does one piece and books what it took.
func (c *Card) piece(e *entry, k Kind) (did bool, err error) {
	t0 := c.Now()
	did, err = e.t.Step(k)
	took := c.Now() - t0
	e.used.Add(int64(took))
	if k != Background { // which no other waited for
		//rule:G26 TestShares drop
		e.at += time.Duration(float64(took) / e.weight)
	}
	if did {
		c.turns.pieces++
		e.last = c.turns.pieces
	}
	if k == Urgent {
		c.turns.spent += took
	}
	return did, err
}

// background does a piece of what has time, of the tenants by turns.
func (c *Card) background(tenants []*entry) (bool, error) {
	for _, e := range tenants {
		e.expect, e.open = e.t.Offer(Background)
	}
	for {
		var best *entry
		for _, e := range tenants {
			if e.open && (best == nil || e.last < best.last) {
				best = e
			}
		}
		if best == nil {
			return false, nil
		}
		best.open = false
		if did, err := c.piece(best, Background); did || err != nil {
			return did, err
		}
	}
}

// Line is a tenant of single calls: each waits for its turn, in the order they came. It is how
// something that only now and then wants a net's call, or a model that lies on another card, shares
// the card with the rest. Make it by Card.NewLine.
type Line struct {
	c      *Card
	queue  []*call // under the card's lock, as closed
	closed bool
}

// NewLine attaches a line. Close it.
func (c *Card) NewLine(weight float64) *Line {
	l := &Line{c: c}
	c.Attach(l, weight)
	return l
}

// Do runs f on the card's goroutine as a piece of the kind, which should take so long, and waits
// for it. Errors: as Card.Do.
func (l *Line) Do(ctx context.Context, k Kind, expect time.Duration, f func(axcl.Device) error) error {
	ranked.None()
	one := newCall(f)
	one.kind, one.takes = k, expect
	l.c.mu.Lock()
	err := l.c.err
	if l.closed && err == nil {
		err = ErrClosed
	}
	if err != nil {
		l.c.mu.Unlock()
		return err
	}
	l.queue = append(l.queue, one)
	l.c.mu.Unlock()
	return one.wait(ctx, l.c)
}

// Offer implements Tenant.
func (l *Line) Offer(k Kind) (time.Duration, bool) {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	l.queue = slices.DeleteFunc(l.queue, func(one *call) bool { return one.began.Load() })
	if len(l.queue) == 0 || l.queue[0].kind != k {
		return 0, false
	}
	return l.queue[0].takes, true
}

// Step implements Tenant.
func (l *Line) Step(Kind) (bool, error) {
	l.c.mu.Lock()
	if len(l.queue) == 0 {
		l.c.mu.Unlock()
		return false, nil
	}
	one := l.queue[0]
	l.queue = l.queue[1:]
	l.c.mu.Unlock()
	return one.run(l.c), nil
}

// Fail implements Tenant: who waits sees that the card is over.
func (l *Line) Fail(error) {}

// Close takes the line off the card. Calls that wait end with ErrClosed.
func (l *Line) Close() {
	l.c.Detach(l)
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	for _, one := range l.queue {
		if !one.began.Swap(true) {
			one.res <- ErrClosed
		}
	}
	l.queue, l.closed = nil, true
}
