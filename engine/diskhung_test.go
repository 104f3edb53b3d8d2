package engine

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/engine/cache"
)

// TestMediumHangs: a medium whose reads hang costs a sequence no more than a read may, one whose
// writes hang costs none anything; and closing leaves behind what hangs, and says so.
func TestMediumHangs(t *testing.T) {
	//proves:D10 a medium that hangs
	job := jobsFor(5, 1, fakeVocab, 60)[0]
	for len(job.IDs) < 50 {
		job.IDs = append(job.IDs, job.IDs...)
	}
	job.IDs, job.Limit = job.IDs[:50], 9
	want, _, err := run(onKept(t, newFake(), nil), job)
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"reads", "writes"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				medium := &hanging{shelves: &shelves{kept: map[string][]byte{}, block: 8}, gate: make(chan struct{})}
				start := time.Now()
				open := func() *cardBackend {
					f := newFake()
					f.run = func(int) error { time.Sleep(100 * time.Millisecond); return nil }
					o := OpenOptions{CardOptions: still, Medium: medium}
					o.CardOptions.Clock = func() time.Duration { return time.Since(start) }
					return onFake(t, f, o)
				}
				b := open()
				if what == "reads" {
					if _, _, err := run(b, job); err != nil {
						t.Fatal(err)
					}
					restSaved(t, b)
					if err := b.Close(); err != nil {
						t.Fatal(err)
					}
					b = open()
				}
				medium.reads.Store(what == "reads")
				medium.writes.Store(what == "writes")
				begun := time.Now()
				out, end, err := run(b, job)
				if err != nil || !slices.Equal(out, want) || end.Usage.Cached != 0 {
					t.Errorf("%v, %v, %d cached; want %v", out, err, end.Usage.Cached, want)
				}
				alone := time.Duration(len(job.IDs)+job.Limit) * 100 * time.Millisecond
				if took := time.Since(begun); took > alone+2*nearGrace {
					t.Errorf("the answer took %v", took)
				}
				time.Sleep(time.Minute) // it saves
				begun = time.Now()
				err = b.Close()
				if took := time.Since(begun); took < diskEnd || took > 2*diskEnd || err == nil ||
					!strings.Contains(err.Error(), "left behind") {
					t.Errorf("closed after %v: %v", took, err)
				}
				if medium.hung.Load() == 0 {
					t.Error("nothing hung")
				}
				close(medium.gate)
				synctest.Wait()
			})
		})
	}
}

// hanging is a medium whose reads or writes hang until the gate opens.
type hanging struct {
	*shelves
	gate          chan struct{}
	reads, writes atomic.Bool
	hung          atomic.Int64
}

func (h *hanging) Text(o cache.Owner, ids []int32) cache.Text {
	return &hangs{h.shelves.Text(o, ids), h}
}

type hangs struct {
	cache.Text
	of *hanging
}

func (h *hangs) wait(on *atomic.Bool) {
	if on.Load() {
		h.of.hung.Add(1)
		<-h.of.gate
	}
}

func (h *hangs) Load(i int, rows []byte) bool {
	h.wait(&h.of.reads)
	return h.Text.Load(i, rows)
}

func (h *hangs) Save(i int, rows []byte) error {
	h.wait(&h.of.writes)
	return h.Text.Save(i, rows)
}
