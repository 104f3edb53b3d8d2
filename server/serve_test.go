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
	"time"

	"github.com/axle-llm/axle/axcl"
)

// Told to end, the server refuses new answers, says so in /health, and lets what runs finish (promise D10).
func TestDrain(t *testing.T) {
	r := newRig(t)
	url, stop, done := r.serving(time.Minute)
	stream := r.begin(url, "[[delay:100]][[say:a|b|c|d|e|f|g|h]]")
	stop()
	for end := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
		resp, err := http.Get(url + "/health")
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode == 503 && strings.Contains(string(b), `"status":"draining"`) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("health: %d %s", resp.StatusCode, b)
		}
	}
	resp, err := http.Post(url+"/api/chat", "", strings.NewReader(chatBody("scripted-chat", "x", "")))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("a new request: %d", resp.StatusCode)
	}
	rest, err := io.ReadAll(stream)
	if err != nil || !strings.Contains(string(rest), `"done":true`) {
		t.Errorf("the running answer: %q, %v", rest, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
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

func (r *rig) begin(url, content string) *bufio.Reader {
	r.t.Helper()
	resp, err := http.Post(url+"/api/chat", "", strings.NewReader(chatBody("scripted-chat", content, "")))
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

// The door stays open for a moment when the last answer has ended: whoever asks anew then would find the connection cut.
func TestDrainDoor(t *testing.T) {
	_, stop, done := newRig(t).serving(time.Minute)
	start := time.Now()
	stop()
	if err := <-done; err != nil || time.Since(start) < 250*time.Millisecond {
		t.Errorf("the server was gone after %v: %v", time.Since(start), err)
	}
}

// What runs longer than the grace ends with an error, not cleanly.
func TestDrainLong(t *testing.T) {
	r := newRig(t)
	url, stop, done := r.serving(50 * time.Millisecond)
	stream := r.begin(url, "[[delay:200]]")
	stop()
	rest, _ := io.ReadAll(stream)
	if !strings.HasSuffix(string(rest), "{\"error\":\"the server is shutting down\"}\n") {
		t.Errorf("it ended with %q", rest)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A lost card ends Serve with its error, long before the grace is over.
func TestServeLost(t *testing.T) {
	r := newRig(t)
	url, stop, done := r.serving(10 * time.Minute)
	defer stop()
	stream := r.begin(url, "[[delay:50]]")
	start := time.Now()
	r.loader.Backends()[0].Lose(&axcl.Error{Op: "axclrtSynchronizeStream", Layer: axcl.NoLayer, Kind: axcl.ErrLost})
	rest, _ := io.ReadAll(stream)
	if took := time.Since(start); !strings.Contains(string(rest), `{"error":"the card was lost`) || took > patience {
		t.Errorf("the stream ended after %v with %q", took, rest)
	}
	if err := <-done; !errors.Is(err, axcl.ErrLost) || time.Since(start) > patience {
		t.Errorf("Serve ended after %v with %v", time.Since(start), err)
	}
}
