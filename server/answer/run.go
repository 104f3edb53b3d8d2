package answer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/exchange"
	"github.com/axle-llm/axle/server/ollama"
)

// kind is what the answers to chats and to bare prompts do not share: the object that an answer, or
// a part of one, is made of.
type kind[R any] struct {
	part  func(*ollama.Answer, ask.Event, time.Time) R
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

// noText answers a request that wanted none: one that loads or unloads a model. In the native
// dialect that is one object, never a stream.
func noText[R any](r *exchange.Reply, enc exchange.Encoder[R], resp R) error {
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

// run takes events from the engine and sends them, each as soon as no other follows at once, or all
// together.
func run[R any](a *Answers, x *exchange.Exchange, r *exchange.Reply, enc exchange.Encoder[R], k kind[R],
	q *checked, start time.Time,
) error {
	var events iter.Seq2[ask.Event, error]
	if q.isChat {
		events = q.lease.Chat(x.Ctx(), q.engine)
	} else {
		events = q.lease.Generate(x.Ctx(), q.engine)
	}
	answer := &ollama.Answer{Model: q.common.Model, Start: start, Load: q.load}
	var add func(R)
	var whole func() R
	if !enc.Streams() {
		add, whole = k.total()
	}
	tr := a.Figures.begin()
	defer tr.end(answer)
	done := false
	for e, err := range events {
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
		if add != nil {
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
		if err := x.Ctx().Err(); err != nil {
			return err
		}
		return exchange.ErrNoEnd
	}
	if whole == nil {
		return nil
	}
	b, err := enc.Whole(whole())
	if err != nil {
		return err
	}
	r.Whole(http.StatusOK, enc.WholeType(), b)
	return nil
}

// noShift gives a prompt that does not fit the text Ollama has for it where it may be cut but a
// full context may not be shifted. Without truncation the backend's own text is passed on, which
// tells both numbers.
func noShift(err error, er ask.Request) error {
	var ce *ask.ContextError
	if er.Truncate && !er.Shift && errors.As(err, &ce) {
		return exchange.Error(http.StatusBadRequest, exchange.TooLong)
	}
	return err
}
