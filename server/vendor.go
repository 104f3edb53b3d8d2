package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"go.uber.org/zap"

	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/request"
	"github.com/axle-llm/axle/server/vendor"
)

// ServeVendor answers the vendor's older API on a port of its own, as Serve does the main one.
func (s *Server) ServeVendor(ctx context.Context, ln net.Listener, grace time.Duration) error {
	return s.serve(ctx, ln, grace, s.o.TLS, func(base context.Context) http.Handler { return s.VendorHandler(base, isLoopback(ln.Addr())) })
}

// VendorHandler is that API, on a listener that is loopback's or not. Answers that are polled for
// end with ctx.
func (s *Server) VendorHandler(ctx context.Context, loopback bool) http.Handler {
	v := &vendorAPI{s: s, base: ctx}
	r := s.router(new(vendor.Dialect()), v.table())
	v.guard = s.guarded(loopback, s.o.Keys, r, free(nil))
	return v.guard
}

// table is every route of the vendor's port. own are GETs that change something, as the vendor has
// it.
func (v *vendorAPI) table() []route {
	try := request.Try
	own := func(f func(*request.Exchange) error) gin.HandlerFunc {
		return try(func(x *request.Exchange) error {
			if !v.own(x) {
				return nil
			}
			return f(x)
		})
	}
	return []route{
		{"GET", "/api/stop", access.Ask, plain, own(v.stop)},
		{"POST", "/api/reset", access.Ask, plain, try(v.reset)},
		{"POST", "/api/generate", access.Ask, lasting, try(v.generate)},
		{"GET", "/api/generate_provider", access.Ask, plain, own(v.poll)},
		{"GET", "/api/content", access.Ask, plain, own(v.poll)},
		{"POST", "/api/chat", access.Ask, worked, try(v.chat)},
	}
}

// vendorAPI is one conversation, as the vendor's server has only one; where keys are set, one for
// each.
type vendorAPI struct {
	s        *Server
	guard    *guard
	base     context.Context // of answers that outlive the request that started them
	sessions sync.Map        // of *vendor.Session, by the key's owner
}

// session is the conversation of who asks.
func (v *vendorAPI) session(x *request.Exchange) *vendor.Session {
	key := x.Owner()
	s, ok := v.sessions.Load(key)
	if !ok {
		s, _ = v.sessions.LoadOrStore(key, new(vendor.Session))
	}
	return s.(*vendor.Session)
}

// own refuses what a page elsewhere makes a browser fetch, as an image for one. Over plain http
// browsers send no fetch metadata to an address of the local network, and a page can keep them from
// sending a Referer; what they are they always say. So a browser has to bring a proof that it comes
// from here or from an allowed page, and anything else, curl or a script, need not.
func (v *vendorAPI) own(x *request.Exchange) (ok bool) {
	h := x.Request.Header
	site, from := h.Get("Sec-Fetch-Site"), h.Get("Referer")
	ok = true
	switch {
	case h.Get("Origin") != "": // the guard has looked at it
	case site != "":
		ok = site == "same-origin" || site == "none"
	case from != "":
		u, err := url.Parse(from)
		ok = err == nil && (u.Host == x.Request.Host || v.guard.allows(u.Scheme+"://"+u.Host))
	default:
		ok = !strings.HasPrefix(h.Get("User-Agent"), "Mozilla/")
	}
	if !ok {
		x.AbortWithStatus(http.StatusForbidden)
	}
	return ok
}

func (v *vendorAPI) ok(x *request.Exchange) error {
	x.Reply().Whole(http.StatusOK, request.JSONV1, []byte(vendor.OK))
	return nil
}

func (v *vendorAPI) stop(x *request.Exchange) error {
	v.session(x).Stop()
	return v.ok(x)
}

func (v *vendorAPI) reset(x *request.Exchange) error {
	r, err := request.Read(x, request.MaxBody, vendor.Decode)
	if err == nil {
		err = v.session(x).Reset(r)
	}
	if err != nil {
		return err
	}
	return v.ok(x)
}

func (v *vendorAPI) poll(x *request.Exchange) error {
	p, err := v.session(x).Poll()
	if err == nil {
		x.Reply().JSON(http.StatusOK, p)
	}
	return err
}

// generate starts an answer that is polled for.
func (v *vendorAPI) generate(x *request.Exchange) error {
	r, err := request.Read(x, request.MaxBody, vendor.Decode)
	if err != nil {
		return err
	}
	done, err := x.Who().Begin()
	if err != nil {
		return err
	}
	session := v.session(x)
	ctx, req, err := session.Begin(request.WithKey(v.base, x.Who()), r, false)
	if err != nil {
		done()
		return err
	}
	v.s.active.Add(1) // in addition to the request, which ends before its answer
	go func() {
		defer v.s.active.Add(-1)
		defer done()
		said, err := v.run(ctx, session, req)
		if err = request.Ended(ctx, err); err != nil && errors.Is(context.Cause(ctx), context.Canceled) {
			err = nil // it was stopped
		}
		if err != nil {
			v.s.log.Error("vendor answer", zap.String("error", v.s.shared.Told(err)))
		}
		told := session.End(said, err)
		if v.s.draining.Load() { // who polls may still have the end
			select {
			case <-told:
			case <-time.After(lostLinger):
			case <-v.base.Done():
			}
		}
	}()
	return v.ok(x)
}

// chat answers at once and whole.
func (v *vendorAPI) chat(x *request.Exchange) error {
	r, err := request.Read(x, request.MaxBody, vendor.Decode)
	if err != nil {
		return err
	}
	session := v.session(x)
	ctx, req, err := session.Begin(x.Ctx(), r, true)
	if err != nil {
		return err
	}
	said, err := v.run(ctx, session, req)
	_, _ = session.Poll()
	if err != nil {
		session.Undo()
		return err
	}
	session.End(said, nil)
	x.Reply().JSON(http.StatusOK, vendor.Whole{Done: true, Message: said})
	return nil
}

func (v *vendorAPI) run(ctx context.Context, session *vendor.Session, req *prompt.Request) (said string, err error) {
	err = v.s.shared.Caught(func() error { said, err = v.s.answers.Collect(ctx, req, session.Add); return err })
	return said, err
}
