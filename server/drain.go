package server

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/server/exchange"
)

// work frames each request that does work (promise D10): it is refused while the server ends, and else counted, so that the end waits for
// it. When the grace is over, nothing more of its body is waited for either.
func (s *Server) work(c *gin.Context) {
	x := exchange.Of(c)
	if !s.enter() {
		x.Drain(time.Now().Add(exchange.DrainTime))
		x.Fail(cmp.Or(s.Lost(), engine.ErrDraining))
		c.Abort()
		return
	}
	defer s.active.Add(-1)
	var cut sync.WaitGroup
	cut.Add(1)
	stop := context.AfterFunc(c.Request.Context(), func() {
		defer cut.Done()
		x.StopReading()
	})
	defer func() {
		if !stop() {
			cut.Wait() // the next request has this writer
		}
	}()
	c.Next()
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
