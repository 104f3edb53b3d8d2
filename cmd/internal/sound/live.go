package sound

import (
	"context"
	"errors"
	"sync"
	"time"
)

// maxAhead is how much sound may wait for being played: ten minutes at 24 kHz.
const maxAhead = 2 * 24000 * 600

// errAhead is that a server sends sound without end.
var errAhead = errors.New("an answer has more than ten minutes of sound that is not played yet: the conversation is over")

// Live plays one sound after the other as they come, and each can be stopped in its middle. It
// keeps what is not played yet, up to ten minutes. Who has stopped the last owes it no more.
type Live struct {
	rate   int
	run    *run // nil: nothing is played
	played chan error
}

// NewLive makes one for sounds of a rate. Errors: ErrNoPlayer.
func NewLive(rate int) (*Live, error) {
	if _, err := NewPlayer(); err != nil {
		return nil, err
	}
	return &Live{rate: rate, played: make(chan error, 1)}, nil
}

// run is one sound on its way to a player.
type run struct {
	cancel context.CancelFunc
	done   chan struct{}
	wake   chan struct{} // something came
	until  time.Time     // when what was added will have been heard

	mu    sync.Mutex
	queue []byte
	ended bool
}

// Add plays raw PCM of 16 bits behind what was added before, and does not wait for it.
func (l *Live) Add(pcm []byte) error {
	if len(pcm) == 0 {
		return nil
	}
	if l.run == nil {
		p, err := NewPlayer()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(context.Background())
		l.run = &run{cancel: cancel, done: make(chan struct{}), wake: make(chan struct{}, 1)}
		go l.run.play(ctx, p, l.rate, l.played)
	}
	now := time.Now()
	if l.run.until.Before(now) { // it had nothing to play for a while
		l.run.until = now
	}
	l.run.until = l.run.until.Add(time.Duration(len(pcm)/2) * time.Second / time.Duration(l.rate))
	return l.run.add(pcm, false)
}

// End is that the sound has no more than what was added.
func (l *Live) End() {
	if l.run != nil {
		_ = l.run.add(nil, true) // which fails for sound only
	}
}

// Played tells once that a sound that has ended was heard, or why it was not. The next is another
// one.
func (l *Live) Played() <-chan error { return l.played }

// Stop ends the sound at once, if there is one, and says how much of it was not heard. It waits
// for the player's end: another could not open the same card before.
func (l *Live) Stop() (unheard time.Duration) {
	if l.run == nil {
		return 0
	}
	unheard = max(0, time.Until(l.run.until))
	l.run.cancel()
	<-l.run.done
	l.run = nil
	select {
	case <-l.played:
		unheard = 0
	default:
	}
	return unheard
}

func (r *run) add(pcm []byte, last bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue)+len(pcm) > maxAhead {
		return errAhead
	}
	r.queue = append(r.queue, pcm...)
	r.ended = r.ended || last
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return nil
}

// next is the next piece to play, of a quarter of a second at most: the rest counts as not played.
// more is false behind the last.
func (r *run) next(ctx context.Context) (piece []byte, more bool) {
	for ctx.Err() == nil {
		r.mu.Lock()
		n := min(len(r.queue), 12000)
		piece, r.queue = r.queue[:n:n], r.queue[n:]
		ended := r.ended
		r.mu.Unlock()
		if n > 0 || ended {
			return piece, n > 0
		}
		select {
		case <-r.wake:
		case <-ctx.Done():
		}
	}
	return nil, false
}

// play plays all that comes.
func (r *run) play(ctx context.Context, p *Player, rate int, played chan<- error) {
	defer close(r.done)
	var err error
	for err == nil {
		piece, more := r.next(ctx)
		if !more {
			break
		}
		err = p.Add(ctx, piece, rate)
	}
	if closed := p.Close(ctx); closed != nil { // which is then why it took no more
		err = closed
	}
	if ctx.Err() == nil {
		played <- err
	}
}
