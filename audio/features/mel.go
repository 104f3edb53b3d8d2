package features

import (
	"fmt"
	"math"
)

// MelFrames and MelSamples are the thirty seconds that Whisper hears at once.
const (
	MelFrames  = 3000
	MelSamples = 30 * SampleRate
)

const (
	melWindow = 400
	melHop    = 160
	melFloor  = 1e-10 // the least power: its logarithm is −10
	melRange  = 8     // tens of decibels that are kept below the loudest value
)

// Tail is what follows the last sample, up to thirty seconds.
type Tail int

const (
	// Silence: the samples go on as zeros, and the frames there are computed as all others.
	Silence Tail = iota
	// Zeros: the samples go on as zeros, but the frames after the last whole one are 0, as in
	// OpenAI's transcribe.
	Zeros
	// Mirror: the samples end, and are reflected there as at their beginning; the frames after them
	// are 0. So Qwen3-ASR reads them.
	Mirror
)

// MelOptions say which form of Whisper's features a [Mel] computes.
type MelOptions struct {
	Mels        int  // 80, or 128 for Whisper's turbo and for Qwen3-ASR
	FramesFirst bool // the result is [MelFrames][Mels]; else [Mels][MelFrames], as Whisper reads it
	Tail        Tail
}

// Mel computes Whisper's features: the power of 25 ms every 10 ms in Slaney's mel bands up to 8
// kHz, as a logarithm, of which the loudest 80 dB are kept.
type Mel struct {
	o        MelOptions
	window   []float64
	bands    []band
	fft      *fft
	frame    []float64
	spectrum []complex128
	power    []float64
}

// band is a filter: weights for bins from the first on.
type band struct {
	first   int
	weights []float64
}

func (b *band) sum(power []float64) float64 {
	sum := 0.0
	power = power[b.first:][:len(b.weights)]
	for i, w := range b.weights {
		sum += w * power[i]
	}
	return sum
}

// NewMel refuses other numbers of mels than 80 and 128, and an unknown tail.
func NewMel(o MelOptions) (*Mel, error) {
	if o.Mels != 80 && o.Mels != 128 {
		return nil, fmt.Errorf("features: %d mels; Whisper's models have 80 or 128", o.Mels)
	}
	if o.Tail < Silence || o.Tail > Mirror {
		return nil, fmt.Errorf("features: tail %d is unknown", o.Tail)
	}
	m := &Mel{o: o, window: hann(melWindow), bands: slaneyBands(o.Mels), fft: newFFT(melWindow), frame: make([]float64, melWindow),
		spectrum: make([]complex128, melWindow/2+1), power: make([]float64, melWindow/2+1)}
	return m, nil
}

// hann is a periodic Hann window.
func hann(n int) []float64 {
	w := make([]float64, n)
	for i := range w {
		w[i] = 0.5 - 0.5*math.Cos(2*math.Pi*float64(i)/float64(n))
	}
	return w
}

// slaneyBands are triangles whose corners are evenly spaced on Slaney's scale from 0 to 8 kHz, each
// with the area of 1 Hz.
func slaneyBands(mels int) []band {
	const linear, log = 200. / 3, 1000. // Hz a mel below, and where the logarithm begins
	step := math.Log(6.4) / 27
	hz := func(mel float64) float64 {
		if mel < log/linear {
			return mel * linear
		}
		return log * math.Exp(step*(mel-log/linear))
	}
	top := log/linear + math.Log(SampleRate/2/log)/step
	corner := func(i int) float64 { return hz(top * float64(i) / float64(mels+1)) }
	const bin = float64(SampleRate) / melWindow
	bands := make([]band, mels)
	for i := range bands {
		left, middle, right := corner(i), corner(i+1), corner(i+2)
		bands[i] = triangle(melWindow/2+1, func(k int) float64 {
			f := bin * float64(k)
			return min((f-left)/(middle-left), (right-f)/(right-middle)) * 2 / (right - left)
		})
	}
	return bands
}

// triangle is the band of the bins whose weight is above 0.
func triangle(bins int, weight func(bin int) float64) band {
	var b band
	for k := range bins {
		if w := weight(k); w > 0 {
			if b.weights == nil {
				b.first = k
			}
			b.weights = append(b.weights, w)
		}
	}
	return b
}

// Compute writes the features of at most [MelSamples] samples to dst, which takes Mels·[MelFrames]
// values. It returns how many of the frames are the samples' own: a hundredth of a second each, a
// rest that is shorter left out. With [Mirror] it needs at least 201 samples, since 200 are
// reflected. Other lengths are errors.
func (m *Mel) Compute(dst, samples []float32) (frames int, err error) {
	if len(samples) > MelSamples {
		return 0, fmt.Errorf("features: %d samples, a call takes at most %d: cut the audio in pieces", len(samples), MelSamples)
	}
	if len(dst) != m.o.Mels*MelFrames {
		return 0, fmt.Errorf("features: the result has %d values, not %d", len(dst), m.o.Mels*MelFrames)
	}
	if m.o.Tail == Mirror && len(samples) <= melWindow/2 {
		return 0, fmt.Errorf("features: %d samples are too few to reflect: at least %d are needed", len(samples), melWindow/2+1)
	}
	frames = len(samples) / melHop
	heard := frames // those that are computed; all others hear silence
	if m.o.Tail != Mirror {
		heard = min(MelFrames, (len(samples)+melWindow/2+melHop-1)/melHop)
	}
	mel, next := MelFrames, 1 // the steps from band to band and from frame to frame
	if m.o.FramesFirst {
		mel, next = 1, m.o.Mels
	}
	quietest := math.Log10(melFloor)
	loudest := quietest
	for f := range heard {
		m.hear(samples, f)
		for b := range m.bands {
			v := math.Log(max(m.bands[b].sum(m.power), melFloor)) * (1 / math.Ln10)
			loudest = max(loudest, v)
			dst[f*next+b*mel] = float32(v)
		}
	}
	least := float32(max(loudest-melRange, quietest))
	normal := func(v float32) float32 { return (max(v, least) + 4) / 4 }
	kept, rest := heard, normal(least)
	if m.o.Tail != Silence {
		kept, rest = frames, 0
	}
	for f := range MelFrames {
		for b := range m.o.Mels {
			if at := f*next + b*mel; f < kept {
				dst[at] = normal(dst[at])
			} else {
				dst[at] = rest
			}
		}
	}
	return frames, nil
}

// hear computes the power of a frame, whose middle is sample 160·f.
func (m *Mel) hear(samples []float32, f int) {
	first := f*melHop - melWindow/2
	if first >= 0 && first+melWindow <= len(samples) {
		for i, s := range samples[first:][:melWindow] {
			m.frame[i] = float64(s) * m.window[i]
		}
	} else {
		end := MelSamples // where the samples are reflected
		switch m.o.Tail {
		case Mirror:
			end = len(samples)
		case Zeros:
			end = 2 * MelSamples // OpenAI's transcribe adds thirty seconds of zeros
		}
		for i := range m.frame {
			at := max(first+i, -first-i)
			at = min(at, 2*(end-1)-at)
			m.frame[i] = 0
			if at < len(samples) {
				m.frame[i] = float64(samples[at]) * m.window[i]
			}
		}
	}
	m.fft.forward(m.frame, m.spectrum)
	for k, z := range m.spectrum {
		m.power[k] = real(z)*real(z) + imag(z)*imag(z)
	}
}
