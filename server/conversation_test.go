package server_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/scripted"
)

const (
	talking = `{"type":"session.update","session":{"type":"realtime","audio":{"input":{"turn_detection":null}}}}`
	writing = `{"type":"session.update","session":{"type":"realtime","output_modalities":["text"],"audio":{"input":{"turn_detection":null}}}}`
	answers = `{"type":"response.create"}`
)

// TestConversation: a turn is written down, a model answers it, and a voice speaks the answer,
// sentence by sentence; what is said next follows it from the cache.
func TestConversation(t *testing.T) {
	r := newRig(t)
	c := r.session("?model=scripted-chat")
	if e := c.next("session.created"); !strings.Contains(e, `"model":"scripted-chat:latest"`) || !strings.Contains(e, `"voice":"ada"`) ||
		!strings.Contains(e, `"transcription":{"model":"scripted-hearing:latest"}`) {
		t.Errorf("%s", e)
	}
	c.say(`{"type":"session.update","session":{"type":"realtime","instructions":"[[say:One| is| here.| Two| too.]]",` +
		`"audio":{"output":{"voice":"alloy"}}}}`)
	c.next("session.updated")
	c.spoken(0, 1)
	c.spoken(0.5, 1.5)
	c.spoken(0, 1)
	var order []string
	sound, text := 0, ""
	for done := false; !done; {
		e := c.any()
		switch e.Type {
		case "conversation.item.input_audio_transcription.completed":
			if !strings.HasPrefix(e.Transcript, "Second 1 is 5") {
				t.Errorf("heard %q", e.Transcript)
			}
		case "response.output_audio.delta":
			b, err := base64.StdEncoding.DecodeString(e.Delta)
			if sound += len(b); err != nil {
				t.Error(err)
			}
		case "response.output_audio_transcript.delta":
			text += e.Delta
		case "response.done":
			done = true
			if e.Response.Status != "completed" || e.Response.Usage.Output != 5 {
				t.Errorf("%+v", e.Response)
			}
		}
		if n := len(order); n == 0 || order[n-1] != e.Type {
			order = append(order, e.Type)
		}
	}
	// Five words, and two ends of sentences.
	if want := 5*4800 + 2*2400; text != "One is here. Two too." || sound != want {
		t.Errorf("%q, %d bytes of sound, not %d", text, sound, want)
	}
	if got := strings.Join(order, " "); !strings.Contains(got, "transcription.completed response.created response.output_item.added "+
		"conversation.item.added response.content_part.added response.output_audio_transcript.delta") || !strings.HasSuffix(got,
		"response.output_audio.done response.output_audio_transcript.done response.content_part.done conversation.item.done "+
			"response.output_item.done response.done") {
		t.Errorf("%s", got)
	}
	page := r.do("GET", "/metrics", "").body
	for _, want := range []string{`axle_requests_total{route="realtime answer",status="200"} 1` + "\n", "axle_output_tokens_total 5\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the metrics", want)
		}
	}
}

// TestConversationTools: a model calls a tool, is told what the tool gave, and goes on.
func TestConversationTools(t *testing.T) {
	r := newRig(t)
	c := r.session("?model=scripted-chat")
	c.say(writing)
	c.say(`{"type":"session.update","session":{"tools":[{"type":"function","name":"light","parameters":{"type":"object","properties":` +
		`{"room":{"type":"string"}}}}]}}`)
	c.say(saying("call light with room set to kitchen"))
	c.say(answers)
	var e came
	if err := json.Unmarshal([]byte(c.next("response.function_call_arguments.done")), &e); err != nil || e.Name != "light" ||
		e.Arguments != `{"room":"kitchen"}` {
		t.Errorf("%+v %v", e, err)
	}
	c.next("response.done")
	c.say(fmt.Sprintf(`{"type":"conversation.item.create","item":{"type":"function_call_output","call_id":%q,"output":"on"}}`, e.Call))
	c.say(saying("[[say:It| is| on.]]"))
	c.say(answers)
	if e := c.next("response.output_text.done"); !strings.Contains(e, `"text":"It is on."`) {
		t.Errorf("%s", e)
	}
}

// TestConversationWithout: what needs no voice works without one, what needs no hearing without
// that, and what is missing is named with the way out.
func TestConversationWithout(t *testing.T) {
	for name, tt := range map[string]struct {
		without string
		update  string
		status  string
		want    string
	}{
		"text without a voice": {"scripted-speaking", writing, "completed", "yes"},
		"a voice": {"scripted-speaking", talking, "failed", "no installed model speaks: 'axle pull' without a name lists models, and " +
			`output_modalities [\"text\"] needs none`},
		"text without ears": {"scripted-hearing", writing, "completed", "yes"},
	} {
		some := scripted.Builtin()
		delete(some, tt.without)
		r := assembledOf(t, some).start()
		c := r.session("?model=scripted-chat")
		c.say(strings.Replace(tt.update, `"audio":{`, `"instructions":"[[say:yes]]","audio":{`, 1))
		c.say(saying("Hello."))
		c.say(answers)
		if e := c.next("response.done"); !strings.Contains(e, tt.want) || !strings.Contains(e, `"status":"`+tt.status+`"`) {
			t.Errorf("%s: %s", name, e)
		}
		if tt.without != "scripted-hearing" {
			continue
		}
		c.spoken(0.5, 1)
		c.say(`{"type":"input_audio_buffer.commit"}`)
		if e := c.next("conversation.item.input_audio_transcription.failed"); !strings.Contains(e, "no installed model hears") {
			t.Errorf("%s", e)
		}
	}
}

// TestConversationInterrupted: speech ends an answer on the card, too: its model and its voice are
// free, and the next turn is answered.
func TestConversationInterrupted(t *testing.T) {
	//proves:G7
	r := newRig(t, func(o *server.Options, c *scripted.Config) { c.Parallel = 1 })
	c := r.session("?model=scripted-chat")
	c.say(`{"type":"session.update","session":{"type":"realtime","instructions":"[[delay:20]][[say:` +
		strings.Repeat("One| sentence| more. |", 300) + `]]"}}`)
	c.say(saying("Hello."))
	c.say(answers)
	c.next("response.output_audio.delta")
	c.spoken(0.5, 1)
	if e := c.next("response.done"); !strings.Contains(e, `"status":"cancelled","status_details":{"type":"cancelled","reason":"turn_detected"}`) {
		t.Errorf("%.400s", e)
	}
	c.say(`{"type":"input_audio_buffer.clear"}`)
	c.say(`{"type":"session.update","session":{"instructions":"[[say:Well.]]"}}`)
	for end := time.Now().Add(patience); r.Active() > 0; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is still answered")
		}
	}
	c.say(saying("Go on."))
	c.say(answers)
	if e := c.next("response.done"); !strings.Contains(e, `"transcript":"Well."`) {
		t.Errorf("%.400s", e)
	}
}

// TestConversationLimits: an answer, with its voice, is one request of its key's, and is counted.
func TestConversationLimits(t *testing.T) {
	r := limitRig(t, access.Limits{Requests: 1, Tokens: 40})
	c := r.session("?model=scripted-chat", bearer("limited")...)
	c.say(strings.Replace(talking, `"audio":{`, `"instructions":"[[say:One| is| here.| Two| too.]]","audio":{`, 1))
	c.say(saying("Hello."))
	c.say(answers)
	if e := c.next("response.done"); !strings.Contains(e, `"status":"completed"`) {
		t.Errorf("%s", e)
	}
	for range 20 {
		c.say(saying("Hello."))
		c.say(answers)
		if e := c.next("response.done"); strings.Contains(e, `"status":"failed"`) {
			if !strings.Contains(e, "this key has used today's 40 tokens") || !strings.Contains(e, "rate_limit_exceeded") {
				t.Errorf("%s", e)
			}
			return
		}
	}
	t.Error("no limit is reached")
}

// TestRealtimeLive: a model that can writes a turn down while it goes on.
func TestRealtimeLive(t *testing.T) {
	r := newRig(t, func(_ *server.Options, c *scripted.Config) { c.Live = true })
	c := r.session("?intent=transcription")
	c.say(byHand)
	c.spoken(0.5, 1.7)
	const delta = "conversation.item.input_audio_transcription.delta"
	for _, want := range []string{`"delta":"Second 1"`, `"delta":" is 5`, `"delta":" Second 2"`} {
		if e := c.next(delta); !strings.Contains(e, want) {
			t.Errorf("%s, not %s", e, want)
		}
	}
	c.say(`{"type":"input_audio_buffer.commit"}`)
	c.next("input_audio_buffer.committed")
	if e := c.next(delta); !strings.Contains(e, `"delta":" is 5`) {
		t.Errorf("%s", e)
	}
	if e := c.next("conversation.item.input_audio_transcription.completed"); !strings.Contains(e, `"transcript":"Second 1 is 53%. Second 2 is 52%."`) &&
		!strings.Contains(e, `"transcript":"Second 1 is 53%. Second 2 is 53%."`) || !strings.Contains(e, `"seconds":1.7}`) {
		t.Errorf("%s", e)
	}
}

// TestRealtimeOfKey: a key has as many sessions as it may, and leaves some to others.
func TestRealtimeOfKey(t *testing.T) {
	for limit, most := range map[int64]int{2: 2, 0: 128} {
		r := limitRig(t, access.Limits{Sessions: limit})
		var all []*called
		for range most {
			all = append(all, r.session("", bearer("limited")...))
		}
		if a := r.do("GET", "/v1/realtime", "", append(bearer("limited"), "Connection", "Upgrade", "Upgrade", "websocket",
			"Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")...); a.code != 429 || !strings.Contains(a.body,
			fmt.Sprintf("this key has %d sessions of the Realtime API open, and may have no more at once: close one", most)) {
			t.Errorf("%d %s", a.code, a.body)
		}
		r.session("", bearer("free")...).next("session.created")
		_ = all[0].Close(websocket.StatusNormalClosure, "")
		for end := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
			c, _, err := websocket.Dial(t.Context(), r.url+"/v1/realtime", &websocket.DialOptions{
				Subprotocols: []string{"realtime", "openai-insecure-api-key.secret-of-limited"}})
			if err == nil {
				_ = c.CloseNow()
				break
			}
			if time.Now().After(end) {
				t.Fatal(err)
			}
		}
	}
}

// came is an event.
type came struct {
	Type, Delta, Transcript, Name, Arguments string
	Call                                     string `json:"call_id"`
	Response                                 struct {
		Status string
		Usage  struct {
			Output int `json:"output_tokens"`
		}
	}
}

// any is the next event. An error fails the test.
func (c *called) any() (e came) {
	c.t.Helper()
	_, b, err := c.Read(c.t.Context())
	if err == nil {
		err = json.Unmarshal(b, &e)
	}
	if err != nil || e.Type == "error" {
		c.t.Fatalf("%s %v", b, err)
	}
	return e
}

// saying is an event that brings a user's text.
func saying(text string) string {
	return fmt.Sprintf(`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":%q}]}}`,
		text)
}
