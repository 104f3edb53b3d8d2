package features

import (
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/internal/fuzzguard"
)

// TestTone: the numbers that Whisper's and Kaldi's own programs give for a second of 440 Hz.
func TestTone(t *testing.T) {
	near := func(what string, got, want, within float64) {
		t.Helper()
		if !(math.Abs(got-want) <= within) {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	for _, c := range []struct {
		mels, weights int
		sum           float64
	}{{80, 391, 1.9990241}, {128, 394, 3.1909855}} {
		sum, weights := 0., 0
		for _, b := range slaneyBands(c.mels) {
			weights += len(b.weights)
			for _, w := range b.weights {
				sum += w
			}
		}
		near(fmt.Sprint("the sum of ", c.mels, " filters"), sum, c.sum, 1e-7)
		if weights != c.weights {
			t.Errorf("%d weights, want %d", weights, c.weights)
		}
	}
	if b := slaneyBands(80)[0]; b.first != 1 || len(b.weights) != 1 || math.Abs(b.weights[0]-0.0248626) > 1e-7 {
		t.Errorf("the first filter is %v", b)
	}
	m, err := NewMel(MelOptions{Mels: 80})
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]float32, 80*MelFrames)
	if frames, err := m.Compute(dst, tone()); err != nil || frames != 100 {
		t.Fatalf("%d frames, %v", frames, err)
	}
	near("the loudest value", float64(slices.Max(dst)), (1.752815+4)/4, 1e-6)
	near("the value of silence", float64(dst[len(dst)-1]), -0.561796, 1e-6)
	for i, want := range []float64{-0.561796, 1.159391, 1.348738, 1.438204, 1.293523} {
		near(fmt.Sprint("frame 50, band ", 8+i), float64(dst[(8+i)*MelFrames+50]), want, 2e-6)
	}
	got := frames(NewFbank(SenseVoice), tone())
	if len(got) != 98*FbankBins || len(AppendLFR(nil, got)) != 17*LFRWidth {
		t.Fatalf("%d values", len(got))
	}
	for i, want := range []float64{14.19647, 11.60413, 12.36395, 14.94717, 21.16620, 24.40271, 25.22215, 24.13785} {
		near(fmt.Sprint("frame 0, band ", 8+i), float64(got[8+i]), want, 1e-5)
	}
}

// TestMelLayout: frames first is the transpose, and the tails differ where they should.
func TestMelLayout(t *testing.T) {
	long := make([]float32, MelSamples)
	for i := range long {
		long[i] = float32(i%97)/97 - 0.5
	}
	for _, samples := range [][]float32{long, tone()[:15000], tone()[:201]} {
		for _, tail := range []Tail{Silence, Zeros, Mirror} {
			a, b := make([]float32, 80*MelFrames), make([]float32, 80*MelFrames)
			var own int
			for first, dst := range map[bool][]float32{false: a, true: b} {
				for i := range dst {
					dst[i] = 7 // what an earlier call left
				}
				m, err := NewMel(MelOptions{Mels: 80, FramesFirst: first, Tail: tail})
				if err != nil {
					t.Fatal(err)
				}
				if own, err = m.Compute(dst, samples); err != nil || own != len(samples)/160 {
					t.Fatalf("%d frames of %d samples: %v", own, len(samples), err)
				}
			}
			for i, v := range a {
				band, frame := i/MelFrames, i%MelFrames
				if v != b[frame*80+band] {
					t.Fatalf("tail %d: band %d of frame %d is %v, and %v frames first", tail, band, frame, v, b[frame*80+band])
				}
				if frame >= own && (v == 0) != (tail != Silence) {
					t.Fatalf("tail %d: frame %d after the samples is %v", tail, frame, v)
				}
			}
		}
	}
}

// TestMelEnds: what the last frames hear behind the samples. A frame is compared with one that
// hears the same where nothing is left to the tail.
func TestMelEnds(t *testing.T) {
	features := func(tail Tail, samples []float32) []float32 {
		m, err := NewMel(MelOptions{Mels: 80, FramesFirst: true, Tail: tail})
		if err != nil {
			t.Fatal(err)
		}
		dst := make([]float32, 80*MelFrames)
		if _, err := m.Compute(dst, samples); err != nil {
			t.Fatal(err)
		}
		return dst
	}
	noise := make([]float32, MelSamples)
	r := rand.New(rand.NewPCG(7, 8))
	for i := range noise {
		noise[i] = (r.Float32() - 0.5) / 100
	}
	noise[2000] = 1 // the loudest frames of all
	x := noise[:3210]
	mirrored := slices.Clone(x)
	for i := range 200 {
		mirrored = append(mirrored, x[len(x)-2-i])
	}
	if !slices.Equal(features(Mirror, x)[:20*80], features(Silence, mirrored)[:20*80]) {
		t.Error("Mirror does not reflect the end")
	}
	last := func(mel []float32, frame int) []float32 { return mel[frame*80:][:80] }
	if !slices.Equal(last(features(Zeros, noise), 2999), last(features(Zeros, noise[1600:]), 2989)) {
		t.Error("with Zeros, thirty seconds are not followed by zeros")
	}
	if !slices.Equal(features(Silence, noise), features(Mirror, noise)) {
		t.Error("with Silence, thirty seconds are not reflected")
	}
}

// TestMelSilence: nothing but silence is -1.5 in every tail's own frames.
func TestMelSilence(t *testing.T) {
	for _, tail := range []Tail{Silence, Zeros, Mirror} {
		m, err := NewMel(MelOptions{Mels: 80, FramesFirst: true, Tail: tail})
		if err != nil {
			t.Fatal(err)
		}
		dst := make([]float32, 80*MelFrames)
		if _, err := m.Compute(dst, make([]float32, 3200)); err != nil {
			t.Fatal(err)
		}
		for i, v := range dst[:20*80] {
			if v != -1.5 {
				t.Fatalf("tail %d: value %d is %v", tail, i, v)
			}
		}
	}
}

// TestRefused: each error names what is wrong.
func TestRefused(t *testing.T) {
	m, err := NewMel(MelOptions{Mels: 80, Tail: Mirror})
	if err != nil {
		t.Fatal(err)
	}
	compute := func(dst, samples int) error {
		_, err := m.Compute(make([]float32, dst), make([]float32, samples))
		return err
	}
	made := func(o MelOptions) error { _, err := NewMel(o); return err }
	cmvn := func(s string) error { _, err := ReadCMVN([]byte(s)); return err }
	const shift, scale = "<AddShift> 2 2 <LearnRateCoef> 0 [ 1 2 ] ", "<Rescale> 2 2 <LearnRateCoef> 0 [ 3 4 ] "
	good, err := ReadCMVN([]byte(shift + scale))
	if err != nil {
		t.Fatal(err)
	}
	s := NewSTFT()
	for _, c := range []struct {
		err  error
		want string
	}{
		{made(MelOptions{}), "0 mels"},
		{made(MelOptions{Mels: 81}), "81 mels"},
		{made(MelOptions{Mels: 80, Tail: 3}), "tail 3"},
		{made(MelOptions{Mels: 80, Tail: -1}), "tail -1"},
		{compute(80*MelFrames, MelSamples+1), "cut the audio"},
		{compute(80*MelFrames-1, 1000), "not 240000"},
		{compute(80*MelFrames, 200), "at least 201"},
		{cmvn(""), "no list"},
		{cmvn(scale), "no list"},
		{cmvn("[ 1 2 ] " + shift), "no list"},
		{cmvn(shift + "<Rescale> [ 3 4"), "ends within"},
		{cmvn(shift + "<Rescale> [ 3 ]"), "shifts 2 columns and scales 1"},
		{cmvn(shift + shift + scale), "two lists"},
		{cmvn(shift + "<Rescale> [ 3 NaN ]"), `"NaN"`},
		{cmvn(shift + "<Rescale> [ 3 1e40 ]"), `"1e40"`},
		{cmvn(shift + "<Rescale> [ 3 [ 4 ] ]"), `"["`},
		{cmvn("<AddShift> [" + strings.Repeat(" 1", 4097) + " ]"), "more than 4096"},
		{cmvn(strings.Repeat(" ", 1<<20+1)), "at most 1048576"},
		{good.Apply(make([]float32, 3)), "no rows"},
		{s.Forward(make([]float32, STFTRows), nil), "a sample at least"},
		{s.Forward(make([]float32, STFTRows), make([]float32, 5)), "it takes 44"},
		{s.Inverse(nil, nil), "22 rows"},
		{s.Inverse(make([]float32, 5), make([]float32, 45)), "22 rows"},
		{s.Inverse(make([]float32, 4), make([]float32, 44)), "22 rows"},
	} {
		if c.err == nil || !strings.HasPrefix(c.err.Error(), "features: ") || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%v: it does not say %q", c.err, c.want)
		}
	}
}

// TestFbankBlocks: the frames do not depend on the blocks in which the samples come, a second
// utterance not on the first, and a frame is there as soon as its last sample is.
func TestFbankBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, form := range []FbankForm{SenseVoice, Zipformer} {
		b := NewFbank(form)
		for _, n := range []int{0, 1, 79, 80, 119, 120, 121, 279, 280, 399, 400, 401, 1000, 12345, 30000} {
			x := make([]float32, n)
			for i := range x {
				x[i] = r.Float32() - 0.5
			}
			want := frames(NewFbank(form), x)
			count := (n + 80) / 160
			if form == SenseVoice {
				count = max(0, (n-400)/160+1)
				if n < 400 {
					count = 0
				}
			}
			if len(want) != count*FbankBins {
				t.Fatalf("form %d: %d samples: %d values, want %d frames", form, n, len(want), count)
			}
			var got []float32
			for at := 0; at < n; {
				size := min(n-at, 1+r.IntN([]int{3, 200, 5000}[r.IntN(3)]))
				got = b.Append(got, x[at:at+size])
				at += size
				ready := max(0, at-400+b.before+160) / 160
				if len(got) != ready*FbankBins {
					t.Fatalf("form %d: %d values after %d samples, want %d frames", form, len(got), at, ready)
				}
			}
			if got = b.Finish(got); !slices.Equal(got, want) {
				t.Fatalf("form %d: %d samples in blocks give other frames", form, n)
			}
		}
	}
}

// TestZipformerMirror: the frames at both ends are those of samples that somebody reflected before:
// 120 at the beginning, and as many as the last frame needs at the end.
func TestZipformerMirror(t *testing.T) {
	x := tone()[:1000]
	n := len(x)
	mirrored := make([]float32, 0, 120+n+200)
	for i := range 120 {
		mirrored = append(mirrored, x[119-i])
	}
	mirrored = append(mirrored, x...)
	for i := range 200 {
		mirrored = append(mirrored, x[n-1-i])
	}
	got := frames(NewFbank(Zipformer), x)
	b := NewFbank(Zipformer)
	b.before = 0 // the same filters, over samples that are reflected already
	if want := b.Append(nil, mirrored); len(got) != 6*FbankBins || !slices.Equal(got, want[:len(got)]) {
		t.Errorf("%d values, %d of the reflected samples", len(got), len(want))
	}
}

func TestCMVN(t *testing.T) {
	c, err := ReadCMVN([]byte("<Nnet> \n<Splice> 2 2 \n[ 0 ]\n<AddShift> 2 2 \n<LearnRateCoef> 0 [ -8.5 1e0 ]\n" +
		"<Rescale> 2 2 \n<LearnRateCoef> 0 [ 0.5 2 ]\n</Nnet> \n"))
	if err != nil || c.Width() != 2 {
		t.Fatal(c, err)
	}
	rows := []float32{8.5, 1, 10.5, -2}
	if err := c.Apply(rows); err != nil || !slices.Equal(rows, []float32{0, 4, 1, -2}) {
		t.Errorf("%v, %v", rows, err)
	}
}

// TestFFT: against the sums by definition, and back.
func TestFFT(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{4, 8, 10, 16, 20, 40, 50, 80, 128, 400, 512, 1000} {
		f := newFFT(n)
		x, back, out := make([]float64, n), make([]float64, n), make([]complex128, n/2+1)
		for i := range x {
			x[i] = r.Float64() - 0.5
		}
		f.forward(x, out)
		for k, got := range out {
			var want complex128
			for i, v := range x {
				want += complex(v, 0) * cmplx.Rect(1, -2*math.Pi*float64(k*i%n)/float64(n))
			}
			if !(cmplx.Abs(got-want) < 1e-12) {
				t.Fatalf("%d: sum %d is %v, want %v", n, k, got, want)
			}
		}
		f.inverse(out, back)
		for i := range x {
			if !(math.Abs(x[i]-back[i]) < 1e-14) {
				t.Fatalf("%d: number %d comes back as %v, not %v", n, i, back[i], x[i])
			}
		}
	}
}

// TestSTFTRoundTrip: there and back, of a whole call of Kokoro's, of five samples, and of none (a
// spectrum of one frame).
func TestSTFTRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	s := NewSTFT()
	for _, n := range []int{5, 10, 20, 1000, 115200} {
		x, back := make([]float32, n), make([]float32, n)
		for i := range x {
			x[i] = r.Float32()*2 - 1
		}
		spectrum := make([]float32, STFTRows*STFTFrames(n))
		if err := s.Forward(spectrum, x); err != nil {
			t.Fatal(err)
		}
		if err := s.Inverse(back, spectrum); err != nil {
			t.Fatal(err)
		}
		for i := range x {
			if !(math.Abs(float64(x[i]-back[i])) < 1e-6) {
				t.Fatalf("%d samples: sample %d comes back as %v, not %v", n, i, back[i], x[i])
			}
		}
	}
	if err := s.Inverse(nil, make([]float32, STFTRows)); err != nil {
		t.Errorf("one frame: %v", err)
	}
}

// TestAllocations: nothing is allocated once a front end is made.
func TestAllocations(t *testing.T) {
	m, err := NewMel(MelOptions{Mels: 80})
	if err != nil {
		t.Fatal(err)
	}
	b, s := NewFbank(Zipformer), NewSTFT()
	mel, x := make([]float32, 80*MelFrames), tone()
	bank := make([]float32, 0, 101*FbankBins)
	spectrum, back := make([]float32, STFTRows*STFTFrames(len(x))), make([]float32, len(x))
	if n := testing.AllocsPerRun(3, func() {
		_, _ = m.Compute(mel, x)
		b.Finish(b.Append(bank, x))
		_ = s.Forward(spectrum, x)
		_ = s.Inverse(back, spectrum)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzCMVN: no text of somebody's takes long, or much memory; what is read can be applied.
func FuzzCMVN(f *testing.F) {
	//proves:T1
	f.Add("<AddShift> 2 2 \n<LearnRateCoef> 0 [ -8.5 1e0 ]\n<Rescale> 2 2 \n<LearnRateCoef> 0 [ 0.5 2 ]\n")
	f.Add("<AddShift> [ <Rescale> [ ] ]")
	f.Fuzz(func(t *testing.T, text string) {
		var c *CMVN
		var err error
		fuzzguard.Check(t, len(text), func() { c, err = ReadCMVN([]byte(text)) })
		if err != nil {
			return
		}
		if c.Width() < 1 || c.Width() > maxWidth || len(c.scale) != c.Width() {
			t.Fatalf("%d shifts and %d scales", len(c.shift), len(c.scale))
		}
		if err := c.Apply(make([]float32, 3*c.Width())); err != nil {
			t.Fatal(err)
		}
	})
}

// tone is a second of 440 Hz.
func tone() []float32 {
	x := make([]float32, SampleRate)
	for i := range x {
		x[i] = float32(0.5 * math.Sin(2*math.Pi*440*float64(i)/SampleRate))
	}
	return x
}

// BenchmarkMel: thirty seconds of sound.
func BenchmarkMel(b *testing.B) {
	m, err := NewMel(MelOptions{Mels: 80})
	if err != nil {
		b.Fatal(err)
	}
	x := slices.Repeat(tone(), 30)
	dst := make([]float32, 80*MelFrames)
	for b.Loop() {
		if _, err := m.Compute(dst, x); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFbank: thirty seconds of sound.
func BenchmarkFbank(b *testing.B) {
	bank := NewFbank(SenseVoice)
	x := slices.Repeat(tone(), 30)
	dst := make([]float32, 0, MelFrames*FbankBins)
	for b.Loop() {
		bank.Finish(bank.Append(dst, x))
	}
}

// BenchmarkSTFT: a call of Kokoro's, 4.8 s, there and back.
func BenchmarkSTFT(b *testing.B) {
	s := NewSTFT()
	x := make([]float32, 115200)
	copy(x, slices.Repeat(tone(), 8))
	spectrum := make([]float32, STFTRows*STFTFrames(len(x)))
	b.Run("Forward", func(b *testing.B) {
		for b.Loop() {
			if err := s.Forward(spectrum, x); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Inverse", func(b *testing.B) {
		for b.Loop() {
			if err := s.Inverse(x, spectrum); err != nil {
				b.Fatal(err)
			}
		}
	})
}
