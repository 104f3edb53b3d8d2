// Package fair shares a resource among API keys: decoding pictures and compiling schemas, for
// example. No key's work makes another key wait for longer than one piece of it.
//
// A [Line] has places, for work that runs at the same time, and room, in any unit, for what that
// work takes. Work is counted in any unit too. Each key has an account of its work, and the key
// with the lowest account is next (start-time fair queueing). A new key begins where the others
// are: it waits for the pieces under way, and then for at most as much of the others' work as its
// own. Within a key small pieces go before large ones, but not for ever: once eight times a piece's
// own work has gone before it, it goes before all that come later.
//
// A Line may be used from any goroutine. It holds nothing that has to be closed.
package fair

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
)

// ages is how many times its own work a piece lets come and go before it, of its own key's.
const ages = 8

// Line is a thing that its users take in turns. Make one with [New].
type Line struct {
	mu      sync.Mutex
	places  int
	room    int64 // left
	all     int64 // room in all
	running int
	now     int64 // the account of who got a turn last, as it was then
	came    int64 // tickets so far
	keys    map[string]*account
}

// account is a key's.
type account struct {
	due     int64 // what its work comes to, and where others were when it came
	done    int64 // its work
	running int
	waiting []*ticket
}

// drop takes a ticket out of those that wait.
func (a *account) drop(t *ticket) {
	a.waiting = slices.DeleteFunc(a.waiting, func(w *ticket) bool { return w == t })
}

// idle reports that the key wants nothing.
func (a *account) idle() bool { return len(a.waiting) == 0 && a.running == 0 }

// ticket is a request that waits.
type ticket struct {
	number, takes, work int64
	rank                int64 // among the key's
	ready               chan struct{}
	granted             bool
}

// New makes a line with a number of places and an amount of room. Zero or less of either means
// no limit.
func New(places int, room int64) *Line {
	if places <= 0 {
		places = math.MaxInt
	}
	if room <= 0 {
		room = math.MaxInt64
	}
	return &Line{places: places, room: room, all: room, keys: map[string]*account{}}
}

// Take waits for key's turn, for a piece of so much work that takes so much room; what is more than
// all the room counts as all of it. The error is ctx's cause, and nothing is taken then. Who has it
// calls Done, or Next, and Free in the end.
func (l *Line) Take(ctx context.Context, key string, takes, work int64) error {
	l.mu.Lock()
	return l.wait(ctx, key, l.ask(key, takes, work))
}

// Next is Done and then Take, for who has several pieces: no request that came after both gets a
// turn between the two.
func (l *Line) Next(ctx context.Context, key string, work, did, takes, more int64) error {
	l.mu.Lock()
	t := l.ask(key, takes, more)
	l.leave(key, max(work, 1), max(did, 1))
	return l.wait(ctx, key, t)
}

// ask puts a ticket into the line. l.mu is held.
func (l *Line) ask(key string, takes, work int64) *ticket {
	work = max(work, 1)
	a := l.keys[key]
	if a == nil {
		a = &account{due: l.now}
		l.keys[key] = a
	}
	l.came++
	//rule:T16 TestSmallFirst work + a.done/ages => 0
	t := &ticket{l.came, min(max(takes, 0), l.all), work, work + a.done/ages, make(chan struct{}), false}
	a.waiting = append(a.waiting, t)
	return t
}

// wait waits for the ticket's turn. l.mu is held, and is not any more when it returns.
func (l *Line) wait(ctx context.Context, key string, t *ticket) error {
	l.grant()
	l.mu.Unlock()
	select {
	case <-t.ready:
		if ctx.Err() == nil { // else both are ready, and who has left gets no turn
			return nil
		}
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.granted {
		l.leave(key, t.work, 0)
		l.room += t.takes
	} else {
		l.keys[key].drop(t)
		l.forget()
	}
	l.grant()
	return context.Cause(ctx)
}

// Done gives a place back. work is what was said of the piece when it was taken, and did what it
// came to.
func (l *Line) Done(key string, work, did int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leave(key, max(work, 1), max(did, 1))
	l.grant()
}

// Free gives room back.
func (l *Line) Free(takes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.room += min(max(takes, 0), l.all)
	l.grant()
}

// Left is how much room is left.
func (l *Line) Left() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.room
}

// Waiting is how many wait for a turn.
func (l *Line) Waiting() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.keys {
		n += len(a.waiting)
	}
	return n
}

// leave ends a piece. l.mu is held.
func (l *Line) leave(key string, work, did int64) {
	a := l.keys[key]
	a.running--
	l.running--
	a.due += did - work
	a.done += did - work
	l.forget()
}

// forget closes the accounts of keys that want nothing: those that would begin where the others
// are, and all once none wants anything, as none is ahead of another then. l.mu is held.
func (l *Line) forget() {
	idle := true
	for _, a := range l.keys {
		idle = idle && a.idle()
	}
	//rule:T16 TestDebt && (idle || a.due <= l.now) =>
	maps.DeleteFunc(l.keys, func(_ string, a *account) bool { return a.idle() && (idle || a.due <= l.now) })
}

// grant gives turns as far as places and room go. Whose turn it is waits for the room it needs, and
// everybody else for them: what is small would else keep what is large waiting for ever. l.mu is
// held.
func (l *Line) grant() {
	for l.running < l.places {
		a, t, start := l.next()
		if t == nil || t.takes > l.room {
			return
		}
		a.drop(t)
		l.now = start
		a.due = start + t.work
		a.done += t.work
		a.running++
		l.running++
		l.room -= t.takes
		t.granted = true
		close(t.ready)
	}
}

// next is whose turn it is: of the keys the one whose account is the lowest, of equals the smaller
// piece, then who came first. l.mu is held.
func (l *Line) next() (from *account, best *ticket, start int64) {
	for _, a := range l.keys {
		var first *ticket
		for _, t := range a.waiting {
			if first == nil || t.rank < first.rank || t.rank == first.rank && t.number < first.number {
				first = t
			}
		}
		if first == nil {
			continue
		}
		at := max(a.due, l.now)
		//rule:T16 TestOthersWait at < start || => false &&
		if best == nil || at < start || at == start &&
			(first.work < best.work || first.work == best.work && first.number < best.number) {
			from, best, start = a, first, at
		}
	}
	return from, best, start
}
