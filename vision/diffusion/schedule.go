package diffusion

import (
	"fmt"
	"math"
	"slices"
	"sync"
)

// Trained is how many timesteps of noise a model was trained with.
const Trained = 1000

// Latent is what latents are multiplied with: the decoder takes x / Latent.
const Latent = 0.18215

// Alphas is ᾱ of each timestep: the share of a picture's energy that is left in it. The slice is
// not to be changed. The roots of β are evenly spaced, in float32; their products are summed up in
// float64, as torch does.
var Alphas = sync.OnceValue(func() []float32 {
	first, last := float32(math.Sqrt(0.00085)), float32(math.Sqrt(0.012))
	step := float32(last-first) / (Trained - 1)
	out, product := make([]float32, Trained), 1.0
	for i := range out {
		root := first + float32(step*float32(i))
		if i >= Trained/2 {
			root = last - float32(step*float32(Trained-1-i))
		}
		product *= float64(1 - float32(root*root))
		out[i] = float32(product)
	}
	return out
})

// sigmas is the noise beside a picture of energy 1, by the timestep.
var sigmas = sync.OnceValue(func() []float64 {
	out := make([]float64, Trained)
	for i, a := range Alphas() {
		out[i] = math.Sqrt((1 - float64(a)) / float64(a))
	}
	return out
})

// Method is how a step is made.
type Method int

// The methods.
const (
	LCM   Method = iota + 1 // latent consistency: a guess of the picture, and fresh noise
	DPM                     // DPM-Solver++ 2M over Karras's noise levels
	Euler                   // Euler's method
)

func (m Method) String() string {
	switch m {
	case LCM:
		return "LCM"
	case DPM:
		return "DPM++"
	case Euler:
		return "Euler"
	}
	return fmt.Sprintf("method %d", int(m))
}

// Spacing is how Euler's timesteps lie among those of training.
type Spacing string

// The spacings, as a scheduler's configuration calls them.
const (
	Linspace Spacing = "linspace" // from the last to the first, evenly
	Leading  Spacing = "leading"  // at multiples of a whole number
	Trailing Spacing = "trailing" // likewise, from the last on
)

// Setting says how a model's pictures are drawn.
type Setting struct {
	Method  Method
	Spacing Spacing // of Euler; empty: Linspace
	Offset  int     // added to Leading's timesteps
	Karras  bool    // of Euler: Karras's noise levels instead of those of the timesteps
}

// lcmGrid is how many timesteps LCM was distilled for.
const lcmGrid = 50

// level is a step's noise: the timestep, which may lie between two, and what it says.
type level struct {
	time  float64
	sigma float64
}

// levels are those of n steps, from noise on.
func (s Setting) levels(n int) (all []level) {
	table := sigmas()
	switch {
	case s.Method == LCM:
		for i := range n {
			t := Trained - 1 - lcmGrid*i/n*(Trained/lcmGrid)
			all = append(all, level{float64(t), table[t]})
		}
	case s.Method == DPM || s.Karras:
		least, most := math.Pow(table[0], 1.0/7), math.Pow(table[Trained-1], 1.0/7)
		for i := range n {
			share := 0.0
			if n > 1 {
				share = float64(i) / float64(n-1)
			}
			sigma := math.Pow(most+share*(least-most), 7)
			all = append(all, level{timeOf(sigma), sigma})
		}
	default:
		for i := range n {
			t := 0.0
			switch s.Spacing {
			case Leading:
				t = float64((n-1-i)*(Trained/n) + s.Offset)
			case Trailing:
				t = math.RoundToEven(Trained-float64(i)*Trained/float64(n)) - 1
			default:
				if t = Trained - 1; n > 1 {
					t *= float64(n-1-i) / float64(n-1)
				} else {
					t = 0 // the last one is the first
				}
			}
			t = min(max(t, 0), Trained-1)
			low := int(t)
			high := min(low+1, Trained-1)
			all = append(all, level{t, table[low] + (t-float64(low))*(table[high]-table[low])})
		}
	}
	return all
}

// timeOf is the timestep whose noise is sigma, by the logarithm between two.
func timeOf(sigma float64) float64 {
	table := sigmas()
	i, _ := slices.BinarySearch(table, sigma)
	high := min(max(i, 1), Trained-1)
	a, b := math.Log(table[high-1]), math.Log(table[high])
	return float64(high-1) + min(max((math.Log(sigma)-a)/(b-a), 0), 1)
}

// Times are the timesteps of n steps, from noise on, as a net takes them: whole numbers. n is 1 to
// [Setting.Most].
func (s Setting) Times(n int) (times []int) {
	for _, l := range s.levels(n) {
		times = append(times, int(math.RoundToEven(l.time)))
	}
	return times
}

// Most is the most steps there can be.
func (s Setting) Most() int {
	if s.Method == LCM {
		return lcmGrid
	}
	return Trained
}

// Choices are the numbers of steps whose timesteps are all among those of n: a package holds what
// its denoiser has to be told of a timestep for so many, and no more.
func (s Setting) Choices(n int) (all []int) {
	if s.Method != LCM {
		return []int{n} // the levels of fewer lie elsewhere
	}
	known := s.Times(n)
	for k := 1; k <= n; k++ {
		if !slices.ContainsFunc(s.Times(k), func(t int) bool { return !slices.Contains(known, t) }) {
			all = append(all, k)
		}
	}
	return all
}

// Tail is how many of n steps, the last ones, are made where a drawing begins with a picture of
// which strength, above 0 and up to 1, may change.
func (s Setting) Tail(n int, strength float64) int {
	if s.Method == LCM { // quarters at 0.35, 0.6 and 0.85
		quarters := 1
		for _, from := range []float64{0.35, 0.6, 0.85} {
			if strength > from {
				quarters++
			}
		}
		return (n*quarters + 3) / 4
	}
	return min(max(int(float64(n)*strength), 1), n)
}
