package realtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/server/body"
)

const (
	manual   = `{"type":"session.update","session":{"type":"transcription","audio":{"input":{"turn_detection":null}}}}`
	commit   = `{"type":"input_audio_buffer.commit"}`
	settings = `{"type":"transcription","object":"realtime.transcription_session","id":"sess_1","audio":{"input":{` +
		`"format":{"type":"audio/pcm","rate":24000},"noise_reduction":null,"transcription":{"model":"ears:latest"},"turn_detection":`
	created = `{"type":"session.created","session":` + settings +
		`{"type":"server_vad","threshold":0.5,"prefix_padding_ms":300,"silence_duration_ms":500}}},"include":null}}`
)

// TestSession: each event and what it is answered with, as they are on the wire. IDs are numbered.
func TestSession(t *testing.T) {
	failure := func(kind, code, text string) string {
		return fmt.Sprintf(`{"type":"error","error":{"type":%q,"code":%q,"message":%q,"param":null,"event_id":null}}`, kind, code, text)
	}
	wrong := func(text string) string { return failure("invalid_request_error", "invalid_value", text) }
	updated := `{"type":"session.updated","session":` + settings + `null}},"include":null}}`
	turn := func(n int, before string) string {
		item := fmt.Sprintf(`"item":{"id":"item_%d","object":"realtime.item","type":"message","status":"completed","role":"user",`+
			`"content":[{"type":"input_audio","transcript":null}]}}`, n)
		return fmt.Sprintf(`{"type":"input_audio_buffer.committed","previous_item_id":%s,"item_id":"item_%d"}`, before, n) +
			`{"type":"conversation.item.added","previous_item_id":` + before + `,` + item +
			`{"type":"conversation.item.done","previous_item_id":` + before + `,` + item
	}
	completed := func(n int, text, more string) string {
		of := fmt.Sprintf(`"item_id":"item_%d","content_index":0,`, n)
		return `{"type":"conversation.item.input_audio_transcription.delta",` + of + `"delta":"ears:latest"}` +
			`{"type":"conversation.item.input_audio_transcription.delta",` + of + fmt.Sprintf(`"delta":%q}`, text) +
			`{"type":"conversation.item.input_audio_transcription.completed",` + of + fmt.Sprintf(`"transcript":%q,`, "ears:latest"+text) + more
	}
	failed := func(code, kind, text string) string {
		return fmt.Sprintf(`{"type":"conversation.item.input_audio_transcription.failed","item_id":"item_1","content_index":0,"error":`+
			`{"type":%q,"code":%q,"message":%q,"param":null}}`, kind, code, text)
	}
	second := `"usage":{"type":"duration","seconds":1}}`
	set := func(in string) string {
		return `{"type":"session.update","session":{"type":"transcription","audio":{"input":{` + in + `}}}}`
	}
	for name, tt := range map[string]struct{ in, want string }{
		"nothing": {"", ""},
		"a turn":  {manual + pcm24(1000, 0.5) + commit, updated + turn(1, "null") + completed(1, "   16000", second)},
		"a turn in pieces": {manual + strings.Repeat(pcm24(100, 0.5), 10) + commit,
			updated + turn(1, "null") + completed(1, "   16000", second)},
		"a turn, no update": {pcm24(200, 0) + commit, turn(1, "null") + completed(1, "   3200", `"usage":{"type":"duration","seconds":0.2}}`)},
		"two turns": {manual + pcm24(1000, 0.5) + commit + "~" + pcm24(1000, 0.5) + commit,
			updated + turn(1, "null") + completed(1, "   16000", second) + turn(2, `"item_1"`) + completed(2, "   16000", second)},
		"a language and a prompt": {set(`"turn_detection":null`) + set(`"transcription":{"language":" DE"}`) +
			set(`"transcription":{"prompt":"Oslo"},"noise_reduction":{"type":"near_field"}`) + pcm24(1000, 0.5) + commit,
			updated + strings.Replace(updated, `ears:latest"`, `ears:latest","language":"de"`, 1) +
				strings.Replace(updated, `ears:latest"`, `ears:latest","language":"de","prompt":"Oslo"`, 1) + turn(1, "null") +
				completed(1, " de Oslo 16000", `"languages":[{"code":"de"}],`+second)},
		"nothing is written down": {set(`"turn_detection":null,"transcription":null`) + pcm24(1000, 0.5) + commit,
			strings.Replace(updated, `{"model":"ears:latest"}`, "null", 1) + turn(1, "null")},
		"turns again": {manual + set(`"turn_detection":{"type":"server_vad","silence_duration_ms":200}`),
			updated + strings.Replace(updated, `detection":null`,
				`detection":{"type":"server_vad","threshold":0.5,"prefix_padding_ms":300,"silence_duration_ms":200}`, 1)},
		"G.711": {set(`"format":{"type":"audio/pcmu"},"turn_detection":null`) + sound(make([]byte, 8000)) + commit,
			strings.Replace(updated, `{"type":"audio/pcm","rate":24000}`, `{"type":"audio/pcmu"}`, 1) + turn(1, "null") +
				completed(1, "   16000", second)},
		"clear": {manual + pcm24(1000, 0.5) + `{"type":"input_audio_buffer.clear"}` + commit,
			updated + `{"type":"input_audio_buffer.cleared"}` + wrong("the buffer has 0 ms of sound: a turn has 100 at least")},
		"99 ms": {manual + pcm24(99, 0.5) + commit, updated + wrong("the buffer has 99 ms of sound: a turn has 100 at least")},
		"100 ms": {manual + pcm24(100, 0.5) + commit, updated + turn(1, "null") +
			completed(1, "   1600", `"usage":{"type":"duration","seconds":0.1}}`)},

		"an event that is none": {`{"type":"response.create","event_id":"mine"}` + pcm24(200, 0) + commit, strings.Replace(wrong(
			`an event of the type "response.create": a session that writes speech down takes session.update, and `+
				`input_audio_buffer.append, commit and clear`), `"event_id":null`, `"event_id":"mine"`, 1) + turn(1, "null") +
			completed(1, "   3200", `"usage":{"type":"duration","seconds":0.2}}`)},
		"no type":   {`{"event_id":""}`, wrong("an event has no type")},
		"no JSON":   {`hello`, wrong("an event cannot be read: invalid character 'h' looking for beginning of value")},
		"an array":  {`[]`, wrong("an event cannot be read: json: cannot unmarshal array into Go value of type realtime.asked")},
		"no base64": {`{"type":"input_audio_buffer.append","audio":"ab!="}`, wrong("input_audio_buffer.append cannot be read: illegal base64 data at input byte 2")},
		"not a string": {`{"type":"input_audio_buffer.append","audio":7}`, wrong("input_audio_buffer.append cannot be read: " +
			"json: cannot unmarshal number into Go struct field .audio of type []uint8")},
		"bytes":         {"\x00binary", wrong("a message is not text: events are JSON objects")},
		"no session":    {`{"type":"session.update"}`, wrong("session cannot be read: unexpected end of JSON input")},
		"a translation": {`{"type":"session.update","session":{"type":"translation"}}`, wrong(`session.type is "translation": realtime and transcription are possible`)},
		"a format":      {set(`"format":{"type":"audio/mp3"}`), wrong(`a format of the type "audio/mp3": audio/pcm, audio/pcmu and audio/pcma are possible`)},
		"a rate":        {set(`"format":{"type":"audio/pcm","rate":16000}`), wrong("audio/pcm at 16000 samples a second: it has 24000")},
		"semantic":      {set(`"turn_detection":{"type":"semantic_vad"}`), wrong(`turn_detection.type is "semantic_vad": server_vad is possible, or null for turn_detection`)},
		"a threshold":   {set(`"turn_detection":{"threshold":1.5}`), wrong("turn_detection.threshold is 1.5: it must be from 0 to 1")},
		"a padding":     {set(`"turn_detection":{"prefix_padding_ms":-1}`), wrong("turn_detection.prefix_padding_ms is -1: it must be from 0 to 10000")},
		"no silence":    {set(`"turn_detection":{"silence_duration_ms":0}`), wrong("turn_detection.silence_duration_ms is 0: it must be from 1 to 60000")},
		"a long prompt": {set(`"transcription":{"prompt":"` + strings.Repeat("x", 16<<10+1) + `"}`), wrong("transcription.prompt has more than 16 KiB")},
		"a long model": {set(`"transcription":{"model":"` + strings.Repeat("x", 513) + `"}`),
			wrong("transcription.model or language has more than 512 bytes")},
		"a long type": {`{"type":"` + strings.Repeat("x", 400) + `"}`, wrong(`an event of the type "` + strings.Repeat("x", 300) +
			`": a session that writes speech down takes session.update, and input_audio_buffer.append, commit and clear`)},
		"a long number": {`{"type":"input_audio_buffer.append","audio":[` + strings.Repeat("9", 400) + `]}`, wrong(
			"input_audio_buffer.append cannot be read: json: cannot unmarshal number " + strings.Repeat("9", 270))},
		"an unknown model":   {set(`"transcription":{"model":"nope"}`), failure("invalid_request_error", "model_not_found", "model 'nope' not found")},
		"a number for model": {set(`"transcription":{"model":7}`), wrong("transcription cannot be read: json: cannot unmarshal number into Go struct field transcription.model of type string")},
		// All of an update is refused.
		"half an update": {set(`"turn_detection":null,"format":{"type":"audio/mp3"}`) + set(``),
			wrong(`a format of the type "audio/mp3": audio/pcm, audio/pcmu and audio/pcma are possible`) +
				strings.Replace(created, "created", "updated", 1)},

		"a busy server": {manual + set(`"transcription":{"model":"busy"}`) + pcm24(200, 0) + commit,
			updated + strings.Replace(updated, "ears:latest", "busy", 1) + turn(1, "null") +
				failed("rate_limit_exceeded", "invalid_request_error", "busy")},
		"a fault": {manual + set(`"transcription":{"model":"fault"}`) + pcm24(200, 0) + commit,
			updated + strings.Replace(updated, "ears:latest", "fault", 1) + turn(1, "null") +
				failed("server_error", "server_error", "a fault")},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := dial(t, t.Context(), &ears{})
			c.say(tt.in)
			if got := c.quiet(); got != created+tt.want {
				t.Errorf("%s:\n%s\nwant:\n%s", name, got, created+tt.want)
			}
		})
	}
}

// TestTurns: what is spoken between silences is a turn each, with the padding and the silence that
// the session is set to, in whatever pieces and format the sound comes.
func TestTurns(t *testing.T) {
	const update = `{"type":"session.update","session":{"type":"transcription","audio":{"input":{"format":{"type":"audio/%s"},` +
		`"turn_detection":{"prefix_padding_ms":%d,"silence_duration_ms":%d}}}}}`
	for _, tt := range []struct {
		format          string
		prefix, silence int
		piece           int // bytes
	}{{"pcm", 300, 500, 4800}, {"pcm", 0, 100, 7777}, {"pcm", 1000, 700, 1 << 20}, {"pcmu", 300, 500, 160}, {"pcma", 200, 300, 1601}} {
		synctest.Test(t, func(t *testing.T) {
			c := dial(t, t.Context(), &ears{})
			c.say(fmt.Sprintf(update, tt.format, tt.prefix, tt.silence))
			var all []byte
			for _, part := range []struct {
				seconds int
				loud    float64
			}{{2, 0}, {1, 0.5}, {2, 0}, {2, 0.5}, {2, 0}} {
				all = append(all, encoded(tt.format, 1000*part.seconds, part.loud)...)
			}
			for len(all) > 0 {
				n := min(len(all), tt.piece)
				c.say(sound(all[:n]))
				all = all[n:]
			}
			var start, end, samples, heard []int
			for _, e := range c.events() {
				switch e["type"] {
				case kindStarted:
					start = append(start, int(e["audio_start_ms"].(float64)))
				case kindStopped:
					end = append(end, int(e["audio_end_ms"].(float64)))
				case kindCompleted:
					var n int
					_, _ = fmt.Sscanf(e["transcript"].(string), "ears:latest %d", &n)
					heard = append(heard, n)
					samples = append(samples, int(e["usage"].(map[string]any)["seconds"].(float64)*hearRate))
				case kindError, kindFailed:
					t.Errorf("%v", e)
				}
			}
			if len(start) != 2 || len(end) != 2 || len(samples) != 2 {
				t.Fatalf("%+v: speech from %v to %v ms, of %v samples", tt, start, end, samples)
			}
			for i, at := range []struct{ from, to int }{{2000 - tt.prefix, 3000 + tt.silence}, {5000 - tt.prefix, 7000 + tt.silence}} {
				// A window has 32 ms, and 30 ms are the detector's own padding.
				if start[i] < at.from-64 || start[i] > at.from || end[i] < at.to-32 || end[i] > at.to+64 {
					t.Errorf("%+v: speech from %d to %d ms, not %d to %d", tt, start[i], end[i], at.from, at.to)
				}
				if n := (end[i] - start[i]) * ms; samples[i] < n-ms || samples[i] > n+ms {
					t.Errorf("%+v: %d samples from %d to %d ms", tt, samples[i], start[i], end[i])
				}
				if heard[i] > samples[i] || heard[i] < samples[i]-(tt.silence-pause/ms)*ms { // all but silence
					t.Errorf("%+v: %d of %d samples were heard", tt, heard[i], samples[i])
				}
			}
		})
	}
}

// TestSpokenAtOnce: a turn cannot begin before the session, whatever its padding, and a commit in
// the middle of speech ends the turn that had begun.
func TestSpokenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, t.Context(), &ears{})
		c.say(pcm24(1000, 0.5) + commit + pcm24(1000, 0.5) + pcm24(1000, 0))
		var got []string
		for _, e := range c.events() {
			switch e["type"] {
			case kindStarted:
				got = append(got, fmt.Sprint(e["audio_start_ms"], e["item_id"]))
			case kindCommitted:
				got = append(got, fmt.Sprint(e["item_id"]))
			}
		}
		if len(got) != 4 || got[0] != "0"+got[1] || got[2] != "1000"+got[3] {
			t.Errorf("%q", got)
		}
	})
}

// TestLongTurn: a turn that does not end is ended, and goes on in the next; silence is not kept.
func TestLongTurn(t *testing.T) {
	lane.NoRace(t) // TestTurns has turns of seconds
	synctest.Test(t, func(t *testing.T) {
		var most atomic.Int64
		c := dial(t, t.Context(), &ears{}, func(o *Options) {
			o.Room = func(n int64) error { most.Store(max(most.Load(), n)); return nil }
		})
		minute := func(n int, loud float64) {
			for range 60 * n {
				c.say(pcm24(1000, loud))
			}
		}
		minute(15, 0)
		if n := most.Load(); n > 4*hearRate*3 {
			t.Errorf("%d bytes are held of silence", n)
		}
		c.say(sound([]byte{0})) // half a sample: pieces end in the middle of one
		loud := sound([]byte(strings.Repeat("\x40\x00", 24000)))
		for range 6 * 60 {
			c.say(loud)
		}
		c.say(sound([]byte{0}))
		minute(1, 0)
		var ends []int
		for _, e := range c.events() {
			if e["type"] == kindStopped {
				ends = append(ends, int(e["audio_end_ms"].(float64))/1000)
			}
		}
		if fmt.Sprint(ends) != "[1199 1260]" {
			t.Errorf("turns end at %v s", ends)
		}
	})
}

// TestHeld: sound that is not written down is kept for ten minutes, what is more is refused, and so
// are turns that wait and a large message that there is no room for.
func TestHeld(t *testing.T) {
	//proves:T7
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, t.Context(), &ears{wait: make(chan struct{})})
		c.say(manual)
		for range 9 {
			for range 60 {
				c.say(pcm24(1000, 0.5))
			}
		}
		c.say(commit)
		for range 59 {
			c.say(pcm24(1000, 0.5))
		}
		if got := c.quiet(); strings.Contains(got, kindError+`"`) {
			t.Fatal(got)
		}
		c.say(pcm24(1000, 0.5) + pcm24(1000, 0.5))
		if got := c.quiet(); strings.Count(got, "more than 10 minutes of sound are not written down yet") != 1 {
			t.Errorf("%s", got)
		}
		c.say(`{"type":"input_audio_buffer.clear"}` + pcm24(1000, 0.5))
		if got := c.quiet(); got != `{"type":"input_audio_buffer.cleared"}` {
			t.Errorf("%s", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, t.Context(), &ears{wait: make(chan struct{})})
		c.say(manual)
		for range maxWaiting + 3 {
			c.say(pcm24(100, 0.5) + commit)
		}
		if got := c.quiet(); strings.Count(got, "64 turns wait to be written down, and this is left out") != 2 {
			t.Errorf("%s", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("full")
		c := dial(t, t.Context(), &ears{}, func(o *Options) {
			o.Room = func(n int64) error {
				if n > 1<<20 {
					return full
				}
				return nil
			}
		})
		c.say(manual + pcm24(25000, 0.5)) // 1.6 MiB
		if got := c.quiet(); !strings.Contains(got, "there is no room for a message of more than 1024 KiB now") {
			t.Errorf("%s", got)
		}
		for range 24 {
			c.say(pcm24(1000, 0.5))
		}
		if got := c.quiet(); strings.Count(got, `"message":"full"`) != 3 {
			t.Errorf("%s", got)
		}
		c.say(commit)
		if got := c.quiet(); !strings.Contains(got, `"seconds":21}`) {
			t.Errorf("%s", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, t.Context(), &ears{})
		c.say(strings.Repeat("x", maxMessage+1))
		if err := c.ended(); websocket.CloseStatus(err) != websocket.StatusMessageTooBig {
			t.Error(err)
		}
	})
}

// TestRoom: a session takes room for the sound that it keeps and for turns that wait, and gives it
// back.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &ears{wait: make(chan struct{})}
		var room atomic.Int64
		c := dial(t, t.Context(), e, func(o *Options) { o.Room = func(n int64) error { room.Store(n); return nil } })
		c.say(manual + pcm24(1000, 0.5) + commit + commit)
		c.quiet()
		if n := room.Load(); n != 3*16000 {
			t.Errorf("%d bytes for a turn of a second", n)
		}
		for range maxWaiting + 2 {
			c.say(pcm24(100, 0.5) + commit)
		}
		if got := c.quiet(); strings.Count(got, "and this is left out") != 2 {
			t.Errorf("%s", got)
		}
		if n := room.Load(); n != 3*(16000+maxWaiting*1600) {
			t.Errorf("%d bytes for as many turns as may wait", n)
		}
		close(e.wait)
		c.quiet()
		c.say(commit)
		c.quiet()
		if n := room.Load(); n != 0 {
			t.Errorf("%d bytes when all is written down", n)
		}
	})
}

// TestTimes: a client that sends nothing is let go, but not while it waits; half a message ends.
func TestTimes(t *testing.T) {
	//proves:T8
	synctest.Test(t, func(t *testing.T) {
		c, start := dial(t, t.Context(), &ears{}), time.Now()
		<-time.After(time.Minute)
		c.say(manual)
		err := c.ended()
		if got := time.Since(start); got < 3*time.Minute || got > 3*time.Minute+time.Second ||
			websocket.CloseStatus(err) != websocket.StatusNormalClosure {
			t.Errorf("ended after %v: %v", got, err)
		}
		if got := c.text(); !strings.Contains(got, "no event came within 2m0s: the session is over") ||
			!strings.Contains(got, "session_expired") {
			t.Errorf("%s", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c, start := dial(t, t.Context(), &ears{}), time.Now()
		go func() {
			for {
				select {
				case <-c.served:
					return
				case <-time.After(time.Minute):
					_ = c.ws.Write(context.WithoutCancel(t.Context()), websocket.MessageText, []byte(commit))
				}
			}
		}()
		if err := c.ended(); time.Since(start) != time.Hour || websocket.CloseStatus(err) != websocket.StatusNormalClosure {
			t.Errorf("ended after %v: %v", time.Since(start), err)
		}
		if got := c.text(); !strings.Contains(got, "the session is 1h0m0s old, and over") {
			t.Errorf("%s", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, t.Context(), &ears{}) // it reads nothing
		start := time.Now()
		for range 100 {
			c.say(commit)
		}
		<-c.served
		if got := time.Since(start); got > 11*time.Second {
			t.Errorf("a client that reads nothing is served for %v", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		e := &ears{wait: make(chan struct{})}
		c := dial(t, t.Context(), e)
		c.say(manual + pcm24(200, 0.5) + commit)
		<-time.After(59 * time.Minute)
		close(e.wait)
		if got := c.quiet(); !strings.Contains(got, kindCompleted) {
			t.Errorf("%s", got)
		}
		<-time.After(50 * time.Second) // it has as long as after an event to send the next
		c.say(commit)
		if got := c.quiet(); !strings.Contains(got, "the buffer has 0 ms of sound") {
			t.Errorf("%s", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c, start := dial(t, t.Context(), &ears{}), time.Now()
		w, err := c.ws.Writer(t.Context(), websocket.MessageText)
		if err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			if _, err = w.Write(make([]byte, 1<<13)); err != nil {
				break
			}
			<-time.After(time.Second)
		}
		if got := time.Since(start); err == nil || got > 12*time.Second {
			t.Errorf("half a message is read for %v: %v", got, err)
		}
	})
}

// TestLeaves: nothing is written down any more for a client that left.
func TestLeaves(t *testing.T) {
	//proves:G7
	for name, leave := range map[string]func(*client){
		"in order": func(c *client) { _ = c.ws.Close(websocket.StatusNormalClosure, "") },
		"at once":  func(c *client) { _ = c.ws.CloseNow() },
	} {
		synctest.Test(t, func(t *testing.T) {
			e := &ears{wait: make(chan struct{})}
			c := dial(t, t.Context(), e)
			c.say(manual + pcm24(200, 0.5) + commit + pcm24(200, 0.5) + commit)
			c.quiet()
			leave(c)
			<-c.served
			e.mu.Lock()
			defer e.mu.Unlock()
			if len(e.ends) == 0 || !errors.Is(e.ends[0], ErrLeft) {
				t.Errorf("%s: %v", name, e.ends)
			}
		})
	}
}

// TestEnds: a server that ends tells of the turns that it does not write down, and says goodbye.
func TestEnds(t *testing.T) {
	//proves:D10 whatever else works
	for _, turns := range []int{0, 1, 3} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancelCause(t.Context())
			c := dial(t, ctx, &ears{wait: make(chan struct{})})
			c.say(manual + strings.Repeat(pcm24(200, 0.5)+commit, turns))
			c.quiet()
			stop(body.Fail(503, "the server is shutting down"))
			start := time.Now()
			if err := c.ended(); websocket.CloseStatus(err) != websocket.StatusGoingAway || time.Since(start) > time.Second {
				t.Errorf("%d turns: %v after %v", turns, err, time.Since(start))
			}
			if got := c.text(); strings.Count(got, kindFailed) != turns || strings.Count(got, "the server is shutting down") != turns {
				t.Errorf("%d turns: %s", turns, got)
			}
		})
	}
}

// FuzzItem: no item of a client is a panic, and what is cut from an answer is its end.
func FuzzItem(f *testing.F) {
	//proves:G5
	f.Add(`{"type":"message","role":"assistant","content":[{"type":"output_audio","transcript":"Ja, genau. 你好。"}]}`, 6, 100, 300)
	f.Add(`{"type":"function_call","name":"f","arguments":"{}"}`, 0, 0, 0)
	f.Fuzz(func(t *testing.T, in string, to, sample, again int) {
		fuzzguard.Check(t, len(in), func() {
			s, err := read(json.RawMessage(in))
			if err != nil || s.Role != assistant || s.text() == "" {
				return
			}
			whole := s.text()
			s.Content = s.Content[:1]
			s.Content[0].Text = &whole
			to = min(max(to, 0), len(whole))
			s.marks = []mark{{to, 200}, {len(whole), 400}}
			for _, at := range []int{sample, again} {
				s.shorten(at)
				if now := s.text(); !strings.HasPrefix(whole, now) {
					t.Errorf("%q became %q", whole, now)
				}
			}
			_ = messages("", []*said{s})
		})
	})
}

// FuzzUpdate: no update of a session is a panic, and one that was refused has changed nothing.
func FuzzUpdate(f *testing.F) {
	//proves:G5
	f.Add(`{"type":"transcription","audio":{"input":{"format":{"type":"audio/pcmu"},"turn_detection":{"threshold":1}}}}`)
	f.Add(`{"type":"transcription","audio":{"input":{"transcription":{"model":"a","language":"de"},"turn_detection":null}}}`)
	f.Add(`{"type":"realtime","output_modalities":["text"],"tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"function","name":"f"}}`)
	f.Add(`{"audio":{"input":{"turn_detection":{"create_response":false}},"output":{"voice":{"id":"a"},"speed":2}},"max_output_tokens":"inf"}`)
	f.Fuzz(func(t *testing.T, update string) {
		fuzzguard.Check(t, len(update), func() {
			old := fresh("sess_1", "ears")
			if len(update)%2 == 0 {
				old = old.conversation("brain", "ada")
			}
			was, _ := json.Marshal(old)
			next, err := old.with(json.RawMessage(update))
			if now, _ := json.Marshal(old); string(now) != string(was) {
				t.Errorf("%s became %s", was, now)
			}
			if _, e := json.Marshal(next); err == nil && e != nil {
				t.Error(e)
			}
			if d := next.Audio.Input.TurnDetection; err == nil && d != nil {
				if _, err := newDetector(*d, func([]float32) (float32, error) { return 0, nil }, 0); err != nil {
					t.Error(err)
				}
			}
		})
	})
}
