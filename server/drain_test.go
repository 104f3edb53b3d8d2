package server_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/local"
	"github.com/axle-llm/axle/server/scripted"
)

// TestDrainWork (D10): whatever works when the server is told to end has the grace, and nothing new
// begins meanwhile.
func TestDrainWork(t *testing.T) {
	//proves:D10 whatever else works
	r, g, stop, done := ending(t, patience, false)
	var wg sync.WaitGroup
	for _, w := range workers {
		wg.Go(func() {
			if a := r.post(w.path, w.body); a.code != 200 || !strings.Contains(a.body, w.whole) {
				t.Errorf("%s: %d %s", w.path, a.code, a.body)
			}
		})
	}
	blob, sent := "half and half", make(chan struct{})
	pr, pw := io.Pipe()
	wg.Go(func() {
		_, _ = io.WriteString(pw, blob[:4])
		close(sent)
		<-g.gate
		_, _ = io.WriteString(pw, blob[4:])
		_ = pw.Close()
	})
	wg.Go(func() {
		resp, err := http.Post(fmt.Sprintf("%s/api/blobs/sha256:%x", r.url, sha256.Sum256([]byte(blob))), "", pr)
		if err != nil {
			t.Error(err)
			return
		}
		_ = resp.Body.Close()
		if resp.StatusCode != 201 {
			t.Errorf("the blob: %d", resp.StatusCode)
		}
	})
	<-sent
	r.active(len(workers) + 1)
	stop()
	r.draining()
	for _, tt := range []struct{ method, path, body string }{
		{"POST", "/api/generate", `{"error":"the server is shutting down"}`},
		{"POST", "/api/chat", ""}, {"POST", "/api/embed", ""}, {"POST", "/api/embeddings", ""}, {"POST", "/api/create", ""},
		{"POST", "/api/copy", ""},
		{"POST", "/api/pull", ""}, {"POST", "/api/push", ""}, {"DELETE", "/api/delete", ""},
		{"POST", "/api/blobs/sha256:" + strings.Repeat("0", 64), ""},
		{"POST", "/v1/chat/completions", `{"error":{"message":"the server is shutting down","type":"`}, {"POST", "/v1/completions", ""},
		{"POST", "/v1/embeddings", ""},
		{"POST", "/v1/responses", ""}, {"POST", "/v1/responses/compact", ""}, {"POST", "/v1/audio/transcriptions", ""},
		{"POST", "/v1/messages", `{"type":"error","error":{"type":"`}, {"POST", "/v1/messages/count_tokens", ""},
		{"POST", "/v1/images/generations", `{"error":{"message":"the server is shutting down"`}, {"POST", "/v1/images/edits", ""},
	} {
		a := r.do(tt.method, tt.path, `{"model":"scripted"}`)
		if a.code != 503 || a.header.Get("Retry-After") == "" || !strings.HasPrefix(a.body, tt.body) ||
			!strings.Contains(a.body, "shutting down") {
			t.Errorf("%s, new: %d %s", tt.path, a.code, a.body)
		}
	}
	if a := r.do("GET", "/api/tags", ""); a.code != 200 {
		t.Errorf("tags: %d", a.code)
	}
	close(g.gate)
	wg.Wait()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// gated holds up every load until the gate is closed.
type gated struct {
	*scripted.Loader
	gate chan struct{}
}

func (g *gated) Load(ctx context.Context, e *catalog.Entry) (ask.Model, error) {
	select {
	case <-g.gate:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return g.Loader.Load(ctx, e)
}

// ending is a server with gated loads that is told to end by stop.
func ending(t *testing.T, grace time.Duration, vendor bool) (r *rig, g *gated, stop func(), done chan error) {
	t.Helper()
	old := newRig(t)
	g = &gated{old.loader, make(chan struct{})}
	s := server.New(local.New(old.store, local.Options{Describe: scripted.Describe}), g, nil,
		server.Options{Loopback: true, KeepAlive: time.Minute})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done = make(chan error, 1)
	go func() {
		serve := s.Serve
		if vendor {
			serve = s.ServeVendor
		}
		err := serve(ctx, ln, grace)
		done <- errors.Join(err, s.Close(context.Background()))
	}()
	t.Cleanup(cancel)
	return &rig{s, t, "http://" + ln.Addr().String(), old.loader, old.store}, g, cancel, done
}

func (r *rig) draining() {
	r.t.Helper()
	for end := time.Now().Add(patience); r.do("GET", "/health", "").code != 503; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatal("it does not end")
		}
	}
}

// active waits until so much works.
func (r *rig) active(n int) {
	r.t.Helper()
	for end := time.Now().Add(patience); r.Active() < int64(n); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatal("not all began")
		}
	}
}

// workers are requests of every kind that wait for a model, and what tells that one was answered.
var workers = []struct{ path, body, whole string }{
	{"/api/embed", `{"model":"scripted-embed","input":"x"}`, `"embeddings":[[`},
	{"/api/embeddings", `{"model":"scripted-embed","prompt":"x"}`, `"embedding":[`},
	{"/v1/embeddings", `{"model":"scripted-embed","input":"x"}`, `"embedding":[`},
	{"/v1/messages/count_tokens", `{"model":"scripted-chat","messages":[{"role":"user","content":"x"}]}`, `"input_tokens":`},
	{"/v1/chat/completions", `{"model":"scripted-chat","messages":[{"role":"user","content":"[[say:x]]"}]}`, `"finish_reason":"stop"`},
	{"/v1/images/generations", `{"prompt":"x"}`, `"b64_json":"`},
	{"/v1/images/edits", `{"prompt":"x","image":"` + base64.StdEncoding.EncodeToString([]byte(drawnPNG(8, 8))) + `"}`, `"b64_json":"`},
	{"/api/generate", `{"model":"scripted-drawing","prompt":"x","stream":false}`, `"image":"`},
}

// TestDrainWorkLong: what has not ended when the grace is over is told why, also who still sends.
func TestDrainWorkLong(t *testing.T) {
	//proves:D10 whatever else works
	r, _, stop, done := ending(t, 300*time.Millisecond, false)
	var wg sync.WaitGroup
	for _, w := range workers {
		wg.Go(func() {
			if a := r.post(w.path, w.body); a.code != 503 || !strings.Contains(a.body, "the server is shutting down") {
				t.Errorf("%s: %d %s", w.path, a.code, a.body)
			}
		})
	}
	for _, path := range []string{"/api/blobs/sha256:" + strings.Repeat("0", 64), "/api/chat"} {
		sent := make(chan struct{})
		wg.Go(func() {
			c := r.dial("POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf")
			defer c.Close()
			close(sent)
			_ = c.SetDeadline(time.Now().Add(patience))
			b, err := io.ReadAll(c)
			if got := string(b); err != nil || !strings.HasPrefix(got, "HTTP/1.1 503 ") ||
				!strings.Contains(got, "the server is shutting down") {
				t.Errorf("%s, half sent: %q, %v", path, got, err)
			}
		})
		<-sent
	}
	r.active(len(workers) + 2)
	stop()
	wg.Wait()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestDrainDrawing: a picture that is being drawn is drawn to its end within the grace. One that is
// not done by then ends with the reason, in the form that is still possible.
func TestDrainDrawing(t *testing.T) {
	//proves:D10 whatever else works
	const closing = "the server is shutting down"
	for _, tt := range []struct {
		name         string
		grace        time.Duration
		delay        int // milliseconds a step
		code         int // of what does not stream
		whole, event string
	}{
		{"in time", patience, 50, 200, `"b64_json":"`, `"type":"image_generation.completed"`},
		{"too late", 300 * time.Millisecond, 200, 503, closing, `data: {"error":{"message":"` + closing},
	} {
		r, g, stop, done := ending(t, tt.grace, false)
		close(g.gate)
		body := func(delay int, stream bool) string {
			return fmt.Sprintf(`{"prompt":"x[[delay:%d]]","n":2,"progress":true,"stream":%v}`, delay, stream)
		}
		resp, err := http.Post(r.url+"/v1/images/generations", "application/json", strings.NewReader(body(tt.delay, true)))
		if err != nil {
			t.Fatal(err)
		}
		stream := bufio.NewReader(resp.Body)
		if _, err := stream.ReadString('\n'); err != nil { // the first step is done
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			a := r.post("/v1/images/generations", body(tt.delay, false))
			if a.code != tt.code || !strings.Contains(a.body, tt.whole) {
				t.Errorf("%s: %d %.200s", tt.name, a.code, a.body)
			}
		})
		r.active(2)
		stop()
		b, err := io.ReadAll(stream)
		_ = resp.Body.Close()
		all := strings.Split(strings.TrimSpace(string(b)), "\n\n")
		if last := all[len(all)-1]; err != nil || !strings.Contains(last, tt.event) {
			t.Errorf("%s: %v, the last event is %.300s", tt.name, err, last)
		}
		if got, want := strings.Count(string(b), `"type":"image_generation.completed"`), 2; tt.code == 200 && got != want {
			t.Errorf("%s: %d pictures, want %d", tt.name, got, want)
		}
		wg.Wait()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestDrainVendor: an answer that is polled for has the grace too, and a client that polls gets its
// end.
func TestDrainVendor(t *testing.T) {
	//proves:D10 whatever else works
	r, g, stop, done := ending(t, patience, true)
	close(g.gate)
	if a := r.post("/api/generate", `{"model":"scripted-chat","prompt":"[[delay:20]][[say:a|b|c|d|e|f]]"}`); a.code != 200 {
		t.Fatalf("%d %s", a.code, a.body)
	}
	stop()
	for end := time.Now().Add(patience); r.post("/api/chat", `{}`).code != 503; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not end")
		}
	}
	text := ""
	for {
		m := r.do("GET", "/api/generate_provider", "").object(t)
		text += m["response"].(string)
		if m["done"] == true {
			break
		}
		<-time.After(50 * time.Millisecond) // as the vendor's clients do
	}
	if text != "abcdef" {
		t.Errorf("polled %q", text)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestVendorError: an answer that ended with an error is never told as done.
func TestVendorError(t *testing.T) {
	r, g, stop, done := ending(t, time.Second, true)
	close(g.gate)
	poll := func() (text string, last answer) {
		for end := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
			last = r.do("GET", "/api/generate_provider", "")
			if last.code != 200 {
				return text, last
			}
			m := last.object(t)
			text += m["response"].(string)
			if m["done"] == true || time.Now().After(end) {
				return text, last
			}
		}
	}
	r.post("/api/generate", `{"model":"scripted-chat","prompt":"[[say:a|b]][[err:500:it broke]]"}`)
	for range 2 {
		if text, last := poll(); last.code != 500 || last.body != `{"error":"it broke"}` {
			t.Errorf("polled %q, then %d %s", text, last.code, last.body)
		}
	}
	r.post("/api/reset", `{}`)
	r.post("/api/generate", `{"model":"scripted-chat","prompt":"[[crash]][[say:a|b|c]]"}`)
	if text, last := poll(); text != "ab" || last.code != 500 || !strings.Contains(last.body, "unexpected EOF") {
		t.Errorf("broken off: %q, %d %s", text, last.code, last.body)
	}
	r.post("/api/reset", `{}`)
	if _, last := poll(); last.body != `{"done":true,"response":""}` {
		t.Errorf("after a reset: %s", last.body)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
