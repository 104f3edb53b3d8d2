package diffusion

import (
	"fmt"
	"math"
)

// Way is the way of one drawing from noise to a latent: what the denoiser is asked at each step,
// and what is made of what it says. Of each step call Ask, then the net unless Idle says that it
// makes no difference, then Step.
type Way struct {
	s      Setting
	levels []level // of the steps, and the one behind the last
	last   []float64
}

// New is the way of the last tail of n steps.
func New(s Setting, n, tail int) (*Way, error) {
	if n < 1 || n > s.Most() || tail < 1 || tail > n {
		return nil, fmt.Errorf("diffusion: the last %d of %d steps: %v makes 1 to %d", tail, n, s.Method, s.Most())
	}
	w := &Way{s: s, levels: s.levels(n)}
	end := level{}
	if s.Method == DPM {
		end = w.levels[n-1] // the last step changes nothing
	}
	w.levels = append(w.levels, end)[n-tail:]
	return w, nil
}

// Steps is how many there are.
func (w *Way) Steps() int { return len(w.levels) - 1 }

// Time is a step's timestep, as [Setting.Times] has it.
func (w *Way) Time(step int) int { return int(math.RoundToEven(w.levels[step].time)) }

// Idle reports whether a step changes nothing, whatever the net says.
func (w *Way) Idle(step int) bool {
	return w.s.Method == DPM && w.levels[step].sigma == w.levels[step+1].sigma
}

// parts are the shares of the picture and of the noise in a latent at a level.
func parts(l level) (picture, noise float64) {
	picture = 1 / math.Sqrt(l.sigma*l.sigma+1)
	return picture, l.sigma * picture
}

// Start makes the noise x, as [Noise.Fill] gave it, the latent of the first step. picture is the
// latent of the picture that the drawing begins with; nil: with noise alone.
func (w *Way) Start(x, picture []float32) {
	l := w.levels[0]
	a, b := 0.0, 1.0
	switch {
	case w.s.Method == Euler && picture == nil:
		if b = l.sigma; w.s.Spacing == Leading {
			b = math.Sqrt(l.sigma*l.sigma + 1)
		}
	case w.s.Method == Euler:
		a, b = 1, l.sigma
	case picture != nil:
		a, b = parts(l)
	}
	for i := range x {
		v := b * float64(x[i])
		if picture != nil {
			v += a * float64(picture[i])
		}
		x[i] = float32(v)
	}
}

// Ask puts what the net takes for a step into dst, of the latent x.
func (w *Way) Ask(step int, dst, x []float32) {
	if w.s.Method != Euler {
		copy(dst, x)
		return
	}
	by, _ := parts(w.levels[step])
	for i, v := range x {
		dst[i] = float32(float64(v) * by)
	}
}

// Guess puts the picture that a step sees in x into dst: a latent. eps is the noise that the net
// saw.
func (w *Way) Guess(step int, dst, x, eps []float32) {
	l := w.levels[step]
	a, b := parts(l)
	if w.s.Method == Euler {
		a, b = 1, l.sigma
	}
	for i := range dst {
		dst[i] = float32((float64(x[i]) - b*float64(eps[i])) / a)
	}
}

// Step moves the latent x on by a step. LCM takes fresh noise of all steps but the last.
func (w *Way) Step(step int, x, eps []float32, noise *Noise) {
	l, to := w.levels[step], w.levels[step+1]
	a, b := parts(l)
	switch w.s.Method {
	case LCM:
		w.lcm(step, x, eps, noise)
	case Euler:
		for i, v := range x {
			x[i] = float32(float64(v) + (to.sigma-l.sigma)*float64(eps[i]))
		}
	case DPM:
		if w.Idle(step) {
			return
		}
		a2, b2 := parts(to)
		h := math.Log(a2/b2) - math.Log(a/b)
		bend := 0.0
		if step > 0 {
			before, beside := parts(w.levels[step-1])
			bend = h / (2 * (math.Log(a/b) - math.Log(before/beside)))
		} else {
			w.last = make([]float64, len(x))
		}
		for i, v := range x {
			m := (float64(v) - b*float64(eps[i])) / a
			x[i] = float32(b2/b*float64(v) - a2*math.Expm1(-h)*(m+(m-w.last[i])*bend))
			w.last[i] = m
		}
	}
}

func (w *Way) lcm(step int, x, eps []float32, noise *Noise) {
	l := w.levels[step]
	a, b := parts(l)
	scaled := 10 * l.time
	skip, out := 0.25/(scaled*scaled+0.25), scaled/math.Sqrt(scaled*scaled+0.25)
	var fresh []float32
	a2, b2 := 1.0, 0.0
	if step < w.Steps()-1 {
		a2, b2 = parts(w.levels[step+1])
		fresh = make([]float32, len(x))
		noise.Fill(fresh)
	}
	for i, v := range x {
		d := out*(float64(v)-b*float64(eps[i]))/a + skip*float64(v)
		if fresh != nil {
			d = a2*d + b2*float64(fresh[i])
		}
		x[i] = float32(d)
	}
}

// Guide puts what the net says with a prompt and without one together: eps moves away from
// without, by more than it is away.
func Guide(eps, without []float32, guidance float64) {
	for i, v := range without {
		eps[i] = float32(float64(v) + guidance*(float64(eps[i])-float64(v)))
	}
}

// Sample puts a latent of a picture into dst. moments are the encoder's: as many means as dst has
// values, and then as many logarithms of variances. dst holds the noise.
func Sample(dst, moments []float32) {
	n := len(dst)
	for i, mean := range moments[:n] {
		spread := math.Exp(min(max(float64(moments[n+i]), -30), 20) / 2)
		dst[i] = float32((float64(mean) + spread*float64(dst[i])) * Latent)
	}
}

// Pixels appends the picture in planes of red, green and blue, from −1 to 1 each, by rows of
// pixels.
func Pixels(dst []byte, planes []float32) []byte {
	n := len(planes) / 3
	for i := range n {
		for c := range 3 {
			v := min(max(float64(planes[c*n+i])/2+0.5, 0), 1)
			dst = append(dst, byte(math.RoundToEven(v*255)))
		}
	}
	return dst
}
