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
func (m *Manager) Pull(x *request.Exchange) {
	var req api.PullRequest
	err := x.Decode(&req)
	asked := cmp.Or(req.Model, req.Name)
	if err == nil {
		invalid := body.Fail(http.StatusBadRequest, "invalid model name")
		_, err = prompt.ParseRef(asked, invalid, invalid)
	}
	if err == nil && (m.o.NoPull || m.o.Puller == nil) {
		err = body.Fail(http.StatusForbidden, "pulling models is switched off on this server")
	}
	if err != nil {
		x.Fail(err)
		return
	}
	progress(x, req.Stream, func(ctx context.Context, status func(catalog.Progress)) error {
		done, err := m.claim(asked)
		if err != nil {
			return err
		}
		defer done()
		return m.o.Puller.Pull(ctx, asked, status)
	})
}

// Push answers as Ollama does for a model it cannot push: with a stream that ends in an error.
func (m *Manager) Push(x *request.Exchange) {
	var req api.PushRequest
	err := x.Decode(&req)
	asked := cmp.Or(req.Model, req.Name)
	if err == nil && asked == "" {
		err = prompt.ErrUnnamed
	}
	if err != nil {
		x.Fail(err)
		return
	}
	progress(x, req.Stream, func(_ context.Context, status func(catalog.Progress)) error {
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
