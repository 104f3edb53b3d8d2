package answer

import (
	"net/http"

	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/request"
)

// Count answers with how many tokens a request's prompt has, by the model's own tokenizer.
func (a *Answers) Count(to prompt.Route) func(*request.Exchange) error {
	return func(x *request.Exchange) error {
		r, _, err := x.ReadPrompt(to)
		if err != nil {
			return err
		}
		q, err := a.check(x.Ctx(), x, r)
		if err != nil {
			return err
		}
		defer q.release()
		n, err := q.lease.Count(x.Ctx(), q.engine)
		if err == nil {
			x.Reply().Whole(http.StatusOK, request.JSONV1, to.Count(n))
		}
		return err
	}
}
