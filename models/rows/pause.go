package rows

import (
	"context"
	"errors"
	"time"

	"github.com/axle-llm/axle/internal/ranked"
)

const (
	pauseFirst = 5 * time.Second
	pauseMost  = time.Minute
)

// Pause leaves a place alone for a while after it failed: five seconds, and up to a minute where it
// fails again. The zero Pause is ready. It may be used from any goroutine.
type Pause struct {
	Told func(err error)  // told once why the place is left alone, and nil once it answers again; it may be nil
	Now  func() time.Time // nil: the system's clock

	mu    ranked.Mutex[ranked.Pause]
	until time.Time
	wait  time.Duration // how long the last time; 0: it is well
}

func (p *Pause) now() time.Time {
	if p.Now == nil {
		return time.Now()
	}
	return p.Now()
}

// Over reports whether the place may be asked.
func (p *Pause) Over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.now().Before(p.until)
}

// Failed notes that the place did not answer as it should, and returns err. What the caller gave up
// (ctx was cancelled) is not the place's fault; what did not come in time is.
func (p *Pause) Failed(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	p.mu.Lock()
	first := p.wait == 0
	p.wait = min(max(2*p.wait, pauseFirst), pauseMost)
	p.until = p.now().Add(p.wait)
	p.mu.Unlock()
	if first && p.Told != nil {
		p.Told(err)
	}
	return err
}

// Well notes that the place answered.
func (p *Pause) Well() {
	p.mu.Lock()
	was := p.wait > 0
	p.wait, p.until = 0, time.Time{}
	p.mu.Unlock()
	if was && p.Told != nil {
		p.Told(nil)
	}
}
