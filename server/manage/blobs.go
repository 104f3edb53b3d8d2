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

func (m *Manager) HasBlob(x *request.Exchange) {
	d, err := digest(x)
	if err == nil {
		var ok bool
		if _, ok, err = m.o.Store.HasBlob(d); err == nil && !ok {
			err = body.Fail(http.StatusNotFound, "blob %q not found", x.Param("digest"))
		}
	}
	if err != nil {
		x.Fail(err)
		return
	}
	x.Reply().Whole(http.StatusOK, "", nil)
}

func (m *Manager) PutBlob(x *request.Exchange) {
	d, err := digest(x)
	created := false
	switch {
	case err != nil:
	case m.o.NoPull:
		err = body.Fail(http.StatusForbidden, "pulling models is switched off on this server, and uploading them with it")
	case x.Request.ContentLength > maxBlob:
		err = request.TooLarge(maxBlob)
	default:
		if _, ok, herr := m.o.Store.HasBlob(d); herr != nil || ok {
			err = herr
			break
		}
		slow := &slowBody{x: x, rc: http.NewResponseController(x.Writer), most: m.o.ReadTimeout, left: m.o.ReadTimeout}
		created, err = m.o.Store.PutBlob(x.Ctx(), d, slow)
		switch {
		case slow.err != nil:
			err = slow.err
		case errors.Is(err, store.ErrMismatch):
			err = body.Fail(http.StatusBadRequest, "%s", strings.TrimPrefix(err.Error(), "models: "))
		case errors.Is(err, store.ErrSpace):
			err = request.Error(http.StatusInsufficientStorage, err.Error())
		case err != nil:
			err = ofManaging(err)
		}
	}
	if err != nil {
		x.Fail(err)
		return
	}
	code := http.StatusOK
	if created {
		code = http.StatusCreated
	}
	x.Reply().Whole(code, "", nil)
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
