package report

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

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
		table, _, rows := strings.Cut(strings.TrimSpace(out.String()), "\n\nFor the table of results")
		if rows != (name == "cases") {
			t.Errorf("%s: rows of results: %t\n%s", name, rows, out.String())
		}
		lines := strings.Split(table, "\n")
		for _, line := range lines[2:] {
			if strings.Count(line, "|") != strings.Count(lines[2], "|") {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}

// The last lines fit the table of results in docs/performance.md, and have the figures of one load:
// the longest prompt, without guesses.
func TestMarkdownResults(t *testing.T) {
	b, err := os.ReadFile("../../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(b), "## Results from cards")
	at := strings.Index(after, "\n| host |")
	if at < 0 {
		t.Fatal("docs/performance.md has no table of results")
	}
	head, _, _ := strings.Cut(after[at+1:], "\n")
	of := func(prompt, clients int, guesses bool, first, prefill, decode float64) bench.Case {
		one := func(v float64) bench.Sample { return bench.NewSample([]float64{v}) }
		return bench.Case{Load: bench.Load{Prompt: prompt, Output: 64, Clients: clients, Speculate: guesses}, First: one(first),
			Prefill: one(prefill), Decode: one(decode)}
	}
	cases := []bench.Case{of(512, 1, false, 400, 1200, 19), of(32, 1, false, 1, 2, 3), of(512, 1, true, 5, 6, 7),
		of(32, 8, false, 8, 9, 10), of(512, 8, false, 11, 12, 45), of(512, 4, false, 14, 15, 16)}
	r := Report{When: time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC),
		Facts: Machine{Axle: "0.2.0", Board: "Raspberry Pi 5", CPU: "Cortex-A76", Card: Card{Kind: "axcl", Name: "AX650N", Driver: "3.6.5",
			Link: &Link{Speed: "8.0 GT/s", Width: "2"}}},
		Models: []Model{{Name: "qwen3:0.6b", Cases: cases}, {Name: "odd|name", ShapeOnly: true, Cases: cases[:4]}}}
	var out strings.Builder
	if err := r.Markdown(&out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	for i, want := range []string{
		"| Raspberry Pi 5 | axcl AX650N, PCIe 8.0 GT/s x2 | driver 3.6.5, axle 0.2.0 | qwen3:0.6b | 1200 ± 0% | 400.0 ± 0% | " +
			"19.00 ± 0% | 45.00 ± 0% | 2026-11-28 |",
		`| Raspberry Pi 5 | axcl AX650N, PCIe 8.0 GT/s x2 | driver 3.6.5, axle 0.2.0 | odd\|name (a shape without weights) | ` +
			"1200 ± 0% | 400.0 ± 0% | 19.00 ± 0% | - | 2026-11-28 |",
	} {
		got := lines[len(lines)-2+i]
		if got != want || strings.Count(strings.ReplaceAll(got, `\|`, ""), "|") != strings.Count(head, "|") {
			t.Errorf("got  %s\nwant %s\nof   %s", got, want, head)
		}
	}
}
