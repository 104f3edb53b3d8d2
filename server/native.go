package server

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/server/ollama"
)

// native encodes answers as Ollama does: lines of JSON.
type native[R any] struct{ stream bool }

func (n native[R]) Streams() bool                    { return n.stream }
func (n native[R]) Type() string                     { return typeNDJSON }
func (n native[R]) Chunk(r R) ([]byte, error)        { return ollama.Line(r) }
func (n native[R]) Whole(r R) ([]byte, error)        { return json.Marshal(r) }
func (n native[R]) WholeType() string                { return jsonNative }
func (n native[R]) Failed(_ int, text string) []byte { return ollama.ErrorBody(text) }
func (n native[R]) Broken(_ int, text string) []byte { return append(ollama.ErrorBody(text), '\n') }
func streams(b *bool) bool                           { return b == nil || *b }
func (s *Server) root(c *gin.Context) {
	s.reply(c).whole(200, "text/plain; charset=utf-8", []byte("Ollama is running"))
}
func (s *Server) version(c *gin.Context) {
	s.reply(c).json(200, map[string]string{"version": s.o.Version})
}
func (s *Server) fail(c *gin.Context, err error) {
	s.failAs(c, err, jsonNative, func(_ int, t string) []byte { return ollama.ErrorBody(t) })
}
func (s *Server) recommendations(c *gin.Context) {
	s.reply(c).json(200, api.ModelRecommendationsResponse{Recommendations: []api.ModelRecommendation{}})
}

// failAs ends a request that has sent nothing with an error.
func (s *Server) failAs(c *gin.Context, err error, kind string, body func(int, string) []byte) {
	err = ended(c.Request.Context(), err)
	code, text := status(err)
	s.note(c, code, err)
	s.reply(c).fail(code, body, body, kind, text)
}

func (s *Server) nativeChat(c *gin.Context) {
	b, err := s.body(c, maxBody)
	if err != nil {
		s.fail(c, err)
		return
	}
	req, err := ollama.DecodeChat(b)
	if err != nil {
		s.fail(c, err)
		return
	}
	s.chat(c, req, native[api.ChatResponse]{streams(req.Stream)})
}

func (s *Server) nativeGenerate(c *gin.Context) {
	b, err := s.body(c, maxBody)
	if err != nil {
		s.fail(c, err)
		return
	}
	req, err := ollama.DecodeGenerate(b)
	if err != nil {
		s.fail(c, err)
		return
	}
	s.generate(c, req, native[api.GenerateResponse]{streams(req.Stream)})
}

// vectors embeds texts for any dialect; empty input only loads the model.
func (s *Server) vectors(c *gin.Context, req *api.EmbedRequest, input []string) (api.EmbedResponse, error) {
	start := time.Now()
	out := api.EmbedResponse{Model: req.Model, Embeddings: [][]float32{}}
	e, err := s.entry(req.Model, notFound(missingSingle, req.Model), missingDouble)
	if err != nil {
		return out, err
	}
	c.Set(ctxModel, e.Name.String())
	m := e.model(req.Model)
	if err := checkOptions(m.Params, req.Options); err != nil {
		return out, err
	}
	if req.Dimensions < 0 {
		return out, ollama.Fail(http.StatusBadRequest, "dimensions must not be negative, got %d", req.Dimensions)
	}
	most := 0
	for _, in := range input {
		most += len(in)
	}
	if err := s.weighText(c, most); err != nil {
		return out, err
	}
	numCtx := s.numCtx(m, req.Options)
	lease, load, err := s.acquire(c.Request.Context(), e, req.KeepAlive, numCtx)
	if err != nil || len(input) == 0 {
		if err == nil {
			lease.Release()
		}
		return out, err
	}
	defer lease.Release()
	if err := s.vectorRoom(c, len(input), lease.Info().Hidden); err != nil {
		return out, err
	}
	dims := req.Dimensions
	if dims >= lease.Info().Hidden {
		dims = 0 // Ollama gives the whole vector
	}
	res, err := lease.Embed(c.Request.Context(), engine.EmbedRequest{Input: input, Truncate: req.Truncate == nil || *req.Truncate, Cut: s.cut(c),
		NumCtx: numCtx, Dimensions: dims, Key: keyOf(c.Request.Context())})
	var ce *engine.ContextError
	switch {
	case errors.As(err, &ce):
		return out, ollama.Fail(http.StatusBadRequest, "the input length exceeds the context length (%d tokens, the context has %d)", ce.Have, ce.Max)
	case err != nil:
		return out, err
	}
	for _, v := range res.Vectors {
		for _, x := range v {
			if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
				return out, ollama.Fail(http.StatusInternalServerError, "embedding contains NaN or Inf values")
			}
		}
	}
	s.metrics.prompt.Add(uint64(res.Prompt))
	out.Embeddings, out.TotalDuration, out.LoadDuration, out.PromptEvalCount = res.Vectors, time.Since(start), load, res.Prompt
	return out, nil
}

func (s *Server) embed(c *gin.Context) {
	var req api.EmbedRequest
	b, err := s.body(c, maxSmallBody)
	if err == nil {
		err = ollama.Decode(b, &req)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	// Ollama looks at the name's form, then at the input, then for the model.
	var input []string
	if _, err = ollama.ParseRef(req.Model, notFound(missingSingle, req.Model), ollama.Fail(http.StatusBadRequest, "invalid model name")); err == nil {
		input, err = ollama.Inputs(req.Input)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	resp, err := s.vectors(c, &req, input)
	if err == nil {
		err = s.reply(c).pour(jsonNative, func(w io.Writer) error { return ollama.WriteVectors(w, resp) })
	}
	if err != nil {
		s.fail(c, err)
	}
}

// embeddings is the old form: one prompt, a vector as the model gives it.
func (s *Server) embeddings(c *gin.Context) {
	var req api.EmbeddingRequest
	b, err := s.body(c, maxSmallBody)
	if err == nil {
		err = ollama.Decode(b, &req)
	}
	if err == nil {
		err = s.weighText(c, len(req.Prompt))
	}
	var e *Entry
	if err == nil {
		e, err = s.entry(req.Model, errModelRequired, missingDouble)
	}
	var lease *Lease
	numCtx := 0
	if err == nil {
		c.Set(ctxModel, e.Name.String())
		m := e.model(req.Model)
		if err = checkOptions(m.Params, req.Options); err == nil {
			numCtx = s.numCtx(m, req.Options)
			lease, _, err = s.acquire(c.Request.Context(), e, req.KeepAlive, numCtx)
		}
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	defer lease.Release()
	out := api.EmbeddingResponse{Embedding: []float64{}}
	if req.Prompt != "" {
		res, err := lease.Embed(c.Request.Context(), engine.EmbedRequest{Input: []string{req.Prompt}, Truncate: true, Cut: s.cut(c), Raw: true, NumCtx: numCtx, Key: keyOf(c.Request.Context())})
		if err != nil {
			s.fail(c, err)
			return
		}
		for _, v := range res.Vectors[0] {
			out.Embedding = append(out.Embedding, float64(v))
		}
	}
	s.reply(c).json(http.StatusOK, out)
}

func (s *Server) cloud(c *gin.Context) {
	s.reply(c).json(http.StatusOK, api.StatusResponse{Cloud: api.CloudStatus{Disabled: true, Source: "env"}})
}

// account answers as Ollama does with its cloud off.
func (s *Server) account(c *gin.Context) {
	s.fail(c, &httpError{http.StatusServiceUnavailable, "account unavailable"})
}

func (s *Server) signout(c *gin.Context) {
	s.fail(c, &httpError{http.StatusUnauthorized, "you are not currently signed in"})
}

func (s *Server) noCloud(what string) gin.HandlerFunc {
	return func(c *gin.Context) {
		b, err := s.body(c, maxSmallBody)
		if err == nil && len(strings.TrimSpace(string(b))) == 0 {
			err = ollama.Fail(http.StatusBadRequest, "missing request body")
		}
		if err == nil {
			err = ollama.Fail(http.StatusForbidden, "ollama cloud is disabled: %s", ollama.Ours(what))
		}
		s.fail(c, err)
	}
}

// recovered turns a panic outside an answer into a status, if that is still possible.
func (s *Server) recovered(c *gin.Context) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if p == http.ErrAbortHandler { //nolint:errorlint // the very value
			panic(p)
		}
		s.log.Error("panic in a handler", anyField(p), stackField())
		if c.Writer.Written() {
			panic(http.ErrAbortHandler) // never an end that looks clean
		}
		err := &httpError{http.StatusInternalServerError, "internal error"}
		if strings.HasPrefix(c.Request.URL.Path, "/v1/") {
			s.failV1(c, err)
		} else {
			s.fail(c, err)
		}
		c.Abort()
	}()
	c.Next()
}
