package features

import "math"

// FbankBins is how many values a frame of an [Fbank] has.
const FbankBins = 80

const (
	fbankWindow = 400
	fbankHop    = 160
	fbankFFT    = 512
	fbankBlock  = 4096 // samples that are taken at a time
	preemphasis = 0.97
	lowest      = 20.           // Hz
	fbankFloor  = 1.1920929e-07 // the least energy: float32's epsilon
)

// FbankForm is a model's form of Kaldi's filter bank.
type FbankForm int

const (
	// SenseVoice: Hamming windows of samples times 32768, up to 8000 Hz. The first frame begins at
	// the first sample, and the last ends within the samples.
	SenseVoice FbankForm = iota
	// Zipformer: Povey windows of samples as they are, up to 7600 Hz. Frame f is centred at sample
	// 160·f+80, and the samples are reflected at both ends.
	Zipformer
)

// Fbank computes Kaldi's filter bank: the logarithm of the energy of 25 ms every 10 ms in 80 bands.
// Samples come in blocks of any size, and the frames do not depend on the sizes. There is no
// dither.
type Fbank struct {
	scale  float64
	before int // how many samples before 160·f frame f begins
	window []float64
	bands  []band

	fft      *fft
	frame    []float64
	spectrum []complex128
	power    []float64

	held []float32 // samples from the next frame's first on
	from int       // the number of held's first sample
	next int       // the number of the next frame
}

// NewFbank makes a front end at the beginning of an utterance. An unknown form panics.
func NewFbank(form FbankForm) *Fbank {
	b := &Fbank{window: make([]float64, fbankWindow), fft: newFFT(fbankFFT), frame: make([]float64, fbankFFT),
		spectrum: make([]complex128, fbankFFT/2+1), power: make([]float64, fbankFFT/2),
		held: make([]float32, 0, fbankBlock+fbankWindow)}
	high := 0.
	shape := func(cos float64) float64 { return 0.54 - 0.46*cos }
	switch form {
	case SenseVoice:
		b.scale, high = 32768, 8000
	case Zipformer:
		b.scale, high = 1, 7600
		b.before = (fbankWindow - fbankHop) / 2
		shape = func(cos float64) float64 { return math.Pow(0.5-0.5*cos, 0.85) }
	default:
		panic("features: an unknown form of filter bank")
	}
	for i := range b.window {
		b.window[i] = shape(math.Cos(2 * math.Pi * float64(i) / (fbankWindow - 1)))
	}
	b.bands = kaldiBands(high)
	return b
}

// kaldiBands are triangles in mels, with corners evenly spaced from lowest to high.
func kaldiBands(high float64) []band {
	mel := func(hz float64) float64 { return 1127 * math.Log(1+hz/700) }
	step := (mel(high) - mel(lowest)) / (FbankBins + 1)
	bands := make([]band, FbankBins)
	for i := range bands {
		middle := mel(lowest) + step*float64(i+1)
		bands[i] = triangle(fbankFFT/2, func(k int) float64 {
			return 1 - math.Abs(mel(float64(k)*SampleRate/fbankFFT)-middle)/step
		})
	}
	return bands
}

// Append takes the next samples and appends the frames that they complete to dst, [FbankBins]
// values each. It keeps no reference to samples, and holds back less than two windows of them.
func (b *Fbank) Append(dst, samples []float32) []float32 {
	for len(samples) > 0 {
		n := min(len(samples), fbankBlock)
		b.held = append(b.held, samples[:n]...)
		samples = samples[n:]
		for b.first()+fbankWindow <= b.from+len(b.held) {
			dst = b.appendFrame(dst)
		}
		done := max(b.first(), 0) - b.from
		b.held = b.held[:copy(b.held, b.held[done:])]
		b.from += done
	}
	return dst
}

// Finish appends the frames that reach past the last sample, where the form has such, and begins
// the next utterance.
func (b *Fbank) Finish(dst []float32) []float32 {
	if total := b.from + len(b.held); b.before > 0 {
		for b.next < (total+fbankHop/2)/fbankHop {
			dst = b.appendFrame(dst)
		}
	}
	b.held, b.from, b.next = b.held[:0], 0, 0
	return dst
}

// first is the number of the next frame's first sample, which is below 0 where the samples are
// reflected.
func (b *Fbank) first() int { return b.next*fbankHop - b.before }

func (b *Fbank) appendFrame(dst []float32) []float32 {
	first := b.first()
	if at := first - b.from; first >= 0 && at+fbankWindow <= len(b.held) {
		for i, s := range b.held[at:][:fbankWindow] {
			b.frame[i] = float64(s) * b.scale
		}
	} else {
		total := b.from + len(b.held)
		for i := range fbankWindow {
			at := first + i
			for at < 0 || at >= total { // more than once, if the samples are fewer than a window
				if at < 0 {
					at = -1 - at
				} else {
					at = 2*total - 1 - at
				}
			}
			b.frame[i] = float64(b.held[at-b.from]) * b.scale
		}
	}
	b.next++
	frame := b.frame[:fbankWindow]
	mean := 0.
	for _, x := range frame {
		mean += x
	}
	mean /= fbankWindow
	last := frame[0] - mean // Kaldi takes the first sample as the one before it, too
	for i, x := range frame {
		x -= mean
		frame[i] = (x - preemphasis*last) * b.window[i]
		last = x
	}
	b.fft.forward(b.frame, b.spectrum)
	for k := range b.power {
		z := b.spectrum[k]
		b.power[k] = real(z)*real(z) + imag(z)*imag(z)
	}
	for i := range b.bands {
		dst = append(dst, float32(math.Log(max(b.bands[i].sum(b.power), fbankFloor))))
	}
	return dst
}
