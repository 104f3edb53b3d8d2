package pool_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/pool"
	"github.com/axle-llm/axle/server/scripted"
)

// TestPromptsTakeNoCard: for a model's prompts nothing is loaded, and a loaded model stays no
// longer.
func TestPromptsTakeNoCard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &reader{cards: cards{free: 9}}
		h := hostOf(t, &c.cards, c, pool.Options{KeepAlive: time.Minute})
		prompts := func(name string, want ask.Model) {
			t.Helper()
			l, err := h.Prompts(t.Context(), entryOf(t, name, "1"))
			if err != nil {
				t.Fatal(err)
			}
			if (l.Model == want) != (name == "a") {
				t.Errorf("%s: the wrong model", name)
			}
			l.Release()
			l.Release() // does nothing
		}
		l, err := h.Acquire(t.Context(), entryOf(t, "a", "1"), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		prompts("a", l.Model)
		l.Release()
		prompts("b", nil)
		for range 2 {
			time.Sleep(25 * time.Second) // the bubble's clock
			prompts("a", l.Model)
		}
		held, err := h.Prompts(t.Context(), entryOf(t, "a", "1"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(25 * time.Second)
		if got := names(h); got != "a " {
			t.Errorf("%q is loaded while prompts of a are made", got)
		}
		held.Release()
		time.Sleep(1)
		synctest.Wait()
		if got := names(h); got != "" || c.read != 1 || c.loads["b1"] != 0 {
			t.Errorf("after 75 s: %q is loaded, %d read, %v", got, c.read, c.loads)
		}
	})
}

func TestHost(t *testing.T) {
	//proves:D10 a load
	t.Run("one load for many", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := &cards{took: time.Second, free: 9}
			h := newHost(t, c, pool.Options{KeepAlive: time.Minute})
			e := entryOf(t, "a", "1")
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					l, err := h.Acquire(t.Context(), e, nil, 0)
					if err != nil {
						t.Error(err)
						return
					}
					l.Release()
				})
			}
			wg.Wait()
			if c.loads["a1"] != 1 {
				t.Errorf("%d loads", c.loads["a1"])
			}
		})
	})
	t.Run("keep_alive", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, &cards{free: 9}, pool.Options{KeepAlive: time.Minute})
			use := func(name string, keep *time.Duration) {
				l, err := h.Acquire(t.Context(), entryOf(t, name, "1"), keep, 0)
				if err != nil {
					t.Fatal(err)
				}
				l.Release()
				synctest.Wait()
			}
			zero, forever, short := time.Duration(0), pool.Forever, time.Second
			use("gone", &zero)
			use("stays", &forever)
			use("default", nil)
			use("short", &short)
			if got := names(h); got != "stays default short " {
				t.Errorf("loaded: %s", got)
			}
			if y := h.Loaded()[0].Expires.Year(); y < time.Now().Year()+290 {
				t.Errorf("for ever ends in %d", y)
			}
			time.Sleep(2 * time.Second) // the bubble's clock
			synctest.Wait()
			if got := names(h); got != "stays default " {
				t.Errorf("after 2 s: %s", got)
			}
			use("default", nil) // starts the minute anew
			time.Sleep(59 * time.Second)
			synctest.Wait()
			if got := names(h); got != "stays default " {
				t.Errorf("after 59 s more: %s", got)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if got := names(h); got != "stays " {
				t.Errorf("after the minute: %s", got)
			}
		})
	})
	t.Run("least recently used goes first", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := &cards{free: 2}
			h := newHost(t, c, pool.Options{KeepAlive: time.Hour})
			use := func(name string) *pool.Lease {
				l, err := h.Acquire(t.Context(), entryOf(t, name, "1"), nil, 0)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				return l
			}
			use("a").Release()
			b := use("b")
			use("a").Release()
			use("c").Release() // a goes, though used later than b: b is in use
			synctest.Wait()
			if got := names(h); c.loads["c1"] != 1 || got != "c b " && got != "b c " {
				t.Errorf("loaded: %s", got)
			}
			b.Release()
		})
	})
	t.Run("waits for one in use", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, &cards{free: 1}, pool.Options{KeepAlive: time.Hour})
			a, err := h.Acquire(t.Context(), entryOf(t, "a", "1"), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			got := make(chan error, 1)
			go func() {
				l, err := h.Acquire(t.Context(), entryOf(t, "b", "1"), nil, 0)
				if err == nil {
					l.Release()
				}
				got <- err
			}()
			synctest.Wait()
			select {
			case err := <-got:
				t.Fatal("did not wait:", err)
			default:
			}
			a.Release()
			if err := <-got; err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("full in the middle of a load", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := &cards{free: 4}
			h := newHost(t, c, pool.Options{KeepAlive: time.Hour})
			inUse, err := h.Acquire(t.Context(), entryOf(t, "used", "1"), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer inUse.Release()
			// Tried once more where something was unloaded, and only one goes for it: the least
			// recently used.
			for _, step := range []struct {
				idle  []string
				tries int
				left  string
			}{{nil, 1, "used "}, {[]string{"a"}, 2, "used "}, {[]string{"a", "b"}, 2, "used b "}} {
				for _, name := range step.idle {
					l, err := h.Acquire(t.Context(), entryOf(t, name, "1"), nil, 0)
					if err != nil {
						t.Fatal(err)
					}
					l.Release()
					time.Sleep(time.Second)
				}
				c.mu.Lock()
				c.tries, c.err = 0, axcl.ErrMemory
				c.mu.Unlock()
				if _, err := h.Acquire(t.Context(), entryOf(t, "full", "1"), nil, 0); !errors.Is(err, axcl.ErrMemory) {
					t.Errorf("with %v idle: %v", step.idle, err)
				}
				synctest.Wait()
				c.mu.Lock()
				if c.tries != step.tries {
					t.Errorf("with %v idle: %d trials, want %d", step.idle, c.tries, step.tries)
				}
				c.err = nil
				c.mu.Unlock()
				if got := names(h); got != step.left {
					t.Errorf("with %v idle: left are %s, want %s", step.idle, got, step.left)
				}
			}
		})
	})
	t.Run("too large at all", func(t *testing.T) {
		h := newHost(t, &cards{free: 0}, pool.Options{})
		if _, err := h.Acquire(t.Context(), entryOf(t, "a", "1"), nil, 0); !errors.Is(err, axcl.ErrMemory) {
			t.Error(err)
		}
		if got := names(h); got != "" {
			t.Errorf("loaded: %s", got)
		}
	})
	t.Run("a changed package is loaded anew", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := &cards{free: 2}
			h := newHost(t, c, pool.Options{KeepAlive: time.Hour})
			old, err := h.Acquire(t.Context(), entryOf(t, "a", "1"), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			l, err := h.Acquire(t.Context(), entryOf(t, "a", "2"), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			l.Release()
			old.Release()
			synctest.Wait()
			if c.loads["a1"] != 1 || c.loads["a2"] != 1 || c.free != 1 || h.Loaded()[0].Entry.Digest != "2" {
				t.Errorf("loads %v, free %d", c.loads, c.free)
			}
		})
	})
	t.Run("queue", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, &cards{took: time.Second, free: 9}, pool.Options{MaxQueue: 2, MaxLoaded: 1, KeepAlive: time.Hour})
			errs := make(chan error, 6)
			for range 6 {
				go func() {
					l, err := h.Acquire(t.Context(), entryOf(t, "a", "1"), nil, 0)
					if err == nil {
						l.Release()
					}
					errs <- err
				}()
			}
			full := 0
			for range 6 {
				if errors.Is(<-errs, pool.ErrQueueFull) {
					full++
				}
			}
			if full != 3 { // two wait, and one is served
				t.Errorf("%d of 6 refused", full)
			}
		})
	})
	t.Run("a load that fails", func(t *testing.T) {
		c := &cards{err: errors.New("layer 3 is broken")}
		h := newHost(t, c, pool.Options{})
		if _, err := h.Acquire(t.Context(), entryOf(t, "a", "1"), nil, 0); err == nil || err.Error() != "layer 3 is broken" {
			t.Error(err)
		}
		c.mu.Lock()
		c.err, c.free = nil, 1
		c.mu.Unlock()
		l, err := h.Acquire(t.Context(), entryOf(t, "a", "1"), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		l.Release()
	})
	t.Run("closed", func(t *testing.T) {
		h := newHost(t, &cards{free: 1}, pool.Options{})
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := h.Acquire(t.Context(), entryOf(t, "a", "1"), nil, 0); !errors.Is(err, ask.ErrDraining) {
			t.Error(err)
		}
	})
	t.Run("closed during a load", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for _, ends := range []bool{true, false} { // the load itself: when it is told to, or as if nothing had been said
				c := &cards{took: time.Hour, free: 1, deaf: !ends}
				h := newHost(t, c, pool.Options{LoadTimeout: pool.Forever})
				got := make(chan error, 1)
				go func() {
					_, err := h.Acquire(t.Context(), entryOf(t, "a", "1"), nil, 0)
					got <- err
				}()
				synctest.Wait()
				start := time.Now()
				if err := h.Close(t.Context()); err != nil {
					t.Error(err)
				}
				if took := time.Since(start); ends != (took == 0) {
					t.Errorf("Close took %v", took)
				}
				if err := <-got; !errors.Is(err, ask.ErrDraining) {
					t.Error(err)
				}
				if c.free != 1 {
					t.Error("the model stays on the card")
				}
			}
		})
	})
	t.Run("closed with one retired in use", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := &cards{free: 1}
			h := newHost(t, c, pool.Options{KeepAlive: time.Hour})
			e := entryOf(t, "a", "1")
			l, err := h.Acquire(t.Context(), e, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			h.Unload(t.Context(), e)
			if err := h.Close(t.Context()); err != nil || c.free != 1 {
				t.Errorf("%v, %d free", err, c.free)
			}
			l.Release()
		})
	})
	t.Run("gone before who waits has it", func(t *testing.T) {
		// Those who waited for a load wake in any order: the first may be through with keep_alive
		// 0, or the model retired, before the next.
		for range 200 {
			synctest.Test(t, func(t *testing.T) {
				c := &cards{took: time.Second, free: 2}
				h := newHost(t, c, pool.Options{KeepAlive: time.Hour})
				zero := time.Duration(0)
				e := entryOf(t, "a", "1")
				var wg sync.WaitGroup
				for i := range 8 {
					wg.Go(func() {
						if i == 0 {
							time.Sleep(time.Second)
							h.Unload(t.Context(), e)
							return
						}
						l, err := h.Acquire(t.Context(), e, &zero, 0)
						if err != nil {
							t.Error(err)
							return
						}
						l.Release()
					})
				}
				wg.Wait()
				synctest.Wait()
				if got := names(h); got != "" || c.free != 2 {
					t.Errorf("loaded: %s, %d free", got, c.free)
				}
			})
		}
	})
	t.Run("refused before it costs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := &cards{took: time.Minute, free: 9}
			h := newHost(t, c, pool.Options{MaxQueue: 1, KeepAlive: time.Hour})
			for range 2 {
				go func() {
					if l, err := h.Acquire(t.Context(), entryOf(t, "a", "1"), nil, 0); err == nil {
						l.Release()
					}
				}()
			}
			synctest.Wait()
			if _, err := h.Acquire(t.Context(), entryOf(t, "b", "1"), nil, 0); !errors.Is(err, pool.ErrQueueFull) {
				t.Error(err)
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if c.loads["b1"] != 0 || c.loads["a1"] != 1 {
				t.Errorf("loads: %v", c.loads)
			}
		})
	})
	t.Run("who does not say leaves keep_alive as it is", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, &cards{free: 9}, pool.Options{KeepAlive: time.Minute})
			use := func(keep *time.Duration) {
				l, err := h.Acquire(t.Context(), entryOf(t, "a", "1"), keep, 0)
				if err != nil {
					t.Fatal(err)
				}
				l.Release()
			}
			hour, second := time.Hour, time.Second
			use(&hour)
			use(nil)
			time.Sleep(59 * time.Minute)
			synctest.Wait()
			if got := names(h); got != "a " {
				t.Errorf("after 59 minutes: %q", got)
			}
			use(&second)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if got := names(h); got != "" {
				t.Errorf("after a second: %q", got)
			}
			use(nil) // loaded anew: the default
			time.Sleep(61 * time.Second)
			synctest.Wait()
			if got := names(h); got != "" {
				t.Errorf("after a minute: %q", got)
			}
		})
	})
	t.Run("who waits may leave", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, &cards{took: time.Minute, free: 1}, pool.Options{KeepAlive: time.Second})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := h.Acquire(ctx, entryOf(t, "a", "1"), nil, 0); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if got := names(h); got != "" {
				t.Errorf("no request wanted it any more, and it stays: %s", got)
			}
		})
	})
}

// TestNeverFits (D3): a model that fits on no empty card is refused at once: none that is idle is
// unloaded for it, none that is at work is waited for, whether memory is short or the number of
// models.
func TestNeverFits(t *testing.T) {
	for name, tt := range map[string]struct {
		free int
		o    pool.Options
	}{"memory": {2, pool.Options{KeepAlive: time.Hour}}, "places": {9, pool.Options{KeepAlive: time.Hour, MaxLoaded: 2}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &cards{free: tt.free, huge: "huge"}
				h := newHost(t, c, tt.o)
				idle, err := h.Acquire(t.Context(), entryOf(t, "idle", "1"), nil, 0)
				if err != nil {
					t.Fatal(err)
				}
				idle.Release()
				time.Sleep(time.Second) // the bubble's: so that the list has one order
				busy, err := h.Acquire(t.Context(), entryOf(t, "busy", "1"), nil, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer busy.Release()
				synctest.Wait()
				before, begun := names(h), time.Now()
				for range 3 {
					if _, err := h.Acquire(t.Context(), entryOf(t, "huge", "1"), nil, 0); !errors.Is(err, axcl.ErrMemory) {
						t.Errorf("%v", err)
					}
				}
				synctest.Wait()
				if after := names(h); after != before || after != "busy idle " || time.Since(begun) > 0 {
					t.Errorf("loaded before: %s, after: %s, %v later", before, after, time.Since(begun))
				}
			})
		})
	}
}

// cards is a loader whose models take time and card memory.
type cards struct {
	mu    sync.Mutex
	took  time.Duration
	free  int
	loads map[string]int
	tries int
	err   error
	huge  string // the model that can never fit
	deaf  bool   // it does not notice that a load is broken off
}

func (c *cards) Never(e *catalog.Entry) error {
	if c.huge != e.Name.Model() {
		return nil
	}
	return &ask.MemoryError{Name: c.huge, Need: 2, Most: 1, Never: true}
}

// reader can open models without a card.
type reader struct {
	cards
	read int
}

func (c *reader) Prompts(context.Context, *catalog.Entry) (ask.Model, error) {
	c.read++
	return engine.New(scripted.New(scripted.Config{}), engine.Options{}), nil
}

type cardModel struct {
	*scripted.Backend
	c *cards
}

func (m *cardModel) Close() error {
	m.c.mu.Lock()
	m.c.free++
	m.c.mu.Unlock()
	return m.Backend.Close()
}

func (c *cards) Load(ctx context.Context, e *catalog.Entry) (ask.Model, error) {
	if c.took > 0 {
		select {
		case <-time.After(c.took):
		case <-ctx.Done():
			if !c.deaf {
				return nil, ctx.Err()
			}
			time.Sleep(time.Second)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tries++; c.err != nil {
		return nil, c.err
	}
	if c.huge == e.Name.Model() {
		return nil, c.Never(e)
	}
	if c.free == 0 {
		return nil, &ask.MemoryError{Name: e.Name.String(), Need: 1}
	}
	c.free--
	c.loads[e.Key]++
	return engine.New(&cardModel{scripted.New(scripted.Config{Info: ask.Info{Name: e.Name.String(), CardBytes: 1}}), c},
		engine.Options{}), nil
}

func entryOf(t *testing.T, name, digest string) *catalog.Entry {
	t.Helper()
	n, err := models.ParseName(name)
	if err != nil {
		t.Fatal(err)
	}
	return &catalog.Entry{Name: n, Key: name + digest, Place: name, Digest: digest}
}

func newHost(t *testing.T, c *cards, o pool.Options) *pool.Models {
	t.Helper()
	return hostOf(t, c, c, o)
}

// hostOf is newHost with a loader around the cards.
func hostOf(t *testing.T, c *cards, l pool.Loader, o pool.Options) *pool.Models {
	t.Helper()
	if c.loads == nil {
		c.loads = map[string]int{}
	}
	h := pool.New(l, o)
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return h
}

func names(h *pool.Models) string {
	s := ""
	for _, r := range h.Loaded() {
		s += r.Entry.Name.Model() + " "
	}
	return s
}
