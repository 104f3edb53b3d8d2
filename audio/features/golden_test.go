package features

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/cmplx"
	"os"
	"slices"
	"testing"

	"github.com/axle-llm/axle/internal/npy"
)

// TestGolden: the features of a spoken sentence are those that testdata/make.py computes from their
// definitions, with NumPy and in another way.
func TestGolden(t *testing.T) {
	speech := speech(t)
	mel := func(o MelOptions, from, frames int) []float32 {
		m, err := NewMel(o)
		if err != nil {
			t.Fatal(err)
		}
		dst := make([]float32, o.Mels*MelFrames)
		if own, err := m.Compute(dst, speech); err != nil || own != 78 {
			t.Fatalf("%d frames, %v", own, err)
		}
		return dst[from*o.Mels:][:frames*o.Mels]
	}
	sense := frames(NewFbank(SenseVoice), speech)
	zip := frames(NewFbank(Zipformer), speech)
	if len(sense) != 77*FbankBins || len(zip) != 79*FbankBins {
		t.Fatalf("%d and %d values", len(sense), len(zip))
	}
	for _, c := range []struct {
		name   string
		got    []float32
		within float64
	}{
		{"mel80", mel(MelOptions{Mels: 80, FramesFirst: true}, 0, 82), 2e-6},
		{"mel80_zeros", mel(MelOptions{Mels: 80, FramesFirst: true, Tail: Zeros}, 74, 4), 2e-6},
		{"mel128_mirror", mel(MelOptions{Mels: 128, FramesFirst: true, Tail: Mirror}, 38, 40), 2e-6},
		{"fbank_sensevoice", sense[:40*FbankBins], 5e-6},
		{"fbank_zipformer", slices.Concat(zip[:30*FbankBins], zip[69*FbankBins:]), 5e-6},
	} {
		want := read(t, c.name)
		if len(c.got) != len(want) {
			t.Fatalf("%s: %d values, want %d", c.name, len(c.got), len(want))
		}
		worst, at := 0., 0
		for i, v := range want {
			if d := math.Abs(float64(c.got[i] - v)); !(d <= worst) {
				worst, at = d, i
			}
		}
		t.Logf("%s: at most %.1e", c.name, worst)
		if !(worst <= c.within) {
			t.Errorf("%s: value %d is %v, want %v", c.name, at, c.got[at], want[at])
		}
	}
}

// TestGoldenLFR: rows of seven frames, for 1 to 20 frames.
func TestGoldenLFR(t *testing.T) {
	want := read(t, "lfr")
	for n := range 20 {
		frames := make([]float32, (n+1)*FbankBins)
		for i := range frames {
			frames[i] = float32(i/FbankBins) + float32(i%FbankBins)/100
		}
		got := AppendLFR(nil, frames)
		if len(got) != LFRRows(n+1)*LFRWidth {
			t.Fatalf("%d frames: %d values", n+1, len(got))
		}
		for i, v := range got {
			if w := want[i/FbankBins] + float32(i%FbankBins)/100; v != w {
				t.Fatalf("%d frames: value %d is %v, want %v", n+1, i, v, w)
			}
		}
		want = want[len(got)/FbankBins:]
	}
	if len(want) > 0 {
		t.Errorf("%d frames are left over", len(want))
	}
}

// TestGoldenSTFT compares complex numbers: the phase of next to nothing is any.
func TestGoldenSTFT(t *testing.T) {
	x := speech(t)[4000:4300]
	frames := STFTFrames(len(x))
	got, want := make([]float32, STFTRows*frames), read(t, "stft")
	if err := NewSTFT().Forward(got, x); err != nil {
		t.Fatal(err)
	}
	half := len(want) / 2
	if half != stftBins*frames {
		t.Fatalf("%d values", half)
	}
	for i := range half {
		g := cmplx.Rect(float64(got[i]), float64(got[half+i]))
		if d := cmplx.Abs(g - complex(float64(want[i]), float64(want[half+i]))); !(d < 1e-6) {
			t.Fatalf("bin %d, frame %d: %v, want %v%+vi", i/frames, i%frames, g, want[i], want[half+i])
		}
	}
}

// speech is a spoken sentence of 0.79 s.
func speech(t testing.TB) []float32 {
	t.Helper()
	x := read(t, "speech")
	for i := range x {
		x[i] /= 32768
	}
	return x
}

// read reads an array of testdata.
func read(t testing.TB, name string) []float32 {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name + ".npy")
	if err != nil {
		t.Fatal(err)
	}
	a, err := npy.Read(bytes.NewReader(b), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float32, a.Len())
	for i := range x {
		switch a.Type {
		case "<f4":
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(a.Data[4*i:]))
		case "<i2":
			x[i] = float32(int16(binary.LittleEndian.Uint16(a.Data[2*i:])))
		case "|u1":
			x[i] = float32(a.Data[i])
		default:
			t.Fatalf("%s: type %s", name, a.Type)
		}
	}
	return x
}

func frames(b *Fbank, samples []float32) []float32 { return b.Finish(b.Append(nil, samples)) }
