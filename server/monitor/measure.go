package monitor

import (
	"context"
	"errors"
	"net/http"

	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/request"
)

// mayBench says whether the request's key may start benchmarks, and why not.
func (v *Views) mayBench(x *request.Exchange) (bool, string) {
	if !x.Who().May(access.Admin) {
		return false, request.Forbidden("measuring").Error()
	}
	if v.o.Measure == nil {
		return false, "this server cannot measure"
	}
	//rule:T19 ./server TestBenchAllowed v.o.Bench || v.o.Loopback => true
	if v.o.Bench || v.o.Loopback {
		return true, ""
	}
	return false, "benchmarks are off, since others than this machine can ask: axle serve --allow-bench allows them"
}

type viewBenchmark struct {
	Allowed bool      `json:"allowed"`
	Why     string    `json:"why"`
	Running *Running  `json:"running"`
	Error   string    `json:"error"`
	Results []*Result `json:"results"`
}

// Bench answers GET /api/axle/bench.
func (v *Views) Bench(x *request.Exchange) {
	owner, err := v.owner(x)
	if err != nil {
		x.Fail(err)
		return
	}
	var out viewBenchmark
	out.Allowed, out.Why = v.mayBench(x)
	out.Running, out.Error, out.Results = v.bench.Tell(owner)
	x.Reply().JSON(http.StatusOK, out)
}

// Start answers POST /api/axle/bench.
func (v *Views) Start(x *request.Exchange) {
	owner, err := v.owner(x)
	if ok, why := v.mayBench(x); err == nil && !ok {
		err = request.Error(http.StatusForbidden, why)
	}
	var a Ask
	if err == nil {
		err = x.Decode(&a)
	}
	var e *catalog.Entry
	if err == nil {
		e, err = catalog.Find(v.o.Store, a.Model, prompt.ErrUnnamed, prompt.Missing)
	}
	if err == nil {
		err = e.Runs(a.Model)
	}
	if err == nil {
		a.Model = e.Name.String()
		switch err = v.bench.Start(a, owner, func(ctx context.Context) (*Subject, error) { return v.subject(ctx, e) }); {
		case errors.Is(err, ErrTry):
			err = request.Error(http.StatusBadRequest, err.Error())
		case errors.Is(err, ErrRunning):
			err = request.Error(http.StatusConflict, err.Error())
		}
	}
	if err != nil {
		x.Fail(err)
		return
	}
	x.Reply().JSON(http.StatusAccepted, map[string]string{"status": "started"})
}

// subject takes a model to be measured.
func (v *Views) subject(ctx context.Context, e *catalog.Entry) (*Subject, error) {
	l, err := v.o.Loaded.Acquire(ctx, e, nil, 0)
	if err != nil {
		return nil, err
	}
	sub := &Subject{Model: l.Model, Name: e.Name.String(), Digest: e.Digest, Release: l.Release, Others: v.streams.Answering}
	for _, card := range v.cards(v.o.Loaded.Loaded()) {
		if card.Device == l.Info().Device {
			sub.Card, sub.Driver = card.Name, card.Driver
		}
	}
	return sub, nil
}

// End answers DELETE /api/axle/bench.
func (v *Views) End(x *request.Exchange) {
	err := error(nil)
	if ok, why := v.mayBench(x); !ok {
		err = request.Error(http.StatusForbidden, why)
	} else if err = v.bench.Stop(); err != nil {
		err = request.Error(http.StatusNotFound, err.Error())
	}
	if err != nil {
		x.Fail(err)
		return
	}
	x.Reply().Whole(http.StatusNoContent, "", nil)
}
