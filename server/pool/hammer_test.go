package pool_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/pool"
	"github.com/axle-llm/axle/server/scripted"
)

// Many requests for more models than fit, that come, go, give up, unload, find packages changed and
// loads broken, in any order, and in the end the host is closed under them: every one is answered,
// none has a model that is closed, no two have different copies of one, and nothing is left loaded,
// waiting or held. AXLE_HAMMER sets how many rounds.
func TestHostHammer(t *testing.T) {
	//proves:D3 many at once over more models than fit
	rounds := 24
	if testing.Short() {
		rounds = 8
	}
	if s, err := strconv.Atoi(os.Getenv("AXLE_HAMMER")); err == nil {
		rounds = s
	}
	total := map[string]int{}
	for round := range rounds {
		hammer(t, round, total)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	t.Log(total)
	if rounds >= 24 && (total["leased"] == 0 || total["gave up"] == 0 || total["broken"] == 0 || total["queue full"] == 0 ||
		total["closed"] == 0) {
		t.Errorf("something never happened: %v", total)
	}
}

// shaky is a loader over a card that holds few models, and on which loads fail now and then.
type shaky struct {
	t  testing.TB
	mu sync.Mutex

	free    int
	loading map[string]bool     // by key
	models  map[ask.Model]*bool // is it closed
	broken  map[string]bool     // names that never load
}

var errShaky = errors.New("layer 3 is broken")

type shakyModel struct {
	*scripted.Backend
	c      *shaky
	closed *bool
}

func (m *shakyModel) Close() error {
	m.c.mu.Lock()
	if *m.closed {
		m.c.t.Error("a model is closed twice")
	}
	*m.closed = true
	m.c.mu.Unlock()
	pause()
	m.c.mu.Lock()
	m.c.free++
	m.c.mu.Unlock()
	return m.Backend.Close()
}

// pause takes no time, or a little.
func pause() {
	if n := rand.IntN(4); n > 0 {
		<-time.After(time.Duration(rand.IntN(200*n)) * time.Microsecond)
	} else {
		runtime.Gosched()
	}
}

func (c *shaky) Load(ctx context.Context, e *catalog.Entry) (m ask.Model, err error) {
	c.mu.Lock()
	if c.loading[e.Key] {
		c.t.Errorf("%s is loaded twice at once", e.Key)
	}
	c.loading[e.Key] = true
	taken := c.free > 0
	if taken {
		c.free--
	}
	c.mu.Unlock()
	pause()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.loading, e.Key)
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case c.broken[e.Name.Model()]:
		err = errShaky
	case !taken:
		return nil, &ask.MemoryError{Name: e.Name.String(), Need: 1}
	case rand.IntN(20) == 0: // full in the middle of it
		err = fmt.Errorf("%w, for once", axcl.ErrMemory)
	}
	if err != nil {
		if taken {
			c.free++
		}
		return nil, err
	}
	closed := new(bool)
	m = engine.New(&shakyModel{scripted.New(scripted.Config{Info: ask.Info{Name: e.Name.String(), CardBytes: 1}}), c, closed},
		engine.Options{})
	c.models[m] = closed
	return m, nil
}

func (c *shaky) isClosed(m ask.Model) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *c.models[m]
}

// users are who has which model of a key.
type users struct {
	mu sync.Mutex
	of map[string]map[ask.Model]int
}

func (u *users) add(key string, m ask.Model, n int) (models int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of[key] == nil {
		u.of[key] = map[ask.Model]int{}
	}
	if u.of[key][m] += n; u.of[key][m] == 0 {
		delete(u.of[key], m)
	}
	return len(u.of[key])
}

func hammer(t *testing.T, round int, total map[string]int) {
	const places, names, callers = 3, 6, 24
	c := &shaky{t: t, free: places, loading: map[string]bool{}, models: map[ask.Model]*bool{}, broken: map[string]bool{"m5": true}}
	h := pool.New(c, pool.Options{KeepAlive: time.Millisecond, MaxLoaded: round % 2 * 4, MaxQueue: 12 + round%3*100,
		LoadTimeout: patience})
	u := &users{of: map[string]map[ask.Model]int{}}
	var version [names]atomic.Int64
	var closing, over atomic.Bool
	var mu sync.Mutex
	seen := func(what string) { mu.Lock(); total[what]++; mu.Unlock() }
	keeps := []time.Duration{0, 0, 50 * time.Microsecond, time.Millisecond, pool.Forever}
	entry := func(i int) *catalog.Entry {
		e := entryOf(t, "m"+strconv.Itoa(i), "@"+strconv.FormatInt(version[i].Load(), 10))
		return e
	}
	one := func() bool {
		e := entry(rand.IntN(names))
		switch rand.IntN(12) {
		case 0:
			h.Unload(t.Context(), e)
			seen("unloaded")
			return true
		case 1: // the package changes
			if rand.IntN(4) == 0 {
				version[int(e.Name.Model()[1]-'0')].Add(1)
			}
			return true
		case 2:
			h.Loaded()
			return true
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if rand.IntN(5) == 0 {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(300))*time.Microsecond)
			defer cancel()
		}
		var keep *time.Duration
		if k := rand.IntN(len(keeps) + 1); k < len(keeps) {
			keep = &keeps[k]
		}
		before := over.Load()
		l, err := h.Acquire(ctx, e, keep, 0)
		switch {
		case err == nil && before:
			t.Error("a lease from a host that is closed")
			l.Release()
		case err == nil:
			seen("leased")
			if n := u.add(e.Key, l.Model, 1); n > 1 {
				t.Errorf("%s has %d copies in use", e.Key, n)
			}
			for range 1 + rand.IntN(2) {
				if c.isClosed(l.Model) && !closing.Load() {
					t.Errorf("%s is closed under its lease", e.Key)
				}
				if rand.IntN(3) > 0 {
					pause()
				}
			}
			u.add(e.Key, l.Model, -1)
			l.Release()
			l.Release() // does nothing
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
			seen("gave up")
		case errors.Is(err, errShaky) && e.Name.Model() == "m5":
			seen("broken")
		case errors.Is(err, pool.ErrQueueFull):
			seen("queue full")
			pause()
		case errors.As(err, new(*ask.MemoryError)):
			t.Errorf("%s was told that nothing fits, where everything can be unloaded: %v", e.Key, err)
		case errors.Is(err, axcl.ErrMemory):
			seen("full in the middle")
		case errors.Is(err, ask.ErrDraining) && closing.Load():
			seen("closed")
			return false
		default:
			t.Errorf("%s: %v", e.Key, err)
		}
		return true
	}
	// Some go on until the host is closed, with what they do then.
	var first, all sync.WaitGroup
	for i := range callers {
		first.Add(1)
		all.Go(func() {
			for range 12 {
				one()
			}
			first.Done()
			for i%2 == 0 && one() {
			}
		})
	}
	settled := make(chan struct{})
	go func() { first.Wait(); close(settled) }()
	wait := func(what string, ch <-chan struct{}) {
		t.Helper()
		select {
		case <-ch:
		case <-time.After(patience):
			buf := make([]byte, 1<<20)
			t.Fatalf("round %d: %s; a deadlock:\n%s", round, what, buf[:runtime.Stack(buf, true)])
		}
	}
	wait("not everyone was answered", settled)
	closing.Store(true)
	if err := h.Close(context.Background()); err != nil {
		t.Error(err)
	}
	over.Store(true)
	c.mu.Lock() // whatever was loaded has gone, though some may still think they have it
	for m, closed := range c.models {
		if !*closed {
			t.Errorf("round %d: %s is still loaded after Close", round, m.Info().Name)
		}
	}
	c.mu.Unlock()
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	wait("not everyone was answered after Close", done)
	if n := len(h.Loaded()); n != 0 || c.free != places {
		t.Errorf("%d models listed, %d of %d places free", n, c.free, places)
	}
	for key, m := range u.of {
		if len(m) != 0 {
			t.Errorf("%s: still in use", key)
		}
	}
}
