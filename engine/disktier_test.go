package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/rows"
)

// TestDiskAcrossRestarts: what one engine evaluated the next one has from disk, as cached tokens,
// for the same key only; and says the same.
func TestDiskAcrossRestarts(t *testing.T) {
	//proves:G20
	jobs := jobsFor(5, 1, fakeVocab, 60)
	job := jobs[0]
	for len(job.IDs) < 50 {
		job.IDs = append(job.IDs, job.IDs...)
	}
	job.IDs, job.Limit = job.IDs[:50], 9
	want, _, err := run(onKept(t, newFake(), nil), job)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var owner rows.Owner // of what the first engine kept
	for i, c := range []struct {
		name   string
		key    string
		cached int
		change func()
	}{
		{"the first time", "", 0, nil},
		{"after a restart", "", 48, nil},
		{"under another key", "other", 0, nil},
		{"with a damaged block", "", 16, func() {
			name := fileOf(t, dir, owner, job.IDs, 2)
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			b[len(b)/2] ^= 1
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		{"with that block kept again", "", 48, nil},
	} {
		if c.change != nil {
			c.change()
		}
		d := openRows(t, rows.Options{Dir: dir})
		f := newFake()
		b := onKept(t, f, d)
		job.Key = c.key
		out, end, err := run(b, job)
		if err != nil || !slices.Equal(out, want) {
			t.Errorf("%s: %v, %v; without a disk %v", c.name, out, err, want)
		}
		if end.Usage.Cached != c.cached {
			t.Errorf("%s: %d tokens of the prompt were cached, not %d", c.name, end.Usage.Cached, c.cached)
		}
		if d := b.Stats().Disk; !d.On || d.Hits != uint64(c.cached) || d.In != d.Hits*uint64(b.m.shape.RowBytes()) {
			t.Errorf("%s: the account of the disk is %+v", c.name, d)
		}
		if back := settleDisk(t, b); back != int64(c.cached) {
			t.Errorf("%s: %d rows came back", c.name, back)
		}
		if again, end, err := run(b, job); err != nil || !slices.Equal(again, want) || end.Usage.Cached != 49 ||
			settleDisk(t, b) != int64(c.cached) {
			t.Errorf("%s, again: %v, %v, %d cached", c.name, again, err, end.Usage.Cached)
		}
		clean(t, b)
		if i == 0 {
			owner = rows.Owner(b.m.diskTier.owner)
			if d.Stats().Saved != 7 {
				t.Errorf("%+v", d.Stats())
			}
		}
		if n := b.Stats().Disk.Out; i == 0 && n != uint64(7*d.Block()*b.m.shape.RowBytes()) || i == 1 && n != 0 {
			t.Errorf("%s: %d bytes went to the disk", c.name, n)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// fileOf is the file that holds block n of the owner's tokens: without it only the n blocks before
// it are found. Names say nothing about a block, and files written within one tick of the kernel's
// clock have the same time.
func fileOf(t testing.TB, dir string, o rows.Owner, ids []int32, n int) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", strings.Repeat("?", 64)))
	if err != nil {
		t.Fatal(err)
	}
	space := openRows(t, rows.Options{Dir: dir}).Space(o)
	keys := space.Keys(ids)
	away := filepath.Join(t.TempDir(), "block")
	for _, name := range files {
		if err := os.Rename(name, away); err != nil {
			t.Fatal(err)
		}
		found := space.Find(keys)
		if err := os.Rename(away, name); err != nil {
			t.Fatal(err)
		}
		if found == n {
			return name
		}
	}
	t.Fatalf("none of %d files holds block %d of %d", len(files), n, len(keys))
	return ""
}

func openRows(t testing.TB, o rows.Options) *rows.Disk {
	t.Helper()
	if o.Size == 0 {
		o.Size = 1 << 30
	}
	if o.Block == 0 {
		o.Block = 8
	}
	d, err := rows.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// onKept opens the engine on a fake whose passes take ten milliseconds each by the card's clock,
// and moving rows none.
func onKept(t testing.TB, f *fake, d *rows.Disk) *cardBackend {
	t.Helper()
	return onDisk(t, f, d, 10*time.Millisecond)
}

// onDisk is onKept with passes that take so long.
func onDisk(t testing.TB, f *fake, d *rows.Disk, pass time.Duration) *cardBackend {
	t.Helper()
	var now atomic.Int64
	f.run = func(int) error { now.Add(int64(pass)); return nil }
	o := OpenOptions{CardOptions: still, Rows: d}
	o.CardOptions.Clock = func() time.Duration { return time.Duration(now.Load()) }
	return onFake(t, f, o)
}

// settleDisk waits until all that ended sequences leave is on disk, and gives how many rows came
// back so far. The worker itself waits for what the disk is at: asking it again and again whether
// that is done cost more than everything else.
func settleDisk(t testing.TB, b *cardBackend) int64 {
	t.Helper()
	for done := false; !done; runtime.Gosched() {
		if err := b.card.Do(context.Background(), func(axcl.Device) error {
			k := b.m.diskTier
			if k.saving != nil && k.saving.away {
				k.saving.back <- <-k.saving.back
			}
			done = k.saving == nil && len(k.texts) == 0 && len(k.reading) == 0
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return b.m.diskTier.near.rows.Load()
}

// dear is a device whose passes take a tenth of a second each by now, and everything else nothing.
type dear struct {
	axcl.Device
	now *atomic.Int64
}

type dearModel struct {
	axcl.Model
	now *atomic.Int64
}

func (d *dear) Loader(spec axcl.LoadSpec) (axcl.Loader, error) {
	l, err := d.Device.Loader(spec)
	return axcltest.LoadAs(l, err, func(m axcl.Model) axcl.Model { return &dearModel{m, d.now} })
}

func (m *dearModel) Run(p *axcl.Pass) error {
	m.now.Add(int64(100 * time.Millisecond))
	return m.Model.Run(p)
}

// TestDiskSameTokens (G12): with a disk that keeps rows the tokens are those without, over 500
// edits of conversations, many at a time, several restarts, and a disk too small for all.
func TestDiskSameTokens(t *testing.T) {
	//proves:G20
	n := 500
	if testing.Short() || lane.Race {
		n = 100
	}
	sameOnDisk(t, openSoft, editsOr(n))
}

// sameOnDisk is TestDiskSameTokens on a device.
func sameOnDisk(t *testing.T, open func() (axcl.Device, string, error), n int) {
	dir := compiled(t, "qwen3")
	var jobs []Job
	var want [][]int32
	t.Run("alone", func(t *testing.T) {
		_, alone := load(t, dir, open, OpenOptions{Parallel: 1, Proven: &Proven{}})
		jobs, want = edits(9, n, axmodeltest.Vocab, 95, truthOn(t, alone))
	})
	at := t.TempDir()
	back := int64(0)
	for i := 0; i < len(jobs); i += 100 {
		t.Run(fmt.Sprint("from ", i), func(t *testing.T) {
			size := int64(1 << 30)
			if i >= 200 {
				size = 64 << 10
			}
			var now atomic.Int64
			o := OpenOptions{CardOptions: still, Rows: openRows(t, rows.Options{Dir: at, Size: size})}
			o.CardOptions.Clock = func() time.Duration { return time.Duration(now.Load()) }
			_, b := load(t, dir, func() (axcl.Device, string, error) {
				d, why, err := open()
				return &dear{d, &now}, why, err
			}, o)
			for w := i; w < min(i+100, n); w += 5 { // a few at a time, which then go from the card as if others had come
				var wg sync.WaitGroup
				for j := w; j < min(w+5, n); j++ {
					wg.Go(func() {
						if out, _, err := run(b, jobs[j]); err != nil || !slices.Equal(out, want[j]) {
							t.Errorf("job %d, prompt %v: %v %v, alone %v", j, jobs[j].IDs, out, err, want[j])
						}
					})
				}
				wg.Wait()
				settleDisk(t, b)
				if w%10 == 0 {
					clean(t, b)
				}
			}
			back += settleDisk(t, b)
		})
	}
	if back < int64(n)/20 { // a read that other jobs' passes overtake, by the card's clock, is given up
		t.Errorf("%d rows came back from disk", back)
	} else {
		t.Logf("%d rows came back from disk", back)
	}
}

// TestDiskFaults: a row that cannot be moved costs its request nothing, a third one within a minute
// the card, as passes do; and a disk that fails ends its use, not the answer.
func TestDiskFaults(t *testing.T) {
	//proves:G20
	job := jobsFor(6, 1, fakeVocab, 60)[0]
	for len(job.IDs) < 50 {
		job.IDs = append(job.IDs, job.IDs...)
	}
	job.IDs, job.Limit = job.IDs[:50], 9
	want, _, err := run(onKept(t, newFake(), nil), job)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	b := onKept(t, newFake(), openRows(t, rows.Options{Dir: dir}))
	if _, _, err := run(b, job); err != nil {
		t.Fatal(err)
	}
	settleDisk(t, b)
	mild := &axcl.Error{Op: "axclrtMemcpyAsync", Code: 0x80300703}
	for name, c := range map[string]struct {
		err   error
		in    bool
		fatal bool
	}{"in": {mild, true, false}, "out": {mild, false, false}, "in, for good": {axcl.ErrLost, true, true},
		"out, for good": {axcl.ErrLost, false, true}} {
		from := dir
		if !c.in {
			from = t.TempDir() // so that there is something to be kept
		}
		f := newFake()
		d := openRows(t, rows.Options{Dir: from})
		b := onKept(t, f, d)
		n := 0
		if err := b.card.Do(context.Background(), func(axcl.Device) error {
			f.copy = func(in bool) error {
				if in == c.in {
					if n++; n == 2 {
						return c.err
					}
				}
				return nil
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		out, end, err := run(b, job)
		switch {
		case c.fatal && c.in:
			if !errors.Is(err, axcl.ErrLost) {
				t.Errorf("%s: %v", name, err)
			}
		case err != nil || !slices.Equal(out, want):
			t.Errorf("%s: %v, %v; want %v", name, out, err, want)
		case c.in && end.Usage.Cached != 8:
			t.Errorf("%s: %d tokens were cached", name, end.Usage.Cached)
		}
		if c.fatal {
			for b.card.Err() == nil {
				runtime.Gosched()
			}
			continue
		}
		settleDisk(t, b)
		if !slices.Equal(f.cleared, map[bool][]int{true: {8}, false: nil}[c.in]) {
			t.Errorf("%s: cleared %d", name, f.cleared)
		}
		if out, _, err := run(b, job); err != nil || !slices.Equal(out, want) {
			t.Errorf("%s, again: %v, %v", name, out, err)
		}
		clean(t, b)
	}
	// The disk: its folder goes.
	lines := 0
	d := openRows(t, rows.Options{Dir: filepath.Join(t.TempDir(), "rows"), Off: func(error) { lines++ }})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	b = onKept(t, newFake(), d)
	for range 3 {
		if out, _, err := run(b, job); err != nil || !slices.Equal(out, want) {
			t.Errorf("without its disk: %v, %v", out, err)
		}
	}
	clean(t, b)
}

// TestDiskCallerLeaves: a caller that leaves while its rows are fetched, and a model that is closed
// meanwhile, leave nothing behind.
func TestDiskCallerLeaves(t *testing.T) {
	job := jobsFor(7, 1, fakeVocab, 60)[0]
	for len(job.IDs) < 60 {
		job.IDs = append(job.IDs, job.IDs...)
	}
	job.IDs, job.Limit = job.IDs[:60], 5
	dir := t.TempDir()
	b := onKept(t, newFake(), openRows(t, rows.Options{Dir: dir}))
	if _, _, err := run(b, job); err != nil {
		t.Fatal(err)
	}
	settleDisk(t, b)
	for closes := range 2 {
		f := newFake()
		b := onKept(t, f, openRows(t, rows.Options{Dir: dir}))
		ctx, cancel := context.WithCancel(context.Background())
		if err := b.card.Do(context.Background(), func(axcl.Device) error {
			f.copy = func(in bool) error { cancel(); return nil }
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for _, err := range b.Complete(ctx, job) {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
		}
		if closes == 0 {
			settleDisk(t, b)
			clean(t, b)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		cancel()
	}
}

// TestDiskNumbersOnly: rows that are no numbers are not kept.
func TestDiskNumbersOnly(t *testing.T) {
	for _, c := range []struct {
		block []byte
		want  bool
	}{{[]byte{0x80, 0x3f, 0, 0}, false}, {[]byte{0, 0, 0xc0, 0x7f}, true}, {[]byte{0x80, 0xff, 0, 0}, true}, {[]byte{0x7f, 0x7f}, false}} {
		if got := senselessRows(c.block); got != c.want {
			t.Errorf("% x: %v", c.block, got)
		}
	}
}
