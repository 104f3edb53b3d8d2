package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/axle-llm/axle/engine"
)

type chromeEvent struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"`
	At    float64        `json:"ts"`
	For   float64        `json:"dur,omitempty"`
	Pid   int            `json:"pid"`
	Tid   int            `json:"tid"`
	Args  map[string]any `json:"args,omitempty"`
}

// WriteTrace writes runs as Chrome and Perfetto read them: a process a run, with the passes, their
// stages and each client's request on lines of their own. split is the Meter's. Errors: w's.
func WriteTrace(w io.Writer, runs []Run, split func(*engine.PassTrace) Parts) error {
	events := []chromeEvent{}
	for pid, r := range runs {
		name := func(what string, tid int, text string) {
			events = append(events, chromeEvent{Name: what, Phase: "M", Pid: pid, Tid: tid, Args: map[string]any{"name": text}})
		}
		name("process_name", 0, r.Load.String())
		name("thread_name", 1, "passes")
		name("thread_name", 2, "stages")
		name("thread_name", 3, "draft model")
		name("thread_name", 4, "LM head on the host")
		span := func(tid int, name string, from, took time.Duration, args map[string]any) {
			if took > 0 {
				events = append(events, chromeEvent{name, "X", us(from), us(took), pid, tid, args})
			}
		}
		for i := range r.Passes {
			p := &r.Passes[i]
			if p.Kind == "draft" {
				span(3, p.Kind, p.Start, p.End-p.Start, map[string]any{"rows": p.Rows, "reach": p.Reach, "want": p.Want,
					"requests": parts(p)})
				continue
			}
			if p.Kind == "head" {
				span(4, p.Kind, p.Start, p.End-p.Start, map[string]any{"rows": p.Rows})
				continue
			}
			span(1, p.Kind, p.Start, p.End-p.Start, map[string]any{"rows": p.Rows, "reach": p.Reach, "want": p.Want,
				"calls": p.Timing.Calls, "requests": parts(p)})
			s, at := split(p), p.Start
			stage := func(name string, d time.Duration) {
				span(2, name, at, d, nil)
				at += d
			}
			stage("plan", p.Plan)
			stage("draft", p.Draft)
			stage("plan", p.Build-p.Embed)
			stage("embed", p.Embed)
			stage("upload", s.Upload)
			stage("layers", s.Layers)
			stage("head", s.Head)
			stage("download", s.Down)
			span(4, "head", at, p.HostHead, map[string]any{"rows": p.Want})
			stage("head on the host", p.HostHead)
			stage("sample", p.Sample-p.Detokenize)
			stage("detokenize", p.Detokenize)
		}
		for _, q := range r.Requests {
			tid := 10 + q.Client
			name("thread_name", tid, fmt.Sprintf("client %d", q.Client))
			span(tid, "first token", q.Begin, q.First-q.Begin, map[string]any{"prompt": q.Prompt})
			span(tid, "answer", q.First, q.End-q.First, map[string]any{"tokens": q.Tokens})
		}
	}
	return json.NewEncoder(w).Encode(map[string]any{"displayTimeUnit": "ms", "traceEvents": events})
}

func parts(p *engine.PassTrace) []map[string]any {
	out := make([]map[string]any, len(p.Parts))
	for i, h := range p.Parts {
		out[i] = map[string]any{"request": h.Seq, "from": h.From, "rows": h.Rows, "guesses": h.Drafts, "want": h.Want}
	}
	return out
}

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
