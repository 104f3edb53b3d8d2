package server_test

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// TestBenchCheck: a token through the server costs little more than a line through net/http alone.
// `make bench-check` runs it.
func TestBenchCheck(t *testing.T) {
	if os.Getenv("AXLE_BENCH_CHECK") == "" {
		t.Skip("SKIPPED, not tested: timings are for make bench-check")
	}
	r := newRig(t)
	const tokens = 1000
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range tokens {
			fmt.Fprintln(w, `{"model":"scripted","created_at":"2026-01-01T00:00:00Z","response":"x|","done":false}`)
			w.(http.Flusher).Flush()
		}
	}))
	defer plain.Close()
	body := `{"model":"scripted","prompt":"[[delay:0]][[say:` + strings.Repeat("x|", tokens) + `]]"}`
	best := [2]time.Duration{math.MaxInt64, math.MaxInt64}
	for range 15 {
		for i, url := range []string{r.url + "/api/generate", plain.URL} {
			at := time.Now()
			resp, err := http.Post(url, "", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			n, err := io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if err != nil || n < 10*tokens {
				t.Fatalf("%d bytes: %v", n, err)
			}
			best[i] = min(best[i], time.Since(at))
		}
	}
	ratio := float64(best[0]) / float64(best[1])
	t.Logf("a token %v through the server, %v through net/http alone: %.2f times", best[0]/tokens, best[1]/tokens, ratio)
	if ratio > 8 {
		t.Errorf("a token through the server costs %.2f times what a line costs net/http, at most 8 are allowed", ratio)
	}
}
