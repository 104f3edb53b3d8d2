package engine

import (
	"bytes"
	"compress/zlib"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axle-llm/axle/audio/features"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/speech"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestWhisper: in each layout the segments are what OpenAI's program makes of logits computed in
// float64, with the language found or given.
func TestWhisper(t *testing.T) {
	lane.NoRace(t)
	testWhisper(t, softCard)
}

func testWhisper(t *testing.T, open func() (axcl.Device, string, error)) {
	all := []TranscribeRequest{{}, {Language: "ja"}, {Language: "de", Translate: true}, {Language: "de", Temperature: 0.7}}
	for i, e := range []modelstest.Whisper{{Seed: 1, Layout: "A", Layers: 1}, {Seed: 2, Layout: "B", Turbo: true}, {Seed: 3, Layout: "C"}} {
		t.Run(e.Layout, func(t *testing.T) {
			m, _, _ := onCard(t, e.Write, open, OpenOptions{})
			if i := m.Info(); !i.Capabilities.Audio || i.Vocab != e.IDs().Vocab || i.CardBytes <= 0 {
				t.Errorf("%+v", i)
			}
			sound := babble(e.Seed, 11)
			said := map[string]bool{}
			few := all[:len(all)-i] // the more layers, the longer float64 takes
			for _, r := range few {
				r.Sound = hearing(sound)
				got, err := transcribed(context.Background(), m, r)
				if err != nil {
					t.Fatal(err)
				}
				want := wantedOnce(e, sound, r)
				if len(want) == 0 || !slices.EqualFunc(got, want, sameSegment) {
					t.Errorf("%+v:\n got %+v\nwant %+v", r, got, want)
				}
				said[fmt.Sprintf("%+v", got)] = true
			}
			if len(said) != len(few) {
				t.Errorf("%d requests had %d answers", len(few), len(said))
			}
		})
	}
}

// wanted are the segments that testWhisper asked for: all cards are to give the same ones, and
// float64 takes long. Tests that use it do not run at the same time.
var wanted struct {
	oracles  map[modelstest.Whisper]*modelstest.WhisperOracle
	segments map[string][]Segment
}

func wantedOnce(e modelstest.Whisper, sound []float32, r TranscribeRequest) []Segment {
	w := &wanted
	if w.oracles == nil {
		w.oracles, w.segments = map[modelstest.Whisper]*modelstest.WhisperOracle{}, map[string][]Segment{}
	}
	if w.oracles[e] == nil {
		w.oracles[e] = heardBy(e, sound)
	}
	r.Sound = nil
	key := fmt.Sprintf("%+v %+v", e, r)
	if w.segments[key] == nil {
		w.segments[key] = wantedSegments(e, w.oracles[e], sound, r)
	}
	return w.segments[key]
}

// hearing is a sound of samples.
func hearing(samples []float32) *sound { return &sound{samples: samples, err: io.EOF} }

// sameSegment compares segments. What comes from logits may differ as those of float32 and float64
// do.
func sameSegment(a, b Segment) bool {
	near := func(x, y float64) bool { return math.Abs(x-y) < 1e-2 }
	return a.Start == b.Start && a.End == b.End && a.Text == b.Text && a.Language == b.Language && slices.Equal(a.Tokens, b.Tokens) &&
		near(a.Logprob, b.Logprob) && near(a.NoSpeech, b.NoSpeech) && near(a.Compression, b.Compression) &&
		a.Temperature == b.Temperature &&
		a.Seek == b.Seek
}

// heardBy is the encoder's view of one window.
func heardBy(e modelstest.Whisper, samples []float32) *modelstest.WhisperOracle {
	mels := map[bool]int{false: 80, true: 128}[e.Turbo]
	front, err := features.NewMel(features.MelOptions{Mels: mels, Tail: features.Zeros})
	if err != nil {
		panic(err)
	}
	mel := make([]float32, 3000*mels)
	if _, err := front.Compute(mel, samples); err != nil {
		panic(err)
	}
	return e.Oracle(mel)
}

// wantedSegments is what OpenAI's program makes of the logits of one window, step by step as there.
func wantedSegments(e modelstest.Whisper, o *modelstest.WhisperOracle, samples []float32, r TranscribeRequest) (all []Segment) {
	id := e.IDs()
	o.Restart()
	first := o.Next(id.SOT)
	language := 0
	for i, code := range e.Languages() {
		if r.Language == code || r.Language == "" && first[int(id.Language)+i] > first[int(id.Language)+language] {
			language = i
		}
	}
	silence := softmax(first, 1)[id.NoSpeech]
	heats := []float64{0, 0.2, 0.4, 0.6, 0.8, 1}
	if r.Temperature > 0 {
		heats = []float64{r.Temperature}
	}
	var tokens []int32
	s := Segment{Language: e.Languages()[language], NoSpeech: silence}
	for _, s.Temperature = range heats {
		o.Restart()
		tokens, s.Logprob = wantedTokens(e, o, language, r.Translate, s.Temperature)
		var z bytes.Buffer
		w := zlib.NewWriter(&z)
		text := wantedWords(e, tokens)
		_, _ = io.WriteString(w, text)
		_ = w.Close()
		s.Compression = float64(len(text)) / float64(z.Len())
		if s.Compression <= 2.4 && s.Logprob >= -1 {
			break
		}
	}
	begin := func(i int) time.Duration {
		return min(20*time.Millisecond*time.Duration(tokens[i]-id.Stamp), time.Duration(len(samples))*time.Second/16000)
	}
	var cuts []int
	for i := 1; i < len(tokens); i++ {
		if tokens[i-1] >= id.Stamp && tokens[i] >= id.Stamp {
			cuts = append(cuts, i)
		}
	}
	n := len(tokens)
	if len(cuts) == 0 || n > 1 && tokens[n-1] >= id.Stamp && tokens[n-2] < id.Stamp {
		cuts = append(cuts, n)
	}
	from := 0
	for _, to := range cuts {
		s.Start, s.End = begin(from), time.Duration(len(samples))*time.Second/16000
		if tokens[to-1] >= id.Stamp {
			s.End = begin(to - 1)
		}
		s.Text, s.Tokens = wantedWords(e, tokens[from:to]), nil
		for _, token := range tokens[from:to] {
			if token < id.EOT {
				s.Tokens = append(s.Tokens, token)
			}
		}
		if from = to; s.Text != "" {
			all = append(all, s)
		}
	}
	return all
}

func wantedWords(e modelstest.Whisper, tokens []int32) (text string) {
	id, words := e.IDs(), e.Tokens()
	for _, token := range tokens {
		if token < id.EOT {
			text += words[token]
		}
	}
	return strings.TrimSpace(strings.ToValidUTF8(text, "\ufffd"))
}

func softmax(x []float64, heat float64) []float64 {
	p, sum := make([]float64, len(x)), 0.0
	most := slices.Max(x)
	for i, v := range x {
		p[i] = math.Exp((v - most) / heat)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// wantedTokens decodes a window, and returns the mean log probability.
func wantedTokens(e modelstest.Whisper, o *modelstest.WhisperOracle, language int, translate bool, heat float64) ([]int32, float64) {
	id, words := e.IDs(), e.Tokens()
	task := id.Transcribe
	if translate {
		task = id.Translate
	}
	start := []int32{id.SOT, id.Language + int32(language), task}
	var said []int32
	if e.Layout == "A" {
		said = []int32{id.Stamp}
	}
	var logits []float64
	for _, token := range slices.Concat(start, said) {
		logits = o.Next(token)
	}
	rng := rand.New(rand.NewPCG(0, math.Float64bits(heat)))
	sum := 0.0
	for n := 1; ; n++ {
		for i := range logits {
			if !may(id, words, said, int32(i)) {
				logits[i] = math.Inf(-1)
			}
		}
		p := softmax(logits, 1)
		stamps, text := 0.0, 0.0
		for i, x := range p {
			if i >= int(id.Stamp) {
				stamps += x
			} else {
				text = max(text, x)
			}
		}
		if stamps > text {
			for i := range id.Stamp {
				logits[i] = math.Inf(-1)
			}
		}
		best := 0
		for i, x := range logits {
			if x > logits[best] {
				best = i
			}
		}
		if heat > 0 {
			left := rng.Float64()
			for i, x := range softmax(logits, heat) {
				if left -= x; left < 0 {
					best = i
					break
				}
			}
		}
		sum += math.Log(softmax(logits, 1)[best])
		if best == int(id.EOT) {
			return said, sum / float64(n)
		}
		if said = append(said, int32(best)); n == 224 {
			return said, sum / float64(n)
		}
		logits = o.Next(int32(best))
	}
}

// may says whether a token may come after others, one by one.
func may(id modelstest.WhisperIDs, words []string, said []int32, token int32) bool {
	stamp := token >= id.Stamp
	if token > id.EOT && !stamp || token < 256 && strings.Contains("\"#()*+/:;<=>@[\\]^_`{|}~", words[token]) {
		return false
	}
	if len(said) == 0 {
		return stamp && token <= id.Stamp+50
	}
	var stamps []int32
	for _, x := range said {
		if x >= id.Stamp {
			stamps = append(stamps, x)
		}
	}
	lastWas := said[len(said)-1] >= id.Stamp
	beforeWas := len(said) < 2 || said[len(said)-2] >= id.Stamp
	switch {
	case lastWas && beforeWas:
		return !stamp
	case lastWas:
		return token == id.EOT || stamp && token >= stamps[len(stamps)-1]
	case stamp && len(stamps) > 0:
		return token > stamps[len(stamps)-1]
	}
	return true
}

// TestWhisperLong: a sound of any length is heard to its end, a window at a time, in order.
func TestWhisperLong(t *testing.T) {
	lane.NoRace(t)
	m, _, _ := onCard(t, modelstest.Whisper{Seed: 2, Layout: "B", Layers: 1}.Write, softCard, OpenOptions{})
	sound := slices.Concat(babble(5, 20), make([]float32, 50*16000), babble(6, 13))
	got, err := transcribed(context.Background(), m, TranscribeRequest{Sound: hearing(sound)})
	if err != nil {
		t.Fatal(err)
	}
	last, windows := time.Duration(0), map[time.Duration]bool{}
	for _, s := range got {
		if s.Start < last || s.End <= s.Start || s.End > 83*time.Second || s.Seek > s.Start {
			t.Errorf("%v to %v of the window at %v, after %v", s.Start, s.End, s.Seek, last)
		}
		last = s.End
		windows[s.Seek] = true
	}
	if last < 70*time.Second || len(windows) < 2 {
		t.Errorf("heard to %v in %d windows", last, len(windows))
	}
}

// TestWhisperSilence: silence costs no call, and says nothing.
func TestWhisperSilence(t *testing.T) {
	m, _, _ := onCard(t, modelstest.Whisper{Seed: 2, Layout: "B", Layers: 1}.Write, softCard, OpenOptions{})
	for _, n := range []int{0, 1, 159, 160, 480000, 1000000} {
		if got := heardAll(t, m, make([]float32, n), ""); len(got) > 0 {
			t.Errorf("%d samples of silence: %+v", n, got)
		}
	}
	if n := m.Stats().Passes["transcribe"]; n != 0 {
		t.Errorf("%d calls", n)
	}
}

// TestWhisperTogether: several are heard at once as each alone, though they share what is kept on
// the card. A prompt changes what is said in the layouts that take one.
func TestWhisperTogether(t *testing.T) {
	lane.NoRace(t)
	for _, layout := range []string{"A", "B"} {
		m, _, _ := onCard(t, modelstest.Whisper{Seed: 4, Layout: layout, Layers: 1}.Write, softCard, OpenOptions{})
		ask := func(i int) TranscribeRequest {
			r := TranscribeRequest{Sound: hearing(babble(uint64(i), 34)), Key: fmt.Sprint(i % 2)}
			if i == 2 {
				r.Sound, r.Prompt = hearing(babble(1, 34)), "cebi dabe"
			}
			return r
		}
		var alone [3][]Segment
		for i := range alone {
			var err error
			if alone[i], err = transcribed(context.Background(), m, ask(i)); err != nil || len(alone[i]) == 0 {
				t.Fatal(err, alone[i])
			}
		}
		if same := joinedText(alone[1]) == joinedText(alone[2]); same != (layout == "A") {
			t.Errorf("%s: a prompt changes nothing: %v", layout, same)
		}
		var g sync.WaitGroup
		for i := range alone {
			g.Go(func() {
				got, err := transcribed(context.Background(), m, ask(i))
				if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", alone[i]) {
					t.Errorf("%s, %d: %v\n got %+v\nwant %+v", layout, i, err, got, alone[i])
				}
			})
		}
		g.Wait()
	}
}

// TestWhisperSpoiled: a turn that fails leaves caches that are cleared before the next one, also
// where its caller has left meanwhile. One that only ended early leaves numbers.
func TestWhisperSpoiled(t *testing.T) {
	m, _, _ := onCard(t, modelstest.Whisper{Seed: 2, Layout: "B", Layers: 1}.Write, softCard, OpenOptions{})
	b := m.b.(*whisper)
	for _, c := range []struct {
		left    bool
		err     error
		spoiled bool
	}{
		{false, nil, false},
		{true, context.Canceled, false},
		{false, speech.ErrNonsense, true},
		{true, speech.ErrNonsense, true},
	} {
		ctx, leave := context.WithCancel(t.Context())
		b.spoiled = false
		done, err := (&whisperTurns{b, "key"}).Turn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if c.left {
			leave()
		}
		if done(c.err); b.spoiled != c.spoiled {
			t.Errorf("%+v: spoiled is %v", c, b.spoiled)
		}
		leave()
	}
}
