package card

import (
	"context"
	"iter"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/ranked"
)

// loads is the tenant that runs the functions of InPieces, one after the other. Each runs as a
// coroutine (iter.Pull) on the worker's own thread. It owns the device from one pause to the next,
// and its code need not know the other tenants.
type loads struct {
	c     *Card
	queue []*call // under the card's lock

	// The worker's: the current call, its error, and the functions that enter and leave the
	// coroutine.
	now    *call
	err    error
	resume func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
}

// InPieces runs f on the card's goroutine in pieces of kind Load, and waits for it. Other tenants
// have their turns between pieces. f calls pause at the end of a piece; pause returns when it is
// f's turn again. An error of pause says that the card is closed or lost: then f releases
// everything and returns. One f runs at a time. Others wait in the order they came. A fatal error
// of f loses the card. Errors: as Do.
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

// pause ends a piece of the current call.
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

// Step implements Tenant. It continues the current call up to its next pause, or begins the next
// call.
func (l *loads) Step(Kind) (bool, error) {
	if l.now == nil && !l.begin() {
		return false, nil
	}
	if _, more := l.resume(); !more {
		l.over()
	}
	return true, nil
}

// begin makes a coroutine of the first call in the queue whose caller still waits.
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

// over delivers the result of the call that has ended.
func (l *loads) over() {
	k, err := l.now, l.err
	l.now, l.err, l.resume, l.stop, l.yield = nil, nil, nil, nil, nil
	k.over(l.c, err)
}

// end makes the current call release everything, because the card is closed or lost.
func (l *loads) end() {
	if l.now != nil {
		l.stop()
		l.over()
	}
}

// Fail implements Tenant. Waiting callers see for themselves that the card is closed or lost.
func (l *loads) Fail(error) {}
