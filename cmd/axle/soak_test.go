//go:build cgo && !fake && !scripted && linux

package main

import (
	"context"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// holding is what a running server holds at a moment.
type holding struct{ rss, fds, threads, goroutines, cells, card float64 }

func (p *process) holds() (s holding) {
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

// TestSoak lets a server work for as long as AXLE_TEST_SOAK says: mixed answers, clients that leave, embeddings refused, models unloaded
// and loaded again. Nothing it holds may grow: memory, goroutines, threads, descriptors, cells in use, the card's memory.
func TestSoak(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("AXLE_TEST_SOAK"))
	if err != nil {
		t.Skip("SKIPPED: on demand, AXLE_TEST_SOAK=20m (make soak)")
	}
	u := newUnit(t)
	p := u.start()
	right := goldens(t, p)
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
	every := max(d/40, 250*time.Millisecond)
	for end := time.Now().Add(d); time.Now().Before(end); {
		<-time.After(every)
		all = append(all, p.holds())
	}
	close(stop)
	wg.Wait()
	rest := p.holds()
	if c := p.stop(); c != 0 {
		t.Errorf("exit code %d", c)
	}
	p.quiet()
	if len(all) < 8 {
		t.Fatalf("%d samples in %v", len(all), d)
	}
	for _, q := range []struct {
		name  string
		of    func(holding) float64
		allow float64 // growth that means nothing
	}{
		{"resident memory", func(s holding) float64 { return s.rss }, 24 << 20},
		{"descriptors", func(s holding) float64 { return s.fds }, 8},
		{"threads", func(s holding) float64 { return s.threads }, 8},
		{"goroutines", func(s holding) float64 { return s.goroutines }, 24},
		{"card memory", func(s holding) float64 { return s.card }, 0},
	} {
		mean := func(part []holding) (sum float64) {
			for _, s := range part {
				sum += q.of(s)
			}
			return sum / float64(len(part))
		}
		n := len(all) / 4
		early, late := mean(all[n:2*n]), mean(all[len(all)-n:])
		t.Logf("%s: %.0f in the second quarter, %.0f in the last", q.name, early, late)
		if late > early*1.02+q.allow {
			t.Errorf("%s grows: %.0f in the second quarter, %.0f in the last", q.name, early, late)
		}
	}
	t.Logf("%d whole streams of answers in %v; at rest %+v", <-answers, d, rest)
}
