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

// choice is what is known of one of several answers to a prompt.
type choice struct {
	answer prompt.Answer
	trace  *trace
	total  prompt.Total // where the answer does not stream
}

// run takes events from the engine and sends them, each as soon as no other follows at once, or all
// together. Where an encoder wants several answers, the engine writes them together.
func (a *Answers) run(x *request.Exchange, w *request.Reply, enc prompt.Encoder, q *checked, start time.Time) error {
	n, streams := 1, enc.Streams()
	chunk := func(_ int, p prompt.Part) ([]byte, error) { return enc.Chunk(p) }
	whole := func(all []prompt.Part, _ []float64) ([]byte, error) { return enc.Whole(all[0]) }
	var events iter.Seq2[ask.Choice, error]
	if several, ok := enc.(prompt.Several); ok && several.Candidates() > 1 {
		n, chunk, whole = several.Candidates(), several.ChunkOf, several.WholeOf
		if err := choicesRoom(x, n, streams, q); err != nil {
			return err
		}
		q.engine.Sampling.Logprobs = q.engine.Sampling.Logprobs || several.Ranks()
		events = q.lease.Choices(x.Ctx(), q.engine, ask.Several{N: n, Beside: x.Who().Beside})
	} else if q.isChat {
		events = single(q.lease.Chat(x.Ctx(), q.engine))
	} else {
		events = single(q.lease.Generate(x.Ctx(), q.engine))
	}
	all, scores, left := make([]choice, n), make([]float64, n), n
	for i := range all {
		c := &all[i]
		c.answer = prompt.Answer{Model: q.model, Start: start, Load: q.load}
		c.trace = a.Figures.begin(i > 0)
		defer c.trace.end(&c.answer)
	}
	see, _ := enc.(prompt.Seer)
	for e, err := range events {
		if err != nil {
			return noShift(err, q.engine)
		}
		if over, err := a.before(x, w, q, e.Event); err != nil {
			return err
		} else if over {
			continue
		}
		now, c := time.Now(), &all[e.Index]
		c.trace.event(now, e.Event)
		part := c.answer.Part(e.Event, now)
		if see != nil {
			part = see.See(part)
		}
		if e.Done != nil {
			left--
			scores[e.Index] = e.Done.Logprob / float64(max(e.Done.Usage.Output, 1))
		}
		if !streams {
			c.total.Add(part)
			continue
		}
		b, err := chunk(e.Index, part)
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
	if left > 0 {
		if err := x.Ctx().Err(); err != nil {
			return err
		}
		return request.ErrNoEnd
	}
	if streams {
		return nil
	}
	wholes := make([]prompt.Part, n)
	for i := range all {
		wholes[i] = all[i].total.Whole()
	}
	b, err := whole(wholes, scores)
	if err == nil {
		w.Whole(http.StatusOK, enc.WholeType(), b)
	}
	return err
}

// single is the only answer to a prompt as one of several.
func single(events iter.Seq2[ask.Event, error]) iter.Seq2[ask.Choice, error] {
	return func(yield func(ask.Choice, error) bool) {
		for e, err := range events {
			if !yield(ask.Choice{Event: e}, err) {
				return
			}
		}
	}
}

// choicesRoom refuses n answers that are more than the key may have today, or than there is room
// for until all are there.
func choicesRoom(x *request.Exchange, n int, streams bool, q *checked) error {
	tokens, told := q.engine.Limit, 0
	if most := q.lease.Info().Context; tokens <= 0 || tokens > most {
		tokens = most
	}
	if err := x.Who().Room(int64(n-1) * int64(tokens)); err != nil || streams {
		return err
	}
	if q.engine.Sampling.Logprobs {
		told = 1 + q.engine.Sampling.TopLogprobs
	}
	return x.ChoicesRoom(n, tokens, told)
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
