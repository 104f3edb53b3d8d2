package card

import (
	"context"
	"iter"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/ranked"
)

// loads is the tenant of what InPieces runs, one after the other. Each runs as a coroutine
// (iter.Pull) on the worker's own thread: it owns the device from one pause to the next, and its
// code need not know of the others.
type loads struct {
	c     *Card
	queue []*call // under the card's lock

	// The worker's: what is under way, what it gave, and the ways into it and out of it.
	now    *call
	err    error
	resume func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
}

// InPieces runs f on the card's goroutine, in pieces of kind Load between which other tenants have
// their turns, and waits for it. f calls pause where a piece ends; pause returns when it is f's
// turn again. After an error of pause, which says that the card is closed or lost, f releases what
// it has and returns. One such f is under way at a time; others wait in the order they came. An
// error of f that the card does not survive ends it. Errors: as Do.
func (c *Card) InPieces(ctx context.Context, f func(dev axcl.Device, pause func() error) error) error {
	ranked.None()
	k := newCall(func(dev axcl.Device) error { return f(dev, c.loads.pause) })
	c.mu.Lock()
	if err := c.err; err != nil {
		c.mu.Unlock()
		return err
	}
	c.loads.queue = append(c.loads.queue, k)
	c.mu.Unlock()
	return k.wait(ctx, c)
}

// pause ends a piece of what is under way.
func (l *loads) pause() error {
	if !l.yield(struct{}{}) {
		return l.c.Err()
	}
	return nil
}

// Offer implements Tenant.
func (l *loads) Offer(k Kind) (time.Duration, bool) {
	if k != Load {
		return 0, false
	}
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	return 0, l.now != nil || len(l.queue) > 0
}

// Step implements Tenant: it goes on with what is under way up to its next pause, or begins what
// waits.
func (l *loads) Step(Kind) (bool, error) {
	if l.now == nil && !l.begin() {
		return false, nil
	}
	if _, more := l.resume(); !more {
		l.over()
	}
	return true, nil
}

// begin makes a coroutine of what is first in the queue and still wanted.
func (l *loads) begin() bool {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	for len(l.queue) > 0 && l.now == nil {
		k := l.queue[0]
		if l.queue = l.queue[1:]; k.began.Swap(true) {
			continue
		}
		l.now = k
		l.resume, l.stop = iter.Pull(func(yield func(struct{}) bool) {
			l.yield = yield
			l.err = k.f(l.c.dev)
		})
	}
	return l.now != nil
}

// over gives the result of what has ended.
func (l *loads) over() {
	k, err := l.now, l.err
	l.now, l.err, l.resume, l.stop, l.yield = nil, nil, nil, nil, nil
	k.over(l.c, err)
}

// end has what is under way release what it has: the card is over.
func (l *loads) end() {
	if l.now != nil {
		l.stop()
		l.over()
	}
}

// Fail implements Tenant: who waits sees that the card is over.
func (l *loads) Fail(error) {}
