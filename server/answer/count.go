package answer

import (
	"net/http"

	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/request"
)

// Count answers with how many tokens a request's prompt has, by the model's own tokenizer.
func (a *Answers) Count(to prompt.Route) func(*request.Exchange) {
	return func(x *request.Exchange) {
		r, _, ok := x.ReadPrompt(to)
		if !ok {
			return
		}
		q, err := a.check(x.Ctx(), x, r)
		n := 0
		if err == nil {
			defer q.release()
			n, err = q.lease.Count(x.Ctx(), q.engine)
		}
		if err != nil {
			x.Fail(err)
			return
		}
		x.Reply().Whole(http.StatusOK, request.JSONV1, to.Count(n))
	}
}
