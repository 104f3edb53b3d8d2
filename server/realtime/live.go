package realtime

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/axle-llm/axle/internal/ranked"
)

// Why a turn is not written down while it goes on: it is none after all, or nothing more of it
// comes for so long that the session may be over.
var (
	errDropped = errors.Join(errors.New("the turn was dropped"), context.Canceled)
	errLate    = errors.Join(errors.New("nothing more of the turn came"), errDropped)
)

// live is the sound of a turn that is written down while it goes on. It implements ask.Sound. It
// may be used from any goroutine.
type live struct {
	item string
	next int64         // the number of the sample that comes next, in the session; of who adds
	held *atomic.Int64 // samples that wait, of the session
	idle time.Duration // how long no sound may come
	more chan struct{} // something came

	mu    ranked.Mutex[ranked.Realtime]
	left  []int16
	all   int
	ended error
}

// begins has a turn written down from now on, where the session and the model are for that.
func (s *session) begins(item string, from int64) {
	t := s.set.Audio.Input.Transcription
	if !s.hearsLive || t == nil || s.set.talk != nil {
		return
	}
	l := &live{item: item, next: from, held: &s.waiting, idle: s.o.Idle, more: make(chan struct{}, 1)}
	select {
	case s.turns <- job{item: item, live: l, set: new(*t)}:
		s.live = l
		s.feed()
	default: // there is no place by now: it is written down when it is over, if there is one then
	}
}

// feed gives the turn that goes on what has come of it.
func (s *session) feed() {
	if l := s.live; l != nil {
		l.add(s.buffer.held[max(l.next-s.buffer.first, 0):])
		l.next = s.buffer.end()
	}
}

func (l *live) add(samples []int16) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended == nil {
		l.left = append(l.left, samples...)
		l.all += len(samples)
		l.held.Add(int64(len(samples)))
		l.tell()
	}
}

// end says that no more comes, and why. Only the first counts, which it returns.
func (l *live) end(why error) (first error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended == nil {
		l.ended = why
		l.tell()
	}
	return l.ended
}

func (l *live) tell() {
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// drop forgets what was not read.
func (l *live) drop() {
	l.end(errDropped)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held.Add(-int64(len(l.left)))
	l.left = nil
}

// samples is how many there were.
func (l *live) samples() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all
}

// Read implements ask.Sound. It waits for sound.
func (l *live) Read(samples []float32) (int, error) {
	late := time.NewTimer(l.idle)
	defer late.Stop()
	for {
		if n, err := l.take(samples); n > 0 || err != nil || len(samples) == 0 {
			return n, err
		}
		select {
		case <-l.more:
		case <-late.C:
			l.end(errLate)
		}
	}
}

// take is Read without waiting. What ends a turn but its end is not kept back by sound.
func (l *live) take(samples []float32) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended != nil && (len(l.left) == 0 || !errors.Is(l.ended, io.EOF)) {
		return 0, l.ended
	}
	n := min(len(samples), len(l.left))
	for i, x := range l.left[:n] {
		samples[i] = float32(x) / (1 << 15)
	}
	l.left = l.left[:copy(l.left, l.left[n:])]
	l.held.Add(-int64(n))
	return n, nil
}
