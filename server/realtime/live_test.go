package realtime

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/axle-llm/axle/server/body"
)

const liveModel = `{"type":"session.update","session":{"type":"transcription","audio":{"input":{"transcription":{"model":"live"}}}}}`

// TestLive: a model that can writes a turn down while somebody speaks. The whole text comes at the
// end.
func TestLive(t *testing.T) {
	words := func(c *client) (all []string) {
		for _, e := range c.events() {
			switch e["type"] {
			case kindDelta:
				all = append(all, strings.TrimSpace(e["delta"].(string)))
			case kindStarted, kindCommitted:
				all = append(all, strings.TrimPrefix(e["type"].(string), "input_audio_buffer."))
			case kindCompleted:
				all = append(all, fmt.Sprintf("%q %v", e["transcript"], e["usage"].(map[string]any)["seconds"]))
			case kindFailed, kindError:
				t.Errorf("%v", e)
			}
		}
		c.mu.Lock()
		c.came = nil
		c.mu.Unlock()
		return all
	}
	for _, vad := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c := dial(t, t.Context(), &ears{})
			c.say(liveModel)
			end := pcm24(1000, 0)
			if !vad {
				c.say(manual)
				end = commit
			} else {
				c.say(pcm24(1000, 0))
			}
			for range 2 {
				c.say(pcm24(310, 0.5))
				got := strings.Join(words(c), " ")
				if !strings.HasSuffix(got, "0 1 2") && !strings.HasSuffix(got, "0 1 2 3 4 5") || vad != strings.Contains(got, "started") {
					t.Errorf("after 300 ms: %s", got)
				}
				c.say(pcm24(200, 0.5))
				if got := strings.Join(words(c), " "); got != "3 4" && got != "6 7" {
					t.Errorf("after 500 ms: %s", got)
				}
				c.say(end)
				got = strings.Join(words(c), " ")
				if !vad && got != `committed live 8160 "0 1 2 3 4 live   8160" 0.51` ||
					vad && (!strings.Contains(got, "committed") || !strings.Contains(got, ` "0 1 2 3 4 5 6 7 8 9 10 11 `)) {
					t.Errorf("at the end: %s", got)
				}
			}
		})
	}
}

// TestLiveDropped: a turn that is none after all is not told of, one whose sound stops is written
// down when it is over, and the session goes on.
func TestLiveDropped(t *testing.T) {
	//proves:T8
	for name, tt := range map[string]struct{ in, want string }{
		"cleared":   {`{"type":"input_audio_buffer.clear"}`, ""},
		"too short": {commit, "the buffer has 60 ms of sound: a turn has 100 at least"},
		"detected":  {`{"type":"session.update","session":{"type":"transcription","audio":{"input":{"turn_detection":{"type":"server_vad"}}}}}`, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			var room atomic.Int64
			e := &ears{}
			c := dial(t, t.Context(), e, func(o *Options) { o.Room = func(n int64) error { room.Store(n); return nil } })
			c.say(liveModel + manual + pcm24(60, 0.5) + tt.in)
			got := c.quiet()
			e.mu.Lock()
			if strings.Contains(got, kindFailed) || !strings.Contains(got, tt.want) || len(e.ends) != 1 ||
				!errors.Is(e.ends[0], errDropped) {
				t.Errorf("%s: %v %s", name, e.ends, got)
			}
			e.mu.Unlock()
			c.say(`{"type":"input_audio_buffer.clear"}` + manual + pcm24(200, 0.5) + commit)
			if got := c.quiet(); !strings.Contains(got, `"transcript":"0 1 live   3200"`) {
				t.Errorf("%s: %s", name, got)
			}
			c.say(manual)
			if c.quiet(); room.Load() != 0 {
				t.Errorf("%s: %d bytes are held", name, room.Load())
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, t.Context(), &ears{})
		c.say(liveModel + manual + pcm24(200, 0.5))
		for range 3 {
			<-time.After(time.Minute)
			c.say(manual)
		}
		c.quiet()
		c.say(pcm24(200, 0.5) + commit)
		if got := c.quiet(); !strings.Contains(got, `"transcript":"live   6400"`) {
			t.Errorf("%s", got)
		}
		start := time.Now()
		c.say(pcm24(200, 0.5))
		if err := c.ended(); websocket.CloseStatus(err) != websocket.StatusNormalClosure || time.Since(start) > 4*time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// TestLiveEnds: a turn that goes on when the server ends, its session is too old, or its client
// leaves.
func TestLiveEnds(t *testing.T) {
	//proves:D10 whatever else works
	//proves:G7
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancelCause(t.Context())
		c := dial(t, ctx, &ears{})
		c.say(liveModel + manual + pcm24(200, 0.5))
		c.quiet()
		stop(body.Fail(503, "the server is shutting down"))
		if err := c.ended(); websocket.CloseStatus(err) != websocket.StatusGoingAway {
			t.Error(err)
		}
		if got := c.text(); strings.Count(got, "the server is shutting down") != 1 {
			t.Errorf("%s", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		e := &ears{}
		c := dial(t, t.Context(), e)
		c.say(liveModel + manual + pcm24(200, 0.5))
		c.quiet()
		_ = c.ws.CloseNow()
		<-c.served
		if e.mu.Lock(); len(e.ends) != 1 || !errors.Is(e.ends[0], ErrLeft) {
			t.Errorf("%v", e.ends)
		}
		e.mu.Unlock()
	})
	synctest.Test(t, func(t *testing.T) {
		c, start := dial(t, t.Context(), &ears{}), time.Now()
		c.say(liveModel + manual)
		go func() {
			for {
				select {
				case <-c.served:
					return
				case <-time.After(time.Minute):
					_ = c.ws.Write(context.WithoutCancel(t.Context()), websocket.MessageText, []byte(pcm24(100, 0.5)))
				}
			}
		}()
		if err := c.ended(); time.Since(start) != time.Hour || websocket.CloseStatus(err) != websocket.StatusNormalClosure {
			t.Errorf("ended after %v: %v", time.Since(start), err)
		}
	})
}
