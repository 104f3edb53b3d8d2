package server_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/scripted"
)

// The vendor's GETs change something, so that a browser needs a proof of where it comes from,
// metadata or not (promise T5).
func TestVendorOrigin(t *testing.T) {
	//proves:T5
	r := newVendorRig(t, func(o *server.Options, _ *scripted.Config) { o.Origins = []string{"http://trusted.example"} })
	host := strings.TrimPrefix(r.url, "http://")
	const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	for _, tt := range []struct {
		header []string
		code   int
	}{
		{nil, 200}, // curl, Python
		{[]string{"User-Agent", "python-requests/2.32"}, 200},
		{[]string{"User-Agent", "curl/8.5"}, 200},
		{[]string{"User-Agent", firefox}, 403}, // an image, a script or a fetch of a page that hides where it is
		{[]string{"User-Agent", firefox, "Accept", "image/avif,image/webp,*/*"}, 403},
		{[]string{"User-Agent", firefox, "Referer", "http://evil.example/page"}, 403},
		{[]string{"User-Agent", firefox, "Referer", "http://" + host + ".evil.example/"}, 403},
		{[]string{"User-Agent", firefox, "Referer", "http://evil.example/http://" + host + "/"}, 403},
		{[]string{"User-Agent", firefox, "Referer", "::"}, 403},
		{[]string{"Referer", "http://evil.example/"}, 403},
		{[]string{"User-Agent", firefox, "Referer", "http://" + host + "/ui"}, 200},
		{[]string{"User-Agent", firefox, "Referer", "http://trusted.example/chat"}, 200},
		{[]string{"User-Agent", firefox, "Sec-Fetch-Site", "cross-site"}, 403},
		{[]string{"User-Agent", firefox, "Sec-Fetch-Site", "same-site"}, 403},
		{[]string{"User-Agent", firefox, "Sec-Fetch-Site", "odd"}, 403},
		{[]string{"User-Agent", firefox, "Sec-Fetch-Site", "none"}, 200}, // typed in
		{[]string{"User-Agent", firefox, "Sec-Fetch-Site", "same-origin"}, 200},
		{[]string{"User-Agent", firefox, "Origin", "http://trusted.example"}, 200},
		{[]string{"User-Agent", firefox, "Origin", "http://" + host}, 200},
		{[]string{"User-Agent", firefox, "Origin", "http://evil.example"}, 403},
		{[]string{"User-Agent", firefox, "Origin", "null"}, 403},
		{[]string{"Host", "evil.example"}, 403},
		{[]string{"Host", "evil.local", "User-Agent", firefox, "Referer", "http://evil.local/"}, 403},
		{[]string{"Host", "evil.local"}, 200},
	} {
		for _, path := range []string{"/api/stop", "/api/generate_provider", "/api/content"} {
			if a := r.do("GET", path, "", tt.header...); a.code != tt.code || tt.code == 403 && a.body != "" && tt.header[0] != "Host" {
				t.Errorf("%s %q: got %d %q, want %d", path, tt.header, a.code, a.body, tt.code)
			}
		}
	}
}

// finished polls until the answer is done.
func (r *rig) finished(header ...string) string {
	r.t.Helper()
	text := ""
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(time.Millisecond) {
		a := r.do("GET", "/api/content", "", header...)
		if a.code != 200 {
			return a.body
		}
		if text += a.body; strings.Contains(a.body, `"done":true`) {
			return text
		}
	}
	r.t.Error("never done")
	return text
}

// Each key has a conversation of its own, on which no other's polls, stops, resets or questions act
// (promise T17).
func TestVendorKeys(t *testing.T) {
	//proves:T17
	r := newVendorRig(t, func(o *server.Options, _ *scripted.Config) {
		o.Keys = newKeys("ann", "secret-of-ann", "bob", "secret-of-bob")
	})
	ann, bob := []string{"X-Api-Key", "secret-of-ann"}, []string{"X-Api-Key", "secret-of-bob"}
	if a := r.post("/api/generate", `{"model":"scripted-chat","prompt":"[[delay:300]][[say:for|ann|only]]"}`, ann...); a.code != 200 {
		t.Fatal(a.code, a.body)
	}
	for path, want := range map[string]string{"/api/content": `{"done":true,"response":""}`, "/api/stop": `{"status": "ok"}`} {
		if a := r.do("GET", path, "", bob...); a.body != want {
			t.Errorf("%s of another: %s", path, a.body)
		}
	}
	if a := r.post("/api/reset", `{}`, bob...); a.code != 200 {
		t.Errorf("reset of another: %d %s", a.code, a.body)
	}
	if a := r.post("/api/chat", chatBody("scripted-chat", "[[say:bob]]", ""), bob...); a.body != `{"done":true,"message":"bob"}` {
		t.Errorf("chat of another: %d %s", a.code, a.body)
	}
	if text := r.finished(ann...); strings.Count(text, "for")+strings.Count(text, "ann")+strings.Count(text, "only") != 3 {
		t.Errorf("ann got %s", text)
	}
}

// Text that weighs as an image's is text all the same where it is counted or asked of the vendor's
// API, and images have their limits there too (promise T7).
func TestTextEverywhere(t *testing.T) {
	//proves:T7
	lane.Slow(t)
	lane.NoRace(t)
	main := newRig(t)
	vendor := newVendorRig(t)
	long := strings.Repeat("abcd", 5<<20/4)
	image := `"R0lGODdhZBlkGQAAADs="` // 6500×6500 pixels
	user := func(fields string) string { return `"messages":[{"role":"user",` + fields + `}]` }
	for _, tt := range []struct {
		r                      *rig
		name, path, body, want string
	}{
		{main, "count", "/v1/messages/count_tokens", `{"model":"scripted-chat",` + user(`"content":"`+long+`"`) + "}", "too long"},
		{main, "count, a result's id", "/v1/messages/count_tokens", `{"model":"scripted-chat",` +
			user(`"content":[{"type":"tool_result","tool_use_id":"`+long+`","content":"x"}]`) + "}", "too long"},
		{main, "count, an image", "/v1/messages/count_tokens", `{"model":"scripted-vision",` +
			user(`"content":[{"type":"image","source":{"type":"base64","media_type":"image/gif","data":`+image+`}}]`) + "}", "megapixels"},
		{main, "a role", "/api/chat", `{"model":"scripted-chat","messages":[{"role":"` + long + `","content":"x"}]}`, "too long"},
		{main, "a tool's name", "/api/chat", `{"model":"scripted-chat",` + user(`"content":"x","tool_name":"`+long+`"`) + "}", "too long"},
		{main, "a call's id", "/api/chat", `{"model":"scripted-chat",` + user(`"content":"x","tool_call_id":"`+long+`"`) + "}", "too long"},
		{main, "a call's own id", "/api/chat", `{"model":"scripted-chat","messages":[{"role":"assistant","tool_calls":[{"id":"` + long +
			`","function":{"name":"f","arguments":{}}}]}]}`, "too long"},
		{main, "the template's", "/v1/chat/completions", `{"model":"scripted-chat",` + user(`"content":"x"`) +
			`,"chat_template_kwargs":{"a":"` + long + `"}}`, "too long"},
		{main, "a stop", "/api/chat", `{"model":"scripted-chat",` + user(`"content":"x"`) + `,"options":{"stop":["` + long + `"]}}`,
			"too long"},
		{main, "a tool of Anthropic's", "/v1/messages", `{"model":"scripted-chat","max_tokens":9,` + user(`"content":"x"`) +
			`,"tools":[{"name":"f","description":"` + long + `","input_schema":{"type":"object"}}]}`, "too long"},
		{vendor, "vendor's prompt", "/api/generate", `{"model":"scripted-chat","prompt":"` + long + `"}`, "too long"},
		{vendor, "vendor's chat", "/api/chat", `{"model":"scripted-chat",` + user(`"content":"`+long+`"`) + "}", "too long"},
		{vendor, "vendor's system prompt", "/api/reset", `{"system_prompt":"` + long + `"}`, "too long"},
	} {
		if a := tt.r.post(tt.path, tt.body); a.code != 400 || !strings.Contains(a.body, tt.want) {
			t.Errorf("%s: %d %.300s", tt.name, a.code, a.body)
		}
	}
}

func newVendorRig(t *testing.T, change ...func(*server.Options, *scripted.Config)) *rig {
	t.Helper()
	r := newRig(t, change...)
	ts := httptest.NewServer(r.VendorHandler(t.Context(), true))
	t.Cleanup(ts.Close)
	return &rig{r.Server, t, ts.URL, r.loader, r.store}
}
