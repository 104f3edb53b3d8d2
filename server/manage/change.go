package manage

import (
	"cmp"
	"errors"
	"net/http"
	"strings"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/request"
)

func (m *Manager) Copy(x *request.Exchange) error {
	var req api.CopyRequest
	if err := x.Decode(&req); err != nil {
		return err
	}
	src, err := models.ParseName(req.Source)
	if err != nil {
		return body.Fail(http.StatusBadRequest, "source %q is invalid", req.Source)
	}
	dst, err := models.ParseName(req.Destination)
	if err != nil {
		return body.Fail(http.StatusBadRequest, "destination %q is invalid", req.Destination)
	}
	done, err := m.claim(dst.Full())
	if err != nil {
		return err
	}
	defer done()
	switch err := m.o.Store.Copy(src, dst); {
	case catalog.NotFound(err):
		return prompt.ErrMissing("model %q not found", req.Source)
	case err != nil:
		return err
	}
	x.Reply().Whole(http.StatusOK, "", nil)
	return nil
}

// claim takes a name for a model to be made. Where deleting is switched off the name must be free,
// since what has it would be replaced, which deletes it, and no other request makes a model of that
// name until done is called.
func (m *Manager) claim(asked string) (done func(), err error) {
	if !m.o.NoDelete {
		return func() {}, nil
	}
	name, err := models.ParseName(asked)
	if err != nil {
		return nil, err
	}
	key := strings.ToLower(name.Full()) // as the store compares names
	if _, taken := m.making.LoadOrStore(key, true); !taken {
		if _, err := m.o.Store.Get(name); errors.Is(err, store.ErrNotFound) {
			return func() { m.making.Delete(key) }, nil
		}
		m.making.Delete(key)
	}
	return nil, body.Fail(http.StatusForbidden,
		"model '%s' exists: deleting models is switched off on this server, and replacing them with it", name)
}

func (m *Manager) Delete(x *request.Exchange) error {
	var req api.DeleteRequest
	if err := x.Decode(&req); err != nil {
		return err
	}
	asked := cmp.Or(req.Model, req.Name)
	ref, err := prompt.ParseRef(asked, prompt.ErrUnnamed, body.Fail(http.StatusBadRequest, "name %q is invalid", asked))
	if err != nil {
		return err
	}
	if ref.Cloud { // never the model here that has the rest of the name
		if ref.Name, err = models.ParseName(asked); err != nil {
			return prompt.ErrMissing(prompt.Missing, asked)
		}
	}
	//rule:T6 ./server TestSwitches false
	if m.o.NoDelete {
		return body.Fail(http.StatusForbidden, "deleting models is switched off on this server")
	}
	e, err := m.o.Store.Get(ref.Name)
	if err != nil { // what cannot be opened can go all the same
		e = &catalog.Entry{Name: ref.Name, Place: ref.Name.Full()}
	}
	switch err := m.o.Store.Delete(ref.Name); {
	case catalog.NotFound(err):
		return prompt.ErrMissing(prompt.Missing, asked)
	case err != nil:
		return err
	}
	m.o.Loaded.Gone(x.Ctx(), e)
	x.Reply().Whole(http.StatusOK, "", nil)
	return nil
}
