package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/scripted"
)

// TestNearlyFull: /readyz?room says 503 from where a queue is full to three quarters until it is
// full to a half, while /readyz and /health go on saying ok: what comes is still taken.
func TestNearlyFull(t *testing.T) {
	r := newRig(t, func(o *server.Options, c *scripted.Config) { o.MaxQueue, c.MaxQueue, c.Parallel = 8, 8, 1 })
	// The first request is at work, the others wait.
	var leave []context.CancelFunc
	asked := func() int {
		s := (&load{rig: r}).stats()
		return s.Running + s.Queued
	}
	waiting := func(n int) {
		t.Helper()
		for len(leave) < n+1 {
			ctx, cancel := context.WithCancel(t.Context())
			t.Cleanup(cancel)
			leave = append(leave, cancel)
			req, err := http.NewRequestWithContext(ctx, "POST", r.url+"/api/chat",
				strings.NewReader(chatBody("scripted-chat", "[[delay:5]][[say:"+strings.Repeat("word |", 100000)+"]]", "")))
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				if resp, err := http.DefaultClient.Do(req); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			}()
			r.wait("it is at work or waits", func() bool { return asked() == len(leave) })
		}
		for len(leave) > n+1 {
			leave[len(leave)-1]()
			leave = leave[:len(leave)-1]
			r.wait("it is gone", func() bool { return asked() == len(leave) })
		}
	}
	for _, step := range []struct {
		waits, code int
	}{{0, 200}, {5, 200}, {6, 503}, {8, 503}, {5, 503}, {4, 200}, {5, 200}, {6, 503}} {
		waiting(step.waits)
		a, plain, h := r.do("GET", "/readyz?room", ""), r.do("GET", "/readyz", ""), r.do("GET", "/health", "")
		if a.code != step.code || a.code == 503 && !strings.Contains(a.body, `"nearly full"`) || plain.code != 200 || h.code != 200 {
			t.Errorf("%d wait: /readyz?room %d %s, /readyz %d, /health %d", step.waits, a.code, a.body, plain.code, h.code)
		}
	}
}

// TestKeyTokens: tokens are counted for the key that asked, on every route and for answers that are
// broken off, and the limit of a day is told in each dialect's own form with when to come again.
// Another key goes on.
func TestKeyTokens(t *testing.T) {
	r := limitRig(t, access.Limits{Tokens: 60})
	asks := map[string]string{
		"/api/chat":            chatBody("scripted-chat", "[[say:a|b|c]]", ""),
		"/api/generate":        `{"model":"scripted","prompt":"[[say:a|b|c]]","stream":false}`,
		"/api/embed":           `{"model":"scripted-embed","input":"a b c"}`,
		"/api/embeddings":      `{"model":"scripted-embed","prompt":"a b c"}`,
		"/api/rerank":          `{"model":"scripted-embed","query":"a","documents":["b"]}`,
		"/v1/chat/completions": chatBody("scripted-chat", "[[say:a|b|c]]", ""),
		"/v1/completions":      `{"model":"scripted","prompt":"[[say:a|b|c]]"}`,
		"/v1/embeddings":       `{"model":"scripted-embed","input":"a b c"}`,
		"/v1/responses":        `{"model":"scripted-chat","input":"[[say:a|b|c]]"}`,
		"/v1/messages":         chatBody("scripted-chat", "[[say:a|b|c]]", `,"max_tokens":9`),
	}
	for path, body := range asks {
		before := r.figure("axle_key_tokens_today", "free", "free")
		if a := r.post(path, body, bearer("free")...); a.code != 200 || r.figure("axle_key_tokens_today", "free", "free") <= before {
			t.Errorf("%s: %d, and %d tokens after %d", path, a.code, r.figure("axle_key_tokens_today", "free", "free"), before)
		}
	}
	if n := r.figure("axle_key_tokens_today", "limited", "free"); n != 0 {
		t.Errorf("the other key has used %d", n)
	}
	for i := 0; r.post("/api/chat", asks["/api/chat"], bearer("limited")...).code == 200; i++ {
		if i > 60 {
			t.Fatal("the limit of a day does not hold")
		}
	}
	if n := r.figure("axle_key_tokens_today", "limited", "free"); n < 60 {
		t.Errorf("refused after %d tokens of 60", n)
	}
	for path, body := range asks {
		a := r.post(path, body, bearer("limited")...)
		form := map[bool]string{strings.HasPrefix(path, "/v1/"): `"error":{`, strings.HasPrefix(path,
			"/v1/messages"): "rate_limit_error"}[true]
		after, _ := strconv.Atoi(a.header.Get("Retry-After"))
		if a.code != 429 || after < 1 || after > 25*3600 || !strings.Contains(a.body, "today's 60 tokens") || !strings.Contains(a.body,
			form) {
			t.Errorf("%s beyond the limit: %d %v %s", path, a.code, a.header, a.body)
		}
		if a := r.post(path, body, bearer("free")...); a.code != 200 {
			t.Errorf("%s of another key: %d", path, a.code)
		}
	}
	if n := r.figure("axle_key_refused_total", "limited", "limited"); n != len(asks)+1 {
		t.Errorf("%d refused", n)
	}
	if n := r.figure("axle_key_tokens_today", "free", "limited"); n != -1 {
		t.Errorf("a key that asks sees what another has used: %d", n)
	}
}

// TestKeyTokensOfSeveral: several answers to one prompt pass the limit of a day by one answer at
// most.
func TestKeyTokensOfSeveral(t *testing.T) {
	r := limitRig(t, access.Limits{Tokens: 60})
	for _, tt := range []struct {
		key, path, more string
		code            int
	}{
		{"limited", "/v1/completions", `,"n":8,"max_tokens":9`, 429},
		{"limited", "/v1/completions", `,"n":2,"best_of":8,"max_tokens":9`, 429},
		{"limited", "/v1/completions", `,"n":2`, 429}, // without max_tokens it may be the whole context
		{"limited", "/v1/completions", `,"n":8,"max_tokens":9,"stream":true`, 429},
		{"limited", "/v1/completions", `,"n":2,"max_tokens":9`, 200},
		{"free", "/v1/completions", `,"n":8,"max_tokens":9`, 200},
	} {
		a := r.post(tt.path, `{"model":"scripted","prompt":"[[say:a|b|c]]"`+tt.more+`}`, bearer(tt.key)...)
		if a.code != tt.code || a.code == 429 && (!strings.Contains(a.body, "left today") || a.header.Get("Retry-After") == "") {
			t.Errorf("%s, %s: %d %s", tt.key, tt.more, a.code, a.body)
		}
	}
}

// TestKeyRequests: as many requests at once as the key may have, on both ports, and the next when
// one of them ends.
func TestKeyRequests(t *testing.T) {
	r := limitRig(t, access.Limits{Requests: 2})
	one, two := r.streaming(bearer("limited")...), r.streaming(bearer("limited")...)
	for _, path := range []string{"/api/chat", "/v1/chat/completions", "/v1/messages/count_tokens"} {
		a := r.post(path, chatBody("scripted-chat", "[[say:x]]", ""), bearer("limited")...)
		if a.code != 429 || a.header.Get("Retry-After") != "1" || !strings.Contains(a.body, "2 requests at work") {
			t.Errorf("a third request, %s: %d %s", path, a.code, a.body)
		}
	}
	if a := r.do("GET", "/api/tags", "", bearer("limited")...); a.code != 200 {
		t.Errorf("to look costs nothing: %d", a.code)
	}
	if a := r.post("/api/chat", chatBody("scripted-chat", "[[say:x]]", ""), bearer("free")...); a.code != 200 {
		t.Errorf("another key: %d", a.code)
	}
	for _, m := range regexp.MustCompile(`"id":"(\d+)","own":true`).FindAllStringSubmatch(
		r.do("GET", "/api/axle/state", "", bearer("limited")...).body, -1) {
		r.do("DELETE", "/api/axle/streams/"+m[1], "", bearer("limited")...)
	}
	<-one
	<-two
	r.wait("the places to be free", func() bool { return r.figure("axle_key_requests", "limited", "free") == 0 })
	if a := r.post("/api/chat", chatBody("scripted-chat", "[[say:x]]", ""), bearer("limited")...); a.code != 200 {
		t.Errorf("after they ended: %d %s", a.code, a.body)
	}
}

// TestKeyPictures: pictures a minute, of every dialect, before any of them is decoded.
func TestKeyPictures(t *testing.T) {
	r := limitRig(t, access.Limits{Pictures: 3})
	ask := func(n int) answer {
		return r.post("/api/generate", fmt.Sprintf(`{"model":"scripted-vision","prompt":"[[say:x]]","stream":false,"images":[%s]}`,
			strings.TrimSuffix(strings.Repeat(`"AAAA",`, n), ",")), bearer("limited")...)
	}
	if a := ask(4); a.code != 429 || a.header.Get("Retry-After") != "" ||
		!strings.Contains(a.body, "send fewer at once, or ask for fewer") {
		t.Errorf("more than a minute's: %d %s", a.code, a.body)
	}
	if a := ask(2); a.code != 200 {
		t.Errorf("two: %d %s", a.code, a.body)
	}
	if a := ask(2); a.code != 429 || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "3 pictures a minute") {
		t.Errorf("two more: %d %v %s", a.code, a.header, a.body)
	}
	if a := r.post("/v1/chat/completions",
		`{"model":"scripted-vision","messages":[{"role":"user","content":[{"type":"image_url","image_url":
		{"url":"data:image/png;base64,AAAA"}},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]}`,
		bearer("limited")...); a.code != 429 {
		t.Errorf("of the other dialect: %d %s", a.code, a.body)
	}
}

// limitRig is a server with a key of these limits, "limited", and another without, "free".
func limitRig(t *testing.T, l access.Limits) *rig {
	return newRig(t, func(o *server.Options, _ *scripted.Config) {
		o.Keys = access.New(access.Line{Name: "limited", Key: "secret-of-limited", Role: access.Ask, Limits: l},
			access.Line{Name: "free", Key: "secret-of-free", Role: access.Admin})
	})
}

func bearer(who string) []string { return []string{"Authorization", "Bearer secret-of-" + who} }

// figure is a key's figure in the metrics that who sees; -1: it is not there.
func (r *rig) figure(name, key, who string) int {
	body := r.do("GET", "/metrics", "", bearer(who)...).body
	m := regexp.MustCompile(`(?m)^` + name + `\{key="` + key + `"\} (\d+)$`).FindStringSubmatch(body)
	if m == nil {
		return -1
	}
	n, _ := strconv.Atoi(m[1])
	return n
}
