package manage

import (
	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/server/catalog"
)

// statusLines are where work leaves its status lines, from several goroutines at once and with
// locks of its own in hand, and never waits for the client that takes them. A line of the same file
// takes the place of one that was not sent yet, so that a client that takes nothing costs a line a
// file.
type statusLines struct {
	more chan struct{} // holds one when there are lines

	mu    ranked.Mutex[ranked.Progress]
	lines []catalog.Progress
	last  catalog.Progress
}

func newStatusLines() *statusLines { return &statusLines{more: make(chan struct{}, 1)} }

func (l *statusLines) put(p catalog.Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = p
	for i := range l.lines {
		if old := &l.lines[i]; p.Digest != "" && old.Digest == p.Digest && old.Status == p.Status {
			*old = p
			return
		}
	}
	l.lines = append(l.lines, p)
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// take gives the lines that wait, and the last there was.
func (l *statusLines) take() (lines []catalog.Progress, last catalog.Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines, l.lines = l.lines, nil
	return lines, l.last
}

// send gives each line to f as it comes, until over is closed and none is left, or f fails.
func (l *statusLines) send(over <-chan struct{}, f func(catalog.Progress) error) error {
	for ended := false; ; {
		lines, _ := l.take()
		for _, p := range lines {
			if err := f(p); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
		select {
		case <-l.more:
		case <-over:
			ended = true
		}
	}
}
