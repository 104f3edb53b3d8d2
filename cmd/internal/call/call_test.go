package call

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/axle-llm/axle/cmd/internal/client"
)

// TestFile: the sound of a file goes as fast as it was spoken, waits while an answer is made and
// played, and the conversation ends when its last answer was heard.
func TestFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Model: "m", Hear: "h", Language: "en", Voice: "v", Instructions: "Be brief.",
			In: strings.NewReader(strings.Repeat("ab", Rate*2) + "c")}) // half a sample is left out
		r.run(func(s *peer) {
			if s.path != "/v1/realtime?model=m" {
				t.Errorf("asked for %s", s.path)
			}
			const want = `{"type":"session.update","session":{"type":"realtime","model":"m","output_modalities":["audio"],"instructions":"Be brief.",` +
				`"audio":{"input":{"format":{"type":"audio/pcm","rate":24000},"transcription":{"model":"h","language":"en"},` +
				`"turn_detection":{"type":"server_vad","create_response":true,"interrupt_response":true}},` +
				`"output":{"format":{"type":"audio/pcm","rate":24000},"voice":"v"}}}}`
			if got := s.next(); got != want {
				t.Errorf("the session\n%s, want\n%s", got, want)
			}
			s.send(`{"type":"session.created"}`, `{"type":"session.updated"}`, `{"type":"of.another.year","delta":{}}`,
				`{"type":"input_audio_buffer.cleared"}`) // which was not asked for
			if got := s.sound(time.Second); got != bytesPerSecond {
				t.Errorf("%d bytes came in a second", got)
			}
			s.send(`{"type":"input_audio_buffer.speech_started"}`, `{"type":"input_audio_buffer.speech_stopped"}`)
			if got := s.sound(time.Minute); got != 0 {
				t.Errorf("%d bytes came while an answer was waited for", got)
			}
			s.send(`{"type":"conversation.item.input_audio_transcription.delta","item_id":"i1","delta":"How"}`,
				`{"type":"conversation.item.input_audio_transcription.delta","item_id":"i1","delta":" much?"}`,
				`{"type":"conversation.item.input_audio_transcription.completed","item_id":"i1","transcript":"How much?"}`)
			s.answer("r1", "i2", "Five", 3000)
			if got := s.sound(time.Minute); got != 0 {
				t.Errorf("%d bytes came while the answer sounded", got)
			}
			r.out.played <- nil
			if got := s.sound(time.Second); got != bytesPerSecond {
				t.Errorf("%d bytes came then", got)
			}
			if got := s.next(); len(got) < bytesPerSecond {
				t.Errorf("%s came before the silence", got)
			}
			s.expect(`{"type":"input_audio_buffer.clear"}`)
			s.send(`{"type":"input_audio_buffer.speech_stopped"}`, `{"type":"input_audio_buffer.speech_stopped"}`,
				`{"type":"input_audio_buffer.cleared"}`,
				`{"type":"conversation.item.input_audio_transcription.completed","item_id":"i0","transcript":" "}`, // a noise
				`{"type":"conversation.item.input_audio_transcription.completed","item_id":"i3","transcript":"And now?"}`)
			s.answer("r2", "i4", "Six", 10)
			synctest.Wait()
			r.out.played <- nil
			s.end(websocket.StatusNormalClosure)
		}, nil)
		if got := r.told(); got != "ready|>How|> much?|.|Five|.|> |.|>And now?|.|Six|.|" {
			t.Errorf("it told %q", got)
		}
		if got := r.out.String(); got != "+3000 end stop +10 end stop stop " {
			t.Errorf("it played %q", got)
		}
	})
}

// TestInterrupt: where somebody speaks, the answer ends at once, what was heard of it is told, and
// what still comes of it is left out. The next answer is another one.
func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{In: microphone{}, Microphone: true, Interrupt: true})
		r.run(func(s *peer) {
			s.begin()
			s.send(`{"type":"input_audio_buffer.speech_stopped"}`, `{"type":"response.created","response":{"id":"r1"}}`)
			s.send(saying("r1", "i1", "One two three"), sounding("r1", "i1", bytesPerSecond), sounding("r1", "i1", bytesPerSecond))
			if got := s.sound(time.Second); got < bytesPerSecond*9/10 {
				t.Errorf("%d bytes came while an answer sounded", got)
			}
			r.out.unheard = 700 * time.Millisecond
			s.send(`{"type":"input_audio_buffer.speech_started"}`, sounding("r1", "i1", 2), saying("r1", "i1", " four"),
				`{"type":"input_audio_buffer.speech_started"}`,
				`{"type":"response.done","response":{"id":"r1","status":"cancelled"}}`)
			s.expect(`{"type":"conversation.item.truncate","event_id":"late","item_id":"i1","content_index":0,"audio_end_ms":1300}`)
			s.send(`{"type":"error","error":{"message":"it is over","event_id":"late"}}`)
			s.answer("r2", "i2", "Yes?", 100) // and it ends in the middle of its sound
			s.sound(time.Second)
			r.out.unheard = 0
			s.send(`{"type":"input_audio_buffer.speech_started"}`) // nothing of it is left
			s.sound(time.Second)
			// What is still being made has its own sound, whatever was left of the answer before.
			r.out.unheard = 500 * time.Millisecond
			s.send(`{"type":"response.created","response":{"id":"r3"}}`, sounding("r3", "i3", bytesPerSecond),
				`{"type":"input_audio_buffer.speech_started"}`)
			s.expect(`{"type":"conversation.item.truncate","event_id":"late","item_id":"i3","content_index":0,"audio_end_ms":500}`)
			s.send(`{"type":"response.done","response":{"id":"r3","status":"cancelled"}}`,
				`{"type":"response.created","response":{"id":"r4"}}`, saying("r4", "i4", "To be"),
				`{"type":"response.done","response":{"id":"r4","status":"incomplete"}}`)
			s.sound(time.Second)
			r.stop <- os.Interrupt // nothing runs
			s.end(websocket.StatusNormalClosure)
		}, nil)
		if got := r.told(); got != "ready|One two three|~|Yes?|.|~|~|To be|~|" {
			t.Errorf("it told %q", got)
		}
		if got := r.out.String(); got != "+48000 +48000 stop +100 end stop +48000 stop end stop " {
			t.Errorf("it played %q", got)
		}
	})
}

// TestDeaf: without Interrupt the microphone is not listened to while an answer sounds, nor until
// its echo is over, and the server is told that we are still here.
func TestDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{In: microphone{}, Microphone: true})
		r.run(func(s *peer) {
			s.begin()
			s.answer("r1", "i1", "One", bytesPerSecond)
			if got := s.sound(time.Second); got > piece {
				t.Errorf("%d bytes came while an answer sounded", got)
			}
			for range 2 {
				s.expect(`{"type":"input_audio_buffer.append","audio":""}`)
			}
			r.out.played <- nil
			if got := s.sound(time.Second); got < bytesPerSecond*6/10 || got > bytesPerSecond*7/10 {
				t.Errorf("%d bytes came in the second after it", got)
			}
			r.stop <- os.Interrupt
			s.end(websocket.StatusNormalClosure)
		}, nil)
	})
}

// TestStop: Ctrl-C ends the answer; where there is none, or it was ended, the conversation.
func TestStop(t *testing.T) {
	for _, file := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Options{In: microphone{}, Microphone: !file})
			r.out.unheard = time.Second / 2
			want := error(nil)
			if file {
				want = context.Canceled
			}
			r.run(func(s *peer) {
				s.begin()
				s.send(`{"type":"response.created","response":{"id":"r1"}}`, sounding("r1", "i1", bytesPerSecond))
				s.sound(time.Second)
				r.stop <- os.Interrupt
				s.expect(`{"type":"response.cancel","event_id":"late"}`)
				s.expect(`{"type":"conversation.item.truncate","event_id":"late","item_id":"i1","content_index":0,"audio_end_ms":500}`)
				r.stop <- os.Interrupt // the server has not answered
				s.end(-1)
			}, want)
		})
	}
}

// TestProblems: with a microphone a conversation goes on after an error. With a file it does not,
// and neither before the session is set.
func TestProblems(t *testing.T) {
	for _, tt := range []struct{ name, event string }{
		{"an error", `{"type":"error","error":{"message":"busy","event_id":null}}`},
		{"a turn", `{"type":"conversation.item.input_audio_transcription.failed","error":{"message":"busy"}}`},
		{"an answer", `{"type":"response.done","response":{"id":"r","status":"failed","status_details":{"type":"failed","error":{"message":"busy"}}}}`},
	} {
		for _, file := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Options{In: microphone{}, Microphone: !file})
				want := error(nil)
				if file {
					want = errors.New("busy")
				}
				r.run(func(s *peer) {
					s.begin()
					s.send(`{"type":"response.created","response":{"id":"r"}}`, tt.event)
					if !file {
						s.sound(time.Second)
						if got := r.told(); !strings.Contains(got, "!busy|") {
							t.Errorf("%s: it told %q", tt.name, got)
						}
						s.send(`{"type":"response.done","response":{"id":"r","status":"completed"}}`)
						s.sound(time.Second)
						r.stop <- os.Interrupt
					}
					s.end(-1)
				}, want)
			})
		}
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{In: microphone{}, Microphone: true})
		r.run(func(s *peer) { s.send(`{"type":"error","error":{"message":"no such voice"}}`); s.end(-1) }, errors.New("no such voice"))
	})
}

// TestHostile: whatever a server sends and however it ends, the conversation ends with an error
// that says so.
func TestHostile(t *testing.T) {
	const odd = "the answer is not as it should be: "
	for _, tt := range []struct {
		name string
		does func(s *peer)
		want string
	}{
		{"no JSON", func(s *peer) { s.send(`<html>`) }, odd + "invalid character"},
		{"half of JSON", func(s *peer) { s.send(`{"type":"response.done","response":{`) }, odd + "unexpected end"},
		{"another type", func(s *peer) { s.send(`{"type":"response.done","response":[]}`) }, odd},
		{"a list", func(s *peer) { s.send(`[]`) }, odd},
		{"no text", func(s *peer) { _ = s.ws.Write(s.t.Context(), websocket.MessageBinary, []byte("{}")) }, odd + "events are text"},
		{"no base64", func(s *peer) { s.send(`{"type":"response.output_audio.delta","response_id":"r","delta":"=="}`) }, odd + "its sound"},
		{"half a sample", func(s *peer) { s.send(sounding("r", "i", 3)) }, odd + "half a sample"},
		{"a huge event", func(s *peer) { s.send(strings.Repeat(" ", maxMessage+1)) }, odd + "an event of more than 16 MiB"},
		{"a player that fails", func(s *peer) { s.rig.out.played <- errors.New("no card") }, "no card"},
		{"the end, with a reason", func(s *peer) { _ = s.ws.Close(websocket.StatusGoingAway, "the server is shutting down") },
			"the server ended the conversation: the server is shutting down"},
		{"the end", func(s *peer) { _ = s.ws.Close(websocket.StatusNormalClosure, "") },
			"the server ended the conversation: StatusNormalClosure"},
		{"a cut", func(s *peer) { _ = s.ws.CloseNow() }, client.ErrBrokeOff.Error()},
		{"no message", func(s *peer) { s.send(`{"type":"error"}`) }, "the server does not say what is wrong"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Options{In: microphone{}})
				r.run(func(s *peer) { s.begin(); tt.does(s); s.end(-1) }, errors.New(tt.want))
			})
		})
	}
	t.Run("a microphone that ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Options{In: io.MultiReader(strings.NewReader("abcd"), failing{}), Microphone: true})
			r.run(func(s *peer) { s.begin(); s.end(-1) }, errFailing)
		})
	})
	t.Run("refused", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Options{In: microphone{}})
			r.refuse = `{"error":{"message":"model 'm' not found"}}`
			r.run(nil, errors.New("model 'm' not found"))
		})
	})
	t.Run("a server that takes nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Options{In: microphone{}, Microphone: true})
			r.deaf = true
			r.run(func(s *peer) { s.begin(); <-r.over }, client.ErrBrokeOff)
		})
	})
}

// rig is a conversation with a server of the test's own.
type rig struct {
	t      *testing.T
	o      Options
	out    *loudspeaker
	stop   chan os.Signal
	refuse string // what the server answers instead
	deaf   bool   // the server reads one event only
	over   chan struct{}

	mu   sync.Mutex
	text strings.Builder
}

func newRig(t *testing.T, o Options) *rig {
	r := &rig{t: t, o: o, out: &loudspeaker{played: make(chan error)}, stop: make(chan os.Signal), over: make(chan struct{})}
	r.o.Out, r.o.Text, r.o.Stop = r.out, r, r.stop
	return r
}

// run holds the conversation, whose server does as told.
func (r *rig) run(does func(*peer), want error) {
	r.t.Helper()
	here, there := net.Pipe()
	served := make(chan struct{})
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer close(served)
		if r.refuse != "" {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, r.refuse)
			return
		}
		ws, err := websocket.Accept(w, req, nil)
		if err != nil {
			r.t.Error(err)
			return
		}
		ws.SetReadLimit(-1)
		s := &peer{t: r.t, rig: r, ws: ws, path: req.URL.String(), came: make(chan string, 1<<12)}
		read := make(chan struct{})
		go func() {
			defer close(read)
			s.read()
		}()
		does(s)
		_ = ws.CloseNow()
		<-read
	})}
	one := make(listener, 1)
	one <- there
	go func() { _ = srv.Serve(one) }()
	conn := client.New(&url.URL{Scheme: "http", Host: "localhost"}, "")
	conn.HTTP = &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return here, nil }}}
	err := Run(r.t.Context(), conn, r.o)
	close(r.over)
	switch {
	case want == nil && err != nil, want != nil && err == nil:
		r.t.Errorf("%v, want %v", err, want)
	case err != nil && !errors.Is(err, want) && !strings.HasPrefix(err.Error(), want.Error()):
		r.t.Errorf("%v, want %v", err, want)
	}
	<-time.After(time.Second) // for a microphone that is being read
	<-served
	close(one)
	_ = srv.Close()
}

// note notes what was shown.
func (r *rig) note(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text.WriteString(s + "|")
}

func (r *rig) told() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func (r *rig) Ready()            { r.note("ready") }
func (r *rig) Heard(part string) { r.note(">" + part) }
func (r *rig) Said(part string)  { r.note(part) }
func (r *rig) Problem(err error) { r.note("!" + err.Error()) }
func (r *rig) End(whole bool) {
	if whole {
		r.note(".")
	} else {
		r.note("~")
	}
}

// loudspeaker notes what it is told.
type loudspeaker struct {
	played  chan error
	unheard time.Duration
	mu      sync.Mutex
	did     strings.Builder
}

func (l *loudspeaker) note(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.did.WriteString(s + " ")
}

func (l *loudspeaker) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.did.String()
}

func (l *loudspeaker) Add(pcm []byte) error { l.note(fmt.Sprintf("+%d", len(pcm))); return nil }
func (l *loudspeaker) End()                 { l.note("end") }
func (l *loudspeaker) Played() <-chan error { return l.played }
func (l *loudspeaker) Stop() time.Duration  { l.note("stop"); return l.unheard }

// peer is the server's side of a conversation.
type peer struct {
	t    *testing.T
	rig  *rig
	ws   *websocket.Conn
	path string
	came chan string
	why  error // why no more does, once came is closed
}

func (s *peer) read() {
	defer close(s.came)
	for {
		_, b, err := s.ws.Read(s.t.Context())
		if s.why = err; err != nil {
			return
		}
		s.came <- string(b)
		if s.rig.deaf {
			return
		}
	}
}

// send sends events.
func (s *peer) send(events ...string) {
	for _, e := range events {
		if err := s.ws.Write(s.t.Context(), websocket.MessageText, []byte(e)); err != nil {
			s.t.Logf("%.100s: %v", e, err)
		}
	}
}

// begin sets the session.
func (s *peer) begin() {
	if got := s.next(); !strings.Contains(got, "session.update") {
		s.t.Errorf("%s came first", got)
	}
	s.send(`{"type":"session.created"}`, `{"type":"session.updated"}`)
}

// answer is an answer from its beginning to its end.
func (s *peer) answer(response, item, text string, bytes int) {
	s.send(fmt.Sprintf(`{"type":"response.created","response":{"id":%q}}`, response), saying(response, item, text),
		sounding(response, item, bytes), fmt.Sprintf(`{"type":"response.done","response":{"id":%q,"status":"completed"}}`, response))
}

func saying(response, item, text string) string {
	return fmt.Sprintf(`{"type":"response.output_audio_transcript.delta","response_id":%q,"item_id":%q,"delta":%q}`, response, item, text)
}

func sounding(response, item string, bytes int) string {
	return fmt.Sprintf(`{"type":"response.output_audio.delta","response_id":%q,"item_id":%q,"content_index":0,"delta":%q}`, response, item,
		base64.StdEncoding.EncodeToString(make([]byte, bytes)))
}

// next is the next event; "": the client is gone.
func (s *peer) next() string { return <-s.came }

// expect reads up to an event that is no sound, and says if that is another.
func (s *peer) expect(want string) {
	s.t.Helper()
	for {
		switch got := s.next(); {
		case got == want:
			return
		case got == "", !strings.HasPrefix(got, `{"type":"input_audio_buffer.append"`):
			s.t.Errorf("%s came, want %s", got, want)
			return
		}
	}
}

// sound is how many bytes of sound come from now until just before another time, and nothing else.
func (s *peer) sound(in time.Duration) (n int) {
	s.t.Helper()
	end := time.After(in - 10*time.Millisecond)
	for {
		select {
		case b, more := <-s.came:
			var e appended
			if err := json.Unmarshal([]byte(b), &e); err != nil || e.Type != "input_audio_buffer.append" {
				s.t.Errorf("%s came, %v", b, err)
			}
			if n += len(e.Audio); !more {
				return n
			}
		case <-end:
			return n
		}
	}
}

// end reads until the client is gone.
func (s *peer) end(want websocket.StatusCode) {
	s.t.Helper()
	for range s.came {
	}
	if got := websocket.CloseStatus(s.why); want >= 0 && got != want {
		s.t.Errorf("the end: %v", s.why)
	}
}

// microphone is quiet, and gives its samples as fast as they are spoken.
type microphone struct{}

func (microphone) Read(p []byte) (int, error) {
	n := min(len(p), piece)
	<-time.After(time.Duration(n) * time.Second / bytesPerSecond)
	clear(p[:n])
	return n, nil
}

type failing struct{}

var errFailing = errors.New("the microphone ended: arecord")

func (failing) Read([]byte) (int, error) { return 0, errFailing }

// listener has one connection.
type listener chan net.Conn

func (l listener) Accept() (net.Conn, error) {
	if c, more := <-l; more {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (l listener) Close() error   { return nil }
func (l listener) Addr() net.Addr { return &net.UnixAddr{} }
