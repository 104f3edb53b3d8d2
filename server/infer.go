package server

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/ollama/ollama/api"
	"go.uber.org/zap"

	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/server/ollama"
	"github.com/axle-llm/axle/server/openai"
	"github.com/axle-llm/axle/tokenizer/chat"
)

const typeNDJSON, typeSSE = "application/x-ndjson", "text/event-stream"

// entry resolves a request's model. A name in Ollama's cloud, one that is no name, and one that is not here answer as Ollama does.
func (s *Server) entry(asked string, required error, missing string) (*Entry, error) {
	ref, err := ollama.ParseRef(asked, required, ollama.Fail(http.StatusBadRequest, "invalid model name"))
	if err != nil {
		return nil, err
	}
	if ref.Cloud {
		return nil, errCloud
	}
	e, err := s.store.Get(ref.Name)
	if isNotFound(err) {
		return nil, notFound(missing, asked)
	}
	return e, err
}

const (
	missingSingle = "model '%s' not found"
	missingDouble = "model %q not found, try pulling it first"
)

var errCloud = ollama.Fail(http.StatusForbidden, "ollama cloud is disabled: remote model is unavailable")

var errModelRequired = ollama.Fail(http.StatusBadRequest, "model is required")

// keepAlive is a request's keep_alive for the host.
func keepAlive(d *api.Duration) *time.Duration {
	if d == nil {
		return nil
	}
	// Ollama's decoder makes forever of what is negative, so that a negative duration is one of more seconds than fit: for ever too.
	if d.Duration < 0 {
		forever := Forever
		return &forever
	}
	return &d.Duration
}

func unloads(d *api.Duration) bool { return d != nil && d.Duration == 0 }

// numCtx is the context a request asks for, as far as that is a number.
func (s *Server) numCtx(m ollama.Model, opts map[string]any) int {
	for _, o := range []map[string]any{opts, m.Params} {
		switch n := o["num_ctx"].(type) {
		case float64:
			return int(min(max(n, 4), 1<<31-1))
		case int64:
			return int(min(max(n, 4), 1<<31-1))
		}
	}
	return s.o.ContextLength
}

// caught runs an answer and turns a panic in it into an error of the answer: never a stream that ends as if all were well.
func (s *Server) caught(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("panic in an answer", zap.Any("panic", p), zap.Stack("stack"))
			err = &httpError{http.StatusInternalServerError, "an error was encountered while running the model: internal error"}
		}
	}()
	return f()
}

// guarded runs an answer and tells its error.
func guarded[R any](s *Server, c *gin.Context, enc encoder[R], f func(*reply) error) {
	r := s.reply(c)
	err := s.caught(func() error { return f(r) })
	if err == nil {
		return
	}
	err = ended(c.Request.Context(), err)
	code, text := status(err)
	s.note(c, code, err)
	r.fail(code, enc.Failed, enc.Broken, enc.WholeType(), text)
}

// note keeps why a request failed for its log line.
func (s *Server) note(c *gin.Context, code int, err error) {
	c.Set(ctxError, s.told(err))
	c.Set(ctxStatus, code)
	s.lookLost(err)
}

// acquire loads the entry's model for a request, and says how long that took.
func (s *Server) acquire(ctx context.Context, e *Entry, keep *api.Duration, numCtx int) (*Lease, time.Duration, error) {
	start := time.Now()
	l, err := s.host.Acquire(ctx, e, keepAlive(keep), numCtx)
	took := time.Since(start)
	s.metrics.load.observe(took)
	return l, took, err
}

// noShift gives a prompt that does not fit the text Ollama has for it where it may be cut but a full context may not be shifted. Without
// truncation the backend's own text is passed on, which tells both numbers.
func noShift(err error, er engine.Request) error {
	var ce *engine.ContextError
	if er.Truncate && !er.Shift && errors.As(err, &ce) {
		return &httpError{http.StatusBadRequest, tooLong}
	}
	return err
}

// chat answers a conversation in any dialect.
func (s *Server) chat(c *gin.Context, req *ollama.ChatRequest, enc encoder[api.ChatResponse]) {
	guarded(s, c, enc, func(r *reply) error { return s.converse(c, r, req, enc) })
}

// compact answers a compaction, asking once more when the model's first summary is none.
func (s *Server) compact(c *gin.Context, req *openai.Compaction) {
	guarded(s, c, req, func(r *reply) error {
		err := s.converse(c, r, req.Native, req)
		if errors.Is(err, openai.ErrSummary) {
			if err = req.Again(err); err == nil {
				err = s.converse(c, r, req.Native, req)
			}
		}
		if errors.Is(err, openai.ErrSummary) {
			s.log.Debug("no summary", zap.String("error", s.told(err)))
			return &httpError{http.StatusInternalServerError, openai.ErrSummary.Error()}
		}
		return err
	})
}

func (s *Server) converse(c *gin.Context, r *reply, req *ollama.ChatRequest, enc encoder[api.ChatResponse]) error {
	start, ctx := time.Now(), c.Request.Context()
	e, err := s.entry(req.Model, errModelRequired, missingSingle)
	if err != nil {
		return err
	}
	c.Set(ctxModel, e.Name.String())
	m := e.model(req.Model)
	empty := api.ChatResponse{Model: req.Model, Message: api.Message{Role: "assistant"}, Done: true}
	if len(req.Messages) == 0 && unloads(req.KeepAlive) {
		s.host.Unload(ctx, e)
		empty.CreatedAt, empty.DoneReason = time.Now().UTC(), "unload"
		return only(r, enc, empty)
	}
	if err := req.Check(m); err != nil {
		return err
	}
	if err := s.images(messageImages(req.Messages)); err != nil {
		return err
	}
	if err := s.formatRoom(c, req.Format); err != nil {
		return err
	}
	numCtx := s.numCtx(m, req.Options)
	if err := checkOptions(m.Params, req.Options); err != nil {
		return err
	}
	lease, load, err := s.acquire(ctx, e, req.KeepAlive, numCtx)
	if err != nil {
		return err
	}
	defer lease.Release()
	if len(req.Messages) == 0 {
		empty.CreatedAt, empty.DoneReason = time.Now().UTC(), "load"
		return only(r, enc, empty)
	}
	er, unknown, err := req.Engine(lease.Sampling(), m)
	if err != nil {
		return err
	}
	if err := s.weighText(c, text(er)); err != nil {
		return err
	}
	s.ignored(c, unknown)
	er.Key = keyOf(ctx)
	er.NumCtx = effectiveCtx(er.NumCtx, numCtx)
	er.Cut = s.cut(c)
	if req.DebugRenderOnly {
		text, err := lease.Render(c.Request.Context(), er)
		if err != nil {
			return unrendered(err)
		}
		r.json(http.StatusOK, api.ChatResponse{Model: req.Model, CreatedAt: time.Now().UTC(),
			DebugInfo: &api.DebugInfo{RenderedTemplate: text, ImageCount: len(messageImages(req.Messages))}})
		return nil
	}
	s.prompt(c, er)
	a := &ollama.Answer{Model: req.Model, Start: start, Load: load}
	var total ollama.ChatTotal
	return run(s, c, r, enc, a, lease.Chat(ctx, er), er, total.Add, total.Whole, a.Chat)
}

// generate answers a bare prompt in any dialect.
func (s *Server) generate(c *gin.Context, req *ollama.GenerateRequest, enc encoder[api.GenerateResponse]) {
	guarded(s, c, enc, func(r *reply) error {
		start, ctx := time.Now(), c.Request.Context()
		e, err := s.entry(req.Model, notFound(missingSingle, req.Model), missingSingle)
		if err != nil {
			return err
		}
		c.Set(ctxModel, e.Name.String())
		m := e.model(req.Model)
		empty := api.GenerateResponse{Model: req.Model, Done: true}
		if req.Prompt == "" && unloads(req.KeepAlive) {
			s.host.Unload(ctx, e)
			empty.CreatedAt, empty.DoneReason = time.Now().UTC(), "unload"
			return only(r, enc, empty)
		}
		if err := req.Check(m); err != nil {
			return err
		}
		if err := s.images(req.Images); err != nil {
			return err
		}
		if err := s.formatRoom(c, req.Format); err != nil {
			return err
		}
		numCtx := s.numCtx(m, req.Options)
		if err := checkOptions(m.Params, req.Options); err != nil {
			return err
		}
		lease, load, err := s.acquire(ctx, e, req.KeepAlive, numCtx)
		if err != nil {
			return err
		}
		defer lease.Release()
		if req.Prompt == "" && len(req.Images) == 0 && req.Suffix == "" {
			empty.CreatedAt, empty.DoneReason = time.Now().UTC(), "load"
			return only(r, enc, empty)
		}
		var custom chat.Template
		if req.Template != "" {
			if custom, err = parseTemplate(req.Template); err != nil {
				return becauseOf(http.StatusInternalServerError, err)
			}
		}
		er, asChat, unknown, err := req.Engine(lease.Sampling(), m, custom)
		if err != nil {
			return err
		}
		if err := s.weighText(c, text(er)); err != nil {
			return err
		}
		s.ignored(c, unknown)
		er.Key = keyOf(ctx)
		er.NumCtx = effectiveCtx(er.NumCtx, numCtx)
		er.Cut = s.cut(c)
		if req.DebugRenderOnly {
			text, err := lease.Render(c.Request.Context(), er)
			if err != nil {
				return unrendered(err)
			}
			r.json(http.StatusOK, api.GenerateResponse{Model: req.Model, CreatedAt: time.Now().UTC(),
				DebugInfo: &api.DebugInfo{RenderedTemplate: text, ImageCount: len(req.Images)}})
			return nil
		}
		s.prompt(c, er)
		events := lease.Generate
		if asChat {
			events = lease.Chat
		}
		a := &ollama.Answer{Model: req.Model, Start: start, Load: load}
		var total ollama.GenerateTotal
		return run(s, c, r, enc, a, events(ctx, er), er, total.Add, total.Whole, a.Generate)
	})
}

// effectiveCtx is the context of a request: its own, or the server's default.
func effectiveCtx(own, fallback int) int {
	if own > 0 {
		return own
	}
	return fallback
}

// only answers a request that wanted no text: one that loads or unloads a model. In the native dialect that is one object, never a stream.
func only[R any](r *reply, enc encoder[R], resp R) error {
	if _, own := enc.(native[R]); own || !enc.Streams() {
		b, err := enc.Whole(resp)
		if err == nil {
			r.whole(http.StatusOK, enc.WholeType(), b)
		}
		return err
	}
	b, err := enc.Chunk(resp)
	if err == nil {
		err = r.part(enc.Type(), b)
	}
	return err
}

// watcher is an encoder that wants to know when parts came.
type watcher interface{ Saw(now time.Time) }

// run takes events from the engine and sends them, each at once, or all together.
func run[R any](s *Server, c *gin.Context, r *reply, enc encoder[R], a *ollama.Answer, events iter.Seq2[engine.Event, error], er engine.Request,
	add func(R), whole func() R, convert func(engine.Event, time.Time) R,
) error {
	tr := s.metrics.begin()
	defer tr.end(a)
	done := false
	for e, err := range events {
		if err != nil {
			return noShift(err, er)
		}
		if len(e.Notes) > 0 {
			s.notEnforced(c, e.Notes)
			continue
		}
		now := time.Now()
		tr.event(now, e)
		if w, ok := any(enc).(watcher); ok {
			w.Saw(now)
		}
		resp := convert(e, now)
		done = done || e.Done != nil
		if !enc.Streams() {
			add(resp)
			continue
		}
		b, err := enc.Chunk(resp)
		if err != nil {
			return err
		}
		if len(b) == 0 {
			continue
		}
		if err := r.part(enc.Type(), b); err != nil {
			return fmt.Errorf("writing to the client: %w", errors.Join(context.Canceled, err))
		}
	}
	if !done {
		if err := c.Request.Context().Err(); err != nil {
			return err
		}
		return errNoEnd
	}
	c.Set(ctxUsage, a.Usage)
	if enc.Streams() {
		return nil
	}
	b, err := enc.Whole(whole())
	if err != nil {
		return err
	}
	r.whole(http.StatusOK, enc.WholeType(), b)
	return nil
}

// checkOptions finds what is wrong with options before a model is loaded for them.
func checkOptions(params, opts map[string]any) error {
	o := ollama.DefaultOptions(samplerDefaults())
	if _, err := o.Set(params); err != nil {
		return err
	}
	_, err := o.Set(opts)
	return err
}

// ignored tells the debug log of options that are not known. Their names are a client's words.
func (s *Server) ignored(c *gin.Context, names []string) {
	switch {
	case len(names) == 0:
	case s.o.LogPrompts:
		s.log.Debug("options ignored", zap.Strings("options", names))
	default:
		s.log.Debug("options ignored", zap.Int("options", len(names)))
	}
}

// prompt writes a request's text to the log, which happens only when asked.
func (s *Server) prompt(c *gin.Context, er engine.Request) {
	if !s.o.LogPrompts {
		return
	}
	s.log.Info("prompt", zap.String("path", c.Request.URL.Path), zap.String("prompt", er.Prompt), zap.Any("messages", er.Messages))
}

func messageImages(msgs []api.Message) []api.ImageData {
	var out []api.ImageData
	for _, m := range msgs {
		out = append(out, m.Images...)
	}
	return out
}

// unrendered is a prompt that could not be rendered: the request's fault where the engine says so, the template's otherwise.
func unrendered(err error) error {
	if errors.Is(err, engine.ErrRequest) {
		return err
	}
	return becauseOf(http.StatusInternalServerError, err)
}
