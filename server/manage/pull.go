package manage

import (
	"cmp"
	"context"
	"net/http"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/request"
)

// Pull answers /api/pull: the server's [catalog.Puller] fetches, and its status lines are the
// answer.
func (m *Manager) Pull(x *request.Exchange) error {
	var req api.PullRequest
	if err := x.Decode(&req); err != nil {
		return err
	}
	asked, invalid := cmp.Or(req.Model, req.Name), body.Fail(http.StatusBadRequest, "invalid model name")
	if _, err := prompt.ParseRef(asked, invalid, invalid); err != nil {
		return err
	}
	if m.o.NoPull || m.o.Puller == nil {
		return body.Fail(http.StatusForbidden, "pulling models is switched off on this server")
	}
	return progress(x, req.Stream, func(ctx context.Context, status func(catalog.Progress)) error {
		done, err := m.claim(asked)
		if err != nil {
			return err
		}
		defer done()
		return m.o.Puller.Pull(ctx, asked, status)
	})
}

// Push answers as Ollama does for a model it cannot push: with a stream that ends in an error.
func (m *Manager) Push(x *request.Exchange) error {
	var req api.PushRequest
	if err := x.Decode(&req); err != nil {
		return err
	}
	asked := cmp.Or(req.Model, req.Name)
	if asked == "" {
		return prompt.ErrUnnamed
	}
	return progress(x, req.Stream, func(_ context.Context, status func(catalog.Progress)) error {
		status(catalog.Progress{Status: "retrieving manifest"})
		if n, err := models.ParseName(asked); err == nil {
			if _, err := m.o.Store.Get(n); catalog.NotFound(err) {
				status(catalog.Progress{Status: "couldn't retrieve manifest"})
				return body.Fail(http.StatusInternalServerError, "open %s: no such file or directory",
					m.o.Store.Dir()+"/manifests/"+n.Path())
			}
		}
		return request.Error(http.StatusInternalServerError, "axle does not push models")
	})
}
