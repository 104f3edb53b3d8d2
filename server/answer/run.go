package answer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/request"
)

// noText answers a request that wanted none: one that loads or unloads a model.
func noText(w *request.Reply, enc prompt.Encoder, p prompt.Part) error {
	if !enc.Streams() {
		b, err := enc.Whole(p)
		if err == nil {
			w.Whole(http.StatusOK, enc.WholeType(), b)
		}
		return err
	}
	b, err := enc.Chunk(p)
	if err == nil {
		err = w.Part(enc.Type(), b)
	}
	return err
}

// gone is a client that takes no more.
func gone(err error) error {
	return fmt.Errorf("writing to the client: %w", errors.Join(context.Canceled, err))
}

// run takes events from the engine and sends them, each as soon as no other follows at once, or all
// together.
func (a *Answers) run(x *request.Exchange, w *request.Reply, enc prompt.Encoder, q *checked, start time.Time) error {
	var events iter.Seq2[ask.Event, error]
	if q.isChat {
		events = q.lease.Chat(x.Ctx(), q.engine)
	} else {
		events = q.lease.Generate(x.Ctx(), q.engine)
	}
	answer := &prompt.Answer{Model: q.model, Start: start, Load: q.load}
	var total *prompt.Total
	if !enc.Streams() {
		total = new(prompt.Total)
	}
	see, _ := enc.(prompt.Seer)
	tr := a.Figures.begin()
	defer tr.end(answer)
	done := false
	for e, err := range events {
		if err != nil {
			return noShift(err, q.engine)
		}
		if over, err := a.before(x, w, q, e); err != nil {
			return err
		} else if over {
			continue
		}
		now := time.Now()
		tr.event(now, e)
		part := answer.Part(e, now)
		if see != nil {
			part = seen(see, part)
		}
		done = done || part.Done
		if total != nil {
			total.Add(part)
			continue
		}
		b, err := enc.Chunk(part)
		if err != nil {
			return err
		}
		if len(b) > 0 {
			err = w.Hold(enc.Type(), b)
		}
		if err == nil && !e.More {
			err = w.Send()
		}
		if err != nil {
			return gone(err)
		}
	}
	if !done {
		if err := x.Ctx().Err(); err != nil {
			return err
		}
		return request.ErrNoEnd
	}
	if total == nil {
		return nil
	}
	b, err := enc.Whole(total.Whole())
	if err != nil {
		return err
	}
	w.Whole(http.StatusOK, enc.WholeType(), b)
	return nil
}

// before takes what of an event is no part of the answer: its account, what comes before the
// answer, and what sends on what was written. over: there is nothing else.
func (a *Answers) before(x *request.Exchange, w *request.Reply, q *checked, e ask.Event) (over bool, err error) {
	q.account.event(e)
	switch {
	case e.Cut != nil:
		a.cut(x, *e.Cut)
	case len(e.Notes) > 0:
		a.notEnforced(x, e.Notes)
	case e.Flush:
		if err := w.Send(); err != nil {
			return true, gone(err)
		}
	case e.Begun == 0 && !e.Held:
		return false, nil
	}
	return true, nil
}

// seen is a part that an encoder has looked at: on the heap only where one does.
func seen(by prompt.Seer, p prompt.Part) prompt.Part {
	by.See(&p)
	return p
}

// noShift gives a prompt that does not fit the text Ollama has for it where it may be cut but a
// full context may not be shifted. Without truncation the backend's own text is passed on, which
// tells both numbers.
func noShift(err error, er ask.Request) error {
	var ce *ask.ContextError
	if er.Truncate && !er.Shift && errors.As(err, &ce) {
		return request.Error(http.StatusBadRequest, request.TooLong)
	}
	return err
}
