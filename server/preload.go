package server

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/pool"
	"github.com/axle-llm/axle/server/prompt"
)

// Preload loads models in this order, to stay until memory is needed for others. It returns when
// all are loaded, or with ctx. A model that cannot be loaded is logged, and the others are loaded
// all the same; so is one for which one that is loaded would have to go.
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
	if err := s.fits(e); err != nil {
		return err
	}
	lease, err := s.models.Acquire(ctx, e, new(pool.Forever), prompt.NumCtx(s.o.ContextLength, nil, e.AskedAs(name).Params))
	if err != nil {
		return err
	}
	lease.Release()
	return nil
}

// fits refuses a model for which others would have to go that are loaded.
func (s *Server) fits(e *catalog.Entry) error {
	loaded := s.models.Loaded()
	here := slices.ContainsFunc(loaded, func(r pool.Running) bool { return r.Entry.Key == e.Key })
	if here || len(loaded) == 0 {
		return nil
	}
	var names, stop []string
	for _, r := range loaded {
		names = append(names, r.Entry.Name.String()+" ("+models.HumanBytes(r.Bytes+r.Draft)+")")
		stop = append(stop, "axle stop "+r.Entry.Name.String())
	}
	fix := "leave one of them out of --preload, or stop one and ask for this model (" + strings.Join(stop, ", or ") + ")"
	if s.o.MaxLoaded > 0 && len(loaded) >= s.o.MaxLoaded {
		return fmt.Errorf("--max-loaded-models allows %d, which are loaded: %s; %s", s.o.MaxLoaded, strings.Join(names, ", "), fix)
	}
	free := int64(-1) // on the card that has least: a model is put on each
	for _, c := range s.models.Cards() {
		at := int64(-1)
		switch {
		case c.Err != nil:
		case c.TotalCMM > 0:
			at = c.FreeCMM
		case c.Host && c.TotalMem > 0:
			at = c.FreeMem
		}
		if at >= 0 && (free < 0 || at < free) {
			free = at
		}
	}
	// Where memory is short, a model takes room for few snapshots.
	need := e.Info.Memory.Load - int64(max(e.Info.Slots-axcl.DefaultSlots, 0))*e.Info.StateBytes
	if free < 0 || need <= free {
		return nil
	}
	return fmt.Errorf("it takes %s of card memory while it is loaded, and %s is free beside %s: %s", models.HumanBytes(need),
		models.HumanBytes(free), strings.Join(names, ", "), fix)
}
