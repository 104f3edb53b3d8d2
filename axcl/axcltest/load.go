package axcltest

import (
	"context"

	"github.com/axle-llm/axle/axcl"
)

// LoadSteps is the loader of a test's device: step is called with 0, 1, … until it gives a model,
// or an error. The order is what axcl.Loader.Order gives; a loader of one step, without files, has
// none.
func LoadSteps(order []int, step func(ctx context.Context, n int) (axcl.Model, error)) axcl.Loader {
	return &stepLoader{order: order, step: step}
}

type stepLoader struct {
	order []int
	step  func(ctx context.Context, n int) (axcl.Model, error)
	n     int
	model axcl.Model
	over  bool
}

func (l *stepLoader) Order() []int      { return l.order }
func (l *stepLoader) Model() axcl.Model { return l.model }

func (l *stepLoader) Next(ctx context.Context) (bool, error) {
	if l.over {
		return false, axcl.ErrClosed
	}
	m, err := l.step(ctx, l.n)
	l.n++
	l.model, l.over = m, m != nil || err != nil
	return m != nil, err
}

func (l *stepLoader) Close() error {
	if l.over {
		return axcl.ErrClosed
	}
	l.over = true
	return nil
}

// LoadAs is a device's loader whose model is what a test makes of it.
func LoadAs(l axcl.Loader, err error, as func(axcl.Model) axcl.Model) (axcl.Loader, error) {
	if err != nil {
		return nil, err
	}
	return &asLoader{Loader: l, as: as}, nil
}

type asLoader struct {
	axcl.Loader
	as    func(axcl.Model) axcl.Model
	model axcl.Model
}

func (l *asLoader) Next(ctx context.Context) (bool, error) {
	done, err := l.Loader.Next(ctx)
	if done && err == nil {
		l.model = l.as(l.Loader.Model())
	}
	return done, err
}

func (l *asLoader) Model() axcl.Model { return l.model }
