//go:build cgo && !fake && !scripted && linux

package main

import (
	"context"
	"net/http"
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
