package server_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/scripted"
)

// Half-open connections and readers that take a byte now and then leave healthy clients unharmed
// (promise T8). The slow ones get all they asked for, for a byte is progress, as long as the server
// does not have to wait for them longer than a write may take.
func TestSlowClients(t *testing.T) {
	//proves:T8 500 half-open, 64 that read a byte at a time
	r := newRig(t)
	url, stop, done := r.serving(time.Millisecond) // with the listener's own limits
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	r.url = url
	var conns []io.Closer
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for i := range 500 {
		req := "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Le" // never ends
		if i%2 == 0 {
			req = "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n{" // its body never comes
		}
		conns = append(conns, r.dial(req))
	}
	var read atomic.Int64
	var readers sync.WaitGroup
	const words = 300
	slow, hurry := make(chan struct{}), make(chan struct{})
	tick := time.NewTicker(time.Millisecond) // all of them together: a byte a millisecond, fifteen bytes a second for each
	defer tick.Stop()
	for range 64 {
		body := chatBody("scripted-chat", "[[delay:0]][[say:"+strings.Repeat("word |", words)+"end]]", "")
		c := r.dial(fmt.Sprintf("POST /api/chat HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
			len(body), body))
		conns = append(conns, c)
		readers.Go(func() {
			var text bytes.Buffer
			one := make([]byte, 1)
			for {
				select {
				case <-tick.C:
				case <-hurry:
					if _, err := io.Copy(&text, c); err != nil || !strings.Contains(text.String(), `"done":true`) ||
						strings.Count(text.String(), `"word "`) != words {
						t.Errorf("a slow reader got %d bytes, %v", text.Len(), err)
					}
					return
				}
				if _, err := io.ReadFull(c, one); err != nil {
					t.Errorf("a slow reader was cut off after %d bytes: %v", text.Len(), err)
					return
				}
				text.Write(one)
				if read.Add(1) == 640 {
					close(slow)
				}
			}
		})
	}
	<-slow // all read, byte by byte
	before := read.Load()
	for range 20 {
		start := time.Now()
		if a := r.post("/api/chat", chatBody("scripted-chat", "[[say:quick]]", `,"stream":false`)); a.code != 200 ||
			time.Since(start) > patience {
			t.Errorf("a healthy client: %d after %v", a.code, time.Since(start))
		}
	}
	if after := read.Load(); after > 64*2000 {
		t.Errorf("the slow ones were not slow: %d bytes, then %d", before, after)
	}
	for end := time.Now().Add(patience); read.Load() == before; <-time.After(time.Millisecond) { // they are still there: another byte comes
		if time.Now().After(end) {
			t.Fatal("no byte comes to the slow ones any more")
		}
	}
	close(hurry)
	readers.Wait()
}

// A reader that takes nothing is cut off after the write deadline, and its place on the card is
// free.
func TestWriteDeadline(t *testing.T) {
	r := newRig(t, func(o *server.Options, c *scripted.Config) { o.WriteTimeout = 50 * time.Millisecond })
	say := "[[delay:0]][[say:" + strings.Repeat(strings.Repeat("y", 100)+"|", 5000) + "]]"
	body := chatBody("scripted-chat", say, "")
	c := r.dial(fmt.Sprintf("POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	defer c.Close()
	for end := time.Now().Add(patience); ; <-time.After(5 * time.Millisecond) {
		if l := r.loader.Backends(); len(l) == 1 {
			if s := l[0].Stats(); s.Cancelled == 1 && s.Running == 0 {
				break
			}
		}
		if time.Now().After(end) {
			t.Fatalf("the slow reader still holds its place: %+v", r.Loaded())
		}
	}
}

// What the server adds to a token: decoding events, encoding, flushing, writing.
func BenchmarkToken(b *testing.B) {
	r := newRig(b)
	body := `{"model":"scripted","prompt":"[[delay:0]][[say:` + strings.Repeat("x|", 1000) + `]]"}`
	b.ResetTimer()
	for b.Loop() {
		resp, err := http.Post(r.url+"/api/generate", "", strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			b.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1001, "ns/token")
}
