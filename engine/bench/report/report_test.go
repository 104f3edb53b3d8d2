package report

import (
	"math"
	"strings"
	"testing"

	"github.com/axle-llm/axle/engine/bench"
	"github.com/axle-llm/axle/internal/terminal"
)

// TestTablesFit: what is printed for people fits 80 columns.
func TestTablesFit(t *testing.T) {
	r := Report{Facts: Machine{Board: "Raspberry Pi 5 Model B Rev 1.0", System: "Debian GNU/Linux 12 (bookworm)",
		Kernel: "6.12.25+rpt-rpi-2712", Governor: "performance", Cores: 4},
		Models: []Model{{Name: "qwen3-0.6b", Layers: 28}}}
	for i := range 8 {
		c := bench.Case{Load: bench.Load{Prompt: 512, Output: 128, Clients: 1 << i}, Drafted: 12345, Accepted: 1234, Queued: true}
		for _, name := range []string{"embed", "upload", "layers", "head", "download", "sample"} {
			c.Stages = append(c.Stages, bench.Stage{Name: name, Token: 50123.4})
		}
		for _, s := range []*bench.Sample{&c.First, &c.Prefill, &c.Decode, &c.P50, &c.P95, &c.P99, &c.Busy} {
			*s = bench.NewSample([]float64{10123.4, 10321.5, 9876.1})
		}
		r.Models[0].Cases = append(r.Models[0].Cases, c)
	}
	var out strings.Builder
	if err := r.Text(&out); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if terminal.Width(strings.TrimRight(line, "\n")) > 80 {
			t.Errorf("bench: wider than 80 columns: %q", line)
		}
	}
	if !strings.Contains(out.String(), "1234 of 12345 right") || !strings.Contains(out.String(), "download") {
		t.Errorf("bench: something is missing:\n%s", out.String())
	}
}

// TestPlots draws odd figures: one point, none, huge ones.
func TestPlots(t *testing.T) {
	many := bench.Case{Load: bench.Load{Prompt: 1, Output: 2, Clients: 256}, Latency: make([]float64, 5000),
		Decode: bench.NewSample([]float64{1e9})}
	for i := range many.Latency {
		many.Latency[i] = math.Sqrt(float64(i))
	}
	for _, cases := range [][]bench.Case{nil, {{}}, {many},
		{many, {Load: bench.Load{Clients: 1}, Latency: []float64{0, 0}, Stages: []bench.Stage{{Name: "layers"}}}}} {
		for _, s := range []string{string(latencyPlot(cases)), string(stagePlot(cases)), string(clientsPlot(cases))} {
			if strings.Contains(s, "NaN") || strings.Contains(s, "Inf") || len(s) > 50_000 {
				t.Errorf("%.300s", s)
			}
		}
	}
}
