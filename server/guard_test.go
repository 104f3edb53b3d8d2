package server_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/local"
	"github.com/axle-llm/axle/server/scripted"
)

// host × origin × method × bind: who gets in, and with which headers.
func TestGuardMatrix(t *testing.T) {
	self, err := os.Hostname()
	if err != nil {
		t.Skip("this machine has no name:", err)
	}
	type host struct {
		name  string
		ok    bool // answered, on every bind
		named bool
	}
	hosts := []host{
		{"localhost:11434", true, true}, {"LOCALHOST", true, true}, {"127.0.0.1:11434", true, false}, {"[::1]:11434", true, false},
		{"192.168.1.7:11434", true, false}, {"10.0.0.1", true, false}, {"0.0.0.0:1", true, false}, {"8.8.8.8", true, false},
		{self, true, true}, {self + ".local:80", true, true}, {"a.localhost", true, true}, {"configured.example", true, true},
		{"axle", true, true}, {"my_service:11434", true, true}, {"raspberrypi.local:11434", true, true}, {"RaspberryPi.Local", true, true},
		{"pi.lan:11434", true, true}, {"pi.home.arpa", true, true}, {"llm.internal", true, true},
		{"host.docker.internal:11434", true, true},
		{"host.containers.internal", true, true}, {"axle.default.svc:11434", true, true}, {"axle.axle.svc.cluster.local", true, true},
		{"evil.example", false, true}, {"evil.example:11434", false, true}, {"localhost.evil.example", false, true},
		{"127.0.0.1.evil.example", false, true}, {"localhost.", false, true}, {"box.local.", false, true}, {".local", false, true},
		{"a..lan", false, true},
		{"evillan.example", false, true}, {"evilsvc", true, true}, {"x.evilsvc", false, true}, {"axle.axle", false, true},
		{"x.arpa", false, true}, {"xhome.arpa", false, true}, {"lan.evil.example", false, true},
		{"a!b.lan", false, true},
		{"localhost:0", false, true}, {"localhost:99999", false, true}, {"xn--80ak6aa92e.com", false, true},
		{"169.254.169.254.nip.io", false, true},
		{strings.Repeat("a", 64), false, true}, {strings.Repeat("a.", 126) + "ab.lan", false, true},
	}
	type from struct {
		origin string
		ok     bool
	}
	origins := []from{
		{"", true}, {"http://localhost", true}, {"http://localhost:3000", true}, {"https://127.0.0.1:8443", true},
		{"http://0.0.0.0:2", true},
		{"app://obsidian.md", true}, {"tauri://localhost", true}, {"vscode-webview://abc", true}, {"vscode-file://x", true},
		{"file://", true},
		{"https://trusted.example", true},
		{"null", false}, {"http://evil.example", false}, {"https://localhost.evil.example", false}, {"chrome-extension://abc", false},
		{"http://trusted.example", false},
		{"http://localhost:3000.evil.example", true}, // as in Ollama, whose * takes any port text; no browser sends such an origin
	}
	methods := []struct {
		method, path string
		code         int
	}{{"GET", "/api/version", 200}, {"POST", "/api/show", 400}, {"OPTIONS", "/api/chat", 0}}
	cells := 0
	for _, loopback := range []bool{true, false} {
		r := newRig(t, func(o *server.Options, _ *scripted.Config) {
			o.Loopback, o.Hosts, o.Origins = loopback, []string{"configured.example"}, []string{"https://trusted.example"}
		})
		for _, h := range hosts {
			for _, f := range origins {
				for _, m := range methods {
					cells++
					hdr := []string{"Host", h.name}
					if f.origin != "" {
						hdr = append(hdr, "Origin", f.origin)
					}
					a := r.do(m.method, m.path, "", hdr...)
					want := m.code
					switch {
					case !h.ok || !f.ok:
						want = 403
					case m.method == "OPTIONS" && (f.origin != "" || h.named):
						want = 204
					case m.method == "OPTIONS":
						want = 405
					}
					cell := fmt.Sprintf("loopback=%v host=%s origin=%s %s", loopback, h.name, f.origin, m.method)
					if a.code != want {
						t.Errorf("%s: got %d, want %d", cell, a.code, want)
					}
					// A refused name is told with the way out; a page that may not ask could not
					// read why.
					name, _, _ := strings.Cut(strings.ToLower(h.name), ":")
					switch told := strings.Contains(a.body, `--allow-host `+name+`,`) || strings.Contains(a.body, "holds no name"); {
					case h.ok && want == 403 && a.body != "", !h.ok && !told, !h.ok &&
						a.header.Get("Content-Type") != "application/json; charset=utf-8":
						t.Errorf("%s: %d with body %q", cell, a.code, a.body)
					}
					allow := ""
					if f.origin != "" && want != 403 {
						allow = f.origin
					}
					if got := a.header.Get("Access-Control-Allow-Origin"); got != allow ||
						a.header.Get("Access-Control-Allow-Credentials") != "" {
						t.Errorf("%s: Allow-Origin %q, want %q", cell, got, allow)
					}
					if want == 204 && f.origin != "" && (a.header.Get("Access-Control-Max-Age") != "43200" ||
						!strings.Contains(a.header.Get("Access-Control-Allow-Headers"), "X-Stainless-Timeout") ||
						a.header.Get("Access-Control-Allow-Methods") != "GET,POST,PUT,PATCH,DELETE,HEAD,OPTIONS" ||
						len(a.header.Values("Vary")) != 3) {
						t.Errorf("%s: preflight headers %v", cell, a.header)
					}
				}
			}
		}
	}
	if cells < 300 {
		t.Errorf("%d cells", cells)
	}
}

// A machine on the wire can make evil.local point to 127.0.0.1. On loopback a page of such a name
// is refused, and programs are not; on another bind such a machine needs no page, and the page at
// /ui works under every name that is answered.
func TestRebound(t *testing.T) {
	for _, tt := range []struct {
		name           string
		header         []string
		loopback, wide int
	}{
		{"a program", nil, 400, 400},
		{"a page's POST", []string{"Origin", "http://evil.local:11434"}, 403, 400},
		{"a page's POST by TLS", []string{"Origin", "https://evil.local:11434"}, 403, 400},
		{"a page's GET", []string{"Referer", "http://EVIL.local:11434/page?x"}, 403, 400},
		{"a page that hides its place", []string{"Sec-Fetch-Site", "same-origin"}, 403, 400},
		{"a link from elsewhere", []string{"Referer", "http://news.example/", "Sec-Fetch-Site", "none"}, 400, 400},
		{"a page of this machine", []string{"Origin", "http://localhost:3000"}, 400, 400},
	} {
		for _, loopback := range []bool{true, false} {
			r := newRig(t, func(o *server.Options, _ *scripted.Config) { o.Loopback = loopback })
			want := map[bool]int{true: tt.loopback, false: tt.wide}[loopback]
			a := r.post("/api/show", "", append([]string{"Host", "evil.local:11434"}, tt.header...)...)
			if a.code != want || want == 403 && !strings.Contains(a.body, "--allow-host evil.local") {
				t.Errorf("%s, loopback %v: %d %s, want %d", tt.name, loopback, a.code, a.body, want)
			}
		}
	}
	for _, f := range []func(o *server.Options, _ *scripted.Config){
		func(o *server.Options, _ *scripted.Config) { o.Loopback, o.Hosts = true, []string{"evil.local"} },
		func(o *server.Options, _ *scripted.Config) {
			o.Loopback, o.Origins = true, []string{"http://evil.local:11434"}
		},
	} {
		if a := newRig(t, f).post("/api/show", "", "Host", "evil.local:11434", "Origin", "http://evil.local:11434"); a.code != 400 {
			t.Errorf("a page that was allowed: %d %s", a.code, a.body)
		}
	}
}

// What is refused is told in the log once for each name, with the flag that allows it; and the
// answer is in the dialect of its path.
func TestRefusedIsTold(t *testing.T) {
	//proves:T4
	core, logs := observer.New(zapcore.InfoLevel)
	r := newRig(t, func(o *server.Options, _ *scripted.Config) { o.Log = zap.New(core) })
	for range 3 {
		r.do("GET", "/api/version", "", "Host", "llm.example:11434")
		r.do("GET", "/api/version", "", "Origin", "http://llm.example")
	}
	if a := r.post("/v1/messages", "{}", "Host", "llm.example"); !strings.Contains(a.body, `"type":"error"`) ||
		!strings.Contains(a.body, "--allow-host llm.example") {
		t.Errorf("Anthropic's refusal: %s", a.body)
	}
	if a := r.post("/v1/chat/completions", "{}", "Host", "llm.example"); !strings.Contains(a.body, `"param":null`) {
		t.Errorf("OpenAI's refusal: %s", a.body)
	}
	var got []string
	for _, e := range logs.All() {
		if e.Level == zapcore.WarnLevel {
			got = append(got, fmt.Sprint(e.Message, e.ContextMap()["host"], e.ContextMap()["allow"], e.ContextMap()["origin"]))
		}
	}
	if len(got) != 2 || !strings.Contains(got[0], "llm.example:11434") || !strings.Contains(got[0], "--allow-host llm.example") ||
		!strings.Contains(got[1], "OLLAMA_ORIGINS") {
		t.Errorf("the log: %q", got)
	}
	for i := range 1000 {
		r.do("GET", "/api/version", "", "Host", fmt.Sprintf("x%d.example", i))
	}
	if n := logs.FilterMessageSnippet("the Host").Len(); n > 64 {
		t.Errorf("%d lines of names that strangers chose", n)
	}
}

// A page elsewhere that hides its origin is still told by the browser's fetch metadata; a page of
// ours is not in the way.
func TestCrossOrigin(t *testing.T) {
	r := newRig(t)
	host := strings.TrimPrefix(r.url, "http://")
	for _, tt := range []struct {
		header []string
		code   int
	}{
		{[]string{"Sec-Fetch-Site", "cross-site"}, 403},
		{[]string{"Sec-Fetch-Site", "same-site"}, 403},
		{[]string{"Sec-Fetch-Site", "same-origin"}, 400},
		{[]string{"Sec-Fetch-Site", "none"}, 400},
		{[]string{"Origin", "http://" + host}, 400},
		{[]string{"Origin", "http://" + host, "Sec-Fetch-Site", "same-origin"}, 400},
		{[]string{"Origin", "http://localhost:3000", "Sec-Fetch-Site", "cross-site"}, 400},
		{nil, 400},
	} {
		if a := r.post("/api/show", "", tt.header...); a.code != tt.code {
			t.Errorf("%v: got %d, want %d", tt.header, a.code, tt.code)
		}
	}
	star := newRig(t, func(o *server.Options, _ *scripted.Config) { o.Origins = []string{"*"} })
	a := star.do("GET", "/api/version", "", "Origin", "http://evil.example")
	if a.code != 200 || a.header.Get("Access-Control-Allow-Origin") != "*" || a.header.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("origins *: %d %v", a.code, a.header)
	}
}

func TestKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte("# ours\nalice: alice-secret-1\n\nbare-secret-22\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := access.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(o *server.Options, _ *scripted.Config) { o.Keys = keys })
	for _, tt := range []struct {
		path   string
		header []string
		code   int
	}{
		{"/api/tags", nil, 401},
		{"/api/tags", []string{"Authorization", "Bearer alice-secret-1"}, 200},
		{"/api/tags", []string{"Authorization", "Bearer bare-secret-22"}, 200},
		{"/api/tags", []string{"X-Api-Key", "bare-secret-22"}, 200},
		{"/api/tags", []string{"Authorization", "Bearer alice-secret-2"}, 401},
		{"/api/tags", []string{"Authorization", "Bearer alice-secret-1 "}, 200},
		{"/api/tags", []string{"Authorization", "alice-secret-1"}, 401},
		{"/api/tags", []string{"Authorization", "Bearer "}, 401},
		{"/v1/models", nil, 401},
		{"/metrics", nil, 401},
		{"/no/such/path", nil, 401}, // the guard's word, before there is a route
		{"/health", nil, 200},
		{"/", nil, 200},
	} {
		if a := r.do("GET", tt.path, "", tt.header...); a.code != tt.code {
			t.Errorf("%s %v: got %d, want %d", tt.path, tt.header, a.code, tt.code)
		}
	}
	if a := r.do("GET", "/v1/models", ""); !strings.Contains(a.body, `"type":"api_error"`) && !strings.Contains(a.body, "unauthorized") {
		t.Errorf("v1 401: %s", a.body)
	}
	r.post("/api/chat", chatBody("scripted-chat", "[[say:x]]", ""), "X-Api-Key", "bare-secret-22")
	if a := r.do("GET", "/health", ""); strings.Contains(a.body, "scripted") {
		t.Errorf("health without a key: %s", a.body)
	}
	if a := r.do("GET", "/health", "", "X-Api-Key", "bare-secret-22"); !strings.Contains(a.body, "scripted-chat") {
		t.Errorf("health with a key: %s", a.body)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := access.Load(file); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others can read: %v", err)
	}
}

// puller pulls nothing and counts how often it was asked to.
type puller struct{ asked int }

func (p *puller) Pull(context.Context, string, func(catalog.Progress)) error {
	p.asked++
	return nil
}

// Pull and delete can be switched off: what could be pulled is not, and what could be deleted
// stays.
func TestSwitches(t *testing.T) {
	r := newRig(t)
	r.post("/api/create", `{"model":"mine","from":"scripted","system":"x"}`)
	for _, off := range []bool{true, false} {
		p := new(puller)
		s := server.New(local.New(r.store, local.Options{Describe: scripted.Describe}), &scripted.Loader{}, p,
			server.Options{Loopback: true, NoPull: off, NoDelete: off})
		ts := httptest.NewServer(s.Handler())
		at := &rig{s, t, ts.URL, r.loader, r.store}
		pull, remove := at.post("/api/pull", `{"model":"x","stream":false}`).code, at.do("DELETE", "/api/delete", `{"model":"mine"}`).code
		at.post("/api/create", `{"model":"new","from":"nowhere"}`) // would pull what it is made from
		switch {
		case off && (pull != 403 || remove != 403 || p.asked != 0):
			t.Errorf("off: pull %d, delete %d, pulled %d times", pull, remove, p.asked)
		case !off && (pull != 200 || remove != 200 || p.asked != 2):
			t.Errorf("on: pull %d, delete %d, pulled %d times", pull, remove, p.asked)
		}
		ts.Close()
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

func TestLimits(t *testing.T) {
	r := newRig(t)
	big := strings.Repeat("x", 2<<20)
	for _, tt := range []struct {
		name, path, body string
		code             int
		header           []string
	}{
		{"1 MiB where no image can be", "/api/embed", `{"model":"scripted-embed","input":"` + big + `"}`, 413, nil},
		{"32 MiB", "/api/chat", strings.Repeat(" ", 32<<20) + "{}", 413, nil},
		{"compressed", "/api/chat", "{}", 415, []string{"Content-Encoding", "gzip"}},
		{"compressed", "/v1/responses", "{}", 415, []string{"Content-Encoding", "zstd"}},
		{"deep", "/api/chat", `{"format":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}", 400, nil},
		{"deep v1", "/v1/chat/completions", `{"tools":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}", 400, nil},
		{"deep in text is no depth", "/api/generate", `{"model":"scripted","prompt":"[[say:x]]` + strings.Repeat("[", 200) + `\"` +
			strings.Repeat("{", 200) + `"}`, 200, nil},
		{"nine images", "/api/generate", `{"model":"scripted-vision","prompt":"x","images":[` + strings.Repeat(`"AAAA",`, 8) + `"AAAA"]}`,
			400, nil},
		{"eight images", "/api/generate", `{"model":"scripted-vision","prompt":"x","images":[` + strings.Repeat(`"AAAA",`, 7) + `"AAAA"]}`,
			200, nil},
		{"300 images", "/api/chat", `{"model":"scripted-vision","messages":[{"role":"user","content":"x","images":[` +
			strings.Repeat(`"AAAA",`, 299) + `"AAAA"]}]}`, 400, nil},
		{"300 images, one in a message", "/api/chat", `{"model":"scripted-vision","messages":[` +
			strings.Repeat(`{"role":"user","content":"x","images":["AAAA"]},`, 299) + `{"role":"user","content":"x"}]}`, 200, nil},
		{"300 images of the other dialect", "/v1/chat/completions", `{"model":"scripted-vision","messages":[{"role":"user","content":[` +
			strings.Repeat(`{"type":"image_url","image_url":"data:image/png;base64,AAAA"},`, 299) + `{"type":"text","text":"x"}]}]}`, 400, nil},
		{"300 input images", "/v1/responses", `{"model":"scripted-vision","input":[{"role":"user","content":[` +
			strings.Repeat(`{"type":"input_image","image_url":"data:image/png;base64,AAAA"},`, 299) +
			`{"type":"input_text","text":"x"}]}]}`, 400, nil},
		{"300 image blocks", "/v1/messages", `{"model":"scripted-vision","max_tokens":9,"messages":[{"role":"user","content":[` +
			strings.Repeat(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},`, 299) +
			`{"type":"text","text":"x"}]}]}`, 400, nil},
		{"42 megapixels", "/api/generate", `{"model":"scripted-vision","prompt":"x","images":["` +
			base64.StdEncoding.EncodeToString([]byte("GIF89a\x64\x19\x64\x19\x00\x00\x00;")) + `"]}`, 400, nil},
	} {
		if a := r.post(tt.path, tt.body, tt.header...); a.code != tt.code {
			t.Errorf("%s: got %d %.200s, want %d", tt.name, a.code, a.body, tt.code)
		}
	}
	if out := r.raw("GET /api/version HTTP/1.1\r\nHost: localhost\r\nX-Big: " + strings.Repeat("a", 2<<20) +
		"\r\n\r\n"); !strings.HasPrefix(out, "HTTP/1.1 431") {
		t.Errorf("a huge header: %.100q", out)
	}
}

// An image is only ever data: nothing is fetched, whatever the address looks like, by any route
// that takes images. Listeners on this machine stand where the addresses lead, and nothing else may
// be dialled or looked up.
func TestNoFetch(t *testing.T) {
	//proves:T12 every route that takes images; listeners where the addresses lead
	r := newRig(t)
	var met atomic.Int64
	trap := func(addr string) (port string) {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			t.Logf("no trap at %s: %v", addr, err)
			return "1"
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				met.Add(1)
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
				_ = c.Close()
			}
		}()
		t.Cleanup(func() { _ = ln.Close(); <-done })
		_, port, _ = net.SplitHostPort(ln.Addr().String())
		return port
	}
	p4, p6 := trap("127.0.0.1:0"), trap("[::1]:0")
	http.DefaultClient.CloseIdleConnections()
	oldTransport, oldResolver := http.DefaultTransport, net.DefaultResolver
	defer func() { http.DefaultTransport, net.DefaultResolver = oldTransport, oldResolver }()
	own := strings.TrimPrefix(r.url, "http://")
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr != own {
			t.Errorf("a connection to %s", addr)
			return nil, errors.New("forbidden")
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	defer transport.CloseIdleConnections()
	http.DefaultTransport = transport
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("a name is looked up")
		return nil, errors.New("forbidden")
	}}
	urls := []string{
		"http://127.0.0.1:1/x.png", "https://localhost/x", "http://169.254.169.254/latest/meta-data/", "http://[::1]/", "http://0/",
		"http://2130706433/", "http://0x7f000001/",
		"http://[fe80::1]/", "http://[fd00:ec2::254]/", "http://169.254.170.2/v2/credentials", "http://metadata.google.internal/",
		"file:///etc/passwd", "ftp://x/y", "gopher://x", "//evil.example/x", "/etc/passwd", "javascript:alert(1)",
		"data:text/html;base64,AAAA", "data:image/svg+xml;base64,AAAA",
		"data:,x", "blob:http://x/y", "HTTP://X/Y", "hTtPs://x", "http:/x", "http:x", "ws://x", "unix:///run/docker.sock", "dict://x",
		"ldap://x", "jar:http://x!/y",
		"http://localhost:11434/api/delete", "http://user:pass@127.0.0.1/", "http://127.0.0.1.nip.io/", "\thttp://x",
		"data:image/png;base64,!!!!", own, r.url + "/api/tags",
	}
	for _, host := range []string{"127.0.0.1", "localhost", "0.0.0.0", "0", "2130706433", "0x7f000001", "0177.0.0.1", "127.1",
		"[::ffff:127.0.0.1]", "user:pass@127.0.0.1", "127.0.0.1.", "LOCALHOST"} {
		for _, scheme := range []string{"http://", "HTTPS://", "//", "ftp://", "ws://", ""} {
			urls = append(urls, scheme+host+":"+p4+"/x.png")
		}
	}
	urls = append(urls, "http://[::1]:"+p6+"/x.png", "https://[0:0:0:0:0:0:0:1]:"+p6+"/", "//[::1]:"+p6, "http://localhost:"+p6+"/")
	routes := []struct{ path, body, good string }{
		{"/v1/chat/completions",
			`{"model":"scripted-vision","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":%s}}]}]}`,
			`"data:image/png;base64,AAAA"`},
		{"/v1/chat/completions", `{"model":"scripted-vision","messages":[{"role":"user","content":[{"type":"image_url","image_url":%s}]}]}`,
			`"data:image/png;base64,AAAA"`},
		{"/v1/responses", `{"model":"scripted-vision","input":[{"type":"message","role":"user","content":[{"type":"input_image","image_url":%s}]}]}`,
			`"data:image/png;base64,AAAA"`},
		{"/v1/messages", `{"model":"scripted-vision","max_tokens":5,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":%s}}]}]}`,
			``},
		{"/v1/messages", `{"model":"scripted-vision","max_tokens":5,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":%s}}]}]}`,
			`"AAAA"`},
		{"/api/chat", `{"model":"scripted-vision","messages":[{"role":"user","content":"x","images":[%s]}]}`, `"AAAA"`},
		{"/api/generate", `{"model":"scripted-vision","prompt":"x","images":[%s]}`, `"AAAA"`},
	}
	for _, q := range routes {
		if q.good == "" {
			continue // takes nothing but a URL
		}
		if a := r.post(q.path, fmt.Sprintf(q.body, q.good)); a.code != 200 {
			t.Errorf("%s: data is refused: %d %.300s", q.path, a.code, a.body)
		}
	}
	for _, url := range urls {
		for _, q := range routes {
			if a := r.post(q.path, fmt.Sprintf(q.body, quote(url))); a.code != 400 {
				t.Errorf("%s %s: %d %.300s", q.path, url, a.code, a.body)
			}
		}
	}
	if n := met.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
	for _, port := range []string{p4, p6} { // the traps would have seen them
		if c, err := net.Dial("tcp", map[bool]string{true: "127.0.0.1:", false: "[::1]:"}[port == p4]+port); err == nil {
			_, _ = io.ReadAll(c)
			_ = c.Close()
		}
	}
	if met.Load() == 0 {
		t.Error("the traps see nothing")
	}
}

// Large bodies have so much room together: who comes when it is taken is told to come again
// (promise T7).
func TestLargeBodies(t *testing.T) {
	r := newRig(t)
	const size = 32 << 20
	head := fmt.Sprintf("POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n{%s", size, strings.Repeat(" ", 2<<20))
	for range 16 { // 512 MiB announced, the first two of each sent
		defer r.dial(head).Close()
	}
	var a answer
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
		if a = r.post("/api/chat", chatBody("scripted-chat", "[[say:x]]"+strings.Repeat(" ", 2<<20), `,"stream":false`)); a.code != 200 {
			break
		}
	}
	if a.code != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("got %d %.200s", a.code, a.body)
	}
	if a := r.post("/api/chat", chatBody("scripted-chat", "[[say:small]]", `,"stream":false`)); a.code != 200 {
		t.Errorf("a small one: %d %s", a.code, a.body)
	}
}
