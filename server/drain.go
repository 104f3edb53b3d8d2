package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine"
)

// errDrained is why what still runs is ended when the grace is over.
var errDrained = errors.New("the server is shutting down")

// work frames each request that does work (promise D10): it is refused while the server ends, and else counted, so that the end waits for it.
// When the grace is over, nothing more of its body is waited for either.
func (s *Server) work(fail func(*gin.Context, error)) gin.HandlerFunc {
	return func(c *gin.Context) {
		rc := http.NewResponseController(c.Writer)
		if !s.enter() {
			s.drain(c, rc, time.Now().Add(drainTime))
			fail(c, cmp.Or(s.Lost(), engine.ErrDraining))
			c.Abort()
			return
		}
		defer s.active.Add(-1)
		cut := make(chan struct{})
		stop := context.AfterFunc(c.Request.Context(), func() {
			defer close(cut)
			_ = rc.SetReadDeadline(time.Now())
		})
		defer func() {
			if !stop() {
				<-cut // the next request has this writer
			}
		}()
		c.Next()
	}
}

// enter counts a piece of work, unless the server ends.
func (s *Server) enter() bool {
	s.active.Add(1)
	if s.draining.Load() {
		s.active.Add(-1)
		return false
	}
	return true
}

// ended is what to tell of err: that we ended the work, where it was not the client.
func ended(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errDrained) && !errors.Is(err, axcl.ErrLost) {
		return engine.ErrDraining
	}
	return err
}
