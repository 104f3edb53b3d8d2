package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/server"
)

// TestWyomingSay: text that a satellite sends is spoken, whole or while it comes, with the voice it
// names, or the first that speaks its language.
func TestWyomingSay(t *testing.T) {
	r, _, done := satellites(t)
	asked := make(chan string, 9)
	r.loader.Config.Asked = func(key string) { asked <- key }
	c := r.satellite()
	c.say("describe", nil, "")
	if kind, m := c.hears(); kind != "info" || !strings.Contains(m, `"voices":[{"name":"ada",`) ||
		!strings.Contains(m, `"supports_synthesize_streaming":true`) {
		t.Errorf("%s %s", kind, m)
	}
	const text = "Cats sleep. Go home!"
	for voice, want := range map[string]string{`{}`: "ada", `{"name":"ben"}`: "ben", `{"language":"en_GB"}`: "ben", `{"language":"en"}`: "ada"} {
		c.say("synthesize", map[string]any{"text": text, "voice": json.RawMessage(voice)}, "")
		checkSpoken(t, voice, c.sounds(), text, want, 1)
	}
	c.say("synthesize-start", nil, "")
	for _, part := range []string{"Cats sle", "ep now. Go", " home!"} {
		c.say("synthesize-chunk", map[string]any{"text": part}, "")
	}
	c.say("synthesize", map[string]any{"text": "Cats sleep now. Go home!"}, "")
	c.say("synthesize-stop", nil, "")
	checkSpoken(t, "in parts", c.sounds(), "Cats sleep now. Go home!", "ada", 1)
	if kind, m := c.hears(); kind != "synthesize-stopped" {
		t.Errorf("%s %s", kind, m)
	}
	for len(asked) > 0 {
		if key := <-asked; key != "own:wyoming" {
			t.Errorf("the model was asked by %q", key)
		}
	}
	for voice, want := range map[string]string{`{"name":"eve"}`: `no model here has the voice \"eve\"`, `{"language":"zh"}`: `no voice here speaks \"zh\"`} {
		c := r.satellite()
		c.say("synthesize", map[string]any{"text": text, "voice": json.RawMessage(voice)}, "")
		if kind, m := c.hears(); kind != "error" || !strings.Contains(m, want) || !strings.Contains(m, `"code":"not-found"`) {
			t.Errorf("%s: %s %s", voice, kind, m)
		}
		if b, err := io.ReadAll(c.in); err != nil || len(b) > 0 {
			t.Errorf("then: %q, %v", b, err)
		}
	}
	page := r.do("GET", "/metrics", "").body
	for _, want := range []string{`axle_requests_total{route="wyoming synthesize",status="200"} 5` + "\n",
		`axle_requests_total{route="wyoming synthesize",status="404"} 2` + "\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the metrics", want)
		}
	}
	done()
}

// TestWyomingSayLeaves: a satellite that leaves ends what is spoken for it, one that is there when
// the server is told to end hears all, and no other begins meanwhile.
func TestWyomingSayLeaves(t *testing.T) {
	//proves:D10 whatever else works
	r, stop, done := satellites(t)
	gates := map[int]chan bool{2: make(chan bool), 3: make(chan bool)} // before these pieces
	r.loader.Config.Speaks = func(n int) {
		if n > 1 {
			<-gates[n]
		}
	}
	c := r.satellite()
	c.say("synthesize", map[string]any{"text": "One two. Three."}, "")
	c.hears()
	_ = c.Close()
	close(gates[2])
	r.wait("the end", func() bool { return r.Active() == 0 && r.Satellites() == 0 })

	speaks, idle := r.satellite(), r.satellite()
	speaks.say("synthesize", map[string]any{"text": "One two. Three. Four."}, "")
	r.active(1)
	stop()
	for end := time.Now().Add(patience); ; {
		idle.say("synthesize", map[string]any{"text": "One."}, "")
		kind, m := idle.hears()
		for kind != "audio-stop" && kind != "error" {
			kind, m = idle.hears()
		}
		if strings.Contains(m, `{"text":"the server is shutting down","code":"unavailable"}`) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it does not end")
		}
	}
	close(gates[3])
	checkSpoken(t, "at the end", speaks.sounds(), "One two. Three. Four.", "ada", 1)
	done()
}

// TestWyomingServices: a port answers what it is for, and the other's events not at all.
func TestWyomingServices(t *testing.T) {
	for name, w := range map[string]server.Wyoming{"hears": {Hear: true}, "speaks": {Say: true}} {
		r := newRig(t) // its orderly end is all ports'
		ctx, cancel := context.WithCancel(t.Context())
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- r.ServeWyoming(ctx, ln, time.Millisecond, w) }()
		c := (&rooms{r, ln.Addr().String()}).satellite()
		c.say("describe", nil, "")
		if kind, m := c.hears(); kind != "info" || strings.Contains(m, `"scripted-hearing:latest"`) != w.Hear ||
			strings.Contains(m, `"ada"`) != w.Say {
			t.Errorf("%s: %s %s", name, kind, m)
		}
		c.say("synthesize", map[string]any{"text": "One."}, "")
		c.sound(0.5, 1)
		want := "audio-start"
		if w.Hear {
			want = "transcript-start"
		}
		if kind, m := c.hears(); kind != want {
			t.Errorf("%s: %s %s", name, kind, m)
		}
		cancel()
		<-ended
	}
}

// TestWyomingVoices: a model that is set speaks first.
func TestWyomingVoices(t *testing.T) {
	r, _, done := satellites(t, func(o *server.Options) { o.WyomingVoices = "zzz" })
	for _, name := range []string{"aaa", "zzz"} {
		if a := r.post("/api/copy", `{"source":"scripted-speaking","destination":"`+name+`"}`); a.code != 200 {
			t.Fatal(a.body)
		}
	}
	c := r.satellite()
	c.say("describe", nil, "")
	if kind, m := c.hears(); !strings.Contains(m, `"ada (zzz:latest)"`) || strings.Count(m, `"name":"ada"`) != 1 {
		t.Errorf("%s %s", kind, m)
	}
	c.say("synthesize", map[string]any{"text": "One."}, "")
	checkSpoken(t, "set", c.sounds(), "One.", "ada", 1)
	if a := r.do("GET", "/api/ps", ""); !strings.Contains(a.body, `"zzz:latest"`) || strings.Contains(a.body, `"aaa:latest"`) {
		t.Errorf("it was not spoken by the model that is set: %s", a.body)
	}
	done()
}

// sounds is the sound that comes, as raw samples.
func (c *satellite) sounds() string {
	c.t.Helper()
	var all strings.Builder
	for n := 0; ; n++ {
		line, err := c.in.ReadBytes('\n')
		var h struct {
			Type    string
			Data    int `json:"data_length"`
			Payload int `json:"payload_length"`
		}
		if err == nil {
			err = json.Unmarshal(line, &h)
		}
		b := make([]byte, h.Data+h.Payload)
		if err == nil {
			_, err = io.ReadFull(c.in, b)
		}
		want := map[bool]string{true: "audio-start", false: "audio-chunk"}[n == 0]
		switch data := string(b[:h.Data]); {
		case err != nil:
			c.t.Error(err)
			return ""
		case h.Type == "audio-stop" && n > 0:
			return all.String()
		case h.Type != want || data != `{"rate":24000,"width":2,"channels":1}` || h.Payload > 2048:
			c.t.Errorf("%s %s, %d bytes; want %s", h.Type, data, h.Payload, want)
			return ""
		}
		all.Write(b[h.Data:])
	}
}
