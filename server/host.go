package server

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/internal/ranked"
)

// Forever is the keep_alive of a model that stays.
const Forever = time.Duration(math.MaxInt64)

// ErrQueueFull is more requests waiting for a model to be loaded than the queue holds.
var ErrQueueFull = errors.New("server busy, please try again.  maximum pending requests exceeded")

// Loader puts models on the card.
type Loader interface {
	// Load opens an entry's package on the card. An error that is axcl.ErrMemory makes the host unload an idle model and try again.
	Load(ctx context.Context, e *Entry) (*engine.Model, error)
}

// HostOptions bound a [Host].
type HostOptions struct {
	KeepAlive   time.Duration // how long an idle model stays
	MaxLoaded   int           // most models at once; 0: as many as fit
	MaxQueue    int           // most requests waiting for a load
	LoadTimeout time.Duration // longest a load may take
}

// Host holds the loaded models: it loads on demand, once for however many ask, keeps a model as long as its requests said, and unloads the
// least recently used idle one where memory or a place is needed. All methods are safe for concurrent use. Close unloads everything.
type Host struct {
	o      HostOptions
	loader Loader

	mu      ranked.Mutex[ranked.Host]
	slots   map[string]*slot // by Entry.Key
	leaving map[*slot]bool   // retired and still in use
	dying   int              // models being closed
	loading int              // models being loaded, those that wait for room left out
	waiting int              // requests that wait for a load
	closed  bool
	changed chan struct{} // closed and replaced when something is released, unloaded or loaded
	loads   sync.WaitGroup
}

// slot is one model, loading or loaded. Its fields are guarded by Host.mu, model and err besides by ready.
type slot struct {
	entry   *Entry
	ready   chan struct{}
	model   *engine.Model
	err     error
	cancel  context.CancelFunc // of its load
	refs    int
	want    int // requests that wait for it to be ready, and have not taken it yet
	numCtx  int
	keep    time.Duration
	used    time.Time
	expires time.Time
	timer   *time.Timer
	retired bool // unload as soon as nothing uses it
}

// NewHost makes a host that loads through loader.
func NewHost(loader Loader, o HostOptions) *Host {
	if o.LoadTimeout <= 0 {
		o.LoadTimeout = 5 * time.Minute
	}
	return &Host{o: o, loader: loader, slots: map[string]*slot{}, leaving: map[*slot]bool{}, changed: make(chan struct{})}
}

// Lease is a loaded model in use. Release it once.
type Lease struct {
	*engine.Model
	h    *Host
	s    *slot
	once sync.Once
}

// Release gives the model back; its keep_alive runs from now.
func (l *Lease) Release() { l.once.Do(func() { l.h.release(l.s) }) }

// Acquire returns the entry's model, loading it first if need be. keep is how long it stays afterwards, nil for the host's own; numCtx is
// what the request asked for, 0 for nothing. Errors: [ErrQueueFull], engine.ErrDraining, the loader's, ctx's.
func (h *Host) Acquire(ctx context.Context, e *Entry, keep *time.Duration, numCtx int) (*Lease, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	counted := false
	defer func() {
		if counted {
			h.waiting--
		}
	}()
	// Ollama's queue holds MaxQueue besides the one that is being served.
	full := func() bool { return !counted && h.o.MaxQueue > 0 && h.waiting > h.o.MaxQueue }
	wait := func(ch <-chan struct{}) error {
		if !counted {
			if full() {
				return ErrQueueFull
			}
			h.waiting++
			counted = true
		}
		h.mu.Unlock()
		defer h.mu.Lock()
		select {
		case <-ch:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for {
		if h.closed {
			return nil, engine.ErrDraining
		}
		s := h.find(e.Key)
		if s == nil {
			if full() {
				return nil, ErrQueueFull // before anything is unloaded or loaded for it
			}
			if h.o.MaxLoaded > 0 && len(h.slots) >= h.o.MaxLoaded {
				if v := h.idle(); v != nil {
					h.unload(v)
				} else if err := wait(h.changed); err != nil {
					return nil, err
				}
				continue
			}
			s = h.start(e)
		}
		select {
		case <-s.ready:
		default:
			s.want++
			err := wait(s.ready)
			s.want--
			if err != nil {
				if s.model != nil && s.refs == 0 && s.want == 0 {
					h.arm(s) // the last who wanted it is gone
					h.change()
				}
				return nil, err
			}
		}
		if s.err != nil {
			return nil, s.err
		}
		if s.model == nil {
			continue // the host was closed
		}
		h.take(s, e, keep, numCtx) // also one that was retired meanwhile: it was kept for us
		return &Lease{Model: s.model, h: h, s: s}, nil
	}
}

// find is the slot with a key. One that is to go serves those that come as long as it is in use: a second copy would take its memory again.
func (h *Host) find(key string) *slot {
	if s := h.slots[key]; s != nil {
		return s
	}
	for s := range h.leaving {
		if s.entry.Key == key {
			return s
		}
	}
	return nil
}

func (h *Host) take(s *slot, e *Entry, keep *time.Duration, numCtx int) {
	s.refs++
	s.entry = e
	if keep != nil { // who does not say leaves it as it is, as in Ollama
		s.keep = *keep
	}
	if s.timer != nil {
		s.timer.Stop()
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
func (h *Host) start(e *Entry) *slot {
	for _, old := range h.slots {
		if old.entry.Place == e.Place {
			h.retire(old)
		}
	}
	s := &slot{entry: e, ready: make(chan struct{}), keep: h.o.KeepAlive}
	ctx, cancel := context.WithTimeout(context.Background(), h.o.LoadTimeout)
	s.cancel = cancel
	h.slots[e.Key] = s
	h.loads.Add(1)
	go func() {
		defer h.loads.Done()
		defer cancel()
		m, err := h.load(ctx, e)
		h.mu.Lock()
		defer h.mu.Unlock()
		if s.model = m; err != nil {
			if h.closed && errors.Is(err, context.Canceled) {
				err = engine.ErrDraining
			}
			s.err = err
			delete(h.slots, e.Key)
		} else if s.used = time.Now(); s.want == 0 || h.closed {
			h.arm(s)
		}
		close(s.ready)
		h.change()
	}()
	return s
}

// load makes room as long as the model is foreseen not to fit and there is something to unload or to wait for: what is in use, or is loaded by
// others now, will be idle some time. Where the card says in the middle of a load that it is full, an idle model goes and the load is tried
// once more (promise D3): every trial takes the time of a load from those that are served.
func (h *Host) load(ctx context.Context, e *Entry) (*engine.Model, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for again := false; ; {
		if h.closed {
			return nil, engine.ErrDraining
		}
		changed := h.changed // from before the trial: what changes during it makes another one worth while
		h.loading++
		h.mu.Unlock()
		m, err := h.loader.Load(ctx, e)
		h.mu.Lock()
		h.loading--
		if err == nil || !errors.Is(err, axcl.ErrMemory) {
			return m, err
		}
		foreseen := errors.As(err, new(*engine.MemoryError))
		v, busy := h.idle(), h.dying > 0 || len(h.leaving) > 0 || h.loading > 0
		if !foreseen && (again || v == nil && h.dying == 0) {
			return nil, err
		}
		again = again || !foreseen
		for _, s := range h.slots {
			busy = busy || s.refs > 0 || s.model != nil && s.want > 0
		}
		if v != nil {
			h.unload(v)
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
		h.mu.Unlock()
		select {
		case <-changed:
			h.mu.Lock()
		case <-ctx.Done():
			if h.mu.Lock(); !h.closed {
				return nil, err
			}
		}
	}
}

// idle is the least recently used model that nothing uses, or nil.
func (h *Host) idle() *slot {
	var v *slot
	for _, s := range h.slots {
		if s.model != nil && s.refs == 0 && s.want == 0 && (v == nil || s.used.Before(v.used)) {
			v = s
		}
	}
	return v
}

func (h *Host) release(s *slot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.refs--
	s.used = time.Now()
	s.expires = expiry(s.used, s.keep)
	if s.refs == 0 && s.want == 0 {
		h.arm(s)
	}
	h.change()
}

// arm starts the clock of an idle model.
func (h *Host) arm(s *slot) {
	switch {
	case s.retired || s.keep <= 0 || h.closed:
		h.unload(s)
	case s.keep < Forever:
		s.expires = expiry(s.used, s.keep)
		s.timer = time.AfterFunc(s.keep, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			if s.refs == 0 && s.want == 0 && !time.Now().Before(s.expires) {
				h.unload(s)
			}
		})
	default:
		s.expires = expiry(s.used, s.keep)
	}
}

// retire unloads s as soon as nothing uses it.
func (h *Host) retire(s *slot) {
	s.retired = true
	switch {
	case s.model == nil: // loading: whoever wants it may still have it once
	case s.refs == 0 && s.want == 0:
		h.unload(s)
	default:
		h.drop(s)
		h.leaving[s] = true
	}
}

func (h *Host) drop(s *slot) {
	for key, other := range h.slots {
		if other == s {
			delete(h.slots, key)
		}
	}
	delete(h.leaving, s)
}

// unload closes an idle model; the close runs on its own, since it waits for the card.
func (h *Host) unload(s *slot) {
	if s.timer != nil {
		s.timer.Stop()
	}
	h.drop(s)
	m := s.model
	if m == nil {
		return
	}
	s.model = nil
	h.dying++
	h.loads.Add(1)
	go func() {
		defer h.loads.Done()
		_ = m.Close()
		h.mu.Lock()
		defer h.mu.Unlock()
		h.dying--
		h.change()
	}()
}

func (h *Host) change() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// Unload lets a model go, and what was loaded from its place before: now if it is idle, else when its last request is done. It waits for an
// idle one to be gone.
func (h *Host) Unload(ctx context.Context, e *Entry) {
	h.mu.Lock()
	idle := false
	for key, s := range h.slots {
		if key == e.Key || s.entry.Place == e.Place {
			h.retire(s)
			idle = idle || s.refs == 0 && s.want == 0
		}
	}
	for idle && h.dying > 0 && ctx.Err() == nil {
		ch := h.changed
		h.mu.Unlock()
		select {
		case <-ch:
		case <-ctx.Done():
		}
		h.mu.Lock()
	}
	h.mu.Unlock()
}

// Running is a loaded model.
type Running struct {
	Entry   *Entry
	Bytes   int64
	Expires time.Time
	NumCtx  int
	InUse   int
	Stats   engine.Stats
	Device  string
}

// Loaded lists the models that are loaded, the one that stays longest first.
func (h *Host) Loaded() []Running {
	h.mu.Lock()
	var models []*engine.Model
	var out []Running
	for _, s := range h.slots {
		if s.model == nil {
			continue
		}
		if s.refs > 0 {
			s.expires = expiry(time.Now(), s.keep)
		}
		out = append(out, Running{Entry: s.entry, Expires: s.expires, NumCtx: s.numCtx, InUse: s.refs})
		models = append(models, s.model)
	}
	h.mu.Unlock()
	for i, m := range models {
		info := m.Info()
		out[i].Bytes, out[i].Device, out[i].Stats = info.CardBytes, info.Device, m.Stats()
		if out[i].NumCtx == 0 {
			out[i].NumCtx = info.Context
		}
	}
	slices.SortStableFunc(out, func(a, b Running) int { return b.Expires.Compare(a.Expires) })
	return out
}

// Close unloads everything and waits for it, or for ctx. What still runs ends with engine.ErrClosed, a load that is under way is broken off.
// A second Close does nothing.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	h.closed = true
	for _, s := range h.slots {
		if s.cancel(); s.model != nil {
			h.unload(s)
		}
	}
	for s := range h.leaving {
		h.unload(s)
	}
	h.change() // for those that wait for room
	h.mu.Unlock()
	done := make(chan struct{})
	go func() { h.loads.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
