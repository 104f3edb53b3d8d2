package engine

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/cache"
	"github.com/axle-llm/axle/internal/lane"
)

// TestStatesInMemory (G12): conversations that are edited at random say the same with snapshots in
// memory and without, whatever room there is for them, and some of what left the card comes back.
func TestStatesInMemory(t *testing.T) {
	//proves:G12
	n := 300
	if testing.Short() || lane.Race {
		n = 40
	}
	jobs, want := edits(23, n, fakeVocab, 96, truthOn(t, onFake(t, withStates(2), OpenOptions{CardOptions: still})))
	for _, c := range []struct {
		name  string
		slots int
		state int
		limit int64
	}{{"much room", 3, 8, 1 << 20}, {"little room", 3, 8, 6 << 10}, {"none", 3, 8, 100}, {"in pieces", 3, axcl.PieceBytes + 8, 50 << 20},
		{"many slots", 20, 8, 1 << 20}} {
		t.Run(c.name, func(t *testing.T) {
			f := withStates(c.slots)
			f.shape.State = c.state
			b := remembers(t, f, OpenOptions{Parallel: 4}, c.limit)
			n, again := n, 20
			if c.state > 8 {
				n, again = 8, 4
			} else if c.name != "much room" {
				n = min(n, 60)
			}
			sameEverywhere(t, b, jobs[:n], want[:n], 3)
			for i := range 2 * again {
				out, _, err := run(b, jobs[i%again])
				if err != nil || !slices.Equal(out, want[i%again]) {
					t.Fatalf("job %d: %v %v, alone %v", i, out, err, want[i%again])
				}
				if i%3 == 0 {
					away(t, b)
				}
			}
			st := b.Stats().Memory
			if t.Logf("%+v", st); c.limit > 8<<10 && (st.In == 0 || st.Out == 0) {
				t.Errorf("nothing came back: %+v", st)
			}
			clean(t, b)
		})
	}
}

// TestStatesWhole: a snapshot and its rows come back together or not at all: without either, all is
// evaluated, and so it is where a call fails on the way.
func TestStatesWhole(t *testing.T) {
	//proves:G17
	failed := &axcl.Error{Op: "axclrtMemcpy", Layer: -1, Code: 0x8030070c}
	text := greedy([]int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}, 3)
	want, _, err := run(onFake(t, withStates(2), OpenOptions{CardOptions: still}), text)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		spoil func(b *cardBackend, f *fake)
		hits  bool
	}{
		{"whole", func(*cardBackend, *fake) {}, true},
		{"no state", func(b *cardBackend, _ *fake) { b.m.ramTier.ForgetStates() }, false},
		{"no rows", func(b *cardBackend, _ *fake) {
			b.m.ramTier.Forget()
		}, false},
		{"the first call fails", func(_ *cardBackend, f *fake) { f.copy = fails(1, failed) }, false},
		{"the second call fails", func(_ *cardBackend, f *fake) { f.copy = fails(2, failed) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := withStates(3)
			b := remembers(t, f, OpenOptions{}, 1<<20)
			for range 2 {
				if out, _, err := run(b, text); err != nil || !slices.Equal(out, want) {
					t.Fatalf("%v %v, want %v", out, err, want)
				}
			}
			away(t, b)
			if err := b.card.Do(context.Background(), func(axcl.Device) error {
				if b.m.ramTier.States() == 0 {
					return errors.New("no snapshot is in memory")
				}
				c.spoil(b, f)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			out, last, err := run(b, text)
			if err != nil || !slices.Equal(out, want) {
				t.Fatalf("%v %v, want %v", out, err, want)
			}
			if (last.Usage.Cached > 0) != c.hits {
				t.Errorf("%d rows came back", last.Usage.Cached)
			}
			clean(t, b)
		})
	}
}

// fails is a fake's copy whose nth call fails.
func fails(nth int, err error) func(bool) error {
	n := 0
	return func(bool) error {
		if n++; n == nth {
			return err
		}
		return nil
	}
}

// TestStatesInMemoryKeys (T17): a snapshot in memory of one key's text is never gone on from by
// another.
func TestStatesInMemoryKeys(t *testing.T) {
	b := remembers(t, withStates(3), OpenOptions{}, 1<<20)
	job := greedy([]int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}, 3)
	for _, step := range []struct {
		key  string
		hits bool
	}{{"ann", false}, {"ann", true}, {"bob", false}, {"", false}, {"", true}, {"bob", true}, {"ann", true}} {
		job.Key = step.key
		if _, last, err := run(b, job); err != nil || last.Usage.Cached > 0 != step.hits {
			t.Errorf("key %q: %d of its rows were there, %v", step.key, last.Usage.Cached, err)
		}
		away(t, b)
	}
}

// TestStatesLeft: who leaves while its state is on the way leaves nothing half behind for others.
func TestStatesLeft(t *testing.T) {
	f := withStates(3)
	f.shape.State = axcl.PieceBytes + 8
	b := remembers(t, f, OpenOptions{}, 50<<20)
	job := greedy([]int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}, 3)
	job.IDs = append(job.IDs, job.IDs...) // so long that a snapshot is worth its way
	want, _, err := run(b, job)
	if err != nil {
		t.Fatal(err)
	}
	away(t, b)
	ctx, cancel := context.WithCancel(context.Background())
	ways := 0
	f.copy = func(in bool) error {
		if in {
			if ways++; ways == 2 { // the rows came, and of the state a piece
				cancel()
			}
		}
		return nil
	}
	for _, err := range b.Complete(ctx, job) {
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if f.copy = nil; ways != 2 {
		t.Fatalf("%d calls brought something back", ways)
	}
	if out, _, err := run(b, job); err != nil || !slices.Equal(out, want) {
		t.Errorf("%v %v, want %v", out, err, want)
	}
	clean(t, b)
}

// remembers is onFake with this much memory, on a card where evaluating costs much, and copying
// rows and states costs nothing.
func remembers(t *testing.T, f *fake, o OpenOptions, limit int64) *cardBackend {
	t.Helper()
	o.CardOptions, o.CacheRAM = still, NewMemory(limit)
	b := onFake(t, f, o)
	if err := b.card.Do(context.Background(), func(axcl.Device) error {
		for i := range b.m.costs.group {
			b.m.costs.group[i] = 1
		}
		if tier := b.m.ramTier; tier != nil {
			tier.In, tier.Out, tier.StateIn, tier.StateOut = cache.CopyCost{Row: 1e-6}, cache.CopyCost{Row: 1e-6}, 1e-6, 1e-6
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return b
}

// away sends what the card has to memory, and off the card.
func away(t *testing.T, b *cardBackend) {
	t.Helper()
	if err := b.card.Do(context.Background(), func(axcl.Device) error {
		for did := true; did; {
			var err error
			if did, err = b.m.idle(); err != nil {
				return err
			}
			b.m.verify()
		}
		b.m.cells.Forget()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
