package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/internal/lane"
)

// TestRAMTierKeys (T17): text of one key is never found in memory by another.
func TestRAMTierKeys(t *testing.T) {
	st := onPaced(t, axmodel.Qwen3Small(), small, OpenOptions{CacheRAM: NewMemory(1 << 20)})
	text := prompts(1, 600, 2)[0]
	ask := func(key string) int {
		v := text
		v.job.Key = key
		stays, _ := st.crowd(t, []visit{v})
		return stays[0].usage.Cached
	}
	away := func() { // what was said goes to memory, and off the card
		if err := st.card.Do(context.Background(), func(axcl.Device) error {
			for did := true; did; {
				var err error
				if did, err = st.m.idle(); err != nil {
					return err
				}
			}
			st.m.cells.Forget()
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		key  string
		hits bool
	}{{"ann", false}, {"ann", true}, {"bob", false}, {"", false}, {"", true}, {"bob", true}, {"ann", true}} {
		if n := ask(step.key); (n > 500) != step.hits || n > 0 && !step.hits {
			t.Errorf("key %q: %d rows of it came back", step.key, n)
		}
		away()
	}
	if st.m.queue.stats.Memory.Hits == 0 || st.m.queue.stats.Memory.Saved <= 0 {
		t.Errorf("%+v", st.m.queue.stats.Memory)
	}
}

// TestRAMTierLimit: what is kept stays within its limit to the byte, the longest unused goes first,
// and a tier that is smaller than one text keeps the beginning of it.
func TestRAMTierLimit(t *testing.T) {
	//proves:G17
	lane.NoRace(t)
	for _, rows := range []int{0, 2, 300, 4000} {
		t.Run(fmt.Sprint(rows, " rows"), func(t *testing.T) {
			bytes := newFake().shape.RowBytes()
			limit := int64(rows*bytes + bytes/2)
			st := onPaced(t, axmodel.Qwen3Small(), small, OpenOptions{CacheRAM: NewMemory(limit)})
			if rows < 2 {
				if st.m.ramTier != nil {
					t.Fatalf("a tier for %d rows", rows)
				}
			} else if _, _, n, _ := st.m.ramTier.Size(); n > limit || limit-n > int64(bytes) {
				t.Fatalf("%d bytes for a limit of %d", n, limit)
			}
			got, _ := st.turns(t, axmodel.Qwen3Small(), small, 4, 700, 3)
			before, _ := onPaced(t, axmodel.Qwen3Small(), small, OpenOptions{}).turns(t, axmodel.Qwen3Small(), small, 4, 700, 3)
			t.Logf("first token after %v, %v without; %+v", got[len(got)/2], before[len(before)/2], st.m.queue.stats.Memory)
			if got[len(got)/2] > before[len(before)/2]*21/20 {
				t.Errorf("with room for %d rows the first token takes longer: %v, %v without", rows, got[len(got)/2], before[len(before)/2])
			}
			if rows == 300 && st.m.queue.stats.Memory.Used > 300 || rows == 4000 && st.m.queue.stats.Memory.Hits == 0 {
				t.Errorf("%+v", st.m.queue.stats.Memory)
			}
		})
	}
}

// ailing is a card whose rows cannot be copied.
type ailing struct {
	*fake
	save, restore error
}

func (a *ailing) Save(cells []uint32, to []byte) error {
	return errors.Join(a.save, a.fake.Save(cells, to))
}

func (a *ailing) Restore(cells []uint32, from []byte) error {
	return errors.Join(a.restore, a.fake.Restore(cells, from))
}

// TestRAMTierFails: a row that cannot be copied is evaluated; an error that the card does not
// survive ends it.
func TestRAMTierFails(t *testing.T) {
	//proves:G17
	failed := &axcl.Error{Op: "axclrtMemcpy", Layer: -1, Code: 0x1234}
	for _, c := range []struct {
		name          string
		save, restore error
		lost          bool
	}{{"out", axcl.ErrTimeout, nil, true}, {"in", nil, axcl.ErrLost, true}, {"out, not for good", failed, nil, axcl.Fatal(failed)},
		{"in, not for good", nil, failed, axcl.Fatal(failed)}} {
		t.Run(c.name, func(t *testing.T) {
			st := onPaced(t, axmodel.Qwen3Small(), small, OpenOptions{CacheRAM: NewMemory(1 << 20)})
			a := &ailing{fake: st.m.model.(*paced).fake}
			text := prompts(1, 600, 2)
			err := st.card.Do(context.Background(), func(axcl.Device) error {
				st.m.model = a
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			st.crowd(t, text)
			a.save = c.save
			err = st.card.Do(context.Background(), func(axcl.Device) error {
				for did := true; did; {
					var err error
					if did, err = st.m.idle(); err != nil {
						return err
					}
				}
				st.m.cells.Forget()
				return nil
			})
			if c.save != nil {
				if (err != nil) != c.lost {
					t.Fatalf("%v, lost %v", err, c.lost)
				}
				if c.lost {
					return
				}
			}
			a.restore = c.restore
			if c.lost {
				err := st.card.Do(context.Background(), func(axcl.Device) error {
					if _, err := st.m.submit(context.Background(), text[0].job, nil); err != nil {
						return err
					}
					_, err := st.m.step()
					return err
				})
				if !errors.Is(err, axcl.ErrLost) {
					t.Errorf("%v, want the card lost", err)
				}
				return
			}
			stays, _ := st.crowd(t, text)
			if stays[0].err != nil || stays[0].tokens != 2 || !st.m.ramTier.Off {
				t.Errorf("%+v, off %v", stays[0], st.m.ramTier.Off)
			}
		})
	}
}

// TestRAMTierGap: whatever comes and goes, a stream waits for one piece more at most.
func TestRAMTierGap(t *testing.T) {
	lane.NoRace(t)
	st := onPaced(t, axmodel.Qwen3Small(), small, OpenOptions{CacheRAM: NewMemory(1 << 20)})
	tier := st.m.ramTier
	piece := tier.Out.Cost(tier.Piece(), tier.Piece()) + tier.In.Cost(tier.Piece(), tier.Piece())
	load := prompts(8, 500, 40)
	for i := range load {
		load[i].job.IDs = slices.Clone(load[i%4].job.IDs)
		load[i].job.IDs = append(load[i].job.IDs, int32(i+1))
	}
	worst, calls := 0.0, 0
	d := st.m.model.(*paced)
	last := d.now
	w := watched{d, func() { // before each pass
		waits := slices.ContainsFunc(st.m.running, func(s *seq) bool { return s.usage.Output > 0 && s.RestoreTo <= len(s.Path) })
		if gap := (d.now - last).Seconds(); calls > 0 && waits {
			worst = max(worst, gap)
		}
		calls++
	}, func() { last = d.now }, 0}
	out := tier.Out.Cost(tier.Piece(), tier.Piece())
	st.m.model = &w
	for range 3 {
		st.crowd(t, load)
	}
	if w.saved.Seconds() > out*1.01 { // of cells that lie apart fewer go at a time
		t.Errorf("a copy off the card took %.1f ms, a piece that lies in one run takes %.1f", 1e3*w.saved.Seconds(), 1e3*out)
	}
	t.Logf("between two passes %.1f ms at most; a piece out and one in are %.1f ms; %+v", 1e3*worst, 1e3*piece, st.m.queue.stats.Memory)
	if worst > piece*1.01 || st.m.queue.stats.Memory.Out == 0 {
		t.Errorf("%.1f ms between two passes, a piece out and one in take %.1f", 1e3*worst, 1e3*piece)
	}
}

// watched tells before and after each pass.
type watched struct {
	*paced
	before, after func()
	saved         time.Duration // the longest copy off the card
}

func (w *watched) Save(cells []uint32, to []byte) error {
	begun := w.now
	defer func() { w.saved = max(w.saved, w.now-begun) }()
	return w.paced.Save(cells, to)
}

func (w *watched) Run(p *axcl.Pass) error {
	w.before()
	defer w.after()
	return w.paced.Run(p)
}

// TestRAMTiersShare: models share one limit, to the byte, and what was used longest ago goes first
// whichever model's it is; what an unloaded model had comes free.
func TestRAMTiersShare(t *testing.T) {
	bytes := newFake().shape.RowBytes()
	memory := NewMemory(int64(1000 * bytes))
	var st [2]*stage
	for i := range st {
		st[i] = onPaced(t, axmodel.Qwen3Small(), small, OpenOptions{CacheRAM: memory})
	}
	held := func(i int) (n int) {
		if used, limit := memory.Used(); used > limit {
			t.Errorf("%d bytes of %d are used", used, limit)
		}
		_, n, _, _ = st[i].m.ramTier.Size()
		return n
	}
	ask := func(i, length int) int { // and have it put into memory, and off the card
		stays, _ := st[i].crowd(t, prompts(1, length, 2))
		if err := st[i].card.Do(context.Background(), func(axcl.Device) error {
			for did := true; did; {
				var err error
				if did, err = st[i].m.idle(); err != nil {
					return err
				}
			}
			st[i].m.cells.Forget()
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return stays[0].usage.Cached
	}
	ask(0, 600)
	if a := held(0); a < 500 {
		t.Fatalf("%d rows of 600 are kept", a)
	}
	ask(1, 600)
	if a, b := held(0), held(1); b < 500 || a == 0 || a > 300 {
		t.Errorf("the first model keeps %d rows, the second %d", a, b)
	}
	if n := ask(0, 600); n == 0 { // what is left of it is its beginning, and comes back
		t.Error("nothing came back")
	}
	if a, b := held(0), held(1); a < 500 || b == 0 || b > 300 {
		t.Errorf("after the first was asked again it keeps %d rows, the second %d", a, b)
	}
	st[1].m.ramTier.close()
	st[1].m.ramTier.close()
	if ask(0, 900); held(0) < 700 {
		t.Errorf("%d rows are kept where the other model has gone", held(0))
	}
}

// TestRAMTiersAtOnce: the workers of several cards take rows from each other in one small memory,
// and every answer is the one without.
func TestRAMTiersAtOnce(t *testing.T) {
	var jobs []Job
	for i := range 12 { // as much as seven cards hold
		var ids []int32
		for k := range 60 {
			ids = append(ids, int32((i+1)*(k+i+1)%fakeVocab))
		}
		jobs = append(jobs, greedy(ids, 5))
	}
	plain := onFake(t, newFake(), OpenOptions{CardOptions: still})
	memory := NewMemory(int64(1500 * newFake().shape.RowBytes()))
	var all [3]*cardBackend
	for i := range all {
		var now atomic.Int64
		f := newFake()
		f.run = func(int) error { now.Add(int64(10 * time.Millisecond)); return nil }
		o := OpenOptions{CardOptions: still, CacheRAM: memory}
		o.CardOptions.Clock = func() time.Duration { return time.Duration(now.Load()) }
		all[i] = onFake(t, f, o)
	}
	var want [][]int32
	for _, j := range jobs {
		out, _, err := run(plain, j)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, out)
	}
	var wg sync.WaitGroup
	for i, b := range all {
		wg.Go(func() {
			for k := range 3 * len(jobs) {
				j := (k*(5+2*i) + i) % len(jobs)
				if out, _, err := run(b, jobs[j]); err != nil || !slices.Equal(out, want[j]) {
					t.Errorf("card %d, job %d: %v, %v; want %v", i, j, out, err, want[j])
				}
			}
		})
	}
	wg.Wait()
	hits := uint64(0)
	for _, b := range all {
		hits += b.Stats().Memory.Hits
		clean(t, b)
	}
	if hits == 0 {
		t.Error("nothing ever came back")
	}
	t.Logf("%d rows came back", hits)
}
