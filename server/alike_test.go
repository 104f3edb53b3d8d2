package server_test

import (
	"regexp"
	"strings"
	"testing"
)

// Answers as the real Ollama 0.34.4 gave them to the same requests, with a scripted backend behind
// it as well.
func TestAlike(t *testing.T) {
	r := newRig(t)
	const thinks = `[[say:<think>|hm|</think>|\n\nyes]]`
	stats := `"total_duration":N,"load_duration":N,"prompt_eval_count":P,"prompt_eval_cached_count":0,"prompt_eval_duration":N,"eval_count":`
	for _, tt := range []struct{ name, path, body, kind, want string }{
		{"generate gives a part for each token, tags too", "/api/generate", `{"model":"scripted-chat","prompt":"` + thinks + `"}`,
			"application/x-ndjson",
			`{"model":"scripted-chat","created_at":T,"response":"","done":false}
{"model":"scripted-chat","created_at":T,"response":"","thinking":"hm","done":false}
{"model":"scripted-chat","created_at":T,"response":"","done":false}
{"model":"scripted-chat","created_at":T,"response":"yes","done":false}
{"model":"scripted-chat","created_at":T,"response":"","done":true,"done_reason":"stop","context":C,` + stats + `4,"eval_duration":N}
`},
		{"chat does not", "/api/chat", `{"model":"scripted-chat","messages":[{"role":"user","content":"` + thinks + `"}]}`,
			"application/x-ndjson",
			`{"model":"scripted-chat","created_at":T,"message":{"role":"assistant","content":"","thinking":"hm"},"done":false}
{"model":"scripted-chat","created_at":T,"message":{"role":"assistant","content":"yes"},"done":false}
{"model":"scripted-chat","created_at":T,"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop",` + stats +
				`4,"eval_duration":N}
`},
		{"a model that does not think", "/api/generate", `{"model":"scripted","prompt":"[[say:a]]"}`, "application/x-ndjson",
			`{"model":"scripted","created_at":T,"response":"a","done":false}
{"model":"scripted","created_at":T,"response":"","done":true,"done_reason":"stop","context":C,` + stats + `1,"eval_duration":N}
`},
		{"a load through completions", "/v1/completions", `{"model":"scripted"}`, "application/json",
			`{"id":"cmpl","object":"text_completion","created":N,"model":"scripted","system_fingerprint":"fp_ollama","choices":[{"text":"","index":0,"finish_reason":"load"}],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}
`},
		{"a load through completions, streamed", "/v1/completions", `{"model":"scripted","prompt":"","stream":true}`, "text/event-stream",
			`data: {"id":"cmpl","object":"text_completion","created":N,"choices":[{"text":"","index":0,"finish_reason":"load"}],"model":"scripted","system_fingerprint":"fp_ollama"}

data: [DONE]

`},
		{"a message of no parts is none", "/v1/chat/completions", `{"model":"scripted-chat","messages":[{"role":"user","content":[]}]}`,
			"application/json",
			`{"id":"chatcmpl","object":"chat.completion","created":N,"model":"scripted-chat","system_fingerprint":"fp_ollama","choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"load"}],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}
`},
		{"anthropic, no text", "/v1/messages", `{"model":"scripted-chat","max_tokens":5,"messages":[{"role":"user","content":""}]}`,
			"application/json",
			`{"id":"msg","type":"message","role":"assistant","model":"scripted-chat","content":[],"stop_reason":"stop_sequence","usage":{"input_tokens":0,"output_tokens":0}}
`},
		{"responses without input", "/v1/responses", `{"model":"scripted-chat"}`, "application/json",
			`{"error":{"message":"input is required","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}
`},
		{"responses with a foreign compaction", "/v1/responses",
			`{"model":"scripted-chat","input":[{"type":"compaction","encrypted_content":"x"}]}`, "application/json",
			`{"error":{"message":"unsupported compaction item: encrypted_content is not an Ollama payload","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}
`},
		{"messages with a search that the model does not use", "/v1/messages",
			`{"model":"scripted-chat","max_tokens":5,"messages":[{"role":"user","content":"[[say:x]]"}],"tools":[{"type":"web_search_20250305","name":"web_search"}]}`,
			"application/json",
			`{"id":"msg","type":"message","role":"assistant","model":"scripted-chat","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"cache_read_input_tokens":0,"output_tokens":1}}
`},
	} {
		a := r.post(tt.path, tt.body)
		got := regexp.MustCompile(`"prompt_eval_count":\d+`).ReplaceAllString(steady(a.body), `"prompt_eval_count":P`)
		if got != tt.want || a.header.Get("Content-Type") != tt.kind {
			t.Errorf("%s: %s\n got %s\nwant %s", tt.name, a.header.Get("Content-Type"), got, tt.want)
		}
	}
	// Codex offers a search with every request: an answer that does not use it is an answer as any
	// other.
	if a := r.post("/v1/responses", `{"model":"scripted-chat","input":"[[say:x]]","tools":[{"type":"web_search"}]}`); a.code != 200 ||
		!strings.Contains(a.body, `"text":"x"`) || !strings.Contains(a.body, `"tools":[{"type":"web_search"`) {
		t.Errorf("a search that is not used: %d %s", a.code, a.body)
	}
	// A summary that is none is asked for twice.
	a := r.post("/v1/responses/compact", `{"model":"scripted-chat","input":"[[say:<think>|no]]"}`)
	if a.code != 500 || !strings.Contains(a.body, "the original conversation is unchanged") ||
		!strings.Contains(a.body, `"code":"compaction_failed"`) {
		t.Errorf("compaction: %d %s", a.code, a.body)
	}
	asked := func() uint64 { st := r.loader.Backends()[0].Stats(); return st.Done + st.Cancelled } // whose call is there is left
	before := asked()
	r.post("/v1/responses/compact", `{"model":"scripted-chat","input":"[[say:<think>|no]]"}`)
	if n := asked() - before; n != 2 {
		t.Errorf("asked %d times", n)
	}
}

// What differs from call to call in answers.
var fleeting = []struct {
	re *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`"created_at":"[^"]*"`), `"created_at":T`},
	{regexp.MustCompile(`"(created|created_at|completed_at|(?:total|load|prompt_eval|eval)_duration)":\d+`), `"$1":N`},
	{regexp.MustCompile(`,"(?:ttft_ms|decode_tps)":[0-9.]+`), ``},
	{regexp.MustCompile(`(chatcmpl|cmpl|call|msg|resp|rs)(_|-)[0-9a-z_]+`), `$1`},
	{regexp.MustCompile(`"context":\[[0-9,]*\]`), `"context":C`},
}

func steady(s string) string {
	for _, f := range fleeting {
		s = f.re.ReplaceAllString(s, f.to)
	}
	return s
}
