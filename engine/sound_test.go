package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/engine/pictures"
	"github.com/axle-llm/axle/engine/speech"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
)

// This file is what must hold of all models that hear or speak.

// TestSoundFaults: a call that fails ends its request, and the next one is answered as before; a
// card that is lost, or never answers, ends all of them. Whisper fails where it hears, at its first
// token, where that one's row is kept, and in the midst of a text.
func TestSoundFaults(t *testing.T) {
	//proves:D4 of recognisers and a speaker
	//proves:D7 of recognisers and a speaker
	//proves:D8 of recognisers and a speaker
	failed := &axcl.Error{Op: "Run", Layer: -1, Code: 0x8030070c}
	gone := fmt.Errorf("%w: the link is down", axcl.ErrLost)
	for _, k := range sounding() {
		for _, c := range []struct {
			name string
			fail func(hang <-chan struct{}) error
			want error
			lost bool
			took time.Duration // at most
		}{
			{"a call fails", func(<-chan struct{}) error { return failed }, failed, false, 0},
			{"NaN", nil, k.none, false, 0},
			{"the card is lost", func(<-chan struct{}) error { return gone }, axcl.ErrLost, true, 0},
			{"a call that never returns", func(hang <-chan struct{}) error { <-hang; return failed }, axcl.ErrLost, true, 11 * time.Second},
		} {
			for _, after := range k.after {
				if after > 0 && c.fail == nil {
					continue // every call that computes gives NaN
				}
				t.Run(fmt.Sprintf("%s, %s after %d", k.name, c.name, after), func(t *testing.T) {
					k.race(t)
					synctest.Test(t, func(t *testing.T) {
						var d *nonsense
						m, _, _ := onCard(t, k.write, failing(&d), OpenOptions{})
						before, err := k.ask(m, "7", 7)
						if err != nil || reflect.ValueOf(before).Len() == 0 {
							t.Fatal(before, err)
						}
						hang := make(chan struct{})
						var calls atomic.Int64
						if c.fail != nil {
							fail := func() error {
								if n := int(calls.Add(1)); n <= after || n > after+k.faults {
									return nil
								}
								return c.fail(hang)
							}
							d.fail.Store(&fail)
						} else {
							d.put.Store(math.Float32bits(float32(math.NaN())))
						}
						start, clients := time.Now(), 1
						if c.lost {
							clients = 3
						}
						var g sync.WaitGroup
						for i := range clients {
							g.Go(func() {
								if _, err := k.ask(m, "", uint64(i)); !errors.Is(err, c.want) {
									t.Errorf("%v, want %v", err, c.want)
								}
							})
						}
						g.Wait()
						if took := time.Since(start); took > c.took {
							t.Errorf("it took %v, at most %v", took, c.took)
						}
						d.fail.Store(nil)
						d.put.Store(0)
						got, err := k.ask(m, "7", 7)
						if c.lost && !errors.Is(err, axcl.ErrLost) || !c.lost && (err != nil || !reflect.DeepEqual(got, before)) {
							t.Errorf("afterwards: %+v, %v; before it was %+v", got, err, before)
						}
						if st := m.Stats().State; (st == "lost") != c.lost {
							t.Errorf("the state is %s", st)
						}
						close(hang)
						synctest.Wait()
					})
				})
			}
		}
	}
}

// TestSoundRoom: too little memory for what stays on the card is no fault of the card. Nothing is
// left there, and where room is made it opens. What is free is known behind the load and the end:
// it decides which card the next model goes to.
func TestSoundRoom(t *testing.T) {
	for _, k := range sounding() {
		if k.buffers == 0 {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			k.race(t)
			dir := t.TempDir()
			if err := k.write(dir); err != nil {
				t.Fatal(err)
			}
			p, err := models.OpenAny(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			d := &cramped{}
			c, err := OpenCard(func() (axcl.Device, string, error) {
				of, err := soft.Open(soft.Options{Threads: 1, CMM: 1 << 30})
				d.Device = of
				return d, "test", err
			}, CardOptions{Check: -1})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			now := func() int64 {
				if err := c.Do(t.Context(), func(axcl.Device) error { return c.Refresh() }); err != nil {
					t.Fatal(err)
				}
				return c.Info().FreeCMM
			}
			free := now()
			for range 4 { // three strikes lose a card
				d.left = k.buffers - 1
				if _, err := OpenAny(t.Context(), p, OpenOptions{Card: c}); !errors.Is(err, axcl.ErrMemory) {
					t.Fatal(err)
				}
				if left := now(); left != free {
					t.Fatalf("%d bytes are free of %d", left, free)
				}
			}
			d.left = k.buffers - 1
			m, err := OpenAny(t.Context(), p, OpenOptions{Card: c, Room: func(int64, int64) bool { d.left = k.buffers; return true }})
			if err != nil {
				t.Fatal(err)
			}
			if took := free - c.Info().FreeCMM; took != free-now() || c.ours.Load() < took || took == 0 {
				t.Errorf("behind the load it seems to take %d bytes, %d are ours; it takes %d", took, c.ours.Load(), free-now())
			}
			if got, err := k.ask(m, "", 1); err != nil || reflect.ValueOf(got).Len() == 0 {
				t.Errorf("%v, %v", got, err)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
			if left := c.Info().FreeCMM; left != free || now() != free || c.ours.Load() != 0 {
				t.Errorf("%d bytes are free of %d, %d are ours", left, free, c.ours.Load())
			}
		})
	}
}

// TestSoundClosed: closing ends the request whose turn it is and those that wait for theirs, and
// gives all memory back.
func TestSoundClosed(t *testing.T) {
	for _, k := range sounding() {
		t.Run(k.name, func(t *testing.T) {
			k.race(t)
			m, c, _ := onCard(t, k.write, softCard, OpenOptions{})
			results := make(chan error, 3)
			for i := range cap(results) {
				go func() {
					_, err := k.ask(m, fmt.Sprint(i), endless)
					results <- err
				}()
			}
			for n := uint64(0); n < 30; {
				n = 0
				for _, calls := range m.Stats().Passes {
					n += calls
				}
				runtime.Gosched()
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
			for range cap(results) {
				if err := <-results; !errors.Is(err, ErrClosed) {
					t.Errorf("closed while it ran: %v", err)
				}
			}
			if _, err := k.ask(m, "", 5); !errors.Is(err, ErrClosed) || m.Stats().State != "closed" || m.Stats().Queued != 0 {
				t.Errorf("closed: %v, %+v", err, m.Stats())
			}
			if n := c.ours.Load(); n != 0 {
				t.Errorf("%d bytes are still counted", n)
			}
		})
	}
}

// TestSoundRefused: what cannot be heard is said, and loses nothing.
func TestSoundRefused(t *testing.T) {
	for _, k := range sounding() {
		if k.refused == nil {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			var d *nonsense
			m, _, _ := onCard(t, k.write, failing(&d), OpenOptions{})
			broken := errors.New("the microphone is gone")
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			before := heardAll(t, m, babble(1, 3), "")
			type refused struct {
				name string
				ctx  context.Context
				r    TranscribeRequest
				put  float64
				want error
			}
			all := []refused{
				{"a sound that fails", t.Context(), TranscribeRequest{Sound: &sound{samples: babble(1, 5), err: broken}}, 0, broken},
				{"a sound that gives nothing", t.Context(), TranscribeRequest{Sound: &silence{at: -1}}, 0, io.ErrNoProgress},
				{"a caller that left", ended, TranscribeRequest{Sound: hearing(babble(1, 5))}, 0, context.Canceled},
				{"no number", t.Context(), TranscribeRequest{Sound: hearing(babble(1, 5))}, math.NaN(), speech.ErrNonsense},
				{"infinity", t.Context(), TranscribeRequest{Sound: hearing(babble(1, 5))}, math.Inf(1), speech.ErrNonsense},
			}
			for _, r := range k.refused {
				all = append(all, refused{fmt.Sprintf("%+v", r), t.Context(), r, 0, ErrRequest})
			}
			for _, c := range all {
				d.put.Store(math.Float32bits(float32(c.put)))
				if _, err := transcribed(c.ctx, m, c.r); !errors.Is(err, c.want) {
					t.Errorf("%s: %v, want %v", c.name, err, c.want)
				}
				d.put.Store(0)
				if got := heardAll(t, m, babble(1, 3), ""); len(got) == 0 || !reflect.DeepEqual(got, before) {
					t.Errorf("%s: afterwards it hears %+v, not %+v", c.name, got, before)
				}
			}
			if _, _, err := collect(m.Generate(t.Context(), Request{Prompt: "x"})); !errors.Is(err, ErrUnsupported) {
				t.Errorf("a recogniser writes: %v", err)
			}
		})
	}
}

// soundKind is a kind of model that hears or speaks.
type soundKind struct {
	name    string
	write   func(dir string) error
	ask     func(m *Model, key string, seed uint64) (any, error)
	after   []int               // it fails after this many calls
	faults  int                 // in a row: an encoder's call is tried twice
	none    error               // where a net gives no numbers
	buffers int                 // that stay on the card; 0: as many as the layers have
	refused []TranscribeRequest // nil: it has tests of its own
	slow    bool                // for the race detector
}

func (k *soundKind) race(t *testing.T) {
	t.Helper()
	if k.slow {
		lane.NoRace(t)
	}
}

// endless is the seed of a request that takes many calls.
const endless = math.MaxUint64

// sounding are all kinds.
func sounding() []soundKind {
	noise := sync.OnceValue(func() []float32 { return babble(1, 300) })
	hear := func(m *Model, key string, seed uint64) (any, error) {
		r := TranscribeRequest{Key: key}
		if seed == endless {
			r.Sound = hearing(noise())
		} else {
			r.Sound = hearing(babble(seed, 5))
		}
		return transcribed(context.Background(), m, r)
	}
	speak := func(m *Model, key string, seed uint64) (any, error) {
		r := SpeakRequest{Text: "Hello, cat. The world.", Key: key}
		if seed == endless {
			r.Text = strings.Repeat("Hello, cat. ", 100)
		}
		return spokenText(context.Background(), m, r)
	}
	return []soundKind{
		{name: "SenseVoice", write: modelstest.SenseVoice{Seed: 3, Layout: "Axera"}.Write, ask: hear, after: []int{0}, faults: 1,
			none: speech.ErrNonsense},
		{name: "Whisper", write: modelstest.Whisper{Seed: 2, Layout: "B", Layers: 1}.Write, ask: hear, after: []int{0, 1, 2, 20}, faults: 1,
			none: speech.ErrNonsense, buffers: 4, refused: []TranscribeRequest{{Language: "tlh"}}},
		{name: "Whisper with two sets of caches", write: modelstest.Whisper{Seed: 2, Layout: "A", Layers: 1}.Write, ask: hear,
			after: []int{2}, faults: 1, none: speech.ErrNonsense, buffers: 6},
		{name: "Zipformer", write: modelstest.Zipformer{Seed: 2, Layout: "HY"}.Write, ask: hear, after: []int{0, 1, 2, 20}, faults: 1,
			none: speech.ErrNonsense, buffers: 2 + 35*models.ZipformerSets,
			refused: []TranscribeRequest{{Language: "de"}, {Translate: true}}},
		{name: "Qwen3-ASR", write: modelstest.QwenASR{Seed: 1}.Write, ask: hear, after: []int{0, 1}, faults: 2,
			none: pictures.ErrNonsense},
		{name: "Kokoro", write: speaking(modelstest.Kokoro{Seed: 3, Layout: "A"}), ask: speak, after: []int{0, 1, 2}, faults: 1,
			none: speech.ErrNonsense, buffers: 2, slow: true},
	}
}

// failing opens a software card that can be told to fail.
func failing(d **nonsense) func() (axcl.Device, string, error) {
	return func() (axcl.Device, string, error) {
		soft, why, err := softCard()
		*d = &nonsense{Device: soft}
		return *d, why, err
	}
}

// cramped is a device with memory for few more buffers.
type cramped struct {
	axcl.Device
	left int
}

func (d *cramped) NewBuffer(size int) (axcl.Buffer, error) {
	if d.left--; d.left < 0 {
		return nil, &axcl.Error{Op: "axclrtMalloc", Code: 0x80300701, Kind: axcl.ErrMemory}
	}
	return d.Device.NewBuffer(size)
}
