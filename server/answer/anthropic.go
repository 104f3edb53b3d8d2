package answer

import (
	"net/http"

	"github.com/axle-llm/axle/server/anthropic"
	"github.com/axle-llm/axle/server/exchange"
)

// AnthropicMessages answers /v1/messages.
func (a *Answers) AnthropicMessages(x *exchange.Exchange) {
	if req, ok := exchange.Read(x, exchange.MaxBody, anthropic.Decode); ok {
		a.chat(x, req.Native, anthropic.NewEncoder(req))
	}
}

// AnthropicCount counts the tokens a message request's prompt has, with the model's own tokenizer.
func (a *Answers) AnthropicCount(x *exchange.Exchange) {
	req, ok := exchange.Read(x, exchange.MaxBody, anthropic.DecodeCount)
	if !ok {
		return
	}
	q, err := a.check(x.Ctx(), x, req.Native)
	n := 0
	if err == nil {
		defer q.release()
		n, err = q.lease.Count(x.Ctx(), q.engine)
	}
	if err != nil {
		x.Fail(err)
		return
	}
	x.Reply().Whole(http.StatusOK, exchange.JSONV1, anthropic.Count(n))
}
