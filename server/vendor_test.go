package server_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestVendorAPI(t *testing.T) {
	main := newRig(t)
	ts := httptest.NewServer(main.VendorHandler(t.Context(), true))
	defer ts.Close()
	r := &rig{Server: main.Server, t: t, url: ts.URL}
	ask := func(method, path, body string, code int, want string) {
		t.Helper()
		if a := r.do(method, path, body); a.code != code || a.body != want {
			t.Errorf("%s %s %s: got %d %s, want %d %s", method, path, body, a.code, a.body, code, want)
		}
	}
	const ok = `{"status": "ok"}`
	ask("POST", "/api/generate", `{`, 400, `{"error":"Invalid request format"}`)
	ask("POST", "/api/generate", `{}`, 400, `{"error":"Invalid request format"}`)
	ask("POST", "/api/chat", `{}`, 400, `{"error":"Invalid request format"}`)
	ask("POST", "/api/chat", `{"messages":[{}]}`, 400, `{"error":"Invalid message format"}`)
	ask("GET", "/api/generate_provider", "", 200, `{"done":true,"response":""}`)
	ask("GET", "/api/stop", "", 200, ok)
	ask("POST", "/api/reset", `{"system_prompt":"be brief"}`, 200, ok)
	ask("POST", "/api/generate", `{"model":"scripted-chat","prompt":"[[say:Hello| there]]","temperature":0.8,"top-k":40,"top-p":2}`, 200,
		ok)
	text := ""
	for end := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
		m := r.do("GET", "/api/generate_provider", "").object(t)
		text += m["response"].(string)
		if m["done"] == true {
			break
		}
		if time.Now().After(end) {
			t.Fatal("never done")
		}
	}
	if text != "Hello there" {
		t.Errorf("polled %q", text)
	}
	ask("POST", "/api/chat", `{"model":"scripted-chat","messages":[{"role":"user","content":"[[say:again]]"}]}`, 200,
		`{"done":true,"message":"again"}`)
	// While an answer runs nothing else starts; stop ends it.
	ask("POST", "/api/generate", `{"prompt":"[[delay:600000]][[say:a|b]]"}`, 200, ok)
	ask("POST", "/api/generate", `{"prompt":"x"}`, 400, `{"error":"llm is running"}`)
	ask("POST", "/api/reset", `{}`, 400, `{"error":"llm is running"}`)
	ask("GET", "/api/stop", "", 200, ok)
	if m := r.do("GET", "/api/content", "").object(t); m["done"] != true {
		t.Errorf("after stop: %v", m)
	}
	if a := r.do("GET", "/api/stop", "", "Host", "evil.example"); a.code != 403 {
		t.Errorf("a foreign host: %d", a.code)
	}
	if a := r.do("GET", "/api/stop", "", "Sec-Fetch-Site", "cross-site"); a.code != 403 {
		t.Errorf("a page elsewhere: %d", a.code)
	}
	if a := r.do("GET", "/api/tags", ""); a.code != 404 || !strings.Contains(a.body, "404") {
		t.Errorf("Ollama's path on the vendor's port: %d %s", a.code, a.body)
	}
}
