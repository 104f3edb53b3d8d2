//go:build cgo && !fake && !scripted && linux

package main

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/internal/lane"
)

// TestLoadHangs (D7, D10): a load that hangs, in a file or in making room, is given up after
// seconds, not minutes: health says so, the process leaves with 75. SIGTERM in it ends the process
// sooner still.
func TestLoadHangs(t *testing.T) {
	//proves:D7 in a load; SIGTERM ends the process in seconds then too
	if testing.Short() || lane.Race {
		t.Skip("waits ten seconds for the watchdog, and engine's tests of it run under the race detector")
	}
	for _, fault := range []string{"EngineLoadFromFile:3:hang", "axclrtMalloc:5:hang"} {
		for _, end := range []bool{false, true} {
			name := fault
			if end {
				name += ", SIGTERM"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				u := newUnit(t)
				u.remember()
				p := u.start("AXSIM_FAULT=" + fault)
				allowed := late(p.gone)
				health := p.watch()
				answer := make(chan outcome, 1)
				go func() {
					path, body := question(0, prompts[0])
					answer <- ask(context.Background(), http.DefaultClient, p.url+path, body)
				}()
				want := 10 * time.Second
				if end {
					want = 2 * time.Second
				}
				p.until("hangs", func() bool { return !u.faulted(p).IsZero() })
				hung, code := u.faulted(p), 0
				if end {
					hung = time.Now()
					code = p.stop()
				} else {
					code = p.code()
				}
				o := <-answer
				if code != 75 || o.end != endRefused || o.code != http.StatusServiceUnavailable {
					t.Errorf("exit code %d, the request %+v", code, o)
				}
				if d := o.ended.Sub(hung); d < want-time.Second || d > allowed(want+time.Second) {
					t.Errorf("the request ended after %v, want %v", d, want)
				}
				if d := p.ended.Sub(hung); d > allowed(want+5*time.Second) {
					t.Errorf("the process ended after %v", d)
				}
				if !end {
					(<-health).told(t, o.ended, allowed)
				}
				p.quiet()
			})
		}
	}
}

// TestOpenHangs (D7): a library that never comes back from one of its first calls. A client that
// waits for the card is told within a second of the watchdog's ten, and the process leaves with 75.
func TestOpenHangs(t *testing.T) {
	//proves:D7 from the library's first call on
	if testing.Short() || lane.Race {
		t.Skip("waits ten seconds for the watchdog, and engine's tests of it run under the race detector")
	}
	t.Parallel()
	for _, call := range []string{"Init", "SetDevice", "EngineInit"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			u := newUnit(t)
			p := u.start("AXSIM_FAULT=" + call + ":0:hang")
			allowed := late(p.gone)
			if code, status := p.health(); code != 503 || !strings.HasPrefix(status, "starting") {
				t.Errorf("health: %d %s, want 503 starting", code, status)
			}
			begun := time.Now()
			health := p.watch()
			all := streams(p, map[string]string{}, nil)
			code := p.code()
			if code != 75 || len(all) != 16 {
				t.Fatalf("exit code %d, want 75; %d answers", code, len(all))
			}
			for _, o := range all {
				if o.end != endRefused || o.code != 503 || o.ended.Sub(begun) > allowed(11*time.Second) {
					t.Errorf("after %v: %+v", o.ended.Sub(begun), o)
				}
			}
			(<-health).told(t, all[0].ended, allowed)
			if d := p.ended.Sub(begun); d > allowed(15*time.Second) {
				t.Errorf("the process ended after %v", d)
			}
			p.quiet()
		})
	}
}
