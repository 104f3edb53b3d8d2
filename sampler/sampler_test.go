package sampler

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestGreedyIsTheArgmax(t *testing.T) {
	if got := Argmax(nil); got != -1 {
		t.Errorf("the largest of no logits is %d", got)
	}
	for seed := range uint64(200) {
		logits := row(seed, 1+int(seed)*7+1, float64(seed%5)*10-20, 2)
		want := 0
		for i, x := range logits {
			if f32(x) > f32(logits[want]) {
				want = i
			}
		}
		if got := Argmax(logits); int(got) != want {
			t.Fatalf("seed %d: argmax %d, want %d", seed, got, want)
		}
		p := Defaults()
		p.Temperature = 0
		s, _ := New(p, len(logits))
		if !s.Greedy() {
			t.Fatal("not greedy at temperature 0")
		}
		c, err := s.Sample(logits, nil)
		if bad(logits) {
			if !errors.Is(err, ErrBadLogits) {
				t.Fatalf("seed %d: %v for equal logits", seed, err)
			}
		} else if err != nil || int(c.ID) != want {
			t.Fatalf("seed %d: sampled %d, %v, want %d", seed, c.ID, err, want)
		}
	}
	for name, change := range map[string]func(*Params){
		"bias":      func(p *Params) { p.LogitBias = map[int32]float32{1: 1} },
		"penalty":   func(p *Params) { p.RepeatPenalty = 1.1 },
		"presence":  func(p *Params) { p.PresencePenalty = 1 },
		"dry":       func(p *Params) { p.DRYMultiplier = 1 },
		"logprobs":  func(p *Params) { p.Logprobs = true },
		"warm":      func(p *Params) { p.Temperature = 0.1 },
		"top probs": func(p *Params) { p.TopLogprobs = 1 },
	} {
		p := Defaults()
		p.Temperature = 0
		change(&p)
		if s, err := New(p, 10); err != nil || s.Greedy() {
			t.Errorf("%s: greedy, %v", name, err)
		}
	}
}

func TestProbsEqualTheChainWrittenPlainly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 2000).Draw(t, "vocab")
		// Gaussian logits rounded to bf16: ties abound. Means on both sides of zero reach both
		// threshold forms.
		logits := row(rapid.Uint64().Draw(t, "seed"), n, rapid.SampledFrom([]float64{-30, -2, 0, 12}).Draw(t, "mean"), 3)
		p := Defaults()
		p.Seed = 1
		p.Temperature = rapid.SampledFrom([]float32{0, 0.3, 0.8, 1, 2}).Draw(t, "temperature")
		p.TopK = rapid.SampledFrom([]int{0, 1, 2, 40, 1025, 1500}).Draw(t, "top_k")
		p.TopP = rapid.SampledFrom([]float32{0, 0.5, 0.9, 1}).Draw(t, "top_p")
		p.MinP = rapid.SampledFrom([]float32{0, 0.05, 1}).Draw(t, "min_p")
		p.TypicalP = rapid.SampledFrom([]float32{1, 0.5}).Draw(t, "typical_p")
		p.RepeatLastN = rapid.SampledFrom([]int{-1, 0, 5, 64}).Draw(t, "last_n")
		p.RepeatPenalty = rapid.SampledFrom([]float32{1, 1.3}).Draw(t, "repeat")
		p.PresencePenalty = rapid.SampledFrom([]float32{0, 0.5, -1}).Draw(t, "presence")
		p.FrequencyPenalty = rapid.SampledFrom([]float32{0, 0.25}).Draw(t, "frequency")
		p.DRYMultiplier = rapid.SampledFrom([]float32{0, 0.8}).Draw(t, "dry")
		p.DRYAllowedLength = rapid.IntRange(0, 3).Draw(t, "allowed")
		if rapid.Bool().Draw(t, "bias") {
			p.LogitBias = map[int32]float32{0: 5, int32(n - 1): -100}
		}
		hist := rapid.SliceOfN(rapid.Int32Range(0, min(int32(n)-1, 8)), 0, 90).Draw(t, "history")
		p.DRYBreakers = []int32{3}
		var mask Mask
		if rapid.Bool().Draw(t, "mask") {
			a := allow{}
			for range rapid.IntRange(1, 20).Draw(t, "allowed tokens") {
				a[rapid.Int32Range(0, int32(n)-1).Draw(t, "id")] = true
			}
			mask = a
		}
		want := naive(p, hist, logits, nil)
		if mask != nil {
			free, mass := want, 0.0
			want = map[int32]float64{}
			for id, q := range free {
				if mask.Allowed(id) {
					want[id] = q
					mass += q
				}
			}
			if len(want) < len(free) {
				for id, q := range naive(p, hist, logits, mask) {
					want[id] += (1 - mass) * q
				}
			}
		}
		s, err := New(p, n)
		if err != nil {
			t.Fatal(err)
		}
		s.Accept(hist...)
		got, err := probs(s, logits, mask)
		if err != nil {
			if errors.Is(err, ErrBadLogits) && bad(logits) {
				return
			}
			t.Fatal(err)
		}
		// Rounding may move one token across an edge of top_p; its weight then counts as
		// difference.
		var diff float64
		for id, q := range got {
			diff += math.Abs(q - want[id])
		}
		for id, q := range want {
			if got[id] == 0 {
				diff += q
			}
		}
		if diff > 0.02 {
			t.Fatalf("distributions differ by %v: got %v want %v", diff, got, want)
		}
	})
}

// probs is the distribution that Sample draws from: see the package comment.
func probs(s *Sampler, logits []uint16, m Mask) (map[int32]float64, error) {
	if err := s.distribution(logits, nil); err != nil {
		return nil, err
	}
	out, mass, all := map[int32]float64{}, 0.0, true
	for i, c := range s.cands {
		if slices.ContainsFunc(s.cands[:i], func(o cand) bool { return o.id == c.id }) {
			return nil, fmt.Errorf("token %d twice", c.id)
		}
		if m == nil || m.Allowed(c.id) {
			out[c.id] = float64(c.w)
			mass += float64(c.w)
		} else {
			all = false
		}
	}
	if all {
		return out, nil
	}
	bits := make([]uint64, (s.vocab+63)/64)
	m.Fill(bits)
	if err := s.distribution(logits, bits); err != nil {
		return nil, err
	}
	for _, c := range s.cands {
		out[c.id] += (1 - mass) * float64(c.w)
	}
	return out, nil
}

func bf16(v float32) uint16 {
	b := math.Float32bits(v)
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// row returns logits as a model gives them: normal, and a few tokens far above the rest.
func row(seed uint64, n int, mean, spread float64) []uint16 {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]uint16, n)
	for i := range out {
		v := r.NormFloat64()*spread + mean
		if r.IntN(n) < 30 {
			v += spread * 4
		}
		out[i] = bf16(float32(v))
	}
	return out
}

// allow is a mask of ids.
type allow map[int32]bool

func (a allow) Allowed(id int32) bool { return a[id] }
func (a allow) Fill(bits []uint64) {
	clear(bits)
	for id, ok := range a {
		if ok {
			bits[id>>6] |= 1 << (id & 63)
		}
	}
}

// chiSquare fails when counts are not from probs: z > 5 happens by chance once in millions.
func chiSquare(t *testing.T, counts map[int32]int, probs map[int32]float64) {
	t.Helper()
	n := 0
	for id, c := range counts {
		if probs[id] == 0 {
			t.Fatalf("token %d drawn %d times, its probability is 0", id, c)
		}
		n += c
	}
	var x2, rest float64
	var restCount, cells int
	for id, p := range probs {
		if e := p * float64(n); e < 5 {
			rest += e
			restCount += counts[id]
		} else {
			x2 += (float64(counts[id]) - e) * (float64(counts[id]) - e) / e
			cells++
		}
	}
	if rest >= 5 {
		x2 += (float64(restCount) - rest) * (float64(restCount) - rest) / rest
		cells++
	}
	df := float64(max(cells-1, 1))
	if z := (x2 - df) / math.Sqrt(2*df); z > 5 {
		t.Errorf("χ² %.1f with %d cells: z = %.1f", x2, cells, z)
	}
}

func TestDrawsFollowTheDistribution(t *testing.T) {
	const n, draws = 300, 8000
	logits := row(5, n, 0, 2)
	mask := allow{}
	for id := int32(0); id < n; id += 2 {
		mask[id] = true
	}
	for _, c := range []struct {
		name   string
		change func(*Params)
		mask   Mask
	}{
		{"plain", func(p *Params) { p.TopK, p.TopP, p.Temperature = 0, 1, 1 }, nil},
		{"defaults", func(*Params) {}, nil},
		{"hot", func(p *Params) { p.Temperature = 3 }, nil},
		{"min_p", func(p *Params) { p.MinP = 0.1; p.TopK = 0 }, nil},
		{"typical", func(p *Params) { p.TypicalP = 0.7 }, nil},
		{"penalties", func(p *Params) { p.RepeatPenalty = 1.5; p.FrequencyPenalty = 0.5 }, nil},
		{"mask", func(*Params) {}, mask},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Defaults()
			p.Seed = 42
			c.change(&p)
			s, err := New(p, n)
			if err != nil {
				t.Fatal(err)
			}
			s.Accept(1, 2, 3, 3, 3)
			want, err := probs(s, logits, c.mask)
			if err != nil {
				t.Fatal(err)
			}
			counts := map[int32]int{}
			for range draws {
				got, err := s.Sample(logits, c.mask)
				if err != nil {
					t.Fatal(err)
				}
				counts[got.ID]++
			}
			chiSquare(t, counts, want)
		})
	}
}

func TestSameSeedSameText(t *testing.T) {
	const n = 500
	p := Defaults()
	p.Seed, p.RepeatPenalty = 99, 1.2
	p.DRYMultiplier = 0.5
	text := func() (out []int32) {
		s, _ := New(p, n)
		last := int32(0)
		for range 300 {
			c, err := s.Sample(row(uint64(last)+1, n, 0, 2), nil)
			if err != nil {
				t.Fatal(err)
			}
			s.Accept(c.ID)
			out, last = append(out, c.ID), c.ID
		}
		return out
	}
	plain := text()
	if !slices.Equal(plain, text()) {
		t.Fatal("the same seed, another text")
	}
	p.Seed = 100
	if slices.Equal(plain, text()) {
		t.Fatal("another seed, the same text")
	}
	p.Seed = -1
	if slices.Equal(text(), text()) {
		t.Fatal("random seeds are not random")
	}
}

func TestMirostatHoldsTheSurprise(t *testing.T) {
	const n = 1000
	for version := 1; version <= 2; version++ {
		for _, tau := range []float32{1.5, 3} {
			p := Defaults()
			p.Mirostat, p.MirostatTau, p.Temperature, p.Seed = version, tau, 1, 3
			s, _ := New(p, n)
			var sum float64
			const draws = 600
			for i := range draws {
				logits := row(uint64(i), n, 0, 2)
				c, err := s.Sample(logits, nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, q := range s.cands {
					if q.id == c.ID {
						sum -= math.Log2(float64(q.w))
					}
				}
			}
			if got := sum / draws; math.Abs(got-float64(tau)) > 0.6 {
				t.Errorf("mirostat %d: mean surprise %.2f, aimed at %v", version, got, tau)
			}
		}
	}
}

func TestLogprobsAreOfTheRawDistribution(t *testing.T) {
	const n = 400
	logits := row(8, n, 3, 2)
	want := naive(Params{Temperature: 1, TopP: 1, RepeatPenalty: 1}, nil, logits, nil)
	p := Defaults()
	p.TopLogprobs, p.Seed, p.Temperature = 5, 4, 0.1
	p.LogitBias = map[int32]float32{9: 50} // changes what is drawn, not what is reported
	s, _ := New(p, n)
	c, err := s.Sample(logits, nil)
	if err != nil || c.ID != 9 || len(c.Top) != 5 {
		t.Fatalf("%+v, %v", c, err)
	}
	if got := math.Log(want[9]); math.Abs(got-float64(c.Logprob)) > 1e-4 {
		t.Errorf("logprob %v, want %v", c.Logprob, got)
	}
	for i, top := range c.Top {
		if math.Abs(math.Log(want[top.ID])-float64(top.Logprob)) > 1e-4 {
			t.Errorf("top %d: %v, want %v", i, top.Logprob, math.Log(want[top.ID]))
		}
		if i > 0 && top.Logprob > c.Top[i-1].Logprob {
			t.Error("top is not sorted")
		}
	}
	for id, q := range want {
		if q > math.Exp(float64(c.Top[4].Logprob))*1.0001 && !slices.ContainsFunc(c.Top, func(l TokenLogprob) bool { return l.ID == id }) {
			t.Errorf("token %d with %v is missing from the top", id, q)
		}
	}
}

func TestBadLogits(t *testing.T) {
	good := row(1, 1001, -3, 1)
	for name, x := range map[string]uint16{"NaN": 0x7fc0, "−NaN": 0xffc0, "+Inf": 0x7f80, "−Inf": 0xff80, "signalling": 0x7f81} {
		for _, at := range []int{0, 3, 500, 1000} {
			for _, k := range []int{0, 1, 40} {
				p := Defaults()
				p.TopK = k
				s, _ := New(p, len(good))
				logits := slices.Clone(good)
				logits[at] = x
				if _, err := s.Sample(logits, nil); !errors.Is(err, ErrBadLogits) {
					t.Errorf("%s at %d, top_k %d: %v", name, at, k, err)
				}
			}
		}
	}
	s, _ := New(Defaults(), 1001)
	if _, err := s.Sample(make([]uint16, 1001), nil); !errors.Is(err, ErrBadLogits) {
		t.Errorf("all equal: %v", err)
	}
	if _, err := s.Sample(good[:7], nil); err == nil || !strings.Contains(err.Error(), "7 logits for a vocabulary of 1001") {
		t.Errorf("short row: %v", err)
	}
	if _, err := s.Sample(good, allow{}); !errors.Is(err, ErrNoToken) {
		t.Errorf("empty mask: %v", err)
	}
	if c, err := s.Sample(good, allow{77: true}); err != nil || c.ID != 77 {
		t.Errorf("one token allowed: %v, %v", c, err)
	}
}

func TestCheck(t *testing.T) {
	//proves:T3
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	type field struct {
		name   string
		set    func(*Params, float32)
		lo, hi float32
	}
	for _, f := range []field{
		{"temperature", func(p *Params, v float32) { p.Temperature = v }, 0, 100},
		{"top_p", func(p *Params, v float32) { p.TopP = v }, 0, 1},
		{"min_p", func(p *Params, v float32) { p.MinP = v }, 0, 1},
		{"typical_p", func(p *Params, v float32) { p.TypicalP = v }, 0, 1},
		{"repeat_penalty", func(p *Params, v float32) { p.RepeatPenalty = v }, 0.01, 100},
		{"presence_penalty", func(p *Params, v float32) { p.PresencePenalty = v }, -100, 100},
		{"frequency_penalty", func(p *Params, v float32) { p.FrequencyPenalty = v }, -100, 100},
		{"mirostat_tau", func(p *Params, v float32) { p.MirostatTau = v }, 0, 100},
		{"mirostat_eta", func(p *Params, v float32) { p.MirostatEta = v }, 0, 1},
		{"logit_bias[1]", func(p *Params, v float32) { p.LogitBias = map[int32]float32{1: v} }, -100, 100},
		{"dry_multiplier", func(p *Params, v float32) { p.DRYMultiplier = v }, 0, 100},
		{"dry_base", func(p *Params, v float32) { p.DRYBase = v }, 0, 100},
	} {
		try := func(v float32, good bool) {
			t.Helper()
			p := Defaults()
			f.set(&p, v)
			err := p.Check()
			if good != (err == nil) || err != nil && !(errors.Is(err, ErrParams) && strings.Contains(err.Error(), f.name) &&
				strings.Contains(err.Error(), fmt.Sprint(f.hi))) {
				t.Errorf("%s = %v: %v", f.name, v, err)
			}
		}
		try(f.lo, true)
		try(f.hi, true)
		try(math.Nextafter32(f.lo, -inf), false)
		try(math.Nextafter32(f.hi, inf), false)
		try(nan, false)
		try(inf, false)
		try(-inf, false)
		try(math.MaxFloat32, false)
		try(float32(math.Copysign(0, -1)), f.lo <= 0)
	}
	for _, f := range []struct {
		name   string
		set    func(*Params, int)
		lo, hi int
	}{
		{"top_k", func(p *Params, v int) { p.TopK = v }, -1, math.MaxInt32},
		{"repeat_last_n", func(p *Params, v int) { p.RepeatLastN = v }, -1, 1 << 20},
		{"mirostat", func(p *Params, v int) { p.Mirostat = v }, 0, 2},
		{"top_logprobs", func(p *Params, v int) { p.TopLogprobs = v }, 0, 20},
		{"dry_allowed_length", func(p *Params, v int) { p.DRYAllowedLength = v }, 0, 1 << 20},
		{"dry_penalty_last_n", func(p *Params, v int) { p.DRYPenaltyLastN = v }, -1, 1 << 20},
	} {
		for v, good := range map[int]bool{f.lo: true, f.hi: true, f.lo - 1: false, f.hi + 1: false, math.MaxInt64: false,
			math.MinInt64: false} {
			p := Defaults()
			f.set(&p, v)
			if err := p.Check(); good != (err == nil) || err != nil && !strings.Contains(err.Error(), f.name) {
				t.Errorf("%s = %d: %v", f.name, v, err)
			}
		}
	}
	p := Defaults()
	p.LogitBias = map[int32]float32{10: 1}
	if _, err := New(p, 10); err == nil || !strings.Contains(err.Error(), "logit_bias[10]") {
		t.Errorf("bias outside the vocabulary: %v", err)
	}
	p = Defaults()
	p.TopP = 2
	if _, err := New(p, 10); !errors.Is(err, ErrParams) {
		t.Errorf("New does not check: %v", err)
	}
}

type words []string

func (w words) Vocab() int            { return len(w) }
func (w words) Bytes(id int32) []byte { return []byte(w[id]) }

func TestBreakers(t *testing.T) {
	got := Breakers(words{"a", ".\n", "\n\n", ":", "x"}, "\n", ":")
	if !slices.Equal(got, []int32{1, 2, 3}) {
		t.Error(got)
	}
}

// TestColdest: a temperature too low for a float32 takes the largest logit, as 0 does.
func TestColdest(t *testing.T) {
	p := Defaults()
	p.Temperature = 1e-40
	s, err := New(p, 64)
	if err != nil {
		t.Fatal(err)
	}
	logits := make([]uint16, 64)
	for i := range logits {
		logits[i] = bf16(float32(i % 7))
	}
	logits[41] = bf16(9)
	if c, err := s.Sample(logits, nil); err != nil || c.ID != 41 || !s.Greedy() {
		t.Errorf("%+v %v, greedy %v", c, err, s.Greedy())
	}
}
