package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/models"
)

// TestLoadHangs (D7): a load that hangs, in its first file, a later one or in making room, loses
// the card after as long as the largest file would take at a tenth of the measured rate; one that
// is ten times as slow as it was is none. A process that is told to end waits three times what the
// file should take.
func TestLoadHangs(t *testing.T) {
	dir := t.TempDir()
	shape := axmodel.Qwen3Small()
	shape.Layers, shape.Vocab = 4, 4000
	shape.LayerBytes, shape.HeadBytes = 10e6, 100e6
	if err := axmodel.WriteShape(dir, shape); err != nil {
		t.Fatal(err)
	}
	p, err := models.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	const s = time.Second
	for _, c := range []struct {
		name   string
		takes  []time.Duration
		hang   int
		ending time.Duration // when the process is told to end; 0: not
		want   time.Duration // when the card is lost, since the load began; 0: not
	}{
		// nothing measured: 100 MB at 50 MB/s, times ten
		{"the first file", []time.Duration{s, s}, 0, 0, 20 * s},
		{"a layer", []time.Duration{s / 2, s / 2, s}, 2, 0, 1*s + 50*s}, // 20 MB in one second: 100 MB would take five
		// 140 MB in a second, more than is believed: the least
		{"malloc", []time.Duration{s / 5, s / 5, s}, 5, 0, 11 * s},
		{"slow, but on its way", []time.Duration{s / 2, 9 * s, 9 * s}, -1, 0, 0},            //
		{"a process that ends", []time.Duration{s / 2, s / 2, s}, 2, 3 * s, 3*s + 15*s},     // three times five seconds from then on
		{"ends long before", []time.Duration{s / 2, s / 2, s}, 2, s / 10, 1*s + 15*s},       // from the file's beginning on
		{"ends, on its way", []time.Duration{s / 2, s / 2, s / 2, s / 2, s}, -1, s / 10, 0}, //
		{"ends in the first file", []time.Duration{s, s}, 0, s, 1*s + 6*s},                  // 100 MB at 50 MB/s, times three
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &slow{newFake(), c.takes, c.hang, make(chan struct{})}
				ending := make(chan struct{})
				card, err := OpenCard(func() (axcl.Device, string, error) { return d, "test", nil }, CardOptions{Ending: ending})
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				if c.ending > 0 {
					time.AfterFunc(c.ending, func() { close(ending) })
				}
				err = card.InPieces(context.Background(), func(dev axcl.Device, pause func() error) error {
					_, err := card.place(context.Background(), dev, p, false, nil, nil, nil, OpenOptions{}, pause)
					return err
				})
				took := time.Since(start)
				if lost := errors.Is(err, axcl.ErrLost); lost != (c.want > 0) || lost && (took < c.want || took > c.want+time.Second) {
					t.Errorf("%v after %v, want it lost after %v", err, took, c.want)
				}
				close(d.free)
				synctest.Wait()
				_ = card.Close()
			})
		})
	}
}

// slow is a device whose loads take so long for each file, and then for room, and that hangs in one
// of them.
type slow struct {
	*fake
	takes []time.Duration // one a file, the last for what comes after them; the last but one again for the files between
	hang  int             // in which of them; -1: none
	free  chan struct{}
}

func (s *slow) Loader(spec axcl.LoadSpec) (axcl.Loader, error) {
	order := make([]int, len(spec.Layers)+1)
	for i := range order {
		order[i] = i
	}
	return axcltest.LoadSteps(order, func(_ context.Context, i int) (axcl.Model, error) {
		took := s.takes[min(i, len(s.takes)-2)]
		if i == len(order) {
			took = s.takes[len(s.takes)-1]
		}
		if i == s.hang {
			<-s.free
			return nil, axcl.ErrLost
		}
		<-time.After(took)
		if i == len(order) {
			return nil, axcl.ErrModel // as far as it needs to go
		}
		return nil, nil
	}), nil
}
