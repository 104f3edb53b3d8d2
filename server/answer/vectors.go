package answer

import (
	"errors"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/exchange"
	"github.com/axle-llm/axle/server/ollama"
	"github.com/axle-llm/axle/server/openai"
)

// vectors embeds texts for any dialect; empty input only loads the model.
func (a *Answers) vectors(x *exchange.Exchange, req *api.EmbedRequest, input []string) (api.EmbedResponse, error) {
	start := time.Now()
	out := api.EmbedResponse{Model: req.Model, Embeddings: [][]float32{}}
	q := &checked{common: ollama.Common{Model: req.Model, Unnamed: ollama.ErrMissing(ollama.Missing, req.Model), Options: req.Options,
		KeepAlive: req.KeepAlive}}
	m, err := a.find(x, q, ollama.MissingPull)
	if err != nil {
		return out, err
	}
	if err := ollama.CheckOptions(m.Params, req.Options); err != nil {
		return out, err
	}
	if req.Dimensions < 0 {
		return out, ollama.Fail(http.StatusBadRequest, "dimensions must not be negative, got %d", req.Dimensions)
	}
	numCtx, err := a.acquire(x.Ctx(), q, m)
	if err != nil {
		return out, err
	}
	defer q.release()
	if len(input) == 0 {
		return out, nil
	}
	if err := x.VectorRoom(len(input), q.lease.Info().Hidden); err != nil {
		return out, err
	}
	dims := req.Dimensions
	if dims >= q.lease.Info().Hidden {
		dims = 0 // Ollama gives the whole vector
	}
	res, err := q.lease.Embed(x.Ctx(), ask.EmbedRequest{Input: input, Truncate: req.Truncate == nil || *req.Truncate, Cut: a.cut(x),
		NumCtx: numCtx, Dimensions: dims, Key: x.Owner()})
	var ce *ask.ContextError
	switch {
	case errors.As(err, &ce):
		return out, ollama.Fail(http.StatusBadRequest, "the input length exceeds the context length (%d tokens, the context has %d)",
			ce.Have, ce.Max)
	case err != nil:
		return out, err
	}
	for _, v := range res.Vectors {
		for _, n := range v {
			if f := float64(n); math.IsNaN(f) || math.IsInf(f, 0) {
				return out, ollama.Fail(http.StatusInternalServerError, "embedding contains NaN or Inf values")
			}
		}
	}
	a.Figures.prompt.Add(uint64(res.Prompt))
	x.Who().Count(access.Tokens{Prompt: uint64(res.Prompt)})
	out.Embeddings, out.TotalDuration, out.LoadDuration, out.PromptEvalCount = res.Vectors, time.Since(start), q.load, res.Prompt
	return out, nil
}

// Embed answers /api/embed.
func (a *Answers) Embed(x *exchange.Exchange) {
	var req api.EmbedRequest
	err := x.Decode(&req)
	if err != nil {
		x.Fail(err)
		return
	}
	// Ollama looks at the name's form, then at the input, then for the model.
	var input []string
	if _, err = ollama.ParseRef(req.Model, ollama.ErrMissing(ollama.Missing, req.Model),
		ollama.Fail(http.StatusBadRequest, "invalid model name")); err == nil {
		input, err = ollama.Inputs(req.Input)
	}
	if err != nil {
		x.Fail(err)
		return
	}
	resp, err := a.vectors(x, &req, input)
	if err == nil {
		err = x.Reply().Pour(exchange.JSON, func(w io.Writer) error { return ollama.WriteVectors(w, resp) })
	}
	if err != nil {
		x.Fail(err)
	}
}

// Embeddings answers /api/embeddings, the old form: one prompt, a vector as the model gives it.
func (a *Answers) Embeddings(x *exchange.Exchange) {
	out, err := a.vector(x)
	if err != nil {
		x.Fail(err)
		return
	}
	x.Reply().JSON(http.StatusOK, out)
}

func (a *Answers) vector(x *exchange.Exchange) (*api.EmbeddingResponse, error) {
	var req api.EmbeddingRequest
	if err := x.Decode(&req); err != nil {
		return nil, err
	}
	q := &checked{common: ollama.Common{Model: req.Model, Unnamed: ollama.ErrUnnamed, Options: req.Options, KeepAlive: req.KeepAlive}}
	m, err := a.find(x, q, ollama.MissingPull)
	if err != nil {
		return nil, err
	}
	if err := ollama.CheckOptions(m.Params, req.Options); err != nil {
		return nil, err
	}
	numCtx, err := a.acquire(x.Ctx(), q, m)
	if err != nil {
		return nil, err
	}
	defer q.release()
	out := &api.EmbeddingResponse{Embedding: []float64{}}
	if req.Prompt == "" {
		return out, nil
	}
	res, err := q.lease.Embed(x.Ctx(), ask.EmbedRequest{Input: []string{req.Prompt}, Truncate: true, Cut: a.cut(x), Raw: true,
		NumCtx: numCtx, Key: x.Owner()})
	if err != nil {
		return nil, err
	}
	x.Who().Count(access.Tokens{Prompt: uint64(res.Prompt)})
	for _, v := range res.Vectors[0] {
		out.Embedding = append(out.Embedding, float64(v))
	}
	return out, nil
}

// OpenAIEmbeddings answers /v1/embeddings.
func (a *Answers) OpenAIEmbeddings(x *exchange.Exchange) {
	req, ok := exchange.Read(x, exchange.MaxSmallBody, openai.DecodeEmbeddings)
	if !ok {
		return
	}
	resp, err := a.vectors(x, &api.EmbedRequest{Model: req.Model, Dimensions: req.Dimensions}, req.Input)
	if err == nil {
		err = x.Reply().Pour(exchange.JSONV1, func(w io.Writer) error { return req.Write(w, resp) })
	}
	if err != nil {
		x.Fail(err)
	}
}
