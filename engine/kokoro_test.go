package engine

import (
	"encoding/binary"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/lane"
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
