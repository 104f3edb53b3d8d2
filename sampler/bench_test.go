package sampler

import "testing"

func TestNoAllocations(t *testing.T) {
	logits := row(1, realVocab, 0, 2.5)
	mask := allow{5: true, 9: true, 70000: true}
	for _, c := range []struct {
		name   string
		change func(*Params)
		mask   Mask
	}{
		{"heavy", func(*Params) {}, nil},
		{"greedy", func(p *Params) { p.Temperature = 0 }, nil},
		{"mask", func(*Params) {}, mask},
		{"no top_k", func(p *Params) { p.TopK = 0 }, nil},
		{"all filters", func(p *Params) { p.TopK, p.TypicalP, p.DRYMultiplier, p.DRYPenaltyLastN = 0, 0.9, 1, 64 }, nil},
		{"logprobs", func(p *Params) { p.TopLogprobs = 20 }, nil},
		{"bias", func(p *Params) { p.LogitBias = map[int32]float32{1: 2, 100: -100} }, nil},
		{"mirostat", func(p *Params) { p.Mirostat = 2 }, nil},
	} {
		p := heavy()
		c.change(&p)
		s, err := New(p, realVocab)
		if err != nil {
			t.Fatal(err)
		}
		id := int32(0)
		step := func() {
			got, err := s.Sample(logits, c.mask)
			if err != nil {
				t.Fatal(err)
			}
			id += got.ID%7 + 1
			s.Accept(id)
		}
		for range 70 {
			if step(); c.name != "heavy" && len(s.hist) > 2 {
				break
			}
		}
		if n := testing.AllocsPerRun(5, step); n != 0 {
			t.Errorf("%s: %v allocations a token", c.name, n)
		}
	}
}

const realVocab = 151936

// heavy is the setting the speed promise is about.
func heavy() Params {
	p := Defaults()
	p.Seed, p.MinP = 1, 0.05
	p.RepeatPenalty, p.PresencePenalty, p.FrequencyPenalty = 1.1, 0.2, 0.1
	return p
}

func BenchmarkSample(b *testing.B) {
	logits := row(1, realVocab, 0, 2.5)
	for _, c := range []struct {
		name   string
		change func(*Params)
	}{
		{"top_k40,top_p,min_p,penalties", func(*Params) {}},
		{"greedy", func(p *Params) { *p = Defaults(); p.Temperature = 0 }},
		{"top_k0,top_p", func(p *Params) { p.TopK = 0 }},
		{"all", func(p *Params) { p.TopK, p.TopP, p.MinP = 0, 1, 0 }},
		{"typical", func(p *Params) { p.TopK, p.TypicalP = 0, 0.9 }},
		{"mirostat2", func(p *Params) { p.Mirostat = 2 }},
		{"top_logprobs20", func(p *Params) { p.TopLogprobs = 20 }},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := heavy()
			c.change(&p)
			s, err := New(p, realVocab)
			if err != nil {
				b.Fatal(err)
			}
			for id := range int32(64) {
				s.Accept(id * 2000)
			}
			b.ReportAllocs()
			for b.Loop() {
				c, err := s.Sample(logits, nil)
				if err != nil {
					b.Fatal(err)
				}
				s.Accept(c.ID)
			}
		})
	}
}
