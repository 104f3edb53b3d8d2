package manage

import (
	"errors"
	"net/http"
	"strings"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/request"
)

const maxBlob = 64 << 30

// digest reads a blob's name from the path.
func digest(x *request.Exchange) (models.Digest, error) {
	d, err := models.ParseDigest(x.Param("digest"))
	if err != nil {
		return d, body.Fail(http.StatusBadRequest, "invalid digest format")
	}
	return d, nil
}

func (m *Manager) HasBlob(x *request.Exchange) error {
	d, err := digest(x)
	if err != nil {
		return err
	}
	_, ok, err := m.o.Store.HasBlob(d)
	switch {
	case err != nil:
		return err
	case !ok:
		return body.Fail(http.StatusNotFound, "blob %q not found", x.Param("digest"))
	}
	x.Reply().Whole(http.StatusOK, "", nil)
	return nil
}

func (m *Manager) PutBlob(x *request.Exchange) error {
	d, err := digest(x)
	switch {
	case err != nil:
		return err
	case m.o.NoPull:
		return body.Fail(http.StatusForbidden, "pulling models is switched off on this server, and uploading them with it")
	case x.Request.ContentLength > maxBlob:
		return request.TooLarge(maxBlob)
	}
	code := http.StatusOK
	_, ok, err := m.o.Store.HasBlob(d)
	if err != nil {
		return err
	}
	if !ok {
		slow := x.Slow(maxBlob)
		created, err := m.o.Store.PutBlob(x.Ctx(), d, slow)
		switch {
		case slow.Err != nil:
			return slow.Err
		case errors.Is(err, store.ErrMismatch):
			return body.Fail(http.StatusBadRequest, "%s", strings.TrimPrefix(err.Error(), "models: "))
		case errors.Is(err, store.ErrSpace):
			return request.Error(http.StatusInsufficientStorage, err.Error())
		case err != nil:
			return ofManaging(err)
		case created:
			code = http.StatusCreated
		}
	}
	x.Reply().Whole(code, "", nil)
	return nil
}
