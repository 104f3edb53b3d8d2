package server_test

import (
	"strings"
	"testing"
)

// Numbers beside the options: too large a keep_alive is for ever, as is a negative one; limits out
// of range are 400; what Ollama takes is taken (promise T3).
func TestNumbersElsewhere(t *testing.T) {
	//proves:T3
	r := newRig(t)
	for _, tt := range []struct {
		keep    string
		expires string
	}{
		{"9223372036", ""}, {"9223372037", `"expires_at":"23`}, {"1e10", `"expires_at":"23`}, {"1e300", `"expires_at":"23`},
		{"-1", `"expires_at":"23`}, {"-1e300", `"expires_at":"23`}, {`"-1s"`, `"expires_at":"23`},
	} {
		for _, path := range []string{"/api/chat", "/api/generate"} {
			a := r.post(path, `{"model":"scripted","keep_alive":`+tt.keep+`}`)
			ps := r.do("GET", "/api/ps", "").body
			if a.code != 200 || !strings.Contains(a.body, `"load"`) || len(r.Loaded()) != 1 || !strings.Contains(ps, tt.expires) {
				t.Errorf("%s keep_alive %s: %d %s, %s", path, tt.keep, a.code, a.body, ps)
			}
			r.post(path, `{"model":"scripted","keep_alive":0}`)
		}
	}
	if a := r.post("/api/generate", `{"model":"scripted","keep_alive":1e999}`); a.code != 400 {
		t.Errorf("keep_alive 1e999: %d %s", a.code, a.body)
	}
	const chat, prompt, embed = `{"model":"scripted-chat","messages":[{"role":"user","content":"[[say:a|b|c]]"}],`,
		`{"model":"scripted","prompt":"[[say:a|b|c]]",`, `{"model":"scripted-embed","input":"x",`
	for _, tt := range []struct {
		path, begin, field string
		values             string
		code               int
		want               string
	}{
		{"/v1/chat/completions", chat, "max_completion_tokens", "0 4 2147483647", 200, `"completion_tokens":3`},
		{"/v1/chat/completions", chat, "max_completion_tokens", "2", 200, `"completion_tokens":2`},
		{"/v1/chat/completions", chat, "max_completion_tokens", "-1 2147483648 9223372036854775807 9223372036854775808 1.5 1e300", 400,
			"max_completion_tokens"},
		{"/v1/completions", prompt, "max_completion_tokens", "0 2147483647", 200, `"completion_tokens":3`},
		{"/v1/completions", prompt, "max_completion_tokens", "-1 2147483648", 400, "max_completion_tokens"},
		{"/v1/chat/completions", chat, "max_tokens", "0 2147483647", 200, `"completion_tokens":3`},
		{"/v1/chat/completions", chat, "max_tokens", "-3 2147483648", 400, "num_predict"},
		{"/api/embed", embed, "dimensions", "0 1 8 9 1000000", 200, "embeddings"},
		{"/api/embed", embed, "dimensions", "-1 1e300 1.5", 400, "dimensions"},
		{"/v1/embeddings", embed, "dimensions", "-1", 400, "dimensions"},
		{"/api/generate", prompt, "options", `{"top_k":40.5} {"seed":1.5} {"num_predict":3.9}`, 200, "response"},
		{"/api/generate", prompt, "options", `{"top_k":-1.5} {"num_ctx":-0.5} {"num_predict":-2.5}`, 400, "option"},
	} {
		for v := range strings.FieldsSeq(tt.values) {
			if a := r.post(tt.path, tt.begin+`"`+tt.field+`":`+v+"}"); a.code != tt.code || !strings.Contains(a.body, tt.want) {
				t.Errorf("%s %s %s: got %d %s, want %d and %s", tt.path, tt.field, v, a.code, a.body, tt.code, tt.want)
			}
		}
	}
}
