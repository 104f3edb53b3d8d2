package server_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/axcl"
)

// Told to end, the server refuses new answers, says so in /health, and lets what runs finish
// (promise D10).
func TestDrain(t *testing.T) {
	inBubble(t, time.Minute, func(t *testing.T, b *bubble) {
		stream := b.begin(b.client, "[[delay:100]][[say:a|b|c|d|e|f|g|h]]")
		b.stop()
		synctest.Wait()
		asked := b.another()
		resp, err := asked.Get(b.url + "/health")
		if err != nil {
			t.Fatal(err)
		}
		health, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != 503 || !strings.Contains(string(health), `"status":"draining"`) {
			t.Errorf("health: %d %s", resp.StatusCode, health)
		}
		resp, err = asked.Post(b.url+"/api/chat", "", strings.NewReader(chatBody("scripted-chat", "x", "")))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
			t.Errorf("a new request: %d", resp.StatusCode)
		}
		asked.CloseIdleConnections()
		rest, err := io.ReadAll(stream)
		if err != nil || !strings.Contains(string(rest), `"done":true`) {
			t.Errorf("the running answer: %q, %v", rest, err)
		}
		if err := <-b.done; err != nil {
			t.Error(err)
		}
	})
}

// serving runs Serve on a listener of its own.
func (r *rig) serving(grace time.Duration) (url string, stop func(), done chan error) {
	r.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done = make(chan error, 1)
	go func() { done <- r.Serve(ctx, ln, grace) }()
	return "http://" + ln.Addr().String(), cancel, done
}

// begin asks for an answer and reads its first line.
func (r *rig) begin(client *http.Client, content string) *bufio.Reader {
	r.t.Helper()
	resp, err := client.Post(r.url+"/api/chat", "", strings.NewReader(chatBody("scripted-chat", content, "")))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = resp.Body.Close() })
	br := bufio.NewReader(resp.Body)
	if _, err := br.ReadString('\n'); err != nil {
		r.t.Fatal(err)
	}
	return br
}

// The door stays open for a moment when the last answer has ended: a client that asks anew then
// would find the connection cut.
func TestDrainDoor(t *testing.T) {
	inBubble(t, time.Minute, func(t *testing.T, b *bubble) {
		start := time.Now()
		b.stop()
		if err := <-b.done; err != nil || time.Since(start) < 250*time.Millisecond || time.Since(start) > 500*time.Millisecond {
			t.Errorf("the server was gone after %v: %v", time.Since(start), err)
		}
	})
}

// What runs longer than the grace ends with an error, not cleanly.
func TestDrainLong(t *testing.T) {
	//proves:D10
	inBubble(t, 50*time.Millisecond, func(t *testing.T, b *bubble) {
		stream := b.begin(b.client, "[[delay:200]]")
		b.stop()
		rest, _ := io.ReadAll(stream)
		if !strings.HasSuffix(string(rest), "{\"error\":\"the server is shutting down\"}\n") {
			t.Errorf("it ended with %q", rest)
		}
		if err := <-b.done; err != nil {
			t.Error(err)
		}
	})
}

// A lost card ends Serve with its error, long before the grace is over.
func TestServeLost(t *testing.T) {
	inBubble(t, 10*time.Minute, func(t *testing.T, b *bubble) {
		stream := b.begin(b.client, "[[delay:50]]")
		start := time.Now()
		lost := &axcl.Error{Op: "axclrtSynchronizeStream", Layer: axcl.NoLayer, Kind: axcl.ErrLost}
		b.loader.Backends()[0].Lose(lost)
		rest, _ := io.ReadAll(stream)
		if took := time.Since(start); !strings.Contains(string(rest), `{"error":"the card was lost`) || took > time.Second {
			t.Errorf("the stream ended after %v with %q", took, rest)
		}
		// The process is to be gone within five seconds.
		if err := <-b.done; !errors.Is(err, axcl.ErrLost) || time.Since(start) > 5*time.Second {
			t.Errorf("Serve ended after %v with %v", time.Since(start), err)
		}
	})
}
