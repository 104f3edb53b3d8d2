package answer

import (
	"errors"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/request"
)

// Vectors answers with vectors of texts and pictures.
func (a *Answers) Vectors(decode func([]byte) (*prompt.Vectors, error)) func(*request.Exchange) error {
	return func(x *request.Exchange) error {
		req, err := x.ReadVectors(decode)
		if err != nil {
			return err
		}
		got, err := a.vectors(x, req)
		if err == nil {
			err = x.Reply().Pour(req.Type, func(w io.Writer) error { return req.Write(w, got) })
		}
		return err
	}
}

// vectors embeds texts and pictures; no input only loads the model.
func (a *Answers) vectors(x *request.Exchange, req *prompt.Vectors) (out prompt.Embedded, err error) {
	start := time.Now()
	q := &checked{model: req.Model}
	m, err := a.find(x, q, req.Unnamed, prompt.MissingPull)
	if err != nil {
		return out, err
	}
	if err := req.Check(m); err != nil {
		return out, err
	}
	//rule:T6 ./server TestVectorPictureKeys drop
	if err := x.Who().Pictures(len(req.Images())); err != nil {
		return out, err
	}
	numCtx, err := a.acquire(x.Ctx(), q, m, req.Options, req.KeepAlive)
	if err != nil {
		return out, err
	}
	defer q.release()
	if len(req.Input) == 0 {
		return out, nil
	}
	if err := x.VectorRoom(len(req.Input), q.lease.Info().Hidden); err != nil {
		return out, err
	}
	dims := req.Dimensions
	if dims >= q.lease.Info().Hidden {
		dims = 0 // Ollama gives the whole vector
	}
	res, err := q.lease.Embed(x.Ctx(), ask.EmbedRequest{Input: req.Input, Pictures: req.Pictures, PromptName: req.PromptName,
		Instruction: req.Instruction, Truncate: req.Truncate, NumCtx: numCtx, Dimensions: dims, Raw: req.Raw, Key: x.Owner()})
	var ce *ask.ContextError
	switch {
	case errors.As(err, &ce):
		return out, body.Fail(http.StatusBadRequest, "the input length exceeds the context length (%d tokens, the context has %d)",
			ce.Have, ce.Max)
	case err != nil:
		return out, err
	}
	a.cut(x, res.Cuts...)
	for _, v := range res.Vectors {
		for _, n := range v {
			if f := float64(n); math.IsNaN(f) || math.IsInf(f, 0) {
				return out, body.Fail(http.StatusInternalServerError, "embedding contains NaN or Inf values")
			}
		}
	}
	a.Figures.prompt.Add(uint64(res.Prompt))
	x.Who().Count(access.Tokens{Prompt: uint64(res.Prompt)})
	return prompt.Embedded{Vectors: res.Vectors, Total: time.Since(start), Load: q.load, Prompt: res.Prompt}, nil
}
