package report

import (
	"errors"
	"fmt"
	"math"
	"regexp"
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

// TestWords: the table of cases says what its columns are, a figure that varied much is named, and
// so is what held the machine back.
func TestWords(t *testing.T) {
	celsius := 71.4
	r := Report{Facts: Machine{Axle: "1", Board: "Raspberry Pi 5", Held: "under-voltage now"}, Models: []Model{{Name: "odd|name_",
		Cases: []bench.Case{{Load: bench.Load{Prompt: 32, Output: 64, Clients: 1}, First: bench.NewSample([]float64{100, 105, 95}),
			Decode: bench.NewSample([]float64{10, 10, 13})}},
		Roofline: &bench.Roofline{Limit: 8, Reached: 10, Share: 100}}}}
	r.Facts.Card = Card{Kind: "axcl", Name: "AX650N", Warmest: &celsius}
	var text, md strings.Builder
	if err := errors.Join(r.Text(&text), r.Markdown(&md)); err != nil {
		t.Fatal(err)
	}
	flat := strings.Join(strings.Fields(text.String()), " ")
	for _, want := range []string{legend[:40], "next turn: the first token",
		"A repeat lies 30 % from the median (decode of odd|name_, p32 n64 c1)",
		"71 °C at the end", "the machine was held back: under-voltage now"} {
		if !strings.Contains(flat, want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	lines := strings.Split(md.String(), "\n")
	if len(lines) < 6 || !strings.Contains(lines[0], "Raspberry Pi 5") || !strings.Contains(lines[0], "71 °C at the end; the machine was") {
		t.Fatalf("%s", md.String())
	}
	bars := strings.Count(lines[2], "|")
	if lines[1] != "" || bars < 8 || strings.Count(lines[3], "|") != bars || strings.Count(strings.ReplaceAll(lines[4], `\|`, ""), "|") != bars ||
		!strings.HasPrefix(lines[4], `| odd\|name\_ | p32 n64 c1 | 100.0 ± 5% |`) || !strings.HasSuffix(lines[4], "| 100% of 8.0 t/s |") ||
		!strings.Contains(lines[6], "A repeat lies 30 %") {
		t.Errorf("%s", md.String())
	}
	r.Models[0].Cases[0].Decode = bench.NewSample([]float64{10, 10, 11.9})
	text.Reset()
	if err := r.Text(&text); err != nil || strings.Contains(text.String(), "A repeat") {
		t.Errorf("%v: what varies little is warned of:\n%s", err, text.String())
	}
}

// A report of each kind is one table.
func TestMarkdownKinds(t *testing.T) {
	one := bench.NewSample([]float64{1})
	for name, m := range map[string]Model{
		"loops":         {Loops: []bench.Loop{{Name: "naive", Token: one}, {Name: "one pass", Token: one}}},
		"conversations": {Talks: []bench.TalkCase{{Ways: []bench.TalkWay{{Kept: bench.KeptCard, First: one}}}}},
		"against":       {Against: &Against{Kind: "ollama", Cases: []AgainstCase{{}}}},
		"cases":         {Cases: []bench.Case{{First: one}, {First: one}}},
	} {
		var out strings.Builder
		r := Report{Models: []Model{m, m}}
		if err := r.Markdown(&out); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "|---|"); n != 1 {
			t.Errorf("%s: %d tables:\n%s", name, n, out.String())
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		for _, line := range lines[2:] {
			if strings.Count(line, "|") != strings.Count(lines[2], "|") {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}

// TestColours: a colour means one thing on the whole page.
func TestColours(t *testing.T) {
	var m Model
	for _, prompt := range []int{32, 512} {
		for _, clients := range []int{1, 4, 8} {
			for _, guess := range []bool{false, true} {
				c := bench.Case{Load: bench.Load{Prompt: prompt, Output: 64, Clients: clients, Speculate: guess},
					Latency: []float64{1, 2, 3}, Each: []float64{1, 2, 3}, Decode: bench.NewSample([]float64{10})}
				for i := range 14 {
					c.Stages = append(c.Stages, bench.Stage{Name: fmt.Sprint("stage-", i), Token: 5})
				}
				m.Cases = append(m.Cases, c)
			}
		}
	}
	m.Apart = true
	m.Roofline = &bench.Roofline{Weights: 1, Limit: 20, Bandwidth: 20, Reached: 10,
		Points: []bench.RooflinePoint{{Clients: 1, Limit: 20, Reached: 10}}}
	talks := Model{Talks: []bench.TalkCase{{}}}
	for kept := range keptWords {
		talks.Talks[0].Ways = append(talks.Talks[0].Ways, bench.TalkWay{Kept: kept, First: bench.NewSample([]float64{1, 2}), Asked: 4,
			Card: 1, Memory: 1, Disk: 1})
	}
	key := regexp.MustCompile(`<(?:path d="M[^"]*h20" class="line (\w+)" stroke-dasharray="([^"]*)"|` +
		`rect [^>]*rx="2" class="(\w+)")/><text[^>]*>([^<]*)</text>`)
	place := map[string]string{"the card alone": "card", "and memory": "memory", "the same, with disk": "disk"}
	for name, m := range map[string]Model{"cases": m, "conversations": talks} {
		var page strings.Builder
		if err := (&Report{Models: []Model{m}}).HTML(&page); err != nil {
			t.Fatal(err)
		}
		means, dash := map[string]map[string]bool{}, map[string]string{}
		keys := key.FindAllStringSubmatch(page.String(), -1)
		for _, k := range keys {
			color, what := k[1]+k[3], k[4]
			if load, clients, ok := strings.Cut(what, " c"); ok && what[0] == 'p' {
				number, spec, _ := strings.Cut(clients, " ")
				if what = load; spec != "" {
					what += " " + spec
				}
				if d, seen := dash[number]; seen && d != k[2] {
					t.Errorf("%s: %s clients have the dashes %q and %q", name, number, d, k[2])
				}
				dash[number] = k[2]
			}
			if p := place[what]; p != "" {
				what = p
			}
			if means[color] == nil {
				means[color] = map[string]bool{}
			}
			means[color][what] = true
		}
		if len(keys) < 6 {
			t.Fatalf("%s: only %d keys", name, len(keys))
		}
		for color, all := range means {
			if len(all) != 1 {
				t.Errorf("%s: %s means %v", name, color, all)
			}
			if !strings.Contains(style, "."+color+"{") {
				t.Errorf("%s: the page has no colour %s", name, color)
			}
		}
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
