//go:build cgo && !fake && linux && !scripted

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl/simcard/simcardtest"
	"github.com/axle-llm/axle/cmd/internal/singlenet"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestBenchNetCard: on a card the report says what memory the net took of it.
func TestBenchNetCard(t *testing.T) {
	lane.NoRace(t)
	simcardtest.Attach(t, "hazards=strict", true)
	t.Setenv("AXLE_HOST", "http://127.0.0.1:1")
	e, dir := modelstest.TextEncoder{Seed: 5, Length: 128, Dims: 16, Layers: 1}, t.TempDir()
	if err := e.Write(dir); err != nil {
		t.Fatal(err)
	}
	text, _, err := command(t, "bench", e.Path(dir), "-r", "2", "--device", "axcl")
	if err != nil || !strings.Contains(text, "on axcl:0, loaded in ") || !strings.Contains(text, " of card memory\n") {
		t.Errorf("%v\n%s", err, text)
	}
	text, _, err = command(t, "bench", e.Path(dir), "-r", "2", "--device", "axcl", "--json")
	var r singlenet.Report
	if jerr := json.Unmarshal([]byte(text), &r); err != nil || jerr != nil || r.Card < 10_000 || r.Device != "axcl:0" ||
		len(r.Groups) != 1 {
		t.Errorf("%v %v %+v", err, jerr, r)
	}
}
