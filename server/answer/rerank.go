package answer

import (
	"errors"
	"io"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/exchange"
	"github.com/axle-llm/axle/server/ollama"
)

// Rerank answers /api/rerank and /v1/rerank, which differ in their errors' form only.
func (a *Answers) Rerank(x *exchange.Exchange) {
	req, ok := exchange.Read(x, exchange.MaxSmallBody, ollama.DecodeRerank)
	if !ok {
		return
	}
	got, err := a.rank(x, req)
	if err == nil {
		err = x.Reply().Pour(exchange.JSONV1, func(w io.Writer) error { return req.WriteRanked(w, got) })
	}
	if err != nil {
		x.Fail(err)
	}
}

// rank has a model score documents.
func (a *Answers) rank(x *exchange.Exchange, req *ollama.Rerank) (ask.Ranking, error) {
	q := &checked{common: ollama.Common{Model: req.Model, Unnamed: ollama.ErrUnnamed, Options: req.Options, KeepAlive: req.KeepAlive}}
	m, err := a.find(x, q, ollama.MissingPull)
	if err != nil {
		return ask.Ranking{}, err
	}
	if err := ollama.CheckOptions(m.Params, req.Options); err != nil {
		return ask.Ranking{}, err
	}
	text, longest := 0, 0
	for _, d := range req.Documents {
		text, longest = text+len(d), max(longest, len(d))
	}
	if err := x.RerankRoom(len(req.Documents), text, longest, len(req.Query)+len(req.Instruction)); err != nil {
		return ask.Ranking{}, err
	}
	numCtx, err := a.acquire(x.Ctx(), q, m)
	if err != nil {
		return ask.Ranking{}, err
	}
	defer q.release()
	if m.Embedding { // the vectors are there until they are compared
		if err := x.VectorRoom(len(req.Documents)+1, q.lease.Info().Hidden); err != nil {
			return ask.Ranking{}, err
		}
	}
	er := req.Engine()
	er.NumCtx, er.Key, er.Cut = numCtx, x.Owner(), a.cut(x)
	got, err := q.lease.Rerank(x.Ctx(), er)
	var ce *ask.ContextError
	if errors.As(err, &ce) {
		return got, ollama.Fail(400, "the query with a document exceeds the context length (%d tokens, the context has %d)", ce.Have,
			ce.Max)
	}
	a.Figures.prompt.Add(uint64(got.Prompt))
	a.Figures.cached.Add(uint64(got.Cached))
	x.Who().Count(access.Tokens{Prompt: uint64(got.Prompt), Cached: uint64(got.Cached)})
	return got, err
}
