package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/pictures"
	"github.com/axle-llm/axle/internal/lane"
)

// TestSight: a model that sees gives the tokens of the same rows, positions and additions put in by
// hand; another picture, or another order, gives other tokens.
func TestSight(t *testing.T) {
	lane.NoRace(t)
	s := newSight(t)
	b, e := s.open(t, OpenOptions{})
	a, c := shot(1), shot(2)
	said := map[string]bool{}
	for i, job := range []Job{
		asks(12, 5, 6, a, 7, 8), asks(12, 5, 6, c, 7, 8), asks(12, a, 7), asks(12, 5, a, 9, c, 7), asks(12, 5, c, 9, a, 7),
		asks(12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, a, 11), // across a chunk's border
		asks(12, a, 1, a, 2, c, 3), asks(12, 5, 6, 7, 8), asks(30, 5, 6, a, 7, 8),
	} {
		want := s.byHand(t, job)
		got, last, err := run(b, job)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%d: %v, want %v (%v)", i, got, want, err)
		}
		if last.Usage.Prompt != len(job.IDs) {
			t.Errorf("%d: %d prompt tokens, want %d", i, last.Usage.Prompt, len(job.IDs))
		}
		if said[fmt.Sprint(want)] {
			t.Errorf("%d: another prompt had the same answer", i)
		}
		said[fmt.Sprint(want)] = true
	}
	if n := e.calls.Load(); n != 2 {
		t.Errorf("two pictures took %d calls", n)
	}
	if st := b.Stats(); st.Encoded != 2 {
		t.Errorf("%d calls were counted", st.Encoded)
	}
}

// TestEightTurns: a conversation about two pictures calls the encoder twice, and each turn costs
// its own tokens only; so it does again after a restart.
func TestEightTurns(t *testing.T) {
	//proves:G19
	lane.NoRace(t)
	s := newSight(t)
	for range 2 {
		b, e := s.open(t, OpenOptions{})
		parts := []any{1, 2, shot(1), 3, shot(2), 4}
		seen := 0
		for turn := range 8 {
			job := asks(3, parts...)
			want := s.byHand(t, job)
			got, last, err := run(b, job)
			if err != nil || !slices.Equal(got, want) {
				t.Fatalf("turn %d: %v, want %v (%v)", turn, got, want, err)
			}
			if last.Usage.Cached < seen {
				t.Errorf("turn %d: %d of %d prompt tokens were cached, the turns before had %d", turn, last.Usage.Cached, len(job.IDs),
					seen)
			}
			seen = len(job.IDs) + len(got) - 1
			parts = append(parts, got, 10+turn)
		}
		if n := e.calls.Load(); n != 2 {
			t.Errorf("%d calls of the encoder", n)
		}
		b.Close()
	}
}

// TestManySee: requests with the same words about different pictures, at once and beside text, get
// what each gets alone.
func TestManySee(t *testing.T) {
	s := newSight(t)
	for name, o := range map[string]OpenOptions{"": {Parallel: 6}, "repeatable": {Parallel: 4, Repeatable: true},
		"apart": {Parallel: 4, Proven: &Proven{Chunk: true, Scatter: true}}, "in order": {Parallel: 4, Proven: &Proven{Chunk: true}}} {
		t.Run(name, func(t *testing.T) {
			var jobs []Job
			var want [][]int32
			for i := range 4 {
				jobs = append(jobs, asks(6, 5, 6, shot(uint64(i)), 7, 8), asks(6, 5, 6, 7+i), asks(4, 5, shot(uint64(i%2)), 7, shot(3), i))
			}
			for _, job := range jobs {
				want = append(want, s.byHand(t, job))
			}
			b, e := s.open(t, o)
			var wg sync.WaitGroup
			for i := range 2 * len(jobs) {
				wg.Go(func() {
					k := i % len(jobs)
					if got, _, err := run(b, jobs[k]); err != nil || !slices.Equal(got, want[k]) {
						t.Errorf("request %d: %v, want %v (%v)", i, got, want[k], err)
					}
				})
			}
			wg.Wait()
			if n := e.calls.Load(); n != 4 {
				t.Errorf("four pictures took %d calls", n)
			}
		})
	}
}

// TestTextOnly: text asked of a model that sees makes the passes that it makes of one that does
// not.
func TestTextOnly(t *testing.T) {
	//proves:G19
	s := newSight(t)
	for _, sees := range []bool{true, false} {
		b, _ := s.open(t, OpenOptions{Parallel: 1})
		worker := func(do func()) {
			if err := b.card.Do(t.Context(), func(axcl.Device) error { do(); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if !sees {
			worker(func() { b.m.pictures.encoder = nil })
		}
		job := asks(20, 5, 6, 7, 8, 9)
		got, _, err := run(b, job)
		if err != nil || !slices.Equal(got, s.byHand(t, job)) {
			t.Errorf("sees %v: %v (%v)", sees, got, err)
		}
		worker(func() {
			if len(b.m.batch.pass.Add)+len(b.m.batch.pass.Added) > 0 {
				t.Errorf("a pass of text has %d rows to add", len(b.m.batch.pass.Add))
			}
		})
	}
}

// TestSightRefused: what cannot be asked is one error, and the model goes on.
func TestSightRefused(t *testing.T) {
	s := newSight(t)
	b, e := s.open(t, OpenOptions{})
	a := shot(1)
	few, many := asks(3, 5, a, 6), asks(3, 5, a, 6)
	few.IDs = few.IDs[1:]
	few.IDs[0] = 9
	many.Images = append(many.Images, a)
	lots := asks(3, 5, 6)
	for range 300 {
		lots.Images = append(lots.Images, a)
	}
	var ce *ContextError
	var pe *PictureError
	for name, job := range map[string]Job{"a place too few": few, "a picture too many": many, "a picture last": asks(3, 5, a)} {
		if _, _, err := run(b, job); !errors.Is(err, ErrRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := run(b, lots); !errors.As(err, &ce) {
		t.Errorf("300 pictures: %v", err)
	}
	bad := asks(3, 5, a, 6, a[:40], 7)
	if _, _, err := run(b, bad); !errors.As(err, &pe) || pe.Index != 1 || !errors.Is(err, ErrRequest) {
		t.Errorf("half a png: %v", err)
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for _, err := range b.Complete(gone, asks(3, 5, a, 6)) {
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that left: %v", err)
		}
	}
	job := asks(3, 5, a, 6)
	if got, _, err := run(b, job); err != nil || !slices.Equal(got, s.byHand(t, job)) {
		t.Errorf("afterwards: %v (%v)", got, err)
	}
	if len(b.m.pictures.encoder.held) != 0 || b.m.pictures.encoder.room.Left() != b.m.pictures.encoder.most {
		t.Error("pictures are held that no request asks about")
	}
	if e.calls.Load() != 1 {
		t.Errorf("%d calls", e.calls.Load())
	}
}

// TestEncoderFails: a call that fails is made again; one that fails again ends the requests that
// wait for it, and no others.
func TestEncoderFails(t *testing.T) {
	s := newSight(t)
	b, e := s.open(t, OpenOptions{})
	broken := errors.New("the encoder broke")
	e.fail = func(n int32) error {
		if n == 1 {
			return broken
		}
		return nil
	}
	job := asks(4, 5, shot(1), 6)
	if got, _, err := run(b, job); err != nil || !slices.Equal(got, s.byHand(t, job)) {
		t.Errorf("after one failure: %v (%v)", got, err)
	}
	b, e = s.open(t, OpenOptions{})
	e.fail = func(int32) error { return broken }
	if _, _, err := run(b, asks(4, 5, shot(2), 6)); !errors.Is(err, broken) {
		t.Errorf("after two: %v", err)
	}
	text := asks(4, 5, 6)
	if got, _, err := run(b, text); err != nil || !slices.Equal(got, s.byHand(t, text)) {
		t.Errorf("text: %v (%v)", got, err)
	}
	if _, _, err := run(b, asks(4, 5, shot(2), 6)); !errors.Is(err, axcl.ErrLost) {
		t.Errorf("a third failure within a minute: %v", err)
	}
}

// TestPicturesGo: pictures whose rows were dropped for others' are encoded and evaluated again, and
// sequences that need the lowest cells get them.
func TestPicturesGo(t *testing.T) {
	s := newSight(t)
	b, _ := s.open(t, OpenOptions{Parallel: 5})
	b.m.pictures.encoder.cache = pictures.NewCache(pictures.NewRoom(3 * 2 * sightRows * sightHidden * 3)) // three of them
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			var parts []any
			for k := range i % 5 {
				parts = append(parts, k, shot(uint64((i+k)%6)))
			}
			job := asks(8+i, append(parts, 20+i)...)
			want := s.byHand(t, job)
			for range 2 {
				if got, _, err := run(b, job); err != nil || !slices.Equal(got, want) {
					t.Errorf("request %d: %v, want %v (%v)", i, got, want, err)
				}
			}
		})
	}
	wg.Wait()
}

// TestPictureKeys: what is known of a picture is known within a request's key only.
func TestPictureKeys(t *testing.T) {
	s := newSight(t)
	b, e := s.open(t, OpenOptions{})
	for i, key := range []string{"a", "b", "a"} {
		job := asks(3, 5, shot(1), 6)
		job.Key = key
		if _, last, err := run(b, job); err != nil || (last.Usage.Cached > 0) != (i == 2) {
			t.Errorf("%d: %d cached, %v", i, last.Usage.Cached, err)
		}
	}
	if n := e.calls.Load(); n != 2 {
		t.Errorf("%d calls", n)
	}
}

// TestPictureNumbers: rows' numbers are never given twice while what they stand for may be kept.
func TestPictureNumbers(t *testing.T) {
	s := newSight(t)
	b, e := s.open(t, OpenOptions{Parallel: 1})
	for i := range 3 {
		job := asks(4, 5, shot(uint64(i)), 6)
		if got, _, err := run(b, job); err != nil || !slices.Equal(got, s.byHand(t, job)) {
			t.Fatalf("%d: %v (%v)", i, got, err)
		}
		if i == 0 {
			b.m.pictures.encoder.mu.Lock()
			b.m.pictures.encoder.last = math.MinInt32 + sightRows + 2 // one more, then none
			b.m.pictures.encoder.mu.Unlock()
		}
	}
	job := asks(4, 5, shot(0), 6) // its first numbers are the third picture's now
	if got, _, err := run(b, job); err != nil || !slices.Equal(got, s.byHand(t, job)) {
		t.Errorf("%v (%v)", got, err)
	}
	if e.calls.Load() != 3 {
		t.Errorf("%d calls", e.calls.Load())
	}
}
