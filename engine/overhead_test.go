package engine

import (
	"context"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/lane"
)

// TestOverhead: a pass with 32 sequences allocates nothing that grows with the context.
func TestOverhead(t *testing.T) {
	lane.NoRace(t) // the detector drops pooled objects at random, so a pass allocates more beside it
	e, pass := steady(t, 32, 2048)
	near := testing.AllocsPerRun(20, pass)
	for len(e.m.running[0].ids) < 50 {
		pass()
	}
	far := testing.AllocsPerRun(8, pass)
	t.Logf("%.0f allocations a pass at first, %.0f with longer contexts", near, far)
	if far > near+8 || far > 40 {
		t.Errorf("%.0f allocations a pass with longer contexts, %.0f at first", far, near)
	}
}

// BenchmarkPass is the scheduler's own work for a pass with 32 answers: planning, masks, drawing,
// mailboxes.
func BenchmarkPass(b *testing.B) {
	_, pass := steady(b, 32, 2048)
	b.ReportAllocs()
	for b.Loop() {
		pass()
	}
}

// steady opens the engine on a fake with n endless sequences running, and gives what runs one more
// pass of them all.
func steady(tb testing.TB, n, cells int) (b *cardBackend, pass func()) {
	f := newFake()
	f.shape.Cells = cells
	f.content = make([]uint64, cells)
	f.shape.Groups = []axcl.Group{{Rows: 1, Cells: cells}, {Rows: 128, Cells: 0}, {Rows: 128, Cells: cells / 2},
		{Rows: 128, Cells: cells - 128}}
	f.quick = true
	b = onFake(tb, f, OpenOptions{Parallel: n, CardOptions: still, Proven: &Proven{Chunk: true, Mixed: true, Scatter: true}})
	release := hold(b)
	off := false
	ctx, cancel := context.WithCancel(context.Background())
	tb.Cleanup(cancel)
	for i := range n {
		job := greedy([]int32{1, 2, int32(i), 4}, -1)
		job.Shift, job.Speculate = true, &off
		s, err := b.m.submit(ctx, job, nil)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { b.m.forgetCaller(s) })
	}
	// From here on this goroutine plays the worker, which waits in Do.
	b.card.Disown()
	tb.Cleanup(release)
	pass = func() {
		if did, err := b.m.step(); !did || err != nil {
			tb.Fatal(did, err)
		}
		for _, s := range b.m.running {
			s.box.take(nil)
			s.box.mu.Lock()
			s.box.tokens = s.box.tokens[:0]
			s.box.mu.Unlock()
		}
	}
	for range 8 {
		pass()
	}
	return b, pass
}
