//go:build !scripted

package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/pocket"
	"github.com/axle-llm/axle/sampler"
)

// TestBenchCheck holds the host's share of a token to multiples of plain loops on the same machine.
// The goals are 150 us for the sampler and 10 MB/s for the tokenizer on a Raspberry Pi 5, whose
// cores take about 100 us for the one loop and 1.7 ns a byte for the other. `make bench-check` runs
// it, with the engine's own ratios.
func TestBenchCheck(t *testing.T) {
	if os.Getenv("AXLE_BENCH_CHECK") == "" {
		t.Skip("SKIPPED, not tested: timings are for make bench-check")
	}
	t.Run("sampler", func(t *testing.T) {
		const vocab = 151936
		logits := make([]uint16, vocab)
		x := uint32(1)
		for i := range logits {
			x = x*1664525 + 1013904223
			logits[i] = uint16(math.Float32bits(float32(int32(x>>8)%1000)/100) >> 16)
		}
		p := sampler.Defaults()
		p.Seed = 1
		s, err := sampler.New(p, vocab)
		if err != nil {
			t.Fatal(err)
		}
		best := 0
		ours, plain := fastest(func() {
			if _, err := s.Sample(logits, nil); err != nil {
				t.Fatal(err)
			}
		}, func() {
			top := float32(math.Inf(-1))
			for i, v := range logits {
				if f := math.Float32frombits(uint32(v) << 16); f > top {
					top, best = f, i
				}
			}
		})
		t.Logf("a sample %v, the plain largest of %d logits %v (token %d): %.2f times", ours, vocab, plain, best,
			float64(ours)/float64(plain))
		if float64(ours) > 1.5*float64(plain) {
			t.Errorf("a sample takes %.2f times the plain loop, at most 1.5 are allowed", float64(ours)/float64(plain))
		}
	})
	t.Run("tokenizer", func(t *testing.T) {
		p, err := models.OpenFS(pocket.FS(), ".")
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		tok, err := p.Tokenizer()
		if err != nil {
			t.Fatal(err)
		}
		var text []byte
		files, _ := filepath.Glob("../../docs/*.md")
		slices.Sort(files)
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, b...)
		}
		all := string(text)
		var ids []int32
		sum := uint64(14695981039346656037)
		ours, plain := fastest(func() { ids = tok.Encode(ids[:0], all, false) }, func() {
			for i := range len(all) {
				sum = (sum ^ uint64(all[i])) * 1099511628211
			}
		})
		rate := float64(len(all)) / ours.Seconds() / 1e6
		t.Logf("%d bytes into %d tokens in %v, %.1f MB/s; hashed byte by byte in %v (%x): %.1f times", len(all), len(ids), ours, rate,
			plain, sum, float64(ours)/float64(plain))
		if float64(ours) > 60*float64(plain) {
			t.Errorf("the tokenizer takes %.1f times the plain loop, at most 60 are allowed", float64(ours)/float64(plain))
		}
	})
}

// fastest is the shortest of many runs of f, and of g between them: what else runs on the machine
// slows both.
func fastest(f, g func()) (a, b time.Duration) {
	a, b = math.MaxInt64, math.MaxInt64
	for range 40 {
		for _, x := range []struct {
			run func()
			to  *time.Duration
		}{{f, &a}, {g, &b}} {
			at := time.Now()
			x.run()
			*x.to = min(*x.to, time.Since(at))
		}
	}
	return a, b
}
