package vad

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func ExampleSplitter() {
	s, err := NewSplitter(2 * SampleRate)
	if err != nil {
		fmt.Println(err)
		return
	}
	recording := said(3.5, [2]float64{0.2, 1.2}, [2]float64{1.5, 2.6})
	pieces := s.Add(recording)
	if rest, ok := s.Finish(); ok {
		pieces = append(pieces, rest)
	}
	for _, p := range pieces {
		fmt.Printf("from %.2f s, %.2f s, silent %t\n", float64(p.Start)/SampleRate, float64(len(p.Samples))/SampleRate, p.Silent)
	}
	// Output:
	// from 0.00 s, 1.35 s, silent false
	// from 1.35 s, 1.68 s, silent false
	// from 3.03 s, 0.47 s, silent true
}

// TestSplitterWhole: whatever the sound and the blocks, the pieces are the stream, none is too
// long, and they are the same for all blocks.
func TestSplitterWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for try := range 40 {
		longest := least + r.IntN(2*least)
		x := make([]float32, r.IntN(8*least))
		kind := try % 5
		for i := range x {
			switch kind {
			case 0: // noise
				x[i] = r.Float32() - 0.5
			case 1: // noise that changes
				x[i] = (r.Float32() - 0.5) * float32(i/2000%7)
			case 2: // numbered, so that a sample's place can be seen
				x[i] = float32(i)
			case 3: // hostile
				x[i] = []float32{nan, inf, math.MaxFloat32, 0, 1}[r.IntN(5)]
			}
		}
		var want []Piece
		for round := range 3 {
			s, err := NewSplitter(longest)
			if err != nil {
				t.Fatal(err)
			}
			var got []Piece
			block := []int{len(x) + 1, 700, 50_000}[round]
			for rest := x; len(rest) > 0; {
				n := min(len(rest), 1+r.IntN(block))
				if round == 0 {
					n = len(rest)
				}
				got = append(got, s.Add(rest[:n])...)
				rest = rest[n:]
			}
			if p, ok := s.Finish(); ok {
				got = append(got, p)
			}
			if _, ok := s.Finish(); ok {
				t.Fatal("a piece after the end")
			}
			at := 0
			for i, p := range got {
				n := len(p.Samples)
				if p.Start != at || n == 0 || n > longest || i < len(got)-1 && n < longest/2 {
					t.Fatalf("piece %d of at most %d begins at %d of %d and has %d samples", i, longest, p.Start, at, n)
				}
				for k, v := range p.Samples {
					if math.Float32bits(v) != math.Float32bits(x[at+k]) {
						t.Fatalf("sample %d is %v, not %v", at+k, v, x[at+k])
					}
				}
				at += n
			}
			if at != len(x) {
				t.Fatalf("%d of %d samples", at, len(x))
			}
			if round == 0 {
				want = got
			}
			if !slices.EqualFunc(got, want, func(a, b Piece) bool {
				return a.Start == b.Start && len(a.Samples) == len(b.Samples) && a.Silent == b.Silent
			}) {
				t.Fatalf("other blocks give other pieces")
			}
		}
	}
}

// TestSplitterPlace: the cut is in the pause, whatever the noise; the later of two pauses; the
// quietest place where there is no pause; and a pause in the first half is left alone.
func TestSplitterPlace(t *testing.T) {
	talk := func(pauses ...[2]float64) []float32 {
		var spoken [][2]float64
		at := 0.
		for _, p := range pauses {
			spoken = append(spoken, [2]float64{at, p[0]})
			at = p[1]
		}
		return said(12, append(spoken, [2]float64{at, 12})...)
	}
	with := func(x []float32, change func(second, v float64) float64) []float32 {
		for i, v := range x {
			x[i] = float32(change(float64(i)/SampleRate, float64(v)))
		}
		return x
	}
	r := rand.New(rand.NewPCG(9, 10))
	noisy := func(level float64) func(float64, float64) float64 {
		return func(_, v float64) float64 { return v + level*(r.Float64()-0.5) }
	}
	for _, c := range []struct {
		name     string
		x        []float32
		from, to float64 // seconds within which the first cut must be
	}{
		{"one pause", talk([2]float64{7, 7.5}), 7.1, 7.4},
		{"a noisy pause", with(talk([2]float64{7, 7.5}), noisy(0.05)), 7.1, 7.4},
		{"a pause in loud noise", with(talk([2]float64{7, 7.5}), noisy(0.3)), 7.1, 7.4},
		{"two pauses", talk([2]float64{6, 6.5}, [2]float64{8, 8.4}), 8.1, 8.3},
		{"an early pause", talk([2]float64{2, 3}, [2]float64{5.5, 5.8}), 5.6, 5.7},
		{"softer for a while", with(talk(), func(s, v float64) float64 {
			if s > 8 && s < 8.4 {
				v /= 3
			}
			return v
		}), 8.05, 8.35},
		{"a pause at the end", talk([2]float64{9.5, 11}), 9.6, 10},
	} {
		s, err := NewSplitter(10 * SampleRate)
		if err != nil {
			t.Fatal(err)
		}
		pieces := s.Add(c.x)
		if len(pieces) != 1 {
			t.Fatalf("%s: %d pieces", c.name, len(pieces))
		}
		if at := float64(len(pieces[0].Samples)) / SampleRate; at < c.from || at > c.to {
			t.Errorf("%s: cut at %.2f s, want %.2f to %.2f", c.name, at, c.from, c.to)
		}
	}
}

// TestSplitterSilent: what is silent, and what is not.
func TestSplitterSilent(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	noise := func(level float64) []float32 {
		x := make([]float32, 3*SampleRate)
		for i := range x {
			x[i] = float32(level * (r.Float64()*2 - 1))
		}
		return x
	}
	for _, c := range []struct {
		name string
		x    []float32
		want bool
	}{
		{"nothing", make([]float32, 3*SampleRate), true},
		{"one sample", make([]float32, 1), true},
		{"a quiet room", noise(0.001), true},
		{"a noisy room", noise(0.01), true},
		{"loud all the time", noise(0.3), false},
		{"a word in a quiet room", said(3, [2]float64{1, 1.3}), false},
		{"a click", append(make([]float32, 2*SampleRate), 1, -1, 1), true},
		{"a short word alone", said(0.2, [2]float64{0, 0.2}), false},
	} {
		s, err := NewSplitter(30 * SampleRate)
		if err != nil {
			t.Fatal(err)
		}
		if s.Add(c.x) != nil {
			t.Fatalf("%s: a piece before the end", c.name)
		}
		if p, ok := s.Finish(); !ok || p.Silent != c.want {
			t.Errorf("%s: silent %t, %t", c.name, p.Silent, ok)
		}
	}
}

func TestNewSplitterRefuses(t *testing.T) {
	for longest, ok := range map[int]bool{-1: false, 0: false, 15999: false, 16000: true, 9_600_000: true, 9_600_001: false} {
		if _, err := NewSplitter(longest); (err == nil) != ok {
			t.Errorf("%d: %v", longest, err)
		}
	}
}

// said is a sound as of speech in parts of it (from and to, in seconds), and very low noise.
func said(seconds float64, parts ...[2]float64) []float32 {
	x := make([]float32, int(seconds*SampleRate))
	r := rand.New(rand.NewPCG(1, 1))
	for i := range x {
		s := float64(i) / SampleRate
		v := 0.0005 * (r.Float64() - 0.5)
		for _, p := range parts {
			if s >= p[0] && s < p[1] {
				// A voice of 140 Hz that swells four times a second.
				v += (0.2 + 0.1*math.Sin(2*math.Pi*4*s)) * (math.Sin(2*math.Pi*140*s) + 0.5*math.Sin(2*math.Pi*700*s))
			}
		}
		x[i] = float32(v)
	}
	return x
}

// BenchmarkSplitter: a minute, in pieces of 30 s.
func BenchmarkSplitter(b *testing.B) {
	x := said(60, [2]float64{0, 20}, [2]float64{21, 60})
	for b.Loop() {
		s, err := NewSplitter(30 * SampleRate)
		if err != nil {
			b.Fatal(err)
		}
		s.Add(x)
		s.Finish()
	}
}
