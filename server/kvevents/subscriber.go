package kvevents

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/internal/zmtp"
	"github.com/axle-llm/axle/prefix"
)

const (
	mostKnown  = 1 << 20 // blocks that are noted of a publisher; what comes behind is not
	retryFirst = time.Second
	retryMost  = time.Minute
	dialTime   = 3 * time.Second
)

// Subscriber knows which blocks another server has on disk, from its events. It connects again and
// again until it is closed; while it is not connected it knows nothing. It keeps no tokens.
type Subscriber struct {
	events, replay string
	changed        func(err error)
	cancel         context.CancelFunc
	run            sync.WaitGroup
	live           atomic.Bool

	mu    ranked.Mutex[ranked.Events]
	known map[uint64]struct{}
}

// Subscribe follows the publisher whose events come from the first address, and missed ones from
// the second. changed, if not nil, is told nil when the subscriber has learned everything, and why
// when it lost the publisher or cannot find it, once for each change.
func Subscribe(events, replay string, changed func(err error)) *Subscriber {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Subscriber{events: events, replay: replay, changed: changed, cancel: cancel, known: map[uint64]struct{}{}}
	s.run.Go(func() { s.follow(ctx) })
	return s
}

// Close ends the subscription. Close of nil does nothing.
func (s *Subscriber) Close() {
	if s != nil {
		s.cancel()
		s.run.Wait()
	}
}

// Live reports whether the subscriber knows what the publisher has told. A nil Subscriber does not.
func (s *Subscriber) Live() bool { return s != nil && s.live.Load() }

// On reports whether the publisher has a block on disk.
func (s *Subscriber) On(name prefix.Name) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.known[short(name)]
	return ok
}

// follow connects until ctx ends.
func (s *Subscriber) follow(ctx context.Context) {
	wait, told := retryFirst, false
	for ctx.Err() == nil {
		err := s.session(ctx)
		if was := s.live.Swap(false); was {
			wait, told = retryFirst, false
		}
		s.clear()
		if ctx.Err() == nil && !told && s.changed != nil {
			told = true
			s.changed(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, retryMost)
	}
}

func (s *Subscriber) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.known)
}

// session is one connection: first everything that is there, then what changes.
func (s *Subscriber) session(ctx context.Context) error {
	dial, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	sub, err := zmtp.DialSub(dial, s.events, "kv@")
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })()
	defer sub.Close()
	next, err := s.missed(ctx, 0)
	if err != nil {
		return err
	}
	if !s.live.Swap(true) && s.changed != nil {
		s.changed(nil)
	}
	for {
		frames, err := sub.Receive()
		if err != nil {
			return err
		}
		n, payload, err := parts(frames)
		switch {
		case err != nil:
			return err
		case n < next:
			continue // it was in the replay
		case n > next: // something was lost on the way
			if next, err = s.missed(ctx, next); err != nil {
				return err
			}
			if n < next {
				continue
			}
		}
		if err := s.apply(payload); err != nil {
			return err
		}
		next = n + 1
	}
}

// missed asks for the messages from a number on, and returns the number of the next one.
func (s *Subscriber) missed(ctx context.Context, from uint64) (next uint64, err error) {
	next = from
	err = zmtp.Ask(ctx, s.replay, number(from), func(frames [][]byte) (bool, error) {
		n, payload, err := parts(frames)
		if err != nil || n == math.MaxUint64 {
			return false, err
		}
		next = n + 1
		return true, s.apply(payload)
	})
	return next, err
}

// parts are a message's number and payload; the topic, before them, may be left out.
func parts(frames [][]byte) (n uint64, payload []byte, err error) {
	last := len(frames) - 1
	if last < 1 || last > 2 || len(frames[last-1]) != 8 {
		return 0, nil, fmt.Errorf("kvevents: a message of %d frames, it has a topic, a number of 8 bytes and a payload", len(frames))
	}
	return binary.BigEndian.Uint64(frames[last-1]), frames[last], nil
}

// apply notes the events of a payload.
func (s *Subscriber) apply(payload []byte) error {
	r := unpacker{b: payload}
	if fields := r.array(); r.err == nil && fields < 2 {
		return errors.New("kvevents: a payload without events")
	}
	r.skip(0) // the time
	s.mu.Lock()
	defer s.mu.Unlock()
	for range r.array() {
		fields := r.array()
		if r.err != nil || fields < 1 {
			break
		}
		switch kind := r.text(); {
		case kind == "AllBlocksCleared":
			clear(s.known)
			r.skipped(fields - 1)
		case kind == "BlockStored" && fields >= 7:
			names := r.names()
			r.skipped(4) // the name before, the tokens, their number, an adapter
			if r.text() == media[onDisk] {
				for _, n := range names {
					if len(s.known) < mostKnown {
						s.known[n] = struct{}{}
					}
				}
			}
			r.skipped(fields - 7)
		case kind == "BlockRemoved" && fields >= 3:
			names := r.names()
			if r.text() == media[onDisk] {
				for _, n := range names {
					delete(s.known, n)
				}
			}
			r.skipped(fields - 3)
		default:
			r.skipped(fields - 1)
		}
	}
	return r.err
}
