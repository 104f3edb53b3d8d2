package audio

import (
	"math"
	"testing"
)

// TestG711: each byte of a law is what its own sample becomes, each other sample becomes the byte
// whose sample is nearest but for one step, and what is too loud becomes the loudest.
func TestG711(t *testing.T) {
	for name, law := range map[string]struct {
		to   func([]byte, []float32) []byte
		from func(byte) float64
	}{"µ": {AppendMuLaw, MuLaw}, "A": {AppendALaw, ALaw}} {
		for b := range 256 {
			x := law.from(byte(b))
			// Silence has two bytes in the µ-law, and one of them is enough.
			if got := law.to(nil, []float32{float32(x)})[0]; got != byte(b) && (x != 0 || law.from(got) != 0) {
				t.Errorf("%s: the sample of %#x, %v, became %#x", name, b, x, got)
			}
		}
		for i := -1100; i <= 1100; i++ {
			x := float64(i) / 1000
			got := law.from(law.to(nil, []float32{float32(x)})[0])
			near := 2.0
			for b := range 256 {
				near = min(near, math.Abs(law.from(byte(b))-x))
			}
			if step := math.Abs(x)/16 + 1.0/(1<<11); math.Abs(got-x) > near+step/4 {
				t.Errorf("%s: %v became %v, and %v away is possible", name, x, got, near)
			}
		}
		for x, like := range map[float32]float32{float32(math.Inf(1)): 1, float32(math.NaN()): 0} {
			if got, want := law.to(nil, []float32{x})[0], law.to(nil, []float32{like})[0]; got != want {
				t.Errorf("%s: %v became %#x, not %#x", name, x, got, want)
			}
		}
	}
}
