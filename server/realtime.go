package server

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/audio/vad"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/answer"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/monitor"
	"github.com/axle-llm/axle/server/openai"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/realtime"
	"github.com/axle-llm/axle/server/request"
)

const (
	maxCalls      = 256          // sessions at once
	maxKeyCalls   = maxCalls / 2 // of a key without a limit of its own
	realtimeRoute = "realtime transcribe"
	answerRoute   = "realtime answer"
	lastWords     = time.Second // how long a server that ends waits for its sessions to say so
)

// realtime answers GET /v1/realtime: it becomes a session over a WebSocket. The guard has seen to
// the key, and to the page that it comes from.
func (s *Server) realtime(x *request.Exchange) error {
	if s.draining.Load() {
		return cmp.Or(s.Lost(), ask.ErrDraining)
	}
	if !strings.EqualFold(x.GetHeader("Upgrade"), "websocket") {
		x.Header("Upgrade", "websocket")
		return body.Fail(http.StatusUpgradeRequired, "/v1/realtime is a WebSocket: connect with ws:// or wss://")
	}
	intent := x.Query("intent")
	if intent != "" && intent != "transcription" {
		return body.Fail(http.StatusBadRequest, "intent is %q: transcription is possible, and none for a conversation", intent)
	}
	owner, err := s.views.Owner(x)
	if err != nil {
		return err
	}
	c := &caller{s, x.Who(), owner}
	o := realtime.Options{Hearer: c, Talker: c, Speech: s.speech, Tell: tell, Room: x.Reserve,
		Idle: s.o.IdleTimeout, Read: s.o.ReadTimeout, Write: s.o.WriteTimeout}
	if o.Model, o.Chat, err = c.named(x.Ctx(), intent, x.Query("model")); err != nil {
		return err
	}
	defer s.calls.Add(-1)
	//rule:T7 TestRealtimeMany false
	if s.calls.Add(1) > maxCalls {
		return body.Fail(http.StatusServiceUnavailable, "%d sessions are open, and no more can be: come again", maxCalls)
	}
	end, err := c.key.Session(maxKeyCalls)
	if err != nil {
		return err
	}
	defer end()
	ws, err := websocket.Accept(x.Writer, x.Request, &websocket.AcceptOptions{Subprotocols: []string{"realtime"},
		InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled})
	if err != nil { // it has been answered
		x.Log.Error = s.shared.Told(body.Bad(err))
		return nil
	}
	if err := s.shared.Caught(func() error {
		realtime.Serve(x.Ctx(), ws, o)
		return nil
	}); err != nil {
		_ = ws.CloseNow()
	}
	return nil
}

// speech finds speech in a session's sound.
func (s *Server) speech() realtime.Speech {
	if s.o.VAD != nil {
		return s.o.VAD.NewStream().Next
	}
	return vad.NewLoudness().Next
}

// hangUp waits for the sessions to have told their clients of the end.
func (s *Server) hangUp() {
	for end := time.Now().Add(lastWords); s.calls.Load() > 0 && time.Now().Before(end); {
		<-time.After(drainLinger / 25)
	}
}

// caller is the client of a session. It implements [realtime.Hearer] and [realtime.Talker].
type caller struct {
	s     *Server
	key   *access.Key
	owner monitor.Owner
}

// named is which model a session's request names: one that hears, or one that chats. A session that
// names none begins as one that writes speech down.
func (c *caller) named(ctx context.Context, intent, name string) (hears, chats string, err error) {
	if name == "" {
		return "", "", nil
	}
	if hears, _, err = c.Model(ctx, name); err == nil || intent != "" {
		return hears, "", err
	}
	chats, err = c.Chats(ctx, name)
	return "", chats, err
}

// Model implements realtime.Hearer.
func (c *caller) Model(ctx context.Context, name string) (whole string, live bool, err error) {
	e, err := c.s.answers.Hearer(ctx, cmp.Or(name, c.s.o.WyomingModel))
	if err != nil {
		return "", false, err
	}
	return e.Name.String(), e.Info.Live, nil
}

// Hear implements realtime.Hearer.
func (c *caller) Hear(ctx context.Context, name string, r ask.TranscribeRequest, each func(text string)) (spoken string, err error) {
	return c.s.hear(ctx, asking{realtimeRoute, c.key, c.owner}, cmp.Or(name, c.s.o.WyomingModel), r, each)
}

// Early implements realtime.Hearer.
func (c *caller) Early(ctx context.Context, name string, r ask.TranscribeRequest, each func(text string)) (spoken string, used func(),
	err error) {
	of, start := asking{realtimeRoute, c.key, c.owner}, time.Now()
	err = c.s.admitted(ctx, of, func(ctx context.Context) (err error) {
		spoken, err = c.s.answers.Hear(ctx, cmp.Or(name, c.s.o.WyomingModel), r, each)
		return err
	})
	took := time.Since(start)
	return spoken, func() { c.s.counted(of, took, nil) }, err
}

// Chats implements realtime.Talker.
func (c *caller) Chats(ctx context.Context, name string) (string, error) {
	e, err := c.s.answers.Chatter(ctx, name)
	if err != nil {
		return "", err
	}
	return e.Name.String(), nil
}

// Voice implements realtime.Talker.
func (c *caller) Voice(ctx context.Context, name string) (string, error) {
	all, err := c.s.answers.Voices(ctx, "", c.s.o.WyomingVoices)
	if err != nil {
		return "", err
	}
	voices := make([]ask.Voice, len(all))
	for i := range all {
		voices[i] = all[i].Voice
	}
	if len(voices) == 0 {
		return "", body.Fail(http.StatusNotFound, "no installed model speaks: 'axle pull' without a name lists models, and "+
			`output_modalities ["text"] needs none`)
	}
	if name == "" {
		return voices[0].Name, nil
	}
	if own := openai.OwnVoice(name, voices); own != "" {
		return own, nil
	}
	return "", body.Fail(http.StatusNotFound, "no model here has the voice %q: GET /v1/audio/voices lists them", name)
}

// Answer implements realtime.Talker.
func (c *caller) Answer(ctx context.Context, f func(context.Context) error) error {
	return c.s.asked(ctx, asking{answerRoute, c.key, c.owner}, f)
}

// Chat implements realtime.Talker.
func (c *caller) Chat(ctx context.Context, r *prompt.Request, each func(ask.Event)) error {
	monitor.Of(ctx).Named(r.Model)
	return c.s.answers.Events(ctx, r, "/v1/realtime", each)
}

// Say implements realtime.Talker.
func (c *caller) Say(ctx context.Context, voice string, speed float64, texts iter.Seq[string],
	play func(samples []float32, rate int) error) error {
	voice, err := c.Voice(ctx, voice)
	if err != nil {
		return err
	}
	how := answer.Saying{First: c.s.o.WyomingVoices, Voice: voice, Speed: speed}
	return c.s.shared.Caught(func() error { return c.s.answers.Say(ctx, how, texts, play) })
}
