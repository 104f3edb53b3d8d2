//go:build cgo && !fake && linux

package engine

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestDetectorNative is TestDetector through the vendor's ABI.
func TestDetectorNative(t *testing.T) {
	lane.NoRace(t)
	open, _ := onSim(t, "hazards=strict")
	testDetector(t, open)
}

// TestFacesNative is TestFaces through the vendor's ABI.
func TestFacesNative(t *testing.T) {
	lane.NoRace(t)
	open, _ := onSim(t, "hazards=strict")
	testFaces(t, open)
}

// TestDetectUrgent: four cameras send a picture each, five times a second of the card's clock,
// beside four answers that are written by two models. Each picture waits for the piece that runs
// when it comes, and for no other.
func TestDetectUrgent(t *testing.T) {
	//proves:G26 detections beside streams on the simulated card's clock
	lane.Slow(t)
	lane.NoRace(t)
	const cameras, bursts, every = 4, 40, 200 * time.Millisecond
	native, sim := onSim(t, "hazards=strict\nclock=virtual\nprofile=pi5")
	d := &tallied{}
	c, err := OpenCard(func() (axcl.Device, string, error) {
		dev, why, err := native()
		d.Device = dev
		return d, why, err
	}, CardOptions{Check: -1, CheckWork: -1, Clock: clockOf(sim)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	dir := t.TempDir()
	if err := (modelstest.Detector{Seed: 1, Layout: "heads"}).Write(dir); err != nil {
		t.Fatal(err)
	}
	p, err := models.OpenAny(dir)
	if err != nil {
		t.Fatal(err)
	}
	m, err := OpenAny(t.Context(), p, OpenOptions{Card: c})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	b := m.b.(*detector)
	ctx, stop := context.WithCancel(t.Context())
	var streams sync.WaitGroup
	for range 2 {
		text, err := Open(t.Context(), compiled(t, "qwen3"), OpenOptions{Card: c})
		if err != nil {
			t.Fatal(err)
		}
		defer text.Close()
		for i := range 2 {
			streams.Go(func() {
				for ctx.Err() == nil {
					job := greedy([]int32{7, 8, int32(9 + i)}, 60)
					job.Speculate, job.IgnoreStop = new(bool), true
					for _, err := range text.b.Complete(ctx, job) {
						if err != nil && ctx.Err() == nil {
							t.Error(err)
							return
						}
					}
				}
			})
		}
	}
	picture := scene(1, 160, 160)
	most, late := int64(0), 0
	var longest time.Duration
	next := c.Now()
	for range bursts {
		for next += every; c.Now() < next; {
			runtime.Gosched()
		}
		// The four are decoded, and in the card's line, before the worker goes on to its next turn.
		hold, held := make(chan struct{}), make(chan struct{})
		go func() { _ = c.Do(context.Background(), func(axcl.Device) error { close(held); <-hold; return nil }) }()
		<-held
		var burst sync.WaitGroup
		came, begun := c.Now(), d.passes.Load()
		d.nets.Store(nil)
		for i := range cameras {
			burst.Go(func() {
				if _, err := m.Detect(t.Context(), DetectRequest{Picture: picture, Key: fmt.Sprint(i)}); err != nil {
					t.Error(err)
				}
			})
		}
		for b.nets[0].line.Waiting() < cameras {
			runtime.Gosched()
		}
		close(hold)
		burst.Wait()
		for _, at := range *d.nets.Load() {
			if most = max(most, at-begun); at > begun {
				late++
			}
		}
		longest = max(longest, c.Now()-came)
	}
	stop()
	streams.Wait()
	t.Logf("%d pictures: the last of four was done after at most %v of the card's time", cameras*bursts, longest)
	if most > 0 {
		t.Errorf("a picture waited for %d pieces more than the one that ran; %d waited for some", most, late)
	}
	if d.passes.Load() < 10*bursts {
		t.Errorf("only %d passes ran beside them", d.passes.Load())
	}
}

// tallied is a card that counts the passes of language models, and notes how many had begun when
// each call of a net began.
type tallied struct {
	axcl.Device
	passes atomic.Int64
	nets   atomic.Pointer[[]int64]
}

func (d *tallied) Loader(spec axcl.LoadSpec) (axcl.Loader, error) {
	l, err := d.Device.Loader(spec)
	return talliedLoader{l, d}, err
}

func (d *tallied) LoadNet(path string) (axcl.Net, error) {
	n, err := d.Device.LoadNet(path)
	return talliedNet{n, d}, err
}

type talliedLoader struct {
	axcl.Loader
	d *tallied
}

func (l talliedLoader) Model() axcl.Model { return talliedModel{l.Loader.Model(), l.d} }

type talliedModel struct {
	axcl.Model
	d *tallied
}

func (m talliedModel) Run(p *axcl.Pass) error {
	m.d.passes.Add(1)
	return m.Model.Run(p)
}

type talliedNet struct {
	axcl.Net
	d *tallied
}

func (n talliedNet) Run(group int, in, out map[string][]byte) error {
	var all []int64
	if was := n.d.nets.Load(); was != nil {
		all = *was
	}
	all = append(all, n.d.passes.Load())
	n.d.nets.Store(&all)
	return n.Net.Run(group, in, out)
}
