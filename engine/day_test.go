package engine

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/internal/lane"
)

// TestDay (G25): after a day of mixed traffic the card is as quick as in the first minute. Three
// hundreds of requests come to an empty card, and at the end the same ones in other words.
// AXLE_TEST_DAY is how many there are in all, 10000 for a whole day.
func TestDay(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	n := 2000
	if k, err := strconv.Atoi(os.Getenv("AXLE_TEST_DAY")); err == nil {
		n = k
	}
	d := &counting{paced: newPaced(axmodel.Qwen3Small(), small)}
	st := onDevice(t, d.paced, d, OpenOptions{})
	type figures struct{ first, decode, tokens, cached float64 }
	serve := func(vs []visit) (f figures) {
		stays, _ := st.crowd(t, vs)
		for i, s := range stays {
			if s.err != nil || s.tokens != vs[i].job.Limit {
				t.Fatalf("request %d: %d tokens of %d, %v", i, s.tokens, vs[i].job.Limit, s.err)
			}
			f.first += s.usage.FirstToken.Seconds()
			f.decode += s.usage.Decode.Seconds()
			f.tokens += float64(s.usage.Output - 1)
			f.cached += float64(s.usage.Cached)
		}
		return f
	}
	hundreds := func(words uint64, empty bool) (f figures) {
		for seed := range uint64(3) {
			if empty {
				if err := st.card.Do(context.Background(), func(axcl.Device) error { st.m.cells.Forget(); return nil }); err != nil {
					t.Fatal(err)
				}
			}
			h := serve(traffic(100, seed+1, words))
			f = figures{f.first + h.first, f.decode + h.decode, f.tokens + h.tokens, f.cached + h.cached}
		}
		return f
	}
	before := hundreds(1, true)
	d.runs = nil
	day := serve(traffic(n-200, 9, 9))
	slices.Sort(d.runs)
	median, most := d.runs[len(d.runs)/2], d.runs[len(d.runs)*95/100]
	after := hundreds(2, false)
	t.Logf("first token after %.3f s, %.3f at the end of %d requests; a token takes %.1f ms, %.1f; tokens found %.0f, %.0f and in between "+
		"%.0f; runs of cells in a wide pass: %d on the median, %d at the 95th percentile", before.first/300, after.first/300, n,
		1e3*before.decode/before.tokens, 1e3*after.decode/after.tokens, before.cached, after.cached, day.cached, median, most)
	if after.first > 1.03*before.first {
		t.Errorf("the last hundreds have their first tokens after %.3f s, the first after %.3f", after.first/300, before.first/300)
	}
	if after.decode/after.tokens > 1.03*before.decode/before.tokens {
		t.Errorf("a token of the last hundreds takes %.1f ms, of the first %.1f", 1e3*after.decode/after.tokens,
			1e3*before.decode/before.tokens)
	}
	if median > 1 { // a fresh card's wide passes have one run, and half of one more is none
		t.Errorf("the new rows of a wide pass lie in %d runs on the median", median)
	}
	if was := found[n]; day.cached < 0.98*float64(was) {
		t.Errorf("%.0f tokens found, %d before cells were reserved", day.cached, was)
	}
}

// found is how many tokens the requests between the first hundreds and the last found on the card
// before cells were reserved for prompts (cells were the lowest free ones then, and 32 rows at a
// time went): of a day of this many requests.
var found = map[int]int{2000: 213581, 10000: 1145630}

// counting is a paced card that keeps account of the copies by which its wide passes' rows went
// home.
type counting struct {
	*paced
	runs []int // of each wide pass
}

func (d *counting) Run(p *axcl.Pass) error {
	if p.Rows() > 1 {
		d.runs = append(d.runs, axcl.Runs(p.Cell))
	}
	return d.paced.Run(p)
}

// traffic makes a day's requests: new conversations whose first prompts are 10 to 1,500 tokens
// long, some with a beginning that others have too, and turns of those that were there lately. The
// pattern is the seed's, the words are the second's: two hundreds of the same seed differ in
// nothing but their words.
func traffic(n int, seed, words uint64) (vs []visit) {
	off := false
	rng, word := rand.New(rand.NewPCG(seed, 30)), rand.New(rand.NewPCG(words, 31))
	say := func(ids []int32, n int) []int32 {
		for range n {
			ids = append(ids, 1+int32(word.IntN(fakeVocab-1)))
		}
		return ids
	}
	begin := [][]int32{say(nil, 120), say(nil, 250)}
	var lately [][]int32
	at := time.Duration(0)
	for range n {
		at += time.Duration(rng.ExpFloat64() * float64(8640*time.Millisecond))
		var c []int32
		if k := rng.IntN(8); k < 4 && k < len(lately) && len(lately[k]) < 1500 {
			c = lately[k]
			lately = slices.Delete(lately, k, k+1)
			c = say(c, 10+rng.IntN(60))
		} else {
			length := int(10 * math.Exp(rng.Float64()*math.Log(150)))
			if b := rng.IntN(6); b < len(begin) && length > len(begin[b]) {
				c = slices.Clone(begin[b])
			}
			c = say(c, length-len(c))
		}
		job := greedy(slices.Clone(c), 4+rng.IntN(29))
		job.Speculate, job.IgnoreStop = &off, true
		vs = append(vs, visit{at: at, job: job})
		for range job.Limit {
			c = append(c, 9) // what the card says
		}
		if lately = slices.Insert(lately, 0, c); len(lately) > 8 {
			lately = lately[:8]
		}
	}
	return vs
}
