package report

import (
	"errors"
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
		"memory would allow 8.0 tokens/s alone; reached 10.0 bandwidth:",
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
		!strings.HasPrefix(lines[4], `| odd\|name\_ | p32 n64 c1 | 100.0 ± 5% |`) || !strings.HasSuffix(lines[4], "| more than 8.0 t/s |") ||
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
