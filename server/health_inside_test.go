package server

import (
	"strings"
	"testing"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/monitor"
)

// TestHealthWide (G23): /health warns of a model whose wide passes the card gets wrong, together
// with its other warnings.
func TestHealthWide(t *testing.T) {
	//proves:G23
	for _, c := range []struct {
		proven map[string]bool
		heat   float64
		want   []string
	}{
		{nil, 40, nil},
		{map[string]bool{"wide": true}, 90, []string{monitor.HotWarning}},
		{map[string]bool{"wide": false}, 40, []string{ask.NoWidePasses}},
		{map[string]bool{"wide": false}, 90, []string{monitor.HotWarning, ask.NoWidePasses}},
	} {
		got := modelWarning(ask.Stats{Proven: c.proven, Temperature: c.heat})
		if got != strings.Join(c.want, "; ") {
			t.Errorf("%v at %v °C: %q", c.proven, c.heat, got)
		}
	}
}
