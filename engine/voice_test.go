//go:build cgo && !fake && linux

package engine

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axle-llm/axle/audio/vad"
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

// TestVoiceTime: a question of four seconds is spoken, and 0.3 s of silence end it. It has 20
// tokens behind a system prompt that is known, and the first sentence of its answer eight. The
// steps until the sentence is heard take what docs/performance.md says, on a Raspberry Pi 5's
// clock, while the rest of the answer is written.
func TestVoiceTime(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	doc, err := os.ReadFile("../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	int4 := axmodel.Qwen3Medium()
	int4.LayerBytes = int4.LayerBytes * 33 / 64 // 4.125 bits a weight
	for name, s := range map[string]axmodel.Shape{"qwen3:1.7b": axmodel.Qwen3Medium(), "qwen3:1.7b-int4": int4} {
		t.Run(name, func(t *testing.T) {
			row := regexp.MustCompile(`(?m)^\| ` + name + ` \|(( [\d.]+ s \|){7})$`).FindSubmatch(doc)
			if row == nil {
				t.Fatal("docs/performance.md has no such line")
			}
			got := voiceTime(t, s)
			for i, cell := range strings.Fields(strings.NewReplacer("|", "", " s ", " ").Replace(string(row[1]))) {
				said, err := strconv.ParseFloat(cell, 64)
				if err != nil {
					t.Fatal(err)
				}
				if t.Logf("step %d: %v, docs/performance.md says %v s", i+1, got[i], said); math.Abs(got[i].Seconds()-said) > 0.01 {
					t.Errorf("step %d takes %v, docs/performance.md says %v s", i+1, got[i], said)
				}
			}
		})
	}
}

// voiceTime is what the steps take: until the end of speech is found, until it is written down,
// which began in the pause before that end, until the answer's first token, until the token behind
// its first sentence, and until that sentence is sound; all together; and all together where no
// more of the answer is written.
func voiceTime(t *testing.T, s axmodel.Shape) (steps [7]time.Duration) {
	t.Helper()
	open, sim := onSim(t, "hazards=strict\nclock=virtual\nprofile=pi5")
	c, err := OpenCard(slowed(open, sim), CardOptions{Check: -1, CheckWork: -1, Clock: clockOf(sim)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	backend, err := OpenShape(t.Context(), c, t.TempDir(), s, OpenOptions{Head: HeadCard})
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	b := backend.(*cardBackend)
	hears := &beside{write: modelstest.SenseVoice{Seed: 3, Layout: "Axera", N: 256}.Write}
	speaks := &beside{write: speaking(modelstest.Kokoro{Seed: 3, Layout: "A"})}
	hears.open(t, c)
	speaks.open(t, c)

	const question = 4 * 16000
	loud := func(window []float32) (float32, error) { return min(1, 20*slices.Max(window)), nil }
	listener, err := vad.NewListener(loud, vad.Options{End: 3 * 16000 / 10}) // it stops as that of a session
	if err != nil {
		t.Fatal(err)
	}
	heard, pause := 0, 0
	for ended := false; !ended; {
		window := make([]float32, vad.Window)
		if heard < question {
			window[0] = 0.5
		}
		events, err := listener.Add(window)
		if heard += vad.Window; err != nil || heard > question+16000 {
			t.Fatal(heard, err)
		}
		for _, e := range events {
			switch e.Kind {
			case vad.Stopped: // the question is heard from now on
				pause = heard
			case vad.Ended:
				ended = true
			}
		}
	}
	steps[0] = time.Duration(heard-question) * time.Second / 16000

	begun := c.Now()
	if got := heardAll(t, hears.m, babble(3, 4), "en"); len(got) == 0 || hears.m.Stats().Passes["transcribe"] != 1 {
		t.Fatalf("%d calls: %+v", hears.m.Stats().Passes["transcribe"], got)
	}
	steps[1] = max(c.Now()-begun-time.Duration(heard-pause)*time.Second/16000, 0)

	first := SpeakRequest{Text: "Hello, the cat."}
	begun = c.Now()
	if got := spokenAll(t, speaks.m, first); len(got) != 1 {
		t.Fatalf("%d pieces", len(got))
	}
	sound := c.Now() - begun

	job := greedy(nil, 30)
	job.Speculate, job.IgnoreStop = new(bool), true
	for i := range int32(100) {
		job.IDs = append(job.IDs, i)
	}
	before := job
	before.IDs, before.Limit = append(slices.Clone(job.IDs), 70000), 1
	if _, _, err := run(b, before); err != nil {
		t.Fatal(err)
	}
	for i := range int32(20) {
		job.IDs = append(job.IDs, 80000+i)
	}
	// Who speaks hears of a sentence's end while the next pass goes on already, and makes what part
	// 3 takes during another pass. That is so however slow or busy this machine is.
	const sentence = 1 + 8 // passes: the prompt's, and the others until the token behind eight
	passes, voice := &spied{Tenant: b.m, c: c}, &spied{Tenant: speaks.nets().nets[0].line, c: c}
	var spoken atomic.Bool
	text := &followed{passes, func() {
		for len(passes.spans) > sentence && !spoken.Load() {
			if _, ok := voice.Tenant.Offer(card.Turn); ok {
				return
			}
			runtime.Gosched()
		}
	}}
	late := &behind{voice, passes, sentence + 1}
	swap := func(from, to [2]card.Tenant) {
		t.Helper()
		if err := c.Do(context.Background(), func(axcl.Device) error {
			for i := range from {
				c.Detach(from[i])
				c.Attach(to[i], 1)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	own, watched := [2]card.Tenant{b.m, voice.Tenant}, [2]card.Tenant{text, late}
	swap(own, watched)
	defer swap(watched, own)
	begun = c.Now()
	said := make(chan error, 1)
	tokens := 0
	for tok, err := range b.Complete(t.Context(), job) {
		if err != nil {
			t.Fatal(err)
		}
		if tok.Final != "" {
			if tok.Usage.Cached != 100 {
				t.Errorf("%d tokens of the prompt were known", tok.Usage.Cached)
			}
			break
		}
		if tokens++; tokens == sentence {
			go func() {
				defer spoken.Store(true)
				for _, err := range speaks.m.Speak(context.Background(), first) {
					said <- err
					return
				}
			}()
		}
	}
	if err := <-said; err != nil || speaks.m.Stats().Passes["speak"] != 6 {
		t.Fatal(err, speaks.m.Stats().Passes["speak"])
	}
	steps[2] = passes.spans[0][1] - begun
	steps[3] = passes.spans[sentence-1][1] - passes.spans[0][1]
	steps[4] = voice.spans[len(voice.spans)-1][1] - passes.spans[sentence-1][1]
	for _, d := range steps[:4] {
		steps[5] += d
	}
	steps[6] = steps[5] + sound
	steps[5] += steps[4]
	return steps
}

// behind is a tenant that has its first piece behind this many of another, and each other piece
// behind one more at least.
type behind struct {
	*spied
	other *spied
	from  int
}

func (b *behind) Offer(k card.Kind) (time.Duration, bool) {
	if len(b.other.spans) < b.from {
		return 0, false
	}
	return b.spied.Offer(k)
}

func (b *behind) Step(k card.Kind) (bool, error) {
	b.from = len(b.other.spans) + 1
	return b.spied.Step(k)
}

// followed is a tenant behind whose pieces something is done. Those that take no time are no
// passes.
type followed struct {
	*spied
	then func()
}

func (f *followed) Step(k card.Kind) (bool, error) {
	did, err := f.spied.Step(k)
	f.spans = slices.DeleteFunc(f.spans, func(s [2]time.Duration) bool { return s[0] == s[1] })
	f.then()
	return did, err
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

// slowedNets are the times of nets as they were measured, by their files' names: half a minute of
// speech, two calls, takes SenseVoice 0.46 s on a Raspberry Pi 5.
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
