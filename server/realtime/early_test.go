package realtime

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const clear = `{"type":"input_audio_buffer.clear"}`

// TestEarly: a turn is heard in the pause that ends it, so that its text comes as much earlier.
// What takes longer than the pause is waited for.
func TestEarly(t *testing.T) {
	for _, tt := range []struct {
		silence, takes int // milliseconds
		least, most    int // of the wait for the text, from the turn's end on
		model          string
		early, late    int
	}{
		{silence: 500, takes: 200, early: 1},
		{silence: 300, takes: 150, early: 1},
		{silence: 300, takes: 600, least: 600 - 200, most: 600 - 140, early: 1},
		{silence: 90, takes: 200, least: 200, most: 200, late: 1},                          // the pause is the turn's end
		{silence: 300, takes: 200, model: "live", late: 1},                                 // written down while it goes on
		{silence: 300, takes: 200, least: 200, most: 200, model: "shy", early: 1, late: 1}, // not early
	} {
		synctest.Test(t, func(t *testing.T) {
			e := &ears{takes: time.Duration(tt.takes) * time.Millisecond}
			c := dial(t, t.Context(), e)
			c.say(fmt.Sprintf(`{"type":"session.update","session":{"type":"transcription","audio":{"input":{"turn_detection":`+
				`{"silence_duration_ms":%d},"transcription":{"model":%q,"language":"de"}}}}}`, tt.silence, tt.model))
			c.spoken(1000, 0.5)
			silent := time.Now()
			c.spokenUntil(kindStopped, 0)
			stopped := time.Now()
			if n := int(stopped.Sub(silent).Milliseconds()); n < tt.silence || n > tt.silence+64 { // steps have 20 and 32 ms
				t.Errorf("%+v: the turn ends behind %d ms of silence", tt, n)
			}
			for !strings.Contains(c.all(), kindCompleted) {
				<-time.After(time.Millisecond)
				if time.Since(stopped) > time.Minute {
					t.Fatalf("%+v: %s", tt, c.all())
				}
			}
			wait := int(time.Since(stopped).Milliseconds())
			if wait < tt.least || wait > tt.most {
				t.Errorf("%+v: the text comes %d ms behind the end", tt, wait)
			}
			all := c.all()
			if strings.Count(all, kindCompleted) != 1 || !strings.Contains(all, `"languages":[{"code":"de"}]`) ||
				!strings.Contains(all, " de ") || strings.Contains(all, "too soon") ||
				tt.model == "" && strings.Count(all, kindDelta) != 2 {
				t.Errorf("%+v: %s", tt, all)
			}
			e.check(t, tt.early, tt.late, tt.early*btoi(tt.late == 0))
		})
	}
}

// TestEarlyResumed: a turn that goes on behind a pause is heard once as a whole, and nothing is
// left of what was heard before.
func TestEarlyResumed(t *testing.T) {
	for _, takes := range []int{50, 250} { // over before somebody speaks again, and not
		synctest.Test(t, func(t *testing.T) {
			var room atomic.Int64
			e := &ears{takes: time.Duration(takes) * time.Millisecond}
			c := dial(t, t.Context(), e, func(o *Options) { o.Room = func(n int64) error { room.Store(n); return nil } })
			c.spoken(1000, 0.5)
			c.spoken(240, 0)
			c.spoken(1000, 0.5)
			c.spoken(800, 0)
			all := c.all()
			var n int
			_, text, _ := strings.Cut(all, `"transcript":"ears:latest`)
			_, _ = fmt.Sscan(text, &n)
			if n < 2240*ms || n > 2500*ms || strings.Count(all, kindCompleted) != 1 || strings.Count(all, kindDelta) != 2 ||
				strings.Count(all, kindStarted) != 1 || strings.Count(all, kindStopped) != 1 || strings.Contains(all, kindError+`"`) {
				t.Errorf("%d samples: %s", n, all)
			}
			e.check(t, 2, 0, 1)
			if takes == 250 && (len(e.ends) != 1 || !errors.Is(e.ends[0], errWentOn)) {
				t.Errorf("hearings ended: %v", e.ends)
			}
			if c.say(clear + manual); room.Load() != 0 {
				t.Errorf("%d bytes are held", room.Load())
			}
		})
	}
}

// TestEarlyNone: what is not heard early. That is a pause that is over when it is found, a turn
// that is not written down, and one for a model that can do so while somebody speaks.
func TestEarlyNone(t *testing.T) {
	for name, tt := range map[string]struct {
		update string
		late   int
	}{
		"over":            {`"type":"transcription"`, 1},
		"not written":     {`"type":"transcription","audio":{"input":{"transcription":null}}`, 0},
		"live":            {`"type":"transcription","audio":{"input":{"transcription":{"model":"live"}}}`, 1},
		"live, in a talk": {`"type":"realtime","audio":{"input":{"transcription":{"model":"live"},"turn_detection":{"create_response":false}}}`, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := &ears{}
			c := dial(t, t.Context(), e)
			c.say(`{"type":"session.update","session":{` + tt.update + `}}`)
			c.spoken(1000, 0.5)
			if name == "over" { // in one piece with what is behind it
				c.say(sound(append(encoded("pcm", 240, 0), encoded("pcm", 100, 0.5)...)))
				c.say(pcm24(1000, 0))
			}
			c.spoken(1000, 0)
			if got := c.all(); strings.Count(got, kindCommitted) != 1 || strings.Contains(got, kindError+`"`) {
				t.Errorf("%s: %s", name, got)
			}
			e.check(t, 0, tt.late, 0)
		})
	}
}

// TestEarlyForgotten: what makes a turn another one, or none, ends the hearing of its pause.
func TestEarlyForgotten(t *testing.T) {
	const german = `{"type":"session.update","session":{"audio":{"input":{"transcription":{"language":"de"}}}}}`
	for name, tt := range map[string]struct {
		in   string
		want string // of the turn's end
	}{
		"cleared":   {clear, ""},
		"committed": {commit, "heard ears:latest"},
		"changed":   {german, "heard ears:latest de"},
		"answered": {`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text",` +
			`"text":"ja"}]}}{"type":"response.create","response":{"output_modalities":["text"]}}`, "ja heard ears:latest"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var room atomic.Int64
			e := &ears{takes: time.Second}
			c := dial(t, t.Context(), e, func(o *Options) {
				o.Room = func(n int64) error { room.Store(n); return nil }
				o.Chat = "brain:latest"
			})
			c.say(`{"type":"session.update","session":{"audio":{"input":{"turn_detection":{"create_response":false}}}}}`)
			c.spoken(1000, 0.5)
			c.spoken(240, 0)
			c.say(tt.in)
			c.spoken(1500, 0)
			e.mu.Lock()
			if len(e.ends) != 1 || !errors.Is(e.ends[0], errWentOn) {
				t.Errorf("%s: hearings ended: %v", name, e.ends)
			}
			e.mu.Unlock()
			c.brief()
			got := strings.Join(strings.Fields(strings.Join(c.briefs, " ")), " ")
			if !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("%s: %q", name, got)
			}
			e.check(t, 1, btoi(tt.want != ""), 0)
			c.spoken(600, 0.5)
			c.spoken(2000, 0)
			if got := c.all(); strings.Count(got, kindCompleted) != 1 {
				t.Errorf("%s: then %s", name, got)
			}
			e.check(t, 2, btoi(tt.want != ""), 1)
		})
	}
}

// TestEarlyRoom: an early hearing has its room, or there is none.
func TestEarlyRoom(t *testing.T) {
	for _, full := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var room atomic.Int64
			const most = 3 * 2200 * ms
			e := &ears{takes: time.Second}
			c := dial(t, t.Context(), e, func(o *Options) {
				o.Room = func(n int64) error {
					if full && n > most {
						return errors.New("full")
					}
					room.Store(n)
					return nil
				}
			})
			c.spoken(1000, 0.5)
			c.spoken(200, 0)
			if n := room.Load(); full != (n < 3*2*1000*ms) || n > 3*2*1300*ms {
				t.Errorf("%d bytes are held", n)
			}
			c.spoken(2000, 0)
			if got := c.all(); strings.Count(got, kindCompleted) != 1 || strings.Contains(got, kindError+`"`) {
				t.Errorf("%s", got)
			}
			e.check(t, btoi(!full), btoi(full), btoi(!full))
		})
	}
}

// TestEarlyAlone: a turn is heard early only where the session asks for nothing else, and that ends
// with the session.
func TestEarlyAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var room atomic.Int64
		e := &ears{takes: 3 * time.Second}
		c := dial(t, t.Context(), e, func(o *Options) { o.Room = func(n int64) error { room.Store(n); return nil } })
		for range 2 {
			c.spoken(500, 0.5)
			c.spoken(600, 0)
		}
		c.spoken(6000, 0)
		if got := c.all(); strings.Count(got, kindCompleted) != 2 {
			t.Errorf("%s", got)
		}
		e.check(t, 1, 1, 1)
		if c.say(clear + clear); room.Load() != 0 {
			t.Errorf("%d bytes are held", room.Load())
		}
		c.spoken(500, 0.5)
		c.spoken(200, 0)
		_ = c.ws.CloseNow()
		<-c.served
		if e.mu.Lock(); len(e.ends) != 1 || !errors.Is(e.ends[0], ErrLeft) {
			t.Errorf("%v", e.ends)
		}
		e.mu.Unlock()
	})
}

// check compares how many hearings there were with those that are wanted. No two are at once.
func (e *ears) check(t *testing.T, early, late, used int) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.early != early || e.late != late || e.used != used || e.most > 1 {
		t.Errorf("%d early hearings, %d others, %d of use, %d at once; %d, %d, %d, and 1 are wanted", e.early, e.late, e.used, e.most,
			early, late, used)
	}
}

// spoken is sound as it is spoken: it takes as long as it lasts.
func (c *client) spoken(ms int, loud float64) {
	c.t.Helper()
	for ; ms > 0; ms -= 20 {
		<-time.After(20 * time.Millisecond)
		c.say(pcm24(20, loud))
	}
}

// spokenUntil is spoken, for as long as no event of a kind comes.
func (c *client) spokenUntil(kind string, loud float64) {
	c.t.Helper()
	for i := 0; !strings.Contains(c.all(), kind); i++ {
		if c.spoken(20, loud); i > 1000 {
			c.t.Fatalf("no %s: %s", kind, c.all())
		}
	}
}

// all is what has come so far.
func (c *client) all() string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.came, "\n")
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
