package audio

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

var rates = []int{8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000, 88200, 96000, 176400, 192000}

// TestResampleTones: between all common rates and 16 and 24 kHz, a tone that fits into both passes
// within 0.05 dB and in place, and one that does not fit is 80 dB down.
func TestResampleTones(t *testing.T) {
	const rest = 1e-4                                                                 // −80 dB
	pairs := [][2]int{{44101, 16000}, {47999, 24000}, {16001, 48000}, {191999, 8000}} // without a row for each phase
	for _, r := range rates {
		pairs = append(pairs, [2]int{r, 16000}, [2]int{r, 24000}, [2]int{16000, r}, [2]int{24000, r})
	}
	for _, p := range pairs {
		from, to := p[0], p[1]
		nyquist := float64(min(from, to)) / 2
		n := from / 4
		for _, at := range []float64{0, 0.01, 0.25, 0.7, 0.9} {
			hz := at * nyquist
			in := make([]float32, n)
			wave := func(time float64) float64 { return math.Cos(2*math.Pi*hz*time + 0.3) }
			for i := range in {
				in[i] = float32(wave(float64(i) / float64(from)))
			}
			out := resample(t, in, from, to, n)
			var most float64
			for k := len(out) / 4; k < len(out)*3/4; k++ { // away from where the tone is cut on and off
				most = max(most, math.Abs(float64(out[k])-wave(float64(k)/float64(to))))
			}
			if most > rest { // which is 0.001 dB
				t.Errorf("%d to %d, %.0f Hz: off by %.2g", from, to, hz, most)
			}
		}
		if from <= to {
			continue
		}
		for _, at := range []float64{1.001, 1.2, 1.7, 2.1} {
			hz := at * nyquist
			if hz > float64(from)/2 {
				continue
			}
			out := resample(t, tone(n, from, hz, 1), from, to, n)
			var most float32
			for _, x := range out[len(out)/4 : len(out)*3/4] {
				most = max(most, x, -x)
			}
			if most > rest {
				t.Errorf("%d to %d, %.0f Hz: an alias of %.2g", from, to, hz, most)
			}
		}
	}
}

// resample gives in block by block.
func resample(t testing.TB, in []float32, from, to, block int) (out []float32) {
	t.Helper()
	r, err := NewResampler(from, to)
	if err != nil {
		t.Fatal(err)
	}
	for b := range slices.Chunk(in, max(1, block)) {
		out = r.Append(out, b)
	}
	return r.Flush(out)
}

// TestResampleBlocks: the output is the same whatever the blocks are, has the length that it must
// have, and a Resampler that was flushed is as new.
func TestResampleBlocks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, p := range [][2]int{{44100, 16000}, {8000, 16000}, {48000, 16000}, {16000, 24000}, {24000, 11025}, {44101, 16000},
		{16000, 16000}} {
		from, to := p[0], p[1]
		r, err := NewResampler(from, to)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, 1, 2, 100, 441, 442, 5000} {
			in := make([]float32, n)
			for i := range in {
				in[i] = random.Float32()*2 - 1
			}
			want := resample(t, in, from, to, n)
			if exact := (n*to + from - 1) / from; len(want) != exact {
				t.Errorf("%d to %d: %d samples become %d, not %d", from, to, n, len(want), exact)
			}
			for _, block := range []int{1, 7, 1000} {
				if got := resample(t, in, from, to, block); !slices.Equal(got, want) {
					t.Errorf("%d to %d in blocks of %d: another output", from, to, block)
				}
			}
			if got := r.Flush(r.Append(nil, in)); !slices.Equal(got, want) {
				t.Errorf("%d to %d: after a flush another output", from, to)
			}
		}
	}
}

// TestResampleMemory: what is kept of a long input, and what a filter takes at rates without a
// common divisor, is bounded.
func TestResampleMemory(t *testing.T) {
	r, err := NewResampler(48000, 16000)
	if err != nil {
		t.Fatal(err)
	}
	in, out := make([]float32, 1000), make([]float32, 0, 1000)
	for range 1000 {
		out = r.Append(out[:0], in)
	}
	if len(r.window) > 2000 || cap(r.window) > 8000 {
		t.Errorf("%d samples are kept, in %d", len(r.window), cap(r.window))
	}
	allocs := testing.AllocsPerRun(100, func() { out = r.Append(out[:0], in) })
	if allocs > 0 {
		t.Errorf("a block makes %.0f allocations", allocs)
	}
	for _, p := range [][2]int{{191999, 8000}, {8000, 191999}, {44101, 16000}, {191992, 8000}} {
		r, err := NewResampler(p[0], p[1])
		if err != nil {
			t.Fatal(err)
		}
		if len(r.bank) > 2*filterRoom {
			t.Errorf("%v: %d coefficients", p, len(r.bank))
		}
	}
	for _, p := range [][2]int{{0, 16000}, {16000, 7999}, {192001, 16000}, {-1, -1}} {
		if _, err := NewResampler(p[0], p[1]); err == nil || !strings.Contains(err.Error(), "from 8000 to 192000") {
			t.Errorf("%v: %v", p, err)
		}
	}
}
