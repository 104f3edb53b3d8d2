// Package vendor speaks the vendor's older HTTP API, which is a conversation of its own kind: one
// model, one context that lives in the server, POST /api/generate starts an answer and GET
// /api/generate_provider (or /api/content) is polled for what has come since. Its paths collide
// with Ollama's, so the server answers it on another port.
//
// The functions are pure. A [Session] is the one conversation: it is safe for concurrent use, holds
// no resource but the running answer, and knows nothing of HTTP.
package vendor

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/prompt"
)

// Texts of the vendor's errors.
const (
	badFormat  = "Invalid request format"
	badMessage = "Invalid message format"
	running    = "llm is running"
)

// OK is what the vendor answers when there is nothing to say.
const OK = `{"status": "ok"}`

// Request is a body of /api/generate, /api/chat or /api/reset. Sampling keys have the vendor's
// spelling.
type Request struct {
	Model             string    `json:"model"` // beyond the vendor's: which model, where there are several
	Prompt            *string   `json:"prompt"`
	System            *string   `json:"system_prompt"`
	Messages          []message `json:"messages"`
	Temperature       *float64  `json:"temperature"`
	RepetitionPenalty *float64  `json:"repetition_penalty"`
	TopP              *float64  `json:"top-p"`
	TopK              *float64  `json:"top-k"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Decode reads a body.
func Decode(b []byte) (*Request, error) {
	r := new(Request)
	if json.NewDecoder(bytes.NewReader(b)).Decode(r) != nil {
		return nil, body.Fail(400, badFormat)
	}
	return r, nil
}

// options are the request's sampling options in Ollama's names. As in the vendor's server, what is
// out of range switches a step off.
func (r *Request) options() map[string]any {
	o := map[string]any{}
	set := func(key string, v *float64, ok func(float64) bool, off float64) {
		if v == nil {
			return
		}
		if !ok(*v) {
			o[key] = off
			return
		}
		o[key] = *v
	}
	set("temperature", r.Temperature, func(f float64) bool { return f > 0 }, 1)
	set("repeat_penalty", r.RepetitionPenalty, func(f float64) bool { return f > 1 }, 1)
	set("top_p", r.TopP, func(f float64) bool { return f > 0 && f < 1 }, 1)
	set("top_k", r.TopK, func(f float64) bool { return f > 0 }, 0)
	return o
}

// Dialect is the vendor's API, whose answers are polled for.
func Dialect() prompt.Dialect {
	return prompt.Dialect{Under: "/", ErrorType: "application/json",
		Error: func(_ error, _ int, text string) []byte { return body.ErrorJSON(text) }}
}

// Part is the answer to a poll: what has come since the last, and whether that was all.
type Part struct {
	Done     bool   `json:"done"`
	Response string `json:"response"`
}

// Whole is the answer of /api/chat.
type Whole struct {
	Done    bool   `json:"done"`
	Message string `json:"message"`
}

// Session is the conversation.
type Session struct {
	mu     ranked.Mutex[ranked.Session]
	system string
	turns  []ask.Message
	new    strings.Builder // not polled yet
	cancel context.CancelFunc
	ended  chan struct{}
	told   chan struct{} // closed when a poll was told the end
	err    error         // that the last answer ended with
}

// Reset forgets the conversation and takes a system prompt. It fails while an answer runs.
func (s *Session) Reset(r *Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		return body.Fail(400, running)
	}
	if r.System != nil && len(*r.System) > body.MaxText {
		return body.TextTooLong()
	}
	s.turns, s.system, s.err = nil, "", nil
	s.new.Reset()
	if r.System != nil {
		s.system = *r.System
	}
	return nil
}

// Begin starts an answer to the request's prompt (chat false) or to the first of its messages (chat
// true). It returns what to ask the model, and a context that [Session.Stop] cancels; the caller
// runs it, gives every piece of text to [Session.Add], and calls [Session.End] or [Session.Undo].
func (s *Session) Begin(ctx context.Context, r *Request, chat bool) (context.Context, *prompt.Request, error) {
	text := ""
	switch {
	case chat && len(r.Messages) == 0:
		return nil, nil, body.Fail(400, badFormat)
	case chat && (r.Messages[0].Role == "" || r.Messages[0].Content == ""):
		return nil, nil, body.Fail(400, badMessage)
	case chat:
		text = r.Messages[0].Content
	case r.Prompt == nil:
		return nil, nil, body.Fail(400, badFormat)
	default:
		text = *r.Prompt
	}
	if len(text) > body.MaxText {
		return nil, nil, body.TextTooLong()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		return nil, nil, body.Fail(400, running)
	}
	asked := ask.Message{Role: "user", Content: text}
	req := &prompt.Request{Model: r.Model, Unnamed: prompt.ErrUnnamed, Chat: true, Options: r.options(),
		Ask: ask.Request{Truncate: true, Shift: true}}
	if s.system != "" {
		req.Ask.Messages = append(req.Ask.Messages, ask.Message{Role: "system", Content: s.system})
	}
	req.Ask.Messages = append(append(req.Ask.Messages, s.turns...), asked)
	s.turns = append(s.turns, asked)
	s.new.Reset()
	ctx, s.cancel = context.WithCancel(ctx)
	s.ended, s.told, s.err = make(chan struct{}), make(chan struct{}), nil
	return ctx, req, nil
}

// Add takes text as it comes.
func (s *Session) Add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.new.WriteString(text)
}

// What a conversation keeps: more than any context holds.
const (
	maxTurns = 1024
	maxKept  = 1 << 20 // bytes of their text
)

// trim forgets the oldest turns. What is left begins with a question.
func (s *Session) trim() {
	at, size := len(s.turns), 0
	for at > 0 && len(s.turns)-at < maxTurns && size+len(s.turns[at-1].Content) <= maxKept {
		at--
		size += len(s.turns[at].Content)
	}
	if at == 0 {
		return
	}
	for at < len(s.turns) && s.turns[at].Role != "user" {
		at++
	}
	s.turns = slices.Clone(s.turns[at:])
}

// Undo closes the running answer as if nothing had been asked.
func (s *Session) Undo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns = s.turns[:len(s.turns)-1]
	s.cancel()
	s.cancel = nil
	close(s.ended)
}

// End closes the running answer: what was said becomes part of the conversation. err is why it is
// not whole, or nil; a question that got no answer, or not all of it, is forgotten. The channel is
// closed when a poll was told so.
func (s *Session) End(said string, err error) (told <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || said == "" {
		s.turns = s.turns[:len(s.turns)-1]
	} else {
		s.turns = append(s.turns, ask.Message{Role: "assistant", Content: said})
		s.trim()
	}
	s.cancel()
	s.cancel, s.err = nil, err
	close(s.ended)
	return s.told
}

// Poll gives what has come since the last poll. An answer that ended with an error is never done:
// when all of it was given, the polls that follow give the error.
func (s *Session) Poll() (Part, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := Part{Done: s.cancel == nil && s.err == nil, Response: s.new.String()}
	s.new.Reset()
	failed := s.err != nil && p.Response == ""
	if (p.Done || failed) && s.told != nil {
		close(s.told)
		s.told = nil
	}
	if failed {
		return Part{}, s.err
	}
	return p, nil
}

// Stop ends the running answer and waits for its end.
func (s *Session) Stop() {
	s.mu.Lock()
	ended := s.ended
	if s.cancel == nil {
		ended = nil
	} else {
		s.cancel()
	}
	s.mu.Unlock()
	if ended != nil {
		<-ended
	}
}
