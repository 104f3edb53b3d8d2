package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/local"
	"github.com/axle-llm/axle/server/scripted"
)

// TestWyoming: speech that a satellite sends is written down while it comes, by the model that it
// names, the one that is set, or the first that hears.
func TestWyoming(t *testing.T) {
	r, _, done := satellites(t, func(o *server.Options) { o.Version, o.Release = "0.34.4", "7.8.9" })
	asked := make(chan string, 9)
	r.loader.Config.Asked = func(key string) { asked <- key }
	c := r.satellite()
	c.say("describe", nil, "")
	if kind, m := c.hears(); kind != "info" || !strings.Contains(m, `"models":[{"name":"scripted-hearing:latest",`) ||
		!strings.Contains(m, `"languages":["en","de"]`) || strings.Count(m, `"version":"7.8.9"`) != 5 || strings.Contains(m, "0.34.4") {
		t.Errorf("%s %s", kind, m)
	}
	for name, want := range map[string]string{"": "", "scripted-hearing": "", "nope": "model 'nope' not found",
		"scripted": "scripted:latest does not support audio"} {
		c := r.satellite()
		c.say("transcribe", map[string]any{"name": name, "language": "en"}, "")
		c.sound(0.25, 2.5)
		kind, m := c.understood()
		if want == "" && (kind != "transcript" || m != `{"text":"Second 1 is 25%. Second 2 is 25%. Second 3 is 25%.","language":"en"}`) {
			t.Errorf("%q: %s %s", name, kind, m)
		}
		if want == "" {
			continue
		}
		if kind != "error" || !strings.Contains(m, want) {
			t.Errorf("%q: %s %s", name, kind, m)
		}
		if b, err := io.ReadAll(c.in); err != nil || len(b) > 0 {
			t.Errorf("%q: then %q, %v", name, b, err)
		}
	}
	c.say("transcribe", map[string]any{"language": "tlh"}, "")
	c.sound(0.25, 1)
	if kind, m := c.hears(); kind != "error" || !strings.Contains(m, `the language \"tlh\" is not known`) ||
		!strings.Contains(m, `"code":"bad-request"`) {
		t.Errorf("a language: %s %s", kind, m)
	}
	if len(asked) != 3 {
		t.Errorf("the model was asked %d times", len(asked))
	}
	for len(asked) > 0 {
		if key := <-asked; key != "own:wyoming" {
			t.Errorf("the model was asked by %q", key)
		}
	}
	for end := time.Now().Add(patience); r.Satellites() != 2; <-time.After(time.Millisecond) { // those who were told of no error
		if time.Now().After(end) {
			t.Fatalf("%d connections", r.Satellites())
		}
	}
	page := r.do("GET", "/metrics", "").body
	for _, want := range []string{"axle_wyoming_connections 2\n", `axle_requests_total{route="wyoming transcribe",status="200"} 2` + "\n",
		`axle_requests_total{route="wyoming transcribe",status="404"} 1` + "\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the metrics", want)
		}
	}
	done()
}

// TestWyomingModel: a model that is set is asked where none is named.
func TestWyomingModel(t *testing.T) {
	r, _, done := satellites(t, func(o *server.Options) { o.WyomingModel = "scripted" })
	c := r.satellite()
	c.sound(0.5, 1)
	if kind, m := c.hears(); kind != "error" || !strings.Contains(m, "scripted:latest does not support audio") {
		t.Errorf("%s %s", kind, m)
	}
	done()
}

// TestWyomingTwo: satellites that speak at once each have their own text, and so does one of 200
// that only listen.
func TestWyomingTwo(t *testing.T) {
	//proves:T7
	r, _, done := satellites(t)
	for range 198 {
		r.satellite().say("ping", nil, "")
	}
	var all sync.WaitGroup
	for i := range 2 {
		c := r.satellite()
		all.Go(func() {
			loud := float32(i+1) / 4
			c.say("audio-start", sixteen, "")
			for range 4 {
				c.say("audio-chunk", sixteen, wav16(loud, 0.5))
				<-time.After(time.Millisecond)
			}
			c.say("audio-stop", nil, "")
			want := fmt.Sprintf(`{"text":"Second 1 is %.0f%%. Second 2 is %.0f%%.","language":"en"}`, 100*loud, 100*loud)
			if kind, m := c.understood(); kind != "transcript" || m != want {
				t.Errorf("%s %s, want %s", kind, m, want)
			}
		})
	}
	all.Wait()
	if n := r.Satellites(); n != 200 {
		t.Errorf("%d connections", n)
	}
	done()
}

// TestWyomingLeaves: a satellite that leaves while it speaks leaves nothing behind.
func TestWyomingLeaves(t *testing.T) {
	r, _, done := satellites(t)
	c := r.satellite()
	c.say("audio-start", sixteen, "")
	c.say("audio-chunk", sixteen, wav16(0.5, 1))
	r.active(1)
	_ = c.Close()
	for end := time.Now().Add(patience); r.Active() > 0 || r.Satellites() > 0; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is still heard")
		}
	}
	done()
}

// TestWyomingDrain: a satellite that speaks when the server is told to end has the grace, no other
// begins meanwhile, and who only listens is let go in the end.
func TestWyomingDrain(t *testing.T) {
	//proves:D10 whatever else works
	r, stop, done := satellites(t)
	speaks, idle := r.satellite(), r.satellite()
	speaks.say("audio-start", sixteen, "")
	speaks.say("audio-chunk", sixteen, wav16(0.5, 1))
	r.active(1)
	stop()
	for end := time.Now().Add(patience); ; {
		idle.sound(0.5, 1)
		kind, m := idle.understood()
		if kind == "error" && strings.Contains(m, `{"text":"the server is shutting down","code":"unavailable"}`) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it does not end")
		}
	}
	speaks.say("audio-chunk", sixteen, wav16(0.5, 1))
	speaks.say("audio-stop", nil, "")
	if kind, m := speaks.understood(); kind != "transcript" || !strings.Contains(m, "Second 2 is 50%.") {
		t.Errorf("%s %s", kind, m)
	}
	if b, err := io.ReadAll(idle.in); err != nil || len(b) > 0 {
		t.Errorf("the other: %q, %v", b, err)
	}
	done()
}

// TestWyomingDrainEnds: who still speaks when the grace is over is told, and cut off.
func TestWyomingDrainEnds(t *testing.T) {
	//proves:D10 whatever else works
	r, stop, done := satellitesFor(t, 10*time.Millisecond)
	c := r.satellite()
	c.say("audio-start", sixteen, "")
	c.say("audio-chunk", sixteen, wav16(0.5, 1))
	r.active(1)
	stop()
	if kind, m := c.understood(); kind != "error" || m != `{"text":"the server is shutting down","code":"unavailable"}` {
		t.Errorf("%s %s", kind, m)
	}
	if b, err := io.ReadAll(c.in); err != nil || len(b) > 0 {
		t.Errorf("then: %q, %v", b, err)
	}
	done()
}

// TestWyomingConns: an address has its share of connections, and is told so in the protocol.
func TestWyomingConns(t *testing.T) {
	//proves:T7
	ip := elsewhere(t)
	r := newRig(t, func(o *server.Options, _ *scripted.Config) { o.MaxPerClient = 2 })
	ln, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.ServeWyoming(ctx, ln, time.Millisecond, server.Wyoming{Hear: true}) }()
	s := &rooms{r, ln.Addr().String()}
	for range 2 {
		c := s.satellite()
		c.say("ping", nil, "")
		c.hears()
	}
	line, err := bufio.NewReader(s.satellite().in).ReadString('\n')
	if want := `{"type":"error","data":{"text":"too many connections from one address","code":"unavailable"}}` + "\n"; err != nil ||
		line != want {
		t.Errorf("%q, %v", line, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// elsewhere is an address of this machine that is not loopback's.
func elsewhere(t *testing.T) string {
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no address but loopback's")
	return ""
}

// rooms are a server's satellites.
type rooms struct {
	*rig
	addr string
}

// satellites starts a server with a Wyoming port. done ends it, and fails the test unless it ends
// in order.
func satellites(t *testing.T, change ...func(*server.Options)) (r *rooms, stop, done func()) {
	return satellitesFor(t, patience, change...)
}

func satellitesFor(t *testing.T, grace time.Duration, change ...func(*server.Options)) (r *rooms, stop, done func()) {
	t.Helper()
	old := newRig(t)
	o := server.Options{Loopback: true, KeepAlive: time.Minute}
	for _, f := range change {
		f(&o)
	}
	s := server.New(local.New(old.store, local.Options{Describe: scripted.Describe}), old.loader, nil, o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	var at [2]string
	wyoming := func(ctx context.Context, ln net.Listener, grace time.Duration) error {
		return s.ServeWyoming(ctx, ln, grace, server.Wyoming{Hear: true, Say: true})
	}
	for i, serve := range []func(context.Context, net.Listener, time.Duration) error{s.Serve, wyoming} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at[i] = ln.Addr().String()
		go func() { ended <- serve(ctx, ln, grace) }()
	}
	t.Cleanup(cancel)
	return &rooms{&rig{s, t, "http://" + at[0], old.loader, old.store}, at[1]}, cancel, func() {
		t.Helper()
		cancel()
		if err := errors.Join(<-ended, <-ended, s.Close(context.Background())); err != nil {
			t.Error(err)
		}
	}
}

// satellite is a client of the Wyoming port.
type satellite struct {
	net.Conn
	t  testing.TB
	in *bufio.Reader
}

func (r *rooms) satellite() *satellite {
	r.t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	r.t.Cleanup(func() { _ = c.Close() })
	return &satellite{c, r.t, bufio.NewReader(c)}
}

var sixteen = map[string]any{"rate": 16000, "width": 2, "channels": 1}

// say sends an event.
func (c *satellite) say(kind string, data any, payload string) {
	c.t.Helper()
	b, err := json.Marshal(map[string]any{"type": kind, "data": data, "payload_length": len(payload)})
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.Write(append(append(b, '\n'), payload...)); err != nil {
		c.t.Error(err)
	}
}

// sound sends a whole sound.
func (c *satellite) sound(loud float32, seconds float64) {
	c.t.Helper()
	c.say("audio-start", sixteen, "")
	c.say("audio-chunk", sixteen, wav16(loud, seconds))
	c.say("audio-stop", nil, "")
}

// hears is the next event, and its data.
func (c *satellite) hears() (kind, data string) {
	c.t.Helper()
	line, err := c.in.ReadBytes('\n')
	if err != nil {
		c.t.Errorf("%q, %v", line, err)
		return "", ""
	}
	var h struct {
		Type    string `json:"type"`
		Len     int    `json:"data_length"`
		Payload int    `json:"payload_length"`
	}
	if err := json.Unmarshal(line, &h); err != nil {
		c.t.Error(err)
	}
	b := make([]byte, h.Len+h.Payload)
	if _, err := io.ReadFull(c.in, b); err != nil {
		c.t.Error(err)
	}
	return h.Type, string(b[:h.Len])
}

// understood is the transcript of a sound, after its parts, or the error.
func (c *satellite) understood() (kind, data string) {
	c.t.Helper()
	kind, data = c.hears()
	if kind != "transcript-start" {
		return kind, data
	}
	var all, part struct{ Text string }
	said := ""
	for {
		if kind, data = c.hears(); kind != "transcript-chunk" {
			break
		}
		_ = json.Unmarshal([]byte(data), &part)
		said += part.Text
	}
	_ = json.Unmarshal([]byte(data), &all)
	if kind == "transcript" && all.Text != said {
		c.t.Errorf("the parts are %q, all is %q", said, all.Text)
	}
	if kind == "transcript" {
		if last, m := c.hears(); last != "transcript-stop" {
			c.t.Errorf("%s %s after the transcript", last, m)
		}
	}
	return kind, data
}

// wav16 is a tone without a head: 16-bit samples, 16,000 a second.
func wav16(loud float32, seconds float64) string {
	v := int16(loud * (1 << 15))
	return strings.Repeat(string([]byte{byte(v), byte(uint16(v) >> 8)}), int(seconds*16000))
}
