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

	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/server/ollama"
	"github.com/axle-llm/axle/server/vendor"
)

// ServeVendor answers the vendor's older API on a port of its own, as Serve does the main one.
func (s *Server) ServeVendor(ctx context.Context, ln net.Listener, grace time.Duration) error {
	return s.serve(ctx, ln, grace, func(base context.Context) http.Handler { return s.VendorHandler(base, isLoopback(ln.Addr())) })
}

// VendorHandler is that API, on a listener that is loopback's or not. Answers that are polled for end with ctx.
func (s *Server) VendorHandler(ctx context.Context, loopback bool) http.Handler {
	v := &vendorAPI{s: s, base: ctx}
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.Use(s.logged, s.recovered)
	own := r.Group("", v.own) // GETs that change something, as the vendor has it
	own.GET("/api/stop", v.stop)
	r.POST("/api/reset", v.reset)
	work := r.Group("", s.work(v.fail))
	work.POST("/api/generate", v.generate)
	own.GET("/api/generate_provider", v.poll)
	own.GET("/api/content", v.poll)
	work.POST("/api/chat", v.chat)
	v.guard = s.guarded(loopback, r)
	return v.guard
}

// vendorAPI is one conversation, as the vendor's server has only one; where keys are set, one for each.
type vendorAPI struct {
	s        *Server
	guard    *guard
	base     context.Context // of answers that outlive the request that started them
	sessions sync.Map        // of *vendor.Session, by the key's name
}

// session is the conversation of who asks.
func (v *vendorAPI) session(c *gin.Context) *vendor.Session {
	key := keyOf(c.Request.Context())
	s, ok := v.sessions.Load(key)
	if !ok {
		s, _ = v.sessions.LoadOrStore(key, new(vendor.Session))
	}
	return s.(*vendor.Session)
}

// own refuses what a page elsewhere makes a browser fetch, as an image for one. Over plain http browsers send no fetch metadata to an address of the
// local network, and a page can keep them from sending a Referer; what they are they always say. So a browser has to bring a proof that it comes
// from here or from an allowed page, and anything else, curl or a script, need not.
func (v *vendorAPI) own(c *gin.Context) {
	h := c.Request.Header
	site, from := h.Get("Sec-Fetch-Site"), h.Get("Referer")
	ok := true
	switch {
	case h.Get("Origin") != "": // the guard has looked at it
	case site != "":
		ok = site == "same-origin" || site == "none"
	case from != "":
		u, err := url.Parse(from)
		ok = err == nil && (u.Host == c.Request.Host || v.guard.allows(u.Scheme+"://"+u.Host))
	default:
		ok = !strings.HasPrefix(h.Get("User-Agent"), "Mozilla/")
	}
	if !ok {
		c.AbortWithStatus(http.StatusForbidden)
	}
}

func (v *vendorAPI) fail(c *gin.Context, err error) {
	v.s.failAs(c, err, jsonV1, func(_ int, text string) []byte { return vendor.ErrorBody(text) })
}

func (v *vendorAPI) decode(c *gin.Context) (*vendor.Request, bool) {
	b, err := v.s.body(c, maxBody)
	var r *vendor.Request
	if err == nil {
		r, err = vendor.Decode(b)
	}
	if err != nil {
		v.fail(c, err)
		return nil, false
	}
	return r, true
}

func (v *vendorAPI) ok(c *gin.Context) {
	v.s.reply(c).whole(http.StatusOK, jsonV1, []byte(vendor.OK))
}

func (v *vendorAPI) stop(c *gin.Context) {
	v.session(c).Stop()
	v.ok(c)
}

func (v *vendorAPI) reset(c *gin.Context) {
	r, ok := v.decode(c)
	if !ok {
		return
	}
	if err := v.session(c).Reset(r); err != nil {
		v.fail(c, err)
		return
	}
	v.ok(c)
}

func (v *vendorAPI) poll(c *gin.Context) {
	p, err := v.session(c).Poll()
	if err != nil {
		v.fail(c, err)
		return
	}
	v.s.reply(c).json(http.StatusOK, p)
}

// generate starts an answer that is polled for.
func (v *vendorAPI) generate(c *gin.Context) {
	r, ok := v.decode(c)
	if !ok {
		return
	}
	session := v.session(c)
	ctx, req, err := session.Begin(withKey(v.base, keyOf(c.Request.Context())), r, false)
	if err != nil {
		v.fail(c, err)
		return
	}
	v.s.active.Add(1) // besides the request, which ends before its answer
	go func() {
		defer v.s.active.Add(-1)
		said, err := v.run(ctx, session, req)
		if err = ended(ctx, err); err != nil && errors.Is(context.Cause(ctx), context.Canceled) {
			err = nil // it was stopped
		}
		if err != nil {
			v.s.log.Error("vendor answer", zap.String("error", v.s.told(err)))
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
	v.ok(c)
}

// chat answers at once and whole.
func (v *vendorAPI) chat(c *gin.Context) {
	r, ok := v.decode(c)
	if !ok {
		return
	}
	session := v.session(c)
	ctx, req, err := session.Begin(c.Request.Context(), r, true)
	if err != nil {
		v.fail(c, err)
		return
	}
	said, err := v.run(ctx, session, req)
	_, _ = session.Poll()
	if err != nil {
		session.Undo()
		v.fail(c, err)
		return
	}
	session.End(said, nil)
	v.s.reply(c).json(http.StatusOK, vendor.Whole{Done: true, Message: said})
}

func (v *vendorAPI) run(ctx context.Context, session *vendor.Session, req *ollama.ChatRequest) (said string, err error) {
	err = v.s.caught(func() error { said, err = v.answer(ctx, session, req); return err })
	return said, err
}

// answer takes one from the model the request names, else from the one that is loaded, else from the first there is that chats.
func (v *vendorAPI) answer(ctx context.Context, session *vendor.Session, req *ollama.ChatRequest) (string, error) {
	if req.Model == "" {
		if l := v.s.host.Loaded(); len(l) > 0 {
			req.Model = l[0].Entry.Name.String()
		} else if list, err := v.s.store.List(ctx); err == nil {
			for _, e := range list {
				if !e.Embedding {
					req.Model = e.Name.String()
					break
				}
			}
		}
	}
	e, err := v.s.entry(req.Model, ollama.Fail(http.StatusBadRequest, "Model not init"), missingSingle)
	if err != nil {
		return "", err
	}
	m := e.model(req.Model)
	if err := req.Check(m); err != nil {
		return "", err
	}
	if err := checkOptions(m.Params, req.Options); err != nil {
		return "", err
	}
	lease, err := v.s.host.Acquire(ctx, e, nil, 0)
	if err != nil {
		return "", err
	}
	defer lease.Release()
	er, _, err := req.Engine(lease.Sampling(), m)
	if err == nil {
		err = checkText(text(er))
	}
	if err != nil {
		return "", err
	}
	er.Key = keyOf(ctx)
	er.Cut = func(k engine.Cut) { v.s.noteCut(k, true, "the vendor's API", e.Name.String(), "") }
	var said strings.Builder
	for ev, err := range lease.Chat(ctx, er) {
		if err != nil {
			v.s.lookLost(err)
			return said.String(), err
		}
		said.WriteString(ev.Text)
		session.Add(ev.Text)
	}
	return said.String(), nil
}
