package realtime

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/axle-llm/axle/server/body"
)

// TestCancel: a response ends at once where its client says so, or somebody speaks, and the
// conversation has what may have been heard.
func TestCancel(t *testing.T) {
	const speaks = "The first is here. The second is not to be heard."
	for name, tt := range map[string]struct{ end, want, heard string }{
		"the client":   {`{"type":"response.cancel"}`, "cancelled: client_cancelled", "The first is here."},
		"somebody":     {pcm24(300, 0.5), "cancelled: turn_detected", "The first is here."},
		"a first half": {`{"type":"conversation.item.truncate","item_id":"ITEM","content_index":0,"audio_end_ms":95}{"type":"response.cancel"}`, "cancelled: client_cancelled", "The first"},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &brain{spoke: make(chan struct{})}
			c := converse(t, func(o *Options) { o.Talker = b })
			c.say(tell(speaks) + respond)
			b.spoke <- struct{}{}
			synctest.Wait()
			c.brief()
			c.briefs = nil
			c.say(strings.Replace(tt.end, "ITEM", c.item, 1))
			c.brief()
			if got := strings.Join(c.briefs, " "); got != tt.heard+" "+tt.want {
				t.Errorf("%s: %s", name, got)
			}
			close(b.spoke)
			c.say(`{"type":"input_audio_buffer.clear"}{"type":"session.update","session":{"audio":{"input":{"turn_detection":null}}}}` +
				tell("Next.") + respond)
			c.brief()
			if got := b.last(); got != "user:"+speaks+" assistant:"+tt.heard+" user:Next." {
				t.Errorf("%s: the model was asked %s", name, got)
			}
		})
	}
	// What comes after a cut is not heard, and what was cut may be cut again.
	synctest.Test(t, func(t *testing.T) {
		b := &brain{word: make(chan struct{})}
		c := converse(t, func(o *Options) { o.Talker = b })
		c.say(tell(speaks) + respond)
		for range 4 {
			b.word <- struct{}{}
		}
		c.brief()
		cut := fmt.Sprintf(`{"type":"conversation.item.truncate","item_id":%q,"content_index":0,"audio_end_ms":`, c.item)
		c.say(cut + "130}")
		close(b.word)
		synctest.Wait()
		c.say(strings.Replace(cut, `index":0`, `index":1`, 1) + "100}" + cut + "200}" + cut + "131}" + cut + "100}" + cut + "102}")
		got := c.quiet()
		if strings.Count(got, ".truncated") != 3 || !strings.Contains(got, "audio_end_ms is 102: the answer has 100 ms of sound by now") ||
			!strings.Contains(got, "audio_end_ms is 200: the answer has 130 ms of sound by now") ||
			!strings.Contains(got, "content_index is 1: an answer has one content, 0") ||
			!strings.Contains(got, `"transcript":"The first is"}}`) {
			t.Errorf("%s", got)
		}
		c.say(tell("Next.") + respond)
		c.brief()
		if got := b.last(); got != "user:"+speaks+" assistant:The first user:Next." {
			t.Errorf("the model was asked %s", got)
		}
	})
	// An end of either, the model or the voice, is one of both.
	for says, want := range map[string]string{"This is a sentence. It breaks now.": "it broke",
		"A hoarse voice is here. Another one.": "hoarse"} {
		synctest.Test(t, func(t *testing.T) {
			b := &brain{word: make(chan struct{}), spoke: make(chan struct{})}
			c := converse(t, func(o *Options) { o.Talker = b })
			c.say(tell(says) + respond)
			if want == "hoarse" {
				close(b.spoke)
			}
			for range map[string]int{"hoarse": 5, "it broke": 6}[want] {
				b.word <- struct{}{}
			}
			if got := c.quiet(); !strings.Contains(got, `"status":"failed"`) || !strings.Contains(got, `"message":"`+want+`"`) {
				t.Errorf("%s: %s", says, got)
			}
		})
	}
	// A piece that is being sent ends, too.
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, t.Context(), &ears{}, func(o *Options) { o.Chat = "brain:latest" })
		say := func(events ...string) { // while what comes is read
			go func() {
				for _, e := range events {
					_ = c.ws.Write(context.WithoutCancel(t.Context()), websocket.MessageText, []byte(e))
				}
			}()
		}
		say(tell(strings.Repeat("x", 2000)), respond)
		after, cancels := 0, false
		for {
			_, b, err := c.ws.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			switch got := string(b); {
			case strings.Contains(got, kindOver):
				if !strings.Contains(got, "client_cancelled") || after > 5 {
					t.Errorf("%d pieces came after the end, %s", after, got)
				}
				return
			case strings.Contains(got, kindSound+`"`):
				if after++; !cancels {
					cancels, after = true, 0
					say(`{"type":"response.cancel"}`)
				}
				synctest.Wait()
			}
		}
	})
	// A response that waits is cancelled, too; another one's id cancels none.
	synctest.Test(t, func(t *testing.T) {
		b := &brain{word: make(chan struct{})}
		c := converse(t, func(o *Options) { o.Talker = b })
		c.say(inText + tell("One.") + respond)
		c.quiet()
		c.say(respond)
		if got := c.quiet(); !strings.Contains(got, "conversation_already_has_active_response") {
			t.Errorf("%s", got)
		}
		c.say(`{"type":"response.create","response":{"conversation":"none"}}`)
		if got := c.quiet(); got != "" {
			t.Errorf("%s", got)
		}
		c.say(`{"type":"response.cancel","response_id":"resp_none"}`)
		if got := c.quiet(); !strings.Contains(got, "response_cancel_not_active") {
			t.Errorf("%s", got)
		}
		c.say(`{"type":"response.cancel"}`)
		if got := c.quiet(); strings.Count(got, `"reason":"client_cancelled"`) != 1 || strings.Count(got, kindBegun) != 1 {
			t.Errorf("%s", got)
		}
		close(b.word)
		if got := c.quiet(); !strings.Contains(got, `"conversation_id":null`) || !strings.Contains(got, `"status":"completed"`) {
			t.Errorf("%s", got)
		}
	})
}

// TestTruncate: what is cut from an answer that was spoken, in whole words.
func TestTruncate(t *testing.T) {
	// 10 ms a byte, in a part from 0 to 190 ms, and one from there on.
	const text = "The first is here. The second too."
	for ms, want := range map[int]string{0: "", 1: "", 29: "", 30: "The", 95: "The first", 179: "The first is", 190: "The first is here.",
		220: "The first is here. The", 339: "The first is here. The second", 340: text, 341: text,
		-1:  "!audio_end_ms is -1: it must be 0 or more",
		342: "!audio_end_ms is 342: the answer has 340 ms of sound by now"} {
		synctest.Test(t, func(t *testing.T) {
			b := &brain{}
			c := converse(t, func(o *Options) { o.Talker = b })
			c.say(tell(text) + respond)
			c.brief()
			c.say(fmt.Sprintf(`{"type":"conversation.item.truncate","item_id":%q,"content_index":0,"audio_end_ms":%d}`, c.item, ms))
			got := c.quiet()
			if why, wrong := strings.CutPrefix(want, "!"); wrong {
				if !strings.Contains(got, why) {
					t.Errorf("%d ms: %s", ms, got)
				}
				return
			}
			if want := fmt.Sprintf(`{"type":"conversation.item.truncated","item_id":"item_1","content_index":0,"audio_end_ms":%d}`, ms); got != want {
				t.Errorf("%d ms: %s", ms, got)
			}
			c.say(tell("Next.") + respond)
			c.brief()
			if want != "" {
				want = " assistant:" + want
			}
			if got := b.last(); got != "user:"+text+want+" user:Next." {
				t.Errorf("%d ms: the model was asked %s, want %s", ms, got, want)
			}
		})
	}
	s := &said{item: item{Role: assistant, Content: []content{{outputAudio, new("你好。我是。")}}}, rate: 1000, marks: []mark{{18, 600}}}
	if s.shorten(300); s.text() != "你好。" {
		t.Errorf("%q", s.text())
	}
}

// TestSpokenTurn: a turn is written down and answered; what is no speech is not; and a session may
// say otherwise.
func TestSpokenTurn(t *testing.T) {
	update := func(s string) string { return `{"type":"session.update","session":{"audio":{"input":{` + s + `}}}}` }
	const heard = "ears:latest   22246"
	turn := pcm24(500, 0) + pcm24(500, 0.5) + pcm24(1000, 0)
	for name, tt := range map[string]struct{ set, more, want, asked string }{
		"a turn":        {"", "", "heard " + heard + " " + heard, "user:" + heard},
		"in silence":    {update(`"transcription":null`), "", "22246", "user:   22246"},
		"a cough":       {update(`"transcription":{"model":"nothing"}`), "", "heard ", ""},
		"after a cough": {update(`"transcription":{"model":"nothing"}`), "~" + tell("Hi.") + respond, "heard  Hi.", "user:Hi."},
		"a fault":       {update(`"transcription":{"model":"fault"}`), "", "unheard: a fault", ""},
		"not answered":  {update(`"turn_detection":{"create_response":false}`), "", "heard " + heard, ""},
		"asked for":     {update(`"turn_detection":{"create_response":false}`), respond, "heard " + heard + " " + heard, "user:" + heard},
		"by the client": {update(`"turn_detection":null`), commit, "heard ears:latest   32000", ""},
		"asked for, by the client": {update(`"turn_detection":null`), commit + respond,
			"heard ears:latest   32000 ears:latest   32000", "user:ears:latest   32000"},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &brain{}
			c := converse(t, func(o *Options) { o.Talker = b })
			c.say(`{"type":"session.update","session":{"output_modalities":["text"]}}` + tt.set)
			c.quiet()
			c.say(turn + tt.more)
			c.brief()
			if got := strings.Join(c.briefs, " "); got != tt.want || b.last() != tt.asked {
				t.Errorf("%s: %s, the model was asked %q", name, got, b.last())
			}
		})
	}
	// A turn that is not written down yet when the next one begins is answered with it.
	synctest.Test(t, func(t *testing.T) {
		b, e := &brain{}, &ears{wait: make(chan struct{})}
		c := dial(t, t.Context(), e, func(o *Options) { o.Talker, o.Chat = b, "brain:latest" })
		c.say(`{"type":"session.update","session":{"output_modalities":["text"]}}` + turn + turn)
		close(e.wait)
		c.brief()
		if got := strings.Join(c.briefs, " "); strings.Count(got, "heard") != 2 || strings.Count(got, "cancelled: turn_detected") != 1 ||
			len(b.asked) != 1 || len(b.asked[0].Ask.Messages) != 2 {
			t.Errorf("%s", got)
		}
	})
	// Speech does not end a response that is not of the conversation.
	synctest.Test(t, func(t *testing.T) {
		b := &brain{word: make(chan struct{})}
		c := converse(t, func(o *Options) { o.Talker = b })
		c.say(`{"type":"session.update","session":{"output_modalities":["text"]}}` + tell("One.") +
			`{"type":"response.create","response":{"conversation":"none"}}` + pcm24(500, 0) + pcm24(500, 0.5))
		close(b.word)
		c.brief()
		if got := strings.Join(c.briefs, " "); got != "One." {
			t.Errorf("%s", got)
		}
	})
	// A client may delete a turn that is not written down yet, and put something else in its place.
	for item, want := range map[string]string{
		`"type":"function_call_output","call_id":"c","output":""`:                                    "heard " + heard,
		`"type":"message","role":"user","content":[{"type":"input_text","text":"Instead of that."}]`: "heard " + heard + " " + heard,
	} {
		synctest.Test(t, func(t *testing.T) {
			e := &ears{wait: make(chan struct{})}
			c := dial(t, t.Context(), e, func(o *Options) { o.Chat = "brain:latest" })
			c.say(`{"type":"session.update","session":{"output_modalities":["text"]}}` + turn)
			id := ""
			for _, e := range c.events() {
				if e["type"] == kindCommitted {
					id = e["item_id"].(string)
				}
			}
			c.say(fmt.Sprintf(`{"type":"conversation.item.delete","item_id":%q}`, id) + brings(fmt.Sprintf(`"id":%q,`, id)+item))
			close(e.wait)
			c.brief()
			if got := strings.Join(c.briefs, " "); got != "deleted "+id+" "+want {
				t.Errorf("%s: %s", item, got)
			}
		})
	}
	// Who may not be interrupted is heard to the end, and what was said then is answered.
	synctest.Test(t, func(t *testing.T) {
		b := &brain{spoke: make(chan struct{})}
		c := converse(t, func(o *Options) { o.Talker = b })
		c.say(update(`"turn_detection":{"interrupt_response":false}`) + tell("Let me speak.") + respond)
		c.say(turn)
		c.brief()
		if got := strings.Join(c.briefs, " "); got != "" {
			t.Errorf("%s", got)
		}
		close(b.spoke)
		c.brief()
		if got := strings.Join(c.briefs, " "); got != "130 ms Let me speak. heard "+heard+" 190 ms "+heard {
			t.Errorf("%s", got)
		}
	})
}

// TestAnswerEnds: a response that is being made when the server ends fails, and its client is told;
// one whose client left is made no further.
func TestAnswerEnds(t *testing.T) {
	//proves:D10 whatever else works
	//proves:G7
	for _, spoken := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancelCause(t.Context())
			b := &brain{word: make(chan struct{})}
			if spoken {
				b = &brain{spoke: make(chan struct{})}
			}
			c := dial(t, ctx, &ears{}, func(o *Options) { o.Talker, o.Chat = b, "brain:latest" })
			c.say(tell("One two three four five.") + respond)
			c.quiet()
			stop(body.Fail(503, "the server is shutting down"))
			if err := c.ended(); websocket.CloseStatus(err) != websocket.StatusGoingAway {
				t.Error(err)
			}
			if got := c.text(); !strings.Contains(got, `"status":"failed","status_details":{"type":"failed"`) ||
				strings.Count(got, "the server is shutting down") != 1 {
				t.Errorf("%s", got)
			}
		})
		synctest.Test(t, func(t *testing.T) {
			b := &brain{word: make(chan struct{})}
			if spoken {
				b = &brain{spoke: make(chan struct{})}
			}
			c := converse(t, func(o *Options) { o.Talker = b })
			c.say(tell("One two three four five.") + respond)
			c.quiet()
			_ = c.ws.CloseNow()
			<-c.served
		})
	}
}

// TestHeard: what a turn's text takes the place of is no longer counted.
func TestHeard(t *testing.T) {
	var c conversation
	c.keep(true)
	if _, _, err := c.add(&said{item: item{ID: "a", Content: []content{{inputText, new("some text")}}}}, ""); err != nil {
		t.Fatal(err)
	}
	c.heard("a", "text")
	if c.bytes != len("text") {
		t.Errorf("%d bytes", c.bytes)
	}
}

// TestRough: what a model gives after its end is not of the answer, and where it panics the voice
// is at its end before the answer is.
func TestRough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := converse(t, func(o *Options) {
			o.Talker = &rough{chat: func(ctx context.Context, each func(string)) error {
				each(strings.Repeat("x", maxAnswer-2))
				each("abc")
				each("z")
				return ctx.Err()
			}}
		})
		c.say(inText + tell("Hello.") + respond)
		c.brief()
		if got := strings.Join(c.briefs, " "); got != strings.Repeat("x", maxAnswer-2)+" incomplete: max_output_tokens" {
			t.Errorf("%d bytes end with %s", len(got), got[max(0, len(got)-100):])
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := &rough{chat: func(_ context.Context, each func(string)) error {
			each("The first is here. ")
			time.Sleep(time.Millisecond)
			panic("chat")
		}}
		c := converse(t, func(o *Options) { o.Talker = r })
		c.say(tell("Hello.") + respond)
		time.Sleep(time.Minute)
		if got := c.quiet(); !strings.Contains(got, `"message":"chat"`) || !r.quiet {
			t.Errorf("the voice was at its end: %v, %s", r.quiet, got)
		}
	})
}
