package local

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/rows"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/pool"
)

// LoaderOptions say where and how models are loaded.
type LoaderOptions struct {
	// Device is what engine.Open takes: one card, or several ("axcl:0,axcl:1" or "axcl:0+axcl:1").
	// They are opened once and shared by all models.
	Device     string
	Card       engine.CardOptions
	Parallel   int        // sequences at once in each model; 0: the engine's default
	MaxQueue   int        // sequences waiting in each model; 0: the engine's default
	Rows       *rows.Disk // where rows are kept; nil: nowhere. The loader does not close it
	CacheRAM   int64      // bytes of this machine's memory that rows of all models may take; 0: none are kept
	Remember   string     // folder where the outcome of probes is kept
	Repeatable bool       // every request is: see engine.OpenOptions.Repeatable
	Head       ask.HeadPlace
	// HeadKnown is told of each model whether this machine's processor may compute its LM head. It
	// must not wait.
	HeadKnown func(model string, h ask.HeadStats)
	// Drafts open the smaller packages that guess for models, by the models' full names.
	Drafts map[string]func() (*models.Package, error)
	// Opened is told once of each card which it is and why.
	Opened func(info axcl.Info, why string)
	// Progress is told of each file loaded.
	Progress func(ask.Progress)
	// Holds is told, of a model on a device that computes in this machine's memory, how many bytes
	// of it the model takes in addition to its weights, which are mapped.
	Holds func(model string, bytes int64)
	// Events, when not nil, returns who is told which blocks of texts a model's caches hold: see
	// engine.OpenOptions.Events.
	Events func(model string) engine.Listener
	// Loaded is told of each model once it is loaded, with what the card was proven to do with it.
	Loaded func(model string, st ask.Stats)
}

// Loader loads entries of a [Models] on the device's cards, which it opens when the first model is
// loaded.
type Loader struct {
	o       LoaderOptions
	memory  *engine.Memory
	prompts prompts

	open   atomic.Pointer[engine.Cards] // cards, for who does not wait
	failed atomic.Pointer[error]        // why the last attempt to open them failed, likewise

	mu    ranked.Mutex[ranked.Loader]
	cards *engine.Cards
	lost  error // the library never came back from opening it: no other request need wait for that
	done  bool
}

// NewLoader makes a loader.
func NewLoader(o LoaderOptions) *Loader { return &Loader{o: o, memory: engine.NewMemory(o.CacheRAM)} }

// Open opens the cards now rather than with the first model.
func (l *Loader) Open() (*engine.Cards, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done {
		return nil, ask.ErrClosed
	}
	if l.cards != nil || l.lost != nil {
		return l.cards, l.lost
	}
	cards, err := engine.OpenCards(l.o.Device, l.o.Card)
	if err != nil {
		if errors.Is(err, axcl.ErrLost) {
			l.lost = err
		}
		l.failed.Store(&err)
		return nil, err
	}
	l.cards = cards
	l.open.Store(cards) // before failed is cleared: Opening is not true a second time
	l.failed.Store(nil)
	for _, c := range cards.Copies {
		if l.o.Opened != nil {
			l.o.Opened(c.Info(), c.Why())
		}
	}
	return cards, nil
}

// Cards implements pool.Carded.
func (l *Loader) Cards() []pool.Card {
	cards := l.open.Load()
	if cards == nil {
		return nil
	}
	out := make([]pool.Card, 0, len(cards.Copies))
	for _, c := range cards.Copies {
		out = append(out, pool.Card{Info: c.Info(), Err: c.Err()})
	}
	return out
}

// Failed implements pool.Failing.
func (l *Loader) Failed() error {
	if p := l.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// Opening implements pool.Opening.
func (l *Loader) Opening() bool { return l.failed.Load() == nil && l.open.Load() == nil }

// Never implements pool.Judge. A model is put on every card, text alone where its encoder has no
// room, and with few slots at need.
func (l *Loader) Never(e *catalog.Entry) error {
	cards := l.open.Load()
	if cards == nil {
		return nil
	}
	m := e.Info.Memory
	for _, c := range cards.Copies {
		if c.Err() != nil {
			continue // the model goes on without it
		}
		if err := c.Never(e.Name.String(), m.Card-m.Encoder-m.States); err != nil {
			return err
		}
	}
	return nil
}

// Load implements pool.Loader.
func (l *Loader) Load(ctx context.Context, e *catalog.Entry) (ask.Model, error) {
	if e.Model == nil {
		return nil, fmt.Errorf("%s has no package", e.Name)
	}
	name := loaded(e)
	o := engine.OpenOptions{Name: name.String(), Parallel: l.o.Parallel, MaxQueue: l.o.MaxQueue, Remember: l.o.Remember, Rows: l.o.Rows,
		CacheRAM:   l.memory,
		Events:     l.o.Events,
		Repeatable: l.o.Repeatable, Head: l.o.Head, Draft: l.o.Drafts[name.Full()], Progress: l.o.Progress}
	if told := l.o.HeadKnown; told != nil {
		o.HeadKnown = func(h ask.HeadStats) { told(o.Name, h) }
	}
	cards, err := l.Open()
	if err != nil {
		return nil, err
	}
	if o.Copies = cards.Copies; len(o.Copies) == 1 {
		o.Card = o.Copies[0]
	}
	p, err := e.Model.OpenAny()
	if err != nil {
		return nil, err
	}
	m, err := engine.OpenAny(ctx, p, o)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	if l.o.Holds != nil {
		held := int64(0)
		for _, c := range cards.Copies {
			if mem := m.Info().Memory; c.Info().Host {
				held += mem.Cache + mem.States + mem.IO
			}
		}
		l.o.Holds(name.Full(), held)
	}
	if l.o.Loaded != nil {
		l.o.Loaded(o.Name, m.Stats())
	}
	return m, nil
}

// Adapted implements pool.Adapting.
func (l *Loader) Adapted(m ask.Model, e *catalog.Entry) ask.Model {
	if own, ok := m.(*engine.Model); ok {
		return engine.Adapted(own, e.Adapter, e.Name.String())
	}
	return m
}

// HandOver implements [pool.Handing].
func (l *Loader) HandOver(ctx context.Context, m ask.Model) (ask.Handed, error) {
	if own, ok := m.(*engine.Model); ok {
		return engine.Handover(ctx, own)
	}
	return ask.Handed{}, nil
}

// Close releases the cards. Close the models first.
func (l *Loader) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done {
		return ask.ErrClosed
	}
	l.done = true
	if l.cards == nil {
		return nil
	}
	return l.cards.Close()
}
