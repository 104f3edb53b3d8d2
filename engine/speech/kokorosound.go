package speech

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/axle-llm/axle/models"
)

// This file is Kokoro's sound: the source that its last net forms, and samples of what that gives.

// excite makes the spectrum of the source of sound from the pitch.
func (k *Kokoro) excite() error {
	pitch := floatsOf(k.pitch)
	if slices.ContainsFunc(pitch, func(x float32) bool { return !number(x) }) {
		return ErrNonsense
	}
	if err := k.stft.Forward(k.work, source(pitch, k.p.Weights, k.p.Bias)); err != nil {
		return err
	}
	put(k.harmonics, k.work)
	return nil
}

// What the source of sound is made of.
const (
	sourceHop    = models.KokoroFrames * models.KokoroFrame / models.KokoroPitches // samples of a pitch
	sourceLevel  = 0.1                                                             // of a harmonic
	sourceVoiced = 10                                                              // Hz; a lower pitch has no tone
	sourceBreath = 0.003                                                           // σ of the noise beside a tone
	sourceHiss   = sourceLevel / 3                                                 // σ of the noise without one
)

// source is the sum of a tone's harmonics, of the pitch in Hz, and noise. A pitch holds for 300
// samples. The tone turns by it between the middle of the pitch before and its own, and stands
// still before the first middle and after the last.
//
// Each harmonic has noise of its own in the model. Their weighted sum is noise again, for which one
// number is drawn. It is the same for each piece, so that an answer can be had again.
func source(pitch, weights []float32, bias float32) []float32 {
	noise := rand.New(rand.NewPCG(1, 1))
	wide := 0.0
	for _, w := range weights {
		wide += float64(w) * float64(w)
	}
	wide = math.Sqrt(wide)
	out := make([]float32, len(pitch)*sourceHop)
	signed := make([]float64, len(weights))
	turned := 0.0 // of the first harmonic, in turns
	for i := range len(pitch) + 1 {
		begin, step := turned, 0.0 // from the middle before
		if i < len(pitch) {
			step = float64(pitch[i]) / models.KokoroRate
			turned = fraction(turned + sourceHop*fraction(step))
		}
		if i == 0 {
			begin, step = turned, 0
		}
		for k, w := range weights {
			// The model counts a harmonic's whole turns from sample to sample as none. The samples
			// lie between whole distances from the middle: there an odd number makes half a turn.
			signed[k] = sourceLevel * float64(w)
			if math.Mod(math.Floor(step*float64(k+1)), 2) != 0 {
				signed[k] = -signed[k]
			}
		}
		from := max(0, i*sourceHop-sourceHop/2)
		for s := from; s < min(i*sourceHop+sourceHop/2, len(out)); s++ {
			sum, level := float64(bias), sourceHiss
			if pitch[s/sourceHop] > sourceVoiced {
				sum, level = sum+tone(begin+step*(float64(s-from)+0.5), signed), sourceBreath
			}
			out[s] = float32(math.Tanh(sum + level*wide*noise.NormFloat64()))
		}
	}
	return out
}

// tone is the weighted sum of the sines of a turn and its multiples, each from the two before: sin
// kφ = 2·cos φ·sin (k−1)φ − sin (k−2)φ.
func tone(turns float64, weights []float64) (sum float64) {
	sin, cos := math.Sincos(2 * math.Pi * turns)
	last, this := 0.0, sin
	for _, w := range weights {
		sum += w * this
		last, this = this, 2*cos*this-last
	}
	return sum
}

// fraction is what is above the next whole number below.
func fraction(x float64) float64 { return x - math.Floor(x) }

// sound makes samples of the first frames of the spectrum that part 3 gave, behind some silence.
func (k *Kokoro) sound(frames, silence int) ([]float32, error) {
	const hop = models.KokoroFrames * models.KokoroFrame / (models.KokoroColumns - 1)
	n := frames * models.KokoroFrame
	columns := min(n/hop+3, models.KokoroColumns) // later ones do not reach so far
	x, spectrum := k.spectrum, k.work[:models.KokoroSpectrum*columns]
	for row := range models.KokoroSpectrum {
		for i := range columns {
			v := float64(math.Float32frombits(binary.LittleEndian.Uint32(x[4*(row*models.KokoroColumns+i):])))
			if row < models.KokoroSpectrum/2 {
				v = math.Exp(v)
			} else {
				v = math.Sin(v)
			}
			spectrum[row*columns+i] = float32(v)
		}
	}
	out := make([]float32, silence+(columns-1)*hop)
	if err := k.stft.Inverse(out[silence:], spectrum); err != nil {
		return nil, err
	}
	out = out[:silence+n]
	for i, v := range out {
		if !number(v) {
			return nil, ErrNonsense
		}
		out[i] = max(-1, min(v, 1))
	}
	fade(out[silence:])
	return out, nil
}

// fade makes the end of a sound quieter and quieter.
func fade(sound []float32) {
	end := sound[max(0, len(sound)-kokoroFade):]
	for i := range end {
		end[i] *= float32(len(end)-1-i) / float32(len(end))
	}
}
