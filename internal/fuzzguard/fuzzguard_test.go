package fuzzguard

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/axle-llm/axle/internal/lane"
)

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		input      int
		f          func()
	}{
		{"nothing", "", 0, func() {}},
		{"much for little", "MiB of memory for 5 bytes", 5,
			func() { kept = make([]byte, 80<<20); time.Sleep(200 * time.Millisecond); kept = nil }},
		{"much for much", "", 2 << 20, func() { kept = make([]byte, 80<<20); kept = nil }},
		{"much, never at once", "", 5, func() {
			for range 50 {
				kept = make([]byte, 4<<20)
			}
			kept = nil
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if lane.Race && tt.want != "" {
				t.Skip("the race detector takes memory of its own")
			}
			var s said
			Check(&s, tt.input, tt.f)
			if !strings.Contains(s.first, tt.want) || tt.want == "" && s.first != "" {
				t.Errorf("%q, want %q", s.first, tt.want)
			}
		})
	}
	var s said
	CheckClock(&s, 5, time.Millisecond, func() { time.Sleep(2 * time.Millisecond) })
	if !strings.Contains(s.first, "for 5 bytes, the limit is 1ms") {
		t.Errorf("waiting: %q", s.first)
	}
	if runtime.GOOS != "linux" {
		t.Skip("no thread's time here")
	}
	s = said{}
	check(&s, 5, 10*time.Millisecond, time.Hour, func() {
		for from := threadTime(); threadTime()-from < 20*time.Millisecond; {
		}
	})
	if !strings.Contains(s.first, "of the processor's time for 5 bytes, the limit is 10ms") {
		t.Errorf("busy: %q", s.first)
	}
	s = said{}
	check(&s, 5, 10*time.Millisecond, time.Hour, func() { time.Sleep(30 * time.Millisecond) })
	if s.first != "" {
		t.Errorf("waiting takes the processor's time: %q", s.first)
	}
}

// TestBusy: the time of waiting is not the processor's.
func TestBusy(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no thread's time here")
	}
	for _, c := range []struct {
		name        string
		f           func()
		least, most time.Duration
	}{
		{"waiting", func() { <-time.After(30 * time.Millisecond) }, 0, 20 * time.Millisecond},
		{"computing", func() {
			for from := threadTime(); threadTime()-from < 20*time.Millisecond; {
			}
		}, 20 * time.Millisecond, time.Hour},
	} {
		if d := Busy(c.f); d < c.least || d > c.most {
			t.Errorf("%s: %v", c.name, d)
		}
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// said keeps the first failure and goes on, as a test would not.
type said struct{ first string }

func (s *said) Helper() {}

func (s *said) Fatalf(format string, args ...any) {
	if s.first == "" {
		s.first = fmt.Sprintf(format, args...)
	}
}

var kept []byte
