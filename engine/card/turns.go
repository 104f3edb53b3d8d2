package card

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/ranked"
)

// Kind is the kind of a piece of work. It decides when the piece has its turn.
type Kind uint8

const (
	// Urgent is next in line, as long as urgent pieces take no more than a quarter of the card's
	// time. Beyond that it counts as a Turn.
	Urgent Kind = iota
	// Turn is a pass, or a net's call.
	Turn
	// Load is one file of a load.
	Load
	// Background is work that can wait: saving rows, moving cells. It runs only while nothing else
	// is offered.
	Background
)

// Tenant is a user of the card. All its methods except Fail are called on the worker.
//
// Turns are shared out by time. Of the tenants with work, the one that has had the fewest seconds
// for its weight is next. A tenant that was idle gets no credit for that time. So after its own
// piece, a tenant waits until the others have had as much time, and then for at most one piece of
// each.
type Tenant interface {
	// Offer reports whether there may be a piece of the kind, and how long it is expected to take,
	// as far as that is known. It is called before every turn, so it must not call a card or wait.
	Offer(Kind) (expect time.Duration, ok bool)
	// Step does one piece that was offered, and reports whether there was one: an offer may come to
	// nothing. It calls the device only under the watchdog: through Card.Run, Card.Watched or a
	// Pace. A piece is not interrupted, so it should be short. A returned error loses the card.
	Step(Kind) (did bool, err error)
	// Fail ends everything that waits, when the card is closed (ErrClosed) or lost. The tenant is
	// not called afterwards. Fail is called from any goroutine, maybe while Step is stuck in the
	// library, so it must not use anything of the worker's.
	Fail(error)
}

// Checker is a Tenant that can test whether the card still computes what it did.
type Checker interface {
	// Checked returns when that was last known, by the card's clock.
	Checked() time.Duration
	// Checkup tests the card while nothing is offered. Afterwards Checked is later. A returned
	// error loses the card.
	Checkup() error
}

// entry is a tenant's account. All fields but used are the worker's.
type entry struct {
	t      Tenant
	weight float64
	used   atomic.Int64  // time.Duration: the card's time it had
	at     time.Duration // time of all but background work, divided by weight; idle time earns no credit
	busy   bool          // it had a piece when it was last asked
	last   uint64        // the number of its last piece, among all pieces
	kind   Kind          // of its offer in this round
	expect time.Duration
	open   bool // it has an offer in this round that was not taken yet
}

// Urgent pieces go first while they take at most one part in urgentPart of the card's time, and
// while a burst of them takes at most urgentBurst.
const (
	urgentPart  = 4
	urgentBurst = time.Second
)

// turns decides the order of pieces.
type turns struct {
	floor  time.Duration // at of the tenant that had the last turn, where returning tenants begin
	pieces uint64
	spent  time.Duration // of the burst
	seen   time.Duration // when spent was last computed
}

// inTurn lists the kinds that have turns, in the order in which one tenant's are done.
var inTurn = [...]Kind{Urgent, Turn, Load}

// turn does a piece of the next tenant.
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

// next returns the next tenant of those not asked in this round, and whether it goes first because
// it is urgent.
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

// piece does one piece and counts its time.
func (c *Card) piece(e *entry, k Kind) (did bool, err error) {
	t0 := c.Now()
	did, err = e.t.Step(k)
	took := c.Now() - t0
	e.used.Add(int64(took))
	if k != Background { // no other tenant waited for background work
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

// background does one piece of background work. Tenants take turns.
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

// Line is a tenant of single calls. Each waits for its turn, in the order they came. It is for
// occasional calls of a net, or of a model on another card. [Card.NewLine] makes one.
type Line struct {
	c      *Card
	queue  []*call // under the card's lock, as closed
	closed bool
}

// NewLine attaches a line. The caller closes it.
func (c *Card) NewLine(weight float64) *Line {
	l := &Line{c: c}
	c.Attach(l, weight)
	return l
}

// Do runs f on the card's goroutine as a piece of the kind, which is expected to take this long,
// and waits for it. Errors: as Card.Do.
func (l *Line) Do(ctx context.Context, k Kind, expect time.Duration, f func(axcl.Device) error) error {
	ranked.None()
	one := newCall(f)
	one.kind, one.takes = k, expect
	l.c.mu.Lock()
	err := l.c.err
	if l.closed && err == nil {
		err = ErrClosed
	}
	if err = cmp.Or(err, ctx.Err()); err != nil {
		l.c.mu.Unlock()
		return err
	}
	l.queue = append(l.queue, one)
	l.c.mu.Unlock()
	return one.wait(ctx, l.c)
}

// Waiting returns how many calls wait for their turn.
func (l *Line) Waiting() int {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	return len(l.queue)
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

// Fail implements Tenant. Waiting callers see for themselves that the card is closed or lost.
func (l *Line) Fail(error) {}

// Close takes the line off the card. Waiting calls end with ErrClosed.
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
