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

// mayBench is why the request's key may not start benchmarks; nil: it may.
func (v *Views) mayBench(x *request.Exchange) error {
	if !x.Who().May(access.Admin) {
		return request.Forbidden("measuring")
	}
	if v.o.Measure == nil {
		return request.Error(http.StatusForbidden, "this server cannot measure")
	}
	//rule:T19 ./server TestBenchAllowed v.o.Bench || v.o.Loopback => true
	if v.o.Bench || v.o.Loopback {
		return nil
	}
	return request.Error(http.StatusForbidden,
		"benchmarks are off, since others than this machine can ask: axle serve --allow-bench allows them")
}

type viewBenchmark struct {
	Allowed bool      `json:"allowed"`
	Why     string    `json:"why"`
	Running *Running  `json:"running"`
	Error   string    `json:"error"`
	Results []*Result `json:"results"`
}

// Bench answers GET /api/axle/bench.
func (v *Views) Bench(x *request.Exchange) error {
	owner, err := v.Owner(x)
	if err != nil {
		return err
	}
	var out viewBenchmark
	if err := v.mayBench(x); err != nil {
		out.Why = err.Error()
	}
	out.Allowed = out.Why == ""
	out.Running, out.Error, out.Results = v.bench.Tell(owner)
	x.Reply().JSON(http.StatusOK, out)
	return nil
}

// Start answers POST /api/axle/bench.
func (v *Views) Start(x *request.Exchange) error {
	owner, err := v.Owner(x)
	if err != nil {
		return err
	}
	if err := v.mayBench(x); err != nil {
		return err
	}
	var a Ask
	if err := x.Decode(&a); err != nil {
		return err
	}
	e, err := catalog.Find(v.o.Store, a.Model, prompt.ErrUnnamed, prompt.Missing)
	if err == nil {
		err = e.Runs(a.Model)
	}
	if err != nil {
		return err
	}
	a.Model = e.Name.String()
	switch err := v.bench.Start(a, owner, func(ctx context.Context) (*Subject, error) { return v.subject(ctx, e) }); {
	case errors.Is(err, ErrTry):
		return request.Error(http.StatusBadRequest, err.Error())
	case errors.Is(err, ErrRunning):
		return request.Error(http.StatusConflict, err.Error())
	case err != nil:
		return err
	}
	x.Reply().JSON(http.StatusAccepted, map[string]string{"status": "started"})
	return nil
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
func (v *Views) End(x *request.Exchange) error {
	if err := v.mayBench(x); err != nil {
		return err
	}
	if err := v.bench.Stop(); err != nil {
		return request.Error(http.StatusNotFound, err.Error())
	}
	x.Reply().Whole(http.StatusNoContent, "", nil)
	return nil
}
