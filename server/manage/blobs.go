package manage

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/request"
)

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
		slow := &slowBody{x: x, rc: http.NewResponseController(x.Writer), most: m.o.ReadTimeout, left: m.o.ReadTimeout}
		created, err := m.o.Store.PutBlob(x.Ctx(), d, slow)
		switch {
		case slow.err != nil:
			return slow.err
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

// slowBody reads a large body that comes no slower than slowest: waiting uses up the time that is
// left, what comes earns some.
type slowBody struct {
	x          *request.Exchange
	rc         *http.ResponseController
	most, left time.Duration
	n          int64 // how much has come
	err        error // why no more came
}

const (
	slowest = 64 << 10 // bytes a second
	maxBlob = 64 << 30
)

// Announced is how long the client says that the body is, −1 where it does not say.
func (b *slowBody) Announced() int64 { return b.x.Request.ContentLength }

func (b *slowBody) Read(p []byte) (int, error) {
	start := time.Now()
	_ = b.rc.SetReadDeadline(start.Add(b.left))
	if b.err = b.x.Ctx().Err(); b.err != nil { // after the deadline was set: see server.work
		return 0, b.err
	}
	n, err := b.x.Request.Body.Read(p)
	b.left = min(b.left-time.Since(start)+time.Duration(n)*time.Second/slowest, b.most)
	switch b.n += int64(n); {
	case b.n > maxBlob:
		b.err = request.TooLarge(maxBlob)
	case err == io.EOF: //nolint:errorlint // as io.Reader has it
		_ = b.rc.SetReadDeadline(time.Time{}) // it is written out now, however long that takes
		return n, err
	case err != nil:
		b.err = request.Error(http.StatusBadRequest, err.Error())
	}
	return n, b.err
}
