package server

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/answer"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/immich"
	"github.com/axle-llm/axle/server/request"
	"github.com/axle-llm/axle/vision"
)

// ServeImmich answers as Immich's machine-learning service on a port of its own, as Serve does the
// main one. It knows neither keys nor TLS: all its clients are one client, which may ask.
func (s *Server) ServeImmich(ctx context.Context, ln net.Listener, grace time.Duration) error {
	h := s.ImmichHandler(isLoopback(ln.Addr()))
	return s.serve(ctx, ln, grace, nil, func(context.Context) http.Handler { return h })
}

// ImmichHandler is what that port answers, on a listener that is loopback's or not.
func (s *Server) ImmichHandler(loopback bool) http.Handler {
	v := &immichAPI{s: s}
	h := s.guarded(loopback, nil, s.router(new(immich.Dialect()), v.table()), free(nil))
	key := access.Own("immich")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(request.WithKey(r.Context(), key)))
	})
}

// immichAPI is that port.
type immichAPI struct {
	s    *Server
	said teller // which model answers for a name of Immich's
}

// table is every route of the port.
func (v *immichAPI) table() []route {
	h, try := request.Handler, request.Try
	return []route{
		{"GET", "/", access.Ask, plain, h(func(x *request.Exchange) { x.Reply().Whole(http.StatusOK, immich.Type, []byte(immich.Root)) })},
		{"GET", "/ping", access.Ask, plain, try(v.ping)},
		{"POST", immich.Path, access.Ask, asked, try(v.predict)},
	}
}

// ping says that the service is there. Immich asks another one first where it is not.
func (v *immichAPI) ping(x *request.Exchange) error {
	if state, err := v.s.state(); state != "ok" && state != "starting" {
		return request.Because(http.StatusServiceUnavailable, cmp.Or(err, ask.ErrDraining))
	}
	x.Reply().Whole(http.StatusOK, "text/plain; charset=utf-8", []byte(immich.Pong))
	return nil
}

// predict answers the tasks of a form.
func (v *immichAPI) predict(x *request.Exchange) error {
	defer x.Reads()()
	a, err := v.answer(x)
	if err != nil {
		x.Drain(time.Now().Add(request.DrainTime))
		return err
	}
	b, err := a.Body()
	if err == nil {
		x.Reply().Whole(http.StatusOK, immich.Type, b)
	}
	return err
}

func (v *immichAPI) answer(x *request.Exchange) (a immich.Answer, err error) {
	f, err := answer.OpenPicture(x)
	if err != nil {
		return a, err
	}
	fields, picture, err := f.Whole()
	if err != nil {
		return a, err
	}
	tasks, err := immich.Read(fields["entries"])
	if err != nil {
		return a, err
	}
	text, isText := fields["text"]
	switch sees := tasks.Face != nil || tasks.Clip != nil && tasks.Clip.Visual; {
	case picture == nil && !isText:
		return a, immich.Unprovided()
	case sees && picture == nil:
		return a, body.Fail(http.StatusBadRequest, "the tasks need a picture, and the form has no image")
	case tasks.Clip != nil && !tasks.Clip.Visual && !isText:
		return a, body.Fail(http.StatusBadRequest, "clip's textual needs a text, and the form has no field text")
	}
	if picture != nil {
		h, err := vision.Look(picture, vision.Limits{})
		if err != nil {
			// Nothing of the picture is in it, so the log may have it, where Immich's users look.
			why := body.Ours(strings.TrimPrefix(err.Error(), "vision: "))
			return a, body.Fail(http.StatusBadRequest, "the picture cannot be read: %s", why)
		}
		a.Width, a.Height = h.Width, h.Height
	}
	if c := tasks.Clip; c != nil {
		model, err := v.model(x, c.Model, "gives vectors of pictures and texts", v.s.answers.Searchers)
		if err != nil {
			return a, err
		}
		of, sees := text, []byte(nil)
		if c.Visual {
			of, sees = "", picture
		}
		if a.Clip, err = v.s.answers.Vector(x, model, of, sees); err != nil {
			return a, err
		}
	}
	if t := tasks.Face; t != nil {
		model, err := v.model(x, t.Model, "finds faces in pictures", v.s.answers.FaceFinders)
		if err != nil {
			return a, err
		}
		if a.Faces, err = v.s.answers.Faces(x, model, picture, t.Least); err != nil {
			return a, err
		}
		a.Found = true
	}
	return a, nil
}

// model is the installed one that Immich means by a name, or else the first of those that can. The
// log says which, once an hour for each name.
func (v *immichAPI) model(x *request.Exchange, name, what string, those func(context.Context) ([]*catalog.Entry, error)) (string, error) {
	all, err := those(x.Ctx())
	if err != nil {
		return "", err
	}
	if len(all) == 0 {
		return "", body.Fail(http.StatusNotFound, "no installed model %s: docs/immich.md says which there are", body.Ours(what))
	}
	names := make([]string, len(all))
	for i, e := range all {
		names[i] = e.Name.String()
	}
	i := immich.Match(name, names)
	chosen := all[max(i, 0)]
	if v.said.first(chosen.Name.String() + " " + name) {
		how := "by its name"
		if i < 0 {
			how = "the first that can: none has that name"
		}
		v.s.log.Info("a model answers Immich", zap.String("asked", request.Clip(name)), zap.String("model", chosen.Name.String()),
			zap.String("chosen", how), zap.Int("values", chosen.Info.Hidden))
	}
	return chosen.Name.Full(), nil
}
