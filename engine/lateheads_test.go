package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/sampler"
)

// TestHeadLate: several answers whose rows go alone in turn, with heads that the host computes
// while the card goes on, are those of the card's head alone.
func TestHeadLate(t *testing.T) {
	//proves:G12
	for _, arch := range []string{stateArch(), "qwen3-sharded"} {
		t.Run(arch, func(t *testing.T) {
			dir := compiled(t, arch)
			_, card := load(t, dir, openSoft, OpenOptions{CardOptions: still, Head: HeadCard})
			jobs, want := edits(36, 60, axmodeltest.Vocab, 95, truthOn(t, card))
			o := OpenOptions{Head: HeadHost, Remember: t.TempDir(), CacheRAM: NewMemory(4 << 20)}
			if arch == "qwen3-sharded" {
				o.Proven = &Proven{Scatter: true} // no rows of several in a pass
			}
			_, b := load(t, dir, openSoft, o)
			if h := headOf(t, b); !h.Ready {
				t.Fatalf("%+v", h)
			}
			var all sync.WaitGroup
			free := Hold(b) // all are there before the first runs
			for i := range jobs {
				all.Go(func() {
					got, _, err := run(b, jobs[i])
					if err != nil {
						t.Error(err)
					} else if !slices.Equal(got, want[i]) {
						atNearTie(t, card, jobs[i], got, want[i])
					}
				})
			}
			for end := time.Now().Add(time.Minute); b.Stats().Queued < len(jobs) && time.Now().Before(end); {
				<-time.After(time.Millisecond)
			}
			free()
			all.Wait()
			clean(t, b)
			if n := lateRows(t, b); n < 100 {
				t.Errorf("%d heads were late", n)
			}
			// No row goes through the card once more because its token was not there yet.
			st := b.Stats()
			if most := (st.PromptTokens - st.CachedTokens + st.OutputTokens) * 5 / 4; st.Rows > most {
				t.Errorf("%d rows, want %d at most", st.Rows, most)
			}
			t.Logf("%d rows for %d tokens of prompts and %d of answers", st.Rows, st.PromptTokens-st.CachedTokens, st.OutputTokens)
		})
	}
}

// TestHeadLateEnds: a caller that leaves while its head is late, and a host that fails then, leave
// the others' answers as they are.
func TestHeadLateEnds(t *testing.T) {
	//proves:G7
	for name, good := range map[string]int{"a host that works": 1 << 20, "a host that fails": 2*len(hostRows) + 9} {
		t.Run(name, func(t *testing.T) {
			_, alone := withHead(t, withStates(8), 1<<20)
			want, _, err := run(alone, greedy([]int32{3, 4, 5}, 30))
			if err != nil {
				t.Fatal(err)
			}
			_, b := withHead(t, withStates(8), good)
			free := Hold(b) // all are there before the first runs
			var all sync.WaitGroup
			for i := range 6 {
				all.Go(func() {
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					job := greedy([]int32{3, 4, 5}, 30)
					job.Key = fmt.Sprint(i)
					var got []int32
					for tok, err := range b.Complete(ctx, job) {
						if err != nil {
							if i%2 == 0 {
								t.Errorf("client %d: %v", i, err)
							}
							return
						}
						if tok.Final == "" {
							got = append(got, tok.ID)
						}
						if i%2 == 1 && len(got) == 5 {
							return // it leaves
						}
					}
					if good > 100 && !slices.Equal(got, want) {
						t.Errorf("client %d: %v, want %v", i, got, want)
					}
				})
			}
			for end := time.Now().Add(time.Minute); b.Stats().Queued < 6 && time.Now().Before(end); {
				<-time.After(time.Millisecond)
			}
			free()
			all.Wait()
			if st := b.Stats(); good > 100 != st.Head.Ready {
				t.Errorf("%+v", st.Head)
			}
			if n := lateRows(t, b); n == 0 {
				t.Error("no head was late")
			}
		})
	}
}

// TestHeadLateStale: the token of a row whose sequence has left its cells meanwhile is not used,
// also where the sequence goes on.
func TestHeadLateStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := withHead(t, newFake(), 1<<20)
		job := greedy([]int32{3, 4, 5}, 30)
		want, _, err := run(b, job)
		if err != nil {
			t.Fatal(err)
		}
		f.run = func(int) error { <-time.After(time.Millisecond); return nil }
		job.Key = "another"
		var got []int32
		for tok, err := range b.Complete(context.Background(), job) {
			if err != nil {
				t.Fatal(err)
			}
			if tok.Final == "" {
				got = append(got, tok.ID)
			}
			if len(got) != 5 {
				continue
			}
			if err := b.card.Do(context.Background(), func(axcl.Device) error {
				s := b.m.running[0]
				r := &lateRow{s: s, result: result{argmax: (want[5] + 1) % fakeVocab}}
				run := &lateRun{rows: []*lateRow{r}, done: make(chan struct{})}
				close(run.done)
				s.late, b.m.heads.run = r, run
				b.m.quit(s, exitRecalled)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestHeadLateStranded: if the host fails in a pass that it computes at once, the card computes the
// heads of the rows that still wait.
func TestHeadLateStranded(t *testing.T) {
	f, b := withHead(t, newFake(), 1<<20)
	row, other := make([]uint16, f.shape.Hidden), make([]uint16, f.shape.Hidden)
	row[3], other[5] = 0x3f80, 0xc000
	logits := make([]uint16, f.shape.Out)
	if err := f.Head(other, logits); err != nil {
		t.Fatal(err)
	}
	if err := b.card.Do(context.Background(), func(axcl.Device) error {
		h := b.m.heads
		done := make(chan struct{})
		close(done)
		h.run = &lateRun{rows: []*lateRow{{s: &seq{}, hidden: row, result: result{argmax: 9}}}, done: done}
		h.waiting = []*lateRow{{s: &seq{}, hidden: other, result: result{logits: make([]uint16, f.shape.Out)}}}
		h.fail(errors.New("the table is gone"))
		rows, err := h.lateDone(true)
		if err != nil || len(rows) != 2 || rows[0].argmax != 9 || rows[1].argmax != sampler.Argmax(logits) ||
			!slices.Equal(rows[1].logits, logits) || h.waiting != nil {
			t.Errorf("%d rows, %v", len(rows), err)
		}
		// The host has failed for the late rows too.
		h.run = &lateRun{rows: []*lateRow{{s: &seq{}, hidden: other}}, done: done, err: errors.New("and again")}
		rows, err = h.lateDone(false)
		if err != nil || len(rows) != 1 || rows[0].argmax != sampler.Argmax(logits) {
			t.Errorf("%d rows, %v", len(rows), err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// stateArch is an architecture with states whose head is tied.
func stateArch() string {
	for _, a := range axmodeltest.StateArchs() {
		if a.Tied {
			return a.Name
		}
	}
	panic("no architecture with states is tied")
}

func lateRows(t *testing.T, b *cardBackend) (n int) {
	t.Helper()
	if err := b.card.Do(context.Background(), func(axcl.Device) error { n = b.m.heads.lateRows; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}
