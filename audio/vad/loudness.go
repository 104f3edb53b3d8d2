package vad

import "math"

const (
	aboveNoise = 9.  // decibels above the noise of what is speech as probably as not,
	softTalk   = -55 // decibels of full scale: unless that is softer than this,
	loudTalk   = -30 // or louder
	firstNoise = -50 // the loudest that the first window is taken to be noise
	steep      = 4.  // decibels: so much louder, and the odds are e times as high
	forget     = 5.  // decibels a second by which the noise is taken to have grown while it is not heard
)

// Loudness finds speech by its level alone, where there is no net: music and a door are speech to
// it. What is below the level of the noise by little is not, and the noise is the softest of what
// came in the last seconds. It serves one source of sound.
type Loudness struct {
	noise float64 // decibels of full scale
	heard bool
}

// NewLoudness begins a stream.
func NewLoudness() *Loudness { return new(Loudness) }

// Next is the probability of speech in the next window, which is the higher the louder it is. The
// error is nil, as of no [Stream].
func (l *Loudness) Next(window []float32) (float32, error) {
	level := decibels(power(window))
	if !l.heard {
		l.noise, l.heard = firstNoise, true
	}
	l.noise = min(level, l.noise+forget*float64(len(window))/SampleRate)
	talk := min(max(l.noise+aboveNoise, softTalk), loudTalk)
	return float32(1 / (1 + math.Exp((talk-level)/steep))), nil
}
