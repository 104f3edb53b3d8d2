package server

import (
	"cmp"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/request"
)

// work frames each request that does work (promise D10): it is refused while the server ends, and
// else counted, so that the end waits for it. When the grace is over, nothing more of its body is
// waited for either.
func (s *Server) work(c *gin.Context) {
	x := request.Of(c)
	if !s.enter() {
		x.Drain(time.Now().Add(request.DrainTime))
		x.Fail(cmp.Or(s.Lost(), ask.ErrDraining))
		c.Abort()
		return
	}
	defer s.active.Add(-1)
	defer x.Reads()()
	c.Next()
}

// leave is the beginning of the end (promise D10): who asks whether we are well hears no, and all
// work is still taken. A proxy that asks every second has stopped leading clients here when the
// delay is over, and none of them meets a refusal. A card that is lost meanwhile ends it.
// Connections are not kept: what balances connections, and not requests, would lead the next one
// here too.
func (s *Server) leave(tick <-chan time.Time) {
	//rule:D10 TestDrainDelay$ s.leaving.Store(true) => s.draining.Store(true)
	s.leaving.Store(true)
	//rule:D10 TestDrainDelayEnds && s.Lost() == nil =>
	for end := time.Now().Add(s.o.DrainDelay); time.Now().Before(end) && s.Lost() == nil; {
		<-tick
		s.LookAtCards()
	}
}

// refuse takes no more work.
func (s *Server) refuse() {
	s.draining.Store(true)
	if s.o.Ending != nil {
		s.refused.Do(s.o.Ending)
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
