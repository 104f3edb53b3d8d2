package server_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/scripted"
)

// Many requests over all dialects at once, more than the queue holds (promise G6): every answer is exactly right, or 503 with Retry-After and
// right when asked again; none is lost, none ends without its end. AXLE_REQUESTS sets how many.
func TestLoad(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 1000
	}
	if s, err := strconv.Atoi(os.Getenv("AXLE_REQUESTS")); err == nil {
		n = s
	}
	r := newRig(t, func(_ *server.Options, c *scripted.Config) { c.Parallel, c.MaxQueue = 16, 32 })
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	ask := func(path, body string) (int, http.Header, string, error) {
		resp, err := client.Post(r.url+path, "application/json", strings.NewReader(body))
		if err != nil {
			return 0, nil, "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return resp.StatusCode, resp.Header, string(b), err
	}
	kinds := []struct {
		path, body string
		end        string // what a whole answer ends with
		has        func(text string) string
	}{
		{"/api/chat", `{"model":"scripted-chat","messages":[{"role":"user","content":"[[delay:1]][[say:%s]]"}],"stream":false}`, "}", func(s string) string { return `"content":"` + s + `"` }},
		{"/api/chat", `{"model":"scripted-chat","messages":[{"role":"user","content":"[[delay:1]][[say:%s]]"}]}`, "}\n", nil},
		{"/api/generate", `{"model":"scripted","prompt":"[[delay:1]][[say:%s]]"}`, "}\n", nil},
		{"/v1/chat/completions", `{"model":"scripted-chat","messages":[{"role":"user","content":"[[delay:1]][[say:%s]]"}],"stream":true}`, "data: [DONE]\n\n", nil},
		{"/v1/chat/completions", `{"model":"scripted-chat","messages":[{"role":"user","content":"[[delay:1]][[say:%s]]"}]}`, "}\n", func(s string) string { return `"content":"` + s + `"` }},
		{"/v1/completions", `{"model":"scripted","prompt":"[[delay:1]][[say:%s]]"}`, "}\n", func(s string) string { return `"text":"` + s + `"` }},
		{"/v1/messages", `{"model":"scripted-chat","max_tokens":99,"messages":[{"role":"user","content":"[[delay:1]][[say:%s]]"}],"stream":true}`, "{\"type\":\"message_stop\"}\n\n", nil},
		{"/v1/responses", `{"model":"scripted-chat","input":"[[delay:1]][[say:%s]]"}`, "}\n", func(s string) string { return `"text":"` + s + `"` }},
	}
	var right, busy atomic.Int64
	var wg sync.WaitGroup
	work := make(chan int)
	for range 64 {
		wg.Go(func() {
			for i := range work {
				k := kinds[i%len(kinds)]
				words := make([]string, 1+rand.IntN(8))
				for j := range words {
					words[j] = fmt.Sprintf("w%dx%d.", i, j)
				}
				question := fmt.Sprintf(k.body, strings.Join(words, "|"))
				code, h, body, err := ask(k.path, question)
				for code == 503 && h.Get("Retry-After") != "" {
					busy.Add(1)
					<-time.After(5 * time.Millisecond)
					code, h, body, err = ask(k.path, question)
				}
				switch {
				case err != nil:
					t.Errorf("request %d: %v", i, err)
				case code != 200 || !strings.HasSuffix(body, k.end):
					t.Errorf("request %d: %d %q", i, code, body)
				case k.has != nil && !strings.Contains(body, k.has(strings.Join(words, ""))):
					t.Errorf("request %d: wants %q, got %s", i, words, body)
				default:
					if k.has == nil { // a stream: all words in order, each once
						at := 0
						for _, w := range words {
							j := strings.Index(body[at:], `"`+w+`"`)
							if j < 0 {
								t.Errorf("request %d: no %q in %s", i, w, body)
								break
							}
							at += j
						}
					}
					right.Add(1)
				}
			}
		})
	}
	// The first requests find every place taken, so that some are refused however fast the machine is.
	full, release := context.WithCancel(t.Context())
	defer release()
	for range 16 + 32 {
		wg.Go(func() {
			q, _ := http.NewRequestWithContext(full, "POST", r.url+"/api/chat", strings.NewReader(`{"model":"scripted-chat","messages":[{"role":"user","content":"[[delay:600000]][[say:x]]"}]}`))
			if resp, err := client.Do(q); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	for s := r.Host().Loaded(); len(s) != 1 || s[0].Stats.Running != 16 || s[0].Stats.Queued != 32; s = r.Host().Loaded() {
		<-time.After(time.Millisecond)
	}
	for i := range n {
		work <- i
		for i == 0 && busy.Load() == 0 {
			<-time.After(time.Millisecond)
		}
		release()
	}
	close(work)
	wg.Wait()
	if right.Load() != int64(n) || busy.Load() == 0 {
		t.Errorf("%d right of %d, %d times refused", right.Load(), n, busy.Load())
	}
	t.Logf("%d right, %d times refused", right.Load(), busy.Load())
}

// Half-open connections and readers that take a byte now and then leave healthy clients unharmed (promise T8). The slow ones get all they
// asked for, for a byte is progress, as long as the server does not have to wait for them longer than a write may take.
func TestSlowClients(t *testing.T) {
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
	slow, hurry := make(chan struct{}), make(chan struct{})
	tick := time.NewTicker(time.Millisecond) // all of them together: a byte a millisecond, fifteen bytes a second for each
	defer tick.Stop()
	for range 64 {
		body := chatBody("scripted-chat", "[[delay:0]][[say:"+strings.Repeat("word |", 1000)+"end]]", "")
		c := r.dial(fmt.Sprintf("POST /api/chat HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		conns = append(conns, c)
		readers.Go(func() {
			var text bytes.Buffer
			one := make([]byte, 1)
			for {
				select {
				case <-tick.C:
				case <-hurry:
					if _, err := io.Copy(&text, c); err != nil || !strings.Contains(text.String(), `"done":true`) || strings.Count(text.String(), `"word "`) != 1000 {
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
		if a := r.post("/api/chat", chatBody("scripted-chat", "[[say:quick]]", `,"stream":false`)); a.code != 200 || time.Since(start) > patience {
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

// A reader that takes nothing is cut off after the write deadline, and its place on the card is free.
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
			t.Fatalf("the slow reader still holds its place: %+v", r.Host().Loaded())
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
