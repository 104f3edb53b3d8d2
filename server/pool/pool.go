// Package pool holds the models that are on the cards: it loads on demand, once for however many
// ask, keeps a model as long as its requests said, and unloads the least recently used idle one
// where memory or a place is needed.
//
// All methods of [Models] may be called from any goroutine; the caller that makes it closes it. It
// knows nothing of HTTP.
package pool

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/server/catalog"
)

// Forever is the keep_alive of a model that stays.
const Forever = time.Duration(math.MaxInt64)

// ErrQueueFull is more requests waiting for a model to be loaded than the queue holds.
var ErrQueueFull = errors.New("server busy, please try again.  maximum pending requests exceeded")

// Loader puts models on the card.
type Loader interface {
	// Load opens an entry's package on the card. An error that is axcl.ErrMemory makes [Models]
	// unload an idle model and try again.
	Load(ctx context.Context, e *catalog.Entry) (ask.Model, error)
}

// Adapting is a Loader whose models may have LoRA adapters.
type Adapting interface {
	// Adapted is a loaded model that computes with e.Adapter. It shares all that m has, and is not
	// to be closed.
	Adapted(m ask.Model, e *catalog.Entry) ask.Model
}

// Judge is a [Loader] that can tell, without loading it, that a model does not fit even where no
// other is loaded.
type Judge interface {
	Never(e *catalog.Entry) error
}

// Prompter is a [Loader] that can also open a model for its prompts alone, without a card.
type Prompter interface {
	// Prompts opens an entry's package. The model may be used for as long as it is kept, and is not
	// closed.
	Prompts(ctx context.Context, e *catalog.Entry) (ask.Model, error)
}

// Options bound [Models].
type Options struct {
	KeepAlive   time.Duration // how long an idle model stays
	MaxLoaded   int           // most models at once; 0: as many as fit
	MaxQueue    int           // most requests waiting for a load
	LoadTimeout time.Duration // longest a load may take
	// Handed is told what each model handed over when everything is closed; it may be nil.
	Handed func(model string, n ask.Handed, err error)
}

// Models are the loaded models. Close unloads everything.
type Models struct {
	o      Options
	loader Loader

	mu      ranked.Mutex[ranked.Host]
	slots   map[string]*slot // by Entry.Key
	leaving map[*slot]bool   // retired and still in use
	dying   int              // models being closed
	loading int              // models being loaded, those that wait for room left out
	waiting int              // requests that wait for a load
	closed  bool
	end     context.Context  // of Close, once it was called
	wrong   map[string]error // by name, why a model was not loaded whose answers were not what they should be; gone once it is
	changed chan struct{}    // closed when something is released, unloaded or loaded; nil: none waits for that
	loads   sync.WaitGroup
}

// slot is one model, loading or loaded. Its fields are guarded by Models.mu, model and err also by
// ready.
type slot struct {
	entry   *catalog.Entry
	ready   chan struct{}
	model   ask.Model
	err     error
	cancel  context.CancelFunc // of its load
	refs    int
	want    int // requests that wait for it to be ready, and have not taken it yet
	numCtx  int
	keep    time.Duration
	used    time.Time
	expires time.Time
	timer   *time.Timer
	retired bool      // unload as soon as nothing uses it
	since   time.Time // when its load was asked for
	waits   bool      // its load waits for room
}

// New makes Models that loads through loader.
func New(loader Loader, o Options) *Models {
	if o.LoadTimeout <= 0 {
		o.LoadTimeout = 5 * time.Minute
	}
	return &Models{o: o, loader: loader, slots: map[string]*slot{}, leaving: map[*slot]bool{}}
}

// Lease is a loaded model in use. Release it once.
type Lease struct {
	ask.Model
	of    *Models
	s     *slot // nil: the model is on no card
	looks bool  // the model is not used in a way that keeps it loaded
	once  sync.Once
}

// Release gives the model back; its keep_alive runs from now, unless it came from [Models.Prompts].
func (l *Lease) Release() {
	if l.s != nil {
		l.once.Do(func() { l.of.release(l.s, l.looks) })
	}
}

// Prompts returns the entry's model for who wants its prompts and no answer. That is the loaded
// one, which stays no longer for it, else one without a card where the loader has that
// ([Prompter]). Nothing is loaded or unloaded for it then. Errors: as [Models.Acquire].
func (ms *Models) Prompts(ctx context.Context, e *catalog.Entry) (*Lease, error) {
	p, ok := ms.loader.(Prompter)
	if !ok {
		return ms.Acquire(ctx, e, nil, 0)
	}
	ms.mu.Lock()
	if s := ms.find(e.Key); s != nil && s.model != nil && !ms.closed {
		s.refs++
		ms.mu.Unlock()
		return &Lease{Model: s.model, of: ms, s: s, looks: true}, nil
	}
	ms.mu.Unlock()
	m, err := p.Prompts(ctx, e)
	if err != nil {
		return nil, err
	}
	return &Lease{Model: m}, nil
}

// Acquire returns the entry's model, loading it first if need be. keep is how long it stays
// afterwards, nil for the server's own; numCtx is what the request asked for, 0 for nothing.
// Errors: [ErrQueueFull], ask.ErrDraining, the loader's, ctx's.
func (ms *Models) Acquire(ctx context.Context, e *catalog.Entry, keep *time.Duration, numCtx int) (*Lease, error) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	counted := false
	defer func() {
		if counted {
			ms.waiting--
		}
	}()
	// Ollama's queue holds MaxQueue in addition to the one that is being served.
	full := func() bool { return !counted && ms.o.MaxQueue > 0 && ms.waiting > ms.o.MaxQueue }
	wait := func(ch <-chan struct{}) error {
		if !counted {
			if full() {
				return ErrQueueFull
			}
			ms.waiting++
			counted = true
		}
		ms.mu.Unlock()
		defer ms.mu.Lock()
		select {
		case <-ch:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for {
		if ms.closed {
			return nil, ask.ErrDraining
		}
		s := ms.find(e.Key)
		if s == nil {
			if full() {
				return nil, ErrQueueFull // before anything is unloaded or loaded for it
			}
			if ms.o.MaxLoaded > 0 && len(ms.slots) >= ms.o.MaxLoaded {
				if j, ok := ms.loader.(Judge); ok {
					if err := j.Never(e); err != nil {
						return nil, err
					}
				}
				if v := ms.idle(); v != nil {
					ms.unload(v)
				} else if err := wait(ms.changing()); err != nil {
					return nil, err
				}
				continue
			}
			s = ms.start(e)
		}
		select {
		case <-s.ready:
		default:
			s.want++
			err := wait(s.ready)
			s.want--
			if err != nil {
				if s.model != nil && s.refs == 0 && s.want == 0 {
					ms.arm(s) // the last who wanted it is gone
					ms.change()
				}
				return nil, err
			}
		}
		if s.err != nil {
			return nil, s.err
		}
		if s.model == nil {
			continue // all was closed
		}
		ms.take(s, e, keep, numCtx) // also one that was retired meanwhile: it was kept for us
		m := s.model
		if a, ok := ms.loader.(Adapting); ok && e.Adapter != "" {
			m = a.Adapted(m, e)
		}
		return &Lease{Model: m, of: ms, s: s}, nil
	}
}

// find is the slot with a key. One that is to go serves those that come as long as it is in use: a
// second copy would take its memory again.
func (ms *Models) find(key string) *slot {
	if s := ms.slots[key]; s != nil {
		return s
	}
	for s := range ms.leaving {
		if s.entry.Key == key {
			return s
		}
	}
	return nil
}

func (ms *Models) take(s *slot, e *catalog.Entry, keep *time.Duration, numCtx int) {
	s.refs++
	s.entry = e
	if keep != nil { // who does not say leaves it as it is, as in Ollama
		s.keep = *keep
	}
	most := s.model.Info().Context
	if s.numCtx = numCtx; numCtx <= 0 || numCtx > most {
		s.numCtx = most
	}
	s.used = time.Now()
	s.expires = expiry(s.used, s.keep)
}

func expiry(now time.Time, keep time.Duration) time.Time { return now.Add(max(keep, 0)) }

// start begins to load e. What was loaded from the same place before has changed on disk and goes.
func (ms *Models) start(e *catalog.Entry) *slot {
	for _, old := range ms.slots {
		if old.entry.Place == e.Place {
			ms.retire(old)
		}
	}
	s := &slot{entry: e, ready: make(chan struct{}), keep: ms.o.KeepAlive, since: time.Now()}
	ctx, cancel := context.WithTimeout(context.Background(), ms.o.LoadTimeout)
	s.cancel = cancel
	ms.slots[e.Key] = s
	ms.loads.Go(func() {
		defer cancel()
		m, err := ms.load(ctx, e, s)
		ms.mu.Lock()
		defer ms.mu.Unlock()
		if s.model = m; err != nil {
			if ms.closed && errors.Is(err, context.Canceled) {
				err = ask.ErrDraining
			}
			s.err = err
			delete(ms.slots, e.Key)
		} else if s.used = time.Now(); s.want == 0 || ms.closed {
			ms.arm(s)
		}
		close(s.ready)
		ms.change()
	})
	return s
}

// load makes room as long as the model is foreseen not to fit and there is something to unload or
// to wait for: what is in use, or is loaded by others now, will be idle some time. Where the card
// says in the middle of a load that it is full, an idle model goes and the load is tried once more
// (promise D3): every trial takes the time of a load from those that are served.
func (ms *Models) load(ctx context.Context, e *catalog.Entry, s *slot) (ask.Model, error) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	for again := false; ; {
		if ms.closed {
			return nil, ask.ErrDraining
		}
		changed := ms.changing() // from before the trial: what changes during it makes another one worth while
		ms.loading++
		ms.mu.Unlock()
		m, err := ms.loader.Load(ctx, e)
		ms.mu.Lock()
		ms.loading--
		if err == nil || !errors.Is(err, axcl.ErrMemory) {
			ms.believed(e.Name.String(), err)
			return m, err
		}
		var me *ask.MemoryError
		foreseen := errors.As(err, &me)
		//rule:D3 TestNeverFits false
		if foreseen && me.Never {
			return nil, err // others would go, or be waited for, in vain
		}
		//rule:D3 TestHostHammer || ms.loading > 0 =>
		v, busy := ms.idle(), ms.dying > 0 || len(ms.leaving) > 0 || ms.loading > 0
		if !foreseen && (again || v == nil && ms.dying == 0) {
			return nil, err
		}
		//rule:D3 TestHost drop
		again = again || !foreseen
		for _, other := range ms.slots {
			busy = busy || other.refs > 0 || other.model != nil && other.want > 0
		}
		if v != nil {
			ms.unload(v)
			busy = true
		}
		if !busy {
			select {
			case <-changed:
				continue
			default:
				return nil, err
			}
		}
		s.waits = true
		ms.mu.Unlock()
		select {
		case <-changed:
			ms.mu.Lock()
		case <-ctx.Done():
			if ms.mu.Lock(); !ms.closed {
				return nil, err
			}
		}
		s.waits = false
	}
}

// believed notes whether the card's answers were what they should be. ms.mu is held.
func (ms *Models) believed(name string, err error) {
	switch {
	//rule:D6 ./server TestComparedIsTold false
	case errors.Is(err, ask.ErrWrong):
		if ms.wrong == nil {
			ms.wrong = map[string]error{}
		}
		ms.wrong[name] = err
	case err == nil:
		delete(ms.wrong, name)
	}
}

// idle is the least recently used model that nothing uses, or nil.
func (ms *Models) idle() *slot {
	var v *slot
	for _, s := range ms.slots {
		if s.model != nil && s.refs == 0 && s.want == 0 && (v == nil || s.used.Before(v.used)) {
			v = s
		}
	}
	return v
}

func (ms *Models) release(s *slot, looked bool) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	s.refs--
	if !looked {
		s.used = time.Now()
		s.expires = expiry(s.used, s.keep)
	}
	if s.refs == 0 && s.want == 0 {
		ms.arm(s)
	}
	ms.change()
}

// arm starts the clock of an idle model.
func (ms *Models) arm(s *slot) {
	if s.retired || s.keep <= 0 || ms.closed {
		ms.unload(s)
		return
	}
	s.expires = expiry(s.used, s.keep)
	switch {
	case s.keep >= Forever:
	case s.timer != nil:
		s.timer.Reset(time.Until(s.expires))
	default:
		s.timer = time.AfterFunc(time.Until(s.expires), func() {
			ms.mu.Lock()
			defer ms.mu.Unlock()
			if s.model != nil && s.refs == 0 && s.want == 0 && !time.Now().Before(s.expires) { // else the last who uses it sets it again
				ms.unload(s)
			}
		})
	}
}

// retire unloads s as soon as nothing uses it.
func (ms *Models) retire(s *slot) {
	s.retired = true
	switch {
	case s.model == nil: // loading: a request that wants it may still have it once
	case s.refs == 0 && s.want == 0:
		ms.unload(s)
	default:
		ms.drop(s)
		ms.leaving[s] = true
	}
}

func (ms *Models) drop(s *slot) {
	for key, other := range ms.slots {
		if other == s {
			delete(ms.slots, key)
		}
	}
	delete(ms.leaving, s)
}

// unload closes an idle model; the close runs on its own, since it waits for the card.
func (ms *Models) unload(s *slot) {
	if s.timer != nil {
		s.timer.Stop()
	}
	ms.drop(s)
	m := s.model
	if m == nil {
		return
	}
	s.model = nil
	ms.dying++
	end := ms.end
	ms.loads.Go(func() {
		//rule:D19 ./cmd/axle TestHandsOver drop
		ms.handOver(end, s.entry.Name.String(), m)
		_ = m.Close()
		ms.mu.Lock()
		defer ms.mu.Unlock()
		ms.dying--
		ms.change()
	})
}

// change wakes those that wait for changing.
func (ms *Models) change() {
	if ms.changed != nil {
		close(ms.changed)
		ms.changed = nil
	}
}

// changing is closed at the next change.
func (ms *Models) changing() <-chan struct{} {
	if ms.changed == nil {
		ms.changed = make(chan struct{})
	}
	return ms.changed
}

// Unload lets a model go, and what was loaded from its place before: now if it is idle, else when
// its last request is done. It waits for an idle one to be gone.
func (ms *Models) Unload(ctx context.Context, e *catalog.Entry) {
	ms.mu.Lock()
	idle := false
	for key, s := range ms.slots {
		if key == e.Key || s.entry.Place == e.Place {
			ms.retire(s)
			idle = idle || s.refs == 0 && s.want == 0
		}
	}
	for idle && ms.dying > 0 && ctx.Err() == nil {
		ch := ms.changing()
		ms.mu.Unlock()
		select {
		case <-ch:
		case <-ctx.Done():
		}
		ms.mu.Lock()
	}
	ms.mu.Unlock()
}

// Gone lets a model go that was deleted, and what is said of its answers.
func (ms *Models) Gone(ctx context.Context, e *catalog.Entry) {
	ms.mu.Lock()
	delete(ms.wrong, e.Name.String())
	ms.mu.Unlock()
	ms.Unload(ctx, e)
}

// Running is a loaded model.
type Running struct {
	Entry   *catalog.Entry
	Bytes   int64
	Expires time.Time
	NumCtx  int
	InUse   int
	Stats   ask.Stats
	Device  string
	Memory  models.Memory // of what Bytes consist; zero where the engine does not tell
	Draft   int64         // what a draft model takes in addition
}

// Loaded lists the models that are loaded, the one that stays longest first.
func (ms *Models) Loaded() []Running {
	ms.mu.Lock()
	var models []ask.Model
	var out []Running
	for _, s := range ms.slots {
		if s.model == nil {
			continue
		}
		if s.refs > 0 {
			s.expires = expiry(time.Now(), s.keep)
		}
		out = append(out, Running{Entry: s.entry, Expires: s.expires, NumCtx: s.numCtx, InUse: s.refs})
		models = append(models, s.model)
	}
	ms.mu.Unlock()
	for i, m := range models {
		info := m.Info()
		out[i].Bytes, out[i].Device, out[i].Stats = info.CardBytes, info.Device, m.Stats()
		out[i].Memory, out[i].Draft = info.Memory, info.DraftBytes
		if out[i].NumCtx == 0 {
			out[i].NumCtx = info.Context
		}
	}
	slices.SortStableFunc(out, func(a, b Running) int { return b.Expires.Compare(a.Expires) })
	return out
}

// Close unloads everything and waits for it, or for ctx. What still runs ends with ask.ErrClosed, a
// load that is under way is broken off. A second Close does nothing.
func (ms *Models) Close(ctx context.Context) error {
	ms.mu.Lock()
	ms.closed, ms.end = true, ctx
	for _, s := range ms.slots {
		if s.cancel(); s.model != nil {
			ms.unload(s)
		}
	}
	for s := range ms.leaving {
		ms.unload(s)
	}
	ms.change() // for those that wait for room
	ms.mu.Unlock()
	done := make(chan struct{})
	go func() { ms.loads.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
