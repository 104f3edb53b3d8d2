package engine

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/engine/cache"
)

// TestMoves (G18): a prompt that comes while a long answer lies in the cells that wide passes see
// has them soon, and the last answer ends no later for it; and a conversation that lies too high
// to go on in wide passes comes down.
func TestMoves(t *testing.T) {
	for _, c := range []struct {
		name               string
		s                  axmodel.Shape
		p                  pi5
		long, out, prompt  int
		sooner, everything float64 // times as soon, the first token; times as long, all of it
	}{
		{"0.6B", axmodel.Qwen3Small(), small, 700, 500, 700, 5, 1.01},
		{"4B", axmodel.Qwen3Large(), large, 1300, 250, 900, 4, 1.01},
	} {
		load := prompts(2, max(c.long, c.prompt), c.out)
		load[0].job.IDs = load[0].job.IDs[:c.long]
		load[1].job.IDs, load[1].job.Limit = load[1].job.IDs[:c.prompt], 32
		load[1].at = 18 * time.Second
		// The next turn of the long one, whose rows went up.
		next := greedy(slices.Clone(load[0].job.IDs), 2)
		next.Speculate, next.IgnoreStop = load[0].job.Speculate, true
		for i := range c.out - 1 {
			next.IDs = append(next.IDs, 9)
			if i > 100 && len(next.IDs) > 900 {
				break
			}
		}
		for range 32 {
			next.IDs = append(next.IDs, 3)
		}
		var first, turn, all [2]time.Duration
		for i := range first {
			st := onPaced(t, c.s, c.p, OpenOptions{})
			if i == 0 {
				st.m.costs.move = cache.CopyCost{}
			}
			stays, took := st.crowd(t, load)
			first[i], all[i] = stays[1].first-load[1].at, took
			stays, _ = st.crowd(t, []visit{{job: next}})
			turn[i] = stays[0].first
			if (st.m.layout.carried > 0) != (i == 1) {
				t.Errorf("%s: %d rows were moved", c.name, st.m.layout.carried)
			}
		}
		t.Logf("%s: a prompt of %d beside an answer in the near cells: first token after %.1f s, %.1f s where rows stay; all %.1f s, "+
			"%.1f s; the next turn of the answer %.2f s, %.2f s", c.name, c.prompt, first[1].Seconds(), first[0].Seconds(),
			all[1].Seconds(), all[0].Seconds(), turn[1].Seconds(), turn[0].Seconds())
		if first[0].Seconds() < c.sooner*first[1].Seconds() || all[1].Seconds() > c.everything*all[0].Seconds() || turn[1] > turn[0] {
			t.Errorf("%s: first token after %v, %v where rows stay; all after %v, %v; next turn %v, %v", c.name, first[1], first[0], all[1],
				all[0], turn[1], turn[0])
		}
	}
}

// narrow is a fake whose wide passes see less than half of the cells, so that much has to move.
func narrow() *fake {
	f := newFake()
	f.shape.Groups = []axcl.Group{{Rows: 1, Cells: 96}, {Rows: 8, Cells: 0}, {Rows: 8, Cells: 24}, {Rows: 8, Cells: 40}}
	return f
}

// onNarrow opens the engine on it, with passes of ten milliseconds by the card's clock and copies
// that take next to nothing.
func onNarrow(t testing.TB, f *fake, o OpenOptions) *cardBackend {
	t.Helper()
	var now atomic.Int64
	run := f.run
	f.run = func(n int) error {
		now.Add(int64(10 * time.Millisecond))
		if run != nil {
			return run(n)
		}
		return nil
	}
	o.CardOptions = still
	o.CardOptions.Clock = func() time.Duration { return time.Duration(now.Load()) }
	return onFake(t, f, o)
}

// TestMovesSameTokens (G18): whatever moves, every answer is the one that is given alone,
// beginnings that several share included, and with memory behind the card.
func TestMovesSameTokens(t *testing.T) {
	n := editsOr(120)
	jobs, want := edits(21, n, fakeVocab, 90, truthOn(t, onFake(t, narrow(), OpenOptions{CardOptions: still, Parallel: 1})))
	for _, memory := range []int64{0, 16 << 10} {
		b := onNarrow(t, narrow(), OpenOptions{CacheRAM: NewMemory(memory)})
		for at := 0; at < n; at += 40 {
			var wg sync.WaitGroup
			for i := at; i < min(at+40, n); i++ {
				wg.Go(func() {
					if out, _, err := run(b, jobs[i]); err != nil || !slices.Equal(out, want[i]) {
						t.Errorf("job %d, prompt %v: %v %v, alone %v", i, jobs[i].IDs, out, err, want[i])
					}
				})
			}
			wg.Wait()
		}
		moved := uint64(0)
		if err := b.card.Do(context.Background(), func(axcl.Device) error { moved = b.m.layout.carried; return nil }); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d rows were moved, with %d bytes of memory", moved, memory)
		if moved < uint64(n)/2 {
			t.Errorf("%d rows were moved", moved)
		}
		clean(t, b)
	}
}

// TestMoveFails: a move that fails costs no answer, and no further one is tried; an error that the
// card does not survive ends it.
func TestMoveFails(t *testing.T) {
	mild := &axcl.Error{Op: "axclrtMemcpyAsync", Code: 0x80300703}
	for _, fails := range []error{nil, mild, axcl.ErrLost} {
		f := narrow()
		b := onNarrow(t, f, OpenOptions{})
		c := &clumsy{fake: f}
		var ids []int32
		for i := range 38 {
			ids = append(ids, int32(i%fakeVocab))
		}
		long, short := greedy(ids, 30), greedy([]int32{60, 61, 62, 63, 9, 8, 7, 6, 5, 4, 3, 2, 1, 11, 12, 13, 14, 15, 16, 17}, 4)
		off := false
		for _, j := range []*Job{&long, &short} {
			j.IgnoreStop, j.Speculate = true, &off
		}
		alone, _, err := run(b, short)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.card.Do(context.Background(), func(axcl.Device) error {
			b.m.cells.Forget()
			c.err, b.m.model = fails, c
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		release := hold(b)
		var wg sync.WaitGroup
		var out [2][]int32
		var errs [2]error
		for i, j := range []Job{long, short} {
			wg.Go(func() { out[i], _, errs[i] = run(b, j) })
			for b.Stats().Queued < i+1 {
				runtime.Gosched()
			}
		}
		release()
		wg.Wait()
		if c.calls == 0 {
			t.Errorf("%v: nothing was moved", fails)
		}
		if errors.Is(fails, axcl.ErrLost) {
			if !errors.Is(errs[1], axcl.ErrLost) {
				t.Errorf("%v", errs[1])
			}
			continue
		}
		if errs[0] != nil || errs[1] != nil || !slices.Equal(out[1], alone) || len(out[0]) != 30 {
			t.Errorf("%v: %v, %v; %v, alone %v", fails, errs[0], errs[1], out[1], alone)
		}
		if fails != nil && (c.calls != 1 || len(f.cleared) != 1) {
			t.Errorf("%v: %d copies, cleared %d", fails, c.calls, f.cleared)
		}
		clean(t, b)
	}
}

// clumsy is a card whose copies may fail.
type clumsy struct {
	*fake
	err   error
	calls int
}

func (c *clumsy) Copy(to, from []uint32) error {
	if c.calls++; c.err != nil {
		return c.err
	}
	return c.fake.Copy(to, from)
}

// TestMoveNotAsCopied: a card whose copies give other rows is not asked to move any.
func TestMoveNotAsCopied(t *testing.T) {
	//proves:G18
	f := narrow()
	b := onNarrow(t, f, OpenOptions{})
	if !b.m.moves() {
		t.Fatal("rows cannot be moved")
	}
	if err := b.card.Do(context.Background(), func(axcl.Device) error {
		for i := range f.content {
			f.content[i] = uint64(i + 1)
		}
		b.m.model = idle{f}
		return b.m.layout.priceMoves()
	}); err != nil {
		t.Fatal(err)
	}
	if b.m.moves() {
		t.Error("rows are moved by copies that do nothing")
	}
}

// idle is a card whose copies do nothing.
type idle struct{ *fake }

func (idle) Copy(to, from []uint32) error { return nil }
