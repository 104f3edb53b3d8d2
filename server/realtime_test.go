package server_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/axle-llm/axle/audio"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/scripted"
)

const byHand = `{"type":"session.update","session":{"type":"transcription","audio":{"input":{"turn_detection":null}}}}`

// TestRealtime: a session writes down what its client sends, turn by turn: those that the server
// finds, and those that the client ends.
func TestRealtime(t *testing.T) {
	r := newRig(t)
	c := r.session("?intent=transcription")
	if e := c.next("session.created"); !strings.Contains(e, `"transcription":{"model":"scripted-hearing:latest"}`) {
		t.Errorf("%s", e)
	}
	c.spoken(0, 1)
	c.spoken(0.5, 1.5)
	c.spoken(0, 1)
	for _, kind := range []string{"input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped", "input_audio_buffer.committed",
		"conversation.item.added", "conversation.item.done", "conversation.item.input_audio_transcription.delta"} {
		c.next(kind)
	}
	// The padding before it, the sound, and the silence that ends it. A filter overshoots at edges.
	if e := c.next("conversation.item.input_audio_transcription.completed"); !strings.Contains(e,
		`"transcript":"Second 1 is 53%. Second 2 is 52%. Second 3 is 0%."`) || !strings.Contains(e, `"languages":[{"code":"en"}]`) {
		t.Errorf("%s", e)
	}
	c.say(byHand)
	c.next("session.updated")
	c.say(`{"type":"input_audio_buffer.clear"}`)
	c.next("input_audio_buffer.cleared")
	c.spoken(0.25, 2)
	c.say(`{"type":"input_audio_buffer.commit"}`)
	if e := c.next("conversation.item.input_audio_transcription.completed"); !strings.Contains(e,
		`"transcript":"Second 1 is 27%. Second 2 is 26%."`) || !strings.Contains(e, `"usage":{"type":"duration","seconds":2}`) {
		t.Errorf("%s", e)
	}
	c.say(`{"type":"session.update","event_id":"one","session":{"type":"transcription","audio":{"input":{"transcription":{"model":"scripted"}}}}}`)
	if e := c.next("error"); !strings.Contains(e, "scripted:latest does not support audio") || !strings.Contains(e, `"event_id":"one"}`) {
		t.Errorf("%s", e)
	}
	c.say(`{"type":"session.update","session":{"type":"transcription","audio":{"input":{"transcription":{"language":"tlh"}}}}}`)
	c.next("session.updated")
	c.spoken(0.5, 1)
	c.say(`{"type":"input_audio_buffer.commit"}`)
	if e := c.next("conversation.item.input_audio_transcription.failed"); !strings.Contains(e, `the language \"tlh\" is not known`) {
		t.Errorf("%s", e)
	}
	var now state
	if r.monitor("state", &now); len(now.Streams) > 0 {
		t.Errorf("turns that are over are listed: %+v", now.Streams)
	}
	page := r.do("GET", "/metrics", "").body
	for _, want := range []string{"axle_realtime_sessions 1\n", `axle_requests_total{route="realtime transcribe",status="200"} 2` + "\n",
		`axle_requests_total{route="realtime transcribe",status="400"} 1` + "\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the metrics", want)
		}
	}
}

// TestRealtimeEarly: a turn that is heard in a pause, and goes on, is one request in the
// metrics, and has as many seconds as it has.
func TestRealtimeEarly(t *testing.T) {
	asked := make(chan string, 9)
	r := newRig(t, func(_ *server.Options, c *scripted.Config) { c.Asked = func(key string) { asked <- key } })
	c := r.session("?intent=transcription")
	c.next("session.created")
	c.spoken(0, 1)
	c.spoken(0.5, 1)
	c.spoken(0, 0.2)
	<-asked
	for end := time.Now().Add(patience); r.Active() > 0; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is still heard")
		}
	}
	c.spoken(0.5, 1)
	c.spoken(0, 1)
	e := c.next("conversation.item.input_audio_transcription.completed")
	if _, s, _ := strings.Cut(e, `"seconds":`); !strings.HasPrefix(s, "3.") || !strings.Contains(e, `"transcript":"Second 1 is`) {
		t.Errorf("%s", e)
	}
	if n := len(asked); n != 1 {
		t.Errorf("the model was asked %d times more", n)
	}
	page := r.do("GET", "/metrics", "").body
	if want := `axle_requests_total{route="realtime transcribe",status="200"} 1` + "\n"; !strings.Contains(page, want) {
		t.Errorf("no %q in the metrics", want)
	}
}

// TestRealtimeRefused: what is no session is refused before it begins one, in the API's form.
func TestRealtimeRefused(t *testing.T) {
	keys := access.New(access.Line{Name: "one", Key: "secret", Role: access.Ask})
	r := newRig(t, func(o *server.Options, _ *scripted.Config) { o.Keys = keys })
	upgrade := []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13",
		"Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="}
	key := append([]string{"Authorization", "Bearer secret"}, upgrade...)
	for name, tt := range map[string]struct {
		path   string
		header []string
		code   int
		want   string
	}{
		"no key":        {"", upgrade, 401, "this server wants a key"},
		"a page":        {"", append([]string{"Origin", "https://evil.example"}, key...), 403, ""},
		"another host":  {"", append([]string{"Host", "evil.example"}, key...), 403, "evil.example"},
		"no WebSocket":  {"", key[:2], 426, "/v1/realtime is a WebSocket"},
		"old":           {"", append(key[:6:6], "Sec-WebSocket-Version", "8"), 400, ""},
		"an intent":     {"?intent=translation", key, 400, `intent is \"translation\": transcription is possible, and none for a conversation`},
		"no such model": {"?model=nope", key, 404, "model 'nope' not found"},
		"vectors":       {"?model=scripted-embed", key, 400, `\"scripted-embed\" does not support chat`},
		"a deaf model":  {"?intent=transcription&model=scripted", key, 400, "scripted:latest does not support audio"},
		"a bad session": {"", append([]string{"Axle-Session", "short"}, key...), 400, "Axle-Session takes 16 to 64 letters"},
		"another path":  {"/client_secrets", key, 501, "axle does not have the rest of the Realtime API yet"},
	} {
		if a := r.do("GET", "/v1/realtime"+tt.path, "", tt.header...); a.code != tt.code || !strings.Contains(a.body, tt.want) {
			t.Errorf("%s: %d %s", name, a.code, a.body)
		}
	}
	for key, want := range map[string]int{"secret": 101, "wrong": 401} { // as pages send it
		ws, resp, err := websocket.Dial(t.Context(), r.url+"/v1/realtime", &websocket.DialOptions{
			Subprotocols: []string{"realtime", "openai-insecure-api-key." + key}})
		if resp.StatusCode != want {
			t.Errorf("the key %s as a protocol: %v", key, err)
		}
		if err == nil {
			_ = ws.CloseNow()
		}
	}
	c := r.session("?model=scripted-hearing", "Authorization", "Bearer secret", "Origin", "http://localhost:5173")
	c.next("session.created")
	if got := c.Subprotocol(); got != "realtime" {
		t.Errorf("the protocol is %q", got)
	}
}

// TestRealtimeTurns: a turn is a request of its key's: it waits for the model like others, is
// listed, and can be ended by its owner; what follows it goes on.
func TestRealtimeTurns(t *testing.T) {
	//proves:G7
	keys := access.New(access.Line{Name: "one", Key: "secret", Role: access.Ask})
	r := newRig(t, func(o *server.Options, c *scripted.Config) { o.Keys, c.Parallel = keys, 1 })
	asked := make(chan string, 9)
	r.loader.Config.Asked = func(key string) { asked <- key }
	// The model has one place, which a microphone has.
	form := field("model", "scripted-hearing") + field("stream", "true") +
		strings.TrimSuffix(soundField(string(audio.AppendWAVHeader(nil, 16000, -1))+wav(1)), "\r\n")
	speaks := r.dial(fmt.Sprintf("POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n"+
		"Content-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", formKind, len(form), form))
	defer speaks.Close()
	<-asked
	c := r.session("", "Authorization", "Bearer secret")
	c.say(byHand)
	turn := func() {
		c.spoken(0.5, 1)
		c.say(`{"type":"input_audio_buffer.commit"}`)
		c.next("conversation.item.done")
		if key := <-asked; !strings.HasPrefix(key, "key:") {
			t.Errorf("the model was asked by %q", key)
		}
	}
	turn()
	var mine state
	r.monitor("state", &mine, "Authorization", "Bearer secret")
	for _, s := range mine.Streams {
		if s.Route == "realtime transcribe" {
			if a := r.do("DELETE", "/api/axle/streams/"+s.ID, "", "Authorization", "Bearer secret"); a.code != 204 {
				t.Errorf("%d %s", a.code, a.body)
			}
		}
	}
	if e := c.next("conversation.item.input_audio_transcription.failed"); !strings.Contains(e, "the answer was ended by its owner") {
		t.Errorf("%s", e)
	}
	turn()
	if n := r.Active(); n != 2 {
		t.Errorf("%d are at work", n)
	}
	_ = c.CloseNow()
	for end := time.Now().Add(patience); r.Active() > 1; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is still heard")
		}
	}
}

// TestRealtimeLimits: a turn counts against its key's limits, and a session against the room that
// all requests have together.
func TestRealtimeLimits(t *testing.T) {
	r := limitRig(t, access.Limits{Requests: 1})
	resp := r.speaks(speechBody(strings.Repeat("[[delay:20]] One. ", 200), ""), bearer("limited")...)
	defer resp.Body.Close()
	c := r.session("", bearer("limited")...)
	c.say(byHand)
	c.spoken(0.5, 1)
	c.say(`{"type":"input_audio_buffer.commit"}`)
	if e := c.next("conversation.item.input_audio_transcription.failed"); !strings.Contains(e, "this key has 1 requests at work") ||
		!strings.Contains(e, `"code":"rate_limit_exceeded"`) {
		t.Errorf("%s", e)
	}
	// Each upload holds 37.5 MiB of 192 while its sound is to come. One that comes beside a message
	// may be refused for it, so another comes with each.
	form := field("model", "scripted-hearing") + soundField("RIFF")
	large := `{"type":"large","x":"` + strings.Repeat("x", 1<<20) + `"}`
	for end := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
		up := r.dial(fmt.Sprintf("POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\n%s: %s\r\nContent-Type: %s\r\n"+
			"Content-Length: %d\r\n\r\n%s", bearer("free")[0], bearer("free")[1], formKind, 25<<20, strings.TrimSuffix(form, "\r\n")))
		defer up.Close()
		c.say(large)
		if strings.Contains(c.next("error"), "there is no room for a message of more than 1024 KiB now") {
			return
		}
		if time.Now().After(end) {
			t.Fatal("a message takes no room")
		}
	}
}

// TestRealtimeDrain: a server that ends lets a turn end within the grace, and takes no other; then
// all sessions are told.
func TestRealtimeDrain(t *testing.T) {
	//proves:D10 whatever else works
	for _, grace := range []time.Duration{patience, 10 * time.Millisecond} {
		r, stop, done := satellitesFor(t, grace)
		asked := make(chan string, 9)
		r.loader.Config.Parallel, r.loader.Config.Asked = 1, func(key string) { asked <- key }
		var form strings.Builder
		form.WriteString(field("model", "scripted-hearing") + field("stream", "true"))
		form.WriteString(strings.TrimSuffix(soundField(string(audio.AppendWAVHeader(nil, 16000, -1))+wav(1)), "\r\n"))
		speaks := r.dial(fmt.Sprintf("POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\n"+
			"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", formKind, form.Len(), form.String()))
		<-asked
		idle, waits := r.session(""), r.session("")
		idle.next("session.created")
		waits.say(byHand)
		waits.spoken(0.5, 1)
		waits.say(`{"type":"input_audio_buffer.commit"}`)
		<-asked
		stop()
		if grace == patience {
			for end := time.Now().Add(patience); r.post("/api/generate", `{"model":"scripted","prompt":"x"}`).code != 503; {
				if time.Now().After(end) {
					t.Fatal("it does not end")
				}
			}
			idle.spoken(0, 1)
			idle.say(`{"type":"input_audio_buffer.commit"}`)
			if e := idle.next("conversation.item.input_audio_transcription.failed"); !strings.Contains(e, "the server is shutting down") {
				t.Errorf("%s", e)
			}
			if _, resp, err := websocket.Dial(t.Context(), r.url+"/v1/realtime", nil); err == nil || resp.StatusCode != 503 {
				t.Errorf("a new session: %v", err)
			}
			_, _ = io.WriteString(speaks, "9\r\n\r\n--x--\r\n\r\n0\r\n\r\n")
			waits.next("conversation.item.input_audio_transcription.completed")
		} else {
			e := waits.next("conversation.item.input_audio_transcription.failed")
			if !strings.Contains(e, "the server is shutting down") {
				t.Errorf("%s", e)
			}
		}
		for _, c := range []*called{idle, waits} {
			if err := c.ended(); websocket.CloseStatus(err) != websocket.StatusGoingAway {
				t.Errorf("a grace of %v: %v", grace, err)
			}
		}
		_ = speaks.Close()
		done()
	}
}

// TestRealtimeMany: there are sessions for many clients at once, and not for more.
func TestRealtimeMany(t *testing.T) {
	//proves:T7
	r := newRig(t)
	var all []*called
	for range 256 {
		c := r.session("")
		c.next("session.created")
		all = append(all, c)
	}
	_, resp, err := websocket.Dial(t.Context(), r.url+"/v1/realtime", nil)
	if err == nil || resp.StatusCode != 503 {
		t.Errorf("the 257th: %v", err)
	}
	_ = all[0].Close(websocket.StatusNormalClosure, "")
	for end := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
		c, _, err := websocket.Dial(t.Context(), r.url+"/v1/realtime", nil)
		if err == nil {
			_ = c.CloseNow()
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// called is a client of a session.
type called struct {
	*websocket.Conn
	t testing.TB
}

// session begins one.
func (r *rig) session(query string, header ...string) *called {
	r.t.Helper()
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	o := &websocket.DialOptions{HTTPHeader: h, Subprotocols: []string{"realtime"}}
	c, _, err := websocket.Dial(r.t.Context(), r.url+"/v1/realtime"+query, o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.CloseNow() })
	return &called{c, r.t}
}

func (c *called) say(event string) {
	c.t.Helper()
	if err := c.Write(c.t.Context(), websocket.MessageText, []byte(event)); err != nil {
		c.t.Logf("%.100s: %v", event, err)
	}
}

// spoken sends a steady sound, a tenth of a second at a time.
func (c *called) spoken(loud float32, seconds float64) {
	c.t.Helper()
	v := int16(loud * (1 << 15))
	piece := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string([]byte{byte(v), byte(uint16(v) >> 8)}), 2400)))
	for range int(seconds * 10) {
		c.say(`{"type":"input_audio_buffer.append","audio":"` + piece + `"}`)
	}
}

// next is the next event of a kind. An error that was not asked for fails the test.
func (c *called) next(kind string) string {
	c.t.Helper()
	ctx, stop := context.WithTimeout(c.t.Context(), patience)
	defer stop()
	for {
		_, b, err := c.Read(ctx)
		if err != nil {
			c.t.Fatalf("no %s: %v", kind, err)
		}
		var e struct{ Type string }
		if err := json.Unmarshal(b, &e); err != nil {
			c.t.Fatal(err)
		}
		if e.Type == kind {
			return string(b)
		}
		if e.Type == "error" {
			c.t.Fatalf("%s, not %s", b, kind)
		}
	}
}

// ended is what the connection ends with.
func (c *called) ended() error {
	ctx, stop := context.WithTimeout(c.t.Context(), patience)
	defer stop()
	for {
		if _, _, err := c.Read(ctx); err != nil {
			return err
		}
	}
}
