package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/lane"
)

// TestHangAnywhere (G11): a call that does not return, at random passes of 200 loads of work. Each
// time every stream ends within a second of the watchdog's limit, and none before it.
func TestHangAnywhere(t *testing.T) {
	//proves:D7
	//proves:G11
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 11))
			f := newFake()
			b := onFake(t, f, OpenOptions{Parallel: 1 + rng.IntN(4)})
			hang := make(chan struct{})
			at := f.passes + 1 + rng.IntN(20)
			var since atomic.Int64
			f.run = func(n int) error {
				if n >= at {
					since.Store(time.Now().UnixNano())
					<-hang
				}
				return nil
			}
			var wg sync.WaitGroup
			for range 4 {
				first := int32(rng.Uint32() % fakeVocab)
				wg.Go(func() {
					if _, _, err := run(b, greedy([]int32{first, 2, 3}, 30)); !errors.Is(err, axcl.ErrLost) {
						t.Errorf("seed %d: %v, want ErrLost", seed, err)
					}
				})
			}
			wg.Wait()
			if took := time.Since(time.Unix(0, since.Load())); took < 10*time.Second || took > 11*time.Second {
				t.Errorf("seed %d: the streams ended %v after the call began", seed, took)
			}
			_ = b.Close()
			close(hang)
			synctest.Wait()
		})
	}
}

// TestJitter (G11): passes whose time varies tenfold are no reason to give up. AXLE_TEST_PASSES
// sets how many (promise: 1,000,000).
func TestJitter(t *testing.T) {
	//proves:G11 10,000 passes
	lane.Slow(t)
	lane.NoRace(t)
	passes := 10_000
	if n, err := strconv.Atoi(os.Getenv("AXLE_TEST_PASSES")); err == nil {
		passes = n
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.quick = true
		rng := rand.New(rand.NewPCG(1, 11))
		// Half a second to five in the small, two seconds to twenty in the large: the second is
		// beyond the watchdog's least limit.
		base := 500 * time.Millisecond
		f.run = func(n int) error {
			if n%2000 == 0 {
				base = 2500*time.Millisecond - base
			}
			<-time.After(base + time.Duration(rng.Int64N(int64(9*base))))
			return nil
		}
		b := onFake(t, f, OpenOptions{Parallel: 2})
		job := greedy([]int32{1, 2, 3}, passes)
		job.Shift, job.NumCtx, job.IgnoreStop = true, 64, true
		if _, _, err := run(b, job); err != nil {
			t.Errorf("after %d passes: %v", f.passes, err)
		}
		t.Logf("%d passes, no alarm", f.passes)
		_ = b.Close()
	})
}

// TestHeat (D14): a card at 100 °C takes nothing new until it is at 90; what runs goes on.
func TestHeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var degrees, tokens atomic.Int64
		degrees.Store(86)
		f.heat = func() float64 { return float64(degrees.Load()) }
		b := onFake(t, f, OpenOptions{})
		f.run = func(int) error { <-time.After(50 * time.Millisecond); return nil }
		ctx, cancel := context.WithCancel(context.Background())
		endless := greedy([]int32{1, 2, 3}, -1)
		endless.Shift, endless.NumCtx = true, 24
		var wg sync.WaitGroup
		wg.Go(func() {
			for _, err := range b.Complete(ctx, endless) {
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				tokens.Add(1)
			}
		})
		admitted := func() chan error {
			c := make(chan error, 1)
			wg.Go(func() { _, _, err := run(b, greedy([]int32{9, 8}, 3)); c <- err })
			return c
		}
		is := func(c chan error) bool {
			select {
			case err := <-c:
				if err != nil {
					t.Error(err)
				}
				return true
			case <-time.After(4 * infoEvery):
				return false
			}
		}
		if !is(admitted()) {
			t.Error("86 °C: nothing new is taken")
		}
		degrees.Store(100)
		<-time.After(2 * infoEvery)
		waits, before := admitted(), tokens.Load()
		if is(waits) {
			t.Error("100 °C: something new was taken")
		}
		if tokens.Load() == before {
			t.Error("100 °C: what ran was stopped")
		}
		if st := b.Stats(); st.Temperature != 100 {
			t.Errorf("Stats say %v °C", st.Temperature)
		}
		degrees.Store(91)
		if is(waits) {
			t.Error("91 °C, on the way down: something new was taken")
		}
		degrees.Store(90)
		if !is(waits) {
			t.Error("90 °C: nothing new is taken")
		}
		cancel()
		wg.Wait()
		_ = b.Close()
	})
}

// TestKeysApart (T17): text in the cache is found again within one key only, and without keys only
// by those who have none.
func TestKeysApart(t *testing.T) {
	b := onFake(t, newFake(), OpenOptions{})
	ids := []int32{5, 6, 7, 8, 9, 10, 11, 12}
	for _, step := range []struct {
		key  string
		hits bool
	}{{"ann", false}, {"ann", true}, {"bob", false}, {"", false}, {"", true}, {"bob", true}, {"ann", true}} {
		job := greedy(ids, 2)
		job.Key = step.key
		_, last, err := run(b, job)
		if err != nil {
			t.Fatal(err)
		}
		if hit := last.Usage.Cached > 0; hit != step.hits {
			t.Errorf("key %q found %d tokens in the cache", step.key, last.Usage.Cached)
		}
	}
	clean(t, b)
}
