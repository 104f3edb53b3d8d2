package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Small things in which answers once differed from Ollama's.
func TestSameAsOllama(t *testing.T) {
	r := newRig(t)
	if a := r.do("GET", "/api/status", ""); a.body != `{"cloud":{"disabled":true,"source":"env"}}` {
		t.Errorf("status: %s", a.body)
	}
	if a := r.post("/api/push", `{"model":"nope"}`); !strings.HasPrefix(a.body,
		"{\"status\":\"retrieving manifest\"}\n{\"status\":\"couldn't retrieve manifest\"}\n{\"error\":") {
		t.Errorf("push: %s", a.body)
	}
	// Each layer of the model is told, those that the parent had too.
	r.post("/api/create", `{"model":"one","from":"scripted","system":"one","license":"a"}`)
	var kinds []string
	for _, l := range r.post("/api/create", `{"model":"two","from":"one","parameters":{"seed":7}}`).lines(t) {
		s := fmt.Sprint(l["status"])
		if at := strings.Index(s, " sha256:"); at >= 0 {
			s = s[:at]
		}
		kinds = append(kinds, s)
	}
	if got := strings.Join(kinds,
		", "); got != "using existing layer, using existing layer, creating new layer, writing manifest, success" {
		t.Errorf("create of a model with two layers: %s", got)
	}
	// Errors before a request of /v1/responses is one have a code, later ones null.
	for _, tt := range []struct{ path, body, text, code string }{
		{"/v1/responses", "", "missing request body", `"invalid_request_error"`},
		{"/v1/responses/compact", "", "missing request body", `"invalid_request_error"`},
		{"/v1/responses", "{", "unexpected", `"invalid_request_error"`},
		{"/v1/responses", `{"model":"nope","input":"x"}`, "not found", "null"},
		{"/v1/chat/completions", "", "EOF", "null"},
	} {
		a := r.post(tt.path, tt.body)
		var e struct {
			Error struct{ Code json.RawMessage }
		}
		if err := json.Unmarshal([]byte(a.body), &e); err != nil || string(e.Error.Code) != tt.code || !strings.Contains(a.body, tt.text) {
			t.Errorf("%s %q: %s", tt.path, tt.body, a.body)
		}
	}
	// A preflight names the methods of its path.
	for path, want := range map[string]string{"/api/chat": "POST", "/api/tags": "HEAD, GET", "/api/delete": "DELETE",
		"/api/blobs/sha256:ab": "HEAD, POST",
		"/v1/models/ns/x:y":    "GET", "/v1/models": "GET", "/": "HEAD, GET", "/nowhere": "", "/api/blobs/": "", "/api/blobs/a/b": ""} {
		for _, h := range [][]string{{"Origin", "http://localhost:3000"}, {"Host", "localhost"}} {
			if a := r.do("OPTIONS", path, "", h...); a.code != 204 || a.header.Get("Allow") != want {
				t.Errorf("OPTIONS %s %v: %d, Allow %q, want %q", path, h, a.code, a.header.Get("Allow"), want)
			}
		}
	}
	// The thinking tags are no part of a chat, nor are their probabilities; what a tool call is
	// made of has them.
	for _, stream := range []string{"false", "true"} {
		a := r.post("/api/chat", chatBody("scripted-chat", "[[say:<think>|hm|</think>|yes]]", `,"logprobs":true,"stream":`+stream))
		if strings.Contains(a.body, "think\\u003e") || strings.Count(a.body, `"token":`) != 2 || !strings.Contains(a.body, `"token":"hm"`) {
			t.Errorf("logprobs: %s", a.body)
		}
	}
	if a := r.post("/v1/chat/completions", `{"model":"scripted-chat","messages":[{"role":"user","content":"[[say:a|b|c|d]]"}]}`); a.code ==
		200 {
		var u struct {
			Usage struct {
				TTFT json.Number `json:"ttft_ms"`
				TPS  json.Number `json:"decode_tps"`
			}
		}
		if err := json.Unmarshal([]byte(a.body), &u); err != nil {
			t.Fatal(err)
		}
		for _, n := range []json.Number{u.Usage.TTFT, u.Usage.TPS} {
			if _, rest, _ := strings.Cut(n.String(), "."); len(rest) > 3 || n == "" {
				t.Errorf("a figure of %s", n)
			}
		}
	}
}
