package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/axle-llm/axle/axcl"
)

// A missing device is looked for until it is there, without any request.
func TestLookAgain(t *testing.T) {
	//proves:D1
	synctest.Test(t, func(t *testing.T) {
		begun, asked := time.Now(), 0
		err := lookAgain(t.Context(), func() error {
			if asked++; asked < 4 {
				return axcl.ErrNoDevice
			}
			return nil
		})
		if d := time.Since(begun); err != nil || asked != 4 || d != 4*lookEvery {
			t.Errorf("%v after %d times and %v", err, asked, d)
		}
		if err := lookAgain(t.Context(), func() error { return axcl.ErrLost }); !errors.Is(err, axcl.ErrLost) {
			t.Errorf("a lost card: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := lookAgain(ctx, func() error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a server that ends: %v", err)
		}
	})
}

// get is what a path answers.
func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	return resp.StatusCode, string(b)
}

// at is a listener that only has an address.
type at struct {
	net.Listener
	addr string
}

func (a at) Addr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(a.addr), Port: 11434} }

// Each listener that others reach is warned of, the vendor's API among them (promise T6).
func TestWarnOpen(t *testing.T) {
	//proves:T6
	for _, tt := range []struct{ main, vendor, warned string }{
		{"127.0.0.1", "", ""}, {"::1", "127.0.0.1", ""}, {"0.0.0.0", "", "main"}, {"::", "127.0.0.1", "main"},
		{"127.0.0.1", "192.168.1.2", "vendor"}, {"192.168.1.2", "0.0.0.0", "main vendor"},
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
