package engine

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/models/rows"
	"github.com/axle-llm/axle/prefix"
)

// asleep is a paced card that takes its time by sleeping, in a bubble where that costs none.
type asleep struct{ *paced }

// TestRestartSoon (G20): after a restart the first token of a conversation of 1,500 tokens that a
// disk of 90 MB/s has comes in at most 0.35 of the time that evaluating it takes, on the 4B model's
// shape.
func TestRestartSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := prompts(1, 1500, 2)[0].job
		dir := t.TempDir()
		var first [2]time.Duration
		for i := range first {
			b := onAsleep(t, axmodel.Qwen3Large(), large, dir, 90e6)
			out, end, err := run(b, job)
			if err != nil || !slices.Equal(out, []int32{9, 9}) {
				t.Fatalf("%v, %v", out, err)
			}
			first[i] = end.Usage.FirstToken
			if want := i * 1500 / prefix.Shared * prefix.Shared; end.Usage.Cached != want {
				t.Errorf("%d tokens were cached, want %d", end.Usage.Cached, want)
			}
			restSaved(t, b)
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
		}
		share := first[1].Seconds() / first[0].Seconds()
		t.Logf("first token %.2f s after a restart, %.2f s evaluated: %.2f", first[1].Seconds(), first[0].Seconds(), share)
		if share > 0.35 {
			t.Errorf("after a restart the first token takes %.2f of what evaluating takes, 0.35 is promised", share)
		}
	})
}

// restSaved waits until what is to be kept is on disk. It must run in a bubble.
func restSaved(t testing.TB, b *cardBackend) {
	t.Helper()
	for done := false; !done; runtime.Gosched() {
		time.Sleep(time.Second)
		if err := b.card.Do(context.Background(), func(axcl.Device) error {
			done = b.m.diskTier.saving == nil && len(b.m.diskTier.texts) == 0
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func (d asleep) slept(call func() error) error {
	before := d.now
	err := call()
	time.Sleep(d.now - before)
	return err
}

func (d asleep) Run(p *axcl.Pass) error { return d.slept(func() error { return d.paced.Run(p) }) }

func (d asleep) Copy(to, from []uint32) error {
	return d.slept(func() error { return d.paced.Copy(to, from) })
}

func (d asleep) Save(c []uint32, to []byte) error {
	return d.slept(func() error { return d.paced.Save(c, to) })
}

func (d asleep) Restore(c []uint32, from []byte) error {
	return d.slept(func() error { return d.paced.Restore(c, from) })
}

// onAsleep opens a model on a paced card behind a disk that reads this many bytes a second, 0 for
// none. It must run in a bubble.
func onAsleep(t testing.TB, s axmodel.Shape, p pi5, dir string, rate float64) *cardBackend {
	t.Helper()
	var disk *rows.Disk
	if rate > 0 {
		// A block's time is taken once it was read, when the disk looks what time it is: to the
		// reader that is the same.
		block := time.Duration(float64(prefix.Shared*p.rowBytes) / rate * 1e9)
		disk = openRows(t, rows.Options{Dir: dir, Block: prefix.Shared, Now: func() time.Time { time.Sleep(block); return time.Now() }})
	}
	return asleepOn(t, s, p, disk)
}

// asleepOn is onAsleep with this disk.
func asleepOn(t testing.TB, s axmodel.Shape, p pi5, disk *rows.Disk) *cardBackend {
	t.Helper()
	d := asleep{newPaced(s, p)}
	start := time.Now()
	card, err := OpenCard(func() (axcl.Device, string, error) { return d, "test", nil },
		CardOptions{Clock: func() time.Duration { return time.Since(start) }, Check: -1, CheckWork: -1, Watch: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	b := &cardBackend{card: card, closer: card.Close, info: Info{Name: "paced"}}
	if err := card.Do(context.Background(), func(axcl.Device) (err error) {
		b.m = newLM(card, d, d, nil, nil, OpenOptions{})
		b.m.proven = Proven{Chunk: true, Mixed: true, Scatter: true}
		if err = b.m.prover.measure(context.Background()); err == nil {
			err = b.m.openDisk(mediumOf(OpenOptions{Rows: disk}), "a digest", "paced")
		}
		if err == nil {
			err = b.m.openRAM(nil)
		}
		card.Attach(b.m, 1)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return b
}
