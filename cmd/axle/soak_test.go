//go:build cgo && !fake && !scripted && linux

package main

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestGrowth: a leak is seen through noise that is larger than itself, and noise alone is none.
func TestGrowth(t *testing.T) {
	for _, leak := range []float64{0, 10, -10} {
		var all []holding
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range 101 {
			all = append(all, holding{at: time.Unix(int64(i), 0), fds: 50 + leak*float64(i)/100 + 20*rng.Float64()})
		}
		if got := growth(all, func(s holding) float64 { return s.fds }); math.Abs(got-leak) > 5 {
			t.Errorf("%v over the time: %v seen", leak, got)
		}
	}
}

// holding is what a running server holds at a moment.
type holding struct {
	at                                         time.Time
	rss, fds, threads, goroutines, cells, card float64
}

func (p *process) holds() (s holding) {
	s.at = time.Now()
	dir := filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid))
	b, _ := os.ReadFile(filepath.Join(dir, "status"))
	for line := range strings.Lines(string(b)) {
		name, rest, _ := strings.Cut(line, ":")
		v, _ := strconv.ParseFloat(strings.Fields(rest + " 0")[0], 64)
		switch name {
		case "VmRSS":
			s.rss = v * 1024
		case "Threads":
			s.threads = v
		}
	}
	fds, _ := os.ReadDir(filepath.Join(dir, "fd"))
	s.fds = float64(len(fds))
	s.goroutines = p.metric("axle_goroutines")
	s.cells = p.metric("axle_cells_used")
	s.card = p.metric("axle_card_memory_bytes") - p.metric("axle_card_memory_free_bytes")
	return s
}

// growth is by how much a quantity grew over the time of the samples, by the straight line that
// fits them best.
func growth(samples []holding, of func(holding) float64) float64 {
	var t, v, tt, tv float64
	n := float64(len(samples))
	for _, s := range samples {
		x, y := s.at.Sub(samples[0].at).Seconds(), of(s)
		t, v, tt, tv = t+x, v+y, tt+x*x, tv+x*y
	}
	return (n*tv - t*v) / (n*tt - t*t) * samples[len(samples)-1].at.Sub(samples[0].at).Seconds()
}

// embeds asks pocket for a vector, which is the same each time.
func (p *process) embeds() []float32 {
	p.t.Helper()
	code, answer := p.post("/api/embed", []byte(`{"model":"pocket","input":"hello there"}`))
	var v struct{ Embeddings [][]float32 }
	if err := json.Unmarshal([]byte(answer), &v); code != 200 || err != nil || len(v.Embeddings) != 1 || len(v.Embeddings[0]) == 0 {
		p.t.Fatalf("an embedding: %d %s", code, answer)
	}
	return v.Embeddings[0]
}

// TestSoak lets a server work for as long as AXLE_TEST_SOAK says: mixed answers, clients that
// leave, embeddings of a model that generates, a model unloaded and loaded again. Nothing it holds
// may grow: memory, goroutines, threads, descriptors, cells in use, the card's memory.
func TestSoak(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("AXLE_TEST_SOAK"))
	if err != nil {
		t.Skip("SKIPPED: on demand, AXLE_TEST_SOAK=20m (make soak)")
	}
	u := newUnit(t)
	p := u.start()
	right := goldens(t, p)
	p.keep("kept")
	cells, vector, free := p.metric("axle_cells"), p.embeds(), p.metric("axle_card_memory_free_bytes")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	answers := make(chan int, 2)
	wg.Go(func() { answers <- len(streams(p, right, stop)) })
	for i := range 4 { // they leave at any moment
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 20))
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			for {
				select {
				case <-stop:
					return
				default:
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rng.IntN(60))*time.Millisecond)
				path, body := question(i, prompts[rng.IntN(len(prompts))])
				ask(ctx, client, p.url+path, body)
				cancel()
			}
		})
	}
	var all []holding
	loads := 0
	every := max(d/40, 250*time.Millisecond)
	sample := time.Now().Add(every)
	for end := time.Now().Add(d); (time.Now().Before(end) || len(all) < 12) && !t.Failed(); {
		p.says("kept", right)
		if code, answer := p.post("/api/generate", []byte(`{"model":"kept","keep_alive":0}`)); code != 200 {
			t.Errorf("unload: %d %s", code, answer)
		}
		p.until("has unloaded it", func() bool { return slices.Equal(p.loaded(), []string{"pocket"}) })
		if got := p.embeds(); !slices.Equal(got, vector) {
			t.Errorf("an embedding: %v, want %v", got, vector)
		}
		loads++
		if time.Now().After(sample) {
			sample = sample.Add(every)
			// The card is asked every few seconds only.
			p.until("has the memory back", func() bool { return p.metric("axle_card_memory_free_bytes") == free })
			all = append(all, p.holds())
		}
	}
	close(stop)
	wg.Wait()
	rest := p.holds()
	if c := p.stop(); c != 0 {
		t.Errorf("exit code %d", c)
	}
	p.quiet()
	if t.Failed() {
		return
	}
	for _, q := range []struct {
		name  string
		of    func(holding) float64
		allow float64 // growth over the time that means nothing: how far samples lie apart in any order
	}{
		{"resident memory", func(s holding) float64 { return s.rss }, 16 << 20},
		{"descriptors", func(s holding) float64 { return s.fds }, 8},
		{"threads", func(s holding) float64 { return s.threads }, 6},
		{"goroutines", func(s holding) float64 { return s.goroutines }, 24},
		{"cells in use", func(s holding) float64 { return s.cells }, cells / 8},
		{"card memory", func(s holding) float64 { return s.card }, 1}, // a byte
	} {
		warm := all[len(all)/4:] // pools and caches have filled up by then
		got := growth(warm, q.of)
		t.Logf("%s: %.0f at last, grew by %.1f after a quarter of the time", q.name, q.of(all[len(all)-1]), got)
		if math.IsNaN(got) || got > q.allow {
			t.Errorf("%s grows: by %.1f after a quarter of the time, %.0f would be noise", q.name, got, q.allow)
		}
	}
	t.Logf("%d answers, a model loaded and unloaded %d times in %v; at rest %+v", <-answers, loads, d, rest)
}
