package answer

import (
	"net/http"
	"time"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/exchange"
	"github.com/axle-llm/axle/server/ollama"
	"github.com/axle-llm/axle/server/openai"
)

// OpenAIChat answers /v1/chat/completions.
func (a *Answers) OpenAIChat(x *exchange.Exchange) {
	start := time.Now()
	req, ok := exchange.Read(x, exchange.MaxBody, openai.DecodeChat)
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
	if req, ok := exchange.Read(x, exchange.MaxSmallBody, openai.DecodeCompletion); ok {
		enc := openai.NewCompletionEncoder(req)
		k := textKind(req.Native.Logprobs)
		exchange.Answer(x, enc, func(r *exchange.Reply) error { return respond(a, x, r, req.Native, enc, k) })
	}
}

// textKind is generateKind of answers that are text alone: of a token that is not in it, of
// thinking for one, no log probability is told, and none where none was asked for.
func textKind(logprobs bool) kind[api.GenerateResponse] {
	k := generateKind
	k.part = func(a *ollama.Answer, e ask.Event, now time.Time) api.GenerateResponse {
		if e.Text == "" || !logprobs {
			e.Logprobs = nil
		}
		return a.Generate(e, now)
	}
	return k
}

// OpenAIResponses answers /v1/responses.
func (a *Answers) OpenAIResponses(x *exchange.Exchange) {
	var body openai.Body
	req, ok := exchange.Read(x, exchange.MaxBody, referred(a, x, &body, openai.DecodeResponsesBody))
	switch {
	case !ok:
	case req.Compaction != nil:
		a.compact(x, req.Compaction)
	default:
		enc := openai.NewResponsesEncoder(req.Responses, body)
		key := x.Owner()
		enc.Keep = func(items []openai.Item, t *openai.Turn) { a.items.keep(key, items, t) }
		a.chat(x, req.Responses.Native, enc)
	}
}

// OpenAICompact answers /v1/responses/compact.
func (a *Answers) OpenAICompact(x *exchange.Exchange) {
	if req, ok := exchange.Read(x, exchange.MaxBody, referred(a, x, new(openai.Body), openai.DecodeCompaction)); ok {
		a.compact(x, req)
	}
}
