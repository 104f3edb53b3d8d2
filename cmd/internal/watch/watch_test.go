package watch

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl/cards"
	"github.com/axle-llm/axle/internal/terminal"
)

func TestTurn(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	read := func(after time.Duration, text string) sample {
		s := sample{at: at.Add(after), values: map[string]map[string]float64{}}
		if err := s.parse(strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		return s
	}
	was := read(0, "axle_cells{model=\"a{b}\"} 100\naxle_card_busy_seconds_total{model=\"a{b}\"} 1\naxle_passes_total{model=\"a{b}\","+
		"kind=\"decode\"} 10\n")
	now := read(2*time.Second, `# HELP axle_cells x
axle_up_seconds 61
axle_requests_in_flight 1
axle_tokens_per_second 7.5
axle_cards_lost 1
axle_cells{model="a{b}"} 100
axle_cells_used{model="a{b}"} 40
axle_card_temperature_celsius{model="a{b}"} NaN
axle_card_busy_seconds_total{model="a{b}"} 2.5
axle_passes_total{model="a{b}",kind="decode"} 20
axle_passes_total{model="a{b}",kind="mixed"} 4
axle_speculation_drafted_total{model="a{b}"} 0
axle_speculation_accepted_total{model="a{b}"} 0
axle_memory_rows{model="a{b}"} 300
axle_memory_rows_used{model="a{b}"} 20
axle_memory_reused_tokens_total{model="a{b}"} 7
axle_memory_out_bytes_total{model="a{b}"} 2000
axle_memory_in_bytes_total{model="a{b}"} 1000
axle_memory_saved_seconds_total{model="a{b}"} 1.5
axle_disk_reused_tokens_total{model="a{b}"} 3
axle_disk_in_bytes_total{model="a{b}"} 5000
axle_disk_out_bytes_total{model="a{b}"} 4000
axle_disk_saved_seconds_total{model="a{b}"} 0.25
nonsense
`)
	l := newTurn(was, now)
	if len(l.Models) != 1 {
		t.Fatalf("%d models", len(l.Models))
	}
	m := l.Models[0]
	if m.Name != "a{b}" || m.Used != 40 || m.Temperature != nil || m.Accepted != nil || *m.Busy != 75 || *m.Passes != 7 {
		t.Errorf("%+v: busy %v passes %v", m, *m.Busy, *m.Passes)
	}
	if again := newTurn(now, was); again.Models[0].Busy != nil || again.Models[0].Passes != nil {
		t.Errorf("counters that began anew give rates: %+v", again.Models[0])
	}
	l.Links = []cards.Link{{Bus: "0001:01:00.0", Speed: "5.0 GT/s PCIe", Width: "1"}, {Bus: "0002:01:00.0", Lost: true}}
	var sb strings.Builder
	l.write(&sb, 80)
	for _, want := range []string{"up 1m1s", "0 requests in flight", "7.5 tokens/s", "a{b}", "75%",
		"card 0001:01:00.0: link 5.0 GT/s PCIe x1", "0002:01:00.0: gone", "1 lost of several cards",
		"in memory: 20 of 300 rows, 7 came back, 3 KB moved, 1.5 s saved", "on disk: 3 came back, 9 KB moved, 0.2 s saved"} {
		if !strings.Contains(sb.String(), want) {
			t.Errorf("%q is not in\n%s", want, sb.String())
		}
	}
	for line := range strings.Lines(sb.String()) {
		if terminal.Width(line) > 81 {
			t.Errorf("wider than 80 columns: %q", line)
		}
	}
}

// What is drawn fits, narrow and wide, low and high, and has no colour where none is wanted.
func TestPage(t *testing.T) {
	warm := 52.0
	p := page{cells: &cellMap{Model: "a\x1b[2Jb"}}
	if err := json.Unmarshal(
		[]byte(`[{"device":"soft","cells":4096,"map":[[128,-1],[1000,3],[500,1],[2468,0]],"branches":[{"id":3,"state":"running"},{"id":1,"state":"cached"}]}]`),
		&p.cells.Copies); err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		p.take(turn{PerSecond: float64(i % 60), Models: []model{{Temperature: &warm}}})
	}
	if len(p.rate) != keptTurns || len(p.warm) != keptTurns {
		t.Errorf("%d turns are kept", len(p.rate))
	}
	for _, columns := range []int{20, 40, 80, 99, 100, 133, 250} {
		for _, lines := range []int{-5, 0, 6, 7, 12, 15, 24, 60} {
			for _, p.colour = range []bool{false, true} {
				text := p.draw(columns, lines)
				if n := strings.Count(text, "\n"); n > max(lines, 0) {
					t.Errorf("%d lines where %d are free", n, lines)
				}
				if !p.colour && strings.Contains(text, "\x1b") || strings.Contains(text, "\x1b[2J") {
					t.Errorf("%d by %d: %q", columns, lines, text)
				}
				for line := range strings.Lines(text) {
					if w := terminal.Width(regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(strings.TrimSuffix(line, "\n"),
						"")); w > columns {
						t.Errorf("%d wide in %d columns: %q", w, columns, line)
					}
				}
				if lines == 60 && (!strings.Contains(text, "█") || !strings.Contains(text, "▒") || !strings.Contains(text, "▓")) {
					t.Errorf("%d by %d has no map: %s", columns, lines, text)
				}
				if lines == 60 && columns >= 40 && !strings.Contains(text, "shared · free") {
					t.Errorf("%d by %d does not say what all blocks are: %s", columns, lines, text)
				}
			}
		}
	}
	for env, want := range map[string]bool{"": true, "NO_COLOR=1": false, "TERM=dumb": false} {
		name, value, _ := strings.Cut(env, "=")
		if got := coloured(func(n string) string { return map[string]string{name: value}[n] }); got != want {
			t.Errorf("%q: coloured %v", env, got)
		}
	}
}
