package server_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/scripted"
	"github.com/axle-llm/axle/server/ui"
)

// The page's files are sent compressed, kept for ever where their address has their hash, not sent
// again where the browser has them, and need no key: a browser sends none with a script.
func TestPageFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte("me: sekret-of-mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := access.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(o *server.Options, _ *scripted.Config) { o.Keys = keys })
	client := &http.Client{Transport: &http.Transport{DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	get := func(method, path string, header ...string) (*http.Response, []byte) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, r.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, b
	}
	page, body := get("GET", "/ui")
	if page.StatusCode != 200 || page.Header.Get("Cache-Control") != "no-cache" || page.Header.Get("ETag") == "" {
		t.Fatalf("page %d %v", page.StatusCode, page.Header)
	}
	if page.Header.Get("Content-Security-Policy") != ui.Policy || page.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("the page's headers: %v", page.Header)
	}
	if got := page.Header.Get("Permissions-Policy"); got != "camera=(), display-capture=(), geolocation=(), microphone=(self)" {
		t.Errorf("the page may use %s", got)
	}
	script := "/" + string(regexp.MustCompile(`ui/[0-9a-f]{16}/app/main\.js`).Find(body))
	plain, want := get("GET", script)
	if plain.StatusCode != 200 || plain.Header.Get("Content-Encoding") != "" ||
		plain.Header.Get("Cache-Control") != "public, max-age=31536000, immutable" ||
		plain.Header.Get("Content-Type") != "text/javascript; charset=utf-8" ||
		plain.Header.Get("Cross-Origin-Resource-Policy") != "same-origin" {
		t.Errorf("%s %d %v", script, plain.StatusCode, plain.Header)
	}
	for _, c := range []struct {
		accept string
		packed bool
	}{{"gzip", true}, {"br, GZIP;q=0.5", true}, {"gzip;q=0", false}, {"br", false}, {"xgzip", false}} {
		resp, b := get("GET", script, "Accept-Encoding", c.accept)
		if packed := resp.Header.Get("Content-Encoding") == "gzip"; packed != c.packed {
			t.Errorf("%s: packed %v", c.accept, packed)
		} else if packed {
			z, err := gzip.NewReader(bytes.NewReader(b))
			if err != nil {
				t.Fatal(err)
			}
			if b, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(b, want) {
			t.Errorf("%s: another file", c.accept)
		}
	}
	tag := plain.Header.Get("ETag")
	for _, c := range []struct {
		method, path string
		header       []string
		code         int
	}{
		{"GET", script, []string{"If-None-Match", tag}, 304},
		{"GET", script, []string{"If-None-Match", `"other", W/` + tag}, 304},
		{"GET", script, []string{"If-None-Match", `"other"`}, 200},
		{"HEAD", "/ui", nil, 200},
		{"GET", "/ui/", nil, 301},
		{"GET", "/ui/0123456789abcdef/app/main.js", nil, 404},
		{"GET", "/ui/app/main.js", nil, 404},
		{"GET", "/ui/../api/tags", nil, 401},
		{"GET", "/ui/manifest.webmanifest", nil, 200},
		{"POST", "/ui/manifest.webmanifest", nil, 401},
		{"GET", "/api/tags", nil, 401},
		{"GET", script, []string{"Origin", "http://evil.example"}, 403},
	} {
		if resp, b := get(c.method, c.path, c.header...); resp.StatusCode != c.code || c.code == 304 && len(b) > 0 {
			t.Errorf("%s %s %q: %d, want %d", c.method, c.path, c.header, resp.StatusCode, c.code)
		}
	}
}

// A browser at the root is led to the page; programs get what Ollama says there.
func TestRootLeads(t *testing.T) {
	r := newRig(t)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	for _, tt := range []struct {
		method, accept, location, body string
		code                           int
	}{
		{"GET", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "ui", "", 302},
		{"HEAD", "text/html", "ui", "", 302},
		{"GET", "*/*", "", "Ollama is running", 200},
		{"GET", "application/json", "", "Ollama is running", 200},
		{"GET", "", "", "Ollama is running", 200},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, r.url+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", tt.accept)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != tt.code || resp.Header.Get("Location") != tt.location || string(b) != tt.body ||
			resp.Header.Get("Vary") != "Accept" {
			t.Errorf("%s with %q: %d %v %q %v", tt.method, tt.accept, resp.StatusCode, resp.Header, b, err)
		}
	}
}

// A browser that does not trust an origin ignores the opener policy, and says so in its console: it
// is not sent there.
func TestPageOpener(t *testing.T) {
	r := newRig(t, func(o *server.Options, _ *scripted.Config) { o.Hosts = []string{"axle.example"} })
	for _, tt := range []struct{ host, proto, want string }{
		{"localhost:11434", "", "same-origin"},
		{"127.0.0.1:11434", "", "same-origin"},
		{"[::1]:11434", "", "same-origin"},
		{"chat.localhost", "", "same-origin"},
		{"axle.example", "https", "same-origin"},
		{"axle.example", "", ""},
		{"axle.example", "http", ""},
		{"192.168.1.7:11434", "", ""},
		{"raspberrypi", "", ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", r.url+"/ui", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = tt.host
		if tt.proto != "" {
			req.Header.Set("X-Forwarded-Proto", tt.proto)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("Cross-Origin-Opener-Policy"); resp.StatusCode != 200 || got != tt.want {
			t.Errorf("%v: %d, %q", tt, resp.StatusCode, got)
		}
	}
}
