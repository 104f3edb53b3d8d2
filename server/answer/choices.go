package answer

import (
	"net/http"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/request"
)

// choice is what is known of one of several answers.
type choice struct {
	answer *prompt.Answer
	trace  *trace
	total  *prompt.Total // nil where the answer streams
}

// choose is run for a request with more than one answer: one prompt, whose answers the engine
// writes together.
func (a *Answers) choose(x *request.Exchange, w *request.Reply, enc prompt.Several, q *checked, start time.Time) error {
	n, tokens := enc.Candidates(), q.engine.Limit
	if most := q.lease.Info().Context; tokens <= 0 || tokens > most {
		tokens = most
	}
	if err := x.Who().Room(int64(n-1) * int64(tokens)); err != nil {
		return err
	}
	if !enc.Streams() {
		told := 0
		if q.engine.Sampling.Logprobs {
			told = 1 + q.engine.Sampling.TopLogprobs
		}
		if err := x.ChoicesRoom(n, tokens, told); err != nil {
			return err
		}
	}
	q.engine.Sampling.Logprobs = q.engine.Sampling.Logprobs || enc.Ranks()
	all, scores, left := make([]choice, n), make([]float64, n), n
	for i := range all {
		c := &all[i]
		c.answer = &prompt.Answer{Model: q.model, Start: start, Load: q.load}
		if c.trace = a.Figures.begin(); i > 0 {
			c.trace.beside()
		}
		if !enc.Streams() {
			c.total = new(prompt.Total)
		}
		defer c.trace.end(c.answer)
	}
	see, _ := enc.(prompt.Seer)
	for e, err := range q.lease.Choices(x.Ctx(), q.engine, ask.Several{N: n, Beside: x.Who().Beside}) {
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
			part = seen(see, part)
		}
		if e.Done != nil {
			left--
			scores[e.Index] = e.Done.Logprob / float64(max(e.Done.Usage.Output, 1))
		}
		if c.total != nil {
			c.total.Add(part)
			continue
		}
		b, err := enc.ChunkOf(e.Index, part)
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
	if enc.Streams() {
		return nil
	}
	wholes := make([]prompt.Part, n)
	for i := range all {
		wholes[i] = all[i].total.Whole()
	}
	b, err := enc.WholeOf(wholes, scores)
	if err == nil {
		w.Whole(http.StatusOK, enc.WholeType(), b)
	}
	return err
}
