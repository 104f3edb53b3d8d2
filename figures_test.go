package axle

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// figures are what README.md and docs/performance.md both name. Each pattern has one group, the
// number; README's is the other document's, or its quotient with over's, to as many places as
// README gives.
var figures = []struct{ name, readme, performance, over string }{
	{"decode", `\| decode, Qwen3-0\.6B w8a16 on a Pi 5 \| ([\d.]+) tokens/s`, oneClient, ""},
	{"the vendor's runtimes, from", `published for the vendor's runtimes \(([\d.]+)–`, publishedRates + ` ([\d.]+)–`, ""},
	{"the vendor's runtimes, to", `published for the vendor's runtimes \([\d.]+–([\d.]+)\)`, publishedRates + ` [\d.]+–([\d.]+)`, ""},
	{"times the vendor's, from", `tokens/s: ([\d.]+)–[\d.]+ times what is published`, oneClient, publishedRates + ` [\d.]+–([\d.]+)`},
	{"times the vendor's, to", `tokens/s: [\d.]+–([\d.]+) times what is published`, oneClient, publishedRates + ` ([\d.]+)–`},
	{"times the vendor's, as said, from", `tokens/s: ([\d.]+)–[\d.]+ times what is published`, published + ` ([\d.]+)–`, ""},
	{"times the vendor's, as said, to", `tokens/s: [\d.]+–([\d.]+) times what is published`, published + ` [\d.]+–([\d.]+)`, ""},
	{"times the copying loop", `([\d.]+) times a copying loop`, `\| the copying loop:.*\| ([\d.]+) ms`, onePass},
	{"times the copying loop, as said", `([\d.]+) times a copying loop`, `\| the copying loop:.*\| ([\d.]+) times as fast`, ""},
	{"times the zero-copy branch", `([\d.]+) times its zero-copy branch`, `\| the zero-copy branch .*\| ([\d.]+) ms`, onePass},
	{"times the zero-copy branch, as said", `([\d.]+) times its zero-copy branch`, `\| the zero-copy branch .*\| ([\d.]+) times as fast`, ""},
	{"the board", `\| the same on the board itself \| ([\d.]+) tokens/s`, `qwen3-0\.6b takes [\d.]+ ms, ([\d.]+) tokens/s`, ""},
	{"published of the board, from", `([\d.]+)–20 are published for the vendor's loops`, `\(published: ([\d.]+)–20\)`, ""},
	{"8 clients", `\| together ([\d.]+) × /`, `p32 n32 c8 .*?%.*?% +([\d.]+) ±`, oneClient},
	{"16 clients", `\| together [\d.]+ × / ([\d.]+) ×`, `p32 n32 c16 .*?%.*?% +([\d.]+) ±`, oneClient},
	{"eight clients", `Eight clients together get ([\d.]+) times`, `p32 n32 c8 .*?%.*?% +([\d.]+) ±`, oneClient},
	{"sixteen clients", `sixteen get ([\d.]+) times`, `p32 n32 c16 .*?%.*?% +([\d.]+) ±`, oneClient},
	{"the software card", `\| software card, 0\.13 billion bf16 parameters \| ([\d.]+) tokens/s`, besidePyTorch + `([\d.]+) beside`, ""},
	{"the software card's parameters", `\| software card, ([\d.]+) billion bf16`, `a checkpoint of ([\d.]+) billion bf16 parameters`, ""},
	{"times PyTorch", `tokens/s, ([\d.]+) times PyTorch's rate`, besidePyTorch + `[\d.]+ beside [\d.]+: ([\d.]+) times`, ""},
}

const (
	oneClient      = `p32 n32 c1 .*?%.*?% +([\d.]+) ±` // tokens a second: the third column of figures
	onePass        = `one pass \(([\d.]+) ms\) is`
	published      = `published of the vendor's shipped runtimes, measured on cards \|.*\|`
	publishedRates = `published of the vendor's shipped runtimes, measured on cards \|[^|]*\|`
	besidePyTorch  = `\| 2 \| bf16 \| `
)

// TestFigures: README.md names no other figures than docs/performance.md, where those are that a
// benchmark gave; and none of the modelled ones in its table is left out here.
func TestFigures(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	readme, performance := read("README.md"), read("docs/performance.md")
	flat := strings.Join(strings.Fields(readme), " ") // prose breaks anywhere
	number := func(name, text, pattern string) (string, float64) {
		t.Helper()
		m := regexp.MustCompile(pattern).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("%s: nothing like %s is there", name, pattern)
		}
		x, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return m[1], x
	}
	held := map[string]bool{}
	for _, f := range figures {
		said, _ := number(f.name+" in README.md", flat, f.readme)
		_, want := number(f.name+" in docs/performance.md", performance, f.performance)
		if f.over != "" {
			_, by := number(f.name+" in docs/performance.md", performance, f.over)
			want /= by
		}
		_, places, _ := strings.Cut(said, ".")
		if right := strconv.FormatFloat(want, 'f', len(places), 64); said != right {
			t.Errorf("%s: README.md says %s, docs/performance.md %s", f.name, said, right)
		}
		held[said] = true
	}
	rows := 0
	for row := range strings.Lines(readme) {
		if !strings.HasSuffix(row, "| modelled |\n") {
			continue
		}
		rows++
		for _, n := range regexp.MustCompile(`[\d]+\.[\d]+`).FindAllString(strings.ReplaceAll(row, "Qwen3-0.6B", ""), -1) {
			if !held[n] {
				t.Errorf("README.md says %s, which is not in figures: %s", n, row)
			}
		}
	}
	if rows < 3 {
		t.Errorf("%d modelled rows in README.md's table", rows)
	}
}

// TestFirstModels: what README.md says of the models to begin with is what the catalogue says.
func TestFirstModels(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	row := regexp.MustCompile("(?m)^\\| (`[a-z0-9.-]+:[a-z0-9.-]+`) \\| [^|]+ \\| ([^|]+) \\| ([^|]+) \\|$")
	rows := row.FindAllStringSubmatch(read("README.md"), -1)
	if len(rows) < 4 {
		t.Fatalf("only %d models", len(rows))
	}
	catalogue := read("docs/models.md")
	for _, r := range rows {
		_, row, found := strings.Cut(catalogue, "\n| "+r[1]+" |")
		row, _, _ = strings.Cut(row, "\n")
		if !found || !strings.Contains(row, "| "+r[2]+" | "+r[3]+" |") {
			t.Errorf("%s: %s to download, %s on the card; docs/models.md says%s", r[1], r[2], r[3], row)
		}
	}
}
