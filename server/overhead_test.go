package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/scripted"
)

// TestAllocations: what a whole answer of one token allocates, the client's part and net/http's
// with it, does not grow unseen. A request was decoded four times, described all models and made
// errors that were not read; each of these cost more allocations than there is room for.
func TestAllocations(t *testing.T) {
	if lane.Race {
		t.Skip("SKIPPED, not tested: the race detector allocates too")
	}
	r := newRig(t, func(_ *server.Options, c *scripted.Config) { c.Delay = 0 })
	for _, tt := range []struct {
		path, body string
		most       float64
	}{
		{"/api/chat", chatBody("scripted-chat", "[[delay:0]][[say:x]]", `,"stream":false`), 144},
		{"/v1/chat/completions", chatBody("scripted-chat", "[[delay:0]][[say:x]]", ``), 151},
	} {
		a := newAsker(t, strings.TrimPrefix(r.url, "http://"), tt.path, tt.body)
		a.ask() // which loads the model
		if n := testing.AllocsPerRun(50, func() { a.ask() }); n > tt.most {
			t.Errorf("%s: %v allocations, more than %v", tt.path, n, tt.most)
		} else {
			t.Logf("%s: %v allocations", tt.path, n)
		}
	}
}

// trivial is the least that a server of answers can be: it reads the request and writes what it was
// given.
func trivial(tb testing.TB, parts []string) string {
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if len(parts) == 1 {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			_, _ = io.WriteString(w, parts[0])
			return
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		for _, p := range parts {
			_, _ = io.WriteString(w, p)
			_ = http.NewResponseController(w).Flush()
		}
	}))
	tb.Cleanup(ts.Close)
	return ts.Listener.Addr().String()
}

// asker is one client on one connection, which costs the same for both servers.
type asker struct {
	tb   testing.TB
	c    net.Conn
	r    *bufio.Reader
	text string
}

func newAsker(tb testing.TB, addr, path, body string) *asker {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return &asker{tb, c, bufio.NewReader(c), fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", path,
		len(body), body)}
}

func (a *asker) ask() string {
	if _, err := io.WriteString(a.c, a.text); err != nil {
		a.tb.Fatal(err)
	}
	resp, err := http.ReadResponse(a.r, nil)
	if err != nil {
		a.tb.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		a.tb.Fatalf("%d %s %v", resp.StatusCode, b, err)
	}
	return string(b)
}

// processor runs f and reports what it takes of the processor, the client's part with it, which a
// busy machine changes less than the time.
func processor(b *testing.B, f func()) {
	used := func() (n int64) {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := used()
	for b.Loop() {
		f()
	}
	b.ReportMetric(float64(used()-before)/float64(b.N)/1000, "cpu-µs/op")
}

// BenchmarkOverhead sets an answer beside the same bytes from a trivial server of net/http, turn by
// turn on the same machine: what is more is ours. docs/performance.md has the figures, and where
// the time goes. On a busy machine single runs differ by a third: compare medians of runs by turns.
func BenchmarkOverhead(b *testing.B) {
	r := newRig(b, func(_ *server.Options, c *scripted.Config) { c.Delay = 0 })
	addr := strings.TrimPrefix(r.url, "http://")
	words := strings.TrimSuffix(strings.Repeat("word|", 64), "|")
	for _, tt := range []struct{ name, path, body string }{
		{"one", "/api/chat", chatBody("scripted-chat", "[[delay:0]][[say:x]]", `,"stream":false`)},
		{"one-openai", "/v1/chat/completions", chatBody("scripted-chat", "[[delay:0]][[say:x]]", ``)},
		{"stream", "/api/chat", chatBody("scripted-chat", "[[delay:0]][[say:"+words+"]]", ``)},
	} {
		ours := newAsker(b, addr, tt.path, tt.body)
		parts := []string{ours.ask()}
		if tt.name == "stream" {
			parts = strings.SplitAfter(strings.TrimSuffix(parts[0], "\n"), "\n")
		}
		b.Run(tt.name+"/trivial", func(b *testing.B) {
			a := newAsker(b, trivial(b, parts), tt.path, tt.body)
			b.ReportAllocs()
			processor(b, func() { a.ask() })
		})
		b.Run(tt.name+"/axle", func(b *testing.B) {
			b.ReportAllocs()
			processor(b, func() { ours.ask() })
		})
	}
}
