package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

// still is a clock that does not move: every shape group costs the same, so wide passes and guesses
// always pay.
var still = CardOptions{Clock: func() time.Duration { return 0 }}

// TestCancel: a thousand sequences are left at random moments, by ctx or by leaving the loop,
// queued or running. Nothing stays.
func TestCancel(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	b := onFake(t, newFake(), OpenOptions{Parallel: 8, CardOptions: still})
	rng := rand.New(rand.NewPCG(4, 4))
	jobs := jobsFor(4, 50, fakeVocab, 40)
	var wg sync.WaitGroup
	gate := make(chan struct{}, 24)
	for i := range 1000 {
		gate <- struct{}{}
		job, after, how := jobs[rng.IntN(len(jobs))], rng.IntN(8), rng.IntN(3)
		wg.Go(func() {
			defer func() { <-gate }()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if after == 0 && how == 0 {
				cancel()
			}
			n := 0
			for _, err := range b.Complete(ctx, job) {
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Errorf("job %d: %v", i, err)
					}
					return
				}
				if n++; n > after {
					if how == 1 {
						return
					}
					cancel()
				}
			}
		})
	}
	wg.Wait()
	clean(t, b)
	if st := b.Stats(); st.Cancelled == 0 {
		t.Error("nothing counts as cancelled")
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	goleak.VerifyNone(t, ignore)
}

func TestQueueFull(t *testing.T) {
	//proves:T16
	b := onFake(t, newFake(), OpenOptions{Parallel: 2, MaxQueue: 3})
	release := hold(b)
	var seqs []*seq
	for range 3 {
		s, err := b.m.submit(context.Background(), greedy([]int32{1, 2}, 3), nil)
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, s)
	}
	if _, _, err := run(b, greedy([]int32{1}, 1)); !errors.Is(err, ErrBusy) {
		t.Errorf("a fourth in a queue of three: %v, want ErrBusy", err)
	}
	if st := b.Stats(); st.Queued != 3 || st.Rejected != 1 {
		t.Errorf("%d queued, %d rejected; want 3 and 1", st.Queued, st.Rejected)
	}
	// One of them leaves while it waits: it is dropped at dequeue and never runs.
	b.m.forgetCaller(seqs[1])
	release()
	for _, i := range []int{0, 2} {
		for range seqs[i].box.wake {
			if _, _, closed := seqs[i].box.take(nil); closed {
				break
			}
		}
		b.m.forgetCaller(seqs[i])
	}
	clean(t, b)
	if seqs[1].begun {
		t.Error("a sequence without a caller was started")
	}
}

// TestClose: what runs and what waits ends with ErrClosed, and later requests are refused.
func TestClose(t *testing.T) {
	f := newFake()
	b := onFake(t, f, OpenOptions{Parallel: 1})
	var wg sync.WaitGroup
	release := hold(b)
	endless := greedy([]int32{1, 2}, -1)
	endless.Shift = true
	for range 3 {
		wg.Go(func() {
			if _, _, err := run(b, endless); !errors.Is(err, ErrClosed) {
				t.Errorf("%v, want ErrClosed", err)
			}
		})
	}
	for b.Stats().Queued < 3 {
		runtime.Gosched()
	}
	if state := b.Stats().State; state != "ready" {
		t.Errorf("before the close: %s", state)
	}
	wg.Go(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	release()
	wg.Wait()
	if err := b.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("second close: %v", err)
	}
	if state := b.Stats().State; state != "closed" {
		t.Errorf("after the close: %s", state)
	}
	if _, _, err := run(b, greedy([]int32{1}, 1)); !errors.Is(err, ErrClosed) {
		t.Errorf("after close: %v", err)
	}
	if n := f.closed.Load(); n != 2 {
		t.Errorf("%d closes of model and device, want 2", n)
	}
}

// TestGap: however much is to be read, a running answer gets a row at least every few passes, and a
// prompt is not kept waiting by answers.
func TestGap(t *testing.T) {
	//proves:T16
	for name, proven := range map[string]*Proven{"all": {Chunk: true, Mixed: true, Scatter: true},
		"no mixing": {Chunk: true, Scatter: true},
		"no chunks": {Scatter: true}} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			b := onFake(t, f, OpenOptions{Parallel: 9, CardOptions: still, Proven: proven})
			worst := uint64(0)
			f.run = func(int) error {
				for _, s := range b.m.running {
					worst = max(worst, b.m.batch.passes-s.served)
				}
				return nil
			}
			var wg sync.WaitGroup
			release := hold(b)
			for i := range 9 {
				wg.Go(func() {
					ids := make([]int32, 1+i*4)
					for k := range ids {
						ids[k] = int32(i + k)
					}
					if _, _, err := run(b, greedy(ids, 20)); err != nil {
						t.Error(err)
					}
				})
			}
			release()
			wg.Wait()
			if worst > 9 {
				t.Errorf("a sequence waited %d passes among nine", worst)
			}
		})
	}
}

// TestSlowReader: a reader that does not read keeps neither the card nor a place from the others,
// and misses nothing.
func TestSlowReader(t *testing.T) {
	//proves:T8
	f := newFake()
	b := onFake(t, f, OpenOptions{Parallel: 1})
	job := greedy([]int32{1, 2, 3}, 2*boxRoom)
	job.Shift, job.NumCtx = true, 16
	s, err := b.m.submit(context.Background(), job, nil)
	if err != nil {
		t.Fatal(err)
	}
	for !s.box.full() {
		<-s.box.wake
	}
	if _, _, err := run(b, greedy([]int32{4, 5}, 5)); err != nil {
		t.Error(err)
	}
	n := 0
	for {
		tokens, err, closed := s.box.take(nil)
		for _, tok := range tokens {
			if tok.Final == "" {
				n++
			}
		}
		if closed {
			if err != nil || n != job.Limit {
				t.Errorf("%d tokens, %v; want %d", n, err, job.Limit)
			}
			break
		}
		b.card.Wake()
		<-s.box.wake
	}
	b.m.forgetCaller(s)
	clean(t, b)
}

// TestCatchUp: a sequence that stood aside goes on as soon as its reader has caught up, not at the
// worker's next tick.
func TestCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := onFake(t, newFake(), OpenOptions{})
		job := greedy([]int32{1, 2, 3}, 3*boxRoom)
		job.Shift, job.NumCtx = true, 16
		start, n := time.Now(), 0
		for tok, err := range b.Complete(context.Background(), job) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n%boxRoom == 1 {
				synctest.Wait() // until the worker has nothing to do
			}
			_ = tok
		}
		if took := time.Since(start); n != 3*boxRoom+1 || took > 0 {
			t.Errorf("%d tokens, %v spent waiting", n-1, took)
		}
		_ = b.Close()
	})
}

// TestContext: a full context ends the answer, or drops the older half and goes on.
func TestContext(t *testing.T) {
	b := onFake(t, newFake(), OpenOptions{})
	job := greedy([]int32{1, 2, 3, 4}, 50)
	job.NumCtx = 20
	out, last, err := run(b, job)
	if err != nil || len(out) != 16 || last.Final != ReasonLength {
		t.Errorf("%d tokens, %q, %v; want 16 and length", len(out), last.Final, err)
	}
	job.Shift = true
	out, last, err = run(b, job)
	if err != nil || len(out) != 50 || last.Usage.Prompt != 4 {
		t.Errorf("shifting: %d tokens, prompt of %d, %v; want 50 and 4", len(out), last.Usage.Prompt, err)
	}
	job.NumCtx = 3
	var ce *ContextError
	if _, _, err := run(b, job); !errors.As(err, &ce) || ce.Have != 4 || ce.Max != 3 {
		t.Errorf("%v, want a ContextError with 4 and 3", err)
	}
	job = greedy([]int32{1}, -1)
	if out, _, err := run(b, job); err != nil || len(out) != 95 {
		t.Errorf("no limit: %d tokens, %v; want 95", len(out), err)
	}
	if out, last, err := run(b, greedy([]int32{1}, 0)); err != nil || len(out) != 0 || last.Final != ReasonLength {
		t.Errorf("limit 0: %d tokens, %q, %v", len(out), last.Final, err)
	}
	clean(t, b)
}

// TestLies: over a card that lacks an ability the tokens are the same, and what it lacks is named.
func TestLies(t *testing.T) {
	jobs := jobsFor(8, 60, fakeVocab, 60)
	truth := onFake(t, newFake(), OpenOptions{Parallel: 1, Proven: &Proven{}})
	var want [][]int32
	for i, job := range jobs {
		job.Key = fmt.Sprint(i)
		out, _, err := run(truth, job)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, out)
	}
	for _, c := range []struct {
		name string
		lie  func(*fake)
		want Proven
	}{
		{"honest", func(*fake) {}, Proven{Chunk: true, Mixed: true, Scatter: true}},
		{"positions from the first row", func(f *fake) { f.positions = true }, Proven{Chunk: true, Scatter: true}},
		{"one mask for all rows", func(f *fake) { f.masks = true }, Proven{Chunk: true, Scatter: true}},
		{"short chunks unwritten", func(f *fake) { f.shorts = true }, Proven{Scatter: true}},
		{"cells in order", func(f *fake) { f.ordered = true }, Proven{Chunk: true}},
		{"no wide pass", func(f *fake) { f.shape.Groups = f.shape.Groups[:1] }, Proven{Scatter: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			c.lie(f)
			b := onFake(t, f, OpenOptions{Parallel: 12, CardOptions: still})
			if b.m.proven != c.want {
				t.Errorf("proven %+v, want %+v", b.m.proven, c.want)
			}
			st := b.Stats()
			if st.Proven["chunk"] != c.want.Chunk || st.Proven["mixed"] != c.want.Mixed || st.Proven["scatter"] != c.want.Scatter {
				t.Errorf("Stats name %v", st.Proven)
			}
			var wg sync.WaitGroup
			for i, job := range jobs {
				wg.Go(func() {
					if out, _, err := run(b, job); err != nil || !slices.Equal(out, want[i]) {
						t.Errorf("job %d: %v %v, want %v", i, out, err, want[i])
					}
				})
			}
			wg.Wait()
			clean(t, b)
		})
	}
}

// TestFairKeys: a client with many requests in the queue does not keep another's waiting behind all
// of them.
func TestFairKeys(t *testing.T) {
	f := newFake()
	b := onFake(t, f, OpenOptions{Parallel: 2, CardOptions: still})
	release := hold(b)
	var greedyOnes []*seq
	for i := range 20 {
		job := greedy([]int32{1, int32(i), 3}, 10)
		job.Key = "greedy"
		s, err := b.m.submit(context.Background(), job, nil)
		if err != nil {
			t.Fatal(err)
		}
		greedyOnes = append(greedyOnes, s)
	}
	job := greedy([]int32{1, 2}, 10)
	job.Key = "modest"
	s, err := b.m.submit(context.Background(), job, nil)
	if err != nil {
		t.Fatal(err)
	}
	release()
	for range s.box.wake {
		if _, err, closed := s.box.take(nil); closed {
			if err != nil {
				t.Error(err)
			}
			break
		}
	}
	if s.admit > 2 {
		t.Errorf("the modest client's request was let in as number %d", s.admit)
	}
	b.m.forgetCaller(s)
	for _, s := range greedyOnes {
		b.m.forgetCaller(s)
	}
	clean(t, b)
}
