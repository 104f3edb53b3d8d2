package server_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/scripted"
)

// Whatever clients send, each line of the log is one event that parses, and neither prompts nor
// keys are in it (promise T14).
func TestLog(t *testing.T) {
	//proves:T14 a canary in every field of every API
	var out lockedBuffer
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.Lock(zapcore.AddSync(&out)),
		zapcore.DebugLevel))
	const canary, key = "canary-in-a-prompt", "canary-as-a-key"
	r := newRig(t, func(o *server.Options, _ *scripted.Config) {
		o.Log, o.Keys = log, newKeys("ann", key)
	})
	auth := []string{"Authorization", "Bearer " + key}
	for _, evil := range []string{"x\n{\"level\":\"error\",\"msg\":\"forged\"}", "\x1b[31mred", "\u2028\u2029", `","msg":"forged","x":"`,
		"\x00\x01", strings.Repeat("é", 300), "%s%n%d", "\xff\xfe"} {
		r.post("/api/chat", `{"model":`+quote(evil)+`,"messages":[{"role":"user","content":"`+canary+`"}]}`, auth...)
		r.post("/api/chat", `{"model":"scripted-chat","stream":false,"options":{`+quote(evil)+`:1},"messages":[{"role":`+quote(evil)+
			`,"content":"`+canary+` [[say:ok]]"}]}`, auth...)
		r.post("/api/show", `{"model":"scripted"}`, append([]string{"User-Agent", strings.Map(func(c rune) rune {
			if c < 32 || c > 126 {
				return '?'
			}
			return c
		}, evil)}, auth...)...)
	}
	r.post("/api/chat", chatBody("scripted-chat", canary+"[[crash]]", ""), auth...)
	// A canary in every place where a client can leave one, wrong types and values among them.
	for _, more := range []string{`"format":"CANARY"`, `"format":{"type":"CANARY"}`, `"format":["CANARY"]`,
		`"format":{"properties":{"CANARY":{"type":"array","uniqueItems":true}},"$defs":{"CANARY":{"pattern":"(?=CANARY)"}},"patternProperties":{"CANARY":{"pattern":"(?=CANARY)"}}}`,
		`"think":"CANARY"`, `"keep_alive":"CANARY"`, `"options":{"stop":"CANARY"}`,
		`"options":{"temperature":"CANARY"}`, `"tools":"CANARY"`,
		`"tools":[{"type":"function","function":{"name":"f","description":"CANARY","parameters":{"type":"object","properties":{"CANARY":{"type":"string"}}}}}]`,
		`"template":"{{ CANARY"`, `"system":"CANARY"`, `"suffix":"CANARY"`, `"images":["CANARY!"]`, `"context":["CANARY"]`,
		`"stream":"CANARY"`, `"tool_choice":"CANARY"`, `"reasoning_effort":"CANARY"`,
		`"user":"CANARY"`, `"metadata":{"user_id":"CANARY"}`,
		`"response_format":{"type":"json_schema","json_schema":{"name":"CANARY","schema":{"type":"CANARY"}}}`, `"logit_bias":{"CANARY":1}`,
		`"encoding_format":"CANARY"`, `"thinking_mode":"CANARY"`, `"stop":["CANARY"]`, `"top_logprobs":"CANARY"`, `"CANARY":1`} {
		for _, path := range []string{"/api/chat", "/api/generate", "/api/embed", "/api/create", "/api/show", "/v1/chat/completions",
			"/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/messages"} {
			body := `{"model":"scripted-chat","from":"scripted-chat","max_tokens":9,"stream":false,"prompt":"[[say:x]]","input":"[[say:x]]","messages":[{"role":"user","content":"[[say:x]]"}],` +
				more + "}"
			r.post(path+"?key="+canary, strings.ReplaceAll(body, "CANARY", canary),
				append([]string{"Cookie", canary, "Referer", "http://x/" + canary, "User-Agent", canary}, auth...)...)
		}
	}
	for _, h := range []string{"Bearer " + canary, canary, "Basic " + canary} {
		r.do("GET", "/api/tags", "", "Authorization", h)
		r.do("GET", "/api/tags", "", "X-Api-Key", h)
	}
	r.post("/api/chat", `{"model":"scripted-chat","format":"`+strings.Repeat("long ", 100_000)+
		`","messages":[{"role":"user","content":"x"}]}`, auth...)
	r.do("GET", "/api/tags", "", "Authorization", "Bearer "+canary)
	r.do("GET", "/metrics", "", auth...)
	lines := 0
	for line := range strings.Lines(out.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Errorf("%v in line %q", err, line)
		}
		if len(line) > 8192 {
			t.Errorf("a line of %d bytes: %.200q", len(line), line)
		}
		if m["msg"] == "forged" {
			t.Errorf("a forged line: %q", line)
		}
		lines++
	}
	if lines < 20 {
		t.Errorf("%d lines", lines)
	}
	if s := out.String(); strings.Contains(s, canary) || strings.Contains(s, key) {
		t.Error("a prompt or a key is in the log")
	}
	if !strings.Contains(out.String(), `"key":"ann"`) {
		t.Error("the log does not say whose request it was")
	}
	if m := r.do("GET", "/metrics", "", auth...).body; strings.Contains(m, canary) || strings.Contains(m, key) {
		t.Error("a prompt or a key is in the metrics")
	}
	asked := newRig(t, func(o *server.Options, _ *scripted.Config) { o.Log, o.LogPrompts = log, true })
	asked.post("/api/chat", chatBody("scripted-chat", canary+" [[say:ok]]", ""))
	if !strings.Contains(out.String(), canary) {
		t.Error("prompts were asked for and are not in the log")
	}
}

// lockedBuffer is a log that a test reads.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestMetricsAndHealth(t *testing.T) {
	r := newRig(t)
	r.post("/api/chat", chatBody("scripted-chat", "[[say:a|b|c]]", ""))
	r.post("/api/chat", `{"model":"nope"}`)
	m := r.do("GET", "/metrics", "")
	for _, want := range []string{
		`axle_requests_total{route="/api/chat",status="200"} 1`, `axle_requests_total{route="/api/chat",status="404"} 1`,
		"axle_output_tokens_total 3",
		"axle_first_token_seconds_count 1", "axle_queue_seconds_count 1", "axle_token_seconds_count 2", `axle_first_token_seconds_bucket{le="+Inf"} 1`,
		`axle_cells{model="scripted-chat:latest"} 4096`,
		`axle_model_card_bytes{model="scripted-chat:latest"}`, `axle_card_temperature_celsius{model="scripted-chat:latest"} 41.5`,
		`axle_passes_total{model="scripted-chat:latest",kind="decode"} 3`,
		"axle_speculation_accepted_total", "axle_cells_shared", "axle_reused_tokens_total", "axle_queued", "axle_card_load_ratio",
		"axle_card_memory_free_bytes", `axle_longest_piece_seconds{model="scripted-chat:latest"} 0.06`,
		`axle_states{model="scripted-chat:latest"} 0`, "axle_states_used{", "axle_states_kept{",
		`axle_memory_rows{model="scripted-chat:latest"} 300`, `axle_memory_rows_used{model="scripted-chat:latest"} 20`,
		`axle_memory_bytes{model="scripted-chat:latest"} 614400`, `axle_memory_reused_tokens_total{model="scripted-chat:latest"} 7`,
		`axle_memory_out_bytes_total{model="scripted-chat:latest"} 40960`, `axle_memory_in_bytes_total{model="scripted-chat:latest"} 14336`,
		`axle_memory_saved_seconds_total{model="scripted-chat:latest"} 1.5`,
		`axle_disk_reused_tokens_total{model="scripted-chat:latest"} 3`,
		`axle_cache_reused_tokens_total{model="scripted-chat:latest",origin="disk"} 3`,
		`axle_cache_reused_tokens_total{model="scripted-chat:latest",origin="peer"} 5`,
		`axle_far_late_total{model="scripted-chat:latest"} 1`,
		`axle_disk_out_bytes_total{model="scripted-chat:latest"} 10240`, `axle_disk_in_bytes_total{model="scripted-chat:latest"} 6144`,
		`axle_disk_saved_seconds_total{model="scripted-chat:latest"} 0.25`,
	} {
		if !strings.Contains(m.body, want) {
			t.Errorf("no %s in\n%s", want, m.body)
		}
	}
	for line := range strings.Lines(m.body) {
		if f := strings.Fields(line); !strings.HasPrefix(line, "# ") && len(f) != 2 {
			t.Errorf("line %q", line)
		}
	}
	h := r.do("GET", "/health", "").object(t)
	models := h["models"].([]any)
	if h["status"] != "ok" || len(models) != 1 || models[0].(map[string]any)["temperature_celsius"] != 41.5 {
		t.Errorf("health %v", h)
	}
	if h["lost_cards"] != nil {
		t.Errorf("lost cards where none was: %v", h)
	}
	r.SetFewer(errors.New("axcl:1 fell off the bus"))
	r.SetFewer(errors.New("axcl:3 too"))
	if h := r.do("GET", "/health", "").object(t); h["status"] != "ok" ||
		fmt.Sprint(h["lost_cards"]) != "[axcl:1 fell off the bus axcl:3 too]" {
		t.Errorf("health %v", h)
	}
	if m := r.do("GET", "/metrics", ""); !strings.Contains(m.body, "\naxle_cards_lost 2\n") {
		t.Errorf("no lost cards in\n%s", m.body)
	}
	page := r.do("GET", "/ui", "")
	if page.code != 200 || !strings.Contains(page.header.Get("Content-Security-Policy"), "default-src 'none'") ||
		!strings.HasPrefix(page.header.Get("Content-Type"), "text/html") {
		t.Errorf("page %d %v", page.code, page.header)
	}
}

// A connection that was quiet for longer than a write may take is still good.
func TestQuietConnection(t *testing.T) {
	//proves:T8
	inBubble(t, 0, func(t *testing.T, b *bubble) {
		for _, path := range []string{"/api/version", "/nope", "/api/tags/", "/api/version"} {
			resp, err := b.client.Get(b.url + path)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is used again
			_ = resp.Body.Close()
			<-time.After(400 * time.Millisecond)
		}
		resp, err := b.client.Post(b.url+"/api/chat", "", strings.NewReader(
			chatBody("scripted-chat", "[[delay:600]][[say:slow]]", `,"stream":false`)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || !strings.Contains(string(text), `"done":true`) {
			t.Errorf("an answer that takes longer than a write: %s, %v", text, err)
		}
	}, func(o *server.Options, _ *scripted.Config) { o.WriteTimeout = 300 * time.Millisecond })
}
