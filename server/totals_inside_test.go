package server

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/pool"
)

// TestKVUsage: rows that finished answers left behind can be had, and do not make a server look
// full.
func TestKVUsage(t *testing.T) {
	for _, c := range []struct {
		cells, used, cached int
		want                float64
	}{{0, 0, 0, 0}, {100, 0, 0, 0}, {2047, 107, 107, 0}, {100, 50, 30, 0.2}, {100, 100, 0, 1}, {100, 10, 20, 0}, {0, 5, 0, 0}} {
		r := pool.Running{Stats: ask.Stats{Cells: c.cells, CellsUsed: c.used, CellsCached: c.cached}}
		if got := kvUsage(r); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestModelNames: a model is named by all that requests call it, and the most names leave room for
// as many more models as may be loaded.
func TestModelNames(t *testing.T) {
	for name, want := range map[string][]string{"pocket:latest": {"pocket", "pocket:latest"}, "qwen3:4b": {"qwen3:4b"},
		"hub/x:latest": {"hub/x", "hub/x:latest"}} {
		if got := spellings(name); !slices.Equal(got, want) {
			t.Errorf("%s: %v", name, got)
		}
	}
	var b bytes.Buffer
	totals{max: 4, loaded: []string{"a", "a:latest"}, coming: []string{"b:1"}}.write(&b)
	if want := `axle_models_info{max_lora="4",running_lora_adapters="a,a:latest",waiting_lora_adapters="b:1"} `; !strings.Contains(
		b.String(), want) {
		t.Errorf("no %s in\n%s", want, b.String())
	}
}
