package monitor

import (
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/server/pool"
)

// Loads are how far models are on their way to a card. The zero Loads is ready.
type Loads struct {
	mu  ranked.Mutex[ranked.Monitor]
	far map[string]ask.Progress
}

// Progress takes note of a load that begins, and of each file that is loaded. The card's goroutine
// waits for it.
func (l *Loads) Progress(p ask.Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.far == nil {
		l.far = map[string]ask.Progress{}
	}
	l.far[p.Model] = p
}

// Load is a load as it is told.
type Load struct {
	Model   string   `json:"model"`
	State   string   `json:"state"` // waiting, loading, measuring
	File    string   `json:"file"`
	Files   int      `json:"files"`
	Done    int      `json:"files_done"`
	Bytes   int64    `json:"bytes"`
	Have    int64    `json:"bytes_done"`
	Rate    float64  `json:"bytes_per_second"`
	Elapsed float64  `json:"elapsed_seconds"`
	Left    *float64 `json:"left_seconds"`
	Needs   int64    `json:"memory_needed"` // at the most, while it is loaded
	Free    int64    `json:"memory_free"`   // when the load began; 0 where that is not known
}

// Of tells of the models that are being loaded: pending gives each one's name, since when, and
// whether it waits for room. What is known of others is forgotten: they are loaded, or failed.
func (l *Loads) Of(pending []pool.Pending) []Load {
	l.mu.Lock()
	defer l.mu.Unlock()
	far := map[string]ask.Progress{}
	out := make([]Load, 0, len(pending))
	for _, w := range pending {
		o := Load{Model: w.Model, State: "loading", Elapsed: time.Since(w.Since).Seconds()}
		p, ok := l.far[w.Model]
		if ok {
			far[w.Model] = p
			o.File, o.Files, o.Done, o.Bytes, o.Have = p.File, p.Total, p.Done, p.Of, p.Bytes
			if s := p.Elapsed.Seconds(); s > 0 {
				o.Rate = float64(p.Bytes) / s
			}
			o.Needs, o.Free = p.Needs, p.Free
			if p.Done > 0 {
				o.Left = new(p.Left.Seconds())
			}
		}
		switch {
		case w.Waiting:
			o.State = "waiting"
		case ok && p.Done == p.Total:
			o.State = "measuring"
		}
		out = append(out, o)
	}
	l.far = far
	return out
}

// Fits says whether a model that takes need bytes has room on a card: now, alone (when others are
// unloaded), no, or unknown.
func Fits(need, free, total int64) string {
	switch {
	case need <= 0 || total <= 0:
		return "unknown"
	case need <= free:
		return "now"
	case need <= total:
		return "alone"
	}
	return "no"
}
