package vad

import (
	"math"
	"testing"
)

// TestLoudness: bursts are found at their places over silence, over a soft and over a loud noise,
// which is no speech by itself, and soon is none when it begins.
func TestLoudness(t *testing.T) {
	for _, tt := range []struct {
		name         string
		noise, burst float64 // decibels of full scale
		want         bool
	}{
		{"silence", -200, -25, true},
		{"soft speech", -70, -42, true},
		{"a fan", -45, -25, true},
		{"a train", -35, -15, true},
		{"a whisper below a fan", -45, -45, false},
		{"noise of a microphone", -75, -70, false},
		{"a leaf in the night", -90, -66, false},
		{"a shout in a train", -35, -28, true},
	} {
		sound := hashed(7, 12*SampleRate)
		burst := func(at int) bool { return at/SampleRate%4 == 3 } // three, of a second each
		for i := range sound {
			level := tt.noise
			if burst(i) {
				level = tt.burst
			}
			// hashed is even between −½ and ½: its level is −10.8 dB.
			sound[i] *= float32(math.Pow(10, (level+10.8)/20))
		}
		l, err := NewListener(NewLoudness().Next, Options{Stop: SampleRate / 4})
		if err != nil {
			t.Fatal(err)
		}
		var started, stopped []int
		events, err := l.Add(sound)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range append(events, l.Finish()...) {
			switch at := e.Sample / (SampleRate / 1000); e.Kind {
			case Started:
				started = append(started, at)
			case Stopped:
				stopped = append(stopped, at)
			}
		}
		if !tt.want {
			if len(started) > 0 {
				t.Errorf("%s: speech from %v to %v ms", tt.name, started, stopped)
			}
			continue
		}
		if tt.noise > -40 && len(started) == 4 { // a noise that begins loud is speech for three seconds at most
			if stopped[0] > 3000 {
				t.Errorf("%s: the noise is speech until %d ms", tt.name, stopped[0])
			}
			started, stopped = started[1:], stopped[1:]
		}
		if len(started) != 3 || len(stopped) != 3 {
			t.Errorf("%s: speech from %v to %v ms", tt.name, started, stopped)
			continue
		}
		for i := range started {
			from, to := 3000+4000*i, 4000+4000*i
			if started[i] < from-80 || started[i] > from+80 || stopped[i] < to-80 || stopped[i] > to+160 {
				t.Errorf("%s: speech from %d to %d ms, not %d to %d", tt.name, started[i], stopped[i], from, to)
			}
		}
	}
}

// TestLoudnessBegins: who speaks in the first window is not taken for the noise.
func TestLoudnessBegins(t *testing.T) {
	window := hashed(5, Window)
	for i := range window {
		window[i] *= float32(math.Pow(10, (-25+10.8)/20))
	}
	if p, err := NewLoudness().Next(window); err != nil || p < 0.9 {
		t.Errorf("%v, %v", p, err)
	}
}

// TestLoudnessThreshold: a higher threshold wants a louder sound.
func TestLoudnessThreshold(t *testing.T) {
	window := hashed(3, Window)
	for i := range window {
		window[i] *= float32(math.Pow(10, (-50+10.8)/20))
	}
	last := float32(-1)
	for louder := range 8 {
		l := NewLoudness()
		if _, err := l.Next(make([]float32, Window)); err != nil {
			t.Fatal(err)
		}
		scaled := make([]float32, Window)
		for i := range scaled {
			scaled[i] = window[i] * float32(math.Pow(10, float64(louder)/5))
		}
		p, err := l.Next(scaled)
		if err != nil || p <= last || p > 1 {
			t.Errorf("%d dB louder: %v after %v, %v", 4*louder, p, last, err)
		}
		last = p
	}
	if last < 0.95 {
		t.Errorf("−22 dB is speech with %v", last)
	}
}
