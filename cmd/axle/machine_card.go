//go:build !scripted

package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server/local"
)

// newMachine opens the store and prepares the card, which is opened with the first model.
func newMachine(o machineOptions) (*machine, error) {
	so := storeOptions()
	if o.models != "" {
		so.Dir = o.models
	}
	so.Paths = append(so.Paths, o.paths...)
	st, err := store.Open(so)
	if err != nil {
		return nil, err
	}
	tellPaths(o.log, st.Paths())
	card := rememberLostCard(st.Dir(), cmp.Or(o.device, os.Getenv("AXLE_DEVICE")), o.log)
	lost := func(err error) {
		card.lost()
		if o.lost != nil {
			o.lost(err)
		}
	}
	memory := setBudget(os.DirFS("/"), os.Getenv, o.log)
	lo := local.LoaderOptions{Holds: memory.holds,
		Device: card.device, CacheRAM: o.cacheRAM, Repeatable: o.repeatable, Head: o.head, Parallel: o.parallel,
		MaxQueue: o.maxQueue,
		Card:     engine.CardOptions{Lost: lost, Fewer: o.fewer, NoSpeculate: o.noSpec, Ending: o.ending},
		Drafts:   map[string]func() (*models.Package, error){},
		Opened: func(i axcl.Info, why string) {
			o.log.Info("card", zap.String("device", i.ID), zap.String("why", why))
			card.opened(i.Kind)
		},
		Progress: logProgress(o.log), Loaded: logProven(o.log),
		HeadKnown: logHead(o.log)}
	if o.events != nil {
		lo.Events = func(model string) engine.Listener { return o.events.Open(model) }
	}
	if say := lo.Progress; o.loading != nil {
		lo.Progress = func(p engine.Progress) { say(p); o.loading(p) }
	}
	for name, draft := range o.drafts {
		n, err := models.ParseName(name)
		if err != nil {
			return nil, errors.Join(usageError("--draft: %q is no model's name", name), st.Close())
		}
		open := func() (*models.Package, error) { return openDraft(st, draft) }
		if err := checkDraft(st, n, open); err != nil {
			return nil, errors.Join(&exitError{code: 2, err: fmt.Errorf("--draft %s=%s: %w", name, draft, err)}, st.Close())
		}
		lo.Drafts[n.Full()] = open
	}
	if st.Dir() != "" {
		lo.Remember = provenDir(st.Dir())
	}
	rowsAt := cmp.Or(o.rows, rowsDir(st.Dir()))
	far, err := o.openRemote()
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	kept, err := o.openRows(rowsAt, far)
	if err != nil {
		return nil, errors.Join(far.close(err), st.Close())
	}
	if lo.Rows = kept; kept != nil {
		st.GiveWay(kept.Yield)
	}
	l := local.NewLoader(lo)
	if !o.noPrune {
		prune(st, o.log)
	}
	leave := guard(st, o.log)
	return &machine{store: local.New(st, local.Options{Rows: rowsAt, Heads: provenDir(st.Dir())}),
		loader: l, puller: newPuller(st), leave: leave, peers: far.server(kept, o), others: far.peers(),
		hello: func() (string, error) {
			cards, err := l.Open()
			if err != nil {
				return "", err
			}
			var why []string
			for _, c := range cards.Copies {
				why = append(why, c.Why())
			}
			return strings.Join(why, "; "), nil
		},
		close: func() error {
			err := l.Close()
			if errors.Is(err, engine.ErrClosed) {
				err = nil
			}
			if kept != nil {
				err = errors.Join(err, kept.Close())
			}
			err = far.close(err)
			return errors.Join(err, leave(), st.Close())
		}}, nil
}

// checkDraft looks whether a package can guess for a model. Where the model is not in the store
// yet, or cannot be opened, only the draft model is looked at: loading the model compares the
// words.
func checkDraft(st *store.Store, n models.Name, draft func() (*models.Package, error)) error {
	if m, err := st.Get(n.Full()); err == nil {
		if p, err := m.Open(); err == nil {
			return errors.Join(engine.CheckDraft(p, draft), p.Close())
		}
	}
	return engine.CheckDraft(nil, draft)
}

// openDraft opens a package by the path of its folder or by its name in the server's store.
func openDraft(st *store.Store, name string) (*models.Package, error) {
	if isFolder, err := folder(name); err != nil {
		return nil, err
	} else if isFolder {
		return models.Open(name)
	}
	m, err := st.Get(name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("%w: fetch it first: axle pull %s", err, name)
	}
	if err != nil {
		return nil, err
	}
	return m.Open()
}

// leftTime is how long what a pull has left waits for the pull to be taken up again.
const leftTime = 24 * time.Hour

// prune frees what pulls left and no pull goes on with.
func prune(st *store.Store, log *zap.Logger) {
	freed, err := st.Prune(leftTime)
	switch {
	case err != nil:
		log.Warn("what pulls left cannot be removed", zap.Error(err))
	case freed > 0:
		log.Info("removed what pulls left", zap.String("freed", models.HumanBytes(freed)))
	}
}

// progressEvery is how often a load is worth a line; files between are told of at the debug level.
const progressEvery = 2 * time.Second

// unknown is a rate that nothing has been measured of yet.
const unknown = "unknown"

// pace is a rate for people.
func pace(bytes float64) string {
	if bytes <= 0 {
		return unknown
	}
	return models.HumanBytes(int64(bytes)) + "/s"
}

// logProgress tells of loads: what is quick is not worth a line.
func logProgress(log *zap.Logger) func(engine.Progress) {
	var told atomic.Int64 // several cards may load at once
	return func(p engine.Progress) {
		if p.Done == 0 {
			told.Store(0)
			free := unknown
			if p.Free > 0 {
				free = models.HumanBytes(p.Free)
			}
			log.Info("a load begins", zap.String("model", p.Model), zap.String("memory_needed", models.HumanBytes(p.Needs)),
				zap.String("memory_free", free))
			return
		}
		say, last := log.Debug, time.Duration(told.Load())
		if p.Elapsed-last >= progressEvery || last > 0 && p.Done == p.Total {
			told.Store(int64(p.Elapsed))
			say = log.Info
		}
		say("loading", zap.String("model", p.Model), zap.String("file", p.File), zap.Int("done", p.Done), zap.Int("total", p.Total),
			zap.Duration("elapsed", p.Elapsed.Round(time.Millisecond)), zap.Duration("left", p.Left.Round(time.Millisecond)),
			zap.String("disk", pace(p.Rates.Disk)), zap.String("card", pace(p.Rates.Card)),
			zap.String("held_by", cmp.Or(p.Rates.Held, unknown)))
	}
}

// logProven tells what follows from what the card was proven to do with a model: a warning where
// the model is slower than it could be.
func logProven(log *zap.Logger) func(model string, st engine.Stats) {
	return func(model string, st engine.Stats) {
		if wide, has := st.Proven["wide"]; has && !wide {
			log.Warn(engine.NoWidePasses, zap.String("model", model))
		}
		kept, has := st.Proven["kept"]
		if !has { // no layer keeps a state
			return
		}
		say, prompts, turns := log.Info, "in chunks", "go on from snapshots"
		switch {
		case !st.Proven["chunk"]:
			say, prompts = log.Warn, "row by row: this card gets chunks wrong"
		case st.Proven["stepped"]:
			say, prompts = log.Warn, "in chunks, but row by row in layers that keep a state: this card gets those wrong"
		}
		if !kept {
			say, turns = log.Warn, "are evaluated from the beginning: this card changes states that others go on from"
		}
		say("layers keep a state", zap.String("model", model), zap.String("prompts_go", prompts), zap.String("turns", turns),
			zap.Int("states_on_the_card", st.Slots))
	}
}

// logHead tells where a model's LM head is computed, and why not on this machine's processor.
func logHead(log *zap.Logger) func(model string, h engine.HeadStats) {
	return func(model string, h engine.HeadStats) {
		log.Info("LM head", zap.String("model", model), zap.String("computed_on", h.String()))
	}
}

// guard looks after the store's files while the server lives, and after one that did not end in
// order (promise D12).
func guard(st *store.Store, log *zap.Logger) (leave func() error) {
	leave, err := st.Guard(store.GuardOptions{
		Unclean: func() {
			log.Warn("the last server did not end in order: all models are hashed in the background")
		},
		Rotten: func(model string, err error) {
			log.Error("a file of a model is rotten: it is not loaded any more", zap.String("model", model), zap.Error(err))
		},
		Unhashed: func(model string) {
			log.Warn("a file of a model is not as it was when it was last hashed: it is hashed in the background",
				zap.String("model", model))
		},
		Unread: func(model string, err error) {
			log.Error("a file of a model cannot be read, so whether it is sound is not known: the next server tries again",
				zap.String("model", model), zap.Error(err))
		},
		Checked: func(models int, bytes int64) {
			log.Info("the models were hashed", zap.Int("models", models), zap.Int64("bytes", bytes))
		}})
	if err != nil {
		log.Warn("the store cannot be watched: after a power cut run axle verify", zap.Error(err))
		return func() error { return nil }
	}
	return leave
}
