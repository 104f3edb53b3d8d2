package diagnosis

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl/axcltest"
)

// TestPrintFigures: what doctor prints of the suite's figures, without a baseline and with one.
func TestPrintFigures(t *testing.T) {
	d := measuredRun(0.0047, nil)
	var out bytes.Buffer
	d.Print(&out)
	head := "        how far the furthest row is from one that is rounded nowhere: a right\n" +
		"        card is about as far as bf16 arithmetic\n" +
		"ok      conformance: info\n"
	want := head + "ok      conformance: model/small\n        card 0.47 %, bf16 0.46 %\n\nsoft can be used: asked for.\n"
	if out.String() != want {
		t.Errorf("printed\n%swant\n%s", out.String(), want)
	}
	was := 0.002
	d.compare("before.json", &baseline{Device: "soft a card", Firmware: "V0", Library: "3.6",
		Checks: []measured{{"model/small", &was, &was, nil}}})
	out.Reset()
	d.Print(&out)
	if want := "ok      baseline: compared with before.json: soft a card, firmware V0, library\n        3.6\n" + head +
		"PROBLEM conformance: model/small\n        card 0.47 %, bf16 0.46 %, card in the baseline 0.20 %\n" +
		"        less precise than in the baseline\n\nsoft does not do what it must.\n"; out.String() != want {
		t.Errorf("printed\n%swant\n%s", out.String(), want)
	}
	narrow(t, out.String())
}

// TestBaselineCompare: a run is held against what an earlier one saved.
func TestBaselineCompare(t *testing.T) {
	rows := func(seed uint64) [][]uint16 {
		return [][]uint16{axcltest.Rows(seed, 1, 64), axcltest.Rows(seed+1, 1, 32)}
	}
	near := rows(1)
	near[1][3]++ // by one bit of bf16
	for _, tt := range []struct {
		name      string
		then, now *Diagnosis
		say       string // empty: nothing is wrong
	}{
		{"equal", measuredRun(0.0047, nil), measuredRun(0.0047, nil), ""},
		{"a little further", measuredRun(0.0047, nil), measuredRun(0.0055, nil), ""},
		{"better", measuredRun(0.0047, nil), measuredRun(0.0020, nil), ""},
		{"worse", measuredRun(0.0047, nil), measuredRun(0.0075, nil), "less precise than in the baseline"},
		{"equal rows", measuredRun(0, rows(1)), measuredRun(0, rows(1)), ""},
		{"rows rounded otherwise", measuredRun(0, rows(1)), measuredRun(0, near), ""},
		{"other rows", measuredRun(0, rows(1)), measuredRun(0, rows(5)), "differ from the baseline's by more than rounding"},
		{"fewer rows", measuredRun(0, rows(1)), measuredRun(0, rows(1)[:1]), "of another form"},
		{"rows that are no numbers", measuredRun(0, rows(1)), measuredRun(0, [][]uint16{near[0], {31: 0x7fc0}}), "by more than rounding"},
		{"no such check", measuredRun(0, rows(1)), measuredRun(0.0047, nil), "this run has none"},
		{"no figures", measuredRun(0, rows(1)), measuredRun(0.0047, nil), "the baseline has no figures of this check"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "before.json")
			if err := tt.then.save(path, ""); err != nil {
				t.Fatal(err)
			}
			b, err := Options{Conformance: true, Baseline: path}.prepare()
			if err != nil {
				t.Fatal(err)
			}
			if b.Device != "soft a card" || b.Firmware != "V1" {
				t.Errorf("%+v", b)
			}
			tt.now.keep(Options{Baseline: path, Save: path + ".new"}, b)
			_, missing := os.Stat(path + ".new")
			said := words(tt.now)
			if ok := tt.say == ""; tt.now.OK != ok || !strings.Contains(said, tt.say) || (missing == nil) != ok ||
				strings.Contains(said, "not written") == ok || !strings.Contains(said, "compared with "+path+": soft a card, firmware V1") {
				t.Errorf("ok %v, saved: %v: %s", tt.now.OK, missing, said)
			}
		})
	}
}

func words(d *Diagnosis) string {
	var b strings.Builder
	d.Print(&b)
	return strings.Join(strings.Fields(b.String()), " ")
}

// TestBaselineBroken: a file that is none, or is of something else, is refused by name before a
// card is opened.
func TestBaselineBroken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "before.json")
	if err := measuredRun(0.0047, nil).save(path, ""); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	good := string(raw)
	swap := func(old, new string) string {
		t.Helper()
		if !strings.Contains(good, old) {
			t.Fatalf("no %q in %s", old, good)
		}
		return strings.Replace(good, old, new, 1)
	}
	var b baseline
	if err := json.Unmarshal(raw, &b); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, file, say string }{
		{"empty", "", "EOF"},
		{"cut off", good[:len(good)/2], "unexpected EOF"},
		{"more behind it", good + "{}", "something follows it"},
		{"another form", swap(`"axle_baseline":1`, `"axle_baseline":2`), "its form is 2"},
		{"something else", `{"models":[]}`, "unknown field"},
		{"no checks", swap(good[strings.Index(good, `"checks"`):], `"checks":[]}`), "no figures"},
		{"a figure below nothing", swap(`"card":0.0047`, `"card":-1`), "two figures"},
		{"a figure too large", swap(`"card":0.0047`, `"card":1e300`), "two figures"},
		{"one figure", swap(`"card":0.0047,`, ``), "two figures"},
		{"rows beside figures", swap(`"card":0.0047`, `"rows":[[1]],"card":0.0047`), "two figures"},
		{"twice", swap(`"checks":[`, `"checks":[{"name":"model/small","rows":[[1]]},`), "there twice"},
		{"a value of 17 bits", swap(`"card":0.0047,"bf16":0.0046`, `"rows":[[65536]]`), "cannot unmarshal"},
		{"a long name", swap(`"device":"soft`, `"device":"`+strings.Repeat("x", 2000)), "bytes"},
		{"a terminal's escape", swap(`"name":"model/small"`, `"name":"\u001b[2J"`), "cannot be printed"},
		{"too large a file", good + strings.Repeat(" ", largestBaseline), "limit"},
		{"another suite", swap(b.Suite, "model Qwen3-0.6B (sha256:12)"),
			"is of model Qwen3-0.6B (sha256:12), and this run is of the small models"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.WriteFile(path, []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			d, err := Run(t.Context(), Options{Device: "none such", Conformance: true, Baseline: path})
			if d != nil || err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), tt.say) {
				t.Errorf("%v, %v", d, err)
			}
		})
	}
	for _, o := range []Options{{Baseline: path + ".none"}, {Baseline: t.TempDir()}, {Save: filepath.Join(path, "x")},
		{Save: filepath.Join(path+".none", "x")}} {
		o.Device, o.Conformance = "none such", true
		if d, err := Run(t.Context(), o); d != nil || err == nil || !strings.Contains(err.Error(), "the baseline cannot be") {
			t.Errorf("%+v: %v, %v", o, d, err)
		}
	}
}

// measuredRun is what a run of two checks found; one of them measures nothing.
func measuredRun(card float64, rows [][]uint16) *Diagnosis {
	d := &Diagnosis{OK: true, Device: "soft", Why: "asked for", Devices: []Card{{ID: "soft", Name: "a card", Firmware: "V1"}}}
	d.check("info", func(axcltest.TB) {})
	d.check("model/small", func(t axcltest.TB) {
		m := t.(axcltest.Measurer)
		if rows != nil {
			m.Sample(rows)
			return
		}
		m.Measure(axcltest.Figures{Card: card / 2, BF16: 0.0046})
		m.Measure(axcltest.Figures{Card: card, BF16: 0.001})
	})
	return d
}
