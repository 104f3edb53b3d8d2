package server

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/server/anthropic"
	"github.com/axle-llm/axle/server/ollama"
	"github.com/axle-llm/axle/server/openai"
)

// dialectError is the body of an error for a path under /v1/.
func dialectError(path string, code int, text string) []byte {
	if strings.HasPrefix(path, "/v1/messages") {
		return anthropic.ErrorBody(code, text)
	}
	return openai.ErrorBody(code, text)
}

func (s *Server) failV1(c *gin.Context, err error) {
	path := c.Request.URL.Path
	s.failAs(c, err, jsonV1, func(code int, text string) []byte { return dialectError(path, code, text) })
}

// v1body reads a body; one that is empty has OpenAI's and Anthropic's text.
func (s *Server) v1body(c *gin.Context, limit int64) ([]byte, error) {
	b, err := s.body(c, limit)
	if err == nil && len(strings.TrimSpace(string(b))) == 0 {
		err = ollama.Fail(http.StatusBadRequest, "EOF")
	}
	return b, err
}

func (s *Server) openaiChat(c *gin.Context) {
	start := time.Now()
	b, err := s.v1body(c, maxBody)
	var req *openai.Chat
	if err == nil {
		req, err = openai.DecodeChat(b)
	}
	if err == nil {
		err = checkTop(req.Native.TopLogprobs)
	}
	if err != nil {
		s.failV1(c, err)
		return
	}
	enc := &firstToken{ChatEncoder: openai.NewChatEncoder(req), start: start}
	enc.First = func() time.Duration { return enc.took }
	s.chat(c, req.Native, enc)
}

// firstToken notes when the first part of an answer came.
type firstToken struct {
	*openai.ChatEncoder
	start time.Time
	took  time.Duration
}

func (e *firstToken) Saw(now time.Time) {
	if e.took == 0 {
		e.took = now.Sub(e.start)
	}
}

func checkTop(n int) error {
	if n < 0 || n > 20 {
		return ollama.Fail(http.StatusBadRequest, "top_logprobs must be between 0 and 20")
	}
	return nil
}

func (s *Server) openaiCompletions(c *gin.Context) {
	b, err := s.v1body(c, maxSmallBody)
	var req *openai.Completion
	if err == nil {
		req, err = openai.DecodeCompletion(b)
	}
	if err != nil {
		s.failV1(c, err)
		return
	}
	s.generate(c, req.Native, openai.NewCompletionEncoder(req))
}

func (s *Server) openaiEmbeddings(c *gin.Context) {
	b, err := s.v1body(c, maxSmallBody)
	var req *openai.Embeddings
	if err == nil {
		req, err = openai.DecodeEmbeddings(b)
	}
	var resp api.EmbedResponse
	if err == nil {
		resp, err = s.vectors(c, &api.EmbedRequest{Model: req.Model, Dimensions: req.Dimensions}, req.Input)
	}
	if err == nil {
		err = s.reply(c).pour(jsonV1, func(w io.Writer) error { return req.Write(w, resp) })
	}
	if err != nil {
		s.failV1(c, err)
	}
}

func (s *Server) openaiModels(c *gin.Context) {
	list, err := s.list(c.Request.Context())
	var b []byte
	if err == nil {
		b, err = openai.Models(list)
	}
	if err != nil {
		s.failV1(c, err)
		return
	}
	s.reply(c).whole(http.StatusOK, jsonV1, b)
}

func (s *Server) openaiModel(c *gin.Context) {
	id := strings.TrimPrefix(c.Param("model"), "/")
	if id == "" {
		c.Redirect(http.StatusMovedPermanently, "/v1/models")
		return
	}
	resp, err := s.describe(api.ShowRequest{Model: id})
	var b []byte
	if err == nil {
		b, err = openai.Model(*resp, id)
	}
	if err != nil {
		s.failV1(c, err)
		return
	}
	s.reply(c).whole(http.StatusOK, jsonV1, b)
}

// responsesBody reads a body of /v1/responses, and puts in what it names. One that is empty has Ollama's text for these routes.
func (s *Server) responsesBody(c *gin.Context) ([]byte, error) {
	b, err := s.body(c, maxBody)
	if err == nil && len(strings.TrimSpace(string(b))) == 0 {
		err = openai.Control(ollama.Fail(http.StatusBadRequest, "missing request body"))
	}
	if err == nil {
		b, err = s.referred(c, b)
	}
	return b, err
}

// failResponses ends a request to /v1/responses: where its items were not yet read as a request, the error has a code.
func (s *Server) failResponses(c *gin.Context, err error) {
	if errors.As(err, new(openai.ControlError)) {
		s.failAs(c, err, jsonV1, openai.CodedBody)
		return
	}
	s.failV1(c, err)
}

func (s *Server) openaiResponses(c *gin.Context) {
	b, err := s.responsesBody(c)
	var short *openai.Compaction
	var req *openai.Responses
	if err == nil {
		if short, err = openai.DecodeTriggered(b); err == nil && short == nil {
			req, err = openai.DecodeResponses(b)
		}
	}
	switch {
	case err != nil:
		s.failResponses(c, err)
	case short != nil:
		s.compact(c, short)
	default:
		enc := openai.NewResponsesEncoder(req)
		s.chat(c, req.Native, enc)
		s.items.keep(keyOf(c.Request.Context()), enc.Items())
	}
}

func (s *Server) openaiCompact(c *gin.Context) {
	b, err := s.responsesBody(c)
	var req *openai.Compaction
	if err == nil {
		req, err = openai.DecodeCompaction(b)
	}
	if err != nil {
		s.failResponses(c, err)
		return
	}
	s.compact(c, req)
}

// openaiTranscriptions checks the form as Ollama does; no model here hears. It reads no more of it than any request may cost, and keeps
// nothing: what it has to know stands before the sound, or after a short one.
func (s *Server) openaiTranscriptions(c *gin.Context) {
	rc := http.NewResponseController(c.Writer)
	end := time.Now().Add(s.o.ReadTimeout)
	_ = rc.SetReadDeadline(end)
	err := s.transcription(c.Request, &io.LimitedReader{R: c.Request.Body, N: maxSmallBody})
	s.drain(c, rc, end)
	s.failV1(c, err)
}

func (s *Server) transcription(r *http.Request, body *io.LimitedReader) error {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return ollama.Fail(http.StatusBadRequest, "failed to parse multipart form: %s", ollama.Ours(http.ErrNotMultipart.Error()))
	}
	form := multipart.NewReader(body, params["boundary"])
	var name string
	var file bool
	for name == "" || !file {
		p, err := form.NextPart()
		if err == io.EOF { //nolint:errorlint // as NextPart has it
			break
		}
		switch {
		case err != nil && body.N <= 0 && name == "":
			return ollama.Fail(http.StatusBadRequest, "no model here supports audio")
		case err != nil && body.N <= 0:
			return tooLarge(maxSmallBody)
		case err != nil:
			return ollama.Fail(http.StatusBadRequest, "failed to parse multipart form: %s", err)
		case p.FormName() == "file" && p.FileName() != "":
			file = true
		case p.FormName() == "model" && p.FileName() == "" && name == "":
			b, err := io.ReadAll(io.LimitReader(p, 1024)) // longer than any name
			if err != nil {
				return ollama.Fail(http.StatusBadRequest, "failed to parse multipart form: %s", err)
			}
			name = string(b)
		}
	}
	if name == "" {
		return errModelRequired
	}
	if !file {
		return ollama.Fail(http.StatusBadRequest, "file is required: %s", ollama.Ours(http.ErrMissingFile.Error()))
	}
	e, err := s.entry(name, errModelRequired, missingSingle)
	if err == nil {
		err = ollama.Fail(http.StatusBadRequest, "%s does not support audio", e.Name.Full())
	}
	return err
}

func (s *Server) anthropicMessages(c *gin.Context) {
	b, err := s.v1body(c, maxBody)
	var req *anthropic.Request
	if err == nil {
		req, err = anthropic.Decode(b)
	}
	if err != nil {
		s.failV1(c, err)
		return
	}
	s.chat(c, req.Native, anthropic.NewEncoder(req))
}

// anthropicCount counts the tokens a message request's prompt has, with the model's own tokenizer.
func (s *Server) anthropicCount(c *gin.Context) {
	b, err := s.v1body(c, maxBody)
	var req *anthropic.Request
	if err == nil {
		req, err = anthropic.DecodeCount(b)
	}
	n := 0
	if err == nil {
		n, err = s.count(c, req.Native)
	}
	if err != nil {
		s.failV1(c, err)
		return
	}
	s.reply(c).whole(http.StatusOK, jsonV1, anthropic.Count(n))
}

func (s *Server) count(c *gin.Context, req *ollama.ChatRequest) (int, error) {
	e, err := s.entry(req.Model, errModelRequired, missingSingle)
	if err != nil {
		return 0, err
	}
	m := e.model(req.Model)
	if err := req.Check(m); err != nil {
		return 0, err
	}
	if err := s.images(messageImages(req.Messages)); err != nil {
		return 0, err
	}
	if err := checkOptions(m.Params, req.Options); err != nil {
		return 0, err
	}
	lease, _, err := s.acquire(c.Request.Context(), e, nil, 0)
	if err != nil {
		return 0, err
	}
	defer lease.Release()
	er, _, err := req.Engine(lease.Sampling(), m)
	if err == nil {
		err = s.weighText(c, text(er))
	}
	if err != nil {
		return 0, err
	}
	return lease.Count(c.Request.Context(), er)
}
