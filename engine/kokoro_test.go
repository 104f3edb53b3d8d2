package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/speech"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestKokoro: what each net is given follows from what the nets before gave, as the definitions
// have it in float64, and so do the samples; in both layouts.
func TestKokoro(t *testing.T) {
	lane.NoRace(t)
	testKokoro(t, softCard)
}

func testKokoro(t *testing.T, open func() (axcl.Device, string, error)) {
	for _, c := range []struct {
		layout, voice string
		speed         float64
	}{{"A", "", 0}, {"B", "am_adam", 1.5}} {
		t.Run(c.layout, func(t *testing.T) {
			e := modelstest.Kokoro{Seed: 1, Layout: c.layout}
			var d *overheard
			m, _, _ := onCard(t, speaking(e), hearingOn(&d, open), OpenOptions{})
			if i := m.Info(); !i.Capabilities.Speech || i.SampleRate != 24000 || i.Vocab != 114 || i.CardBytes <= 0 ||
				!slices.Equal(i.Voices, []ask.Voice{{Name: "af_heart", Language: "en-US"}, {Name: "am_adam", Language: "en-US"}}) {
				t.Errorf("%+v", i)
			}
			r := SpeakRequest{Text: "Hello, world. The cat, hello hello, and the world of cats: hello!", Voice: c.voice, Speed: c.speed}
			got := spokenAll(t, m, r)
			if len(got) != 2 || got[0].Text != "Hello, world." || len(d.calls) != 3*len(got) {
				t.Fatalf("%d pieces, the first %q, in %d calls", len(got), got[0].Text, len(d.calls))
			}
			if c.voice == "" {
				c.voice, c.speed = "af_heart", 1
			}
			for i, symbols := range []string{"həlˈO, wˈɜɹld.", "ðə kˈæt, həlˈO həlˈO, ˌAˌɛndˈi ðə wˈɜɹld ˌOˈɛf kˈæts: həlˈO!"} {
				sound := got[i].Samples
				if i > 0 { // a quarter of a second after a sentence
					if slices.ContainsFunc(sound[:6000], func(x float32) bool { return x != 0 }) {
						t.Error("there is no silence between the sentences")
					}
					sound = sound[6000:]
				}
				wantedPiece(t, e, d.calls[3*i:][:3], symbols, c.voice, c.speed, sound)
			}
			if n := m.Stats().Passes["speak"]; n != uint64(len(d.calls)) {
				t.Errorf("%d calls are counted", n)
			}
			again := spokenAll(t, m, r)
			if !slices.EqualFunc(got, again, sameSpeech) {
				t.Error("the second time it sounds differently")
			}
		})
	}
}

// wantedPiece compares a piece's three calls and its samples with the definitions.
func wantedPiece(t *testing.T, e modelstest.Kokoro, calls []overheardCall, symbols, voice string, speed float64, sound []float32) {
	t.Helper()
	ids := []int32{0}
	for _, r := range symbols {
		id, ok := e.Vocabulary()[string(r)]
		if !ok {
			t.Fatalf("%q is no symbol", r)
		}
		ids = append(ids, int32(id))
	}
	ids = append(ids, 0)
	own := len(ids)
	ref := e.Voice(voice)[256*(own-3):][:256]
	if own <= 32 {
		ids = append(ids, ids...)
	}
	used := len(ids)
	padding, hidden := make([]byte, 96), make([]float32, 96)
	for i := range 96 {
		if i >= used {
			ids, padding[i], hidden[i] = append(ids, 0), 1, 1
		}
	}
	is := func(part int, name string, want []byte) {
		t.Helper()
		if got := calls[part-1].in[name]; string(got) != string(want) {
			t.Errorf("%s: part %d is given another %s", symbols, part, name)
		}
	}
	var numbers []byte
	for _, id := range ids {
		numbers = binary.LittleEndian.AppendUint32(numbers, uint32(id))
	}
	is(1, "input_ids", numbers)
	is(1, "text_mask", padding)
	is(2, "input_ids", numbers)
	is(2, "text_mask", bytesOf(hidden))
	for part := range 3 {
		is(part+1, "ref_s", bytesOf(ref))
	}
	duration, rows := e.Part1(ids, ref, padding)
	given := calls[0].out
	closeTo(t, "duration", valuesOf(given["duration"]), slices.Concat(duration...))
	closeTo(t, "d", valuesOf(given["d"]), slices.Concat(rows...))

	// What part 1 gave is near; the rest goes on from it.
	en, places := make([]float32, 640*192), make([]float32, 96*192)
	at, frames := 0, 0
	take := func(i, n int) {
		for range n {
			for v := range 640 {
				en[192*v+at] = valuesOf(given["d"][4*(640*i+v):][:4])[0]
			}
			places[192*i+at] = 1
			at++
		}
	}
	for i := range used {
		long := 0.0
		for _, x := range valuesOf(given["duration"][4*50*i:][:4*50]) {
			long += 1 / (1 + math.Exp(-float64(x)))
		}
		take(i, min(192-at, max(1, int(math.Round(long/speed)))))
		if i == own-1 {
			frames = at
		}
	}
	left := 192 - at
	for i := used; i < 96; i++ {
		n := left / (96 - used)
		if i-used < left%(96-used) {
			n++
		}
		take(i, n)
	}
	is(2, "en", bytesOf(en))
	is(2, "pred_aln_trg", bytesOf(places))
	f0, loud, asr := e.Part2(en, ref, ids, hidden, places)
	pitch := calls[1].out["F0_pred"]
	closeTo(t, "F0_pred", valuesOf(pitch), f0)
	is(3, "F0_pred", pitch)

	weights, bias := e.Harmonics()
	har := wantedSource(valuesOf(pitch), weights, bias)
	gotHar := valuesOf(calls[2].in["har"])
	for i := range 11 * 23041 {
		a := cmplx.Rect(float64(gotHar[i]), float64(gotHar[11*23041+i]))
		if b := cmplx.Rect(har[i], har[11*23041+i]); cmplx.Abs(a-b) > 1e-5 {
			t.Fatalf("%s: bin %d of column %d of the source is %v, not %v", symbols, i/23041, i%23041, a, b)
		}
	}
	var words []float32
	for _, row := range asr {
		words = append(words, single(row)...)
	}
	x := e.Part3(words, valuesOf(pitch), single(loud), ref, gotHar)
	closeTo(t, "x", valuesOf(calls[2].out["x"]), slices.Concat(x...))

	want := wantedSound(valuesOf(calls[2].out["x"]), 600*frames)
	if len(sound) != len(want) || len(sound) < 600*own/2 {
		t.Fatalf("%s: %d samples, want %d", symbols, len(sound), len(want))
	}
	loudest := 0.0
	for i, w := range want {
		if left := len(want) - 1 - i; left < 1200 {
			w *= float64(left) / float64(min(1200, len(want)))
		}
		w = max(-1, min(1, w))
		if loudest = max(loudest, math.Abs(w)); math.Abs(float64(sound[i])-w) > 1e-5 {
			t.Fatalf("%s: sample %d is %g, not %g", symbols, i, sound[i], w)
		}
	}
	if loudest < 0.01 {
		t.Errorf("%s: the loudest sample is %g", symbols, loudest)
	}
}

// wantedSource is the spectrum of the source, taken literally.
func wantedSource(pitch, weights []float32, bias float32) []float64 {
	const n = 115200
	samples, noise := make([]float64, n), rand.New(rand.NewPCG(1, 1))
	var turns [9][]float64
	norm := 0.0
	for k, w := range weights {
		norm += float64(w) * float64(w)
		sum := 0.0
		for _, f := range pitch {
			turn := float64(f) * float64(k+1) / 24000
			sum += turn - math.Floor(turn)
			turns[k] = append(turns[k], sum)
		}
	}
	for s := range samples {
		at := max(0, (float64(s)+0.5)/300-0.5)
		i := int(at)
		j := min(i+1, len(pitch)-1)
		sum, sigma := float64(bias), 0.1/3
		if pitch[s/300] > 10 {
			sigma = 0.003
			for k, w := range weights {
				sum += float64(w) * 0.1 * math.Sin(2*math.Pi*300*(turns[k][i]+(at-float64(i))*(turns[k][j]-turns[k][i])))
			}
		}
		samples[s] = math.Tanh(sum + sigma*math.Sqrt(norm)*noise.NormFloat64())
	}
	out := make([]float64, 22*23041)
	for f := range 23041 {
		for k := range 11 {
			var z complex128
			for i := range 20 {
				x := samples[max(0, min(n-1, 5*f+i-10))] * (0.5 - 0.5*math.Cos(2*math.Pi*float64(i)/20))
				z += complex(x, 0) * twentieths[k*i%20]
			}
			out[23041*k+f], out[23041*(11+k)+f] = cmplx.Abs(z), cmplx.Phase(z)
		}
	}
	return out
}

// twentieths are the powers of the root of one that a transform of 20 samples has.
var twentieths = func() (all [20]complex128) {
	for i := range all {
		all[i] = cmplx.Rect(1, -2*math.Pi*float64(i)/20)
	}
	return all
}()

// wantedSound is the first samples of a spectrum of logarithms and phases, sample by sample.
func wantedSound(x []float32, n int) []float64 {
	out := make([]float64, n)
	for s := range out {
		sum, weight := 0.0, 0.0
		for f := max(0, (s-10+4)/5); f < 23041 && 5*f-10 <= s; f++ {
			i := s - (5*f - 10)
			if i >= 20 {
				continue
			}
			window := 0.5 - 0.5*math.Cos(2*math.Pi*float64(i)/20)
			value := 0.0
			for k := range 11 {
				z := cmplx.Rect(math.Exp(float64(x[23041*k+f])), math.Sin(float64(x[23041*(11+k)+f]))) * cmplx.Conj(twentieths[k*i%20])
				if k == 0 || k == 10 {
					value += real(z) / 20
				} else {
					value += real(z) / 10
				}
			}
			sum += window * value
			weight += window * window
		}
		out[s] = sum / weight
	}
	return out
}

// TestSpeakPieces: a text sounds as its sentences do, with silence between them.
func TestSpeakPieces(t *testing.T) {
	lane.NoRace(t)
	m, _, _ := onCard(t, speaking(modelstest.Kokoro{Seed: 3, Layout: "A"}), softCard, OpenOptions{})
	sentences := []string{"Hello, world!", "The cat, the cat.", "World?"}
	var want []Speech
	for i, s := range sentences {
		alone := spokenAll(t, m, SpeakRequest{Text: s})
		if i > 0 {
			alone[0].Samples = slices.Concat(make([]float32, 6000), alone[0].Samples)
		}
		want = append(want, alone...)
	}
	if got := spokenAll(t, m, SpeakRequest{Text: strings.Join(sentences, " ")}); len(got) != 3 || !slices.EqualFunc(got, want, sameSpeech) {
		t.Errorf("%d pieces, or others than %d", len(got), len(want))
	}
	other := spokenAll(t, m, SpeakRequest{Text: sentences[0], Voice: "am_adam"})
	slow := spokenAll(t, m, SpeakRequest{Text: sentences[0], Speed: 0.25})
	if sameSpeech(other[0], want[0]) || len(slow[0].Samples) <= len(want[0].Samples) {
		t.Error("voice and speed change nothing")
	}
}

// TestSpeakLong: a piece that takes too many frames is split between its words.
func TestSpeakLong(t *testing.T) {
	lane.NoRace(t)
	var d *overheard
	m, _, _ := onCard(t, speaking(modelstest.Kokoro{Seed: 1, Layout: "A"}), hearingOn(&d, softCard), OpenOptions{})
	text := "The world of cats and cats of hello and the world of the cat and the cats."
	got := spokenAll(t, m, SpeakRequest{Text: text, Speed: 0.25})
	var starts, whole []byte
	for _, c := range d.calls {
		if ids := c.in["input_ids"]; ids != nil && c.in["en"] != nil {
			starts = append(starts, firstIDs(ids)...)
		}
	}
	d.calls = nil
	spokenAll(t, m, SpeakRequest{Text: text, Speed: 4})
	for _, c := range d.calls {
		if c.in["en"] != nil {
			whole = append(whole, firstIDs(c.in["input_ids"])...)
		}
	}
	if len(got) < 3 || string(starts) != string(whole) || len(whole) < 40 {
		t.Errorf("%d pieces of %d symbols, %d are in the text", len(got), len(starts), len(whole))
	}
	for _, s := range got {
		if len(s.Samples) > 115200+6000 {
			t.Errorf("a piece of %d samples", len(s.Samples))
		}
	}
}

// firstIDs are the ids of a call, as bytes and without spaces, up to the zero that ends them.
func firstIDs(ids []byte) (all []byte) {
	for i := 4; ids[i] != 0; i += 4 {
		if ids[i] != 16 {
			all = append(all, ids[i])
		}
	}
	return all
}

// TestSpeakTurns: two keys take turns, a piece each, and both sound as alone.
func TestSpeakTurns(t *testing.T) {
	lane.NoRace(t)
	synctest.Test(t, func(t *testing.T) {
		var d *overheard
		m, _, _ := onCard(t, speaking(modelstest.Kokoro{Seed: 3, Layout: "A"}), hearingOn(&d, softCard), OpenOptions{})
		texts := []string{"Cat. Cat. Cat. Cat.", "World. World. World. World."}
		var want [2][]Speech
		for i, text := range texts {
			want[i] = spokenAll(t, m, SpeakRequest{Text: text})
		}
		d.calls = nil
		d.before.Store(&synctestWait) // all who will come for a turn wait for it
		var g sync.WaitGroup
		for i, text := range texts {
			g.Go(func() {
				got, err := spokenText(t.Context(), m, SpeakRequest{Text: text, Key: fmt.Sprint(i)})
				if err != nil || !slices.EqualFunc(got, want[i], sameSpeech) {
					t.Errorf("%s: %d pieces, %v", text, len(got), err)
				}
			})
		}
		g.Wait()
		d.before.Store(nil)
		order := ""
		for _, c := range d.calls {
			if c.in["en"] != nil {
				order += map[bool]string{true: "w", false: "c"}[c.in["input_ids"][4] != d.calls[0].in["input_ids"][4]]
			}
		}
		if order != "cwcwcwcw" && order != "ccwcwcww" {
			t.Errorf("the turns are %s", order)
		}
	})
}

var synctestWait = func() { synctest.Wait() }

// TestSpeakAhead: one piece is made while the one before is used, and no more. Leaving the loop
// ends it: nothing is made any more, and the next request is served.
func TestSpeakAhead(t *testing.T) {
	lane.NoRace(t)
	synctest.Test(t, func(t *testing.T) {
		m, _, _ := onCard(t, speaking(modelstest.Kokoro{Seed: 3, Layout: "A"}), softCard, OpenOptions{MaxQueue: 1})
		long := SpeakRequest{Text: strings.Repeat("Hello, cat. ", 20)}
		n := uint64(0)
		for _, err := range m.Speak(t.Context(), long) {
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if n++; m.Stats().Passes["speak"] != 3*(n+1) {
				t.Errorf("piece %d is used, and %d calls are made", n, m.Stats().Passes["speak"])
			}
			if _, err := spokenText(t.Context(), m, long); !errors.Is(err, ErrBusy) {
				t.Errorf("a full queue: %v", err)
			}
			if n == 3 {
				break
			}
		}
		synctest.Wait()
		if got := m.Stats(); got.Passes["speak"] != 12 || got.Queued != 0 {
			t.Errorf("after leaving: %d calls, %d wait", got.Passes["speak"], got.Queued)
		}
		if got := spokenAll(t, m, SpeakRequest{Text: "Hello."}); len(got) != 1 {
			t.Errorf("afterwards: %d pieces", len(got))
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, err := range m.Speak(ctx, long) {
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				return
			}
			cancel()
		}
		t.Error("a caller that left has the whole text")
	})
}

// TestOneAhead: whatever ends the loop ends the sequence too, which is never more than one value
// ahead, and no value or error is lost.
func TestOneAhead(t *testing.T) {
	fail := errors.New("it fails")
	for _, c := range []struct{ leave, fail, want int }{{99, 99, 5}, {2, 99, 2}, {99, 3, 3}, {99, 0, 0}, {1, 1, 1}} {
		made, used, running := 0, 0, false
		sequence := func(ctx context.Context) iter.Seq2[int, error] {
			return func(yield func(int, error) bool) {
				running = true
				defer func() { running = false }()
				for i := range 5 {
					if made++; i == c.fail {
						yield(0, fail)
						return
					}
					if !yield(i, nil) {
						if ctx.Err() == nil {
							t.Errorf("%+v: left, and the context lives", c)
						}
						return
					}
				}
			}
		}
		var last error
		for i, err := range oneAhead(t.Context(), sequence) {
			if last = err; err != nil {
				break
			}
			if i != used {
				t.Errorf("%+v: %d after %d", c, i, used)
			}
			if used++; used == c.leave {
				break
			}
		}
		if running || made > used+2 || used != c.want || (last != nil) != (c.fail == used && c.leave > used) {
			t.Errorf("%+v: %d of %d values, %v, running %v", c, used, made, last, running)
		}
	}
}

// TestSpeakFaults: a call that fails ends its text, and the next one is spoken; a card that is
// lost, or never answers, ends all of them.
func TestSpeakFaults(t *testing.T) {
	lane.NoRace(t)
	//proves:D4 of a speaker
	//proves:D7 of a speaker
	//proves:D8 of a speaker
	failed := &axcl.Error{Op: "Run", Layer: -1, Code: 0x8030070c}
	gone := fmt.Errorf("%w: the link is down", axcl.ErrLost)
	for _, c := range []struct {
		name string
		fail func(hang <-chan struct{}) error
		want error
		lost bool
		took time.Duration // at most
	}{
		{"a call fails", func(<-chan struct{}) error { return failed }, failed, false, 0},
		{"NaN", nil, speech.ErrNonsense, false, 0},
		{"the card is lost", func(<-chan struct{}) error { return gone }, axcl.ErrLost, true, 0},
		{"a call that never returns", func(hang <-chan struct{}) error { <-hang; return failed }, axcl.ErrLost, true, 11 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d *nonsense
				m, _, _ := onCard(t, speaking(modelstest.Kokoro{Seed: 3, Layout: "A"}), func() (axcl.Device, string, error) {
					soft, why, err := softCard()
					d = &nonsense{Device: soft}
					return d, why, err
				}, OpenOptions{})
				say := func() ([]Speech, error) {
					return spokenText(t.Context(), m, SpeakRequest{Text: "Hello, cat. The world."})
				}
				hang := make(chan struct{})
				if c.fail != nil {
					fail := func() error { return c.fail(hang) }
					d.fail.Store(&fail)
				} else {
					d.put.Store(math.Float32bits(float32(math.NaN())))
				}
				start, clients := time.Now(), 1
				if c.lost {
					clients = 3
				}
				var g sync.WaitGroup
				for range clients {
					g.Go(func() {
						if _, err := say(); !errors.Is(err, c.want) {
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
				got, err := say()
				if c.lost && !errors.Is(err, axcl.ErrLost) || !c.lost && (err != nil || len(got) != 2) {
					t.Errorf("afterwards: %d pieces, %v", len(got), err)
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

// TestSpeakRefused: what cannot be spoken is said, and loses nothing.
func TestSpeakRefused(t *testing.T) {
	mute, _, _ := onCard(t, modelstest.Kokoro{Seed: 3, Layout: "B"}.Write, softCard, OpenOptions{})
	m, c, _ := onCard(t, speaking(modelstest.Kokoro{Seed: 3, Layout: "A"}), softCard, OpenOptions{})
	text, _, _ := encoder(t, modelstest.TextEncoder{Seed: 4, Length: 128, Dims: 16, Layers: 1}, softCard, OpenOptions{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name string
		ctx  context.Context
		m    *Model
		r    SpeakRequest
		want error
		text string
	}{
		{"an unknown voice", t.Context(), m, SpeakRequest{Text: "cat", Voice: "nova"}, ErrRequest, "af_heart, am_adam"},
		{"a speed", t.Context(), m, SpeakRequest{Text: "cat", Speed: 9}, ErrRequest, "0.25 to 4"},
		{"no text", t.Context(), m, SpeakRequest{}, ErrRequest, "no English words"},
		{"no dictionary", t.Context(), mute, SpeakRequest{Text: "cat"}, ErrUnsupported, "us_gold.json and us_silver.json"},
		{"a model of texts", t.Context(), text, SpeakRequest{Text: "cat"}, ErrUnsupported, "does not speak"},
		{"a caller that left", ended, m, SpeakRequest{Text: "cat"}, context.Canceled, ""},
	} {
		if _, err := spokenText(c.ctx, c.m, c.r); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if _, _, err := collect(m.Generate(t.Context(), Request{Prompt: "x"})); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a speaker writes: %v", err)
	}
	if _, err := transcribed(t.Context(), m, TranscribeRequest{Sound: hearing(nil)}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a speaker hears: %v", err)
	}
	result := make(chan error, 1)
	go func() {
		_, err := spokenText(t.Context(), m, SpeakRequest{Text: strings.Repeat("Hello, cat. ", 100)})
		result <- err
	}()
	for m.Stats().Passes["speak"] < 3 {
		runtime.Gosched()
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if err := <-result; !errors.Is(err, ErrClosed) {
		t.Errorf("closed while it ran: %v", err)
	}
	if _, err := spokenText(t.Context(), m, SpeakRequest{Text: "cat"}); !errors.Is(err, ErrClosed) || m.Stats().State != "closed" {
		t.Errorf("closed: %v", err)
	}
	if n := c.ours.Load(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

// TestSpeakRoom: too little memory for what stays on the card is no fault of the card. Nothing is
// left there, and where room is made it opens.
func TestSpeakRoom(t *testing.T) {
	lane.NoRace(t)
	dir := t.TempDir()
	if err := speaking(modelstest.Kokoro{Seed: 3, Layout: "A"})(dir); err != nil {
		t.Fatal(err)
	}
	p, err := models.OpenAny(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	d := &cramped{}
	c, err := OpenCard(func() (axcl.Device, string, error) {
		soft, why, err := softCard()
		d.Device = soft
		return d, why, err
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
		d.left = 1 // of two buffers
		if _, err := OpenAny(t.Context(), p, OpenOptions{Card: c}); !errors.Is(err, axcl.ErrMemory) {
			t.Fatal(err)
		}
		if left := now(); left != free {
			t.Fatalf("%d bytes are free of %d", left, free)
		}
	}
	d.left = 1
	m, err := OpenAny(t.Context(), p, OpenOptions{Card: c, Room: func(int64, int64) bool { d.left = 2; return true }})
	if err != nil {
		t.Fatal(err)
	}
	if got := spokenAll(t, m, SpeakRequest{Text: "Hello."}); len(got) != 1 {
		t.Errorf("%d pieces", len(got))
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if left := now(); left != free || c.ours.Load() != 0 {
		t.Errorf("%d bytes are free of %d, %d are ours", left, free, c.ours.Load())
	}
}

// speaking writes a package with a dictionary of a few words. The others are spelled.
func speaking(e modelstest.Kokoro) func(dir string) error {
	return func(dir string) error {
		if err := e.Write(dir); err != nil {
			return err
		}
		at := filepath.Join(dir, "dictionaries")
		if err := os.Mkdir(at, 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(at, "us_gold.json"), []byte(`{"hello":"həlˈO","world":"wˈɜɹld","cat":"kˈæt"}`), 0o600)
	}
}

func spokenText(ctx context.Context, m *Model, r SpeakRequest) (all []Speech, err error) {
	for s, err := range m.Speak(ctx, r) {
		if err != nil {
			return all, err
		}
		all = append(all, s)
	}
	return all, nil
}

func spokenAll(t *testing.T, m *Model, r SpeakRequest) []Speech {
	t.Helper()
	all, err := spokenText(t.Context(), m, r)
	if err != nil || len(all) == 0 {
		t.Fatalf("%q: %d pieces, %v", r.Text, len(all), err)
	}
	return all
}

func sameSpeech(a, b Speech) bool { return a.Text == b.Text && slices.Equal(a.Samples, b.Samples) }

// overheard is a card that notes what its nets are given and give, and calls a function before.
type overheard struct {
	axcl.Device
	mu     sync.Mutex
	calls  []overheardCall
	before atomic.Pointer[func()]
}

type overheardCall struct{ in, out map[string][]byte }

// hearingOn opens such a card.
func hearingOn(d **overheard, open func() (axcl.Device, string, error)) func() (axcl.Device, string, error) {
	return func() (axcl.Device, string, error) {
		inner, why, err := open()
		*d = &overheard{Device: inner}
		return *d, why, err
	}
}

func (d *overheard) LoadNet(path string) (axcl.Net, error) {
	n, err := d.Device.LoadNet(path)
	return overheardNet{n, d}, err
}

type overheardNet struct {
	axcl.Net
	d *overheard
}

func (n overheardNet) Run(group int, in, out map[string][]byte) error {
	if f := n.d.before.Load(); f != nil {
		(*f)()
	}
	err := n.Net.Run(group, in, out)
	call := overheardCall{map[string][]byte{}, map[string][]byte{}}
	for i, from := range []map[string][]byte{in, out} {
		for name, b := range from {
			[]map[string][]byte{call.in, call.out}[i][name] = slices.Clone(b)
		}
	}
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	n.d.calls = append(n.d.calls, call)
	return err
}

func bytesOf(v []float32) (b []byte) {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func valuesOf(b []byte) (v []float32) {
	for i := 0; i < len(b); i += 4 {
		v = append(v, math.Float32frombits(binary.LittleEndian.Uint32(b[i:])))
	}
	return v
}

func single(v []float64) (out []float32) {
	for _, x := range v {
		out = append(out, float32(x))
	}
	return out
}

// closeTo compares what was computed in float32 with float64.
func closeTo(t *testing.T, what string, got []float32, want []float64) {
	t.Helper()
	square := 0.0
	for _, v := range want {
		square += v * v / float64(len(want))
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, not %d", what, len(got), len(want))
	}
	for i, v := range want {
		if off := math.Abs(float64(got[i])-v) / (math.Sqrt(square) + math.Abs(v)); !(off <= 2e-4) {
			t.Fatalf("%s: value %d is %v, not %v", what, i, got[i], v)
		}
	}
}
