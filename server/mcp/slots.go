package mcp

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/axle-llm/axle/server/body"
)

// session gives what a server offers an owner, and begins a session where there is none. Call done
// when nothing more is asked of it.
func (t *Tools) session(ctx context.Context, s *server, owner string) (l Listed, done func(), err error) {
	sl := t.slot(s, owner)
	if sl == nil {
		return l, nil, body.Fail(404, "there is no tool server %q here any more", clip(s.spec.name))
	}
	select {
	case sl.turn <- struct{}{}:
		l, err = t.ready(ctx, s, sl)
		<-sl.turn
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		t.release(s, owner, sl)
		return l, nil, err
	}
	return l, func() { t.release(s, owner, sl) }, nil
}

// slot is an owner's, taken for a call. nil: the server was ended.
func (t *Tools) slot(s *server, owner string) *slot {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.servers[s.spec.name] != s {
		return nil
	}
	sl := s.slots[owner]
	if sl == nil {
		sl = &slot{turn: make(chan struct{}, 1)}
		sl.idle = time.AfterFunc(idleTime, func() { t.retire(s, owner, sl) })
		s.slots[owner] = sl
	}
	sl.calls++
	return sl
}

func (t *Tools) release(s *server, owner string, sl *slot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sl.calls--
	sl.used = time.Now()
	if s.slots[owner] == sl {
		sl.idle.Reset(idleTime)
	}
}

// ready makes a slot's session one that can be asked. The slot's turn is the caller's.
func (t *Tools) ready(ctx context.Context, s *server, sl *slot) (Listed, error) {
	if sl.over { // its server ended while this call waited for its turn: what it would start nothing would end
		return Listed{}, body.Fail(404, "there is no tool server %q here any more", s.spec.name)
	}
	if se := sl.session; se != nil && se.over() {
		t.ends(se, nil)
		t.let(sl)
		sl.fail(errors.New("it ended"))
	}
	if sl.session == nil {
		if left := time.Until(sl.notYet); left > 0 {
			return Listed{}, body.Fail(503, "the server %q does not run (%s): it is not started again for %d s", s.spec.name,
				text(sl.err.Error(), 300), int(math.Ceil(left.Seconds())))
		}
		if !t.room() {
			return Listed{}, body.Fail(503, "%d sessions with tool servers are at work, and there are no more: wait for one to end",
				maxSessions)
		}
		se, err := t.open(ctx, s.spec)
		if err != nil {
			t.count(-1)
			return Listed{}, t.failed(ctx, s, sl, "does not start", err)
		}
		sl.session = se
		sl.running.Store(se)
	}
	se := sl.session
	if se.stale.Load() || time.Since(se.listed) > listedFor {
		if err := se.list(ctx); err != nil {
			if ctx.Err() != nil { // who asked has gone; other calls of the session go on
				return Listed{}, context.Cause(ctx)
			}
			t.let(sl)
			return Listed{}, t.failed(ctx, s, sl, "does not say what it offers", err)
		}
	}
	return Listed{Tools: se.tools, LeftOut: se.without, of: se}, nil
}

// failed is what to tell of a server that cannot be asked, and makes it wait.
func (t *Tools) failed(ctx context.Context, s *server, sl *slot, what string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t.o.Log.Warn("a tool server "+what, zap.String("server", s.spec.name), zap.String("error", text(err.Error(), 500)))
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("it did not answer in time")
	}
	sl.fail(err)
	return body.Fail(502, "the server %q %s: %s", s.spec.name, what, text(err.Error(), 300))
}

// fail makes a slot wait before the next start, twice as long each time.
func (sl *slot) fail(err error) {
	pause := min(leastPause<<min(sl.failures, 10), mostPause)
	sl.failures, sl.err, sl.notYet = sl.failures+1, err, time.Now().Add(pause)
}

// let ends a slot's session. The slot's turn is the caller's.
func (t *Tools) let(sl *slot) {
	if sl.session != nil {
		sl.session.end()
		sl.session = nil
		sl.running.Store(nil)
		t.count(-1)
	}
}

// drop ends a session that is of no use any more; err is why, where the server is to blame.
func (t *Tools) drop(s *server, owner string, se *session, err error) {
	t.mu.Lock()
	sl := s.slots[owner]
	t.mu.Unlock()
	if sl == nil {
		return
	}
	sl.turn <- struct{}{}
	defer func() { <-sl.turn }()
	if sl.session != se {
		return
	}
	if err != nil {
		t.ends(se, err)
		sl.fail(errors.New("it ended"))
	}
	t.let(sl)
}

// sound notes that a server has answered a call.
func (t *Tools) sound(s *server, owner string, se *session) {
	t.mu.Lock()
	sl := s.slots[owner]
	t.mu.Unlock()
	if sl == nil {
		return
	}
	select {
	case sl.turn <- struct{}{}:
		if sl.session == se {
			sl.failures = 0
		}
		<-sl.turn
	default: // somebody else is at it, and will note it with the next call
	}
}

func (t *Tools) count(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.live += n
}

// room takes a place for a session. Where there is none, the session that has been idle longest
// ends.
func (t *Tools) room() bool {
	for {
		t.mu.Lock()
		if t.live < maxSessions {
			t.live++
			t.mu.Unlock()
			return true
		}
		idle := t.idlest()
		t.mu.Unlock()
		if idle == nil {
			return false
		}
		t.let(idle)
		<-idle.turn
	}
}

// idlest is the slot with a session that has been unused for longest, and its turn is the caller's.
// t.mu is held.
func (t *Tools) idlest() *slot {
	var idle []*slot
	for _, s := range t.servers {
		for _, sl := range s.slots {
			if sl.calls == 0 {
				idle = append(idle, sl)
			}
		}
	}
	slices.SortFunc(idle, func(a, b *slot) int { return a.used.Compare(b.used) })
	for _, sl := range idle {
		select {
		case sl.turn <- struct{}{}:
			if sl.session != nil {
				return sl
			}
			<-sl.turn
		default:
		}
	}
	return nil
}

// retire ends what has been unused for a while.
func (t *Tools) retire(s *server, owner string, sl *slot) {
	t.mu.Lock()
	if t.closed || sl.calls > 0 || s.slots[owner] != sl || time.Since(sl.used) < idleTime {
		t.mu.Unlock()
		return
	}
	t.ending.Add(1)
	delete(s.slots, owner)
	t.mu.Unlock()
	defer t.ending.Done()
	sl.turn <- struct{}{}
	t.let(sl)
	<-sl.turn
}

// endAll ends all sessions of a server that is no more.
func (t *Tools) endAll(s *server) {
	t.mu.Lock()
	all := s.slots
	s.slots = map[string]*slot{}
	for _, sl := range all {
		sl.idle.Stop()
	}
	t.mu.Unlock()
	for _, sl := range all {
		if se := sl.running.Load(); se != nil {
			se.kill() // what is being asked of it ends with an error
		}
	}
	for _, sl := range all {
		sl.turn <- struct{}{}
		sl.over = true
		t.let(sl)
		<-sl.turn
	}
}
