package server_test

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/scripted"
)

// A prompt that does not fit is cut as in Ollama, and said so: by a line of the log with the
// numbers, in the metrics, and in a header of every dialect, streamed or not. One that fits says
// nothing.
func TestCutIsTold(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	r := newRig(t, func(o *server.Options, _ *scripted.Config) { o.Log, o.ContextLength = zap.New(core), 64 })
	long := strings.Repeat("word ", 300) + "[[say:ok]]"
	turns := strings.Repeat(`{"role":"user","content":"one two three four five"},{"role":"assistant","content":"six seven eight"},`, 30)
	told := 0
	for _, tt := range []struct {
		name, path, body string
		cut              bool
	}{
		{"chat", "/api/chat", `{"model":"scripted-chat","messages":[{"role":"user","content":"` + long + `"}]`, true},
		{"chat, whole", "/api/chat", `{"model":"scripted-chat","stream":false,"messages":[{"role":"user","content":"` + long + `"}]`, true},
		{"old messages", "/api/chat", `{"model":"scripted-chat","stream":false,"messages":[` + turns +
			`{"role":"user","content":"[[say:ok]]"}]`, true},
		{"generate", "/api/generate", `{"model":"scripted","prompt":"` + long + `"`, true},
		{"OpenAI", "/v1/chat/completions", `{"model":"scripted-chat","stream":true,"messages":[{"role":"user","content":"` + long + `"}]`,
			true},
		{"completions", "/v1/completions", `{"model":"scripted","prompt":"` + long + `"`, true},
		{"responses", "/v1/responses", `{"model":"scripted-chat","stream":true,"input":"` + long + `"`, true},
		{"Anthropic", "/v1/messages", `{"model":"scripted-chat","max_tokens":9,"messages":[{"role":"user","content":"` + long + `"}]`,
			true},
		{"embed", "/api/embed", `{"model":"scripted-embed","options":{"num_ctx":64},"input":["x","` + long + `","` + long + `"]`, true},
		{"OpenAI's embeddings", "/v1/embeddings", `{"model":"scripted-embed","input":"` + long + `"`, true},
		{"a drawing", generations, `{"model":"scripted-drawing","prompt":"` + long + `","n":2`, true},
		{"a streamed drawing", generations, `{"model":"scripted-drawing","prompt":"` + long + `","stream":true,"progress":true`, true},
		{"what fits", "/api/chat", `{"model":"scripted-chat","messages":[{"role":"user","content":"[[say:ok]]"}]`, false},
		{"a larger context", "/api/chat", `{"model":"scripted-chat","options":{"num_ctx":4096},"messages":[{"role":"user","content":"` +
			long + `"}]`, false},
	} {
		logs.TakeAll()
		a := r.post(tt.path, tt.body+"}")
		h, lines := a.header.Get("Axle-Truncated"), logs.FilterMessageSnippet("did not fit").All()
		if a.code != 200 || (h != "") != tt.cut || len(lines) != map[bool]int{true: 1}[tt.cut] {
			t.Errorf("%s: %d %q, %d lines, %.200s", tt.name, a.code, h, len(lines), a.body)
			continue
		}
		if !tt.cut {
			continue
		}
		told++
		var limit, prompt, kept, cut int64
		if _, err := fmt.Sscanf(h, "limit=%d, prompt=%d, kept=%d, cut=%d", &limit, &prompt, &kept, &cut); err != nil || limit != 64 ||
			kept > limit || kept < 1 || prompt-kept != cut || prompt < 200 {
			t.Errorf("%s: the header %q: %v", tt.name, h, err)
		}
		if m := lines[0].ContextMap(); m["limit"] != limit || m["prompt"] != prompt || m["kept"] != kept || m["cut"] != cut ||
			!strings.HasPrefix(fmt.Sprint(m["model"]), "scripted") {
			t.Errorf("%s: the line %v, the header %s", tt.name, m, h)
		}
	}
	if m := r.do("GET", "/metrics", "").body; !strings.Contains(m, fmt.Sprintf("axle_prompts_truncated_total %d\n", told+1)) ||
		strings.Contains(m, "axle_prompt_tokens_truncated_total 0\n") {
		t.Errorf("metrics after %d: %s", told, m)
	}
}
