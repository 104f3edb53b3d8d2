package server

import (
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/server/ollama"
)

// histogram counts durations in fixed buckets.
type histogram struct {
	mu     ranked.Mutex[ranked.Metrics]
	counts []uint64 // one more than buckets
	sum    float64
	n      uint64
}

// buckets are the upper bounds in seconds, from a token on a fast card to a long load.
var buckets = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

func (h *histogram) observe(d time.Duration) {
	s := d.Seconds()
	i, _ := slices.BinarySearch(buckets, s)
	h.mu.Lock()
	if h.counts == nil {
		h.counts = make([]uint64, len(buckets)+1)
	}
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
		if h.counts != nil {
			total += h.counts[i]
		}
		fmt.Fprintf(w, "%s_bucket{le=\"%g\"} %d\n", name, b, total)
	}
	fmt.Fprintf(w, "%s_bucket{le=\"+Inf\"} %d\n%s_sum %g\n%s_count %d\n", name, h.n, name, h.sum, name, h.n)
}

// metrics are what /metrics tells besides the engines' own figures.
type metrics struct {
	requests struct {
		inFlight atomic.Int64
		mu       ranked.Mutex[ranked.Metrics]
		by       map[[2]string]uint64 // route and status
	}
	prompt, cached, output   atomic.Uint64
	cuts, cutTokens          atomic.Uint64
	load, firstToken, perTok histogram
	recent                   rate
}

func newMetrics() *metrics {
	m := &metrics{}
	m.requests.by = map[[2]string]uint64{}
	return m
}

func (m *metrics) request(route string, code int) {
	if route == "" {
		route = "other"
	}
	m.requests.mu.Lock()
	m.requests.by[[2]string{route, fmt.Sprint(code)}]++
	m.requests.mu.Unlock()
}

// trace follows one answer.
type trace struct {
	m     *metrics
	start time.Time
	last  time.Time
}

func (m *metrics) begin() *trace { return &trace{m: m, start: time.Now()} }

func (t *trace) event(now time.Time, e engine.Event) {
	if e.Done != nil {
		return
	}
	if t.last.IsZero() {
		t.m.firstToken.observe(now.Sub(t.start))
	} else {
		t.m.perTok.observe(now.Sub(t.last))
	}
	t.last = now
	t.m.recent.add(now, 1)
}

func (t *trace) end(a *ollama.Answer) {
	t.m.prompt.Add(uint64(a.Usage.Prompt))
	t.m.cached.Add(uint64(a.Usage.Cached))
	t.m.output.Add(uint64(a.Usage.Output))
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

// write gives everything in Prometheus's text format.
func (m *metrics) write(w io.Writer, s *Server, ready bool) {
	family := func(name, kind, help string) { fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind) }
	one := func(name, kind, help string, v any) {
		family(name, kind, help)
		fmt.Fprintf(w, "%s %v\n", name, v)
	}
	one("axle_up_seconds", "gauge", "Time since the server started.", time.Since(s.started).Seconds())
	one("axle_ready", "gauge", "1 where the server can answer; 0 where its device is not there, or was lost.", map[bool]int{true: 1}[ready])
	one("axle_goroutines", "gauge", "Goroutines of the server: a number that grows for ever is a leak.", runtime.NumGoroutine())
	one("axle_requests_in_flight", "gauge", "Requests being answered.", m.requests.inFlight.Load())
	one("axle_cards_lost", "gauge", "Cards that were lost while others go on.", len(*s.fewer.Load()))
	family("axle_requests_total", "counter", "Requests by route and status.")
	m.requests.mu.Lock()
	keys := slices.SortedFunc(maps.Keys(m.requests.by), func(a, b [2]string) int { return strings.Compare(a[0]+" "+a[1], b[0]+" "+b[1]) })
	for _, k := range keys {
		fmt.Fprintf(w, "axle_requests_total{route=%q,status=%q} %d\n", k[0], k[1], m.requests.by[k])
	}
	m.requests.mu.Unlock()
	one("axle_prompt_tokens_total", "counter", "Prompt tokens of finished answers.", m.prompt.Load())
	one("axle_prompt_tokens_reused_total", "counter", "Prompt tokens found in the cache.", m.cached.Load())
	one("axle_prompts_truncated_total", "counter", "Prompts, and texts to embed, that did not fit and were cut.", m.cuts.Load())
	one("axle_prompt_tokens_truncated_total", "counter", "Tokens that were cut off prompts.", m.cutTokens.Load())
	one("axle_output_tokens_total", "counter", "Tokens of finished answers.", m.output.Load())
	one("axle_tokens_per_second", "gauge", "Answer parts sent a second, over the last three.", m.recent.perSecond(time.Now()))
	m.firstToken.write(w, "axle_first_token_seconds", "Time to the first token of an answer.")
	m.perTok.write(w, "axle_token_seconds", "Time between tokens of an answer.")
	m.load.write(w, "axle_acquire_seconds", "Time a request waited for its model to be loaded.")
	loaded := s.host.Loaded()
	each := func(name, kind, help string, v func(Running) any) {
		family(name, kind, help)
		for _, r := range loaded {
			fmt.Fprintf(w, "%s{model=%q} %v\n", name, r.Entry.Name.String(), v(r))
		}
	}
	each("axle_model_card_bytes", "gauge", "Card memory a loaded model takes.", func(r Running) any { return r.Bytes })
	each("axle_model_requests", "gauge", "Requests that use the model.", func(r Running) any { return r.InUse })
	each("axle_cells", "gauge", "Cache rows of the model.", func(r Running) any { return r.Stats.Cells })
	each("axle_cells_used", "gauge", "Cache rows in use.", func(r Running) any { return r.Stats.CellsUsed })
	each("axle_cells_cached", "gauge", "Cache rows that hold text of finished answers.", func(r Running) any { return r.Stats.CellsCached })
	each("axle_cells_shared", "gauge", "Cache rows that several sequences use.", func(r Running) any { return r.Stats.CellsShared })
	each("axle_running", "gauge", "Sequences on the card.", func(r Running) any { return r.Stats.Running })
	each("axle_queued", "gauge", "Sequences waiting for the card.", func(r Running) any { return r.Stats.Queued })
	each("axle_rejected_total", "counter", "Sequences refused because the queue was full.", func(r Running) any { return r.Stats.Rejected })
	each("axle_cancelled_total", "counter", "Sequences whose client left.", func(r Running) any { return r.Stats.Cancelled })
	each("axle_failed_total", "counter", "Sequences that ended with an error.", func(r Running) any { return r.Stats.Failed })
	each("axle_reused_tokens_total", "counter", "Prompt tokens the engine found in its cache.", func(r Running) any { return r.Stats.CachedTokens })
	each("axle_speculation_drafted_total", "counter", "Tokens guessed.", func(r Running) any { return r.Stats.Drafted })
	each("axle_speculation_accepted_total", "counter", "Guesses that were right.", func(r Running) any { return r.Stats.Accepted })
	each("axle_card_busy_seconds_total", "counter", "Time inside passes.", func(r Running) any { return r.Stats.Busy.Seconds() })
	each("axle_card_temperature_celsius", "gauge", "The card's temperature.", func(r Running) any { return r.Stats.Temperature })
	each("axle_card_load_ratio", "gauge", "The card's own load figure, 0 to 1.", func(r Running) any { return r.Stats.NPULoad / 100 })
	each("axle_card_memory_free_bytes", "gauge", "Free card memory.", func(r Running) any { return r.Stats.CardFree })
	each("axle_card_memory_bytes", "gauge", "Card memory.", func(r Running) any { return r.Stats.CardTotal })
	family("axle_passes_total", "counter", "Passes by kind.")
	for _, r := range loaded {
		for _, kind := range slices.Sorted(maps.Keys(r.Stats.Passes)) {
			fmt.Fprintf(w, "axle_passes_total{model=%q,kind=%q} %d\n", r.Entry.Name.String(), kind, r.Stats.Passes[kind])
		}
	}
	family("axle_proven", "gauge", "What the card was proven to do with the model.")
	for _, r := range loaded {
		for _, what := range slices.Sorted(maps.Keys(r.Stats.Proven)) {
			v := 0
			if r.Stats.Proven[what] {
				v = 1
			}
			fmt.Fprintf(w, "axle_proven{model=%q,what=%q} %d\n", r.Entry.Name.String(), what, v)
		}
	}
}
