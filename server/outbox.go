package server

import (
	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/internal/ranked"
)

// outbox is where work leaves its status lines, from several goroutines at once and with locks of its own in hand, and never waits for the
// client that takes them. A line of the same file takes the place of one that was not sent yet, so that a client that takes nothing costs a
// line a file.
type outbox struct {
	more chan struct{} // holds one when there are lines

	mu    ranked.Mutex[ranked.Progress]
	lines []api.ProgressResponse
	last  api.ProgressResponse
}

func newOutbox() *outbox { return &outbox{more: make(chan struct{}, 1)} }

func (o *outbox) put(p api.ProgressResponse) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = p
	for i := range o.lines {
		if l := &o.lines[i]; p.Digest != "" && l.Digest == p.Digest && l.Status == p.Status {
			*l = p
			return
		}
	}
	o.lines = append(o.lines, p)
	select {
	case o.more <- struct{}{}:
	default:
	}
}

// take gives the lines that wait, and the last there was.
func (o *outbox) take() (lines []api.ProgressResponse, last api.ProgressResponse) {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines, o.lines = o.lines, nil
	return lines, o.last
}

// send gives each line to f as it comes, until over is closed and none is left, or f fails.
func (o *outbox) send(over <-chan struct{}, f func(api.ProgressResponse) error) error {
	for ended := false; ; {
		lines, _ := o.take()
		for _, p := range lines {
			if err := f(p); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
		select {
		case <-o.more:
		case <-over:
			ended = true
		}
	}
}
