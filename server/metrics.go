package server

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/manage"
	"github.com/axle-llm/axle/server/pool"
)

// metrics count requests.
type metrics struct {
	inFlight atomic.Int64
	mu       ranked.Mutex[ranked.Metrics]
	by       map[answered]uint64
}

// answered is what requests are counted by.
type answered struct {
	route string
	code  int
}

func newMetrics() *metrics { return &metrics{by: map[answered]uint64{}} }

func (m *metrics) request(route string, code int) {
	m.mu.Lock()
	m.by[answered{cmp.Or(route, "other"), code}]++
	m.mu.Unlock()
}

// write gives everything in Prometheus's text format; of keys, what key may see.
func (m *metrics) write(w io.Writer, s *Server, ready bool, key *access.Key) {
	gauge(w, "axle_up_seconds", "Time since the server started.", time.Since(s.started).Seconds())
	gauge(w, "axle_ready", "1 where the server can answer; 0 where its device is not there, or was lost.", map[bool]int{true: 1}[ready])
	gauge(w, "axle_goroutines", "Goroutines of the server: a number that grows for ever is a leak.", runtime.NumGoroutine())
	gauge(w, "axle_requests_in_flight", "Requests being answered.", m.inFlight.Load())
	gauge(w, "axle_cards_lost", "Cards that were lost while others go on.", len(*s.fewer.Load()))
	gauge(w, "axle_realtime_sessions", "Sessions of the Realtime API.", s.calls.Load())
	gauge(w, "axle_wyoming_connections", "Connections of voice satellites, which speak the Wyoming protocol.", s.rooms.Load())
	family(w, "axle_requests_total", "counter", "Requests by route and status.")
	m.mu.Lock()
	keys := slices.SortedFunc(maps.Keys(m.by), func(a, b answered) int {
		return cmp.Or(strings.Compare(a.route, b.route), cmp.Compare(a.code, b.code))
	})
	for _, k := range keys {
		fmt.Fprintf(w, "axle_requests_total{route=%q,status=\"%d\"} %d\n", k.route, k.code, m.by[k])
	}
	m.mu.Unlock()
	s.answers.Figures.Write(w)
	if s.o.Keys != nil {
		writeUsed(w, s.o.Keys.Used(key))
	}
	models := s.models.Loaded()
	t := s.totals(models)
	t.write(w)
	if s.o.VLLM {
		t.writeVLLM(w, models)
	}
	each := func(name, kind, help string, v func(pool.Running) any) {
		family(w, name, kind, help)
		for _, r := range models {
			fmt.Fprintf(w, "%s{model=%q} %v\n", name, r.Entry.Name.String(), v(r))
		}
	}
	stat := func(name, kind, help string, v func(ask.Stats) any) {
		each(name, kind, help, func(r pool.Running) any { return v(r.Stats) })
	}
	each("axle_model_card_bytes", "gauge", "Card memory a loaded model takes.", func(r pool.Running) any { return r.Bytes })
	each("axle_model_requests", "gauge", "Requests that use the model.", func(r pool.Running) any { return r.InUse })
	stat("axle_cells", "gauge", "Cache rows of the model.", func(s ask.Stats) any { return s.Cells })
	stat("axle_cells_used", "gauge", "Cache rows in use.", func(s ask.Stats) any { return s.CellsUsed })
	stat("axle_cells_cached", "gauge", "Cache rows that hold text of finished answers.", func(s ask.Stats) any { return s.CellsCached })
	stat("axle_cells_shared", "gauge", "Cache rows that several sequences use.", func(s ask.Stats) any { return s.CellsShared })
	stat("axle_states", "gauge", "States that the card has room for, for a model with recurrent layers.",
		func(s ask.Stats) any { return s.Slots })
	stat("axle_states_used", "gauge", "States on the card: of sequences, and snapshots.", func(s ask.Stats) any { return s.SlotsUsed })
	stat("axle_states_kept", "gauge", "Snapshots on the card that a text may go on from.", func(s ask.Stats) any { return s.SlotsKept })
	stat("axle_memory_rows", "gauge", "Cache rows that this machine's memory has room for.", func(s ask.Stats) any { return s.Memory.Rows })
	stat("axle_memory_rows_used", "gauge", "Cache rows that are in this machine's memory.", func(s ask.Stats) any { return s.Memory.Used })
	stat("axle_memory_bytes", "gauge", "Memory of this machine that rows may take.", func(s ask.Stats) any { return s.Memory.Bytes })
	stat("axle_memory_reused_tokens_total", "counter", "Prompt tokens whose rows came back from this machine's memory.",
		func(s ask.Stats) any { return s.Memory.Hits })
	stat("axle_memory_out_bytes_total", "counter", "Bytes of rows copied off the card into this machine's memory.",
		func(s ask.Stats) any { return s.Memory.Out })
	stat("axle_memory_in_bytes_total", "counter", "Bytes of rows copied back onto the card.", func(s ask.Stats) any { return s.Memory.In })
	stat("axle_memory_saved_seconds_total", "counter", "What evaluating those rows again would have taken longer than copying them.",
		func(s ask.Stats) any { return s.Memory.Saved.Seconds() })
	stat("axle_disk_reused_tokens_total", "counter", "Prompt tokens whose rows came back from disk.",
		func(s ask.Stats) any { return s.Disk.Hits })
	stat("axle_disk_out_bytes_total", "counter", "Bytes of rows copied off the card to be kept on disk.",
		func(s ask.Stats) any { return s.Disk.Out })
	stat("axle_disk_in_bytes_total", "counter", "Bytes of rows that came from disk onto the card.",
		func(s ask.Stats) any { return s.Disk.In })
	stat("axle_disk_saved_seconds_total", "counter", "What evaluating those rows would have taken longer than copying them.",
		func(s ask.Stats) any { return s.Disk.Saved.Seconds() })
	family(w, "axle_cache_reused_tokens_total", "counter", "Prompt tokens that were not evaluated again, by where their rows were.")
	for _, r := range models {
		for _, t := range manage.Tiers(r.Stats) {
			fmt.Fprintf(w, "axle_cache_reused_tokens_total{model=%q,origin=%q} %d\n", r.Entry.Name.String(), t.Name, t.Hits)
		}
	}
	stat("axle_far_in_bytes_total", "counter", "Bytes of rows that came from other machines or an object store.",
		func(s ask.Stats) any { return s.Far.In })
	stat("axle_far_late_total", "counter", "Times that waiting for them was given up, since evaluating was quicker.",
		func(s ask.Stats) any { return s.Far.Late })
	stat("axle_far_bytes_per_second", "gauge", "How quickly they come, as measured.", func(s ask.Stats) any { return s.Far.Rate })
	stat("axle_far_latency_seconds", "gauge", "How long the first byte takes, as measured.",
		func(s ask.Stats) any { return s.Far.Wait.Seconds() })
	stat("axle_running", "gauge", "Sequences on the card.", func(s ask.Stats) any { return s.Running })
	stat("axle_queued", "gauge", "Sequences waiting for the card.", func(s ask.Stats) any { return s.Queued })
	stat("axle_rejected_total", "counter", "Sequences refused because the queue was full.", func(s ask.Stats) any { return s.Rejected })
	stat("axle_cancelled_total", "counter", "Sequences whose client left.", func(s ask.Stats) any { return s.Cancelled })
	stat("axle_failed_total", "counter", "Sequences that ended with an error.", func(s ask.Stats) any { return s.Failed })
	stat("axle_reused_tokens_total", "counter", "Prompt tokens the engine found in its cache.",
		func(s ask.Stats) any { return s.CachedTokens })
	stat("axle_speculation_drafted_total", "counter", "Tokens guessed.", func(s ask.Stats) any { return s.Drafted })
	stat("axle_speculation_accepted_total", "counter", "Guesses that were right.", func(s ask.Stats) any { return s.Accepted })
	stat("axle_speculation_key_drafted_total", "counter", "Of those, tokens guessed from other conversations of the same key.",
		func(s ask.Stats) any { return s.KeyDrafted })
	stat("axle_speculation_key_accepted_total", "counter", "Of those, guesses that were right.",
		func(s ask.Stats) any { return s.KeyAccepted })
	stat("axle_card_busy_seconds_total", "counter", "Time inside passes.", func(s ask.Stats) any { return s.Busy.Seconds() })
	stat("axle_longest_piece_seconds", "gauge", "The longest piece of the model's work, during which detections wait.",
		func(s ask.Stats) any { return s.Piece.Seconds() })
	stat("axle_card_temperature_celsius", "gauge", "The card's temperature.", func(s ask.Stats) any { return s.Temperature })
	stat("axle_card_load_ratio", "gauge", "The card's own load figure, 0 to 1.", func(s ask.Stats) any { return s.NPULoad / 100 })
	stat("axle_card_memory_free_bytes", "gauge", "Free card memory.", func(s ask.Stats) any { return s.CardFree })
	stat("axle_card_memory_bytes", "gauge", "Card memory.", func(s ask.Stats) any { return s.CardTotal })
	stat("axle_host_head_ready", "gauge", "1 where this machine's processor may compute the LM head.", func(s ask.Stats) any {
		return map[bool]int{true: 1}[s.Head.Ready]
	})
	stat("axle_host_head_rows_total", "counter", "Rows that this machine's processor took through the LM head.",
		func(s ask.Stats) any { return s.Head.Rows })
	stat("axle_host_head_busy_seconds_total", "counter", "Time it took for them.", func(s ask.Stats) any { return s.Head.Busy.Seconds() })
	family(w, "axle_passes_total", "counter", "Passes by kind.")
	for _, r := range models {
		for _, kind := range slices.Sorted(maps.Keys(r.Stats.Passes)) {
			fmt.Fprintf(w, "axle_passes_total{model=%q,kind=%q} %d\n", r.Entry.Name.String(), kind, r.Stats.Passes[kind])
		}
	}
	family(w, "axle_proven", "gauge", "What the card was proven to do with the model.")
	for _, r := range models {
		for _, what := range slices.Sorted(maps.Keys(r.Stats.Proven)) {
			fmt.Fprintf(w, "axle_proven{model=%q,what=%q} %d\n", r.Entry.Name.String(), what, map[bool]int{true: 1}[r.Stats.Proven[what]])
		}
	}
}

// writeUsed gives what keys have used, each by its name.
func writeUsed(w io.Writer, all []access.Used) {
	for _, f := range []struct {
		name, kind, help string
		v                func(access.Used) any
	}{
		{"axle_key_prompt_tokens_total", "counter", "Prompt tokens of the key's requests.",
			func(u access.Used) any { return u.Total.Prompt }},
		{"axle_key_prompt_tokens_reused_total", "counter", "Prompt tokens of the key's requests that were found in the cache.",
			func(u access.Used) any { return u.Total.Cached }},
		{"axle_key_output_tokens_total", "counter", "Tokens written for the key.", func(u access.Used) any { return u.Total.Output }},
		{"axle_key_tokens_today", "gauge", "Tokens evaluated and written for the key since midnight, which its limit of a day is about.",
			func(u access.Used) any { return u.Today }},
		{"axle_key_requests", "gauge", "The key's requests that are at work.", func(u access.Used) any { return u.Running }},
		{"axle_key_refused_total", "counter", "Requests of the key that one of its limits refused.",
			func(u access.Used) any { return u.Refused }},
	} {
		family(w, f.name, f.kind, f.help)
		for _, u := range all {
			fmt.Fprintf(w, "%s{key=%q} %v\n", f.name, u.Name, f.v(u))
		}
	}
}
