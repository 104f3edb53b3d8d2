package diagnosis

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/cards"
	"github.com/axle-llm/axle/engine"
)

// TestPrint: no line is wider than a terminal, and no word is lost.
func TestPrint(t *testing.T) {
	d := &Diagnosis{Findings: []cards.Finding{{Name: "a", State: cards.Problem, Text: strings.Repeat("word, é×°C ", 40),
		Fix: strings.Repeat("do it ", 60) + "/" + strings.Repeat("path", 30)}},
		Conformance: []Check{{Name: "c", Log: []string{strings.Repeat("logged ", 30)}}}, Why: strings.Repeat("because ", 19) +
			"because", OK: true}
	var out bytes.Buffer
	d.Print(&out)
	narrow(t, out.String())
	if words := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(words, strings.Repeat("do it ", 60)+"/path") ||
		!strings.Contains(words, strings.Repeat("because ", 19)+"because.") {
		t.Errorf("words are lost:\n%s", out.String())
	}
}

func narrow(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if n := utf8.RuneCountInString(line); n > 80 && strings.Contains(strings.TrimSpace(line), " ") {
			t.Errorf("%d columns: %s", n, line)
		}
		if strings.TrimRight(line, " ") != line {
			t.Errorf("ends in white space: %q", line)
		}
	}
}

// TestReporter: what fails is told, and nothing of a check stays on disk.
func TestReporter(t *testing.T) {
	d := &Diagnosis{OK: true}
	var dir string
	after := false
	d.check("fails", func(tb axcltest.TB) {
		dir = tb.TempDir()
		tb.Errorf("one %d", 1)
		tb.Fatalf("two")
		after = true
	})
	if d.OK || after || len(d.Conformance) != 1 || strings.Join(d.Conformance[0].Log, ",") != "one 1,two" {
		t.Errorf("%+v, %v", d.Conformance, after)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", dir, err)
	}
	defer func() {
		if r := recover(); r != "other" {
			t.Errorf("recovered %v", r)
		}
	}()
	d.check("panics", func(axcltest.TB) { panic("other") })
}

// TestPrintWide (G23): a card that gets wide passes of a model wrong is told so, and what follows.
func TestPrintWide(t *testing.T) {
	//proves:G23
	for _, wide := range []bool{true, false} {
		d := &Diagnosis{Abilities: &Abilities{Wide: wide, Scatter: true}}
		var out bytes.Buffer
		d.Print(&out)
		narrow(t, out.String())
		words := strings.Join(strings.Fields(out.String()), " ")
		if strings.Contains(words, engine.NoWidePasses) == wide || strings.Contains(words, "PROBLEM wide passes") == wide {
			t.Errorf("wide %v:\n%s", wide, out.String())
		}
	}
}
