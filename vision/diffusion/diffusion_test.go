package diffusion

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestNoise compares with what torch gives for two seeds, and with an independent implementation.
func TestNoise(t *testing.T) {
	t.Parallel()
	for seed, want := range map[uint32][]float64{
		0:  {-1.12583983, -1.15236020, -0.25057858, -0.43387887, 0.84871030, 0.69200915, -0.31601277, -2.11521959},
		42: {1.92691505, 1.48728418, 0.90071720, -2.10552120, 0.67841846, -1.23454499, -0.04306748, -1.60466695},
	} {
		got := make([]float32, 16)
		NewNoise(seed).Fill(got)
		near(t, fmt.Sprintf("torch's seed %d", seed), got[:8], want, 2e-6)
	}
	var n *Noise
	for _, g := range read(t).Noise {
		if !g.Again {
			n = NewNoise(g.Seed)
		}
		got := make([]float32, g.N)
		n.Fill(got)
		name := fmt.Sprintf("seed %d, %d values", g.Seed, g.N)
		near(t, name, got[:16], g.First, 2e-6)
		near(t, name+", last", got[g.N-16:], g.Last, 2e-6)
		sum := 0.0
		for _, v := range got {
			sum += float64(v)
		}
		if math.Abs(sum-g.Sum) > 1e-6*float64(g.N) {
			t.Errorf("%s: sum %v, want %v", name, sum, g.Sum)
		}
	}
}

// TestSchedule: the shares are torch's, bit by bit, and the timesteps those of the methods.
func TestSchedule(t *testing.T) {
	t.Parallel()
	g := read(t)
	for i, a := range Alphas() {
		if math.Float32bits(a) != g.Alphas[i] {
			t.Fatalf("alpha %d is %08x, want %08x", i, math.Float32bits(a), g.Alphas[i])
		}
	}
	for at, want := range map[int]uint32{999: 0x3b98b3b6, 759: 0x3d55dd2f, 499: 0x3e8e2ab0, 259: 0x3f28b29a} { // torch's
		if got := math.Float32bits(Alphas()[at]); got != want {
			t.Errorf("alpha %d is %08x, want %08x", at, got, want)
		}
	}
	dpm := []int{999, 962, 921, 876, 827, 772, 710, 640, 561, 474, 380, 285, 197, 123, 69, 35, 15, 6, 2, 0} // the vendor's rows
	if got := (Setting{Method: DPM}).Times(20); !slices.Equal(got, dpm) {
		t.Errorf("DPM++: %v", got)
	}
	for n, want := range g.LCM {
		if got := (Setting{Method: LCM}).Times(n); !slices.Equal(got, want) {
			t.Errorf("LCM, %d steps: %v, want %v", n, got, want)
		}
	}
	for n, want := range g.DPM {
		if got := (Setting{Method: DPM}).Times(n); !slices.Equal(got, want) {
			t.Errorf("DPM++, %d steps: %v, want %v", n, got, want)
		}
	}
	for _, e := range g.Euler {
		if got := (Setting{Method: Euler, Spacing: e.Spacing, Offset: e.Offset}).Times(e.N); !slices.Equal(got, e.Times) {
			t.Errorf("Euler, %+v: %v", e, got)
		}
	}
	for n, want := range map[int][]int{4: {1, 2, 4}, 8: {1, 2, 4, 8}, 1: {1}, 50: nil} {
		if got := (Setting{Method: LCM}).Choices(n); want != nil && !slices.Equal(got, want) || !slices.Contains(got, n) {
			t.Errorf("LCM's choices of %d: %v, want %v", n, got, want)
		}
	}
	if got := (Setting{Method: DPM}).Choices(20); !slices.Equal(got, []int{20}) {
		t.Errorf("DPM++'s choices of 20: %v", got)
	}
	for _, x := range []struct {
		m        Method
		n        int
		strength float64
		want     int
	}{{LCM, 4, 0.1, 1}, {LCM, 4, 0.35, 1}, {LCM, 4, 0.36, 2}, {LCM, 4, 0.6, 2}, {LCM, 4, 0.85, 3}, {LCM, 4, 0.86, 4}, {LCM, 2, 0.5, 1},
		{LCM, 2, 1, 2}, {LCM, 1, 0.1, 1}, {Euler, 30, 0.75, 22}, {Euler, 30, 0.001, 1}, {DPM, 20, 1, 20}} {
		if got := (Setting{Method: x.m}).Tail(x.n, x.strength); got != x.want {
			t.Errorf("%v: %d steps, %v: the last %d, want %d", x.m, x.n, x.strength, got, x.want)
		}
	}
	for _, n := range [][2]int{{0, 0}, {4, 0}, {4, 5}, {51, 1}} {
		if _, err := New(Setting{Method: LCM}, n[0], n[1]); err == nil || !strings.Contains(err.Error(), "LCM makes 1 to 50") {
			t.Errorf("%v: %v", n, err)
		}
	}
}

// TestWay: each method comes to the latent that an independent implementation comes to.
func TestWay(t *testing.T) {
	t.Parallel()
	for _, g := range read(t).Ways {
		s := Setting{Method: map[string]Method{"LCM": LCM, "DPM++": DPM, "Euler": Euler}[g.Method], Spacing: g.Spacing, Offset: g.Offset,
			Karras: g.Karras}
		name := fmt.Sprintf("%v, the last %d of %d, %q, picture %v", s.Method, g.Tail, g.N, g.Spacing, g.Picture != nil)
		w, err := New(s, g.N, g.Tail)
		if err != nil {
			t.Fatal(err)
		}
		if g.Method != s.Method.String() || w.Steps() != g.Tail || w.Time(0) != s.Times(g.N)[g.N-g.Tail] {
			t.Errorf("%s: %d steps, from %d", name, w.Steps(), w.Time(0))
		}
		noise := NewNoise(g.Seed)
		x, ask, eps := make([]float32, len(g.Want)), make([]float32, len(g.Want)), make([]float32, len(g.Want))
		noise.Fill(x)
		w.Start(x, g.Picture)
		guess := make([]float32, len(x))
		for step := range w.Steps() {
			w.Ask(step, ask, x)
			for i, v := range ask {
				eps[i] = float32(0.4*float64(v) + 0.5*math.Sin(1.7*float64(i)+0.9*float64(step)))
			}
			if w.Idle(step) {
				clear(eps) // it makes no difference
			} else {
				w.Guess(step, guess, x, eps)
			}
			w.Step(step, x, eps, noise)
		}
		near(t, name, x, g.Want, 2e-5)
		if s.Method != DPM { // the last step's guess is the picture
			near(t, name+", guess", guess, g.Want, 2e-5)
		}
	}
}

func TestPixels(t *testing.T) {
	t.Parallel()
	got := Pixels(nil, []float32{-0.5, 0, 0.25, 2, -2, 1})
	if want := []byte{64, 159, 0, 128, 255, 255}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	eps := []float32{1, 2}
	if Guide(eps, []float32{0, 1}, 7); eps[0] != 7 || eps[1] != 8 {
		t.Errorf("guided: %v", eps)
	}
	x := []float32{2, 2, 2}
	Sample(x, []float32{1, 1, 1, 0, 40, -40})
	near(t, "sampled", x, []float64{3 * Latent, (1 + 2*math.Exp(10)) * Latent, (1 + 2*math.Exp(-15)) * Latent}, 1e-6)
}

type goldens struct {
	Noise []struct {
		Seed        uint32
		N           int
		Again       bool
		First, Last []float64
		Sum         float64
	}
	Alphas   []uint32
	LCM, DPM map[int][]int
	Euler    []struct {
		N       int
		Spacing Spacing
		Offset  int
		Times   []int
	}
	Ways []struct {
		Method  string
		N, Tail int
		Spacing Spacing
		Offset  int
		Karras  bool
		Picture []float32
		Seed    uint32
		Want    []float64
	}
}

func read(t *testing.T) (g goldens) {
	t.Helper()
	b, err := os.ReadFile("testdata/goldens.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

func near(t *testing.T, name string, got []float32, want []float64, most float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", name, len(got), len(want))
	}
	for i, v := range got {
		if d := math.Abs(float64(v) - want[i]); !(d <= most*max(1, math.Abs(want[i]))) {
			t.Errorf("%s: value %d is %v, want %v", name, i, v, want[i])
			return
		}
	}
}
