package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/axle-llm/axle/internal/fuzzguard"
)

// Whatever the Host header holds, only what the list allows is answered.
func FuzzHost(f *testing.F) {
	//proves:T4
	for _, s := range []string{"localhost:11434", "LOCALHOST", "127.0.0.1", "[::1]:11434", "[fe80::1%25eth0]:80", "a.localhost",
		"box.local", "configured.example:1", "evil.example", "localhost.evil.example",
		"127.0.0.1.evil.example", "localhost.", "localhost:0", "localhost:99999", "[::1", "::1", "1:2:3", "", ":80", "ollama", "a_b",
		".local", "lan", "x.lan", "a..internal", "home.arpa", "box.home.arpa", "local.evil.example", "[localhost]:80", "user@localhost",
		"0x7f.1", "localhost\x00.evil", "ＬＯＣＡＬＨＯＳＴ"} {
		f.Add(s)
	}
	self := "box"
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	guards := []*guard{newGuard(true, []string{"configured.example"}, nil, nil, next), newGuard(false, []string{"configured.example"}, nil,
		nil, next)}
	for _, g := range guards {
		g.self = self
	}
	f.Fuzz(func(t *testing.T, h string) {
		for _, g := range guards {
			var who standing
			fuzzguard.Check(t, len(h), func() { who, _ = g.host(h) })
			if who == foreign || who == address || h == "" {
				continue
			}
			name := strings.ToLower(h)
			if i := strings.LastIndexByte(name, ':'); i >= 0 {
				name = strings.Trim(name[:i], "[]")
			}
			allowed := name == "" || name == "localhost" || strings.HasSuffix(name, ".localhost") || name == self ||
				name == "configured.example" ||
				!strings.Contains(name, ".") || strings.HasSuffix(name, ".local") || strings.HasSuffix(name, ".internal") ||
				strings.HasSuffix(name, ".lan") ||
				strings.HasSuffix(name, ".home.arpa")
			if !allowed {
				t.Errorf("%q is answered, loopback %v", h, g.loopback)
			}
			w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/api/version", nil)
			r.Host = h
			if g.ServeHTTP(w, r); w.Code != http.StatusOK {
				t.Errorf("%q: %d", h, w.Code)
			}
		}
	})
}
