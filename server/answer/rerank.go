package answer

import (
	"errors"
	"io"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/request"
)

// Rerank answers with the documents of a request in the order of their scores.
func (a *Answers) Rerank(decode func([]byte) (*prompt.Rerank, error)) func(*request.Exchange) error {
	return func(x *request.Exchange) error {
		req, err := request.Read(x, request.MaxSmallBody, decode)
		if err != nil {
			return err
		}
		got, err := a.rank(x, req)
		if err == nil {
			err = x.Reply().Pour(request.JSONV1, func(w io.Writer) error { return req.Write(w, got) })
		}
		return err
	}
}

// rank has a model score documents.
func (a *Answers) rank(x *request.Exchange, req *prompt.Rerank) (ask.Ranking, error) {
	q, er := &checked{model: req.Model}, req.Ask
	m, err := a.find(x, q, prompt.ErrUnnamed, prompt.MissingPull)
	if err != nil {
		return ask.Ranking{}, err
	}
	if err := prompt.CheckOptions(m.Params, req.Options); err != nil {
		return ask.Ranking{}, err
	}
	text, longest := 0, 0
	for _, d := range er.Documents {
		text, longest = text+len(d), max(longest, len(d))
	}
	if err := x.RerankRoom(len(er.Documents), text, longest, len(er.Query)+len(er.Instruction)); err != nil {
		return ask.Ranking{}, err
	}
	numCtx, err := a.acquire(x.Ctx(), q, m, req.Options, req.KeepAlive)
	if err != nil {
		return ask.Ranking{}, err
	}
	defer q.release()
	if m.Embedding { // the vectors are there until they are compared
		if err := x.VectorRoom(len(er.Documents)+1, q.lease.Info().Hidden); err != nil {
			return ask.Ranking{}, err
		}
	}
	er.NumCtx, er.Key = numCtx, x.Owner()
	got, err := q.lease.Rerank(x.Ctx(), er)
	var ce *ask.ContextError
	if errors.As(err, &ce) {
		return got, body.Fail(400, "the query with a document exceeds the context length (%d tokens, the context has %d)", ce.Have,
			ce.Max)
	}
	a.cut(x, got.Cuts...)
	a.Figures.prompt.Add(uint64(got.Prompt))
	a.Figures.cached.Add(uint64(got.Cached))
	x.Who().Count(access.Tokens{Prompt: uint64(got.Prompt), Cached: uint64(got.Cached)})
	return got, err
}
