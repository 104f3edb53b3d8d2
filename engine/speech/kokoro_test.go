package speech

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/audio/features"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestLengths: a symbol takes the sum of its shares in frames, to the nearest even one, one at
// least.
func TestLengths(t *testing.T) {
	same := func(x float64) []float32 { return slices.Repeat([]float32{float32(x)}, 50) }
	values := slices.Concat(same(0), same(math.Log(3)), same(-40), same(40))
	for speed, want := range map[float64][]int{1: {25, 38, 1, 50}, 2: {12, 19, 1, 25}, 4: {6, 9, 1, 12}, 0.25: {100, 150, 1, 200}} {
		if got, err := lengths(values, speed); err != nil || !slices.Equal(got, want) {
			t.Errorf("at speed %g: %v, %v, want %v", speed, got, err, want)
		}
	}
	values[120] = float32(math.NaN())
	if _, err := lengths(values, 1); !errors.Is(err, ErrNonsense) {
		t.Errorf("no number: %v", err)
	}
}

// TestShorten: the longest lose a frame first, and none loses its last.
func TestShorten(t *testing.T) {
	for _, c := range []struct {
		times, want []int
		most        int
	}{
		{[]int{3, 5, 1}, []int{2, 3, 1}, 6},
		{[]int{3, 5, 1}, []int{3, 4, 1}, 8},
		{[]int{2, 2, 2}, []int{1, 1, 1}, 3},
		{[]int{9, 1, 1}, []int{1, 1, 1}, 3},
		{[]int{1, 2}, []int{1, 2}, 5},
	} {
		got := slices.Clone(c.times)
		if shorten(got, c.most); !slices.Equal(got, c.want) {
			t.Errorf("%v of %d: %v, want %v", c.times, c.most, got, c.want)
		}
	}
}

// TestSpread: symbols get their frames in order, what is said to be thrown away gets what is left,
// and the rest goes to the places that fill up.
func TestSpread(t *testing.T) {
	count := func(owners []int) []int {
		n := make([]int, models.KokoroIDs+1) // the last: those without an owner
		last := 0
		for _, i := range owners {
			if i >= 0 && i < last {
				t.Errorf("%d after %d", i, last)
			}
			if last = i; i < 0 {
				i, last = models.KokoroIDs, models.KokoroIDs
			}
			n[i]++
		}
		return n
	}
	n := count(spread([]int{2, 1, 4}, 3)) // 185 to 93 places
	if want := slices.Concat([]int{2, 1, 4}, slices.Repeat([]int{2}, 92), []int{1, 0}); !slices.Equal(n, want) {
		t.Errorf("three symbols: %v", n)
	}
	n = count(spread([]int{90, 60, 30, 80}, 2)) // 42 of 110 are left for what is said twice
	if want := slices.Concat([]int{90, 60, 30, 12}, make([]int, 93)); !slices.Equal(n, want) {
		t.Errorf("said twice: %v", n)
	}
	n = count(spread(slices.Repeat([]int{1}, 96), 96))
	if want := append(slices.Repeat([]int{1}, 96), 96); !slices.Equal(n, want) {
		t.Errorf("96 symbols: %v", n)
	}
}

// TestIDs: symbols that the model does not know are left out.
func TestIDs(t *testing.T) {
	if got := idsOf(map[rune]int32{'a': 7, ' ': 9}, "a xa"); !slices.Equal(got, []int32{0, 7, 9, 7, 0}) {
		t.Errorf("%v", got)
	}
}

// TestSource: the source of sound is what its definition gives, taken literally in float64: the
// turns of each harmonic, summed, and stretched between the middles of pitches. Whatever the
// pitches are: none, negative ones, and such that harmonics turn more than once a sample.
func TestSource(t *testing.T) {
	weights, bias := []float32{0.5, -0.3, 0.2, 0.1, -0.2, 0.3, 0.05, -0.1, 0.15}, float32(0.02)
	rng := rand.New(rand.NewPCG(3, 3))
	pitch := make([]float32, 60)
	for i := range pitch {
		switch i % 7 {
		case 0:
			pitch[i] = float32(-400 * rng.Float64())
		case 1:
			pitch[i] = float32(9.9 + 0.2*rng.Float64())
		case 2:
			pitch[i] = float32(3000 + 40000*rng.Float64())
		default:
			pitch[i] = float32(80 + 300*rng.Float64())
		}
	}
	got := source(pitch, weights, bias)
	var turns [9][]float64
	for k := range turns {
		sum := 0.0
		for _, f := range pitch {
			x := float64(f) * float64(k+1) / 24000
			sum += x - math.Floor(x)
			turns[k] = append(turns[k], sum)
		}
	}
	noise, norm := rand.New(rand.NewPCG(1, 1)), 0.0
	for _, w := range weights {
		norm += float64(w) * float64(w)
	}
	for s := range got {
		at := max(0, (float64(s)+0.5)/300-0.5)
		i := int(at)
		j := min(i+1, len(pitch)-1)
		sum, sigma := float64(bias), 0.1/3
		if pitch[s/300] > 10 {
			sigma = 0.003
			for k, w := range weights {
				turn := 300 * (turns[k][i] + (at-float64(i))*(turns[k][j]-turns[k][i]))
				sum += float64(w) * 0.1 * math.Sin(2*math.Pi*turn)
			}
		}
		if want := math.Tanh(sum + sigma*math.Sqrt(norm)*noise.NormFloat64()); math.Abs(float64(got[s])-want) > 1e-6 {
			t.Fatalf("sample %d of a pitch of %g Hz is %g, not %g", s, pitch[s/300], got[s], want)
		}
	}
	if len(got) != 18000 || !slices.Equal(got, source(pitch, weights, bias)) {
		t.Errorf("%d samples, or others the second time", len(got))
	}
}

// TestSound: samples are those of the whole spectrum, as far as the frames go, behind the silence,
// and with a quiet end. What is too loud is cut off, and what is no number told.
func TestSound(t *testing.T) {
	lane.NoRace(t)
	rng := rand.New(rand.NewPCG(1, 9))
	x := make([]float32, 22*23041)
	for i := range x {
		x[i] = float32(rng.NormFloat64() - 1)
	}
	whole := make([]float32, len(x))
	for i, v := range x {
		if f := math.Exp; i >= 11*23041 {
			whole[i] = float32(math.Sin(float64(v)))
		} else {
			whole[i] = float32(f(float64(v)))
		}
	}
	all := make([]float32, 115200)
	if err := features.NewSTFT().Inverse(all, whole); err != nil {
		t.Fatal(err)
	}
	c := NewKokoro(nil)
	put(c.spectrum, x)
	for _, frames := range []int{1, 2, 77, 191, 192} {
		got, err := c.sound(frames, 500)
		if err != nil || len(got) != 500+600*frames {
			t.Fatalf("%d frames: %d samples, %v", frames, len(got), err)
		}
		n := 600 * frames
		for i, v := range got {
			want := 0.0
			if i >= 500 {
				want = max(-1, min(1, float64(all[i-500])))
			}
			fades := min(1200, n)
			if left := len(got) - 1 - i; left < fades {
				want *= float64(left) / float64(fades)
			}
			if math.Abs(float64(v)-want) > 1e-6 {
				t.Fatalf("%d frames, sample %d: %g, want %g", frames, i, v, want)
			}
		}
	}
	binary.LittleEndian.PutUint32(c.spectrum[4*700:], math.Float32bits(100)) // e^100
	if _, err := c.sound(192, 0); !errors.Is(err, ErrNonsense) {
		t.Errorf("too large for a number: %v", err)
	}
}

// steady are nets whose symbols all take as many frames, and which say what they were given.
type steady struct {
	frames float64
	said   []int32 // ids of pieces that came to an end, without zeros, once
	calls  [4]int
	turns  int
	busy   bool
}

func (s *steady) Turn(ctx context.Context) (func(), error) {
	if s.busy {
		panic("two turns at once")
	}
	s.busy = true
	s.turns++
	return func() { s.busy = false }, ctx.Err()
}

func (s *steady) Step(_ context.Context, f func(KokoroCall) error) error { return f(s.call) }

func (s *steady) call(part int, in, out map[string][]byte) error {
	s.calls[part]++
	switch part {
	case 1:
		put(out["duration"], slices.Repeat([]float32{float32(math.Log(s.frames / (50 - s.frames)))}, 96*50))
	case 2:
		var ids []int32
		for i := range 96 {
			if id := int32(binary.LittleEndian.Uint32(in["input_ids"][4*i:])); in["text_mask"][4*i+3] == 0 {
				ids = append(ids, id)
			}
		}
		own := slices.Index(ids[1:], 0)
		s.said = append(s.said, ids[1:own+1]...)
		put(out["F0_pred"], slices.Repeat([]float32{150}, 384))
	case 3:
		put(out["x"], slices.Repeat([]float32{-4}, 22*23041))
	}
	return nil
}

const littleDictionary = `{"hello":"həlˈO","world":"wˈɜɹld","incomprehensibilities":"ɪnkˌɑmpɹəhˌɛnsəbˈɪləTiz","cat":"kˈæt"}`

// speaker opens a package without weights.
func speaker(t *testing.T, more map[string]string) *models.Kokoro {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, data := range modelstest.Speakers()[0].Files {
		fsys[name] = &fstest.MapFile{Data: data}
	}
	fsys["voices/bf_emma.bin"] = fsys["voices/am_adam.bin"]
	for name, text := range more {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	o, err := models.OpenAnyFS(fsys, ".")
	if err != nil {
		t.Fatal(err)
	}
	return o.(*models.Kokoro)
}

// TestSpeakSplits: whatever symbols take, every one of the text is spoken, once and in order, in
// pieces that fit; a word that does not fit alone is shortened.
func TestSpeakSplits(t *testing.T) {
	lane.NoRace(t)
	p := speaker(t, map[string]string{"dictionaries/us_gold.json": littleDictionary})
	text := "Hello world, hello cat: " + strings.Repeat("hello world cat ", 6) + "world. Incomprehensibilities, cat!"
	var want []int32
	lexicon, err := p.Lexicon("en-US")
	if err != nil {
		t.Fatal(err)
	}
	for piece := range lexicon.Pieces(text) {
		want = append(want, idsOf(p.Symbols, strings.ReplaceAll(piece, " ", ""))...)
	}
	want = slices.DeleteFunc(want, func(id int32) bool { return id == 0 })
	for _, c := range []struct {
		frames, speed float64
		most          int // frames of a piece
	}{{1, 1, 96}, {2, 1, 192}, {12, 1, 192}, {12, 0.25, 192}, {12, 4, 192}} {
		nets := &steady{frames: c.frames}
		var sounds []ask.Speech
		for s, err := range NewKokoro(p).Speak(t.Context(), nets, ask.SpeakRequest{Text: text, Speed: c.speed}) {
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Samples) == 0 || len(s.Samples) > 600*c.most+6000 {
				t.Errorf("%+v: %d samples", c, len(s.Samples))
			}
			sounds = append(sounds, s)
		}
		got := slices.DeleteFunc(nets.said, func(id int32) bool { return id == p.Symbols[' '] })
		if !slices.Equal(got, want) {
			t.Errorf("%+v: spoken %v, want %v", c, got, want)
		}
		if nets.calls[2] != len(sounds) || nets.calls[3] != len(sounds) || nets.turns != nets.calls[1] || nets.busy {
			t.Errorf("%+v: %+v for %d pieces", c, nets, len(sounds))
		}
		if c.frames*60/c.speed > 192 && nets.calls[1] == len(sounds) {
			t.Errorf("%+v: nothing was split", c)
		}
		said := ""
		for _, s := range sounds {
			said += s.Text + " "
		}
		if said = strings.Join(strings.Fields(said), " "); said != text {
			t.Errorf("%+v: the text is %q", c, said)
		}
	}
}

// TestSpeakAccents: a British voice takes words from the British dictionaries, the better one
// first, and says numbers as the British do; an American one has its own.
func TestSpeakAccents(t *testing.T) {
	p := speaker(t, map[string]string{
		"us_gold.json":   `{"bath":"bˈæθ","tomato":"təmˈATO","one":"wˈʌn","hundred":"hˈʌndɹəd","and":"ænd"}`,
		"us_silver.json": `{"schedule":"skˈɛʤˌul"}`,
		"gb_gold.json":   `{"bath":"bˈɑːθ","tomato":"təmˈɑːtQ","one":"wˈʌn","hundred":"hˈʌndɹəd","and":"and"}`,
		"gb_silver.json": `{"schedule":"ʃˈɛdjuːl","bath":"bˈæθ"}`,
	})
	const text = "Schedule tomato bath 101."
	for voice, want := range map[string]string{
		"af_heart": "skˈɛʤˌul təmˈATO bˈæθ wˈʌn hˈʌndɹəd wˈʌn.",
		"am_adam":  "skˈɛʤˌul təmˈATO bˈæθ wˈʌn hˈʌndɹəd wˈʌn.",
		"bf_emma":  "ʃˈɛdjuːl təmˈɑːtQ bˈɑːθ wˈʌn hˈʌndɹəd and wˈʌn.",
	} {
		nets := &steady{frames: 1}
		for _, err := range NewKokoro(p).Speak(t.Context(), nets, ask.SpeakRequest{Text: text, Voice: voice}) {
			if err != nil {
				t.Fatal(err)
			}
		}
		if ids := idsOf(p.Symbols, want); !slices.Equal(nets.said, slices.DeleteFunc(ids, func(id int32) bool { return id == 0 })) {
			t.Errorf("%s says %v, want %s", voice, nets.said, want)
		}
	}
}

// TestSpeakTwice: a short piece is given twice, and its first half is used.
func TestSpeakTwice(t *testing.T) {
	p := speaker(t, map[string]string{"us_gold.json": littleDictionary})
	for text, symbols := range map[string]int{"Cat.": 5, strings.Repeat("cat ", 5) + "cat cat.": 35} {
		nets := &steady{frames: 2}
		for s, err := range NewKokoro(p).Speak(t.Context(), nets, ask.SpeakRequest{Text: text}) {
			if err != nil || len(s.Samples) != 600*2*(symbols+2) {
				t.Errorf("%q: %d samples, %v", text, len(s.Samples), err)
			}
		}
	}
}

// TestSpeakPauses: pieces are apart by what is between them in the text.
func TestSpeakPauses(t *testing.T) {
	for piece, want := range map[string]int{"kˈæt.": 6000, "kˈæt?”": 6000, "kˈæt,": 2400, "kˈæt": 1200, "(kˈæt…)": 6000} {
		if got := pauseAfter(piece); got != want {
			t.Errorf("after %s: %d samples", piece, got)
		}
	}
}

// TestSpeakRefused: what cannot be spoken is told, with the way out.
func TestSpeakRefused(t *testing.T) {
	with := speaker(t, map[string]string{"us_gold.json": littleDictionary})
	without := speaker(t, nil)
	broken := speaker(t, map[string]string{"us_gold.json": "<html>"})
	fail := errors.New("the card is gone")
	for _, c := range []struct {
		p    *models.Kokoro
		r    ask.SpeakRequest
		want error
		text string
	}{
		{with, ask.SpeakRequest{}, ask.ErrRequest, "no English words"},
		{with, ask.SpeakRequest{Text: " …\n你好"}, ask.ErrRequest, "no English words"},
		{with, ask.SpeakRequest{Text: "cat", Voice: "alloy"}, ask.ErrRequest, `no voice "alloy": it has af_heart, am_adam, bf_emma`},
		{with, ask.SpeakRequest{Text: "cat", Voice: "zf_xiaoyi"}, ask.ErrRequest, "speaks the language zh"},
		{with, ask.SpeakRequest{Text: "cat", Speed: 0.2}, ask.ErrRequest, "the speed is 0.2"},
		{with, ask.SpeakRequest{Text: "cat", Speed: math.NaN()}, ask.ErrRequest, "the speed is NaN"},
		{with, ask.SpeakRequest{Text: "cat", Speed: -1}, ask.ErrRequest, "the speed is -1"},
		{with, ask.SpeakRequest{Text: "cat", Voice: "bf_emma"}, ask.ErrUnsupported, "put gb_gold.json and gb_silver.json there"},
		{without, ask.SpeakRequest{Text: "cat"}, ask.ErrUnsupported, "put us_gold.json and us_silver.json there"},
		{broken, ask.SpeakRequest{Text: "cat"}, models.ErrMalformed, "us_gold.json"},
		{with, ask.SpeakRequest{Text: "cat"}, fail, ""},
	} {
		n := 0
		for _, err := range NewKokoro(c.p).Speak(t.Context(), failing{fail}, c.r) {
			if n++; !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%+v: %v, want %v with %q", c.r, err, c.want, c.text)
			}
		}
		if n != 1 {
			t.Errorf("%+v: %d answers", c.r, n)
		}
	}
}

// failing are nets that fail.
type failing struct{ err error }

func (f failing) Turn(context.Context) (func(), error) { return func() {}, nil }

func (f failing) Step(context.Context, func(KokoroCall) error) error { return f.err }

// BenchmarkSource and BenchmarkSound are the host's share of a piece of 4.8 s.
func BenchmarkSource(b *testing.B) {
	pitch := slices.Repeat([]float32{150}, 384)
	c := NewKokoro(&models.Kokoro{Weights: make([]float32, 9)})
	put(c.pitch, pitch)
	for b.Loop() {
		if err := c.excite(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSound(b *testing.B) {
	c := NewKokoro(nil)
	for b.Loop() {
		if _, err := c.sound(192, 0); err != nil {
			b.Fatal(err)
		}
	}
}
