package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/sampler"
)

// TestHang (D7): a pass that does not return ends every stream within a second of the watchdog's
// limit; closing does not wait.
func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		hang := make(chan struct{})
		lost := make(chan error, 1)
		b := onFake(t, f, OpenOptions{CardOptions: CardOptions{Lost: func(err error) { lost <- err }}})
		at := f.passes + 3
		f.run = func(n int) error {
			if n >= at {
				<-hang
				return errors.New("late")
			}
			return nil
		}
		start := time.Now()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if _, _, err := run(b, greedy([]int32{1, 2, 3}, 20)); !errors.Is(err, axcl.ErrLost) {
					t.Errorf("%v, want ErrLost", err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("streams ended after %v, want 10 s and less than one more", took)
		}
		if err := <-lost; !errors.Is(err, axcl.ErrLost) {
			t.Errorf("Lost was told %v", err)
		}
		if st := b.Stats(); st.State != "lost" {
			t.Errorf("state %q", st.State)
		}
		start = time.Now()
		if err := b.Close(); !errors.Is(err, axcl.ErrLost) {
			t.Errorf("close: %v", err)
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("close waited %v for a card that hangs", took)
		}
		close(hang)
		synctest.Wait()
	})
}

// TestHangAtOpen (D7): a library that does not return from its first call is lost like any other;
// one that was only slow is closed, unused.
func TestHangAtOpen(t *testing.T) {
	//proves:D7 from the library's first call on
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		hang := make(chan struct{})
		lost := make(chan error, 1)
		start := time.Now()
		_, err := OpenCard(func() (axcl.Device, string, error) { <-hang; return f.open() },
			CardOptions{Lost: func(err error) { lost <- err }})
		if took := time.Since(start); !errors.Is(err, axcl.ErrLost) || took < 10*time.Second || took > 11*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		if err := <-lost; !errors.Is(err, axcl.ErrLost) {
			t.Errorf("Lost was told %v", err)
		}
		close(hang)
		synctest.Wait()
		if n := f.closed.Load(); n != 1 {
			t.Errorf("closed %d times", n)
		}
		slow, err := OpenCard(func() (axcl.Device, string, error) { <-time.After(9 * time.Second); return newFake().open() }, CardOptions{})
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if err := errors.Join(slow.Err(), slow.Close()); err != nil {
			t.Error(err)
		}
	})
}

// TestHangAtClose (D7): a library that does not return from unloading a model loses the card for
// the models beside it too; one that does not return from closing the card is left alone.
func TestHangAtClose(t *testing.T) {
	//proves:D7 while a model is unloaded or the card closed
	for _, at := range []int32{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			hang := make(chan struct{})
			f.shut = func(n int32) {
				if n == at {
					<-hang
				}
			}
			b := onFake(t, f, OpenOptions{})
			if at == 2 {
				b.closer = func() error { return nil }
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			}
			start := time.Now()
			var err error
			if at == 1 {
				b.closer = func() error { return nil }
				err = b.Close()
			} else {
				err = b.card.Close()
			}
			if took := time.Since(start); !errors.Is(err, axcl.ErrLost) || took < 10*time.Second || took > 11*time.Second {
				t.Errorf("close %d: %v after %v, want ErrLost after 10 s", at, err, took)
			}
			if at == 1 && !errors.Is(b.card.Err(), axcl.ErrLost) {
				t.Errorf("a card that does not unload: %v", b.card.Err())
			}
			close(hang)
			synctest.Wait()
		})
	}
}

// TestNoFalseAlarm (D7): passes that take up to nine seconds, or ten times what they took before,
// are no reason to give up.
func TestNoFalseAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		b := onFake(t, f, OpenOptions{})
		rng := rand.New(rand.NewPCG(1, 1))
		f.run = func(n int) error {
			<-time.After(time.Duration(rng.Int64N(int64(9 * time.Second))))
			return nil
		}
		if _, _, err := run(b, greedy([]int32{1, 2, 3}, 60)); err != nil {
			t.Error(err)
		}
		_ = b.Close()
	})
}

// TestExecuteFails (D4): a failed pass is repeated once for those that have said nothing, and ends
// the others; three in a minute end the card.
func TestExecuteFails(t *testing.T) {
	fail := &axcl.Error{Op: "axclrtEngineExecute", Layer: 3, Code: 0x8030070c}
	t.Run("retried", func(t *testing.T) {
		f := newFake()
		b := onFake(t, f, OpenOptions{})
		want, _, _ := run(b, greedy([]int32{1, 2, 3, 4}, 5))
		at := f.passes + 1
		f.run = func(n int) error {
			if n == at {
				return fail
			}
			return nil
		}
		job := greedy([]int32{1, 2, 3, 4}, 5)
		job.Key = "other"
		if got, _, err := run(b, job); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v %v, want %v", got, err, want)
		}
		clean(t, b)
	})
	t.Run("ended", func(t *testing.T) {
		f := newFake()
		b := onFake(t, f, OpenOptions{})
		at := f.passes + 4
		f.run = func(n int) error {
			if n == at {
				return fail
			}
			return nil
		}
		out, _, err := run(b, greedy([]int32{1, 2, 3, 4}, 20))
		if !errors.Is(err, fail) || len(out) == 0 {
			t.Errorf("%d tokens, then %v", len(out), err)
		}
		if _, _, err := run(b, greedy([]int32{1, 2, 3, 4}, 5)); err != nil {
			t.Errorf("the next request: %v", err)
		}
		clean(t, b)
		if st := b.Stats(); st.Failed != 1 || st.State != "ready" {
			t.Errorf("%d failed, state %s", st.Failed, st.State)
		}
	})
	t.Run("thrice", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			b := onFake(t, f, OpenOptions{})
			broken := true
			f.run = func(int) error {
				if broken {
					return fail
				}
				return nil
			}
			_, _, err := run(b, greedy([]int32{1}, 5)) // fails, is retried, fails
			if !errors.Is(err, fail) || errors.Is(err, axcl.ErrLost) {
				t.Errorf("first: %v", err)
			}
			<-time.After(61 * time.Second)
			if _, _, err = run(b, greedy([]int32{1}, 5)); errors.Is(err, axcl.ErrLost) {
				t.Errorf("two failures more than a minute before: %v", err)
			}
			if _, _, err = run(b, greedy([]int32{1}, 5)); !errors.Is(err, axcl.ErrLost) {
				t.Errorf("third in a minute: %v, want ErrLost", err)
			}
			_ = b.Close()
		})
	})
}

// TestFatal (D5, D8): an error that leaves card and host out of step is never retried: all streams
// end, the device is closed once.
func TestFatal(t *testing.T) {
	for _, fatal := range []error{&axcl.Error{Op: "axclrtEngineExecute", Code: 0x8030070a},
		&axcl.Error{Op: "axclrtEngineExecute", Code: 0xdeadbeef}, axcl.ErrTimeout} {
		f := newFake()
		lost := make(chan error, 2)
		b := onFake(t, f, OpenOptions{CardOptions: CardOptions{Lost: func(err error) { lost <- err }}})
		f.run = func(int) error { return fatal }
		before := f.passes
		var wg sync.WaitGroup
		release := hold(b)
		for range 5 {
			wg.Go(func() {
				if _, _, err := run(b, greedy([]int32{1, 2}, 5)); !errors.Is(err, axcl.ErrLost) || !errors.Is(err, fatal) {
					t.Errorf("%v, want ErrLost and %v", err, fatal)
				}
			})
		}
		for b.Stats().Queued < 5 {
			runtime.Gosched()
		}
		release()
		wg.Wait()
		<-lost
		<-b.card.Done()
		if f.passes != before+1 || f.closed.Load() != 1 {
			t.Errorf("%v: %d passes after the fatal one, %d closes", fatal, f.passes-before-1, f.closed.Load())
		}
		if err := b.card.Do(context.Background(), nil); !errors.Is(err, axcl.ErrLost) {
			t.Errorf("Do on a lost card: %v", err)
		}
	}
}

// TestWrongData (D6): logits that are NaN, infinite or all equal end the sequence with an error,
// greedy or not, and no other sequence uses its cells.
func TestWrongData(t *testing.T) {
	//proves:D6
	for name, v := range map[string]uint16{"NaN": 0x7fc0, "infinite": 0x7f80, "equal": 0x3f80} {
		for _, temperature := range []float32{0, 0.8} {
			t.Run(fmt.Sprintf("%s at %g", name, temperature), func(t *testing.T) {
				f := newFake()
				b := onFake(t, f, OpenOptions{})
				from := f.passes + 6
				f.damage = func(n int, p *axcl.Pass) {
					for i := range p.Logits {
						if n >= from {
							p.Logits[i] = v
						}
					}
					for i := range p.Argmax {
						if n >= from {
							p.Argmax[i] = 0
						}
					}
				}
				job := greedy([]int32{1, 2, 3}, 60)
				job.Sampling.Temperature = temperature
				out, _, err := run(b, job)
				if !errors.Is(err, sampler.ErrBadLogits) {
					t.Errorf("%v, want ErrBadLogits", err)
				}
				if len(out) > 10 {
					t.Errorf("%d tokens came of nonsense", len(out))
				}
				clean(t, b)
			})
		}
	}
}

// TestCheckup (D6): an idle card is asked every hour whether it still says what it said at load;
// one that does not is lost. A running answer is never kept waiting for it.
func TestCheckup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		lost := make(chan error, 1)
		b := onFake(t, f, OpenOptions{CardOptions: CardOptions{Lost: func(err error) { lost <- err }}})
		if err := b.card.Do(context.Background(), func(axcl.Device) error { return b.m.canary.remember(nil) }); err != nil {
			t.Fatal(err)
		}
		passes := func() (n int) {
			_ = b.card.Do(context.Background(), func(axcl.Device) error { n = f.passes; return nil })
			return n
		}
		before := passes()
		<-time.After(3*time.Hour + time.Minute)
		if n := passes() - before; n != 3*sampleLen {
			t.Errorf("%d passes in three idle hours, want %d", n, 3*sampleLen)
		}
		if _, _, err := run(b, greedy([]int32{1, 2, 3}, 4)); err != nil {
			t.Fatal(err)
		}
		if err := b.card.Do(context.Background(), func(axcl.Device) error {
			f.damage = func(_ int, p *axcl.Pass) {
				for i := range p.Argmax {
					p.Argmax[i] = (p.Argmax[i] + 1) % fakeVocab
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-lost:
			if !errors.Is(err, ErrWrong) || !errors.Is(err, axcl.ErrLost) {
				t.Errorf("%v, want ErrWrong", err)
			}
		case <-time.After(2 * time.Hour):
			t.Error("no error was reported")
		}
		_ = b.Close()
	})
}

// TestRemembered: what was proven is kept by package and card, and a card that answers otherwise
// the next time is refused.
func TestRemembered(t *testing.T) {
	dir, kept := compiled(t, "qwen3"), t.TempDir()
	var faulty *axcltest.Faulty
	open := func() (axcl.Device, string, error) {
		d, _, err := openSoft()
		faulty = axcltest.NewFaulty(d)
		return faulty, "test", err
	}
	runs := func() int { return faulty.Calls(axcltest.OpRun) }
	_, first := load(t, dir, open, OpenOptions{Remember: kept})
	probing := runs()
	_, second := load(t, dir, open, OpenOptions{Remember: kept})
	if runs() >= probing || second.m.proven != first.m.proven || len(second.m.canary.sample) != sampleLen {
		t.Errorf("%d passes at the first load, %d at the second; proven %+v and %+v", probing, runs(), first.m.proven, second.m.proven)
	}
	files, _ := filepath.Glob(filepath.Join(kept, "proven-*"))
	spoken, _ := filepath.Glob(filepath.Join(kept, "said-*"))
	if len(files) != 1 || len(spoken) != 1 {
		t.Fatal(files, spoken)
	}
	if err := os.Remove(spoken[0]); err != nil { // an older program kept none
		t.Fatal(err)
	}
	tokens := slices.Clone(first.m.canary.sample)
	for i := range tokens {
		tokens[i]++
	}
	b, _ := json.Marshal(memory{Sound: true, Proven: first.m.proven, Alike: first.m.prover.alike, Tokens: tokens,
		Groups: first.m.costs.group, Head: first.m.costs.head, Together: &together{Tokens: tokens}})
	if err := os.WriteFile(files[0], b, 0o644); err != nil {
		t.Fatal(err)
	}
	card, err := OpenCard(open, CardOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer card.Close()
	if _, err := Open(context.Background(), dir, OpenOptions{Card: card, Remember: kept}); !errors.Is(err, ErrWrong) {
		t.Errorf("%v, want ErrWrong", err)
	}
}
