package vad

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func ExampleListener() {
	// A real program takes the Next of a Stream.
	loud := func(window []float32) (float32, error) { return min(1, 10*slices.Max(window)), nil }
	l, err := NewListener(loud, Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	microphone := said(3, [2]float64{0.512, 1.024}, [2]float64{1.28, 1.792})
	for block := range slices.Chunk(microphone, 480) {
		events, err := l.Add(block)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, e := range events {
			fmt.Println(map[Kind]string{Started: "started", Stopped: "stopped", Ended: "ended"}[e.Kind], e.Sample)
		}
	}
	// Output:
	// started 7712
	// stopped 16864
	// started 20000
	// stopped 29152
	// ended 29152
}

// TestListener: probabilities and the events that they make. The samples are those of windows, 512
// each.
func TestListener(t *testing.T) {
	const s, m, q = 0.5, 0.4, 0.1 // speech, neither, silence
	run := func(n int, p float32) []float32 { return slices.Repeat([]float32{p}, n) }
	const w = Window
	for _, c := range []struct {
		name          string
		o             Options
		probabilities []float32
		want          []Event // the last ones are Finish's
	}{
		{"nothing", Options{}, nil, nil},
		{"silence", Options{}, run(50, q), nil},
		{"neither", Options{}, run(50, m), nil},
		{"from the beginning", Options{}, run(3, s), []Event{{Started, 0}, {Stopped, 3 * w}, {Ended, 3 * w}}},
		{"a pad before", Options{}, append(run(9, q), s), []Event{{Started, 9*w - 480}, {Stopped, 10 * w}, {Ended, 10 * w}}},
		{"three silent windows are too few", Options{}, slices.Concat(run(2, s), run(3, q), run(1, s)),
			[]Event{{Started, 0}, {Stopped, 6 * w}, {Ended, 6 * w}}},
		{"four stop it", Options{}, slices.Concat(run(2, s), run(4, q)), []Event{{Started, 0}, {Stopped, 2*w + 480}, {Ended, 2*w + 480}}},
		{"neither goes on as it was", Options{}, slices.Concat(run(2, s), run(9, m), run(1, s)),
			[]Event{{Started, 0}, {Stopped, 12 * w}, {Ended, 12 * w}}},
		{"neither counts once silence began", Options{}, slices.Concat(run(2, s), run(1, q), run(3, m)),
			[]Event{{Started, 0}, {Stopped, 2*w + 480}, {Ended, 2*w + 480}}},
		{"a sentence of two parts", Options{}, slices.Concat(run(2, s), run(10, q), run(2, s), run(22, q)),
			[]Event{{Started, 0}, {Stopped, 2*w + 480}, {Started, 12*w - 480}, {Stopped, 14*w + 480}, {Ended, 14*w + 480}}},
		{"two sentences", Options{}, slices.Concat(run(2, s), run(22, q), run(2, s)),
			[]Event{{Started, 0}, {Stopped, 2*w + 480}, {Ended, 2*w + 480}, {Started, 24*w - 480}, {Stopped, 26 * w}, {Ended, 26 * w}}},
		{"pads do not cross", Options{Stop: 1, Pad: 5000, End: 100000}, []float32{s, q, s, q, q},
			[]Event{{Started, 0}, {Stopped, 2 * w}, {Started, 2 * w}, {Stopped, 4 * w}, {Ended, 4 * w}}},
		{"an end before the stop", Options{Stop: 1024, End: 1}, []float32{s, q, q, q},
			[]Event{{Started, 0}, {Stopped, w + 480}, {Ended, w + 480}}},
		{"silence at the very end", Options{}, []float32{s, s, q}, []Event{{Started, 0}, {Stopped, 2*w + 480}, {Ended, 2*w + 480}}},
		{"other thresholds", Options{Speech: 0.3, Silence: 0.2}, slices.Concat(run(1, 0.29), run(1, 0.3), run(4, 0.19)),
			[]Event{{Started, w - 480}, {Stopped, 2*w + 480}, {Ended, 2*w + 480}}},
	} {
		n := 0
		l, err := NewListener(func([]float32) (float32, error) { n++; return c.probabilities[n-1], nil }, c.o)
		if err != nil {
			t.Fatal(err)
		}
		got, err := l.Add(make([]float32, w*len(c.probabilities)))
		if err != nil || n != len(c.probabilities) {
			t.Fatalf("%s: %d windows, %v", c.name, n, err)
		}
		if got = append(got, l.Finish()...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if again := l.Finish(); again != nil {
			t.Errorf("%s: after the end: %v", c.name, again)
		}
	}
}

// TestListenerBlocks: with Silero's net, the events do not depend on the blocks, and their samples
// never fall.
func TestListenerBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	m := silero(t)
	x := hashed(3, 60*Window+100)
	for i := range x {
		x[i] *= float32(i/Window/3*7%5) / 4
	}
	var want []Event
	for round := range 3 {
		// A net of chance gives other probabilities than a real one: half of these are above 0.3.
		l, err := NewListener(m.NewStream().Next, Options{Speech: 0.3, Silence: 0.25, Stop: 512, End: 1024})
		if err != nil {
			t.Fatal(err)
		}
		var got []Event
		for rest := x; len(rest) > 0; {
			n := len(rest)
			if round > 0 {
				n = min(n, 1+r.IntN(900))
			}
			e, err := l.Add(rest[:n])
			if err != nil {
				t.Fatal(err)
			}
			got, rest = append(got, e...), rest[n:]
		}
		if got = append(got, l.Finish()...); round == 0 {
			want = got
		}
		if len(got) < 6 || !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	}
	if !slices.IsSortedFunc(want, func(a, b Event) int { return a.Sample - b.Sample }) {
		t.Errorf("%v", want)
	}
}

func TestListenerErrors(t *testing.T) {
	for _, o := range []Options{{Stop: -1}, {Pad: -1}, {End: -1}, {Speech: 1.1}, {Speech: -1}, {Speech: 0.3, Silence: 0.4}, {Silence: -1}} {
		if _, err := NewListener(nil, o); err == nil || !strings.HasPrefix(err.Error(), "vad: ") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	lost, n := errors.New("the card is lost"), 0
	l, err := NewListener(func([]float32) (float32, error) {
		if n++; n == 2 {
			return 0, lost
		}
		return 1, nil
	}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := l.Add(make([]float32, 2000)); !errors.Is(err, lost) || !slices.Equal(e, []Event{{Started, 0}}) {
		t.Errorf("%v, %v", e, err)
	}
}
