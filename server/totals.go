package server

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/axle-llm/axle/prefix"
	"github.com/axle-llm/axle/server/pool"
)

// totals are what those that lead requests to one of several servers ask of each: how much waits,
// how much runs, how full the cache is, which models are there. Each is one series that exists from
// the first scrape on, whatever is loaded: a router takes the first series of a family, and knows
// nothing of a server that has none.
type totals struct {
	waiting, running int
	kv               float64
	blocks           int // of prefix.Shared tokens, of all models
	// The models in the form of vLLM's lora_requests_info: a router that keeps adapters together
	// keeps models together by it.
	max            int
	loaded, coming []string
	at             time.Time
}

func (s *Server) totals(models []pool.Running) totals {
	t := totals{at: time.Now()}
	pending, waiting := s.models.Loading()
	t.waiting = waiting // for a model that is loaded; the others wait for the card
	for _, r := range models {
		t.waiting += r.Stats.Queued
		t.running += r.Stats.Running
		t.kv = max(t.kv, kvUsage(r))
		t.blocks += r.Stats.Cells / prefix.Shared
		t.loaded = append(t.loaded, spellings(r.Entry.Name.String())...)
	}
	for _, p := range pending {
		t.coming = append(t.coming, spellings(p.Model)...)
	}
	// A router compares it with the number of names. As many models as fit may be loaded unless a
	// number is set: one more, always, for which an idle one goes.
	more := 1
	if s.o.MaxLoaded > 0 {
		more = max(s.o.MaxLoaded-len(models)-len(pending), 0)
	}
	t.max = len(t.loaded) + len(t.coming) + more
	return t
}

// kvUsage is how much of a model's cache cannot be had: an idle server that is warm is not full.
func kvUsage(r pool.Running) float64 {
	if r.Stats.Cells <= 0 {
		return 0
	}
	return float64(max(r.Stats.CellsUsed-r.Stats.CellsCached, 0)) / float64(r.Stats.Cells)
}

// spellings are the names that requests call a model by: a router compares what the request says.
func spellings(name string) []string {
	if short, ok := strings.CutSuffix(name, ":latest"); ok {
		return []string{short, name}
	}
	return []string{name}
}

func (t totals) write(w io.Writer) {
	gauge(w, "axle_requests_waiting", "Requests that wait, for the card or for a model to be loaded: of all models together.", t.waiting)
	gauge(w, "axle_requests_running", "Requests on the card: of all models together.", t.running)
	gauge(w, "axle_kv_usage_ratio", "Share of the cache rows that cannot be had, 0 to 1, of the fullest model: what finished answers "+
		"left behind can.", t.kv)
	family(w, "axle_cache_info", "gauge", "Tokens of a block, and how many blocks the caches of all loaded models hold.")
	fmt.Fprintf(w, "axle_cache_info{block_size=\"%d\",num_blocks=\"%d\"} 1\n", prefix.Shared, t.blocks)
	family(w, "axle_models_info", "gauge", "Models that are loaded (running) and being loaded (waiting), by every name that requests call "+
		"them; the value is the time.")
	t.writeModels(w, "axle_models_info")
}

// writeVLLM says the same under vLLM's names, for what knows only these. Requests and use are by
// model, as vLLM has them; without a model there is one series without a name.
func (t totals) writeVLLM(w io.Writer, models []pool.Running) {
	each := func(name, help string, v func(pool.Running) any) {
		family(w, name, "gauge", help)
		for _, r := range models {
			fmt.Fprintf(w, "%s{model_name=%q} %v\n", name, r.Entry.Name.String(), v(r))
		}
		if len(models) == 0 {
			fmt.Fprintf(w, "%s{model_name=\"\"} %v\n", name, v(pool.Running{}))
		}
	}
	each("vllm:num_requests_waiting", "As axle_queued.", func(r pool.Running) any { return r.Stats.Queued })
	each("vllm:num_requests_running", "As axle_running.", func(r pool.Running) any { return r.Stats.Running })
	each("vllm:kv_cache_usage_perc", "As axle_kv_usage_ratio, by model.", func(r pool.Running) any { return kvUsage(r) })
	family(w, "vllm:cache_config_info", "gauge", "As axle_cache_info.")
	fmt.Fprintf(w, "vllm:cache_config_info{block_size=\"%d\",num_gpu_blocks=\"%d\"} 1\n", prefix.Shared, t.blocks)
	family(w, "vllm:lora_requests_info", "gauge", "As axle_models_info.")
	t.writeModels(w, "vllm:lora_requests_info")
}

func (t totals) writeModels(w io.Writer, name string) {
	fmt.Fprintf(w, "%s{max_lora=\"%d\",running_lora_adapters=%q,waiting_lora_adapters=%q} %.3f\n", name, t.max,
		strings.Join(t.loaded, ","), strings.Join(t.coming, ","), float64(t.at.UnixMilli())/1e3)
}

// gauge is a family of one series without labels.
func gauge(w io.Writer, name, help string, v any) {
	family(w, name, "gauge", help)
	fmt.Fprintf(w, "%s %v\n", name, v)
}

func family(w io.Writer, name, kind, help string) {
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}
