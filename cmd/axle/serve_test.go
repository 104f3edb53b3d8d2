package main

import (
	"net"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// at is a listener that only has an address.
type at struct {
	net.Listener
	addr string
}

func (a at) Addr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(a.addr), Port: 11434} }

// Each listener that others reach is warned of, the vendor's API among them (promise T6).
func TestWarnOpen(t *testing.T) {
	for _, tt := range []struct{ main, vendor, warned string }{
		{"127.0.0.1", "", ""}, {"::1", "127.0.0.1", ""}, {"0.0.0.0", "", "main"}, {"::", "127.0.0.1", "main"}, {"127.0.0.1", "192.168.1.2", "vendor"}, {"192.168.1.2", "0.0.0.0", "main vendor"},
	} {
		core, seen := observer.New(zap.WarnLevel)
		var v net.Listener
		if tt.vendor != "" {
			v = at{addr: tt.vendor}
		}
		warnOpen(zap.New(core), at{addr: tt.main}, v)
		var warned []string
		for _, e := range seen.All() {
			who := "main"
			if e.ContextMap()["api"] == "vendor" {
				who = "vendor"
			}
			if !strings.Contains(e.Message, "--keys-file") || e.ContextMap()["address"] == "" {
				t.Errorf("%v: %s %v", tt, e.Message, e.ContextMap())
			}
			warned = append(warned, who)
		}
		if got := strings.Join(warned, " "); got != tt.warned {
			t.Errorf("main on %s, vendor on %q: warned of %q, want %q", tt.main, tt.vendor, got, tt.warned)
		}
	}
}
