package hub_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/hub"
)

// The catalogue in docs/models.md is the one in the code.
func TestDocs(t *testing.T) {
	const file, begin, end = "../../docs/models.md", "-update -->\n", "<!-- end -->"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(data), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("docs/models.md has no place for the catalogue")
	}
	known := func(s string) string {
		if s == "" || s == "0" {
			return "–"
		}
		return s
	}
	var b strings.Builder
	b.WriteString("| name | repository | layout | parameters | weights | layers | download | card memory | a card of | tokens/s | " +
		"|\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, e := range hub.Catalogue {
		speed := ""
		n, told := e.Size()
		size := "about " + models.HumanBytes(n)
		if !told {
			size = "estimated " + models.HumanBytes(n)
		}
		if e.Speed > 0 {
			speed = fmt.Sprintf("%.4g", e.Speed)
		}
		card, told := e.CardMemory()
		takes := "about " + models.HumanBytes(card)
		if !told {
			takes = "estimated " + models.HumanBytes(card)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", e.Name,
			strings.Join(append([]string{e.Repo}, e.Also...), ", or "), known(e.Layout), known(e.Parameters), known(e.Quant),
			known(fmt.Sprint(e.Layers)), size, takes, models.CardWords(card), known(speed), notes(e))
	}
	want := head + begin + b.String() + end + tail
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(data) {
		t.Error("docs/models.md is not the catalogue's: go test ./models/hub -run TestDocs -update")
	}
}

var update = flag.Bool("update", false, "write the catalogue into docs/models.md")

// notes is what the table says of a model in words.
func notes(e hub.Entry) string {
	var all []string
	if e.Sees != "" {
		all = append(all, "pictures: "+e.Sees)
	}
	for _, s := range []string{e.SpeedNote, e.NotYet} {
		if s != "" {
			all = append(all, s)
		}
	}
	return strings.Join(all, "; ")
}
