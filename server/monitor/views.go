package monitor

import (
	"context"
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/pool"
	"github.com/axle-llm/axle/server/request"
)

// Options are what [Views] look at. All but Results are set before [New].
type Options struct {
	Store    catalog.Store
	Loaded   *pool.Models
	Keys     bool   // the server has keys: who asks is told apart by them
	Loopback bool   // only this machine can ask
	Bench    bool   // benchmarks may be started though others can ask
	CanPull  bool   // models can be pulled
	Results  string // the folder where results of benchmarks are kept; "": in memory only

	Measure Measure // how a benchmark measures a model; nil: none can be started

	State func() (status string, err error) // ok, starting, draining, lost or no device, and with which error
	Fewer func() []string                   // with which errors cards were lost while others go on
	Rate  func() float64                    // tokens a second that all answers together make now
}

// Views answers the requests under /api/axle. Nothing in it waits for the card, but a benchmark.
type Views struct {
	o       Options
	started time.Time
	streams Streams
	loads   Loads
	bench   *Bench
}

// New makes the views. Close ends a benchmark that runs.
func New(o Options) *Views {
	return &Views{o: o, started: time.Now(), bench: NewBench(o.Results, o.Measure)}
}

// Close ends a benchmark that runs and waits for it.
func (v *Views) Close() { v.bench.Close() }

// Loading takes note of how far a model is on its way to the card.
func (v *Views) Loading(p ask.Progress) { v.loads.Progress(p) }

// Owner is who asks. Error: a bad session.
func (v *Views) Owner(x *request.Exchange) (Owner, error) {
	o, err := OwnerOf(x.Owner(), v.o.Keys, x.Request.Header)
	if err != nil {
		err = request.Error(http.StatusBadRequest, err.Error())
	}
	return o, err
}

// See lists an answer that is no request's. The answer uses the context and calls end when it is
// over.
func (v *Views) See(ctx context.Context, owner Owner, route string) (c context.Context, end func()) {
	c, stream := v.streams.Begin(ctx, owner, route)
	return c, stream.End
}

// Seen frames each request that a model answers: it is listed, and its owner can end it.
func (v *Views) Seen(c *gin.Context) {
	x := request.Of(c)
	owner, err := v.Owner(x)
	if err != nil {
		x.Fail(err)
		c.Abort()
		return
	}
	ctx, stream := v.streams.Begin(x.Ctx(), owner, c.FullPath())
	defer stream.End()
	c.Request = c.Request.WithContext(ctx)
	c.Next()
}

// Stop answers DELETE /api/axle/streams/:id.
func (v *Views) Stop(x *request.Exchange) error {
	owner, err := v.Owner(x)
	if err != nil {
		return err
	}
	switch err := v.streams.Stop(x.Param("id"), owner); {
	case errors.Is(err, ErrOthers):
		return request.Error(http.StatusForbidden, err.Error())
	case errors.Is(err, ErrOver):
		return request.Error(http.StatusNotFound, ErrOver.Error())
	case err != nil:
		return err
	}
	x.Reply().Whole(http.StatusNoContent, "", nil)
	return nil
}

// Known is v, or nil where it is NaN, which JSON cannot say.
func Known(v float64) *float64 {
	if math.IsNaN(v) {
		return nil
	}
	return &v
}
