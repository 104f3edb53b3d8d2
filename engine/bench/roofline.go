package bench

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// Roofline is the most a card could do for one token at a time, were memory its only limit, and how near a measured case comes.
type Roofline struct {
	Weights   int64           `json:"weight_bytes_per_token"` // layers and head, read once a token
	Cache     int64           `json:"cache_bytes_per_token"`  // K and V of every cell that the decode group reads
	Bandwidth float64         `json:"bandwidth_bytes_per_second"`
	Source    string          `json:"bandwidth_source"`
	Limit     float64         `json:"limit_tps"`
	Reached   float64         `json:"reached_tps"`
	Share     float64         `json:"share_percent"`
	Memory    float64         `json:"memory_ms_per_token"`
	Fixed     float64         `json:"fixed_ms_per_token"` // the card's time beyond reading: the engine's fixed cost of each call, and arithmetic
	Link      float64         `json:"link_ms_per_token"`
	Host      float64         `json:"host_ms_per_token"`
	Text      string          `json:"text"`
	Points    []RooflinePoint `json:"points"`
}

// RooflinePoint is the limit and what was measured for so many clients: weights are read once for all, the cache for each.
type RooflinePoint struct {
	Clients int     `json:"clients"`
	Limit   float64 `json:"limit_tps"`
	Reached float64 `json:"reached_tps"`
}

// NewRoofline judges cases by what a token reads. calls is how many executes a token takes.
func NewRoofline(weights, cache int64, bandwidth float64, source string, calls int, cases []Case) Roofline {
	r := Roofline{Weights: weights, Cache: cache, Bandwidth: bandwidth, Source: source}
	if bandwidth <= 0 || weights+cache <= 0 {
		r.Text = "The card's bandwidth is not known: give --profile."
		return r
	}
	limit := func(n int) float64 { return float64(n) * bandwidth / (float64(weights) + float64(n)*float64(cache)) }
	r.Limit = limit(1)
	r.Memory = 1e3 / r.Limit
	var one *Case
	best := map[int]int{}
	for i := range cases {
		c := &cases[i]
		if c.Speculate || c.Decode.Median <= 0 {
			continue
		}
		if c.Clients == 1 && (one == nil || c.Decode.Median > one.Decode.Median) {
			one = c
		}
		at, seen := best[c.Clients]
		if !seen {
			at = len(r.Points)
			best[c.Clients] = at
			r.Points = append(r.Points, RooflinePoint{Clients: c.Clients, Limit: limit(c.Clients)})
		}
		r.Points[at].Reached = max(r.Points[at].Reached, c.Decode.Median)
	}
	if one == nil {
		r.Text = "No case with one client and more than one token was measured."
		return r
	}
	r.Reached = one.Decode.Median
	r.Share = 100 * r.Reached / r.Limit
	t := one.Token
	r.Link = ms(t.Upload + t.Down)
	r.Fixed = max(ms(t.Layers+t.Head)-r.Memory, 0)
	// What the card and the link do not explain is ours, the gaps between passes included.
	r.Host = max(1e3/r.Reached-ms(t.Layers+t.Head)-r.Link, 0)
	r.Text = r.judge(calls)
	return r
}

func (r *Roofline) judge(calls int) string {
	all := 1e3 / r.Reached
	share := func(v float64) float64 { return 100 * v / all }
	switch {
	case r.Share > 105:
		return fmt.Sprintf("It is faster than the bandwidth allows: %s is too low for this card, or its caches hold part of the model.", r.Source)
	case r.Memory >= max(r.Fixed, r.Link, r.Host):
		return fmt.Sprintf("Memory holds it back: %.0f %% of a token is reading weights and cache. A smaller quantization or a shorter context would help, and more clients at once share the weights.", share(r.Memory))
	case r.Fixed >= max(r.Link, r.Host):
		return fmt.Sprintf("The engine's fixed cost holds it back: %.0f %% of a token goes to the card's %d calls beyond what reading takes. Guesses and more clients at once put more rows into each call; fewer, larger layers would help a compiler do the same.", share(r.Fixed), calls)
	case r.Link >= r.Host:
		return fmt.Sprintf("The link holds it back: %.0f %% of a token goes to copies over it. A head that finds the largest logit on the card, or a wider PCIe link, would help.", share(r.Link))
	}
	return fmt.Sprintf("The host holds it back: %.0f %% of a token is this program's, or the system's, between passes. 'axle tune' looks at governor, interrupts and priority.", share(r.Host))
}

// Memory measures this machine's memory with all its cores for about the given time: bytes a second read, and copied (each byte counted once
// read and once written).
func Memory(budget time.Duration) (read, copied float64) {
	workers := min(runtime.GOMAXPROCS(0), 16)
	size := 128 << 20 / workers &^ 31 // together beyond what caches hold
	from, to := make([][]byte, workers), make([][]byte, workers)
	for i := range workers {
		from[i], to[i] = make([]byte, size), make([]byte, size)
		copy(to[i], from[i]) // touch the pages
	}
	run := func(f func(i int)) float64 {
		best := 0.0
		for end := time.Now().Add(budget / 2); ; {
			at := time.Now()
			var wg sync.WaitGroup
			for i := range workers {
				wg.Go(func() { f(i) })
			}
			wg.Wait()
			best = max(best, float64(workers*size)/time.Since(at).Seconds())
			if time.Now().After(end) {
				return best
			}
		}
	}
	sums := make([]uint64, workers*8)
	read = run(func(i int) {
		var a, b, c, d uint64
		for s := from[i]; len(s) >= 32; s = s[32:] {
			a += binary.LittleEndian.Uint64(s)
			b += binary.LittleEndian.Uint64(s[8:])
			c += binary.LittleEndian.Uint64(s[16:])
			d += binary.LittleEndian.Uint64(s[24:])
		}
		sums[i*8] += a + b + c + d
	})
	copied = 2 * run(func(i int) { copy(to[i], from[i]) })
	return read, copied
}
