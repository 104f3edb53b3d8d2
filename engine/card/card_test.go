package card

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/axcl"
)

// TestShares: tenants that always have work share the card's seconds by their weights, whatever
// their pieces take. None waits longer than one piece of each other, beyond the time in which the
// others have as much as it had itself by its last piece.
func TestShares(t *testing.T) {
	for _, weights := range [][]float64{{1, 1, 1, 1}, {2, 1, 1, 4}} {
		t.Run(fmt.Sprint(weights), func(t *testing.T) {
			b := newBench(t)
			ws := []*worker{{kind: Turn, piece: 100 * ms}, {kind: Turn, piece: 30 * ms}, {kind: Load, piece: 2 * time.Second},
				{kind: Turn, piece: 7 * ms}}
			const all = 400 * time.Second
			together(t, b, all, weights, ws...)
			sum := 0.0
			for _, w := range weights {
				sum += w
			}
			for i, w := range ws {
				if share := w.had(0, all).Seconds() / all.Seconds(); share < weights[i]/sum*0.95 || share > weights[i]/sum*1.05 {
					t.Errorf("tenant %d had %.3f of the card, want %.3f", i, share, weights[i]/sum)
				}
				most := time.Duration(0)
				for j, o := range ws {
					if i != j {
						most += o.piece + time.Duration(float64(w.piece)*weights[j]/weights[i])
					}
				}
				if gap := w.gap(); gap > most {
					t.Errorf("tenant %d waited for %v, want %v at most", i, gap, most)
				}
				if used := b.Used(w); used != w.had(0, 2*all) {
					t.Errorf("tenant %d is said to have used %v, and had %v", i, used, w.had(0, 2*all))
				}
			}
		})
	}
}

// device is a card that can be asked for its state, and closed.
type device struct {
	axcl.Device // nil: nothing else is called
	closed      atomic.Int32
}

func (d *device) Info() (axcl.Info, error) { return axcl.Info{ID: "test"}, nil }

func (d *device) Close() error { d.closed.Add(1); return nil }

// bench is a card with a clock that only pieces move.
type bench struct {
	*Card
	dev *device
	now atomic.Int64
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{dev: &device{}}
	c, err := Open(func() (axcl.Device, string, error) { return b.dev, "test", nil },
		Options{Clock: func() time.Duration { return time.Duration(b.now.Load()) }})
	if err != nil {
		t.Fatal(err)
	}
	b.Card = c
	t.Cleanup(func() { _ = c.Close() })
	return b
}

// span is a piece's time.
type span struct{ from, to time.Duration }

// worker is a tenant that has pieces of a kind, one after the other, or one every so often.
type worker struct {
	b           *bench
	kind        Kind
	piece       time.Duration
	every       time.Duration // 0: always
	from, until time.Duration // when it has any
	over        chan struct{} // closed when it had its last; nil: none waits

	spans []span
	waits []time.Duration // of one that has a piece every so often: from when it was due until it began
	count int
}

func (w *worker) Offer(k Kind) (time.Duration, bool) {
	now := w.b.Now()
	if now >= w.until && w.over != nil {
		close(w.over)
		w.over = nil
	}
	return w.piece, k == w.kind && now >= w.from && now < w.until && (w.every == 0 || now >= w.due())
}

func (w *worker) due() time.Duration { return w.from + time.Duration(w.count)*w.every }

func (w *worker) Step(Kind) (bool, error) {
	now := w.b.Now()
	if w.every > 0 {
		w.waits = append(w.waits, now-w.due())
	}
	w.count++
	w.b.now.Add(int64(w.piece))
	w.spans = append(w.spans, span{now, now + w.piece})
	return true, nil
}

func (w *worker) Fail(error) {}

// had is the time it had from one moment to another.
func (w *worker) had(from, to time.Duration) (sum time.Duration) {
	for _, s := range w.spans {
		sum += max(min(s.to, to)-max(s.from, from), 0)
	}
	return sum
}

// gap is the longest time between two of its pieces.
func (w *worker) gap() (longest time.Duration) {
	for i := 1; i < len(w.spans); i++ {
		longest = max(longest, w.spans[i].from-w.spans[i-1].to)
	}
	return longest
}

// together has workers use the card until the clock says so, all of them there from the beginning.
func together(t *testing.T, b *bench, until time.Duration, weights []float64, ws ...*worker) {
	t.Helper()
	over := make(chan struct{})
	ws[0].over = over
	if err := b.Do(t.Context(), func(axcl.Device) error {
		for i, w := range ws {
			w.b, w.until = b, until
			b.Attach(w, weights[i])
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	<-over
	if err := b.Do(t.Context(), func(axcl.Device) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

const ms = time.Millisecond

// TestUrgent: an urgent piece waits for no more than the piece that is under way. Urgent pieces
// without end have a quarter of the card between many others.
func TestUrgent(t *testing.T) {
	b := newBench(t)
	eye := &worker{kind: Urgent, piece: 20 * ms, every: 200 * ms}
	together(t, b, 100*time.Second, []float64{1, 1, 1}, &worker{kind: Turn, piece: 100 * ms}, eye,
		&worker{kind: Load, piece: 2 * time.Second})
	late := 0
	for _, w := range eye.waits {
		if w > 2*time.Second {
			t.Fatalf("an urgent piece waited for %v", w)
		}
		if w > 100*ms {
			late++
		}
	}
	if n := len(eye.waits); n < 450 || late > n*11/20 { // the load has half of the card, and those that come meanwhile wait
		t.Errorf("%d urgent pieces, %d of them waited for more than a pass", n, late)
	}
	b = newBench(t)
	flood := &worker{kind: Urgent, piece: 50 * ms}
	ws, weights := []*worker{flood}, []float64{1}
	for range 9 {
		ws, weights = append(ws, &worker{kind: Turn, piece: 100 * ms}), append(weights, 1)
	}
	const all = 200 * time.Second
	together(t, b, all, weights, ws...)
	if share := flood.had(0, all).Seconds() / all.Seconds(); share < 0.24 || share > 0.27 {
		t.Errorf("urgent pieces had %.3f of the card", share)
	}
}

// TestNoOldCredit: who comes late, or comes back, begins where the others are.
func TestNoOldCredit(t *testing.T) {
	b := newBench(t)
	a := &worker{kind: Turn, piece: 100 * ms}
	late := &worker{kind: Turn, piece: 100 * ms, from: 100 * time.Second}
	together(t, b, 200*time.Second, []float64{1, 1}, a, late)
	if had := a.had(100*time.Second, 102*time.Second); had < 900*ms || had > 1100*ms {
		t.Errorf("in the two seconds after another came it had %v", had)
	}
	if first := late.spans[0].from; first > 100*time.Second+100*ms {
		t.Errorf("who came at 100 s began at %v", first)
	}
}

// TestBackground: what has time is done while no turn waits, and then by turns.
func TestBackground(t *testing.T) {
	//proves:G26
	b := newBench(t)
	saves := []*worker{{kind: Background, piece: 50 * ms}, {kind: Background, piece: 200 * ms}}
	every := &worker{kind: Turn, piece: 10 * ms, every: 1000 * ms}
	busy := &worker{kind: Turn, piece: 100 * ms, from: 50 * time.Second}
	together(t, b, 100*time.Second, []float64{1, 1, 1, 1}, every, saves[0], saves[1], busy)
	for _, s := range saves {
		if last := s.spans[len(s.spans)-1]; last.to > 50*time.Second+200*ms {
			t.Errorf("saved at %v, though a turn waited", last.from)
		}
		if n := len(s.spans); n < 190 || n > 200 {
			t.Errorf("saved %d times", n)
		}
	}
	for _, w := range every.waits[:50] {
		if w > 200*ms {
			t.Errorf("a turn waited for %v of what has time", w)
		}
	}
	if had := busy.had(50*time.Second, 100*time.Second); had < 49*time.Second {
		t.Errorf("the busy tenant had %v", had)
	}
}

// TestInPieces: what is done in pieces lets others have theirs, one load at a time. One that is not
// wanted any more before it begins is not begun.
func TestInPieces(t *testing.T) {
	//proves:G26
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		w := &worker{b: b, kind: Turn, piece: time.Second, until: 1 << 62}
		var order []string
		free := make(chan struct{})
		go func() { _ = b.Do(context.Background(), func(axcl.Device) error { b.Attach(w, 1); <-free; return nil }) }()
		synctest.Wait()
		results := make(chan error, 3)
		ctx, cancel := context.WithCancel(context.Background())
		for i, name := range []string{"a", "b", "c"} {
			go func() {
				results <- b.InPieces(map[bool]context.Context{true: ctx, false: context.Background()}[i == 1],
					func(_ axcl.Device, pause func() error) error {
						for n := range 3 {
							order = append(order, fmt.Sprint(name, n, " ", w.count))
							b.now.Add(int64(time.Second))
							if err := pause(); err != nil {
								return err
							}
						}
						return errors.New(name)
					})
			}()
			synctest.Wait()
		}
		cancel()
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("not begun: %v", err)
		}
		close(free)
		got := []string{(<-results).Error(), (<-results).Error()} // whose goroutine goes on first is the host's affair
		if slices.Sort(got); !slices.Equal(got, []string{"a", "c"}) {
			t.Errorf("%q", got)
		}
		if want := []string{"a0 0", "a1 1", "a2 2", "c0 4", "c1 5", "c2 6"}; !slices.Equal(order, want) {
			t.Errorf("%q, want %q", order, want)
		}
		_ = b.Close()
	})
}

// TestInPiecesEnd: a card that is lost or closed has what is under way release what it has, before
// the device is closed.
func TestInPiecesEnd(t *testing.T) {
	//proves:G26
	for _, lost := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			released := int32(-1)
			free, at := make(chan struct{}), make(chan struct{})
			result := make(chan error, 1)
			go func() {
				result <- b.InPieces(context.Background(), func(_ axcl.Device, pause func() error) error {
					close(at)
					<-free
					err := pause()
					if again := pause(); err == nil || again == nil {
						t.Errorf("pause gave %v, and then %v", err, again)
					}
					released = b.dev.closed.Load()
					return err
				})
			}()
			<-at
			want := ErrClosed
			if lost {
				want = axcl.ErrLost
				go func() { _ = b.Do(context.Background(), func(axcl.Device) error { return axcl.ErrLost }) }()
			} else {
				go func() { _ = b.Close() }()
			}
			synctest.Wait()
			close(free)
			if err := <-result; !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
			<-b.Done()
			if released != 0 || b.dev.closed.Load() != 1 {
				t.Errorf("released after %d closes; closed %d times", released, b.dev.closed.Load())
			}
			if err := b.InPieces(context.Background(), nil); !errors.Is(err, want) {
				t.Errorf("afterwards: %v", err)
			}
			if err := b.Do(context.Background(), nil); !errors.Is(err, want) {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// TestCallsInLine: calls have their turns in the order they came, and one that is not wanted any
// more is passed over.
func TestCallsInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		l := b.NewLine(1)
		free := make(chan struct{})
		go func() { _ = b.Do(context.Background(), func(axcl.Device) error { <-free; return nil }) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(context.Background())
		var order []int
		results := make(chan error, 3)
		for i, ctx := range []context.Context{context.Background(), ctx, context.Background()} {
			go func() {
				results <- l.Do(ctx, Turn, 0, func(axcl.Device) error { order = append(order, i); return nil })
			}()
			synctest.Wait()
		}
		cancel()
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		close(free)
		if err := errors.Join(<-results, <-results); err != nil || !slices.Equal(order, []int{0, 2}) {
			t.Errorf("%v, %v", order, err)
		}
		nothing := func(axcl.Device) error { return nil }
		// The card is idle, and may have done them before their callers look.
		for range 3000 {
			for _, err := range []error{l.Do(ctx, Turn, 0, nothing), b.Do(ctx, nothing)} {
				if !errors.Is(err, context.Canceled) {
					t.Fatalf("a caller that has left: %v", err)
				}
			}
		}
		if err := l.Do(context.Background(), Turn, 0, func(axcl.Device) error { return axcl.ErrLost }); !errors.Is(err, axcl.ErrLost) ||
			!errors.Is(b.Err(), axcl.ErrLost) {
			t.Errorf("%v; the card says %v", err, b.Err())
		}
		l.Close()
		_ = b.Close()
	})
}
