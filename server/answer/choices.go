package answer

import (
	"net/http"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/exchange"
	"github.com/axle-llm/axle/server/ollama"
)

// several is an encoder of answers that may have more than one choice.
type several[R any] interface {
	exchange.Encoder[R]
	Candidates() int // how many are written; of 1 there is nothing to choose
	Ranks() bool     // only the likeliest of them are told
	// ChunkOf is the bytes for the next part of a choice; WholeOf the body of all. A score is the
	// mean of the log probabilities of an answer's tokens, where the encoder ranks.
	ChunkOf(i int, part R) ([]byte, error)
	WholeOf(all []R, scores []float64) ([]byte, error)
}

// choice is what is known of one of several answers.
type choice[R any] struct {
	answer *ollama.Answer
	trace  *trace
	add    func(R) // nil where the answer streams
	whole  func() R
}

// choose is run for a request with more than one answer: one prompt, whose answers the engine
// writes together.
func choose[R any](a *Answers, x *exchange.Exchange, r *exchange.Reply, enc several[R], k kind[R], q *checked, start time.Time) error {
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
	all, scores, left := make([]choice[R], n), make([]float64, n), n
	for i := range all {
		c := &all[i]
		c.answer = &ollama.Answer{Model: q.common.Model, Start: start, Load: q.load}
		if c.trace = a.Figures.begin(); i > 0 {
			c.trace.beside()
		}
		if !enc.Streams() {
			c.add, c.whole = k.total()
		}
		defer c.trace.end(c.answer)
	}
	for e, err := range q.lease.Choices(x.Ctx(), q.engine, ask.Several{N: n, Beside: x.Who().Beside}) {
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
		now, c := time.Now(), &all[e.Index]
		c.trace.event(now, e.Event)
		if w, ok := any(enc).(watcher); ok {
			w.Saw(now)
		}
		part := k.part(c.answer, e.Event, now)
		if e.Done != nil {
			left--
			scores[e.Index] = e.Done.Logprob / float64(max(e.Done.Usage.Output, 1))
		}
		if c.add != nil {
			c.add(part)
			continue
		}
		b, err := enc.ChunkOf(e.Index, part)
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
	if left > 0 {
		if err := x.Ctx().Err(); err != nil {
			return err
		}
		return exchange.ErrNoEnd
	}
	if enc.Streams() {
		return nil
	}
	wholes := make([]R, n)
	for i := range all {
		wholes[i] = all[i].whole()
	}
	b, err := enc.WholeOf(wholes, scores)
	if err == nil {
		r.Whole(http.StatusOK, enc.WholeType(), b)
	}
	return err
}
