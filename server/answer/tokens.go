package answer

import (
	"net/http"

	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/request"
)

// Tokens answers with the tokens of a request's prompt, by the model's own tokenizer. No card is
// needed for it.
func (a *Answers) Tokens(to prompt.Route) func(*request.Exchange) error {
	return func(x *request.Exchange) error {
		r, enc, err := x.ReadPrompt(to)
		if err != nil {
			return err
		}
		r.Encodes, r.Loads, r.Unloads = true, false, false
		q, err := a.check(x.Ctx(), x, r)
		if err != nil {
			return err
		}
		defer q.release()
		ids, err := q.lease.Tokens(x.Ctx(), q.engine)
		if err != nil {
			return err
		}
		text := func(id int32) string { return q.lease.Detokenize([]int32{id}) }
		b, err := to.Tokens(prompt.Tokens{Request: r, Encoder: enc, Asked: q.engine, IDs: ids, Context: q.lease.Info().Context,
			Text: text})
		if err == nil {
			x.Reply().Whole(http.StatusOK, request.JSONV1, b)
		}
		return err
	}
}

// mostDetokenized is how many tokens one request may turn into text: more than any context holds.
const mostDetokenized = 1 << 16

// Detokenize answers with the text of tokens. encode is the body of the answer.
func (a *Answers) Detokenize(decode func([]byte) (model string, ids []int64, err error), encode func(text string) ([]byte, error),
) func(*request.Exchange) error {
	type asked struct {
		model string
		ids   []int64
	}
	return func(x *request.Exchange) error {
		req, err := request.Read(x, request.MaxSmallBody, func(b []byte) (r asked, err error) {
			r.model, r.ids, err = decode(b)
			return r, err
		})
		if err != nil {
			return err
		}
		if n := len(req.ids); n > mostDetokenized {
			return body.Fail(http.StatusBadRequest, "%d tokens are too many, at most %d may be sent at once", n, mostDetokenized)
		}
		q := &checked{model: req.model}
		m, err := a.find(x, q, prompt.ErrUnnamed, prompt.Missing)
		if err != nil {
			return err
		}
		r := prompt.Request{Encodes: true}
		if err := r.Check(m); err != nil {
			return err
		}
		if q.lease, err = a.o.Loaded.Prompts(x.Ctx(), q.entry); err != nil {
			return err
		}
		defer q.release()
		vocab := int64(q.lease.Info().Vocab)
		ids := make([]int32, len(req.ids))
		for i, id := range req.ids {
			if id < 0 || id >= vocab {
				return body.Fail(http.StatusBadRequest, "token id %d is outside the model's vocabulary of %d", id, vocab)
			}
			ids[i] = int32(id)
		}
		b, err := encode(q.lease.Detokenize(ids))
		if err == nil {
			x.Reply().Whole(http.StatusOK, request.JSONV1, b)
		}
		return err
	}
}
