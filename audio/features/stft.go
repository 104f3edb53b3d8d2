package features

import (
	"fmt"
	"math"
)

const (
	stftWindow = 20
	stftHop    = 5
	stftBins   = stftWindow/2 + 1
)

// STFTRows is how many rows a spectrum of an [STFT] has: eleven magnitudes, then eleven phases.
const STFTRows = 2 * stftBins

// STFT is the transform of Kokoro's vocoder: periodic Hann windows of 20 samples, 5 apart, centred
// on the samples 0, 5, 10 … Before the first and after the last sample these are repeated. A
// spectrum is [STFTRows][frames]: magnitudes, then phases in radians.
type STFT struct {
	window   []float64
	fft      *fft
	frame    []float64
	spectrum []complex128
}

// NewSTFT makes the transform.
func NewSTFT() *STFT {
	return &STFT{hann(stftWindow), newFFT(stftWindow), make([]float64, stftWindow), make([]complex128, stftBins)}
}

// STFTFrames is how many frames n samples have.
func STFTFrames(n int) int { return n/stftHop + 1 }

// Forward writes the spectrum of samples, of which there is at least one, to dst: [STFTRows] times
// [STFTFrames] values.
func (s *STFT) Forward(dst, samples []float32) error {
	frames := STFTFrames(len(samples))
	if len(samples) == 0 || len(dst) != STFTRows*frames {
		return fmt.Errorf("features: a spectrum of %d values for %d samples: it takes %d, and a sample at least", len(dst), len(samples),
			STFTRows*frames)
	}
	for f := range frames {
		for i := range s.frame {
			at := f*stftHop + i - stftWindow/2
			s.frame[i] = float64(samples[max(0, min(at, len(samples)-1))]) * s.window[i]
		}
		s.fft.forward(s.frame, s.spectrum)
		for k, z := range s.spectrum {
			dst[k*frames+f] = float32(math.Hypot(real(z), imag(z)))
			dst[(stftBins+k)*frames+f] = float32(math.Atan2(imag(z), real(z)))
		}
	}
	return nil
}

// Inverse writes the samples of a spectrum to dst: five for each frame but the last. Where frames
// overlap, their sum is divided by the sum of their squared windows, so it undoes Forward.
func (s *STFT) Inverse(dst, spectrum []float32) error {
	frames := len(spectrum) / STFTRows
	if len(spectrum) == 0 || len(spectrum)%STFTRows != 0 || len(dst) != (frames-1)*stftHop {
		return fmt.Errorf("features: %d samples of a spectrum of %d values: it has %d rows, and 5 samples for each column but the last",
			len(dst), len(spectrum), STFTRows)
	}
	var sums, weights [stftWindow]float64 // of the samples that this frame and later ones touch
	for f := range frames {
		for k := range s.spectrum {
			magnitude, phase := float64(spectrum[k*frames+f]), float64(spectrum[(stftBins+k)*frames+f])
			sin, cos := math.Sincos(phase)
			s.spectrum[k] = complex(magnitude*cos, magnitude*sin)
		}
		s.fft.inverse(s.spectrum, s.frame)
		for i, w := range s.window {
			sums[i] += s.frame[i] * w
			weights[i] += w * w
		}
		write(dst, f*stftHop-stftWindow/2, sums[:stftHop], weights[:stftHop])
		copy(sums[:], sums[stftHop:])
		copy(weights[:], weights[stftHop:])
		clear(sums[stftWindow-stftHop:])
		clear(weights[stftWindow-stftHop:])
	}
	write(dst, frames*stftHop-stftWindow/2, sums[:], weights[:])
	return nil
}

// write puts finished sums to dst from at on, as far as they lie within it.
func write(dst []float32, at int, sums, weights []float64) {
	for i, sum := range sums {
		if n := at + i; n >= 0 && n < len(dst) {
			dst[n] = float32(sum / weights[i])
		}
	}
}
