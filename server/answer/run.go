package answer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ollama/ollama/api"
	"go.uber.org/zap"

	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/server/exchange"
	"github.com/axle-llm/axle/server/ollama"
	"github.com/axle-llm/axle/server/openai"
)

// kind is what chats and bare prompts do not share: the object that an answer, or a part of one, is made of.
type kind[R any] struct {
	part  func(*ollama.Answer, engine.Event, time.Time) R
	done  func(model, reason string) R              // of a request that only loads or unloads
	debug func(model string, info *api.DebugInfo) R // of one that only renders
	total func() (add func(part R), whole func() R) // of one that does not stream
}

var chatKind = kind[api.ChatResponse]{
	part: (*ollama.Answer).Chat,
	done: func(model, reason string) api.ChatResponse {
		return api.ChatResponse{Model: model, CreatedAt: time.Now().UTC(), Message: api.Message{Role: "assistant"}, Done: true,
			DoneReason: reason}
	},
	debug: func(model string, info *api.DebugInfo) api.ChatResponse {
		return api.ChatResponse{Model: model, CreatedAt: time.Now().UTC(), DebugInfo: info}
	},
	total: func() (func(api.ChatResponse), func() api.ChatResponse) {
		t := new(ollama.ChatTotal)
		return t.Add, t.Whole
	},
}

var generateKind = kind[api.GenerateResponse]{
	part: (*ollama.Answer).Generate,
	done: func(model, reason string) api.GenerateResponse {
		return api.GenerateResponse{Model: model, CreatedAt: time.Now().UTC(), Done: true, DoneReason: reason}
	},
	debug: func(model string, info *api.DebugInfo) api.GenerateResponse {
		return api.GenerateResponse{Model: model, CreatedAt: time.Now().UTC(), DebugInfo: info}
	},
	total: func() (func(api.GenerateResponse), func() api.GenerateResponse) {
		t := new(ollama.GenerateTotal)
		return t.Add, t.Whole
	},
}

// chat answers a conversation in any dialect.
func (a *Answers) chat(x *exchange.Exchange, req *ollama.ChatRequest, enc exchange.Encoder[api.ChatResponse]) {
	exchange.Answer(x, enc, func(r *exchange.Reply) error { return respond(a, x, r, req, enc, chatKind) })
}

// generate answers a bare prompt in any dialect.
func (a *Answers) generate(x *exchange.Exchange, req *ollama.GenerateRequest, enc exchange.Encoder[api.GenerateResponse]) {
	exchange.Answer(x, enc, func(r *exchange.Reply) error { return respond(a, x, r, req, enc, generateKind) })
}

// compact answers a compaction, asking once more when the model's first summary is none.
func (a *Answers) compact(x *exchange.Exchange, req *openai.Compaction) {
	exchange.Answer(x, req, func(r *exchange.Reply) error {
		err := respond(a, x, r, req.Native, req, chatKind)
		if errors.Is(err, openai.ErrSummary) {
			if err = req.Again(err); err == nil {
				err = respond(a, x, r, req.Native, req, chatKind)
			}
		}
		if errors.Is(err, openai.ErrSummary) {
			a.log.Debug("no summary", zap.String("error", a.o.Shared.Told(err)))
			return exchange.Error(http.StatusInternalServerError, openai.ErrSummary.Error())
		}
		return err
	})
}

// respond checks a prompt and answers it.
func respond[R any](a *Answers, x *exchange.Exchange, r *exchange.Reply, p ollama.Prompt, enc exchange.Encoder[R], k kind[R]) error {
	start, ctx := time.Now(), x.Asked()
	q, err := a.check(ctx, x, p)
	if err != nil {
		return err
	}
	defer q.release()
	if q.only != "" {
		return only(r, enc, k.done(q.asked.Model, q.only))
	}
	q.engine.Cut = a.cut(x)
	if q.asked.RenderOnly {
		text, err := q.lease.Render(ctx, q.engine)
		if err != nil {
			return unrendered(err)
		}
		r.JSON(http.StatusOK, k.debug(q.asked.Model, &api.DebugInfo{RenderedTemplate: text, ImageCount: len(q.asked.Images)}))
		return nil
	}
	a.logPrompt(x.Request.URL.Path, q.engine)
	return run(a, x, r, enc, k, q, start)
}

// only answers a request that wanted no text: one that loads or unloads a model. In the native dialect that is one object, never a stream.
func only[R any](r *exchange.Reply, enc exchange.Encoder[R], resp R) error {
	if _, own := enc.(exchange.Native[R]); own || !enc.Streams() {
		b, err := enc.Whole(resp)
		if err == nil {
			r.Whole(http.StatusOK, enc.WholeType(), b)
		}
		return err
	}
	b, err := enc.Chunk(resp)
	if err == nil {
		err = r.Part(enc.Type(), b)
	}
	return err
}

// watcher is an encoder that wants to know when parts came.
type watcher interface{ Saw(now time.Time) }

// gone is a client that takes no more.
func gone(err error) error {
	return fmt.Errorf("writing to the client: %w", errors.Join(context.Canceled, err))
}

// run takes events from the engine and sends them, each as soon as no other follows at once, or all together.
func run[R any](a *Answers, x *exchange.Exchange, r *exchange.Reply, enc exchange.Encoder[R], k kind[R],
	q *checked, start time.Time,
) error {
	events := q.lease.Generate
	if q.isChat {
		events = q.lease.Chat
	}
	answer := &ollama.Answer{Model: q.asked.Model, Start: start, Load: q.load}
	add, whole := k.total()
	tr := a.Figures.begin()
	defer tr.end(answer)
	done := false
	for e, err := range events(x.Asked(), q.engine) {
		if err != nil {
			return noShift(err, q.engine)
		}
		if len(e.Notes) > 0 {
			a.notEnforced(x, e.Notes)
			continue
		}
		if e.Flush {
			if err := r.Send(); err != nil {
				return gone(err)
			}
			continue
		}
		now := time.Now()
		tr.event(now, e)
		if w, ok := any(enc).(watcher); ok {
			w.Saw(now)
		}
		part := k.part(answer, e, now)
		done = done || e.Done != nil
		if !enc.Streams() {
			add(part)
			continue
		}
		b, err := enc.Chunk(part)
		if err != nil {
			return err
		}
		if len(b) > 0 {
			err = r.Hold(enc.Type(), b)
		}
		if err == nil && !e.More {
			err = r.Send()
		}
		if err != nil {
			return gone(err)
		}
	}
	if !done {
		if err := x.Asked().Err(); err != nil {
			return err
		}
		return exchange.ErrNoEnd
	}
	if enc.Streams() {
		return nil
	}
	b, err := enc.Whole(whole())
	if err != nil {
		return err
	}
	r.Whole(http.StatusOK, enc.WholeType(), b)
	return nil
}
