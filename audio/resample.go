package audio

import (
	"fmt"
	"math"
)

// The filter: a sinc under a Kaiser window. What is below 90 % of the lower of the two Nyquist
// frequencies passes, what is above all of it is 90 dB down or more.
const (
	filterStop = 92  // dB that the window is made for
	filterPass = 0.9 // of the lower Nyquist frequency
)

// filterRoom is the most coefficients that a filter with a row for each of its phases may have; all
// pairs of common rates need fewer. Others interpolate between rows.
const filterRoom = 1 << 17

// Resampler changes the rate of mono samples, given block by block. The answer does not depend on
// the blocks, and is not delayed: its sample k stands for the time k/to, where the input's sample i
// stands for i/from. Before and after the input there is silence.
type Resampler struct {
	up, down int64 // to/from, reduced
	half     int   // how many input samples before and after a time count
	rows     int   // phases
	bank     []float32
	window   []float32 // of the input; its first sample is number base
	base     int64
	got      int64 // input samples so far
	at       int64 // the next output's time is at + part/up input samples
	part     int64
}

// NewResampler changes samples from one rate to another; both are from [MinRate] to [MaxRate], or
// it fails.
func NewResampler(from, to int) (*Resampler, error) {
	for _, rate := range []int{from, to} {
		if rate < MinRate || rate > MaxRate {
			return nil, fmt.Errorf("audio: a rate of %d samples a second: it must be from %d to %d", rate, MinRate, MaxRate)
		}
	}
	g := gcd(from, to)
	r := &Resampler{up: int64(to / g), down: int64(from / g)}
	if r.up == r.down {
		return r, nil
	}
	narrow := min(1, float64(to)/float64(from)) // the lower Nyquist frequency, as a share of the input's
	width := (1 - filterPass) / 2 * narrow      // of the transition, in cycles a sample
	r.half = int(math.Ceil((filterStop - 7.95) / (14.36 * width) / 2))
	r.rows = int(r.up)
	if r.rows*2*r.half > filterRoom {
		r.rows = int(math.Ceil(512 * narrow)) // between rows so dense a straight line is 100 dB exact
	}
	r.bank = filterBank(r.rows, r.half, (1+filterPass)/2*narrow)
	r.window = make([]float32, r.half-1)
	r.base = -int64(r.half - 1)
	return r, nil
}

// filterBank has rows+1 rows of 2·half coefficients. Row p weighs the samples around a time that is
// p/rows after one of them; the last row is the first, a sample later.
func filterBank(rows, half int, cutoff float64) []float32 {
	const beta = 0.1102 * (filterStop - 8.7)
	bank := make([]float32, (rows+1)*2*half)
	row := make([]float64, 2*half)
	for p := range rows + 1 {
		var sum float64
		for j := range row {
			t := float64(p)/float64(rows) + float64(half-1-j)
			h := 0.0
			if x := t / float64(half); math.Abs(x) < 1 {
				h = cutoff * bessel(beta*math.Sqrt(1-x*x))
				if t != 0 {
					h *= math.Sin(math.Pi*cutoff*t) / (math.Pi * cutoff * t)
				}
			}
			row[j] = h
			sum += h
		}
		for j, h := range row {
			bank[p*len(row)+j] = float32(h / sum)
		}
	}
	return bank
}

// bessel is the modified Bessel function of the first kind and order 0.
func bessel(x float64) float64 {
	sum, term := 1.0, 1.0
	for k := 1.0; term > sum*1e-12; k++ {
		term *= x * x / (4 * k * k)
		sum += term
	}
	return sum
}

// Append takes the next samples, and appends to dst what can be told of the output by now.
func (r *Resampler) Append(dst, samples []float32) []float32 {
	if r.half == 0 {
		return append(dst, samples...)
	}
	r.got += int64(len(samples))
	r.window = append(r.window, samples...)
	for r.at+int64(r.half) < r.got {
		dst = append(dst, r.one())
	}
	// What no later output needs goes.
	if n := int(r.at - int64(r.half-1) - r.base); n > 0 {
		n = min(n, len(r.window))
		r.window = r.window[:copy(r.window, r.window[n:])]
		r.base += int64(n)
	}
	return dst
}

// Flush ends the input and appends the rest of the output: as many samples as have a time before
// the input's end. The Resampler is as new then.
func (r *Resampler) Flush(dst []float32) []float32 {
	if r.half == 0 {
		return dst
	}
	r.window = append(r.window, make([]float32, r.half+1)...)
	for r.at < r.got {
		dst = append(dst, r.one())
	}
	clear(r.window[:r.half-1])
	r.window = r.window[:r.half-1]
	r.base, r.got, r.at, r.part = -int64(r.half-1), 0, 0, 0
	return dst
}

// one is the output at the next time.
func (r *Resampler) one() float32 {
	n := 2 * r.half
	x := r.window[r.at-int64(r.half-1)-r.base:][:n]
	p := r.part * int64(r.rows)
	row := int(p / r.up)
	y := dot(x, r.bank[row*n:][:n])
	if between := p % r.up; between != 0 {
		y += (dot(x, r.bank[(row+1)*n:][:n]) - y) * float32(between) / float32(r.up)
	}
	r.part += r.down
	r.at += r.part / r.up
	r.part %= r.up
	return y
}

// dot has an even number of terms.
func dot(x, h []float32) float32 {
	var a, b, c, d float32
	h = h[:len(x)]
	i := 0
	for ; i+4 <= len(x); i += 4 {
		a += x[i] * h[i]
		b += x[i+1] * h[i+1]
		c += x[i+2] * h[i+2]
		d += x[i+3] * h[i+3]
	}
	for ; i < len(x); i++ {
		a += x[i] * h[i]
	}
	return a + b + (c + d)
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
