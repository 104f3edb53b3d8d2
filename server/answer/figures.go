package answer

import (
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/server/prompt"
)

// histogram counts durations in fixed buckets.
type histogram struct {
	mu     ranked.Mutex[ranked.Metrics]
	counts [len(buckets) + 1]uint64
	sum    float64
	n      uint64
}

// buckets are the upper bounds in seconds, from a token on a fast card to a long load.
var buckets = [...]float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

func (h *histogram) observe(d time.Duration) {
	s := d.Seconds()
	i, _ := slices.BinarySearch(buckets[:], s)
	h.mu.Lock()
	h.counts[i]++
	h.sum += s
	h.n++
	h.mu.Unlock()
}

func (h *histogram) write(w io.Writer, name, help string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name)
	var total uint64
	for i, b := range buckets {
		total += h.counts[i]
		fmt.Fprintf(w, "%s_bucket{le=\"%g\"} %d\n", name, b, total)
	}
	fmt.Fprintf(w, "%s_bucket{le=\"+Inf\"} %d\n%s_sum %g\n%s_count %d\n", name, h.n, name, h.sum, name, h.n)
}

// Figures are what /metrics tells of answers. The zero value is ready.
type Figures struct {
	prompt, cached, output          atomic.Uint64
	cuts, cutTokens                 atomic.Uint64
	load, queue, firstToken, perTok histogram
	drawing                         histogram
	recent                          rate
}

// PerSecond is how many parts of answers were sent a second, over the last three.
func (f *Figures) PerSecond() float64 { return f.recent.perSecond(time.Now()) }

// Write gives them in Prometheus's text format.
func (f *Figures) Write(w io.Writer) {
	one := func(name, kind, help string, v any) {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s %v\n", name, help, name, kind, name, v)
	}
	one("axle_prompt_tokens_total", "counter", "Prompt tokens of finished answers.", f.prompt.Load())
	one("axle_prompt_tokens_reused_total", "counter", "Prompt tokens found in the cache.", f.cached.Load())
	one("axle_prompts_truncated_total", "counter", "Prompts, and texts to embed, that did not fit and were cut.", f.cuts.Load())
	one("axle_prompt_tokens_truncated_total", "counter", "Tokens that were cut off prompts.", f.cutTokens.Load())
	one("axle_output_tokens_total", "counter", "Tokens of finished answers.", f.output.Load())
	one("axle_tokens_per_second", "gauge", "Answer parts sent a second, over the last three.", f.PerSecond())
	f.firstToken.write(w, "axle_first_token_seconds", "Time to the first token of an answer.")
	f.perTok.write(w, "axle_token_seconds", "Time between tokens of an answer.")
	f.load.write(w, "axle_acquire_seconds", "Time a request waited for its model to be loaded.")
	f.queue.write(w, "axle_queue_seconds", "Time an answer waited for the card, its model loaded.")
	f.drawing.write(w, "axle_drawing_seconds", "Time that a picture took to be drawn, its wait for the card included.")
}

// trace follows one answer.
type trace struct {
	f      *Figures
	start  time.Time
	last   time.Time
	second bool // another answer to a prompt that counts already
}

// begin follows an answer. second: it is another one to a prompt, and when it began, and what of
// its prompt was in the cache, says nothing.
func (f *Figures) begin(second bool) *trace { return &trace{f: f, start: time.Now(), second: second} }

func (t *trace) event(now time.Time, e ask.Event) {
	if e.Done != nil {
		return
	}
	switch {
	case !t.last.IsZero():
		t.f.perTok.observe(now.Sub(t.last))
	case !t.second:
		t.f.firstToken.observe(now.Sub(t.start))
	}
	t.last = now
	t.f.recent.add(now, 1)
}

func (t *trace) end(a *prompt.Answer) {
	if !t.second {
		t.f.queue.observe(a.Usage.Queue)
		t.f.prompt.Add(uint64(a.Usage.Prompt))
		t.f.cached.Add(uint64(a.Usage.Cached))
	}
	t.f.output.Add(uint64(a.Usage.Output))
}

// rate counts events of the last seconds.
type rate struct {
	mu  ranked.Mutex[ranked.Metrics]
	sec int64
	n   [4]int // this second and the three before it
}

func (r *rate) turn(now time.Time) {
	sec := now.Unix()
	for d := min(sec-r.sec, int64(len(r.n))); d > 0; d-- {
		copy(r.n[1:], r.n[:])
		r.n[0] = 0
	}
	r.sec = max(r.sec, sec)
}

func (r *rate) add(now time.Time, n int) {
	r.mu.Lock()
	r.turn(now)
	r.n[0] += n
	r.mu.Unlock()
}

// perSecond is the mean of the last three whole seconds.
func (r *rate) perSecond(now time.Time) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn(now)
	return float64(r.n[1]+r.n[2]+r.n[3]) / 3
}
