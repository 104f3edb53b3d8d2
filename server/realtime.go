package server

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/audio/vad"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/realtime"
	"github.com/axle-llm/axle/server/request"
)

const (
	maxCalls      = 256 // sessions at once
	realtimeRoute = "realtime transcribe"
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
	if intent := x.Query("intent"); intent != "" && intent != "transcription" {
		return body.Fail(http.StatusBadRequest, "intent is %q: transcription is possible", intent)
	}
	owner, err := s.views.Owner(x)
	if err != nil {
		return err
	}
	c := &caller{s, asking{realtimeRoute, x.Who(), owner}}
	model := x.Query("model")
	if model != "" {
		if model, err = c.Model(x.Ctx(), model); err != nil {
			return err
		}
	}
	defer s.calls.Add(-1)
	//rule:T7 TestRealtimeMany false
	if s.calls.Add(1) > maxCalls {
		return body.Fail(http.StatusServiceUnavailable, "%d sessions are open, and no more can be: come again", maxCalls)
	}
	ws, err := websocket.Accept(x.Writer, x.Request, &websocket.AcceptOptions{Subprotocols: []string{"realtime"},
		InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled})
	if err != nil { // it has been answered
		x.Log.Error = s.shared.Told(body.Bad(err))
		return nil
	}
	if err := s.shared.Caught(func() error {
		realtime.Serve(x.Ctx(), ws, realtime.Options{Hearer: c, Model: model, Speech: s.speech, Tell: tell, Room: x.Reserve,
			Idle: s.o.IdleTimeout, Read: s.o.ReadTimeout, Write: s.o.WriteTimeout})
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

// caller is the client of a session. It implements [realtime.Hearer].
type caller struct {
	s  *Server
	of asking
}

// Model implements realtime.Hearer.
func (c *caller) Model(ctx context.Context, name string) (string, error) {
	e, err := c.s.answers.Hearer(ctx, name)
	if err != nil {
		return "", err
	}
	return e.Name.String(), nil
}

// Hear implements realtime.Hearer.
func (c *caller) Hear(ctx context.Context, name string, r ask.TranscribeRequest, each func(text string)) (spoken string, err error) {
	return c.s.hear(ctx, c.of, name, r, each)
}
