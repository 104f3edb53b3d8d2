package answer

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/axle-llm/axle/server/exchange"
	"github.com/axle-llm/axle/server/ollama"
	"github.com/axle-llm/axle/server/openai"
)

// OpenAIChat answers /v1/chat/completions.
func (a *Answers) OpenAIChat(x *exchange.Exchange) {
	start := time.Now()
	req, ok := read(x, exchange.MaxBody, x.BodyV1, openai.DecodeChat)
	if !ok {
		return
	}
	if n := req.Native.TopLogprobs; n < 0 || n > 20 {
		x.Fail(ollama.Fail(http.StatusBadRequest, "top_logprobs must be between 0 and 20"))
		return
	}
	enc := &firstToken{ChatEncoder: openai.NewChatEncoder(req), start: start}
	enc.First = func() time.Duration { return enc.took }
	a.chat(x, req.Native, enc)
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

// OpenAICompletions answers /v1/completions.
func (a *Answers) OpenAICompletions(x *exchange.Exchange) {
	if req, ok := read(x, exchange.MaxSmallBody, x.BodyV1, openai.DecodeCompletion); ok {
		a.generate(x, req.Native, openai.NewCompletionEncoder(req))
	}
}

// responsesBody reads a body of /v1/responses, and puts in what it names. One that is empty has Ollama's text for these routes.
func (a *Answers) responsesBody(x *exchange.Exchange) ([]byte, error) {
	b, err := x.Body(exchange.MaxBody)
	if err == nil && len(strings.TrimSpace(string(b))) == 0 {
		err = openai.Control(ollama.Fail(http.StatusBadRequest, "missing request body"))
	}
	if err == nil {
		b, err = a.referred(x, b)
	}
	return b, err
}

// failResponses ends a request to /v1/responses: where its items were not yet read as a request, the error has a code.
func failResponses(x *exchange.Exchange, err error) {
	if errors.As(err, new(openai.ControlError)) {
		x.FailAs(exchange.Form{Type: exchange.JSONV1, Body: openai.CodedBody}, err)
		return
	}
	x.Fail(err)
}

// OpenAIResponses answers /v1/responses.
func (a *Answers) OpenAIResponses(x *exchange.Exchange) {
	b, err := a.responsesBody(x)
	var short *openai.Compaction
	var req *openai.Responses
	if err == nil {
		if short, err = openai.DecodeTriggered(b); err == nil && short == nil {
			req, err = openai.DecodeResponses(b)
		}
	}
	switch {
	case err != nil:
		failResponses(x, err)
	case short != nil:
		a.compact(x, short)
	default:
		enc := openai.NewResponsesEncoder(req)
		a.chat(x, req.Native, enc)
		a.items.keep(x.Key(), enc.Items())
	}
}

// OpenAICompact answers /v1/responses/compact.
func (a *Answers) OpenAICompact(x *exchange.Exchange) {
	b, err := a.responsesBody(x)
	var req *openai.Compaction
	if err == nil {
		req, err = openai.DecodeCompaction(b)
	}
	if err != nil {
		failResponses(x, err)
		return
	}
	a.compact(x, req)
}
