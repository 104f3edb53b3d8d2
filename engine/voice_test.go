//go:build cgo && !fake && linux

package engine

import (
	"context"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/native/simhook"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/engine/card"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestVoiceBeside: four clients stream text while a SenseVoice, a Zipformer and a Kokoro work, on a
// Raspberry Pi 5's clock. Each answer is as alone. Between two passes each of the others has pieces
// until it has had as much time as the last pass took: with at most one piece it goes beyond that.
// All four have a row in each pass, so none waits longer from token to token.
func TestVoiceBeside(t *testing.T) {
	//proves:G26 four streams of text beside three models of speech on the simulated card's clock
	lane.Slow(t)
	lane.NoRace(t)
	for _, text := range []struct {
		name   string
		tokens int    // of an answer; all rows together fit under the lowest rung
		more   string // of the profile: this model's layers are so short that copies would be dearer than passes of one row
		open   func(t *testing.T, c *Card) (Backend, error)
	}{
		{"a small model", 10, ",copy d2d 1us 10GB/s", func(t *testing.T, c *Card) (Backend, error) {
			m, err := Open(t.Context(), compiled(t, "qwen3"), OpenOptions{Card: c})
			if err != nil {
				return nil, err
			}
			return m.b, nil
		}},
		{"the shape of Qwen3-1.7B", 12, "", func(t *testing.T, c *Card) (Backend, error) {
			return OpenShape(t.Context(), c, t.TempDir(), axmodel.Qwen3Medium(), OpenOptions{Head: HeadCard})
		}},
	} {
		t.Run(text.name, func(t *testing.T) {
			open, sim := onSim(t, "hazards=strict\nclock=virtual\nprofile=pi5"+text.more+newer)
			c, err := OpenCard(slowed(open, sim), CardOptions{Check: -1, CheckWork: -1, Clock: clockOf(sim)})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			b, err := text.open(t, c)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			voiceBeside(t, c, b.(*cardBackend), text.tokens)
		})
	}
}

func voiceBeside(t *testing.T, c *Card, b *cardBackend, tokens int) {
	t.Helper()
	passes := &spied{Tenant: b.m, c: c}
	watched := map[card.Tenant]*spied{b.m: passes}
	others := besideText()
	for _, o := range others {
		o.open(t, c)
		line := o.nets().nets[0].line
		o.spied = &spied{Tenant: line, c: c}
		watched[line] = o.spied
	}
	swap := func(back bool) {
		if err := c.Do(context.Background(), func(axcl.Device) error {
			for was, is := range watched {
				from, to := was, card.Tenant(is)
				if back {
					from, to = to, from
				}
				c.Detach(from)
				c.Attach(to, 1)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	swap(false)
	defer swap(true)
	for _, o := range others {
		var err error
		if o.want, err = o.ask(o.m); err != nil || reflect.ValueOf(o.want).Len() == 0 {
			t.Fatal(o.name, o.want, err)
		}
		_, o.longest, _ = o.spied.spans.within(0, c.Now())
	}
	alone, widest := fourStreams(t, b, tokens)
	_, pass, _ := passes.spans.within(0, c.Now())
	if t.Logf("alone: a token at least every %v", widest); widest > pass*101/100 {
		t.Errorf("alone a stream waits for %v, and a pass takes at most %v: it has no row in some", widest, pass)
	}

	var stop atomic.Bool
	var g sync.WaitGroup
	for _, o := range others {
		g.Go(func() {
			for !stop.Load() {
				if got, err := o.ask(o.m); err != nil || !reflect.DeepEqual(got, o.want) {
					t.Errorf("%s: %+v, %v; alone %+v", o.name, got, err, o.want)
					return
				}
			}
		})
	}
	defer g.Wait()
	defer stop.Store(true)
	most := time.Duration(0)
	rare := func(o *beside) bool { return o.between < 3 }
	for rounds := 0; slices.ContainsFunc(others, rare); rounds++ {
		if rounds == 200 {
			t.Fatal("a model hardly ever works between two passes")
		}
		from := len(passes.spans) // no pass is under way
		got, widest := fourStreams(t, b, tokens)
		if !reflect.DeepEqual(got, alone) {
			t.Errorf("%v, alone %v", got, alone)
		}
		if err := c.Do(t.Context(), func(axcl.Device) error { // between two pieces
			longest := waits(t, passes.spans[from:], others)
			if most = max(most, longest); widest > longest*101/100 {
				t.Errorf("a stream waited for %v from a token to the next, and it is at most %v from a pass to the next", widest, longest)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range others {
		t.Logf("%s: pieces of at most %v, in %d places between two passes", o.name, o.longest, o.between)
	}
	t.Logf("from a token to the next at most %v", most)
}

// waits checks what others did between passes, and returns the longest time from the end of one to
// the end of the next.
func waits(t *testing.T, passes spans, others []*beside) (most time.Duration) {
	t.Helper()
	passes = slices.DeleteFunc(passes, func(s [2]time.Duration) bool { return s[0] == s[1] })
	for i := 1; i < len(passes); i++ {
		last, next := passes[i-1], passes[i]
		most = max(most, next[1]-last[1])
		idle := next[0] - last[1]
		for _, o := range others {
			var pieces []time.Duration
			var sum time.Duration
			for _, s := range o.spied.spans {
				if s[0] >= last[1] && s[1] <= next[0] {
					pieces = append(pieces, s[1]-s[0])
					sum += s[1] - s[0]
				}
			}
			idle -= sum
			if n := len(pieces); n > 0 {
				o.between++
				if sum-pieces[n-1] > (last[1]-last[0])*101/100 || slices.Max(pieces) > o.longest*101/100 {
					t.Errorf("behind a pass of %v %s had %v; its longest piece alone is %v", last[1]-last[0], o.name, pieces, o.longest)
				}
			}
		}
		if idle > time.Millisecond {
			t.Errorf("between two passes are %v that no model's account has", idle)
		}
	}
	return most
}

// beside is a model that works beside streams of text.
type beside struct {
	name    string
	write   func(dir string) error
	ask     func(m *Model) (any, error)
	m       *Model
	spied   *spied
	want    any           // its answer alone
	longest time.Duration // its longest piece
	between int           // in how many places between two passes it worked
}

func besideText() []*beside {
	ctx := context.Background()
	return []*beside{
		{name: "SenseVoice", write: modelstest.SenseVoice{Seed: 3, Layout: "Axera"}.Write, ask: func(m *Model) (any, error) {
			return transcribed(ctx, m, TranscribeRequest{Sound: hearing(babble(1, 8))})
		}},
		{name: "Zipformer", write: modelstest.Zipformer{Seed: 2, Layout: "HY"}.Write, ask: func(m *Model) (any, error) {
			return transcribed(ctx, m, TranscribeRequest{Sound: hearing(babble(2, 8)), Partial: true})
		}},
		{name: "Kokoro", write: speaking(modelstest.Kokoro{Seed: 3, Layout: "A"}), ask: func(m *Model) (any, error) {
			return spokenText(ctx, m, SpeakRequest{Text: "Hello, world. The cat. Cat. The world of cats. Hello, cat."})
		}},
	}
}

// open puts the model on a card with others.
func (o *beside) open(t *testing.T, c *Card) {
	t.Helper()
	dir := t.TempDir()
	if err := o.write(dir); err != nil {
		t.Fatal(err)
	}
	p, err := models.OpenAny(dir)
	if err != nil {
		t.Fatal(err)
	}
	if o.m, err = OpenAny(t.Context(), p, OpenOptions{Card: c}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.m.Close() })
}

func (o *beside) nets() *netBackend {
	switch b := o.m.b.(type) {
	case *recogniser:
		return b.netBackend
	case *zipformer:
		return b.netBackend
	default:
		return b.(*kokoro).netBackend
	}
}

// fourStreams are the answers of four clients who ask together, and the longest time from a token
// to the next.
func fourStreams(t *testing.T, b *cardBackend, tokens int) (ids [4][]int32, widest time.Duration) {
	t.Helper()
	var g sync.WaitGroup
	var mu sync.Mutex
	release := hold(b)
	for i := range ids {
		g.Go(func() {
			job := greedy([]int32{7, 8, 9, 10 + int32(i)}, tokens)
			job.Speculate, job.IgnoreStop = new(bool), true
			var before time.Duration
			for tok, err := range b.Complete(t.Context(), job) {
				if err != nil {
					t.Error(err)
					return
				}
				if tok.Final != "" {
					return
				}
				if ids[i] = append(ids[i], tok.ID); len(ids[i]) > 1 {
					mu.Lock()
					widest = max(widest, tok.Usage.Decode-before)
					mu.Unlock()
				}
				before = tok.Usage.Decode
			}
		})
	}
	for b.Stats().Queued < len(ids) {
		runtime.Gosched()
	}
	release()
	g.Wait()
	return ids, widest
}

// slowedNets are the times of nets as they were measured, by the ends of their files' names: half a
// minute of speech, two calls, takes SenseVoice 0.46 s on a Raspberry Pi 5.
var slowedNets = map[string]time.Duration{
	"sensevoice.axmodel":      230 * time.Millisecond,
	"kokoro_part1_96.axmodel": 31 * time.Millisecond,
	"kokoro_part2_96.axmodel": 8 * time.Millisecond,
	"kokoro_part3_96.axmodel": 102 * time.Millisecond,
}

// slowed opens a simulated card on which small nets take as long as the real ones.
func slowed(open func() (axcl.Device, string, error), sim *simhook.Sim) func() (axcl.Device, string, error) {
	return func() (axcl.Device, string, error) {
		d, why, err := open()
		return slowDevice{d, sim}, why, err
	}
}

type slowDevice struct {
	axcl.Device
	sim *simhook.Sim
}

func (d slowDevice) LoadNet(path string) (axcl.Net, error) {
	n, err := d.Device.LoadNet(path)
	return slowNet{n, d.sim, slowedNets[filepath.Base(path)]}, err
}

type slowNet struct {
	axcl.Net
	sim   *simhook.Sim
	takes time.Duration
}

func (n slowNet) Run(group int, in, out map[string][]byte) error {
	begun := time.Duration(n.sim.Clock())
	err := n.Net.Run(group, in, out)
	n.sim.WaitUntil(begun + n.takes)
	return err
}
