package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"go.uber.org/zap"

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
	r.GET("/api/stop", v.stop)
	r.POST("/api/reset", v.reset)
	work := r.Group("", s.work(v.fail))
	work.POST("/api/generate", v.generate)
	r.GET("/api/generate_provider", v.poll)
	r.GET("/api/content", v.poll)
	work.POST("/api/chat", v.chat)
	return s.guarded(loopback, r)
}

// vendorAPI is one conversation, as the vendor's server has only one.
type vendorAPI struct {
	s       *Server
	base    context.Context // of answers that outlive the request that started them
	session vendor.Session
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

// stop is a GET that changes something, as the vendor has it: a page elsewhere may not send it.
func (v *vendorAPI) stop(c *gin.Context) {
	if site := c.GetHeader("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		c.AbortWithStatus(http.StatusForbidden)
		return
	}
	v.session.Stop()
	v.ok(c)
}

func (v *vendorAPI) reset(c *gin.Context) {
	r, ok := v.decode(c)
	if !ok {
		return
	}
	if err := v.session.Reset(r); err != nil {
		v.fail(c, err)
		return
	}
	v.ok(c)
}

func (v *vendorAPI) poll(c *gin.Context) {
	p, err := v.session.Poll()
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
	ctx, req, err := v.session.Begin(withKey(v.base, keyOf(c.Request.Context())), r, false)
	if err != nil {
		v.fail(c, err)
		return
	}
	v.s.active.Add(1) // besides the request, which ends before its answer
	go func() {
		defer v.s.active.Add(-1)
		said, err := v.run(ctx, req)
		if err = ended(ctx, err); err != nil && errors.Is(context.Cause(ctx), context.Canceled) {
			err = nil // it was stopped
		}
		if err != nil {
			v.s.log.Error("vendor answer", zap.Error(err))
		}
		told := v.session.End(said, err)
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
	ctx, req, err := v.session.Begin(c.Request.Context(), r, true)
	if err != nil {
		v.fail(c, err)
		return
	}
	said, err := v.run(ctx, req)
	_, _ = v.session.Poll()
	v.session.End(said, nil)
	if err != nil {
		v.fail(c, err)
		return
	}
	v.s.reply(c).json(http.StatusOK, vendor.Whole{Done: true, Message: said})
}

func (v *vendorAPI) run(ctx context.Context, req *ollama.ChatRequest) (said string, err error) {
	err = v.s.caught(func() error { said, err = v.answer(ctx, req); return err })
	return said, err
}

// answer takes one from the model the request names, else from the one that is loaded, else from the first there is that chats.
func (v *vendorAPI) answer(ctx context.Context, req *ollama.ChatRequest) (string, error) {
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
	lease, err := v.s.host.Acquire(ctx, e, nil, 0)
	if err != nil {
		return "", err
	}
	defer lease.Release()
	er, _, err := req.Engine(lease.Sampling(), m)
	if err != nil {
		return "", err
	}
	er.Key = keyOf(ctx)
	var said strings.Builder
	for ev, err := range lease.Chat(ctx, er) {
		if err != nil {
			v.s.lookLost(err)
			return said.String(), err
		}
		said.WriteString(ev.Text)
		v.session.Add(ev.Text)
	}
	return said.String(), nil
}
