package client

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/internal/terminal"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/store"
)

// PullView shows a pull: one line that is drawn anew in a terminal, else a line every few seconds.
type PullView struct {
	w      io.Writer
	tty    bool
	width  int
	done   map[string]int64
	total  map[string]int64
	start  time.Time
	base   int64 // what was there before: it did not come at the speed shown
	last   time.Time
	status string
	drawn  bool
}

// NewPullView shows a pull on w.
func NewPullView(w io.Writer) *PullView {
	v := &PullView{w: w, done: map[string]int64{}, total: map[string]int64{}}
	v.width, v.tty = terminal.Screen(w)
	return v
}

// Update shows how far the pull is.
func (v *PullView) Update(p store.Progress) {
	if p.Digest == "" {
		v.End()
		if p.Status != v.status {
			fmt.Fprintln(v.w, plain.Line(p.Status))
			v.status = p.Status
		}
		return
	}
	if _, seen := v.total[p.Digest]; !seen {
		v.base += p.Completed
	}
	v.done[p.Digest], v.total[p.Digest] = p.Completed, p.Total
	now := time.Now()
	if v.start.IsZero() {
		v.start = now
	}
	every := 5 * time.Second
	if v.tty {
		every = 100 * time.Millisecond
	}
	if now.Sub(v.last) < every {
		return
	}
	v.last = now
	v.draw(now)
}

func (v *PullView) draw(now time.Time) {
	var done, total int64
	for d, n := range v.total {
		total += n
		done += v.done[d]
	}
	if total == 0 {
		return
	}
	line := fmt.Sprintf("pulling %3d%%  %s of %s", done*100/total, models.HumanBytes(done), models.HumanBytes(total))
	if spent := now.Sub(v.start).Seconds(); spent > 0.5 && done > v.base {
		rate := float64(done-v.base) / spent
		left := time.Duration(float64(total-done) / rate * float64(time.Second)).Round(time.Second)
		line += fmt.Sprintf("  %s/s  %s left", models.HumanBytes(int64(rate)), left)
	}
	if !v.tty {
		fmt.Fprintln(v.w, line)
		return
	}
	if room := v.width - len(line) - 4; room > 10 {
		full := int(int64(room) * done / total)
		line += "  [" + strings.Repeat("#", full) + strings.Repeat(" ", room-full) + "]"
	}
	fmt.Fprintf(plain.Raw(v.w), "\r\x1b[K%.*s", v.width, line)
	v.drawn = true
}

// End draws the last state once more and leaves the line.
func (v *PullView) End() {
	if len(v.total) > 0 {
		v.draw(time.Now())
		clear(v.total)
		clear(v.done)
		v.base, v.start = 0, time.Time{}
	}
	if v.drawn {
		fmt.Fprintln(v.w)
		v.drawn = false
	}
}
