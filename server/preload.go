package server

import (
	"context"

	"go.uber.org/zap"

	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/pool"
	"github.com/axle-llm/axle/server/prompt"
)

// Preload loads models in this order, to stay until memory is needed for others. It returns when
// all are loaded, or with ctx. A model that cannot be loaded is logged, and the others are loaded
// all the same.
func (s *Server) Preload(ctx context.Context, names []string) {
	for _, name := range names {
		err := s.preload(ctx, name)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.log.Error("a model is not preloaded", zap.String("model", name), zap.Error(err))
		default:
			s.log.Info("preloaded", zap.String("model", name))
		}
	}
}

func (s *Server) preload(ctx context.Context, name string) error {
	e, err := catalog.Find(s.store, name, prompt.ErrUnnamed, prompt.MissingPull)
	if err == nil {
		err = e.Runs(name)
	}
	if err != nil {
		return err
	}
	forever := pool.Forever
	lease, err := s.models.Acquire(ctx, e, &forever, prompt.NumCtx(s.o.ContextLength, nil, e.AskedAs(name).Params))
	if err != nil {
		return err
	}
	lease.Release()
	return nil
}
